//! From a thread pointer to the thread's label buffer, without locks: a table of open addressing that handlers search.

use super::buffer::Buffer;
use crate::cpu::registers::thread_pointer;
use std::ptr::null_mut;
use std::sync::atomic::{AtomicBool, AtomicPtr, AtomicU64, Ordering};

/// Threads that may have labels at once, roughly: a thread that finds no place within [`PROBES`] has none.
const PLACES: usize = 1 << 14;
const PROBES: usize = 16;

/// Never used; a search ends here.
const EMPTY: u64 = 0;
/// Used by a thread that has ended; a search goes on.
const LEFT: u64 = 1;

/// Whether a thread has ever had labels.
static ARE_USED: AtomicBool = AtomicBool::new(false);

static TABLE: [Entry; PLACES] =
    [const { Entry { thread: AtomicU64::new(EMPTY), buffer: AtomicPtr::new(null_mut()) } }; PLACES];

struct Entry {
    /// The thread pointer of the live thread that owns the entry.
    thread: AtomicU64,
    buffer: AtomicPtr<Buffer>,
}

/// The entries a thread may have, in the order they are searched.
#[inline]
fn probes(thread: u64) -> impl Iterator<Item = &'static Entry> {
    const GOLDEN: u64 = 0x9e37_79b9_7f4a_7c15;
    let first = (thread.wrapping_mul(GOLDEN) >> 48) as usize;
    (first..first + PROBES).map(|position| &TABLE[position % PLACES])
}

/// A thread's entry; given up when dropped.
pub(super) struct Place(&'static Entry);

impl Place {
    /// Claims a place of the calling thread for its buffer; `None` where all are taken.
    pub(super) fn claim(buffer: *mut Buffer) -> Option<Self> {
        let thread = thread_pointer();
        // One that a thread at the same address left without an orderly end.
        let abandoned = probes(thread).find(|entry| entry.thread.load(Ordering::Acquire) == thread);
        let free = || {
            probes(thread).find(|entry| {
                let taken =
                    |from| entry.thread.compare_exchange(from, thread, Ordering::AcqRel, Ordering::Relaxed).is_ok();
                taken(EMPTY) || taken(LEFT)
            })
        };
        let entry = abandoned.or_else(free)?;
        ARE_USED.store(true, Ordering::Relaxed);
        entry.buffer.store(buffer, Ordering::Release);
        Some(Self(entry))
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        self.0.buffer.store(null_mut(), Ordering::Release);
        self.0.thread.store(LEFT, Ordering::Release);
    }
}

/// Whether a sample of a thread may have labels, which only the thread itself can read.
pub(crate) fn are_used() -> bool {
    ARE_USED.load(Ordering::Relaxed)
}

/// Hands the words of the calling thread's labels to `each`. Async-signal-safe.
#[inline]
pub(crate) fn of_this_thread(each: impl FnMut(u64)) {
    let thread = thread_pointer();
    for entry in probes(thread) {
        match entry.thread.load(Ordering::Acquire) {
            EMPTY => return,
            owner if owner == thread => {
                // SAFETY: null, or the buffer of this very thread, which takes it out of the table before it frees it.
                if let Some(buffer) = unsafe { entry.buffer.load(Ordering::Acquire).as_ref() } {
                    buffer.copy(each);
                }
                return;
            }
            _ => {}
        }
    }
}
