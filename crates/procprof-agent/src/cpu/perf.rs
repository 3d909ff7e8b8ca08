//! A counter of one thread's CPU time by the kernel's perf events, which sends SIGPROF to that thread at each overflow.
//!
//! It runs on a timer of high resolution while the thread runs, so that it sees bursts between two kernel ticks and
//! keeps rates beyond them; each sample is dearer. The kernel's signal names only the file descriptor: [`ticket_of`]
//! leads from it to the thread's slot.

use crate::aside;
use crate::error::{Error, Result};
use std::io;
use std::os::fd::{FromRawFd, IntoRawFd, OwnedFd};
use std::sync::Once;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

/// Descriptors beyond this are not used.
const MAX_DESCRIPTORS: usize = 1 << 16;

/// Counters open at once, as far as the limit of descriptors (`ulimit -n`) allows: a quarter of it where the table is
/// the program's.
const MAX_COUNTERS: usize = 8192;

/// Descriptors that are left for other uses in a table of our own.
const RESERVE: u64 = 32;
/// In the place of a ticket: the counter that had the descriptor is closed, and a late signal of its may still come.
pub(crate) const CLOSED: u64 = 1;

static TICKETS: [AtomicU64; MAX_DESCRIPTORS] = [const { AtomicU64::new(0) }; MAX_DESCRIPTORS];
static OPEN: AtomicUsize = AtomicUsize::new(0);
/// No descriptor from here on has ever had a ticket.
static DESCRIPTORS_END: AtomicUsize = AtomicUsize::new(0);

/// `struct perf_event_attr` as of its first version (64 bytes), which all kernels take.
#[repr(C)]
#[derive(Default)]
struct Attributes {
    kind: u32,
    size: u32,
    config: u64,
    sample_period: u64,
    sample_type: u64,
    read_format: u64,
    flags: u64,
    wakeup_events: u32,
    breakpoint_type: u32,
    breakpoint_address: u64,
}

const SOFTWARE: u32 = 1;
const TASK_CLOCK: u64 = 1;
const DISABLED: u64 = 1;
const EXCLUDE_KERNEL: u64 = 1 << 5;
const EXCLUDE_HYPERVISOR: u64 = 1 << 6;
const CLOSE_ON_EXEC: libc::c_ulong = 8;
const ENABLE: libc::c_ulong = 0x2400;
const DISABLE: libc::c_ulong = 0x2401;
const SET_PERIOD: libc::c_ulong = 0x4008_2404;
const SET_SIGNAL: libc::c_int = 10;
const GET_SIGNAL: libc::c_int = 11;
const SET_OWNER: libc::c_int = 15;
const GET_OWNER: libc::c_int = 16;

/// `struct f_owner_ex`.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Owner {
    kind: libc::c_int,
    id: libc::pid_t,
}

const OWNER_IS_THREAD: libc::c_int = 0;

impl Owner {
    /// Whether it is that thread, or one that has ended, for which the kernel reports no id.
    fn is_thread(self, tid: libc::pid_t) -> bool {
        self.kind == OWNER_IS_THREAD && (self.id == tid || self.id == 0)
    }
}

/// The code that a counter counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Scope {
    /// All CPU time of the thread.
    All,
    /// Not what it spends in the kernel: all that `perf_event_paranoid` 2 permits.
    User,
}

/// An enabled counter; closed when dropped.
#[derive(Debug)]
pub(crate) struct Counter {
    descriptor: libc::c_int,
    tid: libc::pid_t,
}

