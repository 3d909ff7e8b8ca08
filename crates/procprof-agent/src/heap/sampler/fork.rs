//! Forking: all locks are taken before and freed after, in both processes.

use super::{live, sites, stack};
use std::sync::atomic::{AtomicBool, Ordering};

/// Follows forks from now on.
pub(super) fn follow() {
    static IS_FOLLOWED: AtomicBool = AtomicBool::new(false);
    if !IS_FOLLOWED.swap(true, Ordering::Relaxed) {
        // SAFETY: functions of this program that stay loaded as long as the allocator does.
        unsafe { libc::pthread_atfork(Some(before), Some(in_parent), Some(in_child)) };
    }
}

unsafe extern "C" fn before() {
    stack::hold();
    sites::hold();
    live::hold();
}

unsafe extern "C" fn in_parent() {
    live::free();
    sites::free();
    stack::free();
}

unsafe extern "C" fn in_child() {
    // SAFETY: by the call below all locks are as they were; threads that were walking are not in this process.
    unsafe { in_parent() };
    stack::forget_other_threads();
}
