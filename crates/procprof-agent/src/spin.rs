//! A lock that needs no help over `fork`: held for moments, by threads that are busy with the profiler's own work.
//!
//! Nothing of it is taken before a fork, for what other code does there may wait for a thread that waits for one of
//! these. A child may so find a lock that a thread of its parent's held. It takes it over, and begins with a fresh
//! value, since that thread may have been in the middle of changing the old one, which is left as it is.

use crate::lineage;
use std::cell::UnsafeCell;
use std::ops::{Deref, DerefMut};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

/// Whether something is in use, by a thread of this process.
pub(crate) struct Claim {
    /// 0, or the [`lineage::number`] of the process whose thread it is.
    holder: AtomicU32,
}

/// The result of a claim.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Claimed {
    Free,
    /// It was in use at the fork, in another thread of the parent's.
    Abandoned,
}

impl Claim {
    pub(crate) const fn new() -> Self {
        Self { holder: AtomicU32::new(0) }
    }

    /// Claims it; `None` if another thread has it.
    #[inline]
    pub(crate) fn take(&self) -> Option<Claimed> {
        let own = lineage::number();
        let take_from = |holder: u32| self.holder.compare_exchange(holder, own, Ordering::Acquire, Ordering::Relaxed);
        match take_from(0) {
            Ok(_) => Some(Claimed::Free),
            Err(holder) if holder != own && holder != 0 => take_from(holder).ok().map(|_| Claimed::Abandoned),
            Err(_) => None,
        }
    }

    #[inline]
    pub(crate) fn give_back(&self) {
        self.holder.store(0, Ordering::Release);
    }
}

/// A value behind the lock.
pub(crate) struct Spin<T> {
    claim: Claim,
    value: UnsafeCell<T>,
    fresh: fn() -> T,
}

// SAFETY: the value is reached only through a guard, of which there is one at a time.
unsafe impl<T: Send> Sync for Spin<T> {}

impl<T> Spin<T> {
    /// `fresh` makes the value that a forked child begins with where it finds the lock held; it neither allocates nor
    /// locks.
    pub(crate) const fn new(value: T, fresh: fn() -> T) -> Self {
        Self { claim: Claim::new(), value: UnsafeCell::new(value), fresh }
    }

    pub(crate) fn lock(&self) -> Guard<'_, T> {
        const SPINS: u32 = 64;
        const YIELDS: u32 = 1024;
        let mut attempts = 0_u32;
        loop {
            if let Some(guard) = self.try_lock() {
                return guard;
            }
            attempts = attempts.saturating_add(1);
            match attempts {
                0..SPINS => std::hint::spin_loop(),
                // A filter of its own may end the thread for either of the calls below.
                #[cfg(feature = "heap")]
                _ if crate::countdown::current().is_quiet() => std::hint::spin_loop(),
                SPINS..YIELDS => std::thread::yield_now(),
                // The holder may have a lower priority and would never run.
                _ => std::thread::sleep(Duration::from_micros(50)),
            }
        }
    }

    pub(crate) fn try_lock(&self) -> Option<Guard<'_, T>> {
        let claimed = self.claim.take()?;
        if claimed == Claimed::Abandoned {
            // SAFETY: the lock is held. The former value may be half changed, so nothing of it is touched.
            unsafe { self.value.get().write((self.fresh)()) };
        }
        Some(Guard { lock: self })
    }
}

/// The lock, held.
pub(crate) struct Guard<'a, T> {
    lock: &'a Spin<T>,
}

impl<T> Deref for Guard<'_, T> {
    type Target = T;

    fn deref(&self) -> &T {
        // SAFETY: the lock is held.
        unsafe { &*self.lock.value.get() }
    }
}

impl<T> DerefMut for Guard<'_, T> {
    fn deref_mut(&mut self) -> &mut T {
        // SAFETY: the lock is held, and this guard is borrowed alone.
        unsafe { &mut *self.lock.value.get() }
    }
}

impl<T> Drop for Guard<'_, T> {
    fn drop(&mut self) {
        self.lock.claim.give_back();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The content of the lock in a forked child, as its exit code.
    fn in_child(lock: &Spin<i32>) -> i32 {
        // SAFETY: the child reads a number and ends; the parent waits for it.
        unsafe {
            let child = libc::fork();
            if child == 0 {
                libc::alarm(20);
                libc::_exit(*lock.lock());
            }
            let mut status = 0;
            assert_eq!(libc::waitpid(child, &raw mut status, 0), child);
            assert!(libc::WIFEXITED(status), "the child ended by signal {}", libc::WTERMSIG(status));
            libc::WEXITSTATUS(status)
        }
    }

    #[test]
    fn a_child_keeps_what_was_free_and_begins_anew_with_what_was_held() {
        let lock = Spin::new(1, || 7);
        *lock.lock() = 2;
        assert_eq!(in_child(&lock), 2);
        let mut guard = lock.lock();
        *guard = 3;
        assert!(lock.try_lock().is_none());
        assert_eq!(in_child(&lock), 7);
        drop(guard);
        assert_eq!(*lock.lock(), 3, "the parent's is its own");
    }
}
