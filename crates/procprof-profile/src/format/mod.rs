//! Every format procprof reads or writes: one row of [`FORMATS`] each.
//!
//! [`decode`] unpacks what is packed (`packing`), asks each row whether the bytes are its own, and decodes with the
//! first that says yes. "Not mine" and "mine but broken" are different answers: once a format has recognised its input,
//! its error is the answer.

pub mod bpftrace;
mod call_tree;
pub mod callgrind;
pub mod chrome_trace;
pub mod collapsed;
pub mod contention;
pub mod cpuprofile;
mod detect;
mod detected_input;
pub mod dhat;
mod events;
pub mod firefox;
#[cfg(test)]
pub(crate) mod fixtures;
pub mod flame_html;
pub mod flame_svg;
mod foreign;
mod go_comments;
pub mod go_count;
mod go_labels;
#[cfg(test)]
pub(crate) mod go_raw;
pub mod goroutines;
pub mod gperftools_cpu;
pub mod heap_text;
pub mod heapprofile;
pub mod instruments;
pub mod java;
pub mod jemalloc;
pub mod jfr;
mod json;
#[cfg(test)]
mod laws;
mod left_out;
pub mod legacy_frames;
pub mod massif;
pub mod mojo;
mod named_frames;
pub mod otlp;
mod packing;
pub mod perf_data;
pub mod perf_script;
pub mod pprof;
mod protobuf;
pub mod pstats;
mod raw_stacks;
pub mod speedscope;
mod stack_lines;
pub mod stackprof;
mod stated_unit;
pub mod symbolized;
pub mod thread_dump;
pub mod threadz;
mod v8;
mod valgrind_frame;
mod words;

use std::borrow::Cow;

pub use self::detect::Detect;
use self::detected_input::DetectedInput;
use self::packing::Packing;
pub use self::stack_lines::StackLines;
use crate::{Error, Profile, Result};

/// Most memory that a decoder takes at any moment, its answer included, in times its unpacked input; [`MEMORY_FREE`]
/// comes on top.
pub const MEMORY_MULTIPLE: usize = 64;
/// What decoders may take however small the input is, in bytes.
pub const MEMORY_FREE: usize = 16 << 10;

/// Bounds for decoding one profile.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Largest size after unpacking, in bytes.
    pub unpacked_bytes: u64,
    /// Deepest stack, in frames.
    pub depth: usize,
}

impl Default for Limits {
    /// 1 GiB unpacked, 65,536 frames.
    fn default() -> Self {
        Limits { unpacked_bytes: 1 << 30, depth: 1 << 16 }
    }
}

/// A decoded profile, the format it came in, and what was odd about it.
#[derive(Clone, Debug)]
pub struct Decoded {
    /// The profile as measured; see [`Profile::adjusted`].
    pub profile: Profile,
    /// Name of the format.
    pub format: &'static str,
    /// Oddities that lost or changed something, each naming the place.
    pub warnings: Vec<String>,
    /// The kind of event it counts, in a format that holds a profile for each of several; empty in all others.
    pub event: String,
}

impl Decoded {
    /// A profile that came in a format for one.
    pub fn new(profile: Profile, format: &'static str, warnings: Vec<String>) -> Decoded {
        Decoded { profile, format, warnings, event: String::new() }
    }
}

/// One of the profiles of a file that holds several.
#[derive(Clone, Debug)]
pub struct Event {
    /// The kind of event it counts: what a reader chooses by. Distinct within a file.
    pub name: String,
    /// The profile as measured.
    pub profile: Profile,
}

/// One format.
#[derive(Clone, Copy)]
pub struct Format {
    /// Short name, as errors and options spell it.
    pub name: &'static str,
    /// One line for people.
    pub help: &'static str,
    /// Whether bytes (unpacked, perhaps only the first few KiB) are of this format.
    pub detect: fn(&[u8]) -> Detect,
    /// Decodes unpacked bytes; warnings are pushed to the vector. Of several profiles, the one that is shown when
    /// nobody chooses.
    pub decode: fn(&[u8], &Limits, &mut Vec<String>) -> Result<Profile>,
    /// Decodes every profile, in a format that holds one for each of several kinds of events: the one that `decode`
    /// gives first, at least one.
    pub events: Option<DecodeEvents>,
    /// Encodes, where writing the format makes sense.
    pub encode: Option<Encode>,
}

/// Decodes every profile of a file.
pub type DecodeEvents = fn(&[u8], &Limits, &mut Vec<String>) -> Result<Vec<Event>>;

/// Encodes a profile.
pub type Encode = fn(&Profile) -> Result<Vec<u8>>;

