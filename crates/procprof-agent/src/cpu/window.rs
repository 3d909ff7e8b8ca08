//! The account of one capture: which stack stood for how much CPU time between two moments.
//!
//! Several windows may be open over the same samples. A sample weighs the CPU time its thread used since the thread's previous
//! sample in this window, at most two periods; the rest, and what a thread used after its last sample, is kept as unsampled time
//! of that thread. So all weights add up to the CPU time of the process.

use super::ring::{Origin, Record};
use super::walk::End;
use std::collections::HashMap;
use std::sync::Arc;
use std::time::{Instant, SystemTime};

/// Words a window keeps in distinct stacks (64 MiB); samples of further stacks are counted as lost.
const MAX_WORDS: usize = 8 << 20;

/// Words a stack takes beside its addresses: its place in the table, half of which may be empty, and what the allocator adds.
const STACK_WORDS: usize = 12;

/// Threads of which a window keeps an account; of further ones samples are counted as lost, and their time as that of ended threads.
const MAX_THREADS: usize = 1 << 16;

/// A thread as the engine sees it at one moment.
#[derive(Clone, Debug)]
pub(crate) struct ThreadView {
    /// Unique over the sampler's life, unlike `tid`.
    pub(crate) key: u64,
    pub(crate) tid: i32,
    pub(crate) name: Arc<str>,
    /// Its CPU clock, nanoseconds.
    pub(crate) cpu: u64,
}

/// How often a stack was seen and for how much CPU time it stands.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Weight {
    pub(crate) samples: u64,
    pub(crate) nanos: u64,
}

/// One thread's part of a window.
#[derive(Debug)]
pub(crate) struct Share {
    pub(crate) tid: i32,
    pub(crate) name: Arc<str>,
    /// By labels and addresses, as a record has them.
    pub(crate) stacks: HashMap<Box<[u64]>, Weight>,
    /// Samples, and those of them that perf events made.
    pub(crate) samples: u64,
    pub(crate) by_perf: u64,
    /// CPU time no sample stands for, nanoseconds.
    pub(crate) unsampled: u64,
    began: u64,
    accounted: u64,
}

/// Samples that are not as they should be.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Shortfalls {
    /// Samples that found a ring or the window full.
    pub(crate) lost: u64,
    /// Samples whose stack was cut at the depth limit.
    pub(crate) truncated: u64,
    /// Samples on a stack that was not known, of which only the leaf was kept.
    pub(crate) unwalked: u64,
    /// Samples in code that was not known yet; callers in the same code are missing.
    pub(crate) in_new_code: u64,
    /// Samples whose walk ended before the thread's first frame.
    pub(crate) without_root: u64,
    /// Threads the kernel gave no timer for.
    pub(crate) threads_without_timer: u64,
}

/// An open capture.
#[derive(Debug)]
pub(crate) struct Window {
    pub(crate) started: SystemTime,
    pub(crate) began: Instant,
    pub(crate) shortfalls: Shortfalls,
    process_began: u64,
    cap: u64,
    shares: HashMap<u64, Share>,
    words: usize,
}

impl Window {
    /// Opens a window now; a sample in it weighs at most `cap` nanoseconds.
    pub(crate) fn open<'a>(threads: impl Iterator<Item = &'a ThreadView>, process_cpu: u64, cap: u64) -> Self {
        let shares = threads.map(|thread| (thread.key, Share::since(thread, thread.cpu))).collect();
        let (started, began, shortfalls) = (SystemTime::now(), Instant::now(), Shortfalls::default());
        Self { started, began, shortfalls, process_began: process_cpu, cap, shares, words: 0 }
    }

    /// Accounts a sample of a thread.
    pub(crate) fn sample(&mut self, thread: &ThreadView, record: &Record<'_>) {
        let Some(share) = share(&mut self.shares, thread) else {
            self.shortfalls.lost += 1;
            return;
        };
        let Some(used) = record.cpu.checked_sub(share.accounted).filter(|used| *used > 0) else { return };
        share.accounted = record.cpu;
        share.name.clone_from(&thread.name);
        share.samples += 1;
        share.by_perf += u64::from(record.origin == Origin::Perf);
        let nanos = used.min(self.cap);
        share.unsampled += used - nanos;
        self.shortfalls.truncated += u64::from(record.end == End::Truncated);
        self.shortfalls.unwalked += u64::from(record.end == End::UnknownStack);
        self.shortfalls.in_new_code += u64::from(record.end == End::UnknownCode);
        self.shortfalls.without_root += u64::from(record.end == End::Lost);
        let words = record.words.len() + STACK_WORDS;
        if let Some(weight) = share.stacks.get_mut(record.words) {
            weight.samples += 1;
            weight.nanos += nanos;
        } else if self.words + words <= MAX_WORDS {
            self.words += words;
            share.stacks.insert(record.words.into(), Weight { samples: 1, nanos });
        } else {
            self.shortfalls.lost += 1;
            share.unsampled += nanos;
        }
    }

    /// Accounts what a thread has used up to its clock in `thread` and no sample has covered.
    pub(crate) fn settle(&mut self, thread: &ThreadView) {
        let Some(share) = share(&mut self.shares, thread) else { return };
        share.unsampled += thread.cpu.saturating_sub(share.accounted);
        share.accounted = share.accounted.max(thread.cpu);
    }

    /// Closes the window: the threads' shares, and the CPU time of threads that ended before they could be read.
    ///
    /// All live threads must have been settled; `process_cpu` was read before their clocks.
    pub(crate) fn close(self, process_cpu: u64) -> (Vec<Share>, u64) {
        let known: u64 = self.shares.values().map(|share| share.accounted - share.began).sum();
        let of_unread_threads = process_cpu.saturating_sub(self.process_began).saturating_sub(known);
        let mut shares: Vec<Share> = self.shares.into_values().collect();
        shares.sort_by_key(|share| share.tid);
        (shares, of_unread_threads)
    }
}

