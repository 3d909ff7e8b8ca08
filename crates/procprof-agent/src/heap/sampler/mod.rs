//! Heap profiles of any allocator: a wrapper that samples what passes through it.
//!
//! Each byte that is allocated is a sampling point with probability 1/rate, and an allocation with a point in it is sampled: one of `size` bytes
//! with probability 1 - exp(-size / rate), whatever came before. Readers divide by that probability. Sizes that differ much are counted
//! apart even where their stacks are the same, because a mean of them would be estimated wrongly.
//!
//! - [`thread`]: the distance to the next point, all that an allocation that isn't sampled touches;
//! - [`stack`]: from an allocation to its callers;
//! - [`sites`]: stacks and their counts;
//! - [`live`]: sampled allocations in use, and the test that tells most others at the cost of a load.
//!
//! While it works for itself a thread is *busy*: its allocations go to the allocator below unseen, so nothing here calls itself. Locks are taken
//! by busy threads only, never nested but in the order in which `fork` takes them all, and a child finds them free.

mod alloc;
mod fork;
mod live;
mod sites;
mod spin;
mod stack;
mod text;
mod thread;

pub use alloc::SampledAlloc;

use crate::error::Result;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

/// Mean bytes between samples when nothing else is asked for: 512 KiB.
pub const DEFAULT_SAMPLE_BYTES: u64 = 512 << 10;

/// Whether this program allocates through the wrapper: set by the first allocation of each thread.
static INSTALLED: AtomicBool = AtomicBool::new(false);

static ACTIVE: AtomicBool = AtomicBool::new(false);

/// Samples whose callers were found only in part.
static CUT: AtomicU64 = AtomicU64::new(0);

/// The process's heap sampler: what [`SampledAlloc`] records, and its switches.
///
/// Sampling is switched on by [`start`](crate::start) where [`SampledAlloc`] is the allocator and jemalloc's own profiler does not run; what was
/// allocated before is not seen.
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
        let _busy = thread::Busy::enter();
        fork::follow();
        stack::renew();
        ACTIVE.store(true, Ordering::Relaxed);
    }

    /// Samples no longer; what was sampled is kept, and leaves the live counts when it is freed.
    pub fn disable() {
        ACTIVE.store(false, Ordering::Relaxed);
    }

    /// Forgets all samples; `sample_bytes` sets the mean bytes between samples from now on (1: everything), else it stays. A thread notices after
    /// at most 64 KiB.
    pub fn reset(sample_bytes: Option<u64>) {
        let _busy = thread::Busy::enter();
        thread::set_rate(sample_bytes.unwrap_or_else(thread::rate).max(1));
        live::clear();
        sites::clear();
        CUT.store(0, Ordering::Relaxed);
    }

    /// The heap at this moment as jemalloc writes it: `heap_v2` text with the mapped libraries. Counts are as sampled; readers estimate.
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

    /// Samples whose stack was not seen up to the thread's first frame, since the last reset.
    pub(crate) fn cut() -> u64 {
        CUT.load(Ordering::Relaxed)
    }
}

/// A sampled allocation.
fn record(frame: procprof_unwind::Frame, pointer: usize, size: u64) {
    if !ACTIVE.load(Ordering::Relaxed) {
        return;
    }
    let _busy = thread::Busy::enter();
    stack::capture(frame, |addresses, is_whole| {
        CUT.fetch_add(u64::from(!is_whole), Ordering::Relaxed);
        if let Some(site) = sites::of(addresses, size) {
            site.allocated(size);
            live::insert(pointer, live::Sampled { site, size });
        }
    });
}

#[cfg(test)]
mod tests;
