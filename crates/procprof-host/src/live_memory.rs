//! Memory that a sample's copy of the stack lacks, read from the process when the sample is taken in.
//!
//! The kernel copies a stack up to its first page that nothing has touched, and up to the size that was asked for. The
//! thread has run on since the sample, so what is read later counts only if the frame at the seam lies as it was: the
//! words that the walk read last from the copy are read again with each page.
//!
//! To read a page that nothing has touched lets the kernel map its page of zeros there, which takes no memory. So with
//! the first page behind a hole those in it are read, too, and the next copies of this stack have no hole.

use std::io;
use std::time::{Duration, Instant};

use procprof_unwind::{Stack, StackCopy};

use crate::kernel::read_memory;

/// Most calls of the kernel in a second; each takes about a microsecond.
pub(crate) const CALLS_PER_SECOND: u32 = 10_000;
/// Most bytes read in a second.
pub(crate) const BYTES_PER_SECOND: usize = 64 << 20;
/// Most calls for one stack.
const CALLS_PER_STACK: u32 = 64;

const PAGE: usize = 4096;
/// Pages read at once, if they are there.
const PAGES: usize = 4;

/// Pages of a hole that are read.
const HOLE_PAGES: usize = 16;

/// Words above the stack pointer among which one is looked for that was overwritten below it.
const POINTER_WORDS: usize = 1024;

/// Words at the seam that are compared: the last that the walk has read from the copy.
const SEAM_WORDS: usize = 2;

/// Words at the end of the copy that are compared where the walk has read none from it.
const TAIL_WORDS: usize = 8;

/// Bytes below the stack pointer that a function may use (System V ABI AMD64, 3.2.2).
const RED_ZONE: u64 = 128;

/// Words farther above the stack pointer are of other memory.
const MAX_STACK_BYTES: u64 = 1 << 30;

/// Why memory could not be read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Failure {
    /// The thread has left the frames since, or ended.
    Late,
    /// This user may not read it.
    Refused,
    /// A limit is reached.
    Limit,
}

/// Reads the memory of processes, so much in a second.
#[derive(Debug, Default)]
pub(crate) struct ProcessMemory {
    second: Option<Instant>,
    calls: u32,
    bytes: usize,
}

impl ProcessMemory {
    /// Whether memory was read in this second or the one before.
    pub(crate) fn is_in_use(&self) -> bool {
        self.second.is_some_and(|second| second.elapsed() < Duration::from_secs(2))
    }

    /// Reads ranges as [`read_memory`] does, within the limits.
    pub(crate) fn read(&mut self, pid: u32, ranges: &[(u64, usize)], into: &mut [u8]) -> Result<usize, Failure> {
        let now = Instant::now();
        if self.second.is_none_or(|second| now.duration_since(second) >= Duration::from_secs(1)) {
            *self = Self { second: Some(now), ..Self::default() };
        }
        if self.calls >= CALLS_PER_SECOND || self.bytes >= BYTES_PER_SECOND {
            return Err(Failure::Limit);
        }
        self.calls += 1;
        let read = read_memory(pid, ranges, into);
        self.bytes += *read.as_ref().unwrap_or(&0);
        read.map_err(|error| match error.kind() {
            io::ErrorKind::PermissionDenied | io::ErrorKind::Unsupported => Failure::Refused,
            _ => Failure::Late,
        })
    }

    /// The memory from an address on, at most so many bytes, up to the first page that can't be read.
    pub(crate) fn read_stack(&mut self, pid: u32, address: u64, bytes_max: usize) -> Result<Vec<u8>, Failure> {
        // A range is read whole or not at all.
        let first = (PAGE - (address % PAGE as u64) as usize).min(bytes_max);
        let pages = (first..bytes_max).step_by(PAGE);
        let others = pages.map(|offset| (address.wrapping_add(offset as u64), PAGE.min(bytes_max - offset)));
        let ranges: Vec<_> = std::iter::once((address, first)).chain(others).collect();
        let mut bytes = vec![0; bytes_max];
        let read = self.read(pid, &ranges, &mut bytes)?;
        bytes.truncate(read);
        Ok(bytes)
    }
}