impl Share {
    fn since(thread: &ThreadView, cpu: u64) -> Self {
        let (tid, name) = (thread.tid, thread.name.clone());
        Self { tid, name, stacks: HashMap::new(), samples: 0, by_perf: 0, unsampled: 0, began: cpu, accounted: cpu }
    }
}

/// A thread's share; one that was not there when the window opened has used all its time in it. `None` at [`MAX_THREADS`].
fn share<'a>(shares: &'a mut HashMap<u64, Share>, thread: &ThreadView) -> Option<&'a mut Share> {
    if shares.len() >= MAX_THREADS && !shares.contains_key(&thread.key) {
        return None;
    }
    Some(shares.entry(thread.key).or_insert_with(|| Share::since(thread, 0)))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn thread(key: u64, cpu: u64) -> ThreadView {
        ThreadView { key, tid: key as i32, name: "worker".into(), cpu }
    }

    fn record(cpu: u64, words: &[u64]) -> Record<'_> {
        Record { cpu, end: End::Root, origin: Origin::Tick, words }
    }

    #[test]
    fn weights_and_unsampled_time_add_up_to_the_process() {
        let old = thread(1, 1000);
        let mut window = Window::open([&old].into_iter(), 5000, 20);
        window.sample(&old, &record(990, &[0, 7]));
        window.sample(&old, &record(1010, &[0, 7]));
        window.sample(&old, &record(1100, &[0, 8]));
        let born = thread(2, 30);
        window.sample(&born, &record(15, &[0, 9]));
        window.settle(&thread(1, 1105));
        window.settle(&born);
        let (shares, unread) = window.close(5000 + 105 + 30 + 12);
        assert_eq!(unread, 12);
        assert_eq!(shares[0].stacks[[0, 7].as_slice()], Weight { samples: 1, nanos: 10 }, "a sample from before is not ours");
        assert_eq!(shares[0].stacks[[0, 8].as_slice()], Weight { samples: 1, nanos: 20 }, "capped");
        assert_eq!(shares[0].unsampled, 70 + 5);
        assert_eq!((shares[1].stacks[[0, 9].as_slice()].nanos, shares[1].unsampled), (15, 15));
    }

    #[test]
    fn a_window_has_a_limit_and_counts_what_it_refuses() {
        let busy = thread(1, 0);
        let mut window = Window::open([&busy].into_iter(), 0, 10);
        window.words = MAX_WORDS - 2 - STACK_WORDS;
        window.sample(&busy, &record(10, &[0, 1]));
        window.sample(&busy, &record(20, &[0, 2]));
        window.sample(&busy, &record(30, &[0, 1]));
        assert_eq!(window.shortfalls.lost, 1);
        let (shares, _) = window.close(30);
        assert_eq!((shares[0].stacks[[0, 1].as_slice()].nanos, shares[0].unsampled), (20, 10));
    }

    #[test]
    fn threads_beyond_the_limit_are_counted_and_stay_in_the_total() {
        let mut window = Window::open(std::iter::empty(), 0, 100);
        for key in 0..MAX_THREADS as u64 + 3 {
            window.sample(&thread(key, 10), &record(10, &[0, 1]));
            window.settle(&thread(key, 10));
        }
        assert_eq!(window.shortfalls.lost, 3);
        let (shares, unread) = window.close(10 * (MAX_THREADS as u64 + 3));
        assert_eq!((shares.len(), unread), (MAX_THREADS, 30));
    }
}
