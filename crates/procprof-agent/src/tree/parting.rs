//! The end of a process that is being sampled for the root: `exit` waits until its members have sent what they have
//! seen.
//!
//! Where a process ends otherwise (`_exit`, a signal), the root counts its CPU time as unsampled.

use super::page;
use crate::lineage;
use std::ffi::{c_int, c_void};
use std::sync::atomic::{AtomicBool, AtomicI32, AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// How long `exit` waits at most.
const PATIENCE: Duration = Duration::from_secs(1);
const BETWEEN_LOOKS: Duration = Duration::from_millis(1);

/// The process that ends; a fork of it goes on.
static ENDING: AtomicI32 = AtomicI32::new(0);

/// The members of this process, with its [`lineage`] above their number: a fork has none.
static MEMBERS: AtomicU64 = AtomicU64::new(0);

/// Whether [`wait`] is called at the end, in forks too.
static IS_REGISTERED: AtomicBool = AtomicBool::new(false);

/// A thread that samples for the root.
pub(super) struct Member(u32);

impl Member {
    /// Has `exit` wait for it from now on.
    pub(super) fn new() -> Self {
        if !IS_REGISTERED.swap(true, Ordering::Relaxed) {
            // SAFETY: a function that stays loaded; without a library's handle it is called by `exit` alone.
            unsafe { __cxa_atexit(wait, std::ptr::null_mut(), std::ptr::null_mut()) };
        }
        let own = lineage::number();
        let _ = MEMBERS.fetch_update(Ordering::AcqRel, Ordering::Acquire, |members| {
            Some(u64::from(own) << 32 | u64::from(count(members, own) + 1))
        });
        Self(own)
    }
}

impl Drop for Member {
    fn drop(&mut self) {
        let left =
            |members| count(members, self.0).checked_sub(1).map(|left| u64::from(self.0) << 32 | u64::from(left));
        let _ = MEMBERS.fetch_update(Ordering::AcqRel, Ordering::Acquire, left);
    }
}

/// How many members of a process there are.
fn count(members: u64, lineage: u32) -> u32 {
    if members >> 32 == u64::from(lineage) { members as u32 } else { 0 }
}

/// Whether the process is about to end.
pub(super) fn is_near() -> bool {
    ENDING.load(Ordering::Acquire) == page::own_pid()
}

unsafe extern "C" {
    /// As `atexit`, which is in no shared library. Source: Itanium C++ ABI, 3.3.6.
    fn __cxa_atexit(function: extern "C" fn(*mut c_void), argument: *mut c_void, library: *mut c_void) -> c_int;
}

extern "C" fn wait(_: *mut c_void) {
    let (own, start) = (lineage::number(), Instant::now());
    ENDING.store(page::own_pid(), Ordering::Release);
    while count(MEMBERS.load(Ordering::Acquire), own) > 0 && start.elapsed() < PATIENCE {
        std::thread::sleep(BETWEEN_LOOKS);
    }
}
