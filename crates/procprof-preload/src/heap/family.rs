//! The `malloc` family as the program calls it.

use super::{allocate_and_note, arena, forget_and_free, next, reallocate_and_note};
use crate::thread;
use procprof_agent::heap_hook::{count_down, is_noted};
use std::ffi::{c_int, c_void};

/// Hands an allocation of `size` bytes on, counted.
#[inline(always)]
fn counted(size: usize, allocate: impl FnOnce() -> *mut c_void) -> *mut c_void {
    if count_down(&thread::current().sampler, size) { allocate_and_note(size, allocate) } else { allocate() }
}

/// # Safety
/// As in C.
#[unsafe(no_mangle)]
pub(super) unsafe extern "C" fn malloc(size: usize) -> *mut c_void {
    // SAFETY: any size may be requested.
    counted(size, || unsafe { next::malloc(size) })
}

/// # Safety
/// As in C.
#[unsafe(no_mangle)]
pub(super) unsafe extern "C" fn calloc(count: usize, size: usize) -> *mut c_void {
    // SAFETY: any size may be requested; a product that overflows fails there.
    counted(count.saturating_mul(size), || unsafe { next::calloc(count, size) })
}

/// # Safety
/// As in C: a block of this family that was not freed, or null.
#[unsafe(no_mangle)]
pub(super) unsafe extern "C" fn free(pointer: *mut c_void) {
    if is_noted(pointer.cast()) {
        // SAFETY: by the caller's promise.
        return forget_and_free(pointer, || unsafe { next::free(pointer) });
    }
    if !arena::holds(pointer) {
        // SAFETY: by the caller's promise.
        unsafe { next::free(pointer) }
    }
}

/// The former name of `free`, which old programs call.
///
/// # Safety
/// As [`free`].
#[unsafe(no_mangle)]
unsafe extern "C" fn cfree(pointer: *mut c_void) {
    // SAFETY: by the caller's promise.
    unsafe { free(pointer) }
}

/// # Safety
/// As in C: a block of this family that was not freed, or null.
#[unsafe(no_mangle)]
unsafe extern "C" fn realloc(pointer: *mut c_void, size: usize) -> *mut c_void {
    let is_due = count_down(&thread::current().sampler, size);
    if arena::holds(pointer) {
        return leave_arena(pointer, size);
    }
    // SAFETY: by the caller's promise.
    let reallocate = || unsafe { next::realloc(pointer, size) };
    if is_due || is_noted(pointer.cast()) {
        reallocate_and_note(pointer, size, is_due, reallocate)
    } else {
        reallocate()
    }
}

/// Moves a block from the arena to the allocator.
#[cold]
fn leave_arena(pointer: *mut c_void, size: usize) -> *mut c_void {
    // SAFETY: any size may be requested.
    let moved = unsafe { next::malloc(size) };
    if !moved.is_null() {
        // SAFETY: the block is from the arena, and both have as many bytes.
        unsafe { moved.cast::<u8>().copy_from_nonoverlapping(pointer.cast(), arena::size(pointer).min(size)) }
    }
    moved
}

/// # Safety
/// As in glibc: as [`realloc`].
#[unsafe(no_mangle)]
unsafe extern "C" fn reallocarray(pointer: *mut c_void, count: usize, size: usize) -> *mut c_void {
    match count.checked_mul(size) {
        // SAFETY: by the caller's promise.
        Some(bytes) => unsafe { realloc(pointer, bytes) },
        None => {
            // SAFETY: the calling thread's own errno.
            unsafe { *libc::__errno_location() = libc::ENOMEM };
            std::ptr::null_mut()
        }
    }
}

/// # Safety
/// As in C: `place` may be written to.
#[unsafe(no_mangle)]
unsafe extern "C" fn posix_memalign(place: *mut *mut c_void, alignment: usize, size: usize) -> c_int {
    let mut code = 0;
    let mut found = std::ptr::null_mut();
    counted(size, || {
        // SAFETY: any size and alignment may be requested; the block is stored here.
        code = unsafe { next::posix_memalign(&mut found, alignment, size) };
        found
    });
    if code == 0 {
        // SAFETY: by the caller's promise.
        unsafe { *place = found };
    }
    code
}

/// # Safety
/// As in C.
#[unsafe(no_mangle)]
unsafe extern "C" fn aligned_alloc(alignment: usize, size: usize) -> *mut c_void {
    // SAFETY: any size and alignment may be requested.
    counted(size, || unsafe { next::aligned_alloc(alignment, size) })
}

/// # Safety
/// As in glibc.
#[unsafe(no_mangle)]
pub(super) unsafe extern "C" fn memalign(alignment: usize, size: usize) -> *mut c_void {
    // SAFETY: as above.
    counted(size, || unsafe { next::memalign(alignment, size) })
}

/// # Safety
/// As in glibc.
#[unsafe(no_mangle)]
unsafe extern "C" fn valloc(size: usize) -> *mut c_void {
    // SAFETY: any size may be requested.
    counted(size, || unsafe { next::valloc(size) })
}

/// # Safety
/// As in glibc.
#[unsafe(no_mangle)]
unsafe extern "C" fn pvalloc(size: usize) -> *mut c_void {
    // SAFETY: any size may be requested.
    counted(size, || unsafe { next::pvalloc(size) })
}

/// # Safety
/// As in glibc: a block of this family that was not freed, or null.
#[unsafe(no_mangle)]
unsafe extern "C" fn malloc_usable_size(pointer: *mut c_void) -> usize {
    if arena::holds(pointer) {
        // SAFETY: the block is from the arena.
        return unsafe { arena::size(pointer) };
    }
    // SAFETY: by the caller's promise.
    unsafe { next::malloc_usable_size(pointer) }
}
