//! The wrapper around an allocator.

use super::hook::{count_down, forget, is_noted, note, remember};
use crate::countdown::own;
use std::alloc::{GlobalAlloc, Layout, System};

/// An allocator whose heap is sampled; it allocates by the one inside, and changes neither sizes nor places.
///
/// An allocation costs a subtraction in the thread's own memory and a branch beside the allocator's work, freeing a
/// load and a branch. Growing and shrinking count as freeing and allocating anew.
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

/// The rare paths. These are functions of their own, not inlined and given values, so that the ordinary paths keep
/// nothing over a call and end in a jump to the allocator.
impl<A: GlobalAlloc> SampledAlloc<A> {
    /// Allocates where a sample may be due.
    ///
    /// # Safety
    /// As for `alloc`.
    #[cold]
    #[inline(never)]
    unsafe fn alloc_and_note(&self, layout: Layout) -> *mut u8 {
        // SAFETY: by the caller's promise.
        let pointer = unsafe { self.inner.alloc(layout) };
        note(own(), pointer, layout.size());
        pointer
    }

    /// Allocates zeros where a sample may be due.
    ///
    /// # Safety
    /// As for `alloc_zeroed`.
    #[cold]
    #[inline(never)]
    unsafe fn alloc_zeroed_and_note(&self, layout: Layout) -> *mut u8 {
        // SAFETY: by the caller's promise.
        let pointer = unsafe { self.inner.alloc_zeroed(layout) };
        note(own(), pointer, layout.size());
        pointer
    }

    /// Frees a block that may be a sampled one.
    ///
    /// # Safety
    /// As for `dealloc`.
    #[cold]
    #[inline(never)]
    unsafe fn forget_and_dealloc(&self, pointer: *mut u8, layout: Layout) {
        drop(forget(own(), pointer));
        // SAFETY: by the caller's promise.
        unsafe { self.inner.dealloc(pointer, layout) }
    }

    /// Reallocates where a sample may be due.
    ///
    /// # Safety
    /// As for `realloc`.
    #[cold]
    #[inline(never)]
    unsafe fn realloc_and_note(&self, pointer: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        let former = if is_noted(pointer) { forget(own(), pointer) } else { None };
        // SAFETY: by the caller's promise.
        let moved = unsafe { self.inner.realloc(pointer, layout, size) };
        note(own(), moved, size);
        if let (Some(former), true) = (former, moved.is_null()) {
            remember(own(), pointer, former);
        }
        moved
    }

    /// Reallocates a block that may be a sampled one, where no sample is due.
    ///
    /// # Safety
    /// As for `realloc`.
    #[cold]
    #[inline(never)]
    unsafe fn forget_and_realloc(&self, pointer: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        let former = forget(own(), pointer);
        // SAFETY: by the caller's promise.
        let moved = unsafe { self.inner.realloc(pointer, layout, size) };
        if let (Some(former), true) = (former, moved.is_null()) {
            remember(own(), pointer, former);
        }
        moved
    }
}

// SAFETY: every call goes to the allocator inside with the same arguments, and its answer is given back.
unsafe impl<A: GlobalAlloc> GlobalAlloc for SampledAlloc<A> {
    #[inline]
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        let is_due = count_down(own(), layout.size());
        // SAFETY: the caller's promise for this call is that for the ones inside.
        unsafe { if is_due { self.alloc_and_note(layout) } else { self.inner.alloc(layout) } }
    }

    #[inline]
    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        let is_due = count_down(own(), layout.size());
        // SAFETY: as in `alloc`.
        unsafe { if is_due { self.alloc_zeroed_and_note(layout) } else { self.inner.alloc_zeroed(layout) } }
    }

    #[inline]
    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        // SAFETY: as in `alloc`.
        unsafe {
            if is_noted(pointer) {
                self.forget_and_dealloc(pointer, layout)
            } else {
                self.inner.dealloc(pointer, layout)
            }
        }
    }

    #[inline]
    unsafe fn realloc(&self, pointer: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        let is_due = count_down(own(), size);
        // SAFETY: as in `alloc`.
        unsafe {
            if is_due {
                self.realloc_and_note(pointer, layout, size)
            } else if is_noted(pointer) {
                self.forget_and_realloc(pointer, layout, size)
            } else {
                self.inner.realloc(pointer, layout, size)
            }
        }
    }
}
