//! Writes a sampled profile for each sample type.

use std::fmt::Write;

use crate::format::json::push_text;
use crate::format::named_frames::NamedFrames;
use crate::{Error, Meta, Profile, Result};

/// Encodes all sample types, the default one active.
///
/// # Errors
/// [`Error::Incompatible`] for values below 0, which the format does not have.
pub fn encode(profile: &Profile) -> Result<Vec<u8>> {
    if profile.samples().any(|sample| sample.values.iter().any(|value| *value < 0)) {
        return Err(Error::Incompatible("speedscope has no values below 0, such as those of a difference".to_owned()));
    }
    let frames = NamedFrames::new(profile);
    let mut out =
        String::from("{\"$schema\":\"https://www.speedscope.app/file-format-schema.json\",\"exporter\":\"procprof\",");
    push_comments(&mut out, profile);
    let _ = write!(out, "\"activeProfileIndex\":{},\"shared\":{{\"frames\":[", profile.default_sample_type());
    for (index, frame) in frames.iter().enumerate() {
        out.push_str(if index == 0 { "{\"name\":" } else { ",\n{\"name\":" });
        push_text(&mut out, &frame.name);
        if !frame.file.is_empty() {
            out.push_str(",\"file\":");
            push_text(&mut out, frame.file);
        }
        for (key, number) in [("line", frame.line), ("col", frame.column)] {
            if number > 0 {
                let _ = write!(out, ",\"{key}\":{number}");
            }
        }
        out.push('}');
    }
    out.push_str("]},\"profiles\":[");
    for index in 0..profile.sample_types().len() {
        out.push_str(if index == 0 { "\n" } else { ",\n" });
        push_profile(&mut out, profile, index, &frames);
    }
    out.push_str("]}\n");
    Ok(out.into_bytes())
}

/// The comments of the profile as the file's name, which viewers show as a title: the format has no comments.
fn push_comments(out: &mut String, profile: &Profile) {
    let comments: Vec<&str> = profile.comments().filter(|comment| !Meta::is_fact(comment)).collect();
    if !comments.is_empty() {
        out.push_str("\"name\":");
        push_text(out, &comments.join("; "));
        out.push(',');
    }
}

fn push_profile(out: &mut String, profile: &Profile, index: usize, frames: &NamedFrames<'_>) {
    let (kind, unit) = profile.sample_type(index);
    let is_known = super::UNITS.iter().any(|known| known.name == unit);
    out.push_str("{\"type\":\"sampled\",\"name\":");
    push_text(out, kind);
    let unit = if is_known { unit } else { "none" };
    let _ = write!(out, ",\"unit\":\"{unit}\",\"startValue\":0,\"endValue\":{},\"samples\":[", profile.total(index));
    let weighted = || profile.samples().filter(|sample| sample.values[index] != 0);
    for (position, sample) in weighted().enumerate() {
        out.push_str(if position == 0 { "[" } else { ",[" });
        for (position, frame) in frames.numbers(sample.stack).enumerate() {
            let _ = write!(out, "{}{frame}", if position == 0 { "" } else { "," });
        }
        out.push(']');
    }
    out.push_str("],\"weights\":[");
    for (position, sample) in weighted().enumerate() {
        let _ = write!(out, "{}{}", if position == 0 { "" } else { "," }, sample.values[index]);
    }
    out.push_str("]}");
}
