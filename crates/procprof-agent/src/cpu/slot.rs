//! The table through which a signal finds its ring without thread-local storage.
//!
//! A timer carries a ticket in its signal value: a mark, the slot's generation, the slot's index. A slot is never freed, only
//! given to another thread once no handler is in it; a late signal of a timer that was removed carries an old generation and
//! is dropped. A signal of somebody else's timer carries no mark of ours.

use super::own_stack::OwnStack;
use super::ring::Ring;
use procprof_unwind::Cache;
use std::sync::atomic::{AtomicI32, AtomicPtr, AtomicU32, AtomicUsize, Ordering};

/// Threads that can be sampled at once; further threads are counted in the unsampled row.
pub(crate) const MAX_SLOTS: usize = 1 << 16;

/// No user-space pointer looks like this, so a foreign timer's value is told apart.
const MARK: u64 = 0x7070_7200_0000_0000;
const MARK_MASK: u64 = 0xffff_ff00_0000_0000;
const GENERATION_SHIFT: u32 = 16;
const GENERATION_MASK: u64 = 0xff_ffff << GENERATION_SHIFT;
const INDEX_MASK: u64 = 0xffff;

static SLOTS: [AtomicPtr<Slot>; MAX_SLOTS] = [const { AtomicPtr::new(std::ptr::null_mut()) }; MAX_SLOTS];
static CREATED: AtomicUsize = AtomicUsize::new(0);

/// One sampled thread's place.
#[derive(Debug)]
pub(crate) struct Slot {
    index: u64,
    generation: AtomicU32,
    /// The thread that has it; 0 when none has.
    tid: AtomicI32,
    /// Handlers in the slot: a late signal of the thread that had it before may look in while the present one's is at work.
    busy: AtomicU32,
    /// Where the thread's samples wait.
    pub(crate) ring: Ring,
    /// The unwind rules of addresses the thread was seen at.
    cache: &'static Cache,
    /// Where the handler does its work.
    stack: OwnStack,
}

/// Maps an empty cache for the rest of the process's life; its pages become resident when the thread is sampled.
fn map_cache() -> Option<&'static Cache> {
    let (protection, flags) = (libc::PROT_READ | libc::PROT_WRITE, libc::MAP_PRIVATE | libc::MAP_ANONYMOUS);
    // SAFETY: a fresh private mapping that nothing else knows.
    let memory = unsafe { libc::mmap(std::ptr::null_mut(), size_of::<Cache>(), protection, flags, -1, 0) };
    // SAFETY: zeroed (an empty cache), page-aligned, long enough and never unmapped; its atomics allow shared writes.
    (memory != libc::MAP_FAILED).then(|| unsafe { &*memory.cast::<Cache>() })
}

