//! Forking: all locks are taken before and freed after, in both processes; the child records nothing until it is told to.

use super::{SWITCH, buffer, collector, hook, stack, waiters};
use std::sync::atomic::{AtomicBool, Ordering};

/// Follows forks from now on.
pub(super) fn follow() {
    static IS_FOLLOWED: AtomicBool = AtomicBool::new(false);
    if !IS_FOLLOWED.swap(true, Ordering::Relaxed) {
        // SAFETY: functions of this program that stay loaded.
        unsafe { libc::pthread_atfork(Some(before), Some(in_parent), Some(in_child)) };
    }
}

/// Whether the thread that forks was busy before; kept for the functions after, which run in the same thread.
static WAS_BUSY: AtomicBool = AtomicBool::new(false);

unsafe extern "C" fn before() {
    let was_busy = super::BUSY.replace(true);
    SWITCH.acquire();
    collector::hold();
    waiters::hold();
    buffer::hold();
    WAS_BUSY.store(was_busy, Ordering::Relaxed);
}

unsafe extern "C" fn in_parent() {
    let was_busy = WAS_BUSY.load(Ordering::Relaxed);
    buffer::free();
    waiters::free();
    collector::free();
    SWITCH.release();
    super::BUSY.set(was_busy);
}

unsafe extern "C" fn in_child() {
    hook::switch(false);
    // SAFETY: by the call below all locks are as they were; threads that were walking are not in this process.
    unsafe { in_parent() };
    stack::forget_other_threads();
    waiters::forget_other_threads();
}
