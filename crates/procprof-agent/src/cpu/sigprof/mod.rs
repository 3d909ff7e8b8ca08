//! Ownership of SIGPROF: the handler is installed, and the action that the program has installed or would have is kept
//! beside it.
//!
//! Once the handler is installed it stays. A library that interposes `sigaction` passes the program's calls to
//! [`exchange`]: what it installs is kept, is returned when the program queries it, and gets the signals that are not
//! ours. Without such a library, `is_ours` reports whether the program has put another handler in its place.
//!
//! All of it works on the kernel's own structure by the kernel's own call. The C library takes its two internal signals
//! (cancellation of threads, changes of user ids) out of every mask, and they would run on top of the handler's frame.

mod action;
mod before_exec;

pub use super::handler::is_from_sampler;
pub use super::sandbox::{Loading, before_filter};
pub use action::Action;
pub use before_exec::{Leaving, before_exec};
pub(in crate::cpu) use before_exec::{Sending, is_leaving, wait_for_senders};

use super::handler::on_sigprof;
use crate::error::{Error, Result};
use crate::spin::Spin;
pub(in crate::cpu) use action::SIGPROF_ALONE;
use action::{ALL_SIGNALS, change_mask};
use std::ffi::{c_int, c_void};
use std::io;

pub(super) type Handler = extern "C" fn(c_int, *mut libc::siginfo_t, *mut c_void);

/// The state of the signal.
struct State {
    /// The process in which the handler is installed on the program's behalf, too; 0 before.
    owner: i32,
    /// The program's action.
    wanted: Action,
    /// The facts of the last signal that was handed on.
    handed_on: Facts,
}

/// A `siginfo_t`, word by word.
type Facts = [u64; size_of::<libc::siginfo_t>() / size_of::<u64>()];

/// The value of a signal that an agent's thread has handed on to the program's; no ticket looks like it.
pub(super) const HANDED_ON: u64 = 0x7070_7366_0000_0000;

impl State {
    const fn new() -> Self {
        Self { owner: 0, wanted: Action::DEFAULT, handed_on: [0; size_of::<libc::siginfo_t>() / size_of::<u64>()] }
    }
}

static STATE: Spin<State> = Spin::new(State::new(), State::new);

/// Looks at the state with all signals blocked: handlers look at it, too.
fn with_state<T>(look: impl FnOnce(&mut State) -> T) -> T {
    blocking_signals(|| look(&mut STATE.lock()))
}

/// Does `work`, which does not unwind, while the calling thread takes no signal.
pub(crate) fn blocking_signals<T>(work: impl FnOnce() -> T) -> T {
    let former = change_mask(libc::SIG_SETMASK, ALL_SIGNALS);
    let result = work();
    change_mask(libc::SIG_SETMASK, former);
    result
}

/// The handler's action. It runs on the thread's alternate stack, as long as the program's own handler would.
fn ours(wanted: &Action) -> Action {
    let on_stack = if wanted.is_handler() { wanted.flags & libc::SA_ONSTACK as u64 } else { libc::SA_ONSTACK as u64 };
    let flags = (libc::SA_RESTART | libc::SA_SIGINFO) as u64 | on_stack;
    Action { handler: on_sigprof as Handler as usize, flags, mask: ALL_SIGNALS }
}

fn is_handler_of_ours(action: &Action) -> bool {
    action.handler == on_sigprof as Handler as usize
}

/// This process's id, in a child of `vfork` the child's.
fn pid() -> i32 {
    // SAFETY: takes no argument and can't fail; older C libraries remember the parent's for their own `getpid`.
    unsafe { libc::syscall(libc::SYS_getpid) as i32 }
}

