//! The contents of a profile with all ids resolved, to compare two of them.

use procprof_profile::{LabelValue, LocationId, Mapping, Profile};

/// A profile without ids.
#[derive(Debug, Default)]
pub(crate) struct Facts {
    /// Period, duration, sample types, comments: one line each, as in the text.
    pub(crate) header: Vec<String>,
    pub(crate) samples: Vec<SampleFacts>,
}

/// A sample without ids.
#[derive(Debug, Default, PartialEq)]
pub(crate) struct SampleFacts {
    pub(crate) values: Vec<i64>,
    /// Address, mapping and lines of each frame, leaf first.
    pub(crate) stack: Vec<FrameFacts>,
    /// `key:[values]`, sorted.
    pub(crate) labels: Vec<String>,
}

/// A location without ids.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct FrameFacts {
    pub(crate) address: u64,
    /// `start/limit/offset file build-id`; empty for none, and for the one that google/pprof invents if there is none.
    pub(crate) mapping: String,
    /// `function file:line:column s=start(system name)`.
    pub(crate) lines: Vec<String>,
}

/// The mapping that google/pprof invents for locations outside all others.
pub(crate) const MADE_UP: &str = "0x0/0xffffffffffffffff/0x0";

impl Facts {
    pub(crate) fn from_profile(profile: &Profile) -> Facts {
        let samples = profile.samples().map(|sample| SampleFacts {
            values: sample.values.to_vec(),
            stack: sample.stack.iter().map(|id| frame(profile, *id)).collect(),
            labels: labels(profile, sample.labels),
        });
        Facts { header: header(profile), samples: samples.collect() }
    }

    /// The differences, each as a sentence.
    pub(crate) fn differences(&self, found: &Facts) -> Vec<String> {
        let mut differences = Vec::new();
        if self.header != found.header {
            differences.push(format!("expected the header {:?}, found {:?}", self.header, found.header));
        }
        if self.samples.len() != found.samples.len() {
            differences.push(format!("expected {} samples, found {}", self.samples.len(), found.samples.len()));
        }
        for (index, (expected, found)) in self.samples.iter().zip(&found.samples).enumerate() {
            expected.add_differences(found, index, &mut differences);
        }
        differences
    }
}

impl SampleFacts {
    fn add_differences(&self, found: &SampleFacts, index: usize, differences: &mut Vec<String>) {
        if self.values != found.values {
            differences.push(format!("sample {index}: expected values {:?}, found {:?}", self.values, found.values));
        }
        if self.labels != found.labels {
            differences.push(format!("sample {index}: expected labels {:?}, found {:?}", self.labels, found.labels));
        }
        if self.stack.len() != found.stack.len() {
            differences.push(format!(
                "sample {index}: expected {} frames, found {}",
                self.stack.len(),
                found.stack.len()
            ));
        }
        if let Some((expected, found)) = self.stack.iter().zip(&found.stack).find(|(expected, found)| expected != found)
        {
            differences.push(format!("sample {index}: expected frame {expected:x?}, found {found:x?}"));
        }
    }
}

fn header(profile: &Profile) -> Vec<String> {
    let mut header: Vec<String> = profile.comments().map(|comment| format!("Comment: {comment}")).collect();
    let period_type = profile.period_type();
    header.push(format!("PeriodType: {} {}", profile.string(period_type.kind), profile.string(period_type.unit)));
    header.push(format!("Period: {}", profile.period()));
    if profile.time().0 != 0 {
        header.push("Time".to_owned());
    }
    if profile.duration().0 != 0 {
        header.push(format!("Duration: {}", go_duration(profile.duration().0)));
    }
    let named = profile.parts().default_sample_type;
    let types = profile.sample_types().iter().map(|kind| {
        let default = if kind.kind == named { "[dflt]" } else { "" };
        format!("{}/{}{default}", profile.string(kind.kind), profile.string(kind.unit))
    });
    header.push(types.collect::<Vec<_>>().join(" "));
    header
}

fn frame(profile: &Profile, id: LocationId) -> FrameFacts {
    let location = profile.location(id);
    let lines = profile.lines(id).iter().map(|line| {
        let function = profile.function(line.function);
        let (name, system_name) = (profile.string(function.name), profile.string(function.system_name));
        let linked = if name == system_name { String::new() } else { format!("({system_name})") };
        format!(
            "{name} {}:{}:{} s={}{linked}",
            profile.string(function.filename),
            line.line,
            line.column,
            function.start_line
        )
    });
    let mapping = location.mapping.map_or(String::new(), |id| mapping(profile, profile.mapping(id)));
    FrameFacts { address: location.address.0, mapping, lines: lines.collect() }
}

fn mapping(profile: &Profile, mapping: &Mapping) -> String {
    let range = format!("{:#x}/{:#x}/{:#x}", mapping.start, mapping.limit, mapping.file_offset);
    let text = format!("{range} {} {}", profile.string(mapping.filename), profile.string(mapping.build_id));
    let text = text.trim_end();
    if text == MADE_UP { String::new() } else { text.to_owned() }
}

fn labels(profile: &Profile, labels: &[procprof_profile::Label]) -> Vec<String> {
    let mut keys: Vec<(bool, &str, Vec<String>)> = Vec::new();
    for label in labels {
        let (is_number, value) = match label.value {
            LabelValue::Text(text) => (false, profile.string(text).to_owned()),
            LabelValue::Number(number, unit) => {
                (true, format!("{number} {}", profile.string(unit)).trim_end().to_owned())
            }
        };
        let key = profile.string(label.key);
        match keys.iter_mut().find(|known| (known.0, known.1) == (is_number, key)) {
            Some(known) => known.2.push(value),
            None => keys.push((is_number, key, vec![value])),
        }
    }
    let mut labels: Vec<String> =
        keys.into_iter().map(|(_, key, values)| format!("{key}:[{}]", values.join(" "))).collect();
    labels.sort();
    labels
}

/// A duration as `%.4v` prints it in Go: the first four characters, such as `4h35`.
fn go_duration(nanos: i64) -> String {
    let seconds = nanos / 1_000_000_000;
    let fraction = format!("{:09}", nanos % 1_000_000_000);
    let fraction = fraction.trim_end_matches('0');
    let point = if fraction.is_empty() { "" } else { "." };
    let (hours, minutes, left) = (seconds / 3600, seconds / 60 % 60, seconds % 60);
    let text = match (hours, minutes) {
        (0, 0) => format!("{left}{point}{fraction}s"),
        (0, _) => format!("{minutes}m{left}{point}{fraction}s"),
        _ => format!("{hours}h{minutes}m{left}{point}{fraction}s"),
    };
    text.chars().take(4).collect()
}
