//! Recordings of `perf record -z`, whose records are packed by zstd, as one frame without an end in pieces; and folders
//! of `perf record --threads`, whose records are in several files, of which each has a frame of its own.
//!
//! ```text
//! COMPRESSED  81   packed bytes
//! COMPRESSED2 83   size u64, so many packed bytes, padding
//! FOLDER/data      a recording, with records of its own; FOLDER/data.0, FOLDER/data.1, …: records alone
//! ```
//! Unpacked, a recording has all records in their place, and the mark of packed ones is off.

use std::cell::Cell;
use std::io::Read;

use super::{Input, Packing};
use crate::format::perf_data::{self, COMPRESSED, PIPE_HEADER, SAMPLE, following};
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

/// Whether a file says that records are packed, or a pipe has such records.
pub(super) fn is_packed(bytes: &[u8]) -> bool {
    let has_feature =
        |bytes: &[u8]| bytes.get(FEATURES + FEATURE / 8).is_some_and(|byte| byte & 1 << (FEATURE % 8) != 0);
    let header_size = if bytes.starts_with(perf_data::MAGIC) { word(bytes, 8) } else { None };
    match header_size {
        Some(PIPE_HEADER) => {
            // Samples are packed if anything is.
            let mut kinds = Records::new(&bytes[PIPE_HEADER as usize..]).map(|(header, ..)| header.kind);
            kinds.find(|kind| *kind == SAMPLE || COMPRESSED.contains(kind)).is_some_and(|kind| kind != SAMPLE)
        }
        size => size.is_some_and(|size| size >= HEADER as u64) && has_feature(bytes),
    }
}

/// The recording with its records unpacked, at most `limit` bytes.
pub(super) fn unpack(bytes: &[u8], limit: u64) -> Result<Vec<u8>> {
    if word(bytes, 8) == Some(PIPE_HEADER) {
        let (header, records) = bytes.split_at(PIPE_HEADER as usize);
        let mut out = header.to_vec();
        let cut = unpack_records(records, PIPE_HEADER as usize, &mut out, limit)?;
        out.extend_from_slice(&cut);
        return check_size(out, limit);
    }
    join(bytes, &[], limit)
}

/// A recording with its own records and those of other files, all unpacked, at most `limit` bytes.
pub(in crate::format) fn join(bytes: &[u8], others: &[Vec<u8>], limit: u64) -> Result<Vec<u8>> {
    let cut = |place| Error::Truncated { format: NAME, place: Place::Offset(place), what: "the header" };
    let (Some(offset), Some(size)) = (word(bytes, DATA), word(bytes, DATA + 8)) else { return Err(cut(bytes.len())) };
    let start = usize::try_from(offset).ok().filter(|start| (HEADER..=bytes.len()).contains(start));
    let start = start.ok_or(cut(bytes.len()))?;
    let end = usize::try_from(size).ok().filter(|size| *size > 0).and_then(|size| start.checked_add(size));
    let whole = end.filter(|end| *end <= bytes.len());
    let mut out = bytes[..start].to_vec();
    let has_packed = is_set(&out, FEATURE);
    out[FEATURES + FEATURE / 8] &= !(1 << (FEATURE % 8));
    let mut cut = unpack_records(&bytes[start..whole.unwrap_or(bytes.len())], start, &mut out, limit)?;
    for other in others {
        let cut_there = unpack_records(other, 0, &mut out, limit)?;
        cut = if cut.is_empty() { cut_there } else { cut };
    }
    out.extend_from_slice(&cut);
    let rest = whole.map_or(&[][..], |end| &bytes[end..]);
    let size = if whole.is_some() { out.len() - start } else { 0 };
    out[DATA + 8..DATA + 16].copy_from_slice(&(size as u64).to_le_bytes());
    let table = out.len();
    out.extend_from_slice(rest);
    let moved = (size as u64).wrapping_sub(word(bytes, DATA + 8).unwrap_or(0));
    move_features(&mut out, table, moved, has_packed);
    check_size(out, limit)
}