impl Slot {
    /// A new slot, or `None` at [`MAX_SLOTS`] or without memory.
    pub(crate) fn create() -> Option<&'static Self> {
        if CREATED.load(Ordering::Relaxed) >= MAX_SLOTS {
            return None;
        }
        let (ring, cache, stack) = (Ring::map()?, map_cache()?, OwnStack::map()?);
        let next = |created: usize| (created < MAX_SLOTS).then_some(created + 1);
        let index = CREATED.fetch_update(Ordering::Relaxed, Ordering::Relaxed, next).ok()?;
        let (generation, tid, busy) = (AtomicU32::new(0), AtomicI32::new(0), AtomicU32::new(0));
        let slot: &'static Self = Box::leak(Box::new(Self { index: index as u64, generation, tid, busy, ring, cache, stack }));
        SLOTS[index].store(std::ptr::from_ref(slot).cast_mut(), Ordering::Release);
        Some(slot)
    }

    /// All slots made so far.
    pub(crate) fn all() -> impl Iterator<Item = &'static Self> {
        SLOTS[..CREATED.load(Ordering::Acquire)].iter().filter_map(|entry| {
            // SAFETY: entries are null or point to slots that were leaked.
            unsafe { entry.load(Ordering::Acquire).as_ref() }
        })
    }

    /// What a timer of this slot must carry for its signals to be accepted.
    pub(crate) fn ticket(&self) -> u64 {
        let generation = u64::from(self.generation.load(Ordering::SeqCst)) << GENERATION_SHIFT;
        MARK | generation & GENERATION_MASK | self.index
    }

    /// Gives the slot to a thread; returns the ticket for its signals.
    pub(crate) fn assign(&self, tid: i32) -> u64 {
        self.tid.store(tid, Ordering::SeqCst);
        self.ticket()
    }

    /// Makes all tickets handed out so far void.
    pub(crate) fn revoke(&self) {
        // Before the tickets: who reads a valid one, then the thread, has a pair that belongs together.
        self.tid.store(0, Ordering::SeqCst);
        self.generation.fetch_add(1, Ordering::SeqCst);
    }

    /// The thread that has the slot, if one has.
    #[cfg(test)]
    pub(crate) fn tid(&self) -> Option<i32> {
        Some(self.tid.load(Ordering::SeqCst)).filter(|tid| *tid != 0)
    }

    /// Whether a handler is running in the slot.
    pub(crate) fn is_busy(&self) -> bool {
        self.busy.load(Ordering::SeqCst) > 0
    }

    /// After a fork: the handler that was running here belongs to a thread that does not exist in this process.
    pub(crate) fn forget_parent(&self) {
        self.revoke();
        self.busy.store(0, Ordering::SeqCst);
        self.empty();
    }

    /// Forgets samples that wait.
    pub(crate) fn empty(&self) {
        self.ring.drain(|_| ());
        self.ring.take_lost();
    }

    /// Enters the slot a ticket names, if the ticket is ours and not void. Async-signal-safe.
    #[inline]
    pub(crate) fn enter(ticket: u64) -> Entry {
        if ticket & MARK_MASK != MARK {
            return Entry::Foreign;
        }
        let pointer = SLOTS[(ticket & INDEX_MASK) as usize].load(Ordering::Acquire);
        // SAFETY: entries are null or point to slots that were leaked.
        let Some(slot) = (unsafe { pointer.as_ref() }) else { return Entry::Foreign };
        slot.busy.fetch_add(1, Ordering::SeqCst);
        if slot.ticket() != ticket {
            slot.busy.fetch_sub(1, Ordering::SeqCst);
            return Entry::Void;
        }
        Entry::Inside(Visit(slot))
    }
}

/// What a ticket led to.
pub(crate) enum Entry {
    /// Not one of our timers.
    Foreign,
    /// A timer that has been removed.
    Void,
    /// The slot, marked busy until the visit is dropped.
    Inside(Visit),
}

/// A handler's stay in a slot.
pub(crate) struct Visit(&'static Slot);

impl Visit {
    /// The thread whose slot it is.
    #[inline]
    pub(crate) fn tid(&self) -> i32 {
        self.0.tid.load(Ordering::SeqCst)
    }

    #[inline]
    pub(crate) fn ring(&self) -> &'static Ring {
        &self.0.ring
    }

    #[inline]
    pub(crate) fn cache(&self) -> &'static Cache {
        self.0.cache
    }

    #[inline]
    pub(crate) fn stack(&self) -> &'static OwnStack {
        &self.0.stack
    }
}

impl Drop for Visit {
    #[inline]
    fn drop(&mut self) {
        self.0.busy.fetch_sub(1, Ordering::SeqCst);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_ticket_is_good_until_revoked_and_foreign_values_are_told_apart() {
        let slot = Slot::create().unwrap();
        let ticket = slot.ticket();
        assert!(matches!(Slot::enter(ticket), Entry::Inside(_)));
        let visit = Slot::enter(ticket);
        assert!(slot.is_busy());
        drop(visit);
        assert!(!slot.is_busy());
        slot.revoke();
        assert!(matches!(Slot::enter(ticket), Entry::Void));
        assert!(matches!(Slot::enter(slot.ticket()), Entry::Inside(_)));
        for foreign in [0, 1, u64::MAX, foreign_place as *const () as u64] {
            assert!(matches!(Slot::enter(foreign), Entry::Foreign));
        }
    }

    fn foreign_place() {}

    #[test]
    fn a_late_signal_does_not_make_a_slot_look_idle() {
        let slot = Slot::create().unwrap();
        let late = slot.ticket();
        slot.revoke();
        let visit = Slot::enter(slot.ticket());
        assert!(matches!(Slot::enter(late), Entry::Void));
        assert!(slot.is_busy(), "the visit is still there");
        drop(visit);
        assert!(!slot.is_busy());
    }
}
