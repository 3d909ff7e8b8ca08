//! A listener that starts later: in the place of a process that has ended, or when a file is created.
//!
//! A listener's thread does not survive `fork`, and its port can't be bound twice. So descendants of a process that
//! listens start nothing, and one that outlives it, as a daemon does the process that was started, begins to listen in
//! its place: in the slow path of an allocation, at most once a second. A process that never allocates never does.
//! While the listening process lives, the same slow path checks whether it has ordered its descendants to be sampled
//! with it.
//!
//! A process that waits for a file (`PROCPROF_START_FILE`) starts likewise: a second thread, even one that sleeps,
//! disables shortcuts that the C and C++ libraries have for processes with one thread. For the same reason the listener
//! of a process with one thread has none itself: the slow path of an allocation looks for clients.

use procprof_agent::heap_hook::{apart, is_quiet};
use procprof_agent::{Listener, ProcessTree};
use std::ffi::CString;
use std::fs::File;
use std::io::{self, Read};
use std::os::fd::AsRawFd;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::sync::atomic::{AtomicI32, AtomicPtr, AtomicU64, Ordering};
use std::time::Duration;

/// The process that listens, while it is another one; 0 where there is nothing to take over, [`FILE`] while a file is
/// waited for.
static HOLDER: AtomicI32 = AtomicI32::new(0);

/// The function that starts the listener here, set by [`begin_by`]; null before.
static BEGIN: AtomicPtr<()> = AtomicPtr::new(std::ptr::null_mut());

/// No process.
const FILE: i32 = -1;

/// The file that is waited for; null where none is. Never freed.
static START_FILE: AtomicPtr<CString> = AtomicPtr::new(std::ptr::null_mut());

/// The process that waits for it.
static WAITER: AtomicI32 = AtomicI32::new(0);

/// When to look next, by the monotonic clock in nanoseconds.
static NEXT_LOOK: AtomicU64 = AtomicU64::new(0);

const BETWEEN_LOOKS: Duration = Duration::from_secs(1);

/// Has `begin` called where there is something to take over; called before `main`.
pub(crate) fn begin_by(begin: fn()) {
    BEGIN.store(begin as *mut (), Ordering::Release);
}

/// Begins to listen.
fn take_over() {
    let begin = BEGIN.load(Ordering::Acquire);
    if !begin.is_null() {
        // SAFETY: stored from a function of this type.
        let begin = unsafe { std::mem::transmute::<*mut (), fn()>(begin) };
        begin();
    }
}

/// Waits for the end of a process that listens.
pub(crate) fn wait_for(holder: i32) {
    NEXT_LOOK.store(now() + BETWEEN_LOOKS.as_nanos() as u64, Ordering::Relaxed);
    HOLDER.store(holder, Ordering::Relaxed);
}

/// Waits until a file is there.
pub(crate) fn wait_for_file(file: &Path) -> Result<(), String> {
    let path = CString::new(file.as_os_str().as_bytes()).map_err(|_| "a path without zero bytes".to_owned())?;
    START_FILE.store(Box::into_raw(Box::new(path)), Ordering::Release);
    WAITER.store(std::process::id() as i32, Ordering::Relaxed);
    wait_for(FILE);
    Ok(())
}

/// Stops waiting.
pub(crate) fn forget() {
    HOLDER.store(0, Ordering::Relaxed);
}

/// Takes the listener over if the process that had it is gone, and joins a capture that it has begun.
#[inline]
pub(crate) fn look() {
    if is_quiet(&crate::thread::current().sampler) {
        return;
    }
    ProcessTree::look();
    look_for_client();
    let holder = HOLDER.load(Ordering::Relaxed);
    if holder != 0 {
        look_at(holder);
    }
}

/// Starts the thread that answers a client, if one waits. Not in a thread that is quiet.
#[inline]
pub(crate) fn look_for_client() {
    if Listener::has_client() {
        unnoticed(|| apart(Listener::answer_client));
    }
}

/// Has the listener keep a thread, since the program has started one itself.
#[inline]
pub(crate) fn keep_listener() {
    if Listener::can_keep_thread() && !is_quiet(&crate::thread::current().sampler) {
        unnoticed(|| apart(Listener::keep_thread));
    }
}

