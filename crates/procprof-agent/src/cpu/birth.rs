//! Threads that arm themselves when they start, so that their work before the sampler finds them is sampled, too.
//!
//! A library that interposes `pthread_create` has each new thread call [`begin`] before its first routine, and [`end`]
//! when it ends. The sampler offers slots; the thread takes one, makes its timer, and removes it at its end. Threads
//! that live for a few milliseconds never meet the sampler's tick: those that have a sample leave it in their slot with
//! their CPU time; the CPU time of the others is added up in one number, and their slots are offered again.
//!
//! CPU timers expire on the kernel's tick, wherever that interrupts a thread. So a new thread's timer expires at the
//! first tick and at each later one until the sampler makes them rarer: each sample represents a tick, also of a thread
//! that ends before its first. It records its thread's age.
//!
//! The thread makes a few system calls that a filter may refuse. While a thread of the process has a filter of its own,
//! no slot is offered.

use super::life::Stage;
use super::sigprof::{self, Sending};
use super::slot::Slot;
use super::timer::Timer;
use crate::aside::own_tid;
use crate::clock;
use crate::lineage;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, AtomicUsize, Ordering};

/// Slots that are offered at once, at most.
pub(super) const MOST_OFFERS: usize = 512;

/// Indices of slots that are offered, and one; 0 for none.
static OFFERS: [AtomicU32; MOST_OFFERS] = [const { AtomicU32::new(0) }; MOST_OFFERS];

/// The place at which the search starts.
static NEXT: AtomicUsize = AtomicUsize::new(0);

/// Which copy of the process takes offers, by its [`lineage`]; 0 for none.
static OPEN_IN: AtomicU32 = AtomicU32::new(0);

/// Which one the slots belong to.
static OWNER: AtomicU32 = AtomicU32::new(0);

/// Whether threads come here.
static IS_HOOKED: AtomicBool = AtomicBool::new(false);

/// Threads that are loading a filter, and those that have done so.
static FILTERS: AtomicUsize = AtomicUsize::new(0);

/// CPU time between two samples of a new thread, nanoseconds.
static INTERVAL: AtomicU64 = AtomicU64::new(0);

/// CPU time of threads that ended without a sample, nanoseconds.
static SILENT: AtomicU64 = AtomicU64::new(0);

/// To be called before the first [`begin`]: that threads will come here.
pub fn hook() {
    IS_HOOKED.store(true, Ordering::Relaxed);
}

pub(super) fn is_hooked() -> bool {
    IS_HOOKED.load(Ordering::Relaxed)
}

/// Whether threads that are born now are to arm themselves. Takes a few nanoseconds.
#[inline]
pub fn is_wanted() -> bool {
    let open = OPEN_IN.load(Ordering::SeqCst);
    open != 0 && open == lineage::number() && FILTERS.load(Ordering::SeqCst) == 0
}

/// Arms the calling thread, which has just been born. What it returns is handed to [`end`] by the same thread; `None`
/// where it is not armed, and the sampler will find it.
pub fn begin() -> Option<u64> {
    // Neither while the process becomes another program, nor while a filter is loaded.
    let _sending = Sending::begin()?;
    if !is_wanted() || sigprof::is_blocked_here() {
        return None;
    }
    let slot = take()?;
    let generation = slot.generation();
    if !slot.life.step(generation, Stage::Offered, Stage::Starting) {
        return None;
    }
    let tid = own_tid();
    let interval = INTERVAL.load(Ordering::SeqCst);
    // Checked again: closing the offers waits for threads that have begun.
    let timer = if is_wanted() { Timer::arm(tid, slot.assign(tid), 1, interval).ok() } else { None };
    let Some(timer) = timer else {
        slot.vacate();
        slot.life.begin(generation, Stage::Ended);
        return None;
    };
    slot.life.keep_timer(timer);
    slot.life.begin(generation, Stage::Live);
    if !is_wanted() && slot.life.step(generation, Stage::Live, Stage::Ending) {
        // Closed meanwhile: no sampler may be left that would meet it.
        slot.life.remove_timer();
        slot.vacate();
        slot.life.begin(generation, Stage::Ended);
        return None;
    }
    Some(slot.ticket())
}

