//! Recordings of `perf record -z`: files whose records are packed by zstd, as one frame without an end in pieces.
//!
//! ```text
//! COMPRESSED  81   packed bytes
//! COMPRESSED2 83   size u64, so many packed bytes, padding
//! ```
//! Unpacked, a recording has the records in their place, and the mark of packed ones is off.

use std::cell::Cell;
use std::io::Read;

use super::{Input, Packing};
use crate::format::perf_data::{self, COMPRESSED, following};
use crate::perf_event::Header;
use crate::{Error, Place, Result};

const NAME: &str = "perf-data";
/// The places of the section of records and of the bits of features in the header, and its end.
const DATA: usize = 40;
const FEATURES: usize = 72;
const HEADER: usize = 104;
/// The feature of packed records.
const FEATURE: usize = 27;
const COMPRESSED2: u32 = 83;
/// A block of zstd without content that is the last one.
const LAST_BLOCK: [u8; 3] = [1, 0, 0];

/// Whether a file says that records are packed.
pub(super) fn is_packed(bytes: &[u8]) -> bool {
    let has_feature =
        |bytes: &[u8]| bytes.get(FEATURES + FEATURE / 8).is_some_and(|byte| byte & 1 << (FEATURE % 8) != 0);
    bytes.starts_with(perf_data::MAGIC)
        && word(bytes, 8).is_some_and(|size| size >= HEADER as u64)
        && has_feature(bytes)
}

/// The file with its records unpacked, at most `limit` bytes.
pub(super) fn unpack(bytes: &[u8], limit: u64) -> Result<Vec<u8>> {
    let cut = |place| Error::Truncated { format: NAME, place: Place::Offset(place), what: "the header" };
    let (Some(offset), Some(size)) = (word(bytes, DATA), word(bytes, DATA + 8)) else { return Err(cut(bytes.len())) };
    let start = usize::try_from(offset).ok().filter(|start| (HEADER..=bytes.len()).contains(start));
    let start = start.ok_or(cut(bytes.len()))?;
    let end = usize::try_from(size).ok().filter(|size| *size > 0).and_then(|size| start.checked_add(size));
    let whole = end.filter(|end| *end <= bytes.len());
    let (plain, packed) = parted(&bytes[start..whole.unwrap_or(bytes.len())]);
    let mut out = bytes[..start].to_vec();
    out[FEATURES + FEATURE / 8] &= !(1 << (FEATURE % 8));
    out.extend_from_slice(&plain);
    let room = limit.saturating_sub(out.len() as u64);
    let left = Cell::new(packed.len());
    let reader = Packing::Zstd.reader(Input { rest: &packed, left: &left })?;
    let read = reader.take(room.saturating_add(1)).read_to_end(&mut out);
    read.map_err(|error| Error::Malformed { format: NAME, place: Place::Offset(start), what: error.to_string() })?;
    let rest = whole.map_or(&[][..], |end| &bytes[end..]);
    if out.len() as u64 + rest.len() as u64 > limit {
        return Err(Error::TooLarge { format: NAME, what: "the unpacked size in bytes", limit });
    }
    let size = if whole.is_some() { out.len() - start } else { 0 };
    out[DATA + 8..DATA + 16].copy_from_slice(&(size as u64).to_le_bytes());
    let table = out.len();
    out.extend_from_slice(rest);
    let moved = (size as u64).wrapping_sub(word(bytes, DATA + 8).unwrap_or(0));
    move_features(&mut out, table, moved);
    Ok(out)
}

/// The records that are not packed, and the packed bytes as one frame.
fn parted(data: &[u8]) -> (Vec<u8>, Vec<u8>) {
    let (mut plain, mut packed) = (Vec::new(), Vec::new());
    let mut place = 0;
    while let Some(header) = data.get(place..).and_then(Header::parse) {
        let end = place + usize::from(header.size);
        let Some(body) = data.get(place + Header::SIZE..end) else { break };
        let behind = end.saturating_add(following(header, body)).min(data.len());
        match header.kind {
            COMPRESSED2 => {
                let size = word(body, 0).and_then(|size| usize::try_from(size).ok()).unwrap_or(0);
                packed.extend_from_slice(body.get(8..).and_then(|body| body.get(..size)).unwrap_or_default());
            }
            kind if COMPRESSED.contains(&kind) => packed.extend_from_slice(body),
            _ => plain.extend_from_slice(&data[place..behind]),
        }
        place = behind;
    }
    if !packed.is_empty() {
        packed.extend_from_slice(&LAST_BLOCK);
    }
    (plain, packed)
}

/// Features are behind the records, and their places are counted from the beginning of the file. That of packed records
/// is no longer one of them.
fn move_features(out: &mut Vec<u8>, table: usize, moved: u64) {
    let bits: Vec<u8> = out[FEATURES..HEADER].to_vec();
    let is_set = |bit: usize| bits[bit / 8] & 1 << (bit % 8) != 0;
    let before = (0..FEATURE).filter(|bit| is_set(*bit)).count();
    let count = (0..8 * bits.len()).filter(|bit| is_set(*bit)).count();
    let dropped = table + 16 * before;
    if out.len() < table + 16 * (count + 1) {
        out.truncate(table);
        return out[FEATURES..HEADER].fill(0);
    }
    out.drain(dropped..dropped + 16);
    for entry in out[table..table + 16 * count].chunks_exact_mut(16) {
        let offset = word(entry, 0).unwrap_or(0).wrapping_add(moved).wrapping_sub(16);
        entry[..8].copy_from_slice(&offset.to_le_bytes());
    }
}

fn word(bytes: &[u8], place: usize) -> Option<u64> {
    Some(u64::from_le_bytes(*bytes.get(place..)?.first_chunk()?))
}
