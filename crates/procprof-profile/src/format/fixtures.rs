//! For tests: the recorded profiles of `testdata/formats`, and what is checked of every one of them.

use std::fmt::Write;
use std::path::{Path, PathBuf};

use super::go_raw::Raw;
use super::{Decoded, FORMATS, Limits, decode};
use crate::{Grammar, LabelValue, Profile};

pub(crate) fn path(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../testdata/formats").join(name)
}

pub(crate) fn bytes(name: &str) -> Vec<u8> {
    let path = path(name);
    std::fs::read(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

pub(crate) fn decoded(bytes: &[u8]) -> Decoded {
    decode(bytes, &Limits::default()).unwrap()
}

/// The error of an input, or else all warnings about it.
pub(crate) fn complaint(bytes: &[u8]) -> String {
    match decode(bytes, &Limits::default()) {
        Ok(decoded) => decoded.warnings.join("; "),
        Err(error) => error.to_string(),
    }
}

pub(crate) fn error(bytes: &[u8]) -> String {
    decode(bytes, &Limits::default()).unwrap_err().to_string()
}

/// Decodes a fixture, compares it with its `.expect`, and tries what is cut off or changed.
pub(crate) fn check(name: &str, format: &str) -> Decoded {
    let bytes = bytes(name);
    let decoded = decoded(&bytes);
    assert_eq!(decoded.format, format, "{name}");
    check_expected(name, &describe(&decoded));
    check_hostile(&bytes);
    decoded
}

/// [`check`], and that pprof reads the same but for names in comments, which it passes over.
pub(crate) fn check_with_go_unnamed(name: &str, format: &str) -> Decoded {
    let decoded = check(name, format);
    let mut parts = decoded.profile.clone().into_parts();
    parts.locations.iter_mut().for_each(|location| (location.lines_start, location.lines_end) = (0, 0));
    parts.lines.clear();
    let adjusted = parts.finish().unwrap().adjusted(Grammar::Pprof).unwrap();
    assert_eq!(Raw::from_profile(&adjusted), Raw::of_go(&path(name)), "{name}");
    decoded
}

/// [`check`], and that pprof reads the same.
pub(crate) fn check_with_go(name: &str, format: &str) -> Decoded {
    let decoded = check(name, format);
    let adjusted = decoded.profile.clone().adjusted(Grammar::Pprof).unwrap();
    assert_eq!(Raw::from_profile(&adjusted), Raw::of_go(&path(name)), "{name}");
    decoded
}

fn check_expected(name: &str, text: &str) {
    let path = path(&format!("{name}.expect"));
    if std::env::var_os("UPDATE_EXPECT").is_some() {
        std::fs::write(&path, text).unwrap();
    }
    let expected = std::fs::read_to_string(&path).unwrap_or_default();
    assert_eq!(text, expected, "{}: run with UPDATE_EXPECT=1 and read the difference", path.display());
}

/// Every prefix, and some hundred changes of single bytes and removals of ranges: all must decode or err, by the
/// decoder they are for, and some of them by every other.
pub(crate) fn check_hostile(bytes: &[u8]) {
    let whole = &bytes[..bytes.len().min(1024)];
    let own = super::detect(bytes);
    let mut tries = 0;
    let mut decode_with_all = |bytes: &[u8]| {
        tries += 1;
        decode_with(bytes, if tries % 16 == 0 { None } else { own });
    };
    for end in 0..whole.len() {
        decode_with_all(&whole[..end]);
    }
    let mut seed = 0x9e37_79b9_7f4a_7c15u64;
    let mut random = |below: usize| {
        seed ^= seed << 13;
        seed ^= seed >> 7;
        seed ^= seed << 17;
        (seed % below as u64) as usize
    };
    for _ in 0..150 {
        let mut changed = whole.to_vec();
        for _ in 0..=random(3) {
            let at = random(changed.len());
            changed[at] = [random(256) as u8, b'0', b'9', b'f', b'-', b' ', b'\n', b':', 0, 0xff][random(10)];
        }
        decode_with_all(&changed);
        let from = random(changed.len());
        let to = from + random(changed.len() - from);
        changed.drain(from..to);
        decode_with_all(&changed);
    }
}

/// Decodes by one format, or by all.
fn decode_with(bytes: &[u8], only: Option<&str>) {
    for format in FORMATS.iter().filter(|format| only.is_none_or(|only| format.name == only)) {
        (format.detect)(bytes);
        if let Ok(profile) = (format.decode)(bytes, &Limits::default(), &mut Vec::new()) {
            drop(profile.adjusted(Grammar::Pprof).unwrap());
        }
    }
}

/// The whole profile as text.
fn describe(decoded: &Decoded) -> String {
    let profile = &decoded.profile;
    let mut text = format!("format: {}\n", decoded.format);
    for warning in &decoded.warnings {
        writeln!(text, "warning: {warning}").unwrap();
    }
    for comment in profile.comments() {
        writeln!(text, "comment: {comment}").unwrap();
    }
    let types: Vec<_> = (0..profile.sample_types().len()).map(|index| profile.sample_type(index)).collect();
    writeln!(text, "types: {types:?}, default {:?}", types[profile.default_sample_type()].0).unwrap();
    let kind = profile.period_type();
    writeln!(text, "period: {} {}/{}", profile.period(), profile.string(kind.kind), profile.string(kind.unit)).unwrap();
    writeln!(text, "duration: {}", profile.duration().0).unwrap();
    writeln!(text, "values: {:?}, addresses: {:?}", profile.sampling(), profile.addresses()).unwrap();
    for sample in profile.samples() {
        let stack: Vec<_> = sample.stack.iter().map(|id| id.0).collect();
        let labels: Vec<_> = sample.labels.iter().map(|label| describe_label(profile, label)).collect();
        writeln!(text, "{:?} {stack:?} {}", sample.values, labels.join(" ")).unwrap();
    }
    for (index, location) in profile.locations().iter().enumerate() {
        let lines = profile.lines(crate::LocationId(index as u32)).iter().map(|line| {
            let function = profile.function(line.function);
            format!(" {} {}:{}", profile.string(function.name), profile.string(function.filename), line.line)
        });
        let mapping = location.mapping.map(|mapping| mapping.0);
        writeln!(text, "location {index}: {:#x} {mapping:?}{}", location.address, lines.collect::<String>()).unwrap();
    }
    for m in profile.mappings() {
        let flags = (m.has_functions, m.has_inline_frames);
        let file = (profile.string(m.filename), profile.string(m.build_id));
        writeln!(text, "mapping: {:#x} {:#x} {:#x} {file:?} {flags:?}", m.start, m.limit, m.file_offset).unwrap();
    }
    text.lines().map(|line| format!("{}\n", line.trim_end())).collect()
}

fn describe_label(profile: &Profile, label: &crate::Label) -> String {
    match label.value {
        LabelValue::Text(value) => format!("{}={:?}", profile.string(label.key), profile.string(value)),
        LabelValue::Number(value, unit) => format!("{}={value}{}", profile.string(label.key), profile.string(unit)),
    }
}
