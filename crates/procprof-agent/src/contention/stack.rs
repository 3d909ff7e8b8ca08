//! The callers of a function that waits, found without allocating and without calling the program.
//!
//! The stack a thread is on is read directly; whether a page of it is mapped is checked once a walk and page, by a
//! system call that reads one word and does nothing. So stacks of coroutines are walked as well, and a wrong rule can't
//! fault. Unwind tables are prepared by the [`collector`](super::collector), which publishes them in a slot that is not
//! in use.

use super::buffer::End;
use super::classes::{self, Class, MAX_CHAIN};
use crate::spin::Claim;
use procprof_unwind::{Architecture, Cache, End as WalkEnd, Frame, Lost, Space, Stack, Walker};
use std::cell::{Cell, UnsafeCell};
use std::sync::Arc;

/// Frames kept of one stack.
const MAX_DEPTH: usize = 512;

/// Walks at once; more wait for a moment.
const WALKS: usize = 16;

const PAGE: u64 = 4096;

/// How far above the stack pointer a stack is read.
const MAX_BYTES: u64 = 64 << 20;

static WALKS_IN_USE: [Walk; WALKS] = [const { Walk::new() }; WALKS];

/// Memory of a walk that is too large for a thread's stack.
struct Walk {
    /// One that a thread of a parent's has is free in a forked child.
    claim: Claim,
    cache: Cache,
    space: UnsafeCell<Option<Arc<Space>>>,
    addresses: UnsafeCell<[u64; MAX_DEPTH]>,
}

// SAFETY: the cells are reached only by the thread that has the claim.
unsafe impl Sync for Walk {}

/// A stack's return addresses, leaf first.
#[derive(Clone, Copy, Debug)]
pub(super) struct Found<'a> {
    pub(super) addresses: &'a [u64],
    pub(super) end: End,
}

impl Walk {
    const fn new() -> Self {
        Self {
            claim: Claim::new(),
            cache: Cache::new(),
            space: UnsafeCell::new(None),
            addresses: UnsafeCell::new([0; MAX_DEPTH]),
        }
    }

    fn take(&self) -> bool {
        self.claim.take().is_some()
    }

    fn give_back(&self) {
        self.claim.give_back();
    }
}

/// Runs `work` with a walk of its own.
fn with_walk<T>(frame: Frame, work: impl FnOnce(&Walk) -> T) -> T {
    // Threads begin to look at different places, by their stacks.
    let first = (frame.sp >> 16) as usize;
    let walk = loop {
        let free = (0..WALKS).map(|index| &WALKS_IN_USE[(first + index) % WALKS]).find(|walk| walk.take());
        match free {
            Some(walk) => break walk,
            None => std::thread::yield_now(),
        }
    };
    let result = work(walk);
    walk.give_back();
    result
}

