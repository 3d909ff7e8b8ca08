//! A ring of samples between one thread's signal handler (writer) and the engine (reader).
//!
//! Memory is mapped before the thread's timer is armed and never given back, so a late signal finds it whole. A record
//! is a header word (number of addresses and of label words, how the walk ended, what made the sample), the thread's CPU clock in
//! nanoseconds, the labels' words, then the addresses. Only the writer moves `written`, only the reader `read`; both count words and never wrap.

use super::label::LABEL_WORDS;
use super::walk::{End, MAX_DEPTH};
use std::sync::atomic::{AtomicU64, Ordering};

/// Words in a ring: 64 KiB, of which only the pages that samples reach become resident.
pub(crate) const RING_WORDS: usize = 8192;

const HEADER_WORDS: u64 = 2;
const DEPTH_MASK: u64 = 0xffff;
const LABELS_SHIFT: u32 = 16;
const LABELS_MASK: u64 = 0xff;
const END_SHIFT: u32 = 24;
const END_MASK: u64 = 0xff;
const ORIGIN_SHIFT: u32 = 32;

/// What made a sample.
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
    words: &'static [AtomicU64; RING_WORDS],
    written: AtomicU64,
    read: AtomicU64,
    lost: AtomicU64,
}

/// One sample as the reader gets it.
#[derive(Debug)]
pub(crate) struct Record<'a> {
    /// The thread's CPU clock when the sample was taken, nanoseconds.
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
    /// Maps a ring's memory for the rest of the process's life; `None` if the kernel refuses.
    pub(crate) fn map() -> Option<Self> {
        let bytes = RING_WORDS * size_of::<u64>();
        let (protection, flags) = (libc::PROT_READ | libc::PROT_WRITE, libc::MAP_PRIVATE | libc::MAP_ANONYMOUS);
        // SAFETY: a fresh private mapping that nothing else knows.
        let memory = unsafe { libc::mmap(std::ptr::null_mut(), bytes, protection, flags, -1, 0) };
        if memory == libc::MAP_FAILED {
            return None;
        }
        // SAFETY: zeroed, page-aligned, `RING_WORDS` long and never unmapped; atomics allow shared writes.
        let words = unsafe { &*memory.cast::<[AtomicU64; RING_WORDS]>() };
        Some(Self { words, written: AtomicU64::new(0), read: AtomicU64::new(0), lost: AtomicU64::new(0) })
    }

    /// Room for one sample of any depth with any labels, or `None` after counting the sample as lost.
    ///
    /// Called only by the handler on the thread that owns the ring.
    #[inline]
    pub(crate) fn begin(&self) -> Option<Writer<'_>> {
        let start = self.written.load(Ordering::Relaxed);
        let used = start - self.read.load(Ordering::Acquire);
        if used + HEADER_WORDS + (LABEL_WORDS + MAX_DEPTH) as u64 > RING_WORDS as u64 {
            self.lost.fetch_add(1, Ordering::Relaxed);
            return None;
        }
        Some(Writer { ring: self, start, labels: 0, depth: 0 })
    }

    /// Hands all waiting samples to `each`, oldest first.
    pub(crate) fn drain(&self, mut each: impl FnMut(Record<'_>)) {
        let written = self.written.load(Ordering::Acquire);
        let mut at = self.read.load(Ordering::Relaxed);
        let mut words = Vec::with_capacity(1 + LABEL_WORDS + MAX_DEPTH);
        while at < written {
            let header = self.word(at).load(Ordering::Relaxed);
            let (depth, labels) = (header & DEPTH_MASK, header >> LABELS_SHIFT & LABELS_MASK);
            words.clear();
            words.push(labels);
            words.extend((0..labels + depth).map(|i| self.word(at + HEADER_WORDS + i).load(Ordering::Relaxed)));
            let cpu = self.word(at + 1).load(Ordering::Relaxed);
            let origin = if header >> ORIGIN_SHIFT == Origin::Perf as u64 { Origin::Perf } else { Origin::Tick };
            each(Record { cpu, end: end_of(header >> END_SHIFT & END_MASK), origin, words: &words });
            at += HEADER_WORDS + labels + depth;
        }
        self.read.store(at, Ordering::Release);
    }

    /// Samples that found the ring full since the last call.
    pub(crate) fn take_lost(&self) -> u64 {
        self.lost.swap(0, Ordering::Relaxed)
    }

    #[inline]
    fn word(&self, at: u64) -> &AtomicU64 {
        &self.words[at as usize % RING_WORDS]
    }
}

