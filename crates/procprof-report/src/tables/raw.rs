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

use crate::display::labels::{Keyed, Kind, by_key};
use crate::display::moment;
use crate::display::text::one_line;
use crate::output::Output;
use crate::selection::Selection;
use crate::selection::view::View;
use crate::{Options, Result, Sources};

pub(crate) fn render(view: &View<'_>, options: &Options, _sources: &Sources, out: &mut Output<'_>) -> Result<()> {
    let selection = Selection::new(&view.profile, options)?;
    let profile = selection.profile();
    push_head(out, profile)?;
    for sample in profile.samples() {
        push_sample(out, profile, &sample)?;
    }
    out.text.push_str("Locations\n");
    for index in 0..profile.locations().len() {
        push_location(out, profile, LocationId(index as u32))?;
    }
    out.text.push_str("Mappings\n");
    if profile.mappings().is_empty() {
        // The one that pprof invents for all locations.
        push_mapping(&mut out.text, profile, 1, &Mapping::default());
    }
    for (index, mapping) in profile.mappings().iter().enumerate() {
        push_mapping(&mut out.text, profile, index + 1, mapping);
        out.drain()?;
    }
    Ok(())
}

fn push_head(out: &mut Output<'_>, profile: &Profile) -> Result<()> {
    for comment in profile.comments() {
        let _ = writeln!(out.text, "Comment: {}", one_line(comment));
        out.drain()?;
    }
    let text = |id: StringId| one_line(profile.string(id));
    push_times(&mut out.text, profile);
    let default = profile.string(profile.parts().default_sample_type);
    out.text.push_str("Samples:\n");
    for (index, kind) in profile.sample_types().iter().enumerate() {
        let mark = if profile.string(kind.kind) == default { "[dflt]" } else { "" };
        let _ = write!(out.text, "{}{}/{}{mark}", if index == 0 { "" } else { " " }, text(kind.kind), text(kind.unit));
        out.drain()?;
    }
    out.text.push('\n');
    Ok(())
}

fn push_times(out: &mut String, profile: &Profile) {
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
}

fn push_sample(out: &mut Output<'_>, profile: &Profile, sample: &Sample<'_>) -> Result<()> {
    for value in sample.values {
        let _ = write!(out.text, " {value:>10}");
        out.drain()?;
    }
    out.text.push_str(": ");
    for location in sample.stack {
        let _ = write!(out.text, "{} ", location.index() + 1);
        out.drain()?;
    }
    out.text.push('\n');
    for kind in [Kind::Texts, Kind::Numbers] {
        let labels = by_key(profile, sample, kind, 0, ":[");
        let is_empty = labels.is_empty();
        for (index, keyed) in labels.into_iter().enumerate() {
            out.text.push_str(if index == 0 { "                " } else { " " });
            push_label(out, profile, &keyed)?;
        }
        out.text.push_str(if is_empty { "" } else { "\n" });
    }
    Ok(())
}

/// `key:[value value]`; numbers with their units if one of them has any.
fn push_label(out: &mut Output<'_>, profile: &Profile, Keyed { key, values, .. }: &Keyed) -> Result<()> {
    let text = |id: StringId| one_line(profile.string(id));
    let has_units =
        values.iter().any(|value| matches!(value, LabelValue::Number(_, unit) if !profile.string(*unit).is_empty()));
    let _ = write!(out.text, "{}:[", text(*key));
    for (index, value) in values.iter().enumerate() {
        out.text.push_str(if index == 0 { "" } else { " " });
        let _ = match *value {
            LabelValue::Text(value) => write!(out.text, "{}", text(value)),
            LabelValue::Number(number, unit) if has_units => write!(out.text, "{number} {}", text(unit)),
            LabelValue::Number(number, _) => write!(out.text, "{number}"),
        };
        out.drain()?;
    }
    out.text.push(']');
    Ok(())
}

fn push_location(out: &mut Output<'_>, profile: &Profile, id: LocationId) -> Result<()> {
    let location = profile.location(id);
    let _ = write!(out.text, "{:>6}: {:#x} ", id.index() + 1, location.address.0);
    if let Some(mapping) = location.mapping {
        let _ = write!(out.text, "M={} ", mapping.index() + 1);
    } else if profile.mappings().is_empty() {
        out.text.push_str("M=1 ");
    }
    if location.is_folded {
        out.text.push_str("[F] ");
    }
    for (depth, line) in profile.lines(id).iter().enumerate() {
        let function = profile.function(line.function);
        let text = |id: StringId| one_line(profile.string(id));
        let indent = if depth == 0 { "" } else { "\n             " };
        let (name, filename) = (text(function.name), text(function.filename));
        let _ = write!(out.text, "{indent}{name} {filename}:{}:{} s={}", line.line, line.column, function.start_line);
        if profile.string(function.name) != profile.string(function.system_name) {
            let _ = write!(out.text, "({})", text(function.system_name));
        }
        out.drain()?;
    }
    out.text.push('\n');
    out.drain()
}

fn push_mapping(out: &mut String, profile: &Profile, number: usize, mapping: &Mapping) {
    let text = |id: StringId| one_line(profile.string(id));
    let (start, limit, offset) = (mapping.start.0, mapping.limit.0, mapping.file_offset.0);
    let _ = write!(
        out,
        "{number}: {start:#x}/{limit:#x}/{offset:#x} {} {} ",
        text(mapping.filename),
        text(mapping.build_id)
    );
    let has = [
        (mapping.has_functions, "[FN]"),
        (mapping.has_filenames, "[FL]"),
        (mapping.has_line_numbers, "[LN]"),
        (mapping.has_inline_frames, "[IN]"),
    ];
    has.iter().filter(|(has, _)| *has).for_each(|(_, mark)| out.push_str(mark));
    out.push('\n');
}