/// All formats, in the order they are asked. Binary formats with a magic come first, then pprof, which has none, then
/// text.
pub const FORMATS: &[Format] = &[
    gperftools_cpu::FORMAT,
    jfr::FORMAT,
    perf_data::FORMAT,
    mojo::FORMAT,
    flame_html::FORMAT,
    flame_svg::FORMAT,
    java::FORMAT,
    pstats::FORMAT,
    pprof::FORMAT,
    otlp::FORMAT,
    jemalloc::FORMAT,
    heap_text::FORMAT,
    contention::FORMAT,
    symbolized::FORMAT,
    go_count::FORMAT,
    threadz::FORMAT,
    goroutines::FORMAT,
    thread_dump::FORMAT,
    massif::FORMAT,
    callgrind::FORMAT,
    instruments::FORMAT,
    speedscope::FORMAT,
    cpuprofile::FORMAT,
    heapprofile::FORMAT,
    chrome_trace::FORMAT,
    firefox::FORMAT,
    stackprof::FORMAT,
    dhat::FORMAT,
    bpftrace::FORMAT,
    perf_script::FORMAT,
    collapsed::FORMAT,
];

/// Decodes a profile in any format, plain or packed (gzip, zstd, xz, bzip2).
///
/// # Errors
/// [`Error::Empty`], [`Error::Unrecognized`], [`Error::TooLarge`] for limits, or the format's own [`Error::Malformed`]
/// / [`Error::Truncated`].
pub fn decode(bytes: &[u8], limits: &Limits) -> Result<Decoded> {
    let bytes = unpacked(bytes, limits)?;
    let mut input = DetectedInput::find(&bytes, FORMATS)?;
    let mut warnings = input.warnings();
    let profile = (input.format.decode)(input.bytes, limits, &mut warnings).map_err(|error| input.place(error))?;
    Ok(Decoded::new(profile, input.format.name, warnings))
}

/// Decodes collapsed stacks, plain or packed, which need not look like any: for a file that is known by its name.
///
/// # Errors
/// As [`decode`], without [`Error::Unrecognized`].
pub fn decode_collapsed(bytes: &[u8], limits: &Limits) -> Result<Decoded> {
    let bytes = unpacked(bytes, limits)?;
    let text = bytes.strip_prefix(b"\xef\xbb\xbf").unwrap_or(&bytes);
    let mut warnings = Vec::new();
    let profile = collapsed::decode(text, limits, &mut warnings)?;
    Ok(Decoded::new(profile, collapsed::NAME, warnings))
}

/// Decodes every profile of a file, plain or packed: one, or in a format for several one for each kind of event. At
/// least one, the one that [`decode`] gives first; warnings stand with the first.
///
/// # Errors
/// As [`decode`].
pub fn decode_events(bytes: &[u8], limits: &Limits) -> Result<Vec<Decoded>> {
    decode_events_of(FORMATS, bytes, limits)
}

/// The same with another table of formats.
fn decode_events_of(formats: &[Format], bytes: &[u8], limits: &Limits) -> Result<Vec<Decoded>> {
    let bytes = unpacked(bytes, limits)?;
    let mut input = DetectedInput::find(&bytes, formats)?;
    let (format, mut warnings) = (input.format, input.warnings());
    let Some(decode_events) = format.events else {
        let profile = (format.decode)(input.bytes, limits, &mut warnings).map_err(|error| input.place(error))?;
        return Ok(vec![Decoded::new(profile, format.name, warnings)]);
    };
    let events = decode_events(input.bytes, limits, &mut warnings).map_err(|error| input.place(error))?;
    let decoded = events.into_iter().map(|Event { name, profile }| {
        let warnings = std::mem::take(&mut warnings);
        Decoded { event: name, ..Decoded::new(profile, format.name, warnings) }
    });
    let decoded: Vec<Decoded> = decoded.collect();
    if decoded.is_empty() { Err(Error::Empty) } else { Ok(decoded) }
}

/// Name of the format these first bytes, plain or packed, are surely of; a few KiB are enough.
pub fn detect(bytes: &[u8]) -> Option<&'static str> {
    let bytes = Packing::from_first_bytes(bytes)
        .map_or(Cow::Borrowed(bytes), |packing| Cow::Owned(packing.unpack_first(bytes)));
    DetectedInput::find(&detected_input::in_utf8(bytes), FORMATS).ok().map(|input| input.format.name)
}

/// Whether these bytes are packed, by the first of them: decoders unpack one layer, and refuse another.
pub fn is_packed(bytes: &[u8]) -> bool {
    Packing::from_first_bytes(bytes).is_some()
}

fn unpacked<'a>(bytes: &'a [u8], limits: &Limits) -> Result<Cow<'a, [u8]>> {
    if let Some(packing) = Packing::from_first_bytes(bytes) {
        return packing.unpack(bytes, limits.unpacked_bytes).map(|bytes| detected_input::in_utf8(Cow::Owned(bytes)));
    }
    if bytes.len() as u64 > limits.unpacked_bytes {
        return Err(Error::TooLarge { format: "input", what: "its size in bytes", limit: limits.unpacked_bytes });
    }
    Ok(detected_input::in_utf8(Cow::Borrowed(bytes)))
}

#[cfg(test)]
mod tests;
