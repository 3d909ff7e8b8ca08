//! Stacks of all threads as text.
//!
//! ```text
//! --- threadz 1 ---
//!
//! --- Thread 7f8a94133700 (name: main/1234) stack: ---
//!   PC: 0x40be31 0x40c6a2          addresses anywhere in the lines, leaf first; the leaf is the thread's current place
//! --- Thread 7f8a93932700 (name: worker/1235) stack: ---
//!   [same as previous thread]
//! ---- no stack trace for 2 threads
//! --- Memory map: ---
//! ```
//! One sample type, `thread`/`count`: a thread with the stack of the one before adds to its sample. A second frame that
//! repeats the leaf is removed, with a warning. Format: google/pprof, `profile/legacy_profile.go`.

use memchr::memmem;

use super::detect::{any, begins};
use super::raw_stacks::RawStacks;
use super::{Detect, Format, Limits, legacy_frames};
use crate::text::{Cursor, Line, Lines, contains, is_map_heading};
use crate::{Addresses, Profile, Result};

/// Name of the format.
pub const NAME: &str = "threadz";

/// The row of the format table.
pub(super) const FORMAT: Format =
    Format { name: NAME, help: "stacks of all threads as text", detect, decode, events: None, encode: None };

const THREAD: &[u8] = b"--- Thread ";

/// Whether the bytes are a dump of threads.
pub fn detect(bytes: &[u8]) -> Detect {
    any([begins(bytes, b"--- threadz "), begins(bytes, THREAD)])
}

/// Decodes a dump of threads.
///
/// # Errors
/// [`crate::Error::Malformed`] or [`crate::Error::Truncated`] with the line, [`crate::Error::TooLarge`] past the depth
/// limit.
pub fn decode(bytes: &[u8], limits: &Limits, warnings: &mut Vec<String>) -> Result<Profile> {
    let mut stacks = RawStacks::new(NAME, &[("thread", "count")], Addresses::RawCpu, &legacy_frames::PROFILER, limits);
    stacks.builder.period("thread", "count", 1);
    let mut dump = Dump { stacks, stack: Vec::new(), in_thread: false, is_same: false, samples: 0, repeated: 0 };
    let mut lines = Lines::new(bytes);
    let mut map: &[u8] = &[];
    while let Some(line) = lines.next() {
        if is_map_heading(line.text) || line.text.starts_with(b"---- no stack trace for") {
            map = lines.behind_map_heading(&line);
            break;
        }
        let read = dump.read(&line);
        dump.stacks.odd.keep(&line, read)?;
    }
    dump.end_thread()?;
    if dump.repeated > 0 {
        warnings.push(format!("{NAME}: removed a second frame that repeats the leaf in {} stacks", dump.repeated));
    }
    dump.stacks.finish(map, lines.number(), warnings)
}

struct Dump {
    stacks: RawStacks,
    stack: Vec<u64>,
    in_thread: bool,
    is_same: bool,
    samples: usize,
    repeated: usize,
}

impl Dump {
    fn read(&mut self, line: &Line<'_>) -> Result<()> {
        if line.text.starts_with(THREAD) {
            self.end_thread()?;
            let whole = contains(line.text, b"(name: ") && line.text.ends_with(b") stack: ---");
            if !whole {
                return Err(line.error(NAME, "--- Thread ID (name: NAME/ID) stack: ---"));
            }
            self.in_thread = true;
            return Ok(());
        }
        let is_start = line.number == 1 && !line.is_cut;
        match line.text.first() {
            None => Ok(()),
            Some(b'-') if !is_start => Err(line.error(NAME, "a thread or the memory map")),
            Some(_) if !self.in_thread => Ok(()),
            Some(_) if line.is_cut => Err(line.error(NAME, "a stack")),
            Some(_) if contains(line.text, b"same as previous thread") => {
                self.is_same = true;
                Ok(())
            }
            Some(_) => self.read_addresses(line),
        }
    }

    fn read_addresses(&mut self, line: &Line<'_>) -> Result<()> {
        let mut rest = line.text;
        if memmem::find(rest, b"0x").is_none() {
            return Err(line.error(NAME, "addresses"));
        }
        while let Some(at) = memmem::find(rest, b"0x") {
            let mut cursor = Cursor::new(&rest[at..]);
            match cursor.address() {
                Some(address) => {
                    self.stack.push(address);
                    rest = cursor.rest;
                }
                None if cursor.rest.get(2).is_some_and(u8::is_ascii_hexdigit) => {
                    return Err(line.error(NAME, "an address of 64 bits"));
                }
                None => rest = &rest[at + 2..],
            }
        }
        Ok(())
    }

    fn end_thread(&mut self) -> Result<()> {
        let stack = std::mem::take(&mut self.stack);
        if !std::mem::take(&mut self.in_thread) {
            return Ok(());
        }
        if std::mem::take(&mut self.is_same) || stack.is_empty() {
            if self.samples > 0
                && let Some(count) = self.stacks.builder.parts_mut().values.last_mut()
            {
                *count += 1;
            }
            return Ok(());
        }
        self.stacks.clear();
        let is_repeated = stack.len() > 1 && stack[0] == stack[1];
        self.repeated += usize::from(is_repeated);
        for address in stack.iter().skip(usize::from(is_repeated)) {
            self.stacks.push(*address)?;
        }
        self.stacks.sample(&[1], &[]);
        self.samples += 1;
        Ok(())
    }
}

#[cfg(test)]
mod tests;
