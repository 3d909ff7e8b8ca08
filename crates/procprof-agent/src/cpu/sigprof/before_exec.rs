//! Getting out of the way of `exec`.
//!
//! A signal that is pending when a process becomes another program meets the new program's action, and SIGPROF's
//! default ends it. So before `exec` all that sends it is stopped, and what is pending is dropped; if `exec` fails,
//! sampling goes on.

use super::{Action, is_handler_of_ours, ours, pid, with_state};
use crate::cpu::engine::Engine;
use std::sync::atomic::{AtomicU32, Ordering};

/// Threads of this process that are about to execute another program.
static LEAVING: AtomicU32 = AtomicU32::new(0);

/// Threads that are sending a signal to another one.
static SENDING: AtomicU32 = AtomicU32::new(0);

/// Whether nothing is to be armed or sent.
pub(in crate::cpu) fn is_leaving() -> bool {
    LEAVING.load(Ordering::SeqCst) > 0
}

/// A permission to send a signal; `exec` waits for its end.
pub(in crate::cpu) struct Sending(());

impl Sending {
    /// `None` while a thread is about to execute another program.
    pub(in crate::cpu) fn begin() -> Option<Self> {
        SENDING.fetch_add(1, Ordering::SeqCst);
        let sending = Self(());
        (!is_leaving()).then_some(sending)
    }
}

impl Drop for Sending {
    fn drop(&mut self) {
        SENDING.fetch_sub(1, Ordering::SeqCst);
    }
}

/// Waits until no thread is sending that began before.
pub(in crate::cpu) fn wait_for_senders() {
    while SENDING.load(Ordering::SeqCst) > 0 {
        std::thread::yield_now();
    }
}

/// The process is about to become another program: dropped if that has failed.
#[derive(Debug)]
#[must_use = "sampling goes on when it is dropped"]
pub struct Leaving {
    /// Whether the handler was installed.
    was_ours: bool,
    /// Whether this is counted in [`LEAVING`].
    is_counted: bool,
}

/// To be called right before `exec` by the thread that calls it: stops what sends SIGPROF, drops what is pending, and
/// puts the program's own action in the handler's place, for an ignored signal stays ignored over `exec`. In a child
/// (of `fork` or `vfork`) it only does the last.
///
/// Takes microseconds where nothing is sampled. While a capture runs it waits for the sampler's look, at most for a
/// second; where even that does not help the new program begins with SIGPROF ignored.
pub fn before_exec() -> Leaving {
    let (was_ours, owner) =
        with_state(|state| (Action::installed().is_ok_and(|action| is_handler_of_ours(&action)), state.owner));
    if !was_ours || owner != pid() {
        if was_ours {
            hand_back();
        }
        return Leaving { was_ours, is_counted: false };
    }
    LEAVING.fetch_add(1, Ordering::SeqCst);
    wait_for_senders();
    let is_quiet = Engine::disarm();
    // What is pending for an ignored signal is dropped, for all threads, also where it is blocked.
    let is_dropped = Action::IGNORE.install().is_ok();
    if is_quiet && is_dropped {
        hand_back();
    }
    Leaving { was_ours, is_counted: true }
}

/// In a forked child: the parent's threads are not here.
pub(super) fn forget_parent() {
    LEAVING.store(0, Ordering::SeqCst);
    SENDING.store(0, Ordering::SeqCst);
}

/// Puts the program's action where the handler was.
fn hand_back() {
    // A kernel that has refused it leaves the handler, which `exec` resets.
    with_state(|state| state.wanted.install().unwrap_or_default());
}

impl Drop for Leaving {
    fn drop(&mut self) {
        if self.was_ours {
            // As when it was put away; the sampler notices where it is not there.
            with_state(|state| ours(&state.wanted).install().unwrap_or_default());
        }
        if self.is_counted {
            LEAVING.fetch_sub(1, Ordering::SeqCst);
        }
    }
}