/// The stack of a sample: its copy, and behind it the memory of the process.
#[derive(Debug)]
pub(crate) struct SampledStack<'a> {
    copy: StackCopy<'a>,
    /// The stack pointer of the interrupted frame, or of the one that a signal interrupted.
    sp: u64,
    process: Option<(u32, &'a mut ProcessMemory)>,
    /// Addresses and values of the words read last from the copy.
    seam: Vec<(u64, u64)>,
    pages: Vec<(u64, Vec<u8>)>,
    calls: u32,
    /// Whether a word was read from the process.
    pub(crate) is_completed: bool,
    /// The words read last where the copy has none of the frame at the seam, by which a change could be seen.
    unproven: Vec<(u64, u64)>,
    pub(crate) failure: Option<Failure>,
    /// The address below the stack pointer whose word was read, and a word that is taken in its place.
    below: Option<(u64, Option<u64>)>,
}

impl<'a> SampledStack<'a> {
    /// The stack of a process, if that can still be read.
    pub(crate) fn new(copy: StackCopy<'a>, process: Option<(u32, &'a mut ProcessMemory)>) -> Self {
        Self {
            copy,
            sp: copy.start,
            process,
            seam: Vec::with_capacity(SEAM_WORDS + 1),
            pages: Vec::new(),
            calls: 0,
            is_completed: false,
            unproven: Vec::new(),
            failure: None,
            below: None,
        }
    }

    /// The word at an address.
    pub(crate) fn read(&mut self, address: u64) -> Option<u64> {
        if let Some(value) = self.copy.read(address) {
            push_last(&mut self.seam, (address, value));
            return Some(value);
        }
        let is_below = address < self.sp;
        if is_below {
            match self.below {
                Some((place, Some(value))) if place == address => return Some(value),
                _ => self.below = Some((address, None)),
            }
        }
        let offset = address.wrapping_sub(self.sp.wrapping_sub(RED_ZONE));
        if self.process.is_none() || self.failure.is_some() || offset >= MAX_STACK_BYTES {
            return None;
        }
        if let Some(value) = self.kept(address) {
            return Some(value);
        }
        if let Err(failure) = self.fetch(address, is_below) {
            self.failure = Some(failure);
            return None;
        }
        let value = self.kept(address)?;
        self.is_completed = true;
        if !is_below && self.seam.is_empty() {
            push_last(&mut self.unproven, (address, value));
        }
        Some(value)
    }

    fn kept(&self, address: u64) -> Option<u64> {
        self.pages.iter().find_map(|(start, bytes)| StackCopy { start: *start, bytes }.read(address))
    }

    /// Reads the page of an address, and again the words at the seam. Below the stack pointer there is no seam, and the
    /// word alone is read.
    fn fetch(&mut self, address: u64, is_below: bool) -> Result<(), Failure> {
        if self.calls >= CALLS_PER_STACK {
            return Err(Failure::Limit);
        }
        self.calls += 1;
        if is_below {
            let word = self.read_process(&[(address, 8)])?;
            self.pages.push((address, word));
            return Ok(());
        }
        let page = address & !(PAGE as u64 - 1);
        let words = if self.seam.is_empty() { self.tail() } else { self.seam.clone() };
        let mut ranges = vec![(page, PAGE)];
        ranges.extend(words.iter().map(|(address, _)| (*address, 8)));
        ranges.extend((1..PAGES).map(|number| (page.wrapping_add((number * PAGE) as u64), PAGE)));
        let end = self.copy.start.wrapping_add(self.copy.bytes.len() as u64);
        if self.pages.is_empty() && end.is_multiple_of(PAGE as u64) {
            ranges.extend((end..page).step_by(PAGE).take(HOLE_PAGES).map(|hole| (hole, 1)));
        }
        let mut bytes = self.read_process(&ranges)?;
        let seam = PAGE..PAGE + 8 * words.len();
        let found = bytes.get(seam.clone()).ok_or(Failure::Late)?.as_chunks().0;
        if words.iter().zip(found).any(|((_, value), word)| *value != u64::from_le_bytes(*word)) {
            return Err(Failure::Late);
        }
        bytes.drain(seam);
        bytes.truncate(PAGES * PAGE);
        self.pages.push((page, bytes));
        Ok(())
    }

    /// The last words of the copy.
    fn tail(&self) -> Vec<(u64, u64)> {
        let StackCopy { start, bytes } = self.copy;
        let words = bytes.as_chunks().0;
        let first = words.len().saturating_sub(TAIL_WORDS);
        let places = (first as u64..).map(|number| start.wrapping_add(8 * number));
        places.zip(words.iter().skip(first).map(|word| u64::from_le_bytes(*word))).collect()
    }

    /// The bytes of ranges, up to the first that can't be read.
    fn read_process(&mut self, ranges: &[(u64, usize)]) -> Result<Vec<u8>, Failure> {
        let (pid, memory) = self.process.as_mut().ok_or(Failure::Late)?;
        let mut bytes = vec![0; ranges.iter().map(|(_, length)| length).sum()];
        let read = memory.read(*pid, ranges, &mut bytes)?;
        bytes.truncate(read);
        Ok(bytes)
    }

    /// The walk goes on at the frame that a signal interrupted. False if its stack can't be read.
    pub(crate) fn switch(&mut self, sp: u64) -> bool {
        self.sp = sp;
        let is_copied = StackCopy { ..self.copy }.switch(sp);
        if !is_copied {
            // What lies on the handler's stack tells nothing of this one.
            self.seam.clear();
        }
        is_copied || self.process.is_some()
    }

    /// Whether a word below the stack pointer was read.
    pub(crate) fn has_read_below(&self) -> bool {
        self.below.is_some()
    }

    /// Takes a word in the place of the one below the stack pointer, which may have been overwritten since the sample.
    pub(crate) fn substitute(&mut self, value: u64) {
        self.below = self.below.map(|(address, _)| (address, Some(value)));
    }

    /// The words near the stack pointer that point above themselves in the copy.
    pub(crate) fn pointers(&self) -> Vec<u64> {
        let StackCopy { start, bytes } = self.copy;
        let end = start.wrapping_add(bytes.len() as u64);
        let words = bytes.as_chunks().0.iter().take(POINTER_WORDS).map(|word| u64::from_le_bytes(*word));
        let places = (0_u64..).map(|number| start.wrapping_add(8 * number));
        let mut pointers: Vec<u64> = places
            .zip(words)
            .filter(|(place, word)| (*place..end).contains(word) && word.is_multiple_of(8))
            .map(|(_, word)| word)
            .collect();
        pointers.sort_unstable();
        pointers.dedup();
        pointers
    }

    /// The words could not be those of the sample.
    pub(crate) fn fail(&mut self, failure: Failure) {
        self.failure = Some(failure);
    }

    /// Whether words were read with nothing to tell that they are the sample's.
    pub(crate) fn is_unproven(&self) -> bool {
        !self.unproven.is_empty()
    }

    /// Such words are those of the sample: from now on they are the seam.
    pub(crate) fn prove(&mut self) {
        self.seam = std::mem::take(&mut self.unproven);
    }

    /// Reads code of the process, from an address on; the number of bytes.
    pub(crate) fn read_code(&mut self, address: u64, into: &mut [u8]) -> Option<usize> {
        let (pid, memory) = self.process.as_mut()?;
        let length = into.len();
        memory.read(*pid, &[(address, length)], into).ok()
    }
}

