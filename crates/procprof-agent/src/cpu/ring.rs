//! A ring of samples between one thread's signal handler (writer) and the engine (reader).
//!
//! The memory exists before the thread's timer is armed, and as long as a signal may come. A record is a header word
//! (number of addresses and of label words, how the walk ended, the source of the sample, how many addresses are
//! repeated), a word with the periods of CPU time that it represents and the thread's clock where that was read, the
//! labels' words, then the addresses. Addresses towards the root that equal those of the record before are only
//! counted: deep stacks differ near the leaf, and each side keeps the whole last stack. Only the writer moves
//! `written`, only the reader `read`; both count words and never wrap.
//!
//! As a rule the writer reads no clock, for that is a system call, for which a sandbox may end the thread. The reader
//! keeps the thread's clock of its last visit, and reads it again: the samples are placed between both by their
//! periods. Threads that have armed themselves when they started have made such calls, and read it.

use super::label::LABEL_WORDS;
use super::walk::{End, MAX_DEPTH};
use std::ops::Range;
use std::ptr::null_mut;
use std::sync::atomic::{AtomicPtr, AtomicU64, Ordering};

/// Words in a ring: 64 KiB, of which only the pages that samples reach become resident.
pub(crate) const RING_WORDS: usize = 8192;

/// The memory of a ring; all zero is that of an empty one.
#[derive(Debug)]
#[repr(C)]
pub(crate) struct Memory {
    words: [AtomicU64; RING_WORDS],
    /// The stacks of the last record, one copy for the writer and one for the reader.
    last_written: Last,
    last_read: Last,
}

const HEADER_WORDS: u64 = 2;
const DEPTH_MASK: u64 = 0xffff;
const LABELS_SHIFT: u32 = 16;
const LABELS_MASK: u64 = 0xff;
const END_SHIFT: u32 = 24;
const END_MASK: u64 = 0xff;
const ORIGIN_SHIFT: u32 = 32;
const ORIGIN_MASK: u64 = 0xff;
const REPEATED_SHIFT: u32 = 40;

/// The kernel counts expirations of a timer up to some such number.
const MOST_PERIODS: u64 = 1 << 31;
const PERIODS_MASK: u64 = 0xffff_ffff;

/// Above the periods, the thread's clock in microseconds, and one; 0 where it is not known.
const CLOCK_SHIFT: u32 = 32;
const CLOCK_UNIT: u64 = 1000;

/// The source of a sample.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Origin {
    /// A timer on the thread's CPU clock, which expires on the kernel's tick.
    Tick,
    /// A counter of the kernel's perf events.
    Perf,
}

/// One thread's samples in waiting.
#[derive(Debug)]
pub(crate) struct Ring {
    /// Null while no thread may have it.
    memory: AtomicPtr<Memory>,
    written: AtomicU64,
    read: AtomicU64,
    lost: AtomicU64,
}

/// A stack, root first.
#[derive(Debug)]
#[repr(C)]
struct Last {
    addresses: [AtomicU64; MAX_DEPTH],
    depth: AtomicU64,
}

impl Last {
    fn addresses(&self) -> &[AtomicU64] {
        &self.addresses[..(self.depth.load(Ordering::Relaxed) as usize).min(MAX_DEPTH)]
    }

    /// Puts another stack in the place of all but the first `kept` addresses; `rest` goes on towards the leaf.
    #[inline]
    fn replace(&self, kept: u64, rest: impl Iterator<Item = u64>) {
        let mut depth = kept as usize;
        for address in rest.take(MAX_DEPTH - depth.min(MAX_DEPTH)) {
            self.addresses[depth].store(address, Ordering::Relaxed);
            depth += 1;
        }
        self.depth.store(depth as u64, Ordering::Relaxed);
    }
}

/// One sample as the reader gets it.
#[derive(Debug)]
pub(crate) struct Record<'a> {
    /// The thread's CPU clock when the sample was taken, as near as it is known, nanoseconds.
    pub(crate) cpu: u64,
    /// How the walk ended.
    pub(crate) end: End,
    pub(crate) origin: Origin,
    /// Labels and addresses, as [`split`] takes them apart.
    pub(crate) words: &'a [u64],
}

