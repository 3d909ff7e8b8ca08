//! A chunk: the unit that recordings are written in. Each stands for itself, with its own metadata and constants.
//!
//! ```text
//! "FLR\0"  major, minor (2 bytes each)  size  offset of a checkpoint  offset of the metadata
//! start  duration (ns)  start (ticks)  ticks in a second (8 bytes each)  flags (4 bytes, the lowest bit: numbers are packed)
//! then events: size, number of the type, what the type has
//! ```
//! Numbers of the header are big-endian, those behind it packed (see [`super::cursor`]).

use crate::{Error, Place, Result};

use super::NAME;

pub(super) const MAGIC: &[u8] = b"FLR\0";
/// Bytes of a chunk's header.
pub(super) const HEADER: usize = 68;

/// A whole chunk.
#[derive(Clone, Copy, Debug)]
pub(super) struct Chunk<'a> {
    /// All of it, the header included.
    pub(super) bytes: &'a [u8],
    /// Where it begins in the file.
    pub(super) offset: usize,
    /// Where in it the metadata are.
    pub(super) metadata: usize,
    /// Nanoseconds since 1970.
    pub(super) start: i64,
    /// In nanoseconds.
    pub(super) duration: i64,
    /// At least 1.
    pub(super) ticks_per_second: u64,
}

impl<'a> Chunk<'a> {
    /// The chunk that begins at `offset`.
    ///
    /// # Errors
    /// [`Error::Truncated`] if it is not whole, which is what a JVM that was killed leaves; [`Error::Malformed`].
    pub(super) fn at(bytes: &'a [u8], offset: usize) -> Result<Chunk<'a>> {
        let rest = &bytes[offset..];
        let truncated = Error::Truncated { format: NAME, place: Place::Offset(offset), what: "a chunk" };
        let malformed =
            |at: usize, what: String| Error::Malformed { format: NAME, place: Place::Offset(offset + at), what };
        if !MAGIC.starts_with(&rest[..rest.len().min(MAGIC.len())]) {
            return Err(malformed(0, "expected a chunk, which begins with \"FLR\\0\"".to_owned()));
        }
        let Some(header) = rest.first_chunk::<HEADER>() else { return Err(truncated) };
        let major = u16::from_be_bytes([header[4], header[5]]);
        if major != 2 {
            let minor = u16::from_be_bytes([header[6], header[7]]);
            return Err(malformed(4, format!("version {major}.{minor}; only 2.x is read")));
        }
        if header[HEADER - 1] & 1 == 0 {
            return Err(malformed(HEADER - 4, "numbers are not packed".to_owned()));
        }
        let field = |index: usize| i64::from_be_bytes(std::array::from_fn(|byte| header[8 + 8 * index + byte]));
        // A chunk that is still written has the size 0.
        let Some(bytes) =
            usize::try_from(field(0)).ok().filter(|size| *size >= HEADER).and_then(|size| rest.get(..size))
        else {
            return Err(truncated);
        };
        if u32::try_from(bytes.len()).is_err() {
            return Err(Error::TooLarge { format: NAME, what: "a chunk's size in bytes", limit: u64::from(u32::MAX) });
        }
        let metadata = usize::try_from(field(2)).ok().filter(|at| (HEADER..bytes.len()).contains(at));
        Ok(Chunk {
            bytes,
            offset,
            metadata: metadata.ok_or_else(|| malformed(24, "the metadata lie outside their chunk".to_owned()))?,
            start: field(3).max(0),
            duration: field(4).max(0),
            ticks_per_second: u64::try_from(field(6)).unwrap_or_default().max(1),
        })
    }

    /// An [`Error::Malformed`] at an offset of the chunk.
    pub(super) fn malformed(&self, at: usize, what: impl Into<String>) -> Error {
        Error::Malformed { format: NAME, place: Place::Offset(self.offset + at), what: what.into() }
    }

    /// Nanoseconds of that many ticks.
    pub(super) fn nanos(&self, ticks: u64) -> u64 {
        if self.ticks_per_second == 1_000_000_000 {
            return ticks;
        }
        let nanos = u128::from(ticks) * 1_000_000_000 / u128::from(self.ticks_per_second);
        u64::try_from(nanos).unwrap_or(u64::MAX)
    }
}
