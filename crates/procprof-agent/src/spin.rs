//! A lock that a forked child can free: held for moments, by threads that are busy with the profiler's own work.

use std::cell::UnsafeCell;
use std::ops::{Deref, DerefMut};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

/// A value behind the lock.
pub(crate) struct Spin<T> {
    is_locked: AtomicBool,
    value: UnsafeCell<T>,
}

// SAFETY: the value is reached only through a guard, of which there is one at a time.
unsafe impl<T: Send> Sync for Spin<T> {}

impl<T> Spin<T> {
    pub(crate) const fn new(value: T) -> Self {
        Self { is_locked: AtomicBool::new(false), value: UnsafeCell::new(value) }
    }

    pub(crate) fn lock(&self) -> Guard<'_, T> {
        self.acquire();
        Guard { lock: self }
    }

    #[cfg(feature = "heap")]
    pub(crate) fn try_lock(&self) -> Option<Guard<'_, T>> {
        (!self.is_locked.swap(true, Ordering::Acquire)).then(|| Guard { lock: self })
    }

    /// Takes the lock without a guard; only `fork` does.
    pub(crate) fn acquire(&self) {
        const SPINS: u32 = 64;
        const YIELDS: u32 = 1024;
        let mut attempts = 0_u32;
        while self.is_locked.swap(true, Ordering::Acquire) {
            attempts += 1;
            match attempts {
                0..SPINS => std::hint::spin_loop(),
                SPINS..YIELDS => std::thread::yield_now(),
                // The holder may have a lower priority and would never run.
                _ => std::thread::sleep(Duration::from_micros(50)),
            }
        }
    }

    /// Frees the lock that [`Spin::acquire`] took.
    pub(crate) fn release(&self) {
        self.is_locked.store(false, Ordering::Release);
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
        self.lock.release();
    }
}
