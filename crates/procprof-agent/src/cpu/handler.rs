//! The SIGPROF handler: the only code that runs on an interrupted thread.
//!
//! What it does, in full: keeps `errno`, finds its ring by the timer's ticket, reads the thread's CPU clock (one system call;
//! a perf counter's signal needs a second one for the thread's id),
//! walks the stack, writes addresses into memory that was mapped before. It never allocates, locks, logs, re-arms a timer or
//! touches thread-local storage other than `errno`. It begins on an alternate stack where the thread has one (`SA_ONSTACK`:
//! goroutines and other small stacks need it) and does its work on the slot's [`OwnStack`], since an alternate stack may hold
//! little more than the kernel's frame (Rust's own: 8 KiB in all). System calls are restarted.

use super::label;
use super::perf;
use super::regions::Regions;
use super::registers::Registers;
use super::ring::Origin;
use super::slot::{Entry, Slot, Visit};
use super::walk::walk;
use crate::clock::{own_thread_cpu, own_thread_cpu_at_tick};
use crate::error::{Error, Result};
use std::ffi::{c_int, c_void};
use std::sync::atomic::{AtomicPtr, AtomicUsize, Ordering};

/// What handlers search; null before the first capture.
static REGIONS: AtomicPtr<Regions> = AtomicPtr::new(std::ptr::null_mut());

/// The handler that was installed before ours: `sa_sigaction` and `sa_flags`.
static PREVIOUS_HANDLER: AtomicUsize = AtomicUsize::new(libc::SIG_DFL);
static PREVIOUS_FLAGS: AtomicUsize = AtomicUsize::new(0);

type Action = extern "C" fn(c_int, *mut libc::siginfo_t, *mut c_void);

/// Installs the handler unless it is installed; a handler found in its place gets the signals that are not ours.
///
/// It stays when sampling stops: a signal that is still on its way must not meet the default action, which ends the process.
pub(crate) fn install() -> Result<()> {
    // SAFETY: all-zero is a valid `sigaction`.
    let mut current: libc::sigaction = unsafe { std::mem::zeroed() };
    // SAFETY: a null new action only reads the current one.
    check(unsafe { libc::sigaction(libc::SIGPROF, std::ptr::null(), &mut current) })?;
    let ours = on_sigprof as Action as usize;
    if current.sa_sigaction == ours {
        return Ok(());
    }
    PREVIOUS_FLAGS.store(current.sa_flags as usize, Ordering::Relaxed);
    PREVIOUS_HANDLER.store(current.sa_sigaction, Ordering::Release);
    // SAFETY: all-zero is a valid `sigaction` with an empty mask.
    let mut action: libc::sigaction = unsafe { std::mem::zeroed() };
    action.sa_sigaction = ours;
    action.sa_flags = libc::SA_RESTART | libc::SA_SIGINFO | libc::SA_ONSTACK;
    // SAFETY: the handler is async-signal-safe (see the head of this file) and has the type `SA_SIGINFO` asks for.
    check(unsafe { libc::sigaction(libc::SIGPROF, &action, std::ptr::null_mut()) })
}

fn check(code: c_int) -> Result<()> {
    if code == 0 {
        return Ok(());
    }
    Err(Error::System { what: "install the SIGPROF handler", source: std::io::Error::last_os_error() })
}

/// Gives handlers a new snapshot to search; returns the former one, which a busy handler may still be reading.
pub(crate) fn publish(regions: Box<Regions>) -> *mut Regions {
    REGIONS.swap(Box::into_raw(regions), Ordering::SeqCst)
}

/// The snapshot that handlers search now; only to be compared.
pub(crate) fn published() -> *mut Regions {
    REGIONS.load(Ordering::SeqCst)
}

/// `siginfo_t` of a signal that carries a value.
#[repr(C)]
struct Queued {
    signal: c_int,
    errno: c_int,
    code: c_int,
    padding: c_int,
    sender: [c_int; 2],
    value: u64,
    rest: [u64; 12],
}

/// Sends SIGPROF with a ticket to a thread of this process; false when it has ended.
pub(crate) fn send(tid: i32, ticket: u64) -> bool {
    let info = Queued { signal: libc::SIGPROF, errno: 0, code: SI_QUEUE, padding: 0, sender: [0; 2], value: ticket, rest: [0; 12] };
    // SAFETY: `info` is as long as the kernel's siginfo (128 bytes), which it only reads.
    unsafe { libc::syscall(libc::SYS_rt_tgsigqueueinfo, libc::getpid(), tid, libc::SIGPROF, &raw const info) == 0 }
}

const SI_QUEUE: c_int = -1;

