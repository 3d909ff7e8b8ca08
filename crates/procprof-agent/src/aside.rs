//! Threads of the agent that stay out of the program's way: they take no signals meant for the program, and open no
//! file in its table of descriptors.
//!
//! A process's threads share one table. Descriptors that the agent opens there count against the program's limit
//! (`ulimit -n`), land on 0 to 2 if the program was started without its standard streams, are closed by programs that
//! close all descriptors, and are inherited by their children. So each thread of the agent switches to an empty table
//! of its own, by `close_range(2)` with `CLOSE_RANGE_UNSHARE` (Linux 5.9), or by `unshare(2)` and closing the copies.
//! Numbers 0 to 2 are occupied there by a file that can be neither read nor written.
//!
//! Where a filter refuses both calls, as in old containers, the thread stays in the program's table, and its
//! descriptors are [`lifted`] to high numbers.

use crate::thread_start_hook;
use std::cell::Cell;
use std::fs::OpenOptions;
use std::io::{self, Write};
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd, RawFd};
use std::panic::{AssertUnwindSafe, resume_unwind};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{Builder, JoinHandle, Thread};
use std::time::Duration;

/// Numbers from here on are preferred in the program's table.
pub(crate) const HIGH: RawFd = 960;

/// Numbers of the standard streams.
const STANDARD: RawFd = 2;

thread_local! {
    /// Whether this thread's table is not the program's.
    static HAS_OWN: Cell<bool> = const { Cell::new(false) };
    /// The program's thread that waits for this one; 0 if none.
    static WAITING: Cell<i32> = const { Cell::new(0) };
}

/// Whether the calling thread's table is not the program's.
pub(crate) fn has_own_table() -> bool {
    HAS_OWN.get()
}

/// The program's thread that waits for what the calling one does, if there is one.
pub(crate) fn waiting_thread() -> Option<i32> {
    Some(WAITING.get()).filter(|tid| *tid != 0)
}

/// Starts a thread with a table of its own, and waits until it has [started](thread_start_hook).
///
/// # Errors
/// The system's, where there is no room for a thread; that a filter of system calls forbids it.
pub(crate) fn spawn<T: Send + 'static>(
    name: &str,
    work: impl FnOnce() -> T + Send + 'static,
) -> io::Result<JoinHandle<T>> {
    thread_start_hook::start(|start| {
        without_signals(|| {
            Builder::new().name(name.into()).spawn(move || {
                leave();
                let _running = start.done(own_tid());
                with_panics_reported(work)
            })
        })
    })
}

/// As [`spawn`]; the thread has one descriptor of the calling thread's table in its own.
///
/// # Errors
/// As of [`spawn`].
pub(crate) fn spawn_with<T: Send + 'static>(
    name: &str,
    descriptor: RawFd,
    work: impl FnOnce() -> T + Send + 'static,
) -> io::Result<JoinHandle<T>> {
    thread_start_hook::start(|start| {
        without_signals(|| {
            Builder::new().name(name.into()).spawn(move || {
                leave_with(Some(descriptor));
                let _running = start.done(own_tid());
                with_panics_reported(work)
            })
        })
    })
}

/// Starts a thread that shares the calling thread's table.
///
/// # Errors
/// As of [`spawn`].
pub(crate) fn spawn_beside<T: Send + 'static>(
    name: &str,
    work: impl FnOnce() -> T + Send + 'static,
) -> io::Result<JoinHandle<T>> {
    let has_own = has_own_table();
    thread_start_hook::start(|start| {
        without_signals(|| {
            Builder::new().name(name.into()).spawn(move || {
                HAS_OWN.set(has_own);
                let _running = start.done(own_tid());
                with_panics_reported(work)
            })
        })
    })
}

/// Does `work` in a thread with a table of its own, or here where this is one; every `pause` meanwhile, `look` is
/// called here.
///
/// # Errors
/// As of [`spawn`].
pub(crate) fn run<T: Send>(pause: Duration, mut look: impl FnMut(), work: impl FnOnce() -> T + Send) -> io::Result<T> {
    if has_own_table() {
        return Ok(work());
    }
    let caller = own_tid();
    let (ended, waiting) = (&AtomicBool::new(false), std::thread::current());
    std::thread::scope(|scope| {
        let thread = thread_start_hook::start(|start| {
            without_signals(|| {
                Builder::new().name("procprof-work".into()).spawn_scoped(scope, move || {
                    let _ended = Ended { ended, waiting };
                    leave();
                    let _running = start.done(own_tid());
                    WAITING.set(caller);
                    crate::own_thread::leave_out();
                    with_panics_reported(work)
                })
            })
        })?;
        // Not by a channel: its lock would be among those the program waits for.
        while !ended.load(Ordering::Acquire) {
            std::thread::park_timeout(pause);
            if !ended.load(Ordering::Acquire) {
                look();
            }
        }
        Ok(thread.join().unwrap_or_else(|panic| resume_unwind(panic)))
    })
}

