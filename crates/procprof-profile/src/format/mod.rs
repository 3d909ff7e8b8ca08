//! Every format procprof reads or writes: one row of [`FORMATS`] each.
//!
//! [`decode`] unpacks gzip, asks each row whether the bytes are its own, and decodes with the first that says yes. "Not mine" and
//! "mine but broken" are different answers: once a format has recognised its input, its error is the answer.

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
    pub encode: Option<fn(&Profile) -> Result<Vec<u8>>>,
}

/// All formats, in the order they are asked.
pub const FORMATS: &[Format] = &[];

/// Decodes a profile in any format, plain or gzip'd.
///
/// # Errors
/// [`Error::Empty`], [`Error::Unrecognized`], [`Error::TooLarge`] for limits, or the format's own [`Error::Malformed`] / [`Error::Truncated`].
pub fn decode(bytes: &[u8], _limits: &Limits) -> Result<Decoded> {
    if bytes.is_empty() {
        return Err(Error::Empty);
    }
    Err(Error::Unrecognized { first: String::new() })
}