/// Hands over the return addresses above the function of `frame`, which has not returned.
pub(super) fn capture(frame: Frame, record: impl FnOnce(Found<'_>)) {
    with_walk(frame, |walk| {
        // SAFETY: taken.
        let addresses = unsafe { &mut *walk.addresses.get() };
        let mut depth = 0;
        let end = callers(walk, frame, |address| {
            let slot = addresses.get_mut(depth);
            slot.is_some_and(|slot| {
                *slot = address;
                depth += 1;
                true
            })
        });
        let end = match end {
            WalkEnd::Root => End::Root,
            WalkEnd::Full => End::Truncated,
            WalkEnd::Lost(_) => End::Lost,
        };
        record(Found { addresses: &addresses[..depth], end });
    });
}

/// The class of the wait for which the function of `frame` was called, as far as known, and its key.
pub(super) fn classify(frame: Frame) -> (u64, Class) {
    with_walk(frame, |walk| {
        let (mut key, mut class, mut length) = (0, Class::New, 0);
        callers(walk, frame, |address| {
            key = classes::extend(key, address);
            class = classes::classify(key);
            length += 1;
            class == Class::Deeper && length < MAX_CHAIN
        });
        // A chain of nothing but plumbing is no lock's.
        (key, if class == Class::Deeper { Class::Other } else { class })
    })
}

/// Walks up from the frame and hands over what lies above it.
fn callers(walk: &Walk, frame: Frame, mut keep: impl FnMut(u64) -> bool) -> WalkEnd {
    // SAFETY: taken by the caller; the collector changes it only when it has taken it.
    let space = unsafe { &*walk.space.get() };
    let (Some(space), Some(architecture)) = (space, Architecture::native()) else {
        return WalkEnd::Lost(Lost::NotCode);
    };
    let mut stack = Words::above(frame.sp);
    let mut is_own = true;
    let walker = Walker { architecture, space, cache: &walk.cache };
    let end = walker.walk(frame, |_| None, &mut stack, |address| std::mem::take(&mut is_own) || keep(address));
    if end == WalkEnd::Lost(Lost::Pending) {
        ask_for_all(&stack, space);
    }
    end
}

/// Requests the tables of all code that words of the stack point to; they are ready after the collector's next round.
#[cold]
fn ask_for_all(stack: &Words, space: &Space) {
    const WORDS: u64 = 1024;
    for word in (0..WORDS).map_while(|word| stack.read(stack.start.wrapping_add(8 * word))) {
        // A look-up requests the rule's table.
        let _ = space.rule(word);
    }
}

/// Gives all walks new tables. Not for hooks: it frees memory and waits for walks.
pub(super) fn publish(space: &Arc<Space>) {
    for walk in &WALKS_IN_USE {
        while !walk.take() {
            std::thread::yield_now();
        }
        // SAFETY: taken.
        let former = unsafe { (*walk.space.get()).replace(space.clone()) };
        walk.give_back();
        drop(former);
    }
}

/// The stack from a live frame upwards.
struct Words {
    start: u64,
    /// The end of the pages that are known to be there.
    known: Cell<u64>,
}

impl Words {
    fn above(sp: u64) -> Self {
        Self { start: sp, known: Cell::new((sp | (PAGE - 1)).saturating_add(1)) }
    }

    /// Whether all pages up to `end` are there.
    #[cold]
    fn ask_up_to(&self, end: u64) -> bool {
        while self.known.get() < end {
            if !crate::is_readable(self.known.get()) {
                return false;
            }
            self.known.set(self.known.get().saturating_add(PAGE));
        }
        true
    }
}

impl Stack for Words {
    #[inline(always)]
    fn read(&self, address: u64) -> Option<u64> {
        let end = address.checked_add(8)?;
        let is_stack = address >= self.start && address.is_multiple_of(8) && end - self.start <= MAX_BYTES;
        if !is_stack || (end > self.known.get() && !self.ask_up_to(end)) {
            return None;
        }
        // SAFETY: on the page of a live frame's stack pointer, or on the pages above it, which are mapped and part of
        // what the thread is using.
        Some(unsafe { (address as *const u64).read_volatile() })
    }

    fn switch(&mut self, sp: u64) -> bool {
        *self = Self::above(sp);
        crate::is_readable(sp & !(PAGE - 1))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cpu::regions::Regions;
    use crate::cpu::tables::Tables;
    use crate::here::here;

    fn prepare() {
        publish(&Regions::of_this_process(&mut Tables::default()).space);
    }

    #[inline(never)]
    fn leaf(record: &mut dyn FnMut(Found<'_>)) {
        capture(here(), record);
    }

    #[test]
    fn a_stack_is_found_up_to_the_threads_root() {
        prepare();
        let thread = std::thread::spawn(|| {
            let mut seen = Vec::new();
            leaf(&mut |found| {
                assert_eq!(found.end, End::Root);
                seen.extend_from_slice(found.addresses);
            });
            seen
        });
        let seen = thread.join().unwrap();
        assert!(seen.len() > 3 && seen.len() < 60, "{}", seen.len());
    }

    #[test]
    fn pages_that_are_not_there_are_not_read() {
        let (length, protection) = (2 * PAGE as usize, libc::PROT_READ | libc::PROT_WRITE);
        // SAFETY: a fresh mapping, whose second page can't be read.
        let memory = unsafe {
            let memory =
                libc::mmap(std::ptr::null_mut(), length, protection, libc::MAP_PRIVATE | libc::MAP_ANONYMOUS, -1, 0);
            assert_eq!(libc::mprotect(memory.byte_add(PAGE as usize), PAGE as usize, libc::PROT_NONE), 0);
            memory as u64
        };
        let words = Words::above(memory + 16);
        assert_eq!([memory + 16, memory + PAGE - 8].map(|address| words.read(address)), [Some(0); 2]);
        assert_eq!(
            [memory + 8, memory + 17, memory + PAGE, u64::MAX - 7].map(|address| words.read(address)),
            [None; 4]
        );
        // SAFETY: mapped above.
        unsafe { libc::munmap(memory as *mut libc::c_void, length) };
    }
}
