//! Forking: the child records nothing until recording is switched on there.
//!
//! Nothing is locked before a fork: fork handlers of other code may wait for locks whose holders wait in a hook. Locks
//! of ours that the parent's threads hold at that moment are taken over in the child by the threads that need them
//! ([`spin`](crate::spin)).

use super::{hook, waiters};
use crate::own_thread::WAITS_UNSEEN;
use std::sync::atomic::{AtomicBool, Ordering};

/// Follows forks from now on.
pub(super) fn follow() {
    static IS_FOLLOWED: AtomicBool = AtomicBool::new(false);
    if !IS_FOLLOWED.swap(true, Ordering::Relaxed) {
        // SAFETY: a function of this program that stays loaded.
        unsafe { libc::pthread_atfork(None, None, Some(in_child)) };
    }
}

unsafe extern "C" fn in_child() {
    let was_busy = WAITS_UNSEEN.replace(true);
    hook::switch(false);
    waiters::forget_other_threads();
    WAITS_UNSEEN.set(was_busy);
}
