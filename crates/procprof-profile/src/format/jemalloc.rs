//! The heap dump of jemalloc 5: `heap_v2` text with one line of counts for each stack and thread.
//!
//! ```text
//! heap_v2/524288
//!   t*: 3: 786432 [0: 0]                         totals: objects: bytes in use [objects: bytes allocated since the start]
//!   t0: 3: 786432 [0: 0] main                    the same by thread, with its name where it has one
//! @ 0x7f8f6d1a2b3c 0x55d0c0a01189                a stack, leaf first; return addresses
//!   t*: 3: 786432 [0: 0]
//!   t0: 3: 786432 [0: 0]
//!
//! MAPPED_LIBRARIES:
//! 55d0c0a00000-55d0c0a01000 r-xp 00001000 fd:01 1234 /usr/bin/prog
//! ```
//! Grammar: jemalloc, `src/prof_data.c`. Counts are of sampled allocations only; the number behind `heap_v2/` is the
//! sampling rate in bytes.
//!
//! [`decode`] takes the `t*` lines, [`decode_threads`] the others, with the labels `thread` (number) and `thread_name`.
//! Both return the four heap sample types always, so that all dumps of a process can be merged and compared; where the
//! bracketed numbers are missing or 0 throughout (`prof_accum` is off, as by default), the allocation values are 0 and
//! a comment states that they were not kept.
//!
//! The totals are no sums of the samples (since 5.3 each line is corrected by itself), so they do not reveal a dump
//! that was cut off between two samples; a missing memory map does, and is a warning, because jemalloc leaves the map
//! out where there is no `/proc`.

mod pieces;

use super::detect::begins;
use super::raw_stacks::raw_address;
use super::{Detect, Format, Limits};
use crate::text::Cursor;
use crate::{Error, Profile, Result, Sampling, maps};

pub use pieces::{Dump, Piece, PieceReader};

/// How much of a text is read at once, in bytes: what a core keeps at hand.
const PIECE_BYTES: usize = 256 << 10;

/// Name of the format.
pub const NAME: &str = "jemalloc";

/// The row of the format table.
pub(super) const FORMAT: Format = Format {
    name: NAME,
    help: "heap dump of jemalloc, heap_v2 text",
    detect,
    decode,
    events: None,
    encode: Some(encode),
};

/// Whether the bytes are a jemalloc heap dump.
pub fn detect(bytes: &[u8]) -> Detect {
    match begins(bytes, b"heap_v2/") {
        Detect::Yes => match bytes.get(8) {
            Some(digit) if digit.is_ascii_digit() => Detect::Yes,
            Some(_) => Detect::No,
            None => Detect::NeedMore,
        },
        answer => answer,
    }
}

/// Decodes the stacks with their counts over all threads. A large dump in a file can be read in pieces instead: see
/// [`Dump`].
///
/// # Errors
/// [`Error::Malformed`] or [`Error::Truncated`] with the line, [`Error::TooLarge`] past the depth limit.
pub fn decode(bytes: &[u8], limits: &Limits, warnings: &mut Vec<String>) -> Result<Profile> {
    decoded(bytes, limits, Wanted::Totals, warnings)
}

/// Decodes the stacks with their counts by thread: one sample for each stack and thread, labelled with it.
///
/// # Errors
/// As [`decode`].
pub fn decode_threads(bytes: &[u8], limits: &Limits, warnings: &mut Vec<String>) -> Result<Profile> {
    decoded(bytes, limits, Wanted::Threads, warnings)
}

/// Encodes a sampled heap profile with its counts as measured, its stacks' raw addresses and its mappings.
///
/// Inlined frames, names, labels, times and build ids have no place in the format and are left out; thread lines, too.
///
/// # Errors
/// [`Error::Incompatible`] when the values are not the four of a heap profile sampled as jemalloc samples, or a frame
/// has no address.
pub fn encode(profile: &Profile) -> Result<Vec<u8>> {
    let refusal = |why: &str| Error::Incompatible(format!("{NAME} cannot hold this profile: {why}"));
    let Sampling::Poisson(rate) = profile.sampling() else { return Err(refusal("it is not sampled by bytes")) };
    let columns =
        ["inuse_objects", "inuse_space", "alloc_objects", "alloc_space"].map(|name| profile.sample_type_index(name));
    let [Some(objects), Some(bytes), Some(all_objects), Some(all_bytes)] = columns else {
        return Err(refusal("it is no heap profile"));
    };
    let counts = |values: &[i64]| {
        format!("  t*: {}: {} [{}: {}]\n", values[objects], values[bytes], values[all_objects], values[all_bytes])
    };
    let mut totals = vec![0_i64; profile.sample_types().len()];
    let mut stacks = String::new();
    for sample in profile.samples() {
        let measured = if sample.raw_values.is_empty() { sample.values } else { sample.raw_values };
        totals.iter_mut().zip(measured).for_each(|(total, value)| *total = total.saturating_add(*value));
        stacks.push('@');
        for (index, id) in sample.stack.iter().enumerate() {
            let address = raw_address(profile, *id, index > 0).ok_or_else(|| refusal("a frame without an address"))?;
            stacks += &format!(" {:#x}", address.0);
        }
        stacks.push('\n');
        stacks += &counts(measured);
    }
    let text = format!("heap_v2/{rate}\n{}{stacks}\nMAPPED_LIBRARIES:\n{}", counts(&totals), maps::render(profile));
    Ok(text.into_bytes())
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Wanted {
    Totals,
    Threads,
}

/// The owner of a line's counts.
#[derive(Clone, Copy)]
enum Owner {
    All,
    Thread(i64),
}

/// Objects and bytes, in use and allocated.
#[derive(Clone, Copy)]
struct Counts {
    inuse: (i64, i64),
    allocated: (i64, i64),
}

fn decoded(bytes: &[u8], limits: &Limits, wanted: Wanted, warnings: &mut Vec<String>) -> Result<Profile> {
    let mut dump = Dump::open_for(bytes, bytes.len() as u64, limits, wanted)?;
    let mut reader = dump.reader();
    let mut start = 0;
    while start < bytes.len() {
        let end = Dump::border(bytes, start + PIECE_BYTES).unwrap_or(bytes.len());
        if let Some(map) = dump.add(reader.read(&bytes[start..end]))? {
            return dump.finish(Some(&bytes[start + map..]), warnings);
        }
        start = end;
    }
    dump.finish(None, warnings)
}

/// Reads `tOWNER: N: S [N: S] NAME`; the brackets and the name may be missing.
#[inline]
fn counts(line: &[u8]) -> Option<(Owner, Counts, &[u8])> {
    let mut cursor = Cursor::new(line);
    cursor.eat(b't')?;
    let owner = match cursor.eat(b'*') {
        Some(()) => Owner::All,
        None => Owner::Thread(cursor.integer()?),
    };
    cursor.eat(b':')?;
    let inuse = cursor.pair()?;
    let allocated = if cursor.is_done() { (0, 0) } else { cursor.bracketed_pair()? };
    Some((owner, Counts { inuse, allocated }, cursor.rest))
}

#[cfg(test)]
mod tests;