impl Counter {
    /// Opens a counter of thread `tid` of this process that signals every `period` nanoseconds of its CPU time, and
    /// ties it to a ticket.
    ///
    /// # Errors
    /// `EACCES`, `EPERM` or `ENOSYS` where the kernel, its settings or a filter refuse; `ESRCH` when the thread has
    /// ended; `EMFILE` at the limit.
    pub(crate) fn open(tid: i32, ticket: u64, period: u64, scope: Scope) -> io::Result<Self> {
        if !aside::has_own_table() {
            close_in_children();
        }
        if OPEN.load(Ordering::Relaxed) >= limit() {
            return Err(io::Error::from_raw_os_error(libc::EMFILE));
        }
        let kernel = if scope == Scope::User { EXCLUDE_KERNEL } else { 0 };
        let attributes = Attributes {
            kind: SOFTWARE,
            size: size_of::<Attributes>() as u32,
            config: TASK_CLOCK,
            sample_period: period,
            flags: DISABLED | EXCLUDE_HYPERVISOR | kernel,
            wakeup_events: 1,
            ..Attributes::default()
        };
        // SAFETY: the kernel reads the number of bytes that `size` of `attributes` states.
        let opened =
            unsafe { libc::syscall(libc::SYS_perf_event_open, &raw const attributes, tid, -1, -1, CLOSE_ON_EXEC) };
        // SAFETY: a new descriptor that nothing else owns.
        let descriptor = aside::lifted(unsafe { OwnedFd::from_raw_fd(checked(opened)?) }).into_raw_fd();
        OPEN.fetch_add(1, Ordering::Relaxed);
        let counter = Self { descriptor, tid };
        let place = TICKETS.get(descriptor as usize).ok_or_else(|| io::Error::from_raw_os_error(libc::EMFILE))?;
        DESCRIPTORS_END.fetch_max(descriptor as usize + 1, Ordering::SeqCst);
        place.store(ticket, Ordering::SeqCst);
        counter.enable()?;
        Ok(counter)
    }

    /// Signals every `period` nanoseconds of the thread's CPU time from now on.
    ///
    /// # Errors
    /// `EBADF` where the descriptor is another's by now.
    pub(crate) fn set_period(&self, period: u64) -> io::Result<()> {
        if !self.is_its_own() {
            return Err(io::Error::from_raw_os_error(libc::EBADF));
        }
        // SAFETY: the descriptor is this counter's; the kernel only reads `period`.
        checked(unsafe { libc::ioctl(self.descriptor, SET_PERIOD as _, &raw const period) }.into()).map(drop)
    }

    /// Whether the descriptor is still this counter's.
    fn is_its_own(&self) -> bool {
        owner(self.descriptor).is_some_and(|owner| owner.is_thread(self.tid))
    }

    /// Directs the signals to the thread, then lets it count.
    fn enable(&self) -> io::Result<()> {
        let owner = Owner { kind: OWNER_IS_THREAD, id: self.tid };
        // SAFETY: the descriptor is ours; the kernel only reads `owner`.
        unsafe {
            checked(libc::fcntl(self.descriptor, SET_SIGNAL, libc::SIGPROF).into())?;
            checked(libc::fcntl(self.descriptor, SET_OWNER, &raw const owner).into())?;
            checked(libc::fcntl(self.descriptor, libc::F_SETFL, libc::O_ASYNC | libc::O_NONBLOCK).into())?;
            checked(libc::ioctl(self.descriptor, ENABLE as _, 0).into())?;
        }
        Ok(())
    }
}

impl Drop for Counter {
    fn drop(&mut self) {
        OPEN.fetch_sub(1, Ordering::Relaxed);
        // One that was never enabled has no owner; no other thread has its descriptor then, since this follows at once.
        let was_enabled =
            TICKETS.get(self.descriptor as usize).is_some_and(|place| place.swap(CLOSED, Ordering::SeqCst) > CLOSED);
        if !was_enabled || self.is_its_own() {
            // A forked process may hold it for a while; no thread is to be signalled meanwhile.
            // SAFETY: the descriptor is this counter's.
            unsafe {
                libc::ioctl(self.descriptor, DISABLE as _, 0);
                libc::close(self.descriptor);
            }
        }
    }
}

