//! Substitute for `heap::sampler` on systems other than Linux: forwards to the allocator inside and samples nothing.

use crate::error::{Error, Result};
use std::alloc::{GlobalAlloc, Layout, System};

/// Default mean number of bytes between samples: 512 KiB.
pub const DEFAULT_SAMPLE_BYTES: u64 = 512 << 10;

/// The process's heap sampler: never installed on this system.
#[derive(Clone, Copy, Debug)]
pub struct HeapSampler;

/// An allocator that hands everything to the one inside; its heap is not sampled on this system.
#[derive(Debug, Default)]
pub struct SampledAlloc<A = System> {
    inner: A,
}

impl SampledAlloc {
    /// Around the system's allocator.
    pub const fn new() -> Self {
        Self::over(System)
    }
}

impl<A> SampledAlloc<A> {
    /// Around another allocator.
    pub const fn over(inner: A) -> Self {
        Self { inner }
    }
}

// SAFETY: every call goes to the allocator inside with the same arguments, and its answer is given back.
unsafe impl<A: GlobalAlloc> GlobalAlloc for SampledAlloc<A> {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        // SAFETY: the caller's promise for this call is that for the one inside.
        unsafe { self.inner.alloc(layout) }
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        // SAFETY: as in `alloc`.
        unsafe { self.inner.alloc_zeroed(layout) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        // SAFETY: as in `alloc`.
        unsafe { self.inner.dealloc(pointer, layout) }
    }

    unsafe fn realloc(&self, pointer: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        // SAFETY: as in `alloc`.
        unsafe { self.inner.realloc(pointer, layout, size) }
    }
}

/// The completeness of a sample's stack, where there are samples.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Found {
    Truncated,
    Part,
    Nothing,
}

impl HeapSampler {
    /// Whether this program's heap can be sampled: not on this system.
    pub fn is_installed() -> bool {
        false
    }

    /// Whether it samples now: never.
    pub fn is_active() -> bool {
        false
    }

    /// Mean bytes between samples, where there are any.
    pub fn sample_bytes() -> u64 {
        DEFAULT_SAMPLE_BYTES
    }

    /// Does nothing.
    pub fn enable() {}

    /// Does nothing.
    pub fn disable() {}

    /// Does nothing.
    pub fn reset(_sample_bytes: Option<u64>) {}

    /// Refuses.
    ///
    /// # Errors
    /// Always [`Error::Unsupported`].
    pub fn text() -> Result<Vec<u8>> {
        Err(Error::Unsupported { what: "heap profile of this allocator" })
    }

    pub(crate) fn lost() -> u64 {
        0
    }

    pub(crate) fn samples(_found: Found) -> u64 {
        0
    }

    pub(crate) fn left_out() -> u64 {
        0
    }

    /// As on Linux.
    pub(crate) fn unknown_frame() -> (u64, &'static str) {
        (0, "")
    }
}