#[cold]
fn look_at(holder: i32) {
    unnoticed(|| act_on(holder));
}

/// Does `work` for the calling thread, which is allocating or waits for work: `errno` stays as it is, and it is not
/// cancelled meanwhile.
#[cold]
fn unnoticed(work: impl FnOnce()) {
    // SAFETY: the calling thread's own errno.
    let errno = unsafe { *libc::__errno_location() };
    uncancelled(work);
    // SAFETY: as above.
    unsafe { *libc::__errno_location() = errno };
}

/// Does `work`, in which the calling thread can't be cancelled: it opens files, where a thread that waits to be would
/// end amid an allocation.
fn uncancelled(work: impl FnOnce()) {
    const DISABLED: i32 = 1;
    unsafe extern "C" {
        fn pthread_setcancelstate(state: i32, former: *mut i32) -> i32;
    }
    let mut former = 0;
    // SAFETY: `former` is a valid place to write to, and is put back.
    let is_disabled = unsafe { pthread_setcancelstate(DISABLED, &mut former) } == 0;
    work();
    if is_disabled {
        // SAFETY: as above.
        unsafe { pthread_setcancelstate(former, std::ptr::null_mut()) };
    }
}

fn act_on(holder: i32) {
    let (next, now) = (NEXT_LOOK.load(Ordering::Relaxed), now());
    let after = now + BETWEEN_LOOKS.as_nanos() as u64;
    let is_mine = now >= next && NEXT_LOOK.compare_exchange(next, after, Ordering::Relaxed, Ordering::Relaxed).is_ok();
    if is_mine {
        // The thread that allocates may be on a stack of a few pages.
        apart(|| succeed(holder));
    }
}

/// Looks whether what was waited for has happened, and then listens.
fn succeed(holder: i32) {
    if !is_over(holder) || HOLDER.compare_exchange(holder, 0, Ordering::Relaxed, Ordering::Relaxed).is_err() {
        return;
    }
    if holder == FILE {
        return take_over();
    }
    match ProcessTree::root().filter(|root| *root != holder && lives(*root)) {
        Some(root) => wait_for(root),
        None if ProcessTree::inherit(ProcessTree::root().unwrap_or(holder)) => take_over(),
        // Another descendant was faster.
        None => wait_for(ProcessTree::root().unwrap_or(holder)),
    }
}

/// Whether what was waited for has happened.
fn is_over(holder: i32) -> bool {
    if holder != FILE {
        return !lives(holder);
    }
    let waiter = WAITER.load(Ordering::Relaxed);
    if waiter != std::process::id() as i32 {
        // A forked child waits for the end of its parent, whether that listens by then or not.
        wait_for(waiter);
        return false;
    }
    // SAFETY: null, or leaked in `wait_for_file`.
    let file = unsafe { START_FILE.load(Ordering::Acquire).as_ref() };
    // SAFETY: a path that ends with a zero byte.
    file.is_some_and(|file| unsafe { libc::access(file.as_ptr(), libc::F_OK) } == 0)
}

/// Whether a process runs; one that has ended and was not waited for does not.
pub(crate) fn lives(pid: i32) -> bool {
    // `PID (NAME) STATE …`, where the name may hold anything.
    let Ok(text) = read(&format!("/proc/{pid}/stat")) else { return false };
    let state = text.iter().rposition(|byte| *byte == b')').and_then(|end| text.get(end + 2));
    !matches!(state, None | Some(b'Z' | b'X'))
}

/// Reads a file under no number of the standard streams, which the program may have closed and still print to.
fn read(path: &str) -> io::Result<Vec<u8>> {
    const STANDARD: i32 = 2;
    let mut file = File::open(path)?;
    if file.as_raw_fd() <= STANDARD {
        // A clone has a number from 3 up.
        file = file.try_clone()?;
    }
    let mut bytes = Vec::new();
    file.read_to_end(&mut bytes)?;
    Ok(bytes)
}

fn now() -> u64 {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: fills `time`.
    unsafe { libc::clock_gettime(libc::CLOCK_MONOTONIC, &mut time) };
    time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64
}