impl Record<'_> {
    /// The leaf's address, then return addresses towards the root.
    #[cfg(test)]
    pub(crate) fn addresses(&self) -> &[u64] {
        split(self.words).1
    }
}

/// A record's words as the words of its labels and the addresses of its stack.
pub(crate) fn split(words: &[u64]) -> (&[u64], &[u64]) {
    let Some((count, rest)) = words.split_first() else { return (&[], &[]) };
    rest.split_at_checked(*count as usize).unwrap_or((&[], rest))
}

impl Ring {
    /// A ring without memory.
    pub(crate) const fn bare() -> Self {
        Self {
            memory: AtomicPtr::new(null_mut()),
            written: AtomicU64::new(0),
            read: AtomicU64::new(0),
            lost: AtomicU64::new(0),
        }
    }

    /// Gives the empty ring its memory, or takes it by null.
    ///
    /// # Safety
    /// Zeroed or a ring's before, and valid until it is taken; then no handler is in the ring.
    pub(crate) unsafe fn furnish(&self, memory: *mut Memory) {
        self.memory.store(memory, Ordering::SeqCst);
    }

    /// A ring with memory of its own that is not given back.
    #[cfg(test)]
    pub(crate) fn map() -> Option<Self> {
        let ring = Self::bare();
        // SAFETY: all zero is an empty ring's memory.
        let memory: Box<Memory> = unsafe { Box::new(std::mem::zeroed()) };
        // SAFETY: zeroed and leaked.
        unsafe { ring.furnish(Box::into_raw(memory)) };
        Some(ring)
    }

    /// Forgets all that waits and what the last record was: after a fork, where a writer may have stopped half-way.
    pub(crate) fn forget(&self) {
        self.read.store(self.written.load(Ordering::Acquire), Ordering::Release);
        if let Some(memory) = self.memory() {
            memory.last_written.depth.store(0, Ordering::Relaxed);
            memory.last_read.depth.store(0, Ordering::Relaxed);
        }
        self.take_lost();
    }

    #[inline]
    fn memory(&self) -> Option<&Memory> {
        // SAFETY: by the contract of `furnish`.
        unsafe { self.memory.load(Ordering::Relaxed).as_ref() }
    }