extern "C" fn on_sigprof(signal: c_int, info: *mut libc::siginfo_t, context: *mut c_void) {
    // SAFETY: the calling thread's own errno.
    let errno = unsafe { libc::__errno_location() };
    // SAFETY: as above.
    let kept = unsafe { *errno };
    let (ticket, sender) = sender(info);
    match Slot::enter(ticket) {
        // A late signal names a descriptor that may be another thread's by now.
        Entry::Inside(visit) if sender == Sender::Counter && visit.tid() != own_tid() => {}
        Entry::Inside(visit) => {
            let mut interruption = Interruption { visit, context, sender };
            // SAFETY: the ticket is the calling thread's, signals of this kind wait until the handler has returned, and so nobody
            // else is on the slot's stack; `take` gets what it expects, which outlives the call.
            unsafe { interruption.visit.stack().call(take, (&raw mut interruption).cast()) }
        }
        Entry::Void => {}
        Entry::Foreign => pass_on(signal, info, context),
    }
    // SAFETY: as above.
    unsafe { *errno = kept };
}

/// What sent a signal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Sender {
    /// A timer, on the kernel's tick.
    Timer,
    /// A counter of perf events.
    Counter,
    /// A thread, at any time.
    Thread,
}

impl Sender {
    fn origin(self) -> Origin {
        if self == Self::Counter { Origin::Perf } else { Origin::Tick }
    }

    /// The thread's CPU clock.
    #[inline]
    fn cpu(self) -> u64 {
        if self == Self::Timer { own_thread_cpu_at_tick() } else { own_thread_cpu() }
    }
}

/// The ticket a signal carries, and what sent it; 0, which is no ticket, for a signal of another origin.
#[inline]
fn sender(info: *mut libc::siginfo_t) -> (u64, Sender) {
    const SI_TIMER: c_int = -2;
    const POLL_IN: c_int = 1;
    // SAFETY: the kernel hands a valid `siginfo_t` to an `SA_SIGINFO` handler; timers fill the value in, counters the descriptor.
    unsafe {
        let value = || (*info).si_value().sival_ptr as u64;
        match (*info).si_code {
            SI_TIMER => (value(), Sender::Timer),
            SI_QUEUE => (value(), Sender::Thread),
            POLL_IN => (perf::ticket_of((*info.cast::<PollInfo>()).descriptor), Sender::Counter),
            _ => (0, Sender::Thread),
        }
    }
}

/// `siginfo_t` of a signal about a file descriptor.
#[repr(C)]
struct PollInfo {
    header: [c_int; 4],
    band: libc::c_long,
    descriptor: c_int,
}

#[inline]
fn own_tid() -> i32 {
    // SAFETY: takes no argument and can't fail; libc's own function is missing before glibc 2.30.
    unsafe { libc::syscall(libc::SYS_gettid) as i32 }
}

/// What is done on the slot's own stack needs.
struct Interruption {
    visit: Visit,
    context: *mut c_void,
    sender: Sender,
}

extern "C" fn take(interruption: *mut c_void) {
    // SAFETY: `on_sigprof` hands over its own, and waits.
    let interruption = unsafe { &*interruption.cast::<Interruption>() };
    // SAFETY: `context` is this signal's.
    unsafe { sample(&interruption.visit, Registers::interrupted(interruption.context), interruption.sender) }
}

/// # Safety
/// `registers` are the calling thread's, interrupted; the visit marks its slot busy, so the snapshot can't be freed.
#[inline]
unsafe fn sample(visit: &Visit, registers: Registers, sender: Sender) {
    // SAFETY: null, or a published snapshot that lives while any slot is busy.
    let Some(regions) = (unsafe { REGIONS.load(Ordering::SeqCst).as_ref() }) else { return };
    let Some(mut writer) = visit.ring().begin() else { return };
    let cpu = sender.cpu();
    label::of_this_thread(|word| writer.label(word));
    // SAFETY: by this function's contract.
    let end = unsafe { walk(registers, regions, visit.cache(), |address| writer.push(address)) };
    writer.commit(cpu, end, sender.origin());
}

/// Hands a signal that is not ours to the handler that was there before; without one it is dropped.
///
/// A handler installed after ours may hand it back to us, and would get it again without end: so it is marked in `si_errno`, which has no
/// use in this signal.
fn pass_on(signal: c_int, info: *mut libc::siginfo_t, context: *mut c_void) {
    let handler = PREVIOUS_HANDLER.load(Ordering::Acquire);
    if handler == libc::SIG_DFL || handler == libc::SIG_IGN {
        return;
    }
    const PASSED_ON: c_int = 0x7070_7200;
    // SAFETY: the kernel's `siginfo_t` of this signal lies in the signal frame, which is the handlers' to write.
    let told = unsafe { (*info).si_errno };
    if told == PASSED_ON {
        return;
    }
    // SAFETY: as above.
    unsafe { (*info).si_errno = PASSED_ON };
    if PREVIOUS_FLAGS.load(Ordering::Relaxed) & libc::SA_SIGINFO as usize != 0 {
        // SAFETY: it was installed as a three-argument handler.
        let action: Action = unsafe { std::mem::transmute(handler) };
        action(signal, info, context);
    } else {
        // SAFETY: it was installed as a one-argument handler.
        let action: extern "C" fn(c_int) = unsafe { std::mem::transmute(handler) };
        action(signal);
    }
    // SAFETY: as above.
    unsafe { (*info).si_errno = told };
}

#[cfg(test)]
mod tests;
