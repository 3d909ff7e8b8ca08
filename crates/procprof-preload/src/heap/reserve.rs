//! Memory for the agent where the allocator has none: in a process at its limit, a capture ends with an error instead
//! of with the process.
//!
//! Rust's collections abort the process where they get no memory. So an allocation of the agent that fails is served
//! from here, and the agent, which is notified, gives the capture up. Blocks are handed out one behind the other; the
//! room is whole again when all are freed.

use std::alloc::Layout;
use std::cell::UnsafeCell;
use std::sync::atomic::{AtomicU64, Ordering};

/// Enough to end what runs; none of it is resident before it is needed.
const BYTES: usize = 4 << 20;

#[repr(C, align(4096))]
struct Reserve(UnsafeCell<[u8; BYTES]>);

// SAFETY: each byte is given to one caller.
unsafe impl Sync for Reserve {}

static RESERVE: Reserve = Reserve(UnsafeCell::new([0; BYTES]));

/// Blocks in use (upper half), and bytes handed out.
static USE: AtomicU64 = AtomicU64::new(0);

const BLOCK: u64 = 1 << 32;

/// A block, not zeroed; null when there is no more.
#[cold]
pub(super) fn allocate(layout: Layout) -> *mut u8 {
    procprof_agent::heap_hook::note_shortage();
    let base = RESERVE.0.get().cast::<u8>();
    let place = |used: u64| {
        let start = ((used % BLOCK) as usize).checked_next_multiple_of(layout.align())?;
        let end = start.checked_add(layout.size()).filter(|end| *end <= BYTES)?;
        Some((start, end as u64))
    };
    let take = |used: u64| place(used).map(|(_, end)| used / BLOCK * BLOCK + BLOCK + end);
    match USE.fetch_update(Ordering::AcqRel, Ordering::Acquire, take) {
        // SAFETY: within the reserve, and not in use; its base is aligned to more than any layout here requires.
        Ok(former) => place(former).map_or(std::ptr::null_mut(), |(start, _)| unsafe { base.add(start) }),
        Err(_) => std::ptr::null_mut(),
    }
}

/// Whether a block is from here.
#[inline(always)]
pub(super) fn holds(pointer: *const u8) -> bool {
    (pointer as usize).wrapping_sub(RESERVE.0.get() as usize) < BYTES
}

/// Takes a block back.
pub(super) fn free() {
    let give = |used: u64| Some(if used < 2 * BLOCK { 0 } else { used - BLOCK });
    let _ = USE.fetch_update(Ordering::AcqRel, Ordering::Acquire, give);
}