    /// Room for one sample of any depth with any labels, or `None` after counting the sample as lost.
    ///
    /// Called only by the handler on the thread that owns the ring.
    #[inline]
    pub(crate) fn begin(&self) -> Option<Writer<'_>> {
        let memory = self.memory()?;
        let start = self.written.load(Ordering::Relaxed);
        let used = start - self.read.load(Ordering::Acquire);
        if used + HEADER_WORDS + (LABEL_WORDS + MAX_DEPTH) as u64 > RING_WORDS as u64 {
            self.lost.fetch_add(1, Ordering::Relaxed);
            return None;
        }
        Some(Writer { ring: self, memory, start, labels: 0, depth: 0, clock: 0 })
    }

    /// Hands all waiting samples to `each`, oldest first, without their times.
    pub(crate) fn drain(&self, each: impl FnMut(Record<'_>)) {
        self.drain_within(|_| 0..0, each);
    }

    /// Passes all waiting samples to `each`, oldest first. `clock` is called once, with the sum of their periods, and
    /// returns the values of the thread's CPU clock between which they were taken, for samples that do not contain it;
    /// it is not called where none waits.
    pub(crate) fn drain_within(&self, clock: impl FnOnce(u64) -> Range<u64>, mut each: impl FnMut(Record<'_>)) {
        let written = self.written.load(Ordering::Acquire);
        let start = self.read.load(Ordering::Relaxed);
        let Some(memory) = self.memory().filter(|_| start != written) else { return };
        let heads =
            std::iter::successors(Some(start), |at| Some(at + memory.head(*at).words())).take_while(|at| *at < written);
        let all: u64 = heads.map(|at| memory.periods(at)).sum();
        let clock = clock(all);
        let mut words = Vec::with_capacity(1 + LABEL_WORDS + MAX_DEPTH);
        let (mut at, mut before) = (start, 0);
        // The last clock that was read, and the periods up to then.
        let mut known = (clock.start, 0);
        while at < written {
            let head = memory.head(at);
            words.clear();
            words.push(head.labels);
            words.extend(
                (0..head.labels + head.depth).map(|i| memory.word(at + HEADER_WORDS + i).load(Ordering::Relaxed)),
            );
            let kept = head.repeated.min(memory.last_read.addresses().len() as u64);
            words.extend(
                memory.last_read.addresses()[..kept as usize].iter().rev().map(|word| word.load(Ordering::Relaxed)),
            );
            memory
                .last_read
                .replace(kept, words[1 + head.labels as usize..][..head.depth as usize].iter().rev().copied());
            let periods = memory.periods(at);
            let cpu = memory.clock(at).map(|cpu| cpu.max(known.0));
            if let Some(cpu) = cpu {
                known = (cpu, before + periods);
            }
            let cpu = cpu.unwrap_or_else(|| {
                within(&(known.0..clock.end), 2 * (before - known.1) + periods, 2 * (all - known.1))
            });
            each(Record { cpu, end: head.end, origin: head.origin, words: &words });
            before += periods;
            at += head.words();
        }
        self.read.store(at, Ordering::Release);
    }

    /// Whether what waits takes more than an eighth of the room.
    pub(crate) fn is_filling(&self) -> bool {
        self.written.load(Ordering::Acquire) - self.read.load(Ordering::Acquire) > RING_WORDS as u64 / 8
    }

    /// Whether no sample waits.
    pub(crate) fn is_empty(&self) -> bool {
        self.read.load(Ordering::Acquire) == self.written.load(Ordering::Acquire)
    }

    /// Samples that found the ring full since the last call.
    pub(crate) fn take_lost(&self) -> u64 {
        self.lost.swap(0, Ordering::Relaxed)
    }
}

impl Memory {
    fn head(&self, at: u64) -> Head {
        let header = self.word(at).load(Ordering::Relaxed);
        let origin =
            if header >> ORIGIN_SHIFT & ORIGIN_MASK == Origin::Perf as u64 { Origin::Perf } else { Origin::Tick };
        let end = end_of(header >> END_SHIFT & END_MASK);
        let (depth, labels, repeated) =
            (header & DEPTH_MASK, header >> LABELS_SHIFT & LABELS_MASK, header >> REPEATED_SHIFT);
        Head { depth, labels, repeated, end, origin }
    }

    /// At least one: a sample represents at least one period.
    fn periods(&self, at: u64) -> u64 {
        (self.word(at + 1).load(Ordering::Relaxed) & PERIODS_MASK).clamp(1, MOST_PERIODS)
    }

    /// The thread's clock when the sample was taken, nanoseconds, where it was read.
    fn clock(&self, at: u64) -> Option<u64> {
        (self.word(at + 1).load(Ordering::Relaxed) >> CLOCK_SHIFT).checked_sub(1).map(|units| units * CLOCK_UNIT)
    }

    #[inline]
    fn word(&self, at: u64) -> &AtomicU64 {
        &self.words[at as usize % RING_WORDS]
    }
}

/// The decoded header word.
struct Head {
    depth: u64,
    labels: u64,
    /// Addresses towards the root that are those of the record before.
    repeated: u64,
    end: End,
    origin: Origin,
}

impl Head {
    /// Words of the record.
    fn words(&self) -> u64 {
        HEADER_WORDS + self.labels + self.depth
    }
}

/// The value that has `part` of `all` parts of a range below it.
fn within(range: &Range<u64>, part: u64, all: u64) -> u64 {
    let length = range.end.saturating_sub(range.start);
    range.start + (u128::from(length) * u128::from(part) / u128::from(all)) as u64
}

/// A sample being written; dropped without [`Writer::commit`], it leaves no trace.
pub(crate) struct Writer<'a> {
    ring: &'a Ring,
    memory: &'a Memory,
    start: u64,
    labels: u64,
    depth: u64,
    /// As the record has it.
    clock: u64,
}