fn check_size(out: Vec<u8>, limit: u64) -> Result<Vec<u8>> {
    if out.len() as u64 > limit {
        return Err(Error::TooLarge { format: NAME, what: "the unpacked size in bytes", limit });
    }
    Ok(out)
}

/// Appends records as they are, then what is packed in others, at most one byte more than allowed. Returns the bytes of
/// a record that is cut off, which no other may follow.
fn unpack_records(records: &[u8], offset: usize, out: &mut Vec<u8>, limit: u64) -> Result<Vec<u8>> {
    let mut packed = Vec::new();
    let mut place = 0;
    for (header, body, behind) in Records::new(records) {
        match header.kind {
            COMPRESSED2 => {
                let size = word(body, 0).and_then(|size| usize::try_from(size).ok()).unwrap_or(0);
                packed.extend_from_slice(body.get(8..).and_then(|body| body.get(..size)).unwrap_or_default());
            }
            kind if COMPRESSED.contains(&kind) => packed.extend_from_slice(body),
            _ => out.extend_from_slice(&records[place..behind]),
        }
        place = behind;
    }
    if !packed.is_empty() {
        packed.extend_from_slice(&LAST_BLOCK);
        let start = out.len();
        let room = limit.saturating_sub(start as u64);
        let left = Cell::new(packed.len());
        let reader = Packing::Zstd.reader(Input { rest: &packed, left: &left })?;
        let read = reader.take(room.saturating_add(1)).read_to_end(out);
        read.map_err(|error| Error::Malformed { format: NAME, place: Place::Offset(offset), what: error.to_string() })?;
        let end = start + Records::new(&out[start..]).last().map_or(0, |(.., end)| end);
        if end < out.len() {
            return Ok(out.split_off(end));
        }
    }
    Ok(records[place..].to_vec())
}

/// Whole records: the header, the body, and the end of the bytes that belong to it.
struct Records<'a> {
    bytes: &'a [u8],
    place: usize,
}

impl<'a> Records<'a> {
    fn new(bytes: &'a [u8]) -> Records<'a> {
        Records { bytes, place: 0 }
    }
}

impl<'a> Iterator for Records<'a> {
    type Item = (Header, &'a [u8], usize);

    fn next(&mut self) -> Option<Self::Item> {
        let header = self.bytes.get(self.place..).and_then(Header::parse)?;
        let end = self.place + usize::from(header.size);
        let body = self.bytes.get(self.place + Header::SIZE..end)?;
        self.place = end.saturating_add(following(header, body)).min(self.bytes.len());
        Some((header, body, self.place))
    }
}

fn is_set(file: &[u8], feature: usize) -> bool {
    file[FEATURES + feature / 8] & 1 << (feature % 8) != 0
}

/// Features are behind the records, and their places are counted from the beginning of the file. That of packed records
/// is no longer one of them.
fn move_features(out: &mut Vec<u8>, table: usize, moved: u64, has_packed: bool) {
    let before = (0..FEATURE).filter(|feature| is_set(out, *feature)).count();
    let count = (0..8 * (HEADER - FEATURES)).filter(|feature| is_set(out, *feature)).count();
    let dropped = if has_packed { 16 } else { 0 };
    if out.len() < table + 16 * count + dropped {
        out.truncate(table);
        return out[FEATURES..HEADER].fill(0);
    }
    out.drain(table + 16 * before..table + 16 * before + dropped);
    for entry in out[table..table + 16 * count].chunks_exact_mut(16) {
        let offset = word(entry, 0).unwrap_or(0).wrapping_add(moved).wrapping_sub(dropped as u64);
        entry[..8].copy_from_slice(&offset.to_le_bytes());
    }
}

fn word(bytes: &[u8], place: usize) -> Option<u64> {
    Some(u64::from_le_bytes(*bytes.get(place..)?.first_chunk()?))
}
