//! Who is waiting where, as long as somebody is: what holders owe.
//!
//! Of each address it is known how many threads wait there, and how long they have waited in all since the lock was let go last; that is what the
//! thread that lets it go is charged with, as it held the lock meanwhile. After that, until one of the waiters runs, nobody holds it: that time is
//! counted as wake-up time. So what holders are charged with and the wake-up time add up to what was waited. Time that was waited when the last
//! waiter left without anybody having let go (a time-out, a lock given up in a way that is not seen) is owed by nobody known.
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

/// An address somebody waits at.
#[derive(Clone, Copy)]
struct Entry {
    /// 0 for a free place.
    address: usize,
    /// By which the class of the wait is known that came first.
    key: u64,
    waiters: u32,
    /// Whether the lock was let go and no waiter has left since.
    is_let_go: bool,
    /// The time up to which `owed` is counted.
    last: u64,
    /// Nanoseconds waited since the lock was let go last, of all waiters.
    owed: u64,
    /// Nanoseconds waited while nobody held it, that are not counted yet.
    wake_up: u64,
}

const FREE: Entry = Entry { address: 0, key: 0, waiters: 0, is_let_go: false, last: 0, owed: 0, wake_up: 0 };

static WAITERS: [Spin<[Entry; IN_GROUP]>; GROUPS] = [const { Spin::new([FREE; IN_GROUP]) }; GROUPS];

/// Addresses in use by group, for a look without the lock.
pub(super) static COUNTS: [AtomicU8; GROUPS] = [const { AtomicU8::new(0) }; GROUPS];

static WAKE_UP: AtomicU64 = AtomicU64::new(0);
static UNKNOWN_HOLDER: AtomicU64 = AtomicU64::new(0);
static UNFOLLOWED: AtomicU64 = AtomicU64::new(0);

/// What a holder owes.
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
        *(if self.is_let_go { &mut self.wake_up } else { &mut self.owed }) += waited;
    }

    /// Whether it is known by now that a lock is waited for.
    fn is_lock(&self) -> bool {
        self.key == 0 || classes::of(self.key) == Class::Lock
    }
}

/// Whether somebody may wait at an address.
#[inline(always)]
pub(super) fn may_have(address: usize) -> bool {
    COUNTS[group(address)].load(Ordering::Relaxed) != 0
}

/// A thread waits from now on; false if that can't be followed.
pub(super) fn begin(address: usize, key: u64, now: u64) -> bool {
    let index = group(address);
    let mut entries = WAITERS[index].lock();
    let known = entries.iter().position(|entry| entry.address == address);
    let Some(place) = known.or_else(|| entries.iter().position(|entry| entry.address == 0)) else {
        UNFOLLOWED.fetch_add(1, Ordering::Relaxed);
        return false;
    };
    let entry = &mut entries[place];
    if known.is_none() {
        *entry = Entry { address, key, last: now, ..FREE };
        COUNTS[index].fetch_add(1, Ordering::Relaxed);
    }
    entry.go_on(now);
    entry.waiters += 1;
    true
}

/// A thread waits no longer.
pub(super) fn end(address: usize, now: u64) {
    let index = group(address);
    let mut entries = WAITERS[index].lock();
    let Some(entry) = entries.iter_mut().find(|entry| entry.address == address) else { return };
    entry.go_on(now);
    entry.is_let_go = false;
    entry.waiters = entry.waiters.saturating_sub(1);
    let is_lock = entry.is_lock();
    if is_lock {
        WAKE_UP.fetch_add(std::mem::take(&mut entry.wake_up), Ordering::Relaxed);
    }
    if entry.waiters == 0 {
        UNKNOWN_HOLDER.fetch_add(if is_lock { entry.owed } else { 0 }, Ordering::Relaxed);
        *entry = FREE;
        COUNTS[index].fetch_sub(1, Ordering::Relaxed);
    }
}

/// A thread lets the lock go, and up to `woken` waiters; `None` where nobody waits.
pub(super) fn release(address: usize, woken: u32, now: u64) -> Option<Owed> {
    let mut entries = WAITERS[group(address)].lock();
    let entry = entries.iter_mut().find(|entry| entry.address == address)?;
    entry.go_on(now);
    entry.is_let_go = true;
    let nanos = std::mem::take(&mut entry.owed);
    Some(Owed { waits: u64::from(woken.min(entry.waiters)), nanos, key: entry.key })
}

pub(super) fn unowed() -> Unowed {
    let load = |sum: &AtomicU64| sum.load(Ordering::Relaxed);
    Unowed { wake_up: load(&WAKE_UP), unknown_holder: load(&UNKNOWN_HOLDER), unfollowed: load(&UNFOLLOWED) }
}

pub(super) fn hold() {
    WAITERS.iter().for_each(Spin::acquire);
}

pub(super) fn free() {
    WAITERS.iter().for_each(Spin::release);
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
        end(address, 2050);
        assert!(unowed().wake_up - before >= 100, "both waited while nobody held it");
        assert_eq!(release(address, i32::MAX as u32, 2250), Some(Owed { waits: 1, nanos: 200, key: 0 }));
        end(address, 2250);
        assert!(!may_have(address));
        assert_eq!(release(address, 1, 3000), None);
    }

    #[test]
    fn a_full_group_is_told_and_a_wait_that_times_out_is_nobodys() {
        let same_group: Vec<usize> =
            (1..).map(|index| 0x1000_0000 + 4 * index).filter(|address| group(*address) == 5).take(IN_GROUP + 1).collect();
        let before = unowed();
        let begun: Vec<bool> = same_group.iter().map(|address| begin(*address, 0, 100)).collect();
        assert_eq!(begun.iter().filter(|begun| **begun).count(), IN_GROUP);
        same_group[..IN_GROUP].iter().for_each(|address| end(*address, 200));
        let after = unowed();
        assert!(after.unfollowed > before.unfollowed);
        assert!(after.unknown_holder - before.unknown_holder >= 100 * IN_GROUP as u64);
        assert!(begin(same_group[0], 0, 300));
        end(same_group[0], 300);
    }
}
