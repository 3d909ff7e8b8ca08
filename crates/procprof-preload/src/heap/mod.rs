//! The process's heap, sampled: `malloc` and its family, and C++'s operators where they do not call `malloc`.
//!
//! The next allocator in the loader's order (the C library's, a linked or preloaded jemalloc or tcmalloc) does the
//! work; each call is forwarded to it with its arguments. A program that *defines* `malloc` keeps its calls to itself:
//! none arrives here then.

mod arena;
mod family;
mod next;
mod operators;
mod own;
mod reserve;

pub(crate) use own::Unseen;

use crate::thread;
use procprof_agent::heap_hook;
use std::ffi::c_void;

/// Looks the next allocator up and makes the sampler ready; called before `main`.
pub(crate) fn at_load() {
    // SAFETY: the place is in static thread-local storage, the same that the family hands in, and this library is never
    // unloaded.
    unsafe { heap_hook::keep_thread_states(thread::state) };
    next::resolve();
    operators::at_load();
}

/// Whether the program's calls of `malloc` and `free` arrive here.
pub(crate) fn is_in_use() -> bool {
    let is_ours = |name: &std::ffi::CStr, ours: *const ()| {
        // SAFETY: looks a name up in what is loaded.
        std::ptr::eq(unsafe { libc::dlsym(libc::RTLD_DEFAULT, name.as_ptr()) }.cast_const().cast(), ours)
    };
    is_ours(c"malloc", family::malloc as *const ()) && is_ours(c"free", family::free as *const ())
}

/// Counts an allocation that is made, where a sample may be due.
///
/// Apart from the ordinary path, which so ends in a jump to the allocator.
#[cold]
#[inline(never)]
fn allocate_and_note(size: usize, allocate: impl FnOnce() -> *mut c_void) -> *mut c_void {
    crate::deferred::look();
    let pointer = allocate();
    heap_hook::note(&thread::current().sampler, pointer.cast(), size);
    pointer
}

/// Frees a block that may be a sampled one.
#[cold]
#[inline(never)]
fn forget_and_free(pointer: *mut c_void, free: impl FnOnce()) {
    let former = heap_hook::forget(&thread::current().sampler, pointer.cast());
    free();
    drop(former);
}

/// Reallocates a block that may be a sampled one, or where a sample may be due.
#[cold]
#[inline(never)]
fn reallocate_and_note(
    pointer: *mut c_void,
    size: usize,
    is_due: bool,
    reallocate: impl FnOnce() -> *mut c_void,
) -> *mut c_void {
    crate::deferred::look();
    let state = &thread::current().sampler;
    let former = if heap_hook::is_noted(pointer.cast()) { heap_hook::forget(state, pointer.cast()) } else { None };
    let moved = reallocate();
    match former {
        // Of no bytes is freed, and has none.
        Some(former) if moved.is_null() && size > 0 => heap_hook::remember(state, pointer.cast(), former),
        _ if is_due => heap_hook::note(state, moved.cast(), size),
        _ => {}
    }
    moved
}
