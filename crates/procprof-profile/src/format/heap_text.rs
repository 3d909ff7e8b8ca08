//! Heap and growth profiles as text: of gperftools' tcmalloc and, with `debug=1`, of Go.
//!
//! ```text
//! heap profile:    144:  8498176 [   144:  8498176] @ heapz_v2/524288
//!      1:     9216 [     1:     9216] @ 0xc635c8 0x42ecc3     objects: bytes in use [objects: bytes allocated]
//!                                                              @ return addresses, leaf first
//! # 0xc635c7 main.make+0x27 /src/main.go:9                   a comment, of Go with the name of an address above
//! --- Memory map: ---                                         or `MAPPED_LIBRARIES:`
//!   00400000-00fcb000: /usr/bin/prog
//! ```
//! Formats: google/pprof, `profile/legacy_profile.go`; jeprof, `ReadHeapProfile`. The text behind the `@` of the first
//! line gives the sampling:
//!
//! | type | sampling |
//! |---|---|
//! | `heap_v2/R`, `heapz_v2/R` | [`Sampling::Poisson`] of R |
//! | `heap/R` (Go, old tcmalloc) | [`Sampling::Linear`] of R / 2 |
//! | `heapprofile`, `growth`, `growthz`, `fragmentation`, `fragmentationz` | exact, period 1 |
//! | none, both totals equal | [`Sampling::Linear`] of 128 KiB, as jeprof takes it (pprof reads no such file) |
//! | none, else | exact, period 1 |
//!
//! As in pprof: when the totals in brackets are those in front of them, or 0, there are two sample types, `objects` and
//! `space`, and the brackets are not read; else four, allocations first. Growth has two. The number label `bytes` is
//! the mean size of an object: in use, else allocated. It is an error when a sample has bytes without objects.

use super::detect::begins;
use super::raw_stacks::RawStacks;
use super::{Detect, Format, Limits, legacy_frames};
use crate::text::{Cursor, Line, Lines, is_map_heading};
use crate::{Addresses, Profile, ProfileType, Result, Sampling};

/// Name of the format.
pub const NAME: &str = "heap-text";

/// The row of the format table.
pub(super) const FORMAT: Format = Format {
    name: NAME,
    help: "heap and growth profiles as text: tcmalloc, Go with debug=1",
    detect,
    decode,
    events: None,
    encode: None,
};

const HEADING: &[u8] = b"heap profile:";
const UNTYPED_RATE: i64 = 128 << 10;

/// Whether the bytes are a heap profile as text.
pub fn detect(bytes: &[u8]) -> Detect {
    begins(bytes, HEADING)
}

/// Decodes a heap, growth or fragmentation profile.
///
/// # Errors
/// [`crate::Error::Malformed`] or [`crate::Error::Truncated`] with the line, [`crate::Error::TooLarge`] past the depth
/// limit.
pub fn decode(bytes: &[u8], limits: &Limits, warnings: &mut Vec<String>) -> Result<Profile> {
    let mut lines = Lines::new(bytes);
    let Some(first) = lines.next() else { return Err(crate::Error::Empty) };
    let header = Header::read(first.text).filter(|_| !first.is_cut);
    let header = header.ok_or_else(|| first.error(NAME, "heap profile: N: S [N: S] @ TYPE"))?;
    let sample_types = if header.has_allocations {
        ProfileType::Heap.sample_types()
    } else {
        &[("objects", "count"), ("space", "bytes")]
    };
    let mut stacks = RawStacks::new(NAME, sample_types, Addresses::RawReturn, &legacy_frames::HEAP, limits);
    stacks.builder.period("space", "bytes", header.period);
    stacks.builder.parts_mut().sampling = header.sampling;
    for line in lines.by_ref() {
        if is_map_heading(line.text) {
            break;
        }
        if line.is_blank_or_comment() {
            stacks.read_comment(&line);
        } else {
            let read = read_sample(&mut stacks, &line, header.has_allocations);
            stacks.odd.keep(&line, read)?;
        }
    }
    stacks.finish(lines.rest(), lines.number(), warnings)
}

/// The decoded first line.
struct Header {
    sampling: Sampling,
    period: i64,
    has_allocations: bool,
}

impl Header {
    fn read(line: &[u8]) -> Option<Header> {
        let mut cursor = Cursor::new(line);
        cursor.eat_text(HEADING)?;
        let inuse = cursor.pair()?;
        let allocated = cursor.bracketed_pair()?;
        let kind = match cursor.eat(b'@') {
            Some(()) => cursor.rest.trim_ascii(),
            None => cursor.is_done().then_some(&b""[..])?,
        };
        let differs = (allocated.0 != inuse.0 && allocated.0 != 0) || (allocated.1 != inuse.1 && allocated.1 != 0);
        let (name, rate) = match memchr::memchr(b'/', kind) {
            Some(slash) => (&kind[..slash], decimal(&kind[slash + 1..])?),
            None => (kind, 0),
        };
        let (sampling, period, has_allocations) = match name {
            b"heap_v2" | b"heapz_v2" => (Sampling::Poisson(rate), rate, differs),
            b"heap" => (Sampling::Linear(rate / 2), rate / 2, differs),
            b"heapprofile" => (Sampling::Exact, 1, differs),
            b"growth" | b"growthz" | b"fragmentation" | b"fragmentationz" => (Sampling::Exact, 1, false),
            b"" if inuse == allocated => (Sampling::Linear(UNTYPED_RATE), UNTYPED_RATE, false),
            b"" => (Sampling::Exact, 1, differs),
            _ => return None,
        };
        let sampling = if period > 1 { sampling } else { Sampling::Exact };
        Some(Header { sampling, period, has_allocations })
    }
}

fn decimal(digits: &[u8]) -> Option<i64> {
    let mut cursor = Cursor::new(digits);
    let number = if digits.is_empty() { 0 } else { cursor.integer()? };
    cursor.is_done().then_some(number)
}

fn read_sample(stacks: &mut RawStacks, line: &Line<'_>, has_allocations: bool) -> Result<()> {
    let mut cursor = Cursor::new(line.text);
    let (inuse, allocated) = counts(&mut cursor).ok_or_else(|| line.error(NAME, "N: S [N: S] @ 0x…"))?;
    if (inuse.0 == 0 && inuse.1 != 0) || (has_allocations && allocated.0 == 0 && allocated.1 != 0) {
        return Err(line.error(NAME, "objects where there are bytes"));
    }
    stacks.read_stack(cursor, line)?;
    let mean = |(objects, bytes): (i64, i64)| bytes.checked_div(objects);
    let mean = mean(inuse).or_else(|| mean(allocated).filter(|_| has_allocations)).unwrap_or_default();
    let label = stacks.builder.number_label("bytes", mean, "");
    let values = [allocated.0, allocated.1, inuse.0, inuse.1];
    stacks.sample(if has_allocations { &values } else { &values[2..] }, &[label]);
    Ok(())
}

fn counts(cursor: &mut Cursor<'_>) -> Option<((i64, i64), (i64, i64))> {
    let inuse = cursor.pair()?;
    let allocated = cursor.bracketed_pair()?;
    cursor.eat(b'@')?;
    Some((inuse, allocated))
}

#[cfg(test)]
mod tests;
