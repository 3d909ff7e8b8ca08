//! Whether a capture has room below the process's limits of memory.
//!
//! Near `ulimit -v` or `ulimit -d` each page that the agent takes is one that the program does not get. So where such a
//! limit is set, a capture is refused that might not fit, before it takes anything; and where the program takes the
//! rest while it runs, it is given up.
//!
//! ```text
//! /proc/self/statm   12034 2210 1204 310 0 4402 0       pages: the whole address space, …, sixth: data and stacks
//! ```

use crate::error::{Error, Result};
use std::sync::atomic::{AtomicBool, Ordering};

/// Memory that a capture may take besides that of each thread: stacks of two or three threads, unwind tables, names,
/// and the C library's reserve for a thread that allocates (64 MiB each); bytes.
const NEEDED: u64 = 192 << 20;

/// Memory for each thread of the program, bytes.
const NEEDED_PER_THREAD: u64 = 160 << 10;

/// Whether the allocator had nothing left for the agent since the last capture began.
static IS_SHORT: AtomicBool = AtomicBool::new(false);

/// Notes that the allocator had nothing left for the agent, which then gives up what it is doing. May be called by the
/// allocator.
#[cfg(feature = "heap")]
pub fn note_shortage() {
    IS_SHORT.store(true, Ordering::Relaxed);
}

/// Whether it had, since the last capture began.
#[cfg(feature = "heap")]
pub(crate) fn is_short() -> bool {
    IS_SHORT.load(Ordering::Relaxed)
}

/// Lets a capture begin.
///
/// # Errors
/// [`Error::NoRoom`].
pub(crate) fn check() -> Result<()> {
    IS_SHORT.store(false, Ordering::Relaxed);
    let limits = [(libc::RLIMIT_AS, "ulimit -v", 0), (libc::RLIMIT_DATA, "ulimit -d", 5)];
    let limits: Vec<(u64, &'static str, usize)> =
        limits.into_iter().filter_map(|(resource, name, column)| Some((limit(resource)?, name, column))).collect();
    if limits.is_empty() {
        return Ok(());
    }
    let statm = std::fs::read_to_string("/proc/self/statm").unwrap_or_default();
    let threads = std::fs::read_dir("/proc/self/task").map_or(0, |tasks| tasks.count() as u64);
    limits.into_iter().try_for_each(|(limit, name, column)| fits(limit, name, used(&statm, column), threads))
}

/// Lets a capture go on.
///
/// # Errors
/// [`Error::OutOfMemory`] once the allocator had nothing left for it.
pub(crate) fn go_on() -> Result<()> {
    if IS_SHORT.load(Ordering::Relaxed) { Err(Error::OutOfMemory) } else { Ok(()) }
}

fn fits(limit: u64, name: &'static str, used: u64, threads: u64) -> Result<()> {
    let (left, needed) = (limit.saturating_sub(used), NEEDED + threads * NEEDED_PER_THREAD);
    if left < needed { Err(Error::NoRoom { limit: name, left, needed }) } else { Ok(()) }
}

/// Bytes by a column of `statm`.
fn used(statm: &str, column: usize) -> u64 {
    // SAFETY: reads a constant of the system.
    let page = u64::try_from(unsafe { libc::sysconf(libc::_SC_PAGESIZE) }).unwrap_or(4096);
    statm.split_whitespace().nth(column).and_then(|pages| pages.parse::<u64>().ok()).unwrap_or_default() * page
}

/// The limit, where one is set.
fn limit(resource: Resource) -> Option<u64> {
    let mut limit = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
    // SAFETY: `limit` is a valid place to write to.
    let is_known = unsafe { libc::getrlimit(resource, &mut limit) } == 0;
    (is_known && limit.rlim_cur != libc::RLIM_INFINITY).then_some(limit.rlim_cur)
}

#[cfg(target_env = "gnu")]
type Resource = libc::__rlimit_resource_t;
#[cfg(not(target_env = "gnu"))]
type Resource = libc::c_int;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_would_not_fit_is_refused_with_the_figures() {
        assert_eq!(used("10 2 3 4 0 6 0\n", 5) * 10, used("60 2", 0));
        assert!(fits(1 << 30, "ulimit -v", 1 << 20, 10).is_ok());
        let refused = fits(300 << 20, "ulimit -v", 200 << 20, 64).unwrap_err().to_string();
        assert_eq!(refused, "a capture may need 202 MiB, and 100 MiB are left below the limit (ulimit -v)");
        assert!(fits(1 << 30, "ulimit -v", 2 << 30, 0).is_err());
    }
}
