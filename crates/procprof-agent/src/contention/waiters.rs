//! The threads that wait at each address, and the time for which the lock's holder is to be charged.
//!
//! For each address the table has the number of waiting threads, and how long they have waited in all since the lock
//! was last released; the thread that releases it is charged with that, as it held the lock meanwhile. Waiting after
//! the release is undecided until there is evidence:
//!
//! - a waiter runs and has the lock, or another thread was seen to take it: no thread held it until then, which is
//!   wake-up time;
//! - the lock is released once more, or a waiter runs and finds it taken: a running thread took it at once, unseen,
//!   before a woken waiter came to run. That thread is charged when it releases.
//!
//! So the holders' charges and the wake-up time add up to the time waited. A lock that a busy thread takes again and
//! again while others wait is nearly always handed over in the second way.
//!
//! A waiter that leaves without the lock, to wait again in a moment, leaves its time to be charged to the holder. Time
//! that is charged to no holder within [`KEPT_NANOS`] after the last waiter has left (a time-out, a release that is not
//! seen) is charged to an unknown holder.
//!
//! Addresses are kept in groups of a few; one whose group is full is not followed, and counted.

use super::classes::{self, Class};
use crate::spin::Spin;
use std::sync::atomic::{AtomicU8, AtomicU64, Ordering};

/// Groups; a power of two.
const GROUPS: usize = 1024;

const IN_GROUP: usize = 8;

/// An address belongs to the group that its lower 32 bits give, multiplied by this and shifted by that.
pub(super) const FACTOR: u32 = 0x9e37_79b1;
pub(super) const SHIFT: u32 = u32::BITS - GROUPS.trailing_zeros();

/// How long what is owed is kept for the holder after the last waiter has left.
const KEPT_NANOS: u64 = 1_000_000_000;

/// How a wait ended, as far as it shows who holds the lock now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Ending {
    /// The waiter has it, or it is free for the waiter to take.
    Taken,
    /// Another thread has it, and the waiter will wait again.
    HeldByAnother,
    /// Nothing is known: the waiter has given up, or was interrupted.
    Unknown,
}

/// An address at which a thread waits, or has waited a moment ago.
#[derive(Clone, Copy)]
struct Entry {
    /// 0 for a free place.
    address: usize,
    /// By which the class of the wait is known that came first.
    key: u64,
    waiters: u32,
    /// Whether the lock was released and no thread has been seen to take it since.
    is_let_go: bool,
    /// The time up to which `owed` is counted.
    last: u64,
    /// Nanoseconds waited since the lock was let go last, of all waiters.
    owed: u64,
    /// Nanoseconds waited since then while it is not known whether the lock was held.
    undecided: u64,
    /// Nanoseconds waited while the lock was free, that are not counted yet.
    wake_up: u64,
}

const FREE: Entry =
    Entry { address: 0, key: 0, waiters: 0, is_let_go: false, last: 0, owed: 0, undecided: 0, wake_up: 0 };

static WAITERS: [Spin<[Entry; IN_GROUP]>; GROUPS] =
    [const { Spin::new([FREE; IN_GROUP], || [FREE; IN_GROUP]) }; GROUPS];

/// Addresses in use by group, for a look without the lock.
pub(super) static COUNTS: [AtomicU8; GROUPS] = [const { AtomicU8::new(0) }; GROUPS];

static WAKE_UP: AtomicU64 = AtomicU64::new(0);
static UNKNOWN_HOLDER: AtomicU64 = AtomicU64::new(0);
static UNFOLLOWED: AtomicU64 = AtomicU64::new(0);

/// The waits with which a holder is charged.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Owed {
    /// Waits it ends.
    pub(super) waits: u64,
    pub(super) nanos: u64,
    pub(super) key: u64,
}

/// Sums of what no holder is charged with, since the start; nanoseconds, and waits of full groups.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Unowed {
    pub(super) wake_up: u64,
    pub(super) unknown_holder: u64,
    pub(super) unfollowed: u64,
}

fn group(address: usize) -> usize {
    ((address as u32).wrapping_mul(FACTOR) >> SHIFT) as usize
}

impl Entry {
    /// Counts the time since the last event.
    fn go_on(&mut self, now: u64) {
        let waited = u64::from(self.waiters) * now.saturating_sub(self.last);
        self.last = self.last.max(now);
        *(if self.is_let_go { &mut self.undecided } else { &mut self.owed }) += waited;
    }

