//! Memory for what is allocated while the allocator itself is being looked up: older C libraries do so in `dlsym`, a
//! few dozen bytes.
//!
//! It is given out once and never back.

use std::cell::UnsafeCell;
use std::ffi::c_void;
use std::sync::atomic::{AtomicUsize, Ordering};

const BYTES: usize = 16 << 10;

#[repr(C, align(16))]
struct Arena(UnsafeCell<[u8; BYTES]>);

// SAFETY: each byte is given to one caller.
unsafe impl Sync for Arena {}

static ARENA: Arena = Arena(UnsafeCell::new([0; BYTES]));
static USED: AtomicUsize = AtomicUsize::new(0);

/// Zeroed memory, aligned to 16 bytes and behind a word with its size; null when there is no more.
pub(super) fn allocate(size: usize) -> *mut c_void {
    const HEAD: usize = 16;
    let Some(bytes) = size.checked_next_multiple_of(16).and_then(|size| size.checked_add(HEAD)) else {
        return std::ptr::null_mut();
    };
    let take = |used: usize| used.checked_add(bytes).filter(|end| *end <= BYTES);
    match USED.fetch_update(Ordering::Relaxed, Ordering::Relaxed, take) {
        // SAFETY: these bytes are within the arena and not in use; the head is aligned.
        Ok(start) => unsafe {
            let head = ARENA.0.get().cast::<u8>().add(start);
            head.cast::<usize>().write(size);
            head.add(HEAD).cast()
        },
        Err(_) => std::ptr::null_mut(),
    }
}

/// Whether a block is from here.
#[inline(always)]
pub(super) fn holds(pointer: *const c_void) -> bool {
    (pointer as usize).wrapping_sub(ARENA.0.get() as usize) < BYTES
}

/// The size that was requested for a block of this arena.
///
/// # Safety
/// `pointer` was given by [`allocate`].
pub(super) unsafe fn size(pointer: *const c_void) -> usize {
    // SAFETY: by the contract of this function.
    unsafe { pointer.cast::<usize>().sub(2).read() }
}

/// As [`allocate`], where it is aligned enough.
pub(super) fn aligned(alignment: usize, size: usize) -> *mut c_void {
    if alignment <= 16 { allocate(size) } else { std::ptr::null_mut() }
}

/// A larger block with the contents of one from here, or of none.
pub(super) fn grow(pointer: *mut c_void, size: usize) -> *mut c_void {
    let moved = allocate(size);
    if !moved.is_null() && holds(pointer) {
        // SAFETY: `pointer` is from here, and both blocks have as many bytes.
        unsafe { moved.cast::<u8>().copy_from_nonoverlapping(pointer.cast(), self::size(pointer).min(size)) }
    }
    moved
}