/// The target of a descriptor's SIGPROF; `None` if there is none. A program that closes all its descriptors may have
/// opened another file there.
fn owner(descriptor: libc::c_int) -> Option<Owner> {
    let mut owner = Owner::default();
    // SAFETY: the queries are harmless for any file; `owner` is a valid place to write to.
    let known = unsafe {
        libc::fcntl(descriptor, GET_SIGNAL) == libc::SIGPROF && libc::fcntl(descriptor, GET_OWNER, &raw mut owner) == 0
    };
    known.then_some(owner)
}

/// Lets every forked process begin without this one's counters where it copies their descriptors, which would keep them
/// alive.
fn close_in_children() {
    static ONCE: Once = Once::new();
    // SAFETY: `close_copies` does only what a child of a process with many threads may do.
    ONCE.call_once(|| unsafe {
        libc::pthread_atfork(None, None, Some(close_copies));
    });
}

/// In a forked process: closes and forgets the parent's counters, which count on there. Does nothing the second time.
pub(crate) extern "C" fn close_copies() {
    let end = DESCRIPTORS_END.load(Ordering::SeqCst).min(MAX_DESCRIPTORS);
    for (descriptor, _) in
        TICKETS[..end].iter().enumerate().filter(|(_, place)| place.swap(0, Ordering::SeqCst) > CLOSED)
    {
        let descriptor = descriptor as libc::c_int;
        if owner(descriptor).is_some_and(|owner| owner.kind == OWNER_IS_THREAD) {
            // SAFETY: it had a ticket and sends SIGPROF to a thread: a copy of a counter.
            unsafe { libc::close(descriptor) };
        }
    }
    OPEN.store(0, Ordering::Relaxed);
}

/// Whether the calling thread may be counted at all.
///
/// # Errors
/// [`Error::PerfRefused`].
pub(crate) fn probe() -> Result<()> {
    // Longer than any thread runs: it never signals.
    const NEVER: u64 = 1 << 62;
    let open = |scope| Counter::open(0, 1, NEVER, scope).map(drop);
    let opened = open(Scope::All).or_else(|_| open(Scope::User));
    opened.map_err(|error| Error::PerfRefused { why: refusal(&error) })
}

/// The ticket of a signal with this descriptor; 0 for a foreign one, [`CLOSED`] for a former one of ours.
/// Async-signal-safe.
#[inline]
pub(crate) fn ticket_of(descriptor: libc::c_int) -> u64 {
    usize::try_from(descriptor)
        .ok()
        .and_then(|index| TICKETS.get(index))
        .map_or(0, |place| place.load(Ordering::SeqCst))
}

/// Whether an error holds for all threads: the kernel, its settings or a filter do not permit it.
pub(crate) fn is_refusal(error: &io::Error) -> bool {
    !matches!(error.raw_os_error(), Some(libc::ESRCH | libc::EMFILE | libc::ENFILE | libc::ENOMEM | libc::EINTR))
}

/// A refusal as recorded in a profile, with the setting that usually is its reason.
pub(crate) fn refusal(error: &io::Error) -> String {
    let setting = std::fs::read_to_string("/proc/sys/kernel/perf_event_paranoid").unwrap_or_default();
    match setting.trim() {
        "" => format!("perf_event_open: {error}"),
        level => format!("perf_event_open: {error} (kernel.perf_event_paranoid={level})"),
    }
}

fn limit() -> usize {
    let mut limit = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
    // SAFETY: `limit` is a valid place to write to.
    let known = unsafe { libc::getrlimit(libc::RLIMIT_NOFILE, &mut limit) } == 0;
    let share = if aside::has_own_table() { limit.rlim_cur.saturating_sub(RESERVE) } else { limit.rlim_cur / 4 };
    if known { share.min(MAX_COUNTERS as u64) as usize } else { 0 }
}

fn checked(result: libc::c_long) -> io::Result<libc::c_int> {
    if result < 0 { Err(io::Error::last_os_error()) } else { Ok(result as libc::c_int) }
}
