//! The functions that an allocator calls so that its heap is sampled: [`SampledAlloc`](super::SampledAlloc) does, and
//! an interposed `malloc` can.
//!
//! The caller keeps each thread's [`ThreadState`], so that it decides how to reach it: the fast path is a subtraction
//! there and a branch when allocating, a load and a branch when freeing.
//!
//! Counting comes *before* the call of the allocator, so that the ordinary path ends in a jump to it and keeps nothing
//! over the call:
//!
//! ```
//! use procprof_agent::heap_hook::{ThreadState, count_down, forget, is_noted, note};
//! use std::alloc::{GlobalAlloc, Layout, System};
//!
//! fn malloc(thread: &ThreadState, layout: Layout) -> *mut u8 {
//!     if count_down(thread, layout.size()) {
//!         return malloc_and_note(thread, layout);
//!     }
//!     unsafe { System.alloc(layout) }
//! }
//!
//! #[cold]
//! #[inline(never)]
//! fn malloc_and_note(thread: &ThreadState, layout: Layout) -> *mut u8 {
//!     let pointer = unsafe { System.alloc(layout) };
//!     note(thread, pointer, layout.size());
//!     pointer
//! }
//!
//! unsafe fn free(thread: &ThreadState, pointer: *mut u8, layout: Layout) {
//!     if is_noted(pointer) {
//!         drop(forget(thread, pointer));
//!     }
//!     unsafe { System.dealloc(pointer, layout) }
//! }
//! # let (thread, layout) = (ThreadState::new(), Layout::new::<u64>());
//! # let pointer = malloc(&thread, layout);
//! # unsafe { free(&thread, pointer, layout) };
//! ```
//!
//! `realloc` is both: [`forget`] before it where [`is_noted`], [`remember`] where it has failed and the old block is
//! still there, else [`note`] for the new block where [`count_down`] returned true. The sampler's own allocations come
//! through the same functions and are not sampled.

use super::{live, record};
use crate::countdown as thread;

pub use crate::room::note_shortage;

pub use crate::countdown::{StateOfThread, ThreadState};

/// A sampled allocation that is being freed; dropping it is right once it is freed.
#[derive(Debug)]
#[must_use = "dropped when the block is freed, else given to `remember`"]
pub struct Forgotten(live::Sampled);

/// Has the sampler get the calling thread's state from `of_thread` where no allocator passes it. To be called before
/// anything else here; without it threads' states are kept in a `thread_local!`, whose first use in a thread may
/// allocate where the code is in a shared library.
///
/// # Safety
/// `of_thread` neither allocates nor unwinds, gives each thread the one state that is handed to the other functions in
/// it, and is never unloaded.
pub unsafe fn keep_thread_states(of_thread: StateOfThread) {
    thread::keep_states_by(of_thread);
}

/// Does rare work that may need more stack than an allocation may take, on a stack of the sampler's and while no signal
/// comes. `work` does not unwind.
pub fn apart<T>(work: impl FnOnce() -> T) -> T {
    crate::side_stack::on_side_stack(work)
}

/// No system call is made in this thread from now on, nor in those whose first allocations come later: a filter of
/// theirs may end them for one. Their samples are counted, and not taken.
pub fn keep_quiet(thread: &ThreadState) {
    thread.keep_quiet();
}

/// As [`keep_quiet`], for all threads; no longer with `false`, where the filter was refused.
pub fn keep_all_quiet(are_quiet: bool) {
    thread::keep_all_quiet(are_quiet);
}

/// Whether nothing may make a system call in this thread.
pub fn is_quiet(thread: &ThreadState) -> bool {
    thread.is_quiet()
}

/// Counts an allocation of `size` bytes that is about to be made; true when it is to be handed to [`note`] after it.
#[inline(always)]
pub fn count_down(thread: &ThreadState, size: usize) -> bool {
    thread.count_down(size)
}

/// Whether anything is counted while `allocate` runs. Nothing of it is sampled, and the countdown stays where it was.
pub fn arrives(thread: &ThreadState, allocate: impl FnOnce()) -> bool {
    let _busy = thread.enter();
    let before = thread.position();
    allocate();
    thread.position() != before
}

/// Samples an allocation if its turn has come: one of `size` bytes for which [`count_down`] was true; null when it has
/// failed.
///
/// To be called by a function that is not inlined: its frame is left out of the sample's stack, which begins with its
/// caller.
#[cold]
#[inline(never)]
pub fn note(thread: &ThreadState, pointer: *mut u8, size: usize) {
    if !thread.go_on(size as u64) || pointer.is_null() {
        return;
    }
    if thread.is_quiet() {
        super::leave_out();
        return;
    }
    // Where memory is short, records of it are not to take more.
    if crate::room::is_short() {
        live::lose();
    } else {
        record(thread, crate::here::here(), pointer as usize, size as u64);
    }
}

/// Whether a block that is about to be freed may be a sampled one; nearly always false where it is not. Null is none.
#[inline(always)]
pub fn is_noted(pointer: *const u8) -> bool {
    live::may_hold(pointer as usize)
}

/// Takes a block out of what is in use if it was sampled. To be called before it is freed, for then it may be another
/// thread's at once.
#[cold]
#[inline(never)]
pub fn forget(thread: &ThreadState, pointer: *mut u8) -> Option<Forgotten> {
    live::take(thread, pointer as usize).map(Forgotten)
}

/// Puts a block back that could not be reallocated.
#[cold]
#[inline(never)]
pub fn remember(thread: &ThreadState, pointer: *mut u8, forgotten: Forgotten) {
    let _busy = thread.enter();
    live::insert(pointer as usize, forgotten.0);
}
