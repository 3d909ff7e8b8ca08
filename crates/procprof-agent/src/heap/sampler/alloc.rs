//! The wrapper around an allocator.

use super::{live, thread};
use std::alloc::{GlobalAlloc, Layout, System};

/// An allocator whose heap is sampled; it allocates by the one inside, and changes neither sizes nor places.
///
/// An allocation costs a subtraction in the thread's own memory and a branch beside the allocator's work, freeing a load and a branch. Growing
/// and shrinking count as freeing and allocating anew.
///
/// ```
/// use procprof_agent::SampledAlloc;
///
/// #[global_allocator]
/// static ALLOCATOR: SampledAlloc = SampledAlloc::new();
///
/// let agent = procprof_agent::start(procprof_agent::Config::default())?;
/// let heap = agent.handle(&procprof_agent::Request::get("/debug/pprof/heap"));
/// assert_eq!(heap.status, 200);
/// # Ok::<(), procprof_agent::Error>(())
/// ```
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
    #[inline]
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        // SAFETY: the caller's promise for this call is that for the one inside.
        let pointer = unsafe { self.inner.alloc(layout) };
        thread::note(pointer, layout.size());
        pointer
    }

    #[inline]
    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        // SAFETY: as in `alloc`.
        let pointer = unsafe { self.inner.alloc_zeroed(layout) };
        thread::note(pointer, layout.size());
        pointer
    }

    #[inline]
    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        // Before the memory is anybody else's, who might be sampled at the same address.
        if live::may_hold(pointer as usize) {
            drop(live::take(pointer as usize));
        }
        // SAFETY: as in `alloc`.
        unsafe { self.inner.dealloc(pointer, layout) }
    }

    #[inline]
    unsafe fn realloc(&self, pointer: *mut u8, layout: Layout, new_size: usize) -> *mut u8 {
        let former = if live::may_hold(pointer as usize) { live::take(pointer as usize) } else { None };
        // SAFETY: as in `alloc`.
        let moved = unsafe { self.inner.realloc(pointer, layout, new_size) };
        match former {
            Some(former) if moved.is_null() => live::put_back(pointer as usize, former),
            _ => thread::note(moved, new_size),
        }
        moved
    }
}
