//! The bounds of the calling thread's own stack, as the C library keeps them in the thread's control block: memory that
//! a handler may read without a check by the kernel.
//!
//! The memory map does not contain them. A coroutine's stack that was mapped below a thread's is one mapping with it
//! for the kernel, and so is one below the block that the loader mapped for the main thread's thread-local storage;
//! parts of it may be unmapped at any time.
//!
//! ```text
//! glibc's control block: … lowest address of the stack, its bytes, bytes of its guard …
//! ```
//!
//! Where in the block these words are depends on glibc's version. A thread that may query the C library for its stack
//! looks for them once in its own block; where they are not found (musl), no stack but the main thread's is known, and
//! handlers check each page by a system call.

use super::registers::thread_pointer;
use std::ops::Range;
use std::sync::atomic::{AtomicI64, Ordering};

/// From the thread pointer to the first of the words; 0 while that is not known.
static PLACE: AtomicI64 = AtomicI64::new(0);

/// How far below the thread pointer the block may begin.
const BELOW: u64 = 4096;

/// Finds the words in the calling thread's block. Does nothing in the main thread, whose stack is not in the block, and
/// where they are known.
pub(crate) fn learn() {
    if PLACE.load(Ordering::Relaxed) != 0 {
        return;
    }
    let (Some(stack), pointer) = (ask(), thread_pointer()) else { return };
    if stack.contains(&pointer)
        && let Some(place) = find(&stack, pointer)
    {
        PLACE.store(place, Ordering::Relaxed);
    }
}

/// The only place at which the words are that fit.
fn find(stack: &Range<u64>, pointer: u64) -> Option<i64> {
    let start = stack.start.max(pointer.saturating_sub(BELOW)).next_multiple_of(8);
    // SAFETY: aligned, and between the lowest and the highest address of the calling thread's own stack, which holds
    // its block.
    let word = |address: u64| unsafe { (address as *const u64).read_volatile() };
    let fits = |address: &u64| {
        let [block, bytes, guard] = [0, 8, 16].map(|offset| word(address + offset));
        let is_whole = block > 0 && block.checked_add(bytes) == Some(stack.end);
        is_whole && (block == stack.start || block.checked_add(guard) == Some(stack.start))
    };
    let mut places = (start..stack.end.saturating_sub(24)).step_by(8).filter(fits);
    let place = places.next().filter(|_| places.next().is_none())?;
    Some(place.wrapping_sub(pointer) as i64)
}

/// Queries the C library, which may allocate.
fn ask() -> Option<Range<u64>> {
    let mut attributes = std::mem::MaybeUninit::<libc::pthread_attr_t>::uninit();
    let (mut start, mut bytes) = (std::ptr::null_mut(), 0_usize);
    // SAFETY: fills `attributes` for the calling thread, reads them, and gives them back.
    let known = unsafe {
        let known = libc::pthread_getattr_np(libc::pthread_self(), attributes.as_mut_ptr()) == 0;
        if known {
            libc::pthread_attr_getstack(attributes.as_ptr(), &mut start, &mut bytes);
            libc::pthread_attr_destroy(attributes.as_mut_ptr());
        }
        known
    };
    known.then_some(start as u64..start as u64 + bytes as u64)
}

/// The calling thread's own stack up to its control block, if that is known and lies in `mapping`. Async-signal-safe.
#[inline]
pub(crate) fn within(mapping: &Range<u64>) -> Option<Range<u64>> {
    let (place, pointer) = (PLACE.load(Ordering::Relaxed), thread_pointer());
    let words = pointer.wrapping_add_signed(place);
    if place == 0 || !mapping.contains(&pointer) || words < mapping.start || words.checked_add(16)? > mapping.end {
        return None;
    }
    // SAFETY: two words of the control block, which is there as long as its thread is.
    let (block, bytes) =
        unsafe { ((words as *const u64).read_volatile(), (words as *const u64).add(1).read_volatile()) };
    // The main thread's has no lowest address.
    let is_own = block > 0 && block < pointer && block.checked_add(bytes)? >= pointer;
    is_own.then_some(block..pointer)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The bounds that a new thread finds of its own stack, which is `map`ped somewhere.
    fn known(bytes: usize) -> Option<(Range<u64>, u64)> {
        let thread = std::thread::Builder::new().stack_size(bytes).spawn(|| {
            let local = 0_u8;
            within(&(0..u64::MAX)).map(|range| (range, &raw const local as u64))
        });
        thread.unwrap().join().unwrap()
    }

    #[cfg(target_env = "gnu")]
    #[test]
    fn threads_know_their_own_stacks() {
        std::thread::spawn(learn).join().unwrap();
        for bytes in [64 << 10, 2 << 20] {
            let (range, local) = known(bytes).unwrap();
            assert!(range.contains(&local), "{range:x?} {local:x}");
            let length = range.end - range.start;
            assert!((bytes as u64..bytes as u64 + (256 << 10)).contains(&length), "{length} of {bytes}");
        }
        assert_eq!(within(&(0..1)), None, "the control block is elsewhere");
    }
}
