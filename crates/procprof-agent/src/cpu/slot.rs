//! The table through which a signal finds its ring without thread-local storage.
//!
//! A timer carries a ticket in its signal value: a mark, the slot's generation, the slot's index. A slot is never
//! freed, only given to another thread once no handler is in it; a late signal of a timer that was removed carries an
//! old generation and is dropped. A signal of a foreign timer carries no mark of ours. The slot's memory, which only
//! handlers with a valid ticket use, is mapped and unmapped as needed.

use super::life::Life;
use super::own_stack::OwnStack;
use super::ring::Ring;
use super::slab::{Slab, Unit};
use procprof_unwind::Cache;
use std::ptr::null_mut;
use std::sync::atomic::{AtomicBool, AtomicI32, AtomicPtr, AtomicU32, AtomicUsize, Ordering};

/// Threads that can be sampled at once; further threads are counted in the unsampled row.
pub(crate) const MAX_SLOTS: usize = 1 << 16;

/// No user-space pointer has these bits, so a foreign timer's value is recognized.
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
    /// Handlers in the slot: a late signal of the thread that had it before may look in while the present one's is at
    /// work.
    busy: AtomicU32,
    /// Whether one of them is at work.
    taken: AtomicBool,
    /// The thread's waiting samples.
    pub(crate) ring: Ring,
    /// Memory for all that handlers need: the ring, unwind rules of addresses the thread was seen at, and a stack. Null
    /// without.
    unit: AtomicPtr<Unit>,
    /// Of a thread that arms itself.
    pub(crate) life: Life,
}

