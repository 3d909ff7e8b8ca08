//! The functions to call where a thread is about to wait for a lock, and where one releases a lock that others wait
//! for.
//!
//! The crate's own hooks do so, and an interposed `pthread_mutex_lock` can. How a wait was found makes no difference
//! here: only its address, its beginning and end, and the caller count.
//!
//! ```
//! use procprof_agent::contention_hook::{Caller, Outcome, begin, has_waiters, release};
//! # fn try_lock(_: usize) -> bool { true }
//! # fn wait_and_lock(_: usize) {}
//! # fn unlock_now(_: usize) {}
//!
//! #[inline(never)]
//! extern "C" fn lock(address: usize) {
//!     if try_lock(address) {
//!         return;
//!     }
//!     let wait = begin(address, Caller::here());
//!     wait_and_lock(address);
//!     if let Some(wait) = wait {
//!         wait.end(Outcome::Waited);
//!     }
//! }
//!
//! #[inline(never)]
//! extern "C" fn unlock(address: usize) {
//!     if has_waiters(address) {
//!         release(address, Caller::here(), 1);
//!     }
//!     unlock_now(address);
//! }
//! # lock(8);
//! # unlock(8);
//! ```
//!
//! Nothing here allocates, waits for a lock of the program, or changes `errno`; what it calls of the C library is
//! `clock_gettime` and `syscall`. A thread that is in here already (its signal handler, or a hooked function that this
//! code itself calls) is let through unseen.

use super::buffer::{self, Kind, What};
use super::classes::{self, Class};
use super::waiters::{self, Ending};
use super::{budget, stack};
use crate::here::here;
use crate::own_thread::WAITS_UNSEEN;
use procprof_unwind::Frame;
use std::sync::atomic::{AtomicBool, Ordering};

/// Whether waits are recorded.
static ON: AtomicBool = AtomicBool::new(false);

/// The function that waits or lets go; its own frame is left out of stacks, which begin with who called it.
#[derive(Clone, Copy, Debug)]
pub struct Caller {
    pub(super) frame: Frame,
    /// Whether the hook takes the place of a function of the C library: see [`tail`](super::tail).
    pub(super) is_in_place: bool,
}

impl Caller {
    /// The function this is written in, which must not be inlined and must not return before the wait has ended.
    #[inline(always)]
    pub fn here() -> Self {
        Self { frame: here(), is_in_place: false }
    }

    /// The same, for a function that calls of the C library's are led to.
    #[inline(always)]
    pub(super) fn in_place() -> Self {
        Self { frame: here(), is_in_place: true }
    }
}

/// How a wait ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// The thread waited, with or without success.
    Waited,
    /// It waited until a signal came, and will wait on: its time counts, and not as a further wait.
    Interrupted,
    /// It did not wait after all.
    NotAtAll,
}

/// A wait that has begun. Dropping it records that the thread did not wait after all.
#[derive(Debug)]
#[must_use = "a wait has to be ended"]
pub struct Wait {
    address: usize,
    caller: Caller,
    /// The key of its class; 0 for a wait that is a lock's for certain.
    key: u64,
    start: u64,
    is_followed: bool,
}

/// Whether waits are recorded at the moment: a load.
#[inline(always)]
pub fn is_on() -> bool {
    ON.load(Ordering::Relaxed)
}

pub(super) fn switch(on: bool) {
    ON.store(on, Ordering::SeqCst);
}

/// A thread begins to wait for the lock at an address; `None` where nothing is recorded.
#[cold]
#[inline(never)]
pub fn begin(address: usize, caller: Caller) -> Option<Wait> {
    let _busy = Busy::enter_to_wait()?;
    Some(Wait::start(address, caller, 0))
}

/// As [`begin`], for a wait that may not be a lock's: `None` if it is known not to be one.
#[cold]
#[inline(never)]
pub(super) fn begin_unless_idle(address: usize, caller: Caller) -> Option<Wait> {
    let _busy = Busy::enter_to_wait()?;
    let (key, class) = keeping_errno(|| stack::classify(caller.frame));
    if class == Class::Other {
        classes::count_other();
        return None;
    }
    Some(Wait::start(address, caller, key))
}

impl Wait {
    fn start(address: usize, caller: Caller, key: u64) -> Self {
        let start = now();
        let is_followed = waiters::begin(address, key, start);
        Self { address, caller, key, start, is_followed }
    }