/// Wakes the waiting thread when the work ends, also by a panic.
struct Ended<'a> {
    ended: &'a AtomicBool,
    waiting: Thread,
}

impl Drop for Ended<'_> {
    fn drop(&mut self) {
        self.ended.store(true, Ordering::Release);
        self.waiting.unpark();
    }
}

/// The same file under a number above the standard streams', and high where the table is the program's; the same number
/// where there is no room.
pub(crate) fn lifted(descriptor: OwnedFd) -> OwnedFd {
    let number = descriptor.as_raw_fd();
    let least = if has_own_table() { STANDARD + 1 } else { HIGH };
    if number >= least {
        return descriptor;
    }
    for least in [least, STANDARD + 1] {
        // SAFETY: duplicates an open descriptor.
        let high = unsafe { libc::fcntl(number, libc::F_DUPFD_CLOEXEC, least) };
        if high >= 0 {
            // SAFETY: a new descriptor that nothing else owns.
            return unsafe { OwnedFd::from_raw_fd(high) };
        }
    }
    descriptor
}

/// Runs `start` with all signals but SIGPROF blocked, so that the thread it starts takes none that are meant for the
/// program.
pub(crate) fn without_signals<T>(start: impl FnOnce() -> T) -> T {
    // SAFETY: all-zero is a valid `sigset_t` to be filled.
    let (mut block, mut former): (libc::sigset_t, libc::sigset_t) = unsafe { (std::mem::zeroed(), std::mem::zeroed()) };
    // SAFETY: both sets are valid; the calling thread's mask is put back below.
    unsafe {
        libc::sigfillset(&mut block);
        libc::sigdelset(&mut block, libc::SIGPROF);
        libc::pthread_sigmask(libc::SIG_SETMASK, &block, &mut former);
    }
    let result = start();
    // SAFETY: `former` was filled above.
    unsafe { libc::pthread_sigmask(libc::SIG_SETMASK, &former, std::ptr::null_mut()) };
    result
}

/// The calling thread's id.
pub(crate) fn own_tid() -> i32 {
    // SAFETY: takes no argument and can't fail; libc's own function is missing before glibc 2.30.
    unsafe { libc::syscall(libc::SYS_gettid) as i32 }
}

/// Gives the calling thread, which has opened nothing yet, an empty table.
fn leave() {
    leave_with(None);
}

/// Gives the calling thread, which has opened nothing yet, a table with one descriptor of the program's, if any.
fn leave_with(kept: Option<RawFd>) {
    let has_left = leave_at_once(kept) || leave_and_close(kept);
    HAS_OWN.set(has_left);
    if has_left {
        occupy_standard_numbers();
    }
}

/// Does `work`; a panic of it is reported on the program's standard error, which has no number in this thread's table.
fn with_panics_reported<T>(work: impl FnOnce() -> T) -> T {
    std::panic::catch_unwind(AssertUnwindSafe(work)).unwrap_or_else(|panic| {
        let what = panic.downcast_ref::<&str>().copied().or_else(|| panic.downcast_ref::<String>().map(String::as_str));
        let thread = std::thread::current();
        let line = format!("procprof: thread {}: {}\n", thread.name().unwrap_or_default(), what.unwrap_or("panic"));
        if has_own_table()
            && let Ok(mut stderr) = OpenOptions::new().append(true).open("/proc/self/fd/2")
        {
            // Standard error can't be written: the panic can't be reported anywhere.
            let _ = stderr.write_all(line.as_bytes());
        }
        resume_unwind(panic)
    })
}

/// Unshares and closes in one step, so that no copy of a file is closed: closing may have effects of its own. Copies of
/// files above the kept one are closed; its number is high.
fn leave_at_once(kept: Option<RawFd>) -> bool {
    const UNSHARE: libc::c_uint = 2;
    let Some(kept) = kept.and_then(|kept| libc::c_uint::try_from(kept).ok()).filter(|kept| *kept > 0) else {
        return close_range(0, libc::c_uint::MAX, UNSHARE);
    };
    close_range(0, kept - 1, UNSHARE) && close_range(kept + 1, libc::c_uint::MAX, 0)
}