impl Writer<'_> {
    /// Notes the thread's clock, nanoseconds; one that is too long for the record is not known.
    #[inline]
    pub(crate) fn at(&mut self, cpu: u64) {
        let units = 1 + cpu / CLOCK_UNIT;
        self.clock = if units > PERIODS_MASK { 0 } else { units };
    }

    /// Appends a word of labels, all before the first address; beyond [`LABEL_WORDS`] it is dropped.
    #[inline]
    pub(crate) fn label(&mut self, word: u64) {
        if self.labels < LABEL_WORDS as u64 {
            self.memory.word(self.start + HEADER_WORDS + self.labels).store(word, Ordering::Relaxed);
            self.labels += 1;
        }
    }

    /// Appends an address; false without doing so where [`MAX_DEPTH`] are there.
    #[inline]
    pub(crate) fn push(&mut self, address: u64) -> bool {
        let has_room = self.depth < MAX_DEPTH as u64;
        if has_room {
            self.memory.word(self.start + HEADER_WORDS + self.labels + self.depth).store(address, Ordering::Relaxed);
            self.depth += 1;
        }
        has_room
    }

    /// Makes the sample visible to the reader, with the number of periods that it represents.
    #[inline]
    pub(crate) fn commit(mut self, periods: u64, end: End, origin: Origin) {
        let repeated = self.repeated();
        self.depth -= repeated;
        let leaves = (0..self.depth).rev().map(|i| self.address(i).load(Ordering::Relaxed));
        self.memory.last_written.replace(repeated, leaves);
        let header = repeated << REPEATED_SHIFT
            | self.depth
            | self.labels << LABELS_SHIFT
            | (end as u64) << END_SHIFT
            | (origin as u64) << ORIGIN_SHIFT;
        self.memory.word(self.start).store(header, Ordering::Relaxed);
        self.memory
            .word(self.start + 1)
            .store(periods.min(MOST_PERIODS) | self.clock << CLOCK_SHIFT, Ordering::Relaxed);
        self.ring.written.store(self.start + HEADER_WORDS + self.labels + self.depth, Ordering::Release);
    }
}

impl Writer<'_> {
    /// The address at a position from the leaf.
    #[inline]
    fn address(&self, position: u64) -> &AtomicU64 {
        self.memory.word(self.start + HEADER_WORDS + self.labels + position)
    }

    /// How many addresses towards the root are those of the last record.
    #[inline]
    fn repeated(&self) -> u64 {
        let same = |(position, last): &(u64, &AtomicU64)| {
            self.address(*position).load(Ordering::Relaxed) == last.load(Ordering::Relaxed)
        };
        (0..self.depth).rev().zip(self.memory.last_written.addresses()).take_while(same).count() as u64
    }
}