/// Disarms the calling thread, which is about to end.
pub fn end(ticket: u64) {
    if OWNER.load(Ordering::SeqCst) != lineage::number() {
        return;
    }
    let Some(slot) = Slot::of_ticket(ticket) else { return };
    let (generation, life) = (slot.generation(), &slot.life);
    let was_alone = life.step(generation, Stage::Live, Stage::Ending);
    if !was_alone && !life.step(generation, Stage::Followed, Stage::Ending) {
        return;
    }
    life.remove_timer();
    let cpu = clock::own_cpu();
    if !was_alone || !slot.ring.is_empty() {
        life.leave(cpu);
        life.begin(generation, Stage::Ended);
        return;
    }
    // Where it blocks the signal, samples of other threads do not represent it.
    if !sigprof::is_blocked_here() {
        SILENT.fetch_add(cpu, Ordering::SeqCst);
    }
    slot.revoke();
    life.begin(slot.generation(), Stage::Offered);
    if !offer(slot) {
        life.begin(slot.generation(), Stage::Ended);
    }
}

/// Takes a slot that is offered.
fn take() -> Option<&'static Slot> {
    let first = NEXT.load(Ordering::Relaxed);
    let places = (0..MOST_OFFERS).map(|place| (first + place) % MOST_OFFERS);
    let index = places.map(|place| &OFFERS[place]).filter(|offer| offer.load(Ordering::Relaxed) != 0);
    index
        .map(|offer| offer.swap(0, Ordering::SeqCst))
        .find(|index| *index != 0)
        .and_then(|index| Slot::at(index as usize - 1))
}

/// Offers a slot, in the stage of that; false where there is no place.
fn offer(slot: &'static Slot) -> bool {
    let index = slot.index() as u32 + 1;
    let is_put = |place: &AtomicU32| {
        place.load(Ordering::Relaxed) == 0
            && place.compare_exchange(0, index, Ordering::SeqCst, Ordering::Relaxed).is_ok()
    };
    let place = OFFERS.iter().position(is_put);
    if let Some(place) = place {
        NEXT.store(place, Ordering::Relaxed);
    }
    place.is_some()
}

/// No thread arms itself from now on that is not about to; until [`filter_was_refused`].
pub(super) fn filter_is_loaded() {
    FILTERS.fetch_add(1, Ordering::SeqCst);
}

pub(super) fn filter_was_refused() {
    FILTERS.fetch_sub(1, Ordering::SeqCst);
}

/// Lets threads arm themselves, `interval` nanoseconds between two samples.
pub(super) fn open(interval: u64) {
    let own = lineage::number();
    if OWNER.swap(own, Ordering::SeqCst) != own {
        // The parent's slots are free, and not offered here.
        OFFERS.iter().for_each(|place| place.store(0, Ordering::SeqCst));
    }
    INTERVAL.store(interval, Ordering::SeqCst);
    OPEN_IN.store(own, Ordering::SeqCst);
}

/// Lets no thread arm itself any more; hands back what was offered.
pub(super) fn close() -> Vec<&'static Slot> {
    OPEN_IN.store(0, Ordering::SeqCst);
    if OWNER.load(Ordering::SeqCst) != lineage::number() {
        return Vec::new();
    }
    std::iter::from_fn(take).collect()
}

/// Slots that are offered now.
pub(super) fn offers() -> usize {
    OFFERS.iter().filter(|place| place.load(Ordering::Relaxed) != 0).count()
}

/// Offers a slot that no thread has; false where there is no place for it.
pub(super) fn offer_new(slot: &'static Slot) -> bool {
    slot.life.begin(slot.generation(), Stage::Offered);
    let is_offered = offer(slot);
    if !is_offered {
        slot.life.begin(slot.generation(), Stage::None);
    }
    is_offered
}

/// CPU time of all threads so far that ended without a sample, nanoseconds.
pub(super) fn silent() -> u64 {
    SILENT.load(Ordering::SeqCst)
}