    /// The lock was free until now, and is taken.
    fn was_free(&mut self) {
        self.wake_up += std::mem::take(&mut self.undecided);
        self.is_let_go = false;
    }

    /// The lock has been taken since its release.
    fn was_taken(&mut self) {
        self.owed += std::mem::take(&mut self.undecided);
        self.is_let_go = false;
    }

    /// Whether it is known by now that a lock is waited for.
    fn is_lock(&self) -> bool {
        self.key == 0 || classes::classify(self.key) == Class::Lock
    }

    /// Counts what no holder will be charged with, and empties the place.
    fn give_up(&mut self, count: &AtomicU8) {
        if self.is_lock() {
            WAKE_UP.fetch_add(self.wake_up + self.undecided, Ordering::Relaxed);
            UNKNOWN_HOLDER.fetch_add(self.owed, Ordering::Relaxed);
        }
        *self = FREE;
        count.fetch_sub(1, Ordering::Relaxed);
    }
}

/// Whether a thread may wait at an address.
#[inline(always)]
pub(super) fn may_have(address: usize) -> bool {
    COUNTS[group(address)].load(Ordering::Relaxed) != 0
}

/// A thread waits from now on; false if that can't be followed.
pub(super) fn begin(address: usize, key: u64, now: u64) -> bool {
    let index = group(address);
    let mut entries = WAITERS[index].lock();
    let known = entries.iter().position(|entry| entry.address == address);
    let free = || entries.iter().position(|entry| entry.address == 0);
    let Some(place) = known.or_else(free).or_else(|| entries.iter().position(|entry| entry.waiters == 0)) else {
        UNFOLLOWED.fetch_add(1, Ordering::Relaxed);
        return false;
    };
    let entry = &mut entries[place];
    if known.is_none() {
        if entry.address != 0 {
            entry.give_up(&COUNTS[index]);
        }
        *entry = Entry { address, key, last: now, ..FREE };
        COUNTS[index].fetch_add(1, Ordering::Relaxed);
    }
    entry.go_on(now);
    entry.waiters += 1;
    true
}

/// A thread waits no longer.
pub(super) fn end(address: usize, ending: Ending, now: u64) {
    let index = group(address);
    let mut entries = WAITERS[index].lock();
    let Some(entry) = entries.iter_mut().find(|entry| entry.address == address) else { return };
    entry.go_on(now);
    entry.waiters = entry.waiters.saturating_sub(1);
    match ending {
        Ending::Taken => entry.was_free(),
        Ending::HeldByAnother => entry.was_taken(),
        Ending::Unknown => (),
    }
    if entry.is_lock() {
        WAKE_UP.fetch_add(std::mem::take(&mut entry.wake_up), Ordering::Relaxed);
    }
    if entry.waiters == 0 && (ending == Ending::Taken || entry.owed + entry.undecided == 0) {
        entry.give_up(&COUNTS[index]);
    }
}

/// A thread has taken the lock without waiting, while others may be waiting for it.
pub(super) fn taken(address: usize, now: impl FnOnce() -> u64) {
    let mut entries = WAITERS[group(address)].lock();
    if let Some(entry) = entries.iter_mut().find(|entry| entry.address == address && entry.is_let_go) {
        entry.go_on(now());
        entry.was_free();
    }
}

/// A thread releases the lock and wakes up to `woken` waiters; `None` where no thread waits.
pub(super) fn release(address: usize, woken: u32, now: u64) -> Option<Owed> {
    let index = group(address);
    let mut entries = WAITERS[index].lock();
    let entry = entries.iter_mut().find(|entry| entry.address == address)?;
    entry.go_on(now);
    entry.was_taken();
    entry.is_let_go = true;
    let owed =
        Owed { waits: u64::from(woken.min(entry.waiters)), nanos: std::mem::take(&mut entry.owed), key: entry.key };
    if entry.waiters == 0 {
        entry.give_up(&COUNTS[index]);
    }
    Some(owed)
}

