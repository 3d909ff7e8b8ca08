//! The agent's own allocations, past the sampler.

use super::{arena, next, reserve};
use std::alloc::{GlobalAlloc, Layout};

/// The allocator behind this library, called directly.
pub(crate) struct Unseen;

/// The alignment of `malloc`, bytes.
const ALIGNMENT: usize = 16;

// SAFETY: every block comes from the one allocator behind this library or from the reserve, and goes back there.
unsafe impl GlobalAlloc for Unseen {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        // SAFETY: any size may be requested; the alignment is a power of two.
        let block: *mut u8 = unsafe {
            if layout.align() <= ALIGNMENT {
                next::malloc(layout.size()).cast()
            } else {
                next::memalign(layout.align(), layout.size()).cast()
            }
        };
        if block.is_null() { reserve::allocate(layout) } else { block }
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        // SAFETY: as above; a new block has room for its layout.
        unsafe {
            if layout.align() <= ALIGNMENT {
                let block: *mut u8 = next::calloc(1, layout.size()).cast();
                if !block.is_null() {
                    return block;
                }
            }
            let pointer = self.alloc(layout);
            if !pointer.is_null() {
                pointer.write_bytes(0, layout.size());
            }
            pointer
        }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, _layout: Layout) {
        if reserve::holds(pointer) {
            reserve::free();
        } else if !arena::holds(pointer.cast()) {
            // SAFETY: the caller's promise for this call is that for the one behind.
            unsafe { next::free(pointer.cast()) }
        }
    }

    unsafe fn realloc(&self, pointer: *mut u8, layout: Layout, new_size: usize) -> *mut u8 {
        // SAFETY: the caller's promise is that of the calls made; the new block has room for what is copied.
        unsafe {
            if layout.align() <= ALIGNMENT && !arena::holds(pointer.cast()) && !reserve::holds(pointer) {
                let moved: *mut u8 = next::realloc(pointer.cast(), new_size).cast();
                if !moved.is_null() {
                    return moved;
                }
            }
            let moved = self.alloc(Layout::from_size_align_unchecked(new_size, layout.align()));
            if !moved.is_null() {
                moved.copy_from_nonoverlapping(pointer, layout.size().min(new_size));
                self.dealloc(pointer, layout);
            }
            moved
        }
    }
}