/// Closes descriptors; with flags, in a table of the calling thread's own.
fn close_range(first: libc::c_uint, last: libc::c_uint, flags: libc::c_uint) -> bool {
    const CLOSE_RANGE: libc::c_long = 436;
    // SAFETY: takes numbers; only the calling thread's table changes, which is not the program's any more.
    unsafe { libc::syscall(CLOSE_RANGE, first, last, flags) == 0 }
}

/// With copies of the program's descriptors, which are closed at once: kept, they would hold its files open.
fn leave_and_close(kept: Option<RawFd>) -> bool {
    // Without a list of them, a copy might stay.
    if numbers().is_none() {
        return false;
    }
    // SAFETY: gives the calling thread a table of its own.
    if unsafe { libc::unshare(libc::CLONE_FILES) } != 0 {
        return false;
    }
    for number in numbers().unwrap_or_else(|| (0..1 << 16).collect()).into_iter().filter(|number| Some(*number) != kept)
    {
        // SAFETY: nothing else uses this table, and nothing in it is in use.
        unsafe { libc::close(number) };
    }
    true
}

/// The numbers in use in the calling thread's table.
fn numbers() -> Option<Vec<RawFd>> {
    let entries = std::fs::read_dir(format!("/proc/self/task/{}/fd", own_tid())).ok()?;
    entries.map(|entry| entry.ok()?.file_name().to_str()?.parse().ok()).collect()
}

/// Puts a file that can be neither read nor written under the numbers 0 to 2: what is printed by mistake must not meet
/// a socket.
fn occupy_standard_numbers() {
    for _ in 0..=STANDARD {
        // SAFETY: a constant path; the table is empty, so the numbers are the lowest, and stay open as long as the
        // thread.
        unsafe { libc::open(c"/".as_ptr(), libc::O_PATH | libc::O_CLOEXEC) };
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs::File;

    fn target(number: RawFd) -> Option<std::path::PathBuf> {
        std::fs::read_link(format!("/proc/self/task/{}/fd/{number}", own_tid())).ok()
    }

    #[test]
    fn a_thread_aside_shares_no_descriptor_with_the_program() {
        let mine = File::open("/proc/self/stat").unwrap();
        let number = mine.as_raw_fd();
        let seen = spawn("aside", move || {
            let theirs = target(number);
            let opened = File::open("/proc/self/status").unwrap();
            let beside = spawn_beside("beside", {
                let number = opened.as_raw_fd();
                move || (target(number), has_own_table())
            });
            (theirs, opened.as_raw_fd(), target(0), beside.unwrap().join().unwrap(), opened)
        });
        let (theirs, first, standard, (beside, has_own), opened) = seen.unwrap().join().unwrap();
        std::mem::forget(opened);
        assert!(theirs.is_none() || theirs.unwrap() != target(number).unwrap());
        assert_eq!((first, standard), (STANDARD + 1, Some("/".into())));
        assert!(has_own && beside.unwrap().ends_with("status"));
        assert!(target(number).is_some(), "the program's is still open");
    }

    #[test]
    fn copies_are_closed_where_the_table_is_copied() {
        let mine = File::open("/proc/self/stat").unwrap();
        let number = mine.as_raw_fd();
        let is_gone = std::thread::spawn(move || leave_and_close(None) && target(number).is_none()).join().unwrap();
        assert!(is_gone && target(number).is_some());
    }

    #[test]
    fn work_aside_is_looked_after_and_its_panic_is_the_callers() {
        let looked = AtomicBool::new(false);
        let work = || {
            while !looked.load(Ordering::Relaxed) {
                std::thread::sleep(Duration::from_millis(1));
            }
            (has_own_table(), waiting_thread())
        };
        let done = run(Duration::from_millis(1), || looked.store(true, Ordering::Relaxed), work);
        assert_eq!(done.unwrap(), (true, Some(own_tid())));
        let panics = std::panic::catch_unwind(|| run(Duration::from_secs(1), || (), || panic!("as asked")));
        assert!(panics.is_err());
    }

    #[test]
    fn low_numbers_are_lifted() {
        let file: OwnedFd = File::open("/proc/self/stat").unwrap().into();
        assert!(file.as_raw_fd() < HIGH);
        assert!(lifted(file).as_raw_fd() >= HIGH);
    }
}
