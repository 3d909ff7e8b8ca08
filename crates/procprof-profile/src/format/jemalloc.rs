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
//! Grammar: jemalloc, `src/prof_data.c`. Counts are of sampled allocations only; the number behind `heap_v2/` is the sampling rate in bytes.
//!
//! [`decode`] takes the `t*` lines, [`decode_threads`] the others, with the labels `thread` (number) and `thread_name`. Both give the four heap
//! sample types always, so that all dumps of a process can be merged and compared; where the bracketed numbers are missing or 0 throughout
//! (`prof_accum` is off, as by default), the allocation values are 0 and a comment says that they were not kept.
//!
//! The totals are no sums of the samples (since 5.3 each line is corrected by itself), so they cannot tell a dump that was cut off between two
//! samples; a missing memory map does, and is a warning, because jemalloc leaves the map out where there is no `/proc`.

use rustc_hash::FxHashMap;

use super::raw_stacks::{RawStacks, raw_address};
use super::text::{Cursor, Line, Lines, OddLines, begins, is_map_heading};
use super::{Detect, Format, Limits, legacy_frames};
use crate::{Addresses, Error, Label, Place, Profile, ProfileType, Result, Sampling, maps};

/// Name of the format.
pub const NAME: &str = "jemalloc";

/// The row of the format table.
pub(super) const FORMAT: Format = Format { name: NAME, help: "heap dump of jemalloc, heap_v2 text", detect, decode, encode: Some(encode) };

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

/// Decodes the stacks with their counts over all threads.
///
/// # Errors
/// [`Error::Malformed`] or [`Error::Truncated`] with the line, [`Error::TooLarge`] past the depth limit.
pub fn decode(bytes: &[u8], limits: &Limits, warnings: &mut Vec<String>) -> Result<Profile> {
    Dump::new(limits, Wanted::Totals).read(bytes, warnings)
}

/// Decodes the stacks with their counts by thread: one sample for each stack and thread, labelled with it.
///
/// # Errors
/// As [`decode`].
pub fn decode_threads(bytes: &[u8], limits: &Limits, warnings: &mut Vec<String>) -> Result<Profile> {
    Dump::new(limits, Wanted::Threads).read(bytes, warnings)
}

