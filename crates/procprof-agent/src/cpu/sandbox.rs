//! Threads that must not be sent a signal: a filter of system calls may end them when they return from its handler.
//!
//! ```text
//! /proc/self/task/TID/status   Seccomp:         2       0 none, 1 strict mode, 2 filters
//!                              Seccomp_filters: 3       how many (Linux 5.9)
//! ```
//!
//! The handler makes no system call but the one that returns from it. Strict mode permits that one; a filter need not.
//! Filters that were loaded before the program began are in all its threads, in ours too, and so permit what the agent
//! does. A thread that has more than ours loaded them itself, or one of its ancestors did; what they permit can't be
//! queried.
//!
//! Between two checks a thread may load a filter, and be ended by the next signal. Where the call that loads it can be
//! intercepted, it is announced ([`before_filter`]), and nothing is sent to that thread from then on.

use super::birth;
use super::engine::Engine;
use super::sigprof;
use crate::aside::own_tid;
use crate::clock;
use std::fs;
use std::sync::atomic::{AtomicU64, Ordering};

/// Threads that are loading a filter, each with the time when it has begun; all looks after that find the filter. 0 for
/// none.
static LOADING: [AtomicU64; 64] = [const { AtomicU64::new(0) }; 64];

/// Longer than the time between two looks at a thread, seconds.
const LOOKED_AT_WITHIN: u64 = 60;

const TIME_MASK: u64 = 0xffff_ffff;

fn seconds() -> u64 {
    (1 + clock::read(libc::CLOCK_MONOTONIC).unwrap_or_default() / 1_000_000_000) & TIME_MASK
}

fn is_past(entry: u64, now: u64) -> bool {
    now.saturating_sub(entry & TIME_MASK) > LOOKED_AT_WITHIN
}

/// Whether a thread may be loading a filter, or have loaded it since it was looked at.
pub(crate) fn is_loading(tid: i32) -> bool {
    let of_thread = |place: &AtomicU64| Some(place.load(Ordering::SeqCst)).filter(|entry| entry >> 32 == tid as u64);
    LOADING.iter().find_map(of_thread).is_some_and(|entry| !is_past(entry, seconds()))
}

/// A thread is about to load a filter of system calls: if that has failed, this is dropped, and the thread is sampled
/// again.
#[derive(Debug)]
#[must_use = "the thread is sampled again when it is dropped"]
pub struct Loading {
    place: Option<&'static AtomicU64>,
}

/// To be called right before the calling thread loads a filter of system calls for itself: stops what signals it.
///
/// Takes microseconds where nothing is sampled. While a capture runs it waits for the sampler's look, at most for a
/// second.
pub fn before_filter() -> Loading {
    birth::filter_is_loaded();
    if !sigprof::is_owned() {
        return Loading { place: None };
    }
    let (tid, now) = (own_tid(), seconds());
    let entry = (tid as u64) << 32 | now;
    let take = |place: &&AtomicU64| {
        let found = place.load(Ordering::SeqCst);
        let is_free = found == 0 || found >> 32 == tid as u64 || is_past(found, now);
        is_free && place.compare_exchange(found, entry, Ordering::SeqCst, Ordering::Relaxed).is_ok()
    };
    let place = LOADING.iter().find(take);
    sigprof::wait_for_senders();
    Engine::spare(tid);
    Loading { place }
}

impl Loading {
    /// The filter is there. Makes no system call, for which it might end the thread.
    pub fn done(self) {
        std::mem::forget(self);
    }
}

impl Drop for Loading {
    fn drop(&mut self) {
        if let Some(place) = self.place {
            place.store(0, Ordering::SeqCst);
        }
        birth::filter_was_refused();
    }
}

/// The treatment of a thread's system calls by seccomp.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Seccomp {
    has_filters: bool,
    /// `None` where the kernel does not report it.
    filters: Option<u32>,
}

/// Recognizes threads that have filters of their own.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Sandbox {
    ours: Seccomp,
}

impl Sandbox {
    /// Compares with the calling thread.
    pub(crate) fn of_this_thread() -> Self {
        Self { ours: Seccomp::read(crate::aside::own_tid()).unwrap_or_default() }
    }

    /// Whether a thread has filters that this one has not, or is loading one.
    pub(crate) fn holds(&self, tid: i32) -> bool {
        is_loading(tid) || Seccomp::read(tid).is_some_and(|theirs| theirs.has_more_than(&self.ours))
    }
}

impl Seccomp {
    /// `None` for a thread that has ended.
    fn read(tid: i32) -> Option<Self> {
        fs::read(format!("/proc/self/task/{tid}/status")).ok().map(|text| Self::parse(&text))
    }

    fn parse(text: &[u8]) -> Self {
        const FILTERS: u32 = 2;
        let number = |key: &[u8]| {
            let line = text.split(|byte| *byte == b'\n').find_map(|line| line.strip_prefix(key));
            line.and_then(|rest| str::from_utf8(rest).ok()?.trim().parse::<u32>().ok())
        };
        Self { has_filters: number(b"Seccomp:") == Some(FILTERS), filters: number(b"Seccomp_filters:") }
    }

    fn has_more_than(&self, ours: &Self) -> bool {
        match (self.filters, ours.filters) {
            (Some(theirs), Some(ours)) => self.has_filters && theirs > ours,
            _ => self.has_filters && !ours.has_filters,
        }
    }
}

/// The note in a profile about threads that were not sampled.
pub(crate) fn reason(threads: usize) -> String {
    format!("{threads}: a seccomp filter of their own may end them for a signal; their time is in no sample")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn filters_of_a_threads_own_are_distinguished_from_those_of_all() {
        let none = Seccomp::parse(b"Name:\ta\nSeccomp:\t0\nSeccomp_filters:\t0\n");
        let strict = Seccomp::parse(b"Seccomp:\t1\nSeccomp_filters:\t0\n");
        let [one, two] = [b"Seccomp:\t2\nSeccomp_filters:\t1\n", b"Seccomp:\t2\nSeccomp_filters:\t2\n"]
            .map(|text| Seccomp::parse(text));
        assert!(!none.has_more_than(&none) && !strict.has_more_than(&none) && !one.has_more_than(&one));
        assert!(one.has_more_than(&none) && two.has_more_than(&one));
        let (old, unsaid) = (Seccomp::parse(b"Seccomp:\t2\n"), Seccomp::parse(b""));
        assert!(old.has_more_than(&unsaid) && !old.has_more_than(&old) && !unsaid.has_more_than(&old));
        assert!(!Sandbox::of_this_thread().holds(own_tid()));
    }

    #[test]
    fn a_thread_that_loads_a_filter_is_left_alone_until_that_has_failed() {
        let sandbox = Sandbox::of_this_thread();
        sigprof::install().unwrap();
        let loading = before_filter();
        assert!(sandbox.holds(own_tid()) && !sandbox.holds(own_tid() + 1));
        drop(loading);
        assert!(!sandbox.holds(own_tid()));
        let other = std::thread::spawn(|| {
            before_filter().done();
            own_tid()
        });
        assert!(is_loading(other.join().unwrap()), "until it was looked at");
        let (begun, later) = (7 << 32 | 5, 5 + LOOKED_AT_WITHIN);
        assert!(!is_past(begun, later) && is_past(begun, later + 1));
    }
}