impl Slot {
    /// A new slot without memory, or `None` at [`MAX_SLOTS`].
    pub(crate) fn create_bare() -> Option<&'static Self> {
        let next = |created: usize| (created < MAX_SLOTS).then_some(created + 1);
        let index = CREATED.fetch_update(Ordering::Relaxed, Ordering::Relaxed, next).ok()?;
        let slot: &'static Self = Box::leak(Box::new(Self {
            index: index as u64,
            generation: AtomicU32::new(0),
            tid: AtomicI32::new(0),
            busy: AtomicU32::new(0),
            taken: AtomicBool::new(false),
            ring: Ring::bare(),
            unit: AtomicPtr::new(null_mut()),
            life: Life::new(),
        }));
        SLOTS[index].store(std::ptr::from_ref(slot).cast_mut(), Ordering::Release);
        Some(slot)
    }

    /// A new slot with memory of its own.
    #[cfg(test)]
    pub(crate) fn create() -> Option<&'static Self> {
        super::stock::Stock::default().take(1)
    }

    /// Gives the slot, which has none and whose tickets are void, its memory.
    pub(crate) fn furnish(&self, unit: Unit) {
        // SAFETY: fresh memory of a slab, which is there until `clear_out`.
        unsafe { self.ring.furnish(unit.ring()) };
        let former = self.unit.swap(Box::into_raw(Box::new(unit)), Ordering::SeqCst);
        debug_assert!(former.is_null(), "a slot has one memory");
    }

    /// Takes the memory from the slot, whose tickets are void and in which no handler is.
    pub(crate) fn clear_out(&self) {
        self.empty();
        // SAFETY: no handler is in the ring, and it is empty.
        unsafe { self.ring.furnish(null_mut()) };
        let unit = self.unit.swap(null_mut(), Ordering::SeqCst);
        if !unit.is_null() {
            // SAFETY: made by `furnish`, and no handler looks at it: it would need a valid ticket.
            drop(unsafe { Box::from_raw(unit) });
        }
    }

    fn unit(&self) -> Option<Unit> {
        // SAFETY: null, or made by `furnish` and freed in `clear_out` when no handler is in the slot.
        unsafe { self.unit.load(Ordering::SeqCst).as_ref() }.copied()
    }

    /// Whether it has memory.
    pub(crate) fn is_furnished(&self) -> bool {
        self.unit().is_some()
    }

    /// Its memory, if it has some.
    pub(crate) fn slab(&self) -> Option<Slab> {
        self.unit().map(|unit| unit.slab)
    }

    /// All slots made so far.
    pub(crate) fn all() -> impl Iterator<Item = &'static Self> {
        SLOTS[..CREATED.load(Ordering::Acquire)].iter().filter_map(|entry| {
            // SAFETY: entries are null or point to slots that were leaked.
            unsafe { entry.load(Ordering::Acquire).as_ref() }
        })
    }

    /// How often its tickets were made void.
    pub(crate) fn generation(&self) -> u32 {
        self.generation.load(Ordering::SeqCst)
    }

    /// Its place among all slots.
    pub(crate) fn index(&self) -> usize {
        self.index as usize
    }

    /// The slot at a place.
    pub(crate) fn at(index: usize) -> Option<&'static Self> {
        // SAFETY: entries are null or point to slots that were leaked.
        unsafe { SLOTS.get(index)?.load(Ordering::Acquire).as_ref() }
    }

    /// The slot of a ticket that is not void.
    pub(crate) fn of_ticket(ticket: u64) -> Option<&'static Self> {
        let slot = Self::is_ticket(ticket).then(|| Self::at((ticket & INDEX_MASK) as usize)).flatten();
        slot.filter(|slot| slot.ticket() == ticket)
    }

    /// The ticket that a timer of this slot must carry for its signals to be accepted.
    pub(crate) fn ticket(&self) -> u64 {
        let generation = u64::from(self.generation()) << GENERATION_SHIFT;
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

    /// Takes the slot from the thread that it was assigned to and that has used no ticket.
    pub(crate) fn vacate(&self) {
        self.tid.store(0, Ordering::SeqCst);
    }

    /// The thread that has the slot, if one has.
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
        self.taken.store(false, Ordering::SeqCst);
        self.ring.forget();
        self.life.forget_parent();
    }

    /// Forgets samples that wait.
    pub(crate) fn empty(&self) {
        self.ring.drain(|_| ());
        self.ring.take_lost();
    }

    /// Whether a signal's value is a ticket, be it void.
    pub(crate) fn is_ticket(value: u64) -> bool {
        value & MARK_MASK == MARK
    }

    /// Enters the slot a ticket names, if the ticket is ours and not void. Async-signal-safe.
    #[inline]
    pub(crate) fn enter(ticket: u64) -> Entry {
        if !Self::is_ticket(ticket) {
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
        // A late signal of a counter may lead the thread it was meant for to the slot that has its descriptor's number
        // now, while that one's own is there.
        let unit = slot.unit().filter(|_| !slot.taken.swap(true, Ordering::SeqCst));
        let Some(unit) = unit else {
            slot.busy.fetch_sub(1, Ordering::SeqCst);
            return Entry::Void;
        };
        Entry::Inside(Visit { slot, unit })
    }
}

/// The result of looking up a ticket.
pub(crate) enum Entry {
    /// Not one of our timers.
    Foreign,
    /// A timer that has been removed.
    Void,
    /// The slot, marked busy until the visit is dropped.
    Inside(Visit),
}

/// A handler's stay in a slot, alone.
pub(crate) struct Visit {
    slot: &'static Slot,
    unit: Unit,
}

impl Visit {
    #[inline]
    pub(crate) fn ring(&self) -> &Ring {
        &self.slot.ring
    }

    #[inline]
    pub(crate) fn cache(&self) -> &Cache {
        // SAFETY: zeroed or a cache before, and there as long as the visit is.
        unsafe { &*self.unit.cache() }
    }

    /// Whether the thread has armed itself, by system calls, and is known to itself alone.
    #[inline]
    pub(crate) fn is_alone(&self) -> bool {
        self.slot.life.is_alone()
    }

    #[inline]
    pub(crate) fn stack(&self) -> OwnStack {
        self.unit.stack()
    }
}

impl Drop for Visit {
    #[inline]
    fn drop(&mut self) {
        self.slot.taken.store(false, Ordering::SeqCst);
        self.slot.busy.fetch_sub(1, Ordering::SeqCst);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_ticket_is_good_until_revoked_and_foreign_values_are_recognized() {
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
        assert!(matches!(Slot::enter(slot.ticket()), Entry::Void), "one is at work there");
        assert!(slot.is_busy(), "the visit is still there");
        drop(visit);
        assert!(!slot.is_busy());
    }
}