/// Installs the handler unless it is installed; what it finds in its place gets the signals that are not ours.
///
/// It stays when sampling stops: a signal that is still on its way must not meet the default action, which ends the
/// process.
pub(super) fn install() -> Result<()> {
    let installed = with_state(|state| {
        let current = Action::installed()?;
        if !is_handler_of_ours(&current) {
            state.wanted = current;
        }
        ours(&state.wanted).install()?;
        if state.owner != pid() {
            before_exec::forget_parent();
            state.owner = pid();
        }
        Ok(())
    });
    installed.map_err(|source| Error::System { what: "install the SIGPROF handler", source })
}

/// Whether the handler was installed in this process.
pub(super) fn is_owned() -> bool {
    with_state(|state| state.owner) == pid()
}

/// Whether the calling thread blocks the signal.
pub(super) fn is_blocked_here() -> bool {
    change_mask(libc::SIG_BLOCK, 0) & SIGPROF_ALONE != 0
}

/// Whether the handler is installed now.
pub(super) fn is_ours() -> bool {
    Action::installed().is_ok_and(|action| is_handler_of_ours(&action))
}

/// Installs the program's action for SIGPROF, if any, and returns its former one. Async-signal-safe.
///
/// While the handler is installed the program's action is only kept, and called for signals that are not ours. In a
/// child (a forked one, or one of `vfork`) the program's action takes the handler's place: nothing is sampled there
/// yet.
///
/// # Errors
/// The kernel's error.
pub fn exchange(new: Option<&Action>) -> io::Result<Action> {
    with_state(|state| {
        let current = Action::installed()?;
        let is_ours = is_handler_of_ours(&current);
        let former = if is_ours { state.wanted } else { current };
        match new {
            Some(new) if is_ours && state.owner == pid() => {
                ours(new).install()?;
                state.wanted = *new;
            }
            Some(new) => new.install()?,
            None => {}
        }
        Ok(former)
    })
}

/// The program's action for a signal that is not ours and is about to be handed to it.
pub(super) fn take_wanted() -> Action {
    with_state(|state| {
        let wanted = state.wanted;
        if wanted.is_handler() && wanted.flags & libc::SA_RESETHAND as u64 != 0 {
            state.wanted.handler = libc::SIG_DFL;
        }
        wanted
    })
}

/// Keeps the facts of a signal that is about to be handed on. There is one at most: while one is pending, a further one
/// is the same signal.
pub(super) fn keep_facts(info: &libc::siginfo_t) {
    // SAFETY: the words are as long as the structure, and any word is legal.
    let facts = unsafe { std::ptr::from_ref(info).cast::<Facts>().read() };
    with_state(|state| state.handed_on = facts);
}

/// Puts the facts back of a signal that was handed on.
pub(super) fn put_facts_back(info: &mut libc::siginfo_t) {
    let facts = with_state(|state| state.handed_on);
    // SAFETY: as above; they were such a structure.
    unsafe { std::ptr::from_mut(info).cast::<Facts>().write(facts) };
}

/// Does what SIGPROF does by default: ends the process.
pub(super) fn end_process() {
    if Action::DEFAULT.install().is_err() {
        return;
    }
    change_mask(libc::SIG_UNBLOCK, SIGPROF_ALONE);
    // SAFETY: a signal to the calling thread; tids of other processes are not reached with this process's id.
    unsafe { libc::syscall(libc::SYS_tgkill, pid(), libc::syscall(libc::SYS_gettid), libc::SIGPROF) };
}

/// Changes the calling thread's mask to what it is while the program's handler runs for an interrupted thread with that
/// mask; returns the former one.
pub(super) fn enter_wanted(wanted: &Action, interrupted: u64) -> u64 {
    let own = if wanted.flags & libc::SA_NODEFER as u64 != 0 { 0 } else { SIGPROF_ALONE };
    change_mask(libc::SIG_SETMASK, interrupted | wanted.mask | own)
}

/// Puts the mask back that [`enter_wanted`] has returned.
pub(super) fn leave_wanted(former: u64) {
    change_mask(libc::SIG_SETMASK, former);
}

#[cfg(test)]
pub(super) fn forget_program() {
    with_state(|state| state.wanted = Action { handler: libc::SIG_IGN, ..Action::DEFAULT });
}
