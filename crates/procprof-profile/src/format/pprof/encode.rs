//! A [`Profile`] to bytes of the message. Equal profiles give equal bytes.

use std::io::Write;

use flate2::Compression;
use flate2::write::GzEncoder;

use crate::format::pprof::{captured, sampling};
use crate::format::protobuf::Writer;
use crate::{
    Addresses, Error, Grammar, LabelValue, Location, LocationId, Profile, Result, Sample, Sampling, ValueType,
};

/// Encodes as a plain protobuf message. A profile as captured is adjusted by [`Grammar::Pprof`] first, so that every
/// reader of pprof files sees estimates and call sites.
///
/// # Errors
/// As [`Profile::adjusted`].
pub fn encode(profile: &Profile) -> Result<Vec<u8>> {
    if profile.is_adjusted() {
        return Ok(message(profile));
    }
    Ok(message(&profile.clone().adjusted(Grammar::Pprof)?))
}

/// Encodes as [`encode`] does and packs with gzip at its fastest level, the form in which pprof files are kept.
///
/// # Errors
/// As [`Profile::adjusted`].
pub fn encode_gzip(profile: &Profile) -> Result<Vec<u8>> {
    let plain = encode(profile)?;
    let mut packer = GzEncoder::new(Vec::with_capacity(plain.len() / 4), Compression::fast());
    let packed = packer.write_all(&plain).and_then(|()| packer.finish());
    packed.map_err(|error| Error::invalid(format!("gzip: {error}")))
}

fn message(profile: &Profile) -> Vec<u8> {
    let parts = profile.parts();
    let mut out = Writer::with_capacity(parts.stacks.len() * 2 + parts.locations.len() * 24 + parts.strings.len() * 16);
    let mut entry = Writer::default();
    for kind in &parts.sample_types {
        value_type(&mut entry, kind);
        flush(&mut out, 1, &mut entry);
    }
    let mut label = Writer::default();
    for one in profile.samples() {
        sample(&mut entry, &mut label, &one);
        flush(&mut out, 2, &mut entry);
    }
    mappings(&mut out, &mut entry, profile);
    let mut line = Writer::default();
    for (index, one) in parts.locations.iter().enumerate() {
        location(&mut entry, &mut line, profile, index, one);
        flush(&mut out, 4, &mut entry);
    }
    functions(&mut out, &mut entry, profile);
    for text in parts.strings.iter() {
        out.bytes(6, text.as_bytes());
    }
    header(&mut out, &mut entry, profile);
    out.into_bytes()
}

fn flush(out: &mut Writer, field: u32, entry: &mut Writer) {
    out.bytes(field, entry.as_bytes());
    entry.clear();
}

fn value_type(out: &mut Writer, kind: &ValueType) {
    out.number(1, kind.kind.0.into());
    out.number(2, kind.unit.0.into());
}

fn sample(out: &mut Writer, label: &mut Writer, sample: &Sample<'_>) {
    out.packed(1, sample.stack.iter().map(|id| u64::from(id.0) + 1));
    out.packed(2, sample.values.iter().map(|value| *value as u64));
    for one in sample.labels {
        label.number(1, one.key.0.into());
        // Written even when 0, so that an empty text and the number 0 stay what they are.
        match one.value {
            LabelValue::Text(text) => label.explicit_number(2, text.0.into()),
            LabelValue::Number(number, unit) => {
                label.explicit_number(3, number as u64);
                label.number(4, unit.0.into());
            }
        }
        flush(out, 3, label);
    }
    out.packed(1000, sample.raw_values.iter().map(|value| *value as u64));
}

fn mappings(out: &mut Writer, entry: &mut Writer, profile: &Profile) {
    for (index, mapping) in profile.mappings().iter().enumerate() {
        entry.number(1, index as u64 + 1);
        entry.number(2, mapping.start.0);
        entry.number(3, mapping.limit.0);
        entry.number(4, mapping.file_offset.0);
        entry.number(5, mapping.filename.0.into());
        entry.number(6, mapping.build_id.0.into());
        entry.number(7, mapping.has_functions.into());
        entry.number(8, mapping.has_filenames.into());
        entry.number(9, mapping.has_line_numbers.into());
        entry.number(10, mapping.has_inline_frames.into());
        flush(out, 3, entry);
    }
}

fn location(out: &mut Writer, entry: &mut Writer, profile: &Profile, index: usize, location: &Location) {
    out.number(1, index as u64 + 1);
    out.number(2, location.mapping.map_or(0, |id| u64::from(id.0) + 1));
    out.number(3, location.address.0);
    for line in profile.lines(LocationId(index as u32)) {
        entry.number(1, u64::from(line.function.0) + 1);
        entry.number(2, line.line as u64);
        entry.number(3, line.column as u64);
        flush(out, 4, entry);
    }
    out.number(5, location.is_folded.into());
    out.number(1000, location.is_return.into());
}

fn functions(out: &mut Writer, entry: &mut Writer, profile: &Profile) {
    for (index, function) in profile.functions().iter().enumerate() {
        entry.number(1, index as u64 + 1);
        entry.number(2, function.name.0.into());
        entry.number(3, function.system_name.0.into());
        entry.number(4, function.filename.0.into());
        entry.number(5, function.start_line as u64);
        flush(out, 5, entry);
    }
}

fn header(out: &mut Writer, entry: &mut Writer, profile: &Profile) {
    let parts = profile.parts();
    out.number(7, parts.drop_frames.0.into());
    out.number(8, parts.keep_frames.0.into());
    out.number(9, parts.time.0 as u64);
    out.number(10, parts.duration.0 as u64);
    if parts.period_type != ValueType::default() {
        value_type(entry, &parts.period_type);
        flush(out, 11, entry);
    }
    out.number(12, parts.period as u64);
    out.packed(13, parts.comments.iter().map(|id| u64::from(id.0)));
    out.number(14, parts.default_sample_type.0.into());
    out.number(15, parts.doc_url.0.into());
    let (kind, rate) = match parts.sampling {
        Sampling::Exact => (0, 0),
        Sampling::Poisson(rate) => (sampling::POISSON, rate),
        Sampling::Linear(rate) => (sampling::LINEAR, rate),
    };
    out.number(1000, kind as u64);
    out.number(1001, rate as u64);
    out.number(1002, captured_kind(parts.captured) as u64);
}

fn captured_kind(captured: Addresses) -> i64 {
    match captured {
        Addresses::CallSite => 0,
        Addresses::RawCpu => captured::RAW_CPU,
        Addresses::RawReturn => captured::RAW_RETURN,
    }
}
