//! Unpacks gzip with a bound: one member or several back to back, but not gzip within gzip.

use std::io::{ErrorKind, Read};

use flate2::bufread::MultiGzDecoder;

use crate::{Error, Place, Result};

const NAME: &str = "gzip";
/// How much [`unpack_first`] unpacks.
const FIRST_BYTES: u64 = 64 << 10;
/// gzip packs no better than this.
const BEST_RATIO: usize = 1032;

/// Whether bytes begin as gzip does.
pub(crate) fn is_gzip(bytes: &[u8]) -> bool {
    bytes.starts_with(&[0x1f, 0x8b])
}

/// Unpacks everything, at most `limit` bytes.
pub(crate) fn unpack(bytes: &[u8], limit: u64) -> Result<Vec<u8>> {
    let mut out = Vec::with_capacity(expected_size(bytes, limit));
    let mut unpacker = MultiGzDecoder::new(bytes);
    let read = unpacker.by_ref().take(limit.saturating_add(1)).read_to_end(&mut out);
    let offset = Place::Offset(bytes.len() - unpacker.get_ref().len());
    match read {
        Err(error) if error.kind() == ErrorKind::UnexpectedEof => {
            return Err(Error::Truncated { format: NAME, place: offset, what: "packed data" });
        }
        Err(error) => return Err(Error::Malformed { format: NAME, place: offset, what: error.to_string() }),
        Ok(_) => {}
    }
    if out.len() as u64 > limit {
        return Err(Error::TooLarge { format: NAME, what: "the unpacked size in bytes", limit });
    }
    if is_gzip(&out) {
        return Err(Error::Malformed { format: NAME, place: Place::Offset(0), what: "gzip within gzip".to_owned() });
    }
    Ok(out)
}

/// Unpacks the first 64 KiB, or as much of them as is there and sound.
pub(crate) fn unpack_first(bytes: &[u8]) -> Vec<u8> {
    let mut out = Vec::new();
    let mut chunk = [0; 4096];
    let mut unpacker = MultiGzDecoder::new(bytes).take(FIRST_BYTES);
    while let Ok(count @ 1..) = unpacker.read(&mut chunk) {
        out.extend_from_slice(&chunk[..count]);
    }
    out
}

/// The size the last member says it has, as far as it is believable.
fn expected_size(bytes: &[u8], limit: u64) -> usize {
    let said = bytes.last_chunk::<4>().map_or(0, |size| u32::from_le_bytes(*size) as usize);
    let believable = said.min(bytes.len().saturating_mul(BEST_RATIO));
    // One byte more lets the reader see the end without growing.
    believable.min(usize::try_from(limit).unwrap_or(usize::MAX)).saturating_add(1)
}
