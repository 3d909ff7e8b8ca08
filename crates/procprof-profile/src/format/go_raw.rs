//! For tests: a profile as `go tool pprof -raw` prints it, in a form that can be compared.
//!
//! pprof merges equal samples, drops those with only zeros, and renumbers locations; so each sample becomes one line of
//! text (labels, frames with their mappings), and the values of equal lines are summed.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;

use crate::{Addr, Label, LabelValue, LocationId, Profile};

/// Sample types, period, and values by sample.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Raw {
    pub(crate) sample_types: Vec<String>,
    pub(crate) period: String,
    pub(crate) samples: BTreeMap<String, Vec<i64>>,
}

impl Raw {
    fn add(&mut self, sample: String, values: &[i64]) {
        if values.iter().all(|value| *value == 0) {
            return;
        }
        let sums = self.samples.entry(sample).or_insert_with(|| vec![0; values.len()]);
        sums.iter_mut().zip(values).for_each(|(sum, value)| *sum += value);
    }

    /// The output of pprof for this file.
    pub(crate) fn of_go(file: &Path) -> Raw {
        let output = pprof().args(["-raw", "-symbolize=none"]).arg(file).output().expect("pprof can be started");
        assert!(
            output.status.success(),
            "go tool pprof -raw {}: {}",
            file.display(),
            String::from_utf8_lossy(&output.stderr)
        );
        Raw::parse(&String::from_utf8(output.stdout).unwrap())
    }

    /// Reads the text of `go tool pprof -raw`.
    pub(crate) fn parse(text: &str) -> Raw {
        let (head, rest) = text.split_once("Samples:\n").unwrap();
        let (samples, rest) = rest.split_once("Locations\n").unwrap();
        let (locations, mappings) = rest.split_once("Mappings\n").unwrap();
        let mappings: BTreeMap<&str, String> =
            mappings.lines().filter_map(|line| line.split_once(": ")).map(|(id, m)| (id, words(m))).collect();
        let mut named: BTreeMap<&str, String> = BTreeMap::new();
        let mut last = "";
        for line in locations.lines() {
            match line
                .trim()
                .split_once(": ")
                .filter(|(id, _)| !id.is_empty() && id.bytes().all(|byte| byte.is_ascii_digit()))
            {
                Some((id, location)) => {
                    last = id;
                    named.insert(id, with_mapping(location, &mappings));
                }
                None => named.get_mut(last).unwrap().push_str(&format!(" < {}", words(line))),
            }
        }
        let period = head.lines().filter(|line| line.starts_with("Period")).collect::<Vec<_>>().join(" ");
        let mut lines = samples.lines().peekable();
        let types = lines.next().unwrap();
        let sample_types = types.split_whitespace().map(|kind| kind.trim_end_matches("[dflt]").to_owned()).collect();
        let mut raw = Raw { sample_types, period, ..Raw::default() };
        while let Some(line) = lines.next() {
            let (values, stack) = line.split_once(':').unwrap();
            let values: Vec<i64> = values.split_whitespace().map(|value| value.parse().unwrap()).collect();
            let frames: Vec<&str> = stack.split_whitespace().map(|id| named[id].as_str()).collect();
            let labels = lines.next_if(|line| line.starts_with("                ")).map_or("", str::trim);
            raw.add(format!("{labels} | {}", frames.join(" | ")), &values);
        }
        raw
    }

    /// The same from an adjusted profile.
    pub(crate) fn from_profile(profile: &Profile) -> Raw {
        let sample_types = (0..profile.sample_types().len()).map(|index| {
            let (kind, unit) = profile.sample_type(index);
            format!("{kind}/{unit}")
        });
        let kind = profile.period_type();
        let period = format!(
            "PeriodType: {} {} Period: {}",
            profile.string(kind.kind),
            profile.string(kind.unit),
            profile.period()
        );
        let mut raw = Raw { sample_types: sample_types.collect(), period, ..Raw::default() };
        for sample in profile.samples() {
            let frames: Vec<String> = sample.stack.iter().map(|id| location(profile, *id)).collect();
            let label = |label: &Label| match label.value {
                LabelValue::Text(text) => format!("{}:[{}]", profile.string(label.key), profile.string(text)),
                LabelValue::Number(number, _) => format!("{}:[{number}]", profile.string(label.key)),
            };
            let labels: Vec<String> = sample.labels.iter().map(label).collect();
            raw.add(format!("{} | {}", labels.join(" "), frames.join(" | ")), sample.values);
        }
        raw
    }
}

/// The program behind `go tool pprof`. `go` needs ten times as long to find it as it needs for most profiles.
fn pprof() -> Command {
    static PROGRAM: OnceLock<PathBuf> = OnceLock::new();
    let program = PROGRAM.get_or_init(|| {
        let found = Command::new("go").args(["tool", "-n", "pprof"]).output();
        let found = found.expect("`go` must be installed for this test");
        assert!(found.status.success(), "go tool -n pprof: {}", String::from_utf8_lossy(&found.stderr));
        PathBuf::from(String::from_utf8(found.stdout).unwrap().trim_end())
    });
    Command::new(program)
}

fn words(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

/// `0x1234 M=1 name …` with the mapping in place of its number.
fn with_mapping(location: &str, mappings: &BTreeMap<&str, String>) -> String {
    let (address, rest) = location.split_once(' ').unwrap();
    let number = rest.trim().split(' ').next().and_then(|word| word.strip_prefix("M="));
    let mapping = number.map_or("none", |number| mappings[number].as_str());
    // Given by the command to profiles that have no mapping at all.
    let mapping = if mapping == "0x0/0x0/0x0" { "none" } else { mapping };
    let names = number.map_or(rest, |number| &rest.trim()[2 + number.len()..]);
    words(&format!("{address} in {mapping} {names}"))
}

fn location(profile: &Profile, id: LocationId) -> String {
    let location = profile.location(id);
    let mapping = match location.mapping.map(|mapping| profile.mapping(mapping)) {
        Some(m) => {
            format!(
                "{:#x}/{:#x}/{:#x} {} {}",
                m.start,
                m.limit,
                m.file_offset,
                profile.string(m.filename),
                profile.string(m.build_id)
            )
        }
        // pprof invents a mapping for every address that lies in none.
        None if location.address != Addr(0) => "0x0/0xffffffffffffffff/0x0".to_owned(),
        None => "none".to_owned(),
    };
    let lines = profile.lines(id).iter().map(|line| {
        let function = profile.function(line.function);
        let (name, file) = (profile.string(function.name), profile.string(function.filename));
        format!("{name} {file}:{}:{} s={}", line.line, line.column, function.start_line)
    });
    words(&format!("{:#x} in {mapping} {}", location.address, lines.collect::<Vec<_>>().join(" < ")))
}