/// Encodes a sampled heap profile with its counts as measured, its stacks' raw addresses and its mappings.
///
/// Inlined frames, names, labels, times and build ids have no place in the format and are left out; thread lines, too.
///
/// # Errors
/// [`Error::Incompatible`] when the values are not the four of a heap profile sampled as jemalloc samples, or a frame has no address.
pub fn encode(profile: &Profile) -> Result<Vec<u8>> {
    let refusal = |why: &str| Error::Incompatible(format!("{NAME} cannot hold this profile: {why}"));
    let Sampling::Poisson(rate) = profile.sampling() else { return Err(refusal("it is not sampled by bytes")) };
    let columns = ["inuse_objects", "inuse_space", "alloc_objects", "alloc_space"].map(|name| profile.sample_type_index(name));
    let [Some(objects), Some(bytes), Some(all_objects), Some(all_bytes)] = columns else { return Err(refusal("it is no heap profile")) };
    let counts =
        |values: &[i64]| format!("  t*: {}: {} [{}: {}]\n", values[objects], values[bytes], values[all_objects], values[all_bytes]);
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

/// Whose counts a line tells.
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

/// A dump being read.
struct Dump {
    stacks: RawStacks,
    wanted: Wanted,
    /// The line of the last stack, while no counts have followed it.
    pending: Option<usize>,
    in_header: bool,
    names: FxHashMap<i64, String>,
    has_allocations: bool,
    odd: OddLines,
}

impl Dump {
    fn new(limits: &Limits, wanted: Wanted) -> Dump {
        let stacks = RawStacks::new(NAME, ProfileType::Heap.sample_types(), Addresses::RawReturn, &legacy_frames::HEAP, limits);
        let (names, odd) = (FxHashMap::default(), OddLines::default());
        Dump { stacks, wanted, pending: None, in_header: true, names, has_allocations: false, odd }
    }

    fn read(mut self, bytes: &[u8], warnings: &mut Vec<String>) -> Result<Profile> {
        let mut lines = Lines::new(bytes);
        self.read_first(&mut lines)?;
        let mut has_map = false;
        let mut last = 1;
        for line in lines.by_ref() {
            last = line.number;
            match line.text.first() {
                None | Some(b'#') => {}
                Some(b't') => self.read_counts(&line)?,
                Some(b'@') => self.read_stack(&line)?,
                Some(_) if is_map_heading(line.text) => {
                    has_map = true;
                    break;
                }
                Some(_) if line.is_cut => return Err(line.error(NAME, "a stack, counts or a heading")),
                Some(_) => self.odd.note(&line),
            }
        }
        self.check_whole(has_map, last, warnings)?;
        std::mem::take(&mut self.odd).tell(NAME, warnings);
        if !self.has_allocations {
            self.stacks.builder.comment("alloc_objects and alloc_space are 0: jemalloc kept no totals (prof_accum:false)");
        }
        self.stacks.finish(lines.rest())
    }

    fn read_first(&mut self, lines: &mut Lines<'_>) -> Result<()> {
        let Some(line) = lines.next() else { return Err(Error::Empty) };
        let mut cursor = Cursor::new(line.text);
        let rate = cursor.eat_text(b"heap_v2/").and_then(|()| cursor.integer());
        let rate = rate.filter(|_| cursor.is_done() && !line.is_cut).ok_or_else(|| line.error(NAME, "heap_v2/RATE"))?;
        self.stacks.builder.period("space", "bytes", rate);
        self.stacks.builder.default_sample_type("inuse_space");
        self.stacks.builder.parts_mut().sampling = if rate > 1 { Sampling::Poisson(rate) } else { Sampling::Exact };
        Ok(())
    }

    fn read_stack(&mut self, line: &Line<'_>) -> Result<()> {
        self.in_header = false;
        if self.pending.is_some() {
            self.odd.note(line);
        }
        self.stacks.read_stack(Cursor::new(&line.text[1..]), line)?;
        self.pending = Some(line.number);
        Ok(())
    }

    fn read_counts(&mut self, line: &Line<'_>) -> Result<()> {
        let is_total = line.text.get(1) == Some(&b'*');
        if self.in_header {
            return self.read_header_counts(line);
        }
        if is_total {
            self.pending = None;
        }
        if is_total != (self.wanted == Wanted::Totals) && !line.is_cut {
            return Ok(());
        }
        let (owner, counts, _) = counts(line.text).filter(|_| !line.is_cut).ok_or_else(|| line.error(NAME, "tTHREAD: N: S [N: S]"))?;
        let Counts { inuse, allocated } = counts;
        self.has_allocations |= allocated != (0, 0);
        let values = [allocated.0, allocated.1, inuse.0, inuse.1];
        match owner {
            Owner::All => self.stacks.sample(&values, &[]),
            Owner::Thread(thread) => {
                let labels = self.thread_labels(thread);
                self.stacks.sample(&values, &labels);
            }
        }
        Ok(())
    }

    fn read_header_counts(&mut self, line: &Line<'_>) -> Result<()> {
        let read = counts(line.text).filter(|_| !line.is_cut);
        let (owner, _, name) = read.ok_or_else(|| line.error(NAME, "tTHREAD: N: S [N: S]"))?;
        if let (Owner::Thread(thread), false) = (owner, name.is_empty()) {
            self.names.insert(thread, String::from_utf8_lossy(name).into_owned());
        }
        Ok(())
    }

    fn thread_labels(&mut self, thread: i64) -> Vec<Label> {
        let builder = &mut self.stacks.builder;
        let number = builder.number_label("thread", thread, "");
        let name = self.names.get(&thread).map(|name| builder.text_label("thread_name", name));
        [Some(number), name].into_iter().flatten().collect()
    }

    fn check_whole(&self, has_map: bool, last: usize, warnings: &mut Vec<String>) -> Result<()> {
        match (self.pending, has_map) {
            (Some(line), false) => Err(Error::Truncated { format: NAME, place: Place::Line(line), what: "a stack without counts" }),
            (None, false) => {
                warnings.push(format!("{NAME}: line {last}: no memory map at the end; the dump may be cut off"));
                Ok(())
            }
            (_, true) => Ok(()),
        }
    }
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
