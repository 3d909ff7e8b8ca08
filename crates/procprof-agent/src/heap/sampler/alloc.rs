//! The wrapper around an allocator.

use super::hook::{count_down, forget, is_noted, note, remember};
use super::thread::own;
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

/// Allocates where a sample may be due.
///
/// Not inlined, and apart from the ordinary path, which so ends in a jump to the allocator.
#[cold]
#[inline(never)]
fn allocate_and_note(size: usize, allocate: impl FnOnce() -> *mut u8) -> *mut u8 {
    let pointer = allocate();
    note(own(), pointer, size);
    pointer
}

/// Reallocates a block that may be a sampled one, or where a sample may be due.
#[cold]
#[inline(never)]
fn reallocate_and_note(pointer: *mut u8, size: usize, is_due: bool, reallocate: impl FnOnce() -> *mut u8) -> *mut u8 {
    let thread = own();
    let former = if is_noted(pointer) { forget(thread, pointer) } else { None };
    let moved = reallocate();
    match former {
        Some(former) if moved.is_null() => remember(thread, pointer, former),
        _ if is_due => note(thread, moved, size),
        _ => {}
    }
    moved
}

// SAFETY: every call goes to the allocator inside with the same arguments, and its answer is given back.
unsafe impl<A: GlobalAlloc> GlobalAlloc for SampledAlloc<A> {
    #[inline]
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        // SAFETY: the caller's promise for this call is that for the one inside.
        let allocate = || unsafe { self.inner.alloc(layout) };
        let is_due = count_down(own(), layout.size());
        if is_due { allocate_and_note(layout.size(), allocate) } else { allocate() }
    }

    #[inline]
    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        // SAFETY: as in `alloc`.
        let allocate = || unsafe { self.inner.alloc_zeroed(layout) };
        let is_due = count_down(own(), layout.size());
        if is_due { allocate_and_note(layout.size(), allocate) } else { allocate() }
    }

    #[inline]
    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        if is_noted(pointer) {
            drop(forget(own(), pointer));
        }
        // SAFETY: as in `alloc`.
        unsafe { self.inner.dealloc(pointer, layout) }
    }

    #[inline]
    unsafe fn realloc(&self, pointer: *mut u8, layout: Layout, new_size: usize) -> *mut u8 {
        // SAFETY: as in `alloc`.
        let reallocate = || unsafe { self.inner.realloc(pointer, layout, new_size) };
        let is_due = count_down(own(), new_size);
        if is_due || is_noted(pointer) { reallocate_and_note(pointer, new_size, is_due, reallocate) } else { reallocate() }
    }
}