/// Gives up what is kept for holders that did not come.
pub(super) fn sweep(now: u64) {
    for (entries, count) in WAITERS.iter().zip(&COUNTS).filter(|(_, count)| count.load(Ordering::Relaxed) != 0) {
        let mut entries = entries.lock();
        let is_old = |entry: &&mut Entry| entry.address != 0 && entry.waiters == 0 && entry.last + KEPT_NANOS < now;
        entries.iter_mut().filter(is_old).for_each(|entry| entry.give_up(count));
    }
}

pub(super) fn unowed() -> Unowed {
    let load = |sum: &AtomicU64| sum.load(Ordering::Relaxed);
    Unowed { wake_up: load(&WAKE_UP), unknown_holder: load(&UNKNOWN_HOLDER), unfollowed: load(&UNFOLLOWED) }
}

/// In a forked child: the parent's waiters are not here.
pub(super) fn forget_other_threads() {
    for (entries, count) in WAITERS.iter().zip(&COUNTS) {
        *entries.lock() = [FREE; IN_GROUP];
        count.store(0, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Two threads wait while A and then B hold the lock: each holder is charged with what both waited meanwhile.
    #[test]
    fn holders_are_charged_with_what_was_waited_while_they_held_it() {
        let address = 0x7000_1230;
        assert!(!may_have(address));
        assert!(begin(address, 0, 1000) && begin(address, 8, 1400));
        assert_eq!(release(address, 1, 2000), Some(Owed { waits: 1, nanos: 1000 + 600, key: 0 }));
        let before = unowed().wake_up;
        end(address, Ending::Taken, 2050);
        assert!(unowed().wake_up - before >= 100, "both waited while nobody held it");
        assert_eq!(release(address, i32::MAX as u32, 2250), Some(Owed { waits: 1, nanos: 200, key: 0 }));
        end(address, Ending::Taken, 2250);
        assert!(!may_have(address));
        assert_eq!(release(address, 1, 3000), None);
    }

    /// A holder that lets go and takes the lock again at once, before the waiter it woke comes to run.
    #[test]
    fn who_takes_the_lock_before_the_waiters_is_charged() {
        let (address, owed) = (0x7000_5670, |nanos| Some(Owed { waits: 1, nanos, key: 0 }));
        assert!(begin(address, 0, 1000));
        assert_eq!(release(address, 1, 2000), owed(1000));
        assert_eq!(release(address, 1, 5000), owed(3000), "taken unseen");
        taken(address, || 5100);
        assert_eq!(release(address, 1, 9000), owed(3900), "seen to be taken after 100 ns in which it was free");
        end(address, Ending::HeldByAnother, 9500);
        assert!(may_have(address), "what is owed is kept");
        assert!(begin(address, 0, 9600));
        assert_eq!(release(address, 1, 9900), owed(500 + 300));
        end(address, Ending::Taken, 9900);
        assert!(!may_have(address));
    }

    #[test]
    fn time_for_a_lock_that_is_never_released_expires() {
        let address = 0x7000_9990;
        assert!(begin(address, 0, 1000));
        end(address, Ending::Unknown, 4000);
        let before = unowed().unknown_holder;
        sweep(KEPT_NANOS);
        assert!(may_have(address));
        sweep(KEPT_NANOS + 5000);
        assert!(unowed().unknown_holder - before >= 3000 && !may_have(address));
    }

    #[test]
    fn a_full_group_is_reported_and_idle_places_are_reused() {
        let same_group: Vec<usize> = (1..)
            .map(|index| 0x1000_0000 + 4 * index)
            .filter(|address| group(*address) == 5)
            .take(IN_GROUP + 1)
            .collect();
        let before = unowed();
        let begun: Vec<bool> = same_group.iter().map(|address| begin(*address, 0, 100)).collect();
        assert_eq!(begun.iter().filter(|begun| **begun).count(), IN_GROUP);
        same_group[..IN_GROUP].iter().for_each(|address| end(*address, Ending::Unknown, 200));
        assert!(unowed().unfollowed > before.unfollowed);
        assert!(begin(same_group[IN_GROUP], 0, 300));
        assert!(unowed().unknown_holder - before.unknown_holder >= 100);
        end(same_group[IN_GROUP], Ending::Taken, 300);
        sweep(2 * KEPT_NANOS);
        assert!(unowed().unknown_holder - before.unknown_holder >= 100 * IN_GROUP as u64);
    }
}