/// Adds to the last words that were read.
fn push_last(words: &mut Vec<(u64, u64)>, word: (u64, u64)) {
    words.push(word);
    if words.len() > SEAM_WORDS {
        words.remove(0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Four pages of a mapping of this process, the last two of which nothing has touched.
    fn stack() -> Vec<u64> {
        (0..4 * PAGE as u64 / 8).collect()
    }

    fn sampled<'a>(words: &[u64], copy: &'a [u8], memory: &'a mut ProcessMemory) -> SampledStack<'a> {
        let start = words.as_ptr() as u64;
        SampledStack::new(StackCopy { start, bytes: copy }, Some((std::process::id(), memory)))
    }

    fn bytes(words: &[u64]) -> Vec<u8> {
        words.iter().flat_map(|word| word.to_le_bytes()).collect()
    }

    #[test]
    fn words_behind_the_copy_count_while_the_seam_is_as_it_was() {
        let mut words = stack();
        let (copy, mut memory) = (bytes(&words[..16]), ProcessMemory::default());
        let place = |number: u64| words.as_ptr() as u64 + 8 * number;
        let (seam, behind, far) = (place(15), place(16), place(1500));
        let mut stack = sampled(&words, &copy, &mut memory);
        assert_eq!((stack.read(seam), stack.read(behind), stack.read(far)), (Some(15), Some(16), Some(1500)));
        assert_eq!((stack.is_completed, stack.is_unproven(), stack.failure), (true, false, None));
        words[15] = 0;
        let mut stack = sampled(&words, &copy, &mut memory);
        assert_eq!((stack.read(seam), stack.read(behind)), (Some(15), None));
        assert_eq!((stack.is_completed, stack.failure), (false, Some(Failure::Late)));
    }

    #[test]
    fn words_without_a_seam_are_not_proven_and_those_below_the_stack_pointer_need_none() {
        let words = stack();
        let (copy, mut memory) = (bytes(&words[256..260]), ProcessMemory::default());
        let mut stack = sampled(&words[256..], &copy, &mut memory);
        let sp = words[256..].as_ptr() as u64;
        assert_eq!((stack.read(sp - 8), stack.is_unproven(), stack.is_completed), (Some(255), false, true));
        assert_eq!(stack.read(sp - 8 - RED_ZONE), None);
        assert_eq!((stack.read(sp + 32), stack.is_unproven(), stack.is_completed), (Some(260), true, true));
        stack.prove();
        assert_eq!((stack.read(sp + 3 * PAGE as u64), stack.is_unproven()), (Some(256 + 3 * 512), false));
    }

    #[test]
    fn a_stack_is_read_as_far_as_it_is_mapped() {
        let maps = std::fs::read_to_string("/proc/self/maps").unwrap();
        let range = maps.lines().find(|line| line.ends_with("[stack]")).unwrap().split(' ').next().unwrap();
        let end = u64::from_str_radix(range.split('-').nth(1).unwrap(), 16).unwrap();
        let (own, mut memory) = (std::process::id(), ProcessMemory::default());
        for (bytes, expected) in [(6000, 6000), (PAGE, PAGE), (8, 8), (70_000, 65_536)] {
            let read = memory.read_stack(own, end - bytes as u64, 64 << 10).unwrap();
            assert_eq!(read.len(), expected, "{bytes}");
        }
        assert_eq!(memory.read_stack(own, end, 64 << 10), Err(Failure::Late));
        memory.bytes = BYTES_PER_SECOND;
        memory.second = Some(Instant::now() + Duration::from_secs(600));
        assert_eq!(memory.read_stack(own, end - 8, 8), Err(Failure::Limit));
    }

    #[test]
    fn what_can_not_be_read_is_told() {
        let mut memory = ProcessMemory::default();
        let mut stack = SampledStack::new(StackCopy { start: 1 << 20, bytes: &[] }, Some((4_194_304, &mut memory)));
        assert_eq!((stack.read(1 << 20), stack.failure), (None, Some(Failure::Late)));
        let mut stack = SampledStack::new(StackCopy { start: 1 << 20, bytes: &[] }, None);
        assert_eq!((stack.read(1 << 20), stack.switch(1 << 30)), (None, false));
        let own = std::process::id();
        let (word, mut into) = (7_u64, [0; 8]);
        let range = [((&raw const word) as u64, 8)];
        let results: Vec<_> = (0..=CALLS_PER_SECOND).map(|_| memory.read(own, &range, &mut into)).collect();
        // A second may have passed meanwhile.
        assert!(results.iter().all(|result| matches!(result, Ok(8) | Err(Failure::Limit))), "{results:?}");
        memory.calls = CALLS_PER_SECOND;
        memory.second = Some(Instant::now() + Duration::from_secs(600));
        assert_eq!(memory.read(own, &range, &mut into), Err(Failure::Limit));
    }
}