    /// The wait is over. To be called in the function whose [`Caller`] began it.
    #[cold]
    #[inline(never)]
    pub fn end(self, outcome: Outcome) {
        let ending = if outcome == Outcome::Waited { Ending::Taken } else { Ending::Unknown };
        self.end_as(outcome, ending, false);
    }

    /// As [`end`](Self::end), with what is known of the lock; `is_mutex` means that only a mutex of the standard
    /// library behaves as this wait did.
    pub(super) fn end_as(self, outcome: Outcome, ending: Ending, is_mutex: bool) {
        self.record(outcome, ending, is_mutex);
        std::mem::forget(self);
    }

    fn record(&self, outcome: Outcome, ending: Ending, is_mutex: bool) {
        let Some(_busy) = Busy::enter() else { return };
        let end = now();
        if self.is_followed {
            waiters::end(self.address, ending, end);
        }
        if outcome == Outcome::NotAtAll || !is_on() {
            return;
        }
        let nanos = end.saturating_sub(self.start);
        let Some(weight) = budget::WAITS.draw(nanos) else { return };
        let kind = if is_mutex { Kind::MutexWait } else { Kind::Wait };
        let count = u64::from(outcome == Outcome::Waited);
        keeping_errno(|| {
            stack::capture(self.caller.frame, |found| {
                let what = What { kind, may_be_jumped_to: self.caller.is_in_place, key: self.key };
                buffer::push(what, [count, nanos], weight, found);
            })
        });
    }
}

impl Drop for Wait {
    fn drop(&mut self) {
        self.record(Outcome::NotAtAll, Ending::Unknown, false);
    }
}

/// Whether a thread may be waiting at the address: nearly always false where none is. One load.
#[inline(always)]
pub fn has_waiters(address: usize) -> bool {
    waiters::may_have(address)
}

/// A thread has taken the lock at an address without waiting. To be called where [`has_waiters`]: what those wait from
/// now on is this holder's.
#[cold]
#[inline(never)]
pub fn taken(address: usize) {
    if let Some(_busy) = Busy::enter_if_on() {
        waiters::taken(address, now);
    }
}

/// A thread is about to let the lock at an address go, and up to `woken` of those who wait for it.
#[cold]
#[inline(never)]
pub fn release(address: usize, caller: Caller, woken: u32) {
    let Some(_busy) = Busy::enter_if_on() else { return };
    let Some(owed) = waiters::release(address, woken, now()) else { return };
    let Some(weight) = budget::HOLDS.draw(owed.nanos) else { return };
    let what = What { kind: Kind::Hold, may_be_jumped_to: caller.is_in_place, key: owed.key };
    keeping_errno(|| stack::capture(caller.frame, |found| buffer::push(what, [owed.waits, owed.nanos], weight, found)));
}

/// Whether a filter of system calls may end the calling thread for a call of ours.
fn is_quiet() -> bool {
    #[cfg(feature = "heap")]
    return crate::countdown::current().is_quiet();
    #[cfg(not(feature = "heap"))]
    false
}

/// While it lives, this thread's own waits are not looked at.
pub(super) struct Busy(());

impl Busy {
    pub(super) fn enter() -> Option<Self> {
        (!WAITS_UNSEEN.replace(true)).then_some(Self(()))
    }

    /// `None` where nothing is recorded, and in a thread that must make no system call.
    fn enter_if_on() -> Option<Self> {
        if is_on() && !is_quiet() { Self::enter() } else { None }
    }

    /// As [`Busy::enter_if_on`], for a wait, which is counted where it is not recorded for that reason.
    fn enter_to_wait() -> Option<Self> {
        if is_on() && is_quiet() {
            classes::count_left_out();
        }
        Self::enter_if_on()
    }
}

impl Drop for Busy {
    fn drop(&mut self) {
        WAITS_UNSEEN.set(false);
    }
}

/// Nanoseconds of the monotonic clock.
pub(super) fn now() -> u64 {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: writes to `time`; the clock always exists.
    unsafe { libc::clock_gettime(libc::CLOCK_MONOTONIC, &mut time) };
    (time.tv_sec as u64).wrapping_mul(1_000_000_000).wrapping_add(time.tv_nsec as u64)
}

/// Runs `work` and gives the thread its `errno` back.
fn keeping_errno<T>(work: impl FnOnce() -> T) -> T {
    // SAFETY: the C library's place for this thread.
    let place = unsafe { libc::__errno_location() };
    // SAFETY: as above; only this thread writes there.
    let before = unsafe { *place };
    let result = work();
    // SAFETY: as above.
    unsafe { *place = before };
    result
}
