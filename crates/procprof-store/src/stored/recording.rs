//! Recordings of JVMs, kept as they were recorded.

use crate::{Error, Result};

/// Begins each chunk of a recording.
const MAGIC: &[u8] = b"FLR\0";

/// Whether a file begins as a recording does.
pub(crate) fn check(file: &[u8]) -> Result<()> {
    if file.starts_with(MAGIC) { Ok(()) } else { Err(Error::malformed("recording", "does not begin as one")) }
}
