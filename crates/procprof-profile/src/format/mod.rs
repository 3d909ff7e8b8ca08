//! Every format procprof reads or writes: one row of [`FORMATS`] each.
//!
//! [`decode`] unpacks gzip, asks each row whether the bytes are its own, and decodes with the first that says yes. "Not mine" and
//! "mine but broken" are different answers: once a format has recognised its input, its error is the answer.

pub mod collapsed;
pub mod contention;
#[cfg(test)]
pub(crate) mod fixtures;
pub mod go_count;
#[cfg(test)]
pub(crate) mod go_raw;
pub mod gperftools_cpu;
mod gzip;
pub mod heap_text;
pub mod java;
pub mod jemalloc;
pub mod legacy_frames;
pub mod pprof;
mod protobuf;
mod raw_stacks;
mod stack_lines;
pub mod symbolized;
pub(crate) mod text;
pub mod threadz;
mod words;

use std::borrow::Cow;

pub use self::stack_lines::StackLines;
use crate::{Error, Profile, Result};

/// What a format says of some first bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Detect {
    /// The input is of this format.
    Yes,
    /// The input cannot be of this format.
    No,
    /// The bytes so far allow this format; more are needed to tell.
    NeedMore,
}

/// Most memory that a decoder takes at any moment, its answer included, in times its unpacked input; [`MEMORY_FREE`] comes on top.
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
}

/// One format.
pub struct Format {
    /// Short name, as errors and options spell it.
    pub name: &'static str,
    /// One line for people.
    pub help: &'static str,
    /// Whether bytes (unpacked, perhaps only the first few KiB) are of this format.
    pub detect: fn(&[u8]) -> Detect,
    /// Decodes unpacked bytes; warnings are pushed to the vector.
    pub decode: fn(&[u8], &Limits, &mut Vec<String>) -> Result<Profile>,
    /// Encodes, where writing the format makes sense.
    pub encode: Option<Encode>,
}

/// Encodes a profile.
pub type Encode = fn(&Profile) -> Result<Vec<u8>>;

/// All formats, in the order they are asked. Binary formats with a magic come first, then pprof, which has none, then text.
pub const FORMATS: &[Format] = &[
    gperftools_cpu::FORMAT,
    java::FORMAT,
    pprof::FORMAT,
    jemalloc::FORMAT,
    heap_text::FORMAT,
    contention::FORMAT,
    symbolized::FORMAT,
    go_count::FORMAT,
    threadz::FORMAT,
    collapsed::FORMAT,
];

/// Decodes a profile in any format, plain or gzip'd.
///
/// # Errors
/// [`Error::Empty`], [`Error::Unrecognized`], [`Error::TooLarge`] for limits, or the format's own [`Error::Malformed`] / [`Error::Truncated`].
pub fn decode(bytes: &[u8], limits: &Limits) -> Result<Decoded> {
    let bytes = unpacked(bytes, limits)?;
    if bytes.is_empty() {
        return Err(Error::Empty);
    }
    let Some(format) = FORMATS.iter().find(|format| (format.detect)(&bytes) == Detect::Yes) else {
        return Err(Error::Unrecognized { first: bytes[..bytes.len().min(64)].escape_ascii().to_string() });
    };
    let mut warnings = Vec::new();
    let profile = (format.decode)(&bytes, limits, &mut warnings)?;
    Ok(Decoded { profile, format: format.name, warnings })
}

/// Name of the format these first bytes, plain or gzip'd, are surely of; a few KiB are enough.
pub fn detect(bytes: &[u8]) -> Option<&'static str> {
    let bytes = if gzip::is_gzip(bytes) { Cow::Owned(gzip::unpack_first(bytes)) } else { Cow::Borrowed(bytes) };
    FORMATS.iter().find(|format| (format.detect)(&bytes) == Detect::Yes).map(|format| format.name)
}

fn unpacked<'a>(bytes: &'a [u8], limits: &Limits) -> Result<Cow<'a, [u8]>> {
    if gzip::is_gzip(bytes) {
        return gzip::unpack(bytes, limits.unpacked_bytes).map(Cow::Owned);
    }
    if bytes.len() as u64 > limits.unpacked_bytes {
        return Err(Error::TooLarge { format: "input", what: "its size in bytes", limit: limits.unpacked_bytes });
    }
    Ok(Cow::Borrowed(bytes))
}

#[cfg(test)]
mod tests;