fn end_of(number: u64) -> End {
    match number {
        number if number == End::Truncated as u64 => End::Truncated,
        number if number == End::UnknownStack as u64 => End::UnknownStack,
        number if number == End::UnknownCode as u64 => End::UnknownCode,
        number if number == End::Lost as u64 => End::Lost,
        number if number == End::Scanned as u64 => End::Scanned,
        _ => End::Root,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn write(ring: &Ring, number: u64, depth: u64) -> bool {
        let Some(mut writer) = ring.begin() else { return false };
        (0..number % 3).for_each(|i| writer.label(i));
        assert!((0..depth).all(|i| writer.push(number * 1000 + i)));
        writer.commit(1, End::Root, Origin::Tick);
        true
    }

    #[test]
    fn samples_lie_between_two_readings_by_their_periods() {
        let ring = Ring::map().unwrap();
        for periods in [1, 3, 0] {
            ring.begin().unwrap().commit(periods, End::Root, Origin::Tick);
        }
        let mut clocks = Vec::new();
        ring.drain_within(
            |periods| {
                assert_eq!(periods, 5);
                1000..1100
            },
            |record| clocks.push(record.cpu),
        );
        assert_eq!(clocks, [1010, 1050, 1090]);
        ring.drain_within(|_| panic!("nothing waits"), |_| ());
    }

    #[test]
    fn a_clock_that_was_read_is_kept_and_others_lie_after_it() {
        let ring = Ring::map().unwrap();
        for (periods, clock) in [(1, Some(1_030_400)), (2, None), (2, None), (1, Some(1_090_000)), (1, Some(1 << 50))] {
            let mut writer = ring.begin().unwrap();
            clock.into_iter().for_each(|clock| writer.at(clock));
            writer.commit(periods, End::Root, Origin::Tick);
        }
        let mut clocks = Vec::new();
        ring.drain_within(|_| 1_000_000..1_102_000, |record| clocks.push(record.cpu));
        assert_eq!(clocks, [1_030_000, 1_042_000, 1_066_000, 1_090_000, 1_096_000]);
    }

    #[test]
    fn what_is_written_is_read_in_order_over_many_laps() {
        let ring = Ring::map().unwrap();
        let mut next = 0;
        for lap in 0..500_u64 {
            for _ in 0..7 {
                assert!(write(&ring, lap, 40 + lap % 30));
            }
            ring.drain(|record| {
                assert_eq!(split(record.words).0.len() as u64, lap % 3);
                assert_eq!(record.addresses().len() as u64, 40 + lap % 30);
                assert_eq!(record.addresses()[3], lap * 1000 + 3);
                next += 1;
            });
        }
        assert_eq!((next, ring.take_lost()), (3500, 0));
    }

    #[test]
    fn a_full_ring_loses_samples_and_counts_them() {
        let ring = Ring::map().unwrap();
        let kept = (0..1000).filter(|number| write(&ring, 1 + number, 500)).count();
        assert!(kept < 20, "{kept} of 1000 can't fit");
        assert_eq!(ring.take_lost(), 1000 - kept as u64);
        let mut read = 0;
        ring.drain(|_| read += 1);
        assert_eq!(read, kept);
        assert!(write(&ring, 2, 500), "there is room again");
        assert_eq!(ring.take_lost(), 0);
    }

    /// Stacks that differ near their leaves only, and then all of them, over many laps.
    #[test]
    fn what_a_stack_has_in_common_with_the_last_one_takes_no_room() {
        let ring = Ring::map().unwrap();
        let stack = |number: u64, own: u64, depth: u64| -> Vec<u64> {
            (0..depth).map(|i| if i < own { number * 1000 + i } else { 7 + depth - i }).collect()
        };
        let shapes = [(10, 500), (10, 512), (0, 512), (512, 512), (3, 20), (0, 0), (1, 1), (20, 400)];
        for lap in 0..20 {
            for (own, depth) in shapes {
                for number in 0..12 {
                    let mut writer = ring.begin().expect("there is room");
                    (0..lap % 3).for_each(|word| writer.label(word));
                    assert!(stack(number, own, depth).into_iter().all(|address| writer.push(address)));
                    writer.commit(1, End::Truncated, Origin::Perf);
                }
                let mut number = 0;
                ring.drain(|record| {
                    assert_eq!((record.end, record.origin), (End::Truncated, Origin::Perf));
                    assert_eq!(split(record.words).0.len() as u64, lap % 3);
                    assert_eq!(record.addresses(), stack(number, own, depth), "{own} of {depth}");
                    number += 1;
                });
                assert_eq!(number, 12);
            }
            if lap == 10 {
                assert!(write(&ring, 9, 300));
                ring.forget();
            }
        }
        let kept = (0..400).filter(|number| {
            let mut writer = ring.begin().expect("there is room");
            stack(*number, 8, 500)
                .into_iter()
                .all(|address| writer.push(address))
                .then(|| writer.commit(1, End::Root, Origin::Tick))
                .is_some()
        });
        assert_eq!((kept.count(), ring.take_lost()), (400, 0));
    }

    #[test]
    fn how_a_walk_ended_and_what_made_the_sample_survive() {
        let ring = Ring::map().unwrap();
        for end in [End::Root, End::Truncated, End::UnknownStack, End::UnknownCode, End::Lost, End::Scanned] {
            for origin in [Origin::Tick, Origin::Perf] {
                ring.begin().unwrap().commit(5, end, origin);
                ring.drain(|record| assert_eq!((record.end, record.origin), (end, origin)));
            }
        }
    }
}
