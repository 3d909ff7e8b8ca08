//! `raw`: all tables of a profile as text, in the shape of `go tool pprof -raw`. Values are as they are.
//!
//! ```text
//! PeriodType: cpu nanoseconds
//! Period: 10000000
//! Samples:
//! samples/count cpu/nanoseconds
//!          61  610000000: 1 2
//! Locations
//!      1: 0x46b2d0 M=1 hot_70 /src/main.go:30:0 s=28
//! Mappings
//! 1: 0x400000/0x4d9000/0x0 /usr/bin/server 0123abcd [FN][FL][LN]
//! ```

use std::fmt::Write;

use procprof_profile::{LabelValue, LocationId, Mapping, Profile, Sample, StringId};

use crate::moment;
use crate::selection::Selection;
use crate::text::one_line;
use crate::view::View;
use crate::{Options, Result, Sources};

pub(crate) fn render(view: &View<'_>, options: &Options, _sources: &Sources) -> Result<Vec<u8>> {
    let selection = Selection::new(&view.profile, options)?;
    let profile = selection.profile();
    let mut out = String::new();
    push_head(&mut out, profile);
    for sample in profile.samples() {
        push_sample(&mut out, profile, &sample);
    }
    out.push_str("Locations\n");
    for index in 0..profile.locations().len() {
        push_location(&mut out, profile, LocationId(index as u32));
    }
    out.push_str("Mappings\n");
    if profile.mappings().is_empty() {
        // The one that pprof makes up for all locations.
        push_mapping(&mut out, profile, 1, &Mapping::default());
    }
    for (index, mapping) in profile.mappings().iter().enumerate() {
        push_mapping(&mut out, profile, index + 1, mapping);
    }
    Ok(out.into_bytes())
}

fn push_head(out: &mut String, profile: &Profile) {
    for comment in profile.comments() {
        let _ = writeln!(out, "Comment: {}", one_line(comment));
    }
    let text = |id: StringId| one_line(profile.string(id));
    let doc_url = text(profile.parts().doc_url);
    if !doc_url.is_empty() {
        let _ = writeln!(out, "Doc: {doc_url}");
    }
    let period_type = profile.period_type();
    let _ = writeln!(out, "PeriodType: {} {}", text(period_type.kind), text(period_type.unit));
    let _ = writeln!(out, "Period: {}", profile.period());
    if profile.time().0 != 0 {
        let _ = writeln!(out, "Time: {}", moment::utc_nanos(profile.time()));
    }
    if profile.duration().0 != 0 {
        let duration: String = moment::duration(profile.duration()).chars().take(4).collect();
        let _ = writeln!(out, "Duration: {duration}");
    }
    let default = profile.string(profile.parts().default_sample_type);
    let types = profile.sample_types().iter().map(|kind| {
        let mark = if profile.string(kind.kind) == default { "[dflt]" } else { "" };
        format!("{}/{}{mark}", text(kind.kind), text(kind.unit))
    });
    let _ = writeln!(out, "Samples:\n{}", types.collect::<Vec<_>>().join(" "));
}

fn push_sample(out: &mut String, profile: &Profile, sample: &Sample<'_>) {
    for value in sample.values {
        let _ = write!(out, " {value:>10}");
    }
    out.push_str(": ");
    for location in sample.stack {
        let _ = write!(out, "{} ", location.index() + 1);
    }
    out.push('\n');
    for lines in [texts(profile, sample), numbers(profile, sample)] {
        if !lines.is_empty() {
            let _ = writeln!(out, "                {}", one_line(&lines.join(" ")));
        }
    }
}

/// The keys that a sample's labels of some kind have, in order.
pub(crate) fn keys(sample: &Sample<'_>, profile: &Profile, is_text: bool) -> Vec<StringId> {
    let mut keys: Vec<StringId> = Vec::new();
    for label in sample.labels.iter().filter(|label| matches!(label.value, LabelValue::Text(_)) == is_text) {
        if !keys.contains(&label.key) {
            keys.push(label.key);
        }
    }
    keys.sort_by(|a, b| profile.string(*a).cmp(profile.string(*b)));
    keys
}

fn texts(profile: &Profile, sample: &Sample<'_>) -> Vec<String> {
    let mut all: Vec<String> = Vec::new();
    for key in keys(sample, profile, true) {
        let values = sample.labels.iter().filter(|label| label.key == key).filter_map(|label| match label.value {
            LabelValue::Text(text) => Some(profile.string(text)),
            LabelValue::Number(..) => None,
        });
        all.push(format!("{}:[{}]", profile.string(key), values.collect::<Vec<_>>().join(" ")));
    }
    all.sort_unstable();
    all
}

fn numbers(profile: &Profile, sample: &Sample<'_>) -> Vec<String> {
    let mut all: Vec<String> = Vec::new();
    for key in keys(sample, profile, false) {
        let values = sample.labels.iter().filter(|label| label.key == key).filter_map(|label| match label.value {
            LabelValue::Number(number, unit) => Some((number, profile.string(unit))),
            LabelValue::Text(_) => None,
        });
        let values: Vec<(i64, &str)> = values.collect();
        let has_units = values.iter().any(|(_, unit)| !unit.is_empty());
        let values: Vec<String> =
            values.iter().map(|(number, unit)| if has_units { format!("{number} {unit}") } else { number.to_string() }).collect();
        all.push(format!("{}:[{}]", profile.string(key), values.join(" ")));
    }
    all.sort_unstable();
    all
}

fn push_location(out: &mut String, profile: &Profile, id: LocationId) {
    let location = profile.location(id);
    let _ = write!(out, "{:>6}: {:#x} ", id.index() + 1, location.address.0);
    if let Some(mapping) = location.mapping {
        let _ = write!(out, "M={} ", mapping.index() + 1);
    } else if profile.mappings().is_empty() {
        out.push_str("M=1 ");
    }
    if location.is_folded {
        out.push_str("[F] ");
    }
    for (depth, line) in profile.lines(id).iter().enumerate() {
        let function = profile.function(line.function);
        let text = |id: StringId| one_line(profile.string(id));
        let indent = if depth == 0 { "" } else { "\n             " };
        let (name, filename) = (text(function.name), text(function.filename));
        let _ = write!(out, "{indent}{name} {filename}:{}:{} s={}", line.line, line.column, function.start_line);
        if profile.string(function.name) != profile.string(function.system_name) {
            let _ = write!(out, "({})", text(function.system_name));
        }
    }
    out.push('\n');
}

fn push_mapping(out: &mut String, profile: &Profile, number: usize, mapping: &Mapping) {
    let text = |id: StringId| one_line(profile.string(id));
    let (start, limit, offset) = (mapping.start.0, mapping.limit.0, mapping.file_offset.0);
    let _ = write!(out, "{number}: {start:#x}/{limit:#x}/{offset:#x} {} {} ", text(mapping.filename), text(mapping.build_id));
    let has = [
        (mapping.has_functions, "[FN]"),
        (mapping.has_filenames, "[FL]"),
        (mapping.has_line_numbers, "[LN]"),
        (mapping.has_inline_frames, "[IN]"),
    ];
    has.iter().filter(|(has, _)| *has).for_each(|(_, mark)| out.push_str(mark));
    out.push('\n');
}
