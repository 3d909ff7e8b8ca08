//! Heap profiles of any allocator: a wrapper that samples what passes through it.
//!
//! Each byte that is allocated is a sampling point with probability 1/rate, and an allocation with a point in it is
//! sampled: one of `size` bytes with probability 1 - exp(-size / rate), whatever came before. Readers divide by that
//! probability. Sizes that differ much are counted apart even where their stacks are the same, because a mean of them
//! would be estimated wrongly.
//!
//! - [`hook`]: what an allocator calls;
//! - [`countdown`](crate::countdown): the distance to the next point, all that an allocation that isn't sampled
//!   touches;
//! - [`stack`]: from an allocation to its callers, by the [`words`] of the stack;
//! - [`sites`]: stacks and their counts;
//! - [`live`]: sampled allocations in use, and the test that recognizes most others at the cost of a load.
//!
//! While it works for itself a thread is *busy*: its allocations go to the allocator below unseen, so nothing here
//! calls itself. Locks are taken by busy threads only, and a forked child takes over what its parent's threads held.

mod alloc;
pub mod hook;
mod live;
mod sites;
mod stack;
mod text;
mod words;

pub use crate::countdown::DEFAULT_SAMPLE_BYTES;
pub use alloc::SampledAlloc;
pub(crate) use stack::Found;

use crate::countdown::{self as thread, INSTALLED};
use crate::error::Result;
use crate::side_stack::on_side_stack;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

static ACTIVE: AtomicBool = AtomicBool::new(false);

/// Samples since the last reset by what was found of their stacks.
static FOUND: [AtomicU64; 4] = [const { AtomicU64::new(0) }; 4];

/// Samples since the last reset that were left out: of threads that must make no system call.
static LEFT_OUT: AtomicU64 = AtomicU64::new(0);

/// The process's heap sampler: what [`SampledAlloc`] records, and its switches.
///
/// Sampling is switched on by [`start`](crate::start) where [`SampledAlloc`] is the allocator and jemalloc's own
/// profiler does not run; what was allocated before is not seen.
#[derive(Clone, Copy, Debug)]
pub struct HeapSampler;

impl HeapSampler {
    /// Whether this program's allocator is a [`SampledAlloc`].
    pub fn is_installed() -> bool {
        INSTALLED.load(Ordering::Relaxed)
    }

    /// Whether it samples now.
    pub fn is_active() -> bool {
        ACTIVE.load(Ordering::Relaxed)
    }

    /// Mean bytes between samples.
    pub fn sample_bytes() -> u64 {
        thread::rate()
    }

    /// Samples from now on; a thread notices after at most 64 KiB.
    pub fn enable() {
        let _busy = thread::current().enter();
        stack::renew();
        ACTIVE.store(true, Ordering::Relaxed);
    }

    /// Samples no longer; what was sampled is kept, and leaves the live counts when it is freed.
    pub fn disable() {
        ACTIVE.store(false, Ordering::Relaxed);
    }

    /// Forgets all samples; `sample_bytes` sets the mean bytes between samples from now on (1: everything), else it
    /// stays. A thread notices after at most 64 KiB.
    pub fn reset(sample_bytes: Option<u64>) {
        let _busy = thread::current().enter();
        thread::set_rate(sample_bytes.unwrap_or_else(thread::rate).max(1));
        live::clear();
        sites::clear();
        FOUND.iter().for_each(|count| count.store(0, Ordering::Relaxed));
        LEFT_OUT.store(0, Ordering::Relaxed);
    }

    /// The heap at this moment as jemalloc writes it: `heap_v2` text with the mapped libraries. Counts are as sampled;
    /// readers estimate.
    ///
    /// # Errors
    /// [`Error::System`](crate::Error::System) when the memory map can't be read.
    pub fn text() -> Result<Vec<u8>> {
        text::encode(&sites::all(), thread::rate())
    }

    /// Samples that are missing in what is in use, since the last reset.
    pub(crate) fn lost() -> u64 {
        live::lost()
    }

    /// Samples since the last reset of whose stack this was found.
    pub(crate) fn samples(found: Found) -> u64 {
        FOUND[found as usize].load(Ordering::Relaxed)
    }

    /// Samples since the last reset that threads under a filter of system calls would have had.
    pub(crate) fn left_out() -> u64 {
        LEFT_OUT.load(Ordering::Relaxed)
    }

    /// The address that is the only frame of such samples in [`HeapSampler::text`], and the frame's name.
    pub(crate) fn unknown_frame() -> (u64, &'static str) {
        (stack::unknown(), stack::UNKNOWN_STACK)
    }
}

/// Counts a sample that is not taken.
fn leave_out() {
    if ACTIVE.load(Ordering::Relaxed) {
        LEFT_OUT.fetch_add(1, Ordering::Relaxed);
    }
}

/// A sampled allocation. Each is counted, with an [`stack::unknown`] stack where there is no other.
fn record(thread: &thread::ThreadState, frame: procprof_unwind::Frame, pointer: usize, size: u64) {
    if !ACTIVE.load(Ordering::Relaxed) {
        return;
    }
    let _busy = thread.enter();
    on_side_stack(|| {
        stack::capture(thread, frame, |addresses, found| {
            let site = sites::intern(addresses, size);
            let is_kept = site.stack.len() == addresses.len();
            FOUND[if is_kept { found } else { Found::Truncated } as usize].fetch_add(1, Ordering::Relaxed);
            site.allocated(size);
            live::insert(pointer, live::Sampled { site, size });
        });
    });
}

#[cfg(test)]
mod tests;
