//! Lock contention: who waits for locks, and who holds them meanwhile.
//!
//! - [`hook`]: called where a thread waits and where one releases a lock, by [`futex`], [`pthread`] or another crate;
//!   with
//!   - [`classes`]: which waits are a lock's;
//!   - [`waiters`]: who waits at which address, for the holder's account;
//!   - [`budget`]: which waits are sampled;
//!   - [`stack`]: from a waiting function to its callers;
//!   - [`buffer`]: where samples go;
//! - [`entry`]: the bypass of the hooks where there is nothing to record;
//! - [`got`]: leads the calls of loaded files through [`futex`] and [`pthread`], where the functions are the C
//!   library's ([`origin`]);
//! - [`collector`]: the thread that sums samples up, follows libraries that come and go, and looks [`names`] up;
//! - [`tail`]: the function that released the lock by its last call;
//! - [`profile`]: sums as pprof and as text.
//!
//! Off, nothing of it is there: no thread, no hook. On, a lock that is free costs a branch in code that imports
//! `pthread_mutex_lock`, and nothing in Rust. A thread that works for the profiler is *busy*, and its own waits are let
//! through unseen; hooks neither allocate nor take a lock that is held for longer than a moment, so that they may run
//! inside an allocator.

mod budget;
mod buffer;
mod classes;
mod collector;
mod entry;
mod fork;
mod futex;
mod got;
pub mod hook;
mod names;
mod origin;
mod profile;
mod pthread;
mod stack;
mod tail;
mod waiters;

pub(crate) use collector::Sums;
pub(crate) use profile::{View, encode_text};

use crate::error::{Error, Result};
use crate::spin::Spin;
use procprof_profile::Profile;

/// The process's record of waits for locks, and its switch.
///
/// What is seen: mutexes, read-write locks and `Once` of the standard library and of parking_lot, and `pthread` mutexes
/// and read-write locks of code that imports them. Waits for a condition, for another thread or for a message are not
/// contention, and only counted. Waits are recorded when they end.
#[derive(Clone, Copy, Debug)]
pub struct Contention;

/// The reasons for recording.
struct Switch {
    /// Whether the program has switched it on.
    is_kept_on: bool,
    /// Captures that are running.
    captures: usize,
    /// To recognize a forked child.
    pid: u32,
    running: Option<collector::Running>,
}

static SWITCH: Spin<Switch> = Spin::new(Switch::new(), Switch::new);

impl Switch {
    const fn new() -> Self {
        Self { is_kept_on: false, captures: 0, pid: 0, running: None }
    }
}

impl Contention {
    /// Records waits from now on.
    ///
    /// # Errors
    /// [`Error::NoLockHooks`] where no loaded file calls what could be followed (a statically linked program);
    /// [`Error::System`] when the thread can't be started.
    pub fn enable() -> Result<()> {
        change(|switch| switch.is_kept_on = true)
    }

    /// Records waits no longer, once captures that are running have ended; what was recorded is kept.
    pub fn disable() {
        // Switching off starts nothing that could fail.
        let _ = change(|switch| switch.is_kept_on = false);
    }

    /// Whether waits are recorded now.
    pub fn is_active() -> bool {
        hook::is_on()
    }

    /// All waits recorded so far, charged to who waited.
    ///
    /// # Errors
    /// [`Error::Profile`] if they don't fit into a profile.
    pub fn waits() -> Result<Profile> {
        profile::build(&collector::sums(), View::Waiter)
    }

    /// The same, charged to who held the locks.
    ///
    /// # Errors
    /// [`Error::Profile`] if they don't fit into a profile.
    pub fn holders() -> Result<Profile> {
        profile::build(&collector::sums(), View::Holder)
    }
}

/// Records while it lives.
#[derive(Debug)]
pub(crate) struct Capture {
    before: Sums,
}

impl Capture {
    /// Begins a time of its own, switching the recording on if need be.
    pub(crate) fn start() -> Result<Self> {
        change(|switch| switch.captures += 1)?;
        Ok(Self { before: collector::sums() })
    }

    /// The waits recorded since.
    pub(crate) fn finish(self) -> Sums {
        collector::sums().since(&self.before)
    }
}

impl Drop for Capture {
    fn drop(&mut self) {
        // Switching off starts nothing that could fail.
        let _ = change(|switch| switch.captures = switch.captures.saturating_sub(1));
    }
}

/// All that was recorded so far.
///
/// # Errors
/// [`Error::ContentionOff`] where nothing is being recorded.
pub(crate) fn since_start() -> Result<Sums> {
    if Contention::is_active() { Ok(collector::sums()) } else { Err(Error::ContentionOff) }
}

pub(crate) use profile::build;

/// Changes the reasons for recording, and starts or stops it accordingly.
fn change(apply: impl FnOnce(&mut Switch)) -> Result<()> {
    let _busy = hook::Busy::enter();
    let mut switch = SWITCH.lock();
    let pid = std::process::id();
    if switch.pid != pid {
        // A forked child has no reason to record yet, and the thread is the parent's.
        std::mem::forget(switch.running.take());
        *switch = Switch { pid, ..Switch::new() };
    }
    apply(&mut switch);
    if !switch.is_kept_on && switch.captures == 0 {
        switch.running = None;
    } else if switch.running.is_none() {
        match collector::Running::start() {
            Ok(running) => switch.running = Some(running),
            Err(error) => {
                (switch.is_kept_on, switch.captures) = (false, 0);
                return Err(error);
            }
        }
    }
    Ok(())
}