/// A sample being written; dropped without [`Writer::commit`], it leaves no trace.
pub(crate) struct Writer<'a> {
    ring: &'a Ring,
    start: u64,
    labels: u64,
    depth: u64,
}

impl Writer<'_> {
    /// Appends a word of labels, all before the first address; beyond [`LABEL_WORDS`] it is dropped.
    #[inline]
    pub(crate) fn label(&mut self, word: u64) {
        if self.labels < LABEL_WORDS as u64 {
            self.ring.word(self.start + HEADER_WORDS + self.labels).store(word, Ordering::Relaxed);
            self.labels += 1;
        }
    }

    /// Appends an address; false without doing so where [`MAX_DEPTH`] are there.
    #[inline]
    pub(crate) fn push(&mut self, address: u64) -> bool {
        let has_room = self.depth < MAX_DEPTH as u64;
        if has_room {
            self.ring.word(self.start + HEADER_WORDS + self.labels + self.depth).store(address, Ordering::Relaxed);
            self.depth += 1;
        }
        has_room
    }

    /// Makes the sample visible to the reader.
    #[inline]
    pub(crate) fn commit(self, cpu: u64, end: End, origin: Origin) {
        let header = self.depth | self.labels << LABELS_SHIFT | (end as u64) << END_SHIFT | (origin as u64) << ORIGIN_SHIFT;
        self.ring.word(self.start).store(header, Ordering::Relaxed);
        self.ring.word(self.start + 1).store(cpu, Ordering::Relaxed);
        self.ring.written.store(self.start + HEADER_WORDS + self.labels + self.depth, Ordering::Release);
    }
}

fn end_of(number: u64) -> End {
    match number {
        number if number == End::Truncated as u64 => End::Truncated,
        number if number == End::UnknownStack as u64 => End::UnknownStack,
        number if number == End::UnknownCode as u64 => End::UnknownCode,
        number if number == End::Lost as u64 => End::Lost,
        _ => End::Root,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn write(ring: &Ring, cpu: u64, depth: u64) -> bool {
        let Some(mut writer) = ring.begin() else { return false };
        (0..cpu % 3).for_each(|i| writer.label(i));
        assert!((0..depth).all(|i| writer.push(cpu * 1000 + i)));
        writer.commit(cpu, End::Root, Origin::Tick);
        true
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
                assert_eq!(record.cpu, lap);
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
        let kept = (0..1000).filter(|_| write(&ring, 1, 500)).count();
        assert!(kept < 20, "{kept} of 1000 can't fit");
        assert_eq!(ring.take_lost(), 1000 - kept as u64);
        let mut read = 0;
        ring.drain(|_| read += 1);
        assert_eq!(read, kept);
        assert!(write(&ring, 2, 500), "there is room again");
        assert_eq!(ring.take_lost(), 0);
    }

    #[test]
    fn how_a_walk_ended_and_what_made_the_sample_survive() {
        let ring = Ring::map().unwrap();
        for end in [End::Root, End::Truncated, End::UnknownStack, End::UnknownCode, End::Lost] {
            for origin in [Origin::Tick, Origin::Perf] {
                ring.begin().unwrap().commit(5, end, origin);
                ring.drain(|record| assert_eq!((record.end, record.origin), (end, origin)));
            }
        }
    }
}
