//! The SIGPROF handler: the only code that runs on an interrupted thread.
//!
//! What it does, in full: keeps `errno`, finds its ring by the timer's ticket or the counter's descriptor, walks the
//! stack, writes addresses into memory that was mapped before. It makes no system call, for which a sandbox might end
//! the thread or the process, on the thread's own stack, but one that reads the CPU clock of a thread that has just
//! armed itself by such calls (`birth`); it never allocates, locks, logs, re-arms a timer or touches thread-local
//! storage other than `errno`. It begins on an alternate stack where the thread has one (`SA_ONSTACK`: goroutines and
//! other small stacks need it) and does its work on the slot's [`OwnStack`], since an alternate stack may hold little
//! more than the kernel's frame (Rust's own: 8 KiB in all). Meanwhile the kernel takes the alternate stack for free,
//! and would put the next signal's frame on top of this one's: so all signals are blocked, which [`sigprof`] sees to.
//! System calls are restarted.

use super::label;
use super::perf;
use super::regions::Regions;
use super::registers::Registers;
use super::ring::Origin;
use super::sandbox;
use super::sigprof::{self, Action, Handler, Sending};
use super::slot::{Entry, Slot, Visit};
use super::walk::walk;
use crate::clock;
use std::ffi::{c_int, c_void};
use std::sync::atomic::{AtomicPtr, Ordering};

/// The snapshot that handlers search; null before the first capture.
static REGIONS: AtomicPtr<Regions> = AtomicPtr::new(std::ptr::null_mut());

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

/// Sends SIGPROF with a ticket to a thread of this process; false when it has ended, is loading a filter of system
/// calls, or the process is about to become another program.
pub(crate) fn send(tid: i32, ticket: u64) -> bool {
    let Some(_sending) = Sending::begin().filter(|_| !sandbox::is_loading(tid)) else { return false };
    let info = Queued {
        signal: libc::SIGPROF,
        errno: 0,
        code: SI_QUEUE,
        padding: 0,
        sender: [0; 2],
        value: ticket,
        rest: [0; 12],
    };
    // SAFETY: `info` is as long as the kernel's siginfo (128 bytes), which it only reads.
    unsafe { libc::syscall(libc::SYS_rt_tgsigqueueinfo, libc::getpid(), tid, libc::SIGPROF, &raw const info) == 0 }
}

const SI_QUEUE: c_int = -1;

/// Installed by [`sigprof`].
pub(super) extern "C" fn on_sigprof(signal: c_int, info: *mut libc::siginfo_t, context: *mut c_void) {
    // SAFETY: the calling thread's own errno.
    let errno = unsafe { libc::__errno_location() };
    // SAFETY: as above.
    let kept = unsafe { *errno };
    let Arrival { ticket, origin, periods } = arrival(info);
    match Slot::enter(ticket) {
        Entry::Inside(visit) => {
            let mut interruption = Interruption { visit, context, origin, periods };
            // SAFETY: the ticket is the calling thread's, signals of this kind are blocked until the handler has
            // returned, and so nothing else uses the slot's stack; `take` gets the type that it expects, which outlives
            // the call.
            unsafe { interruption.visit.stack().call(take, (&raw mut interruption).cast()) }
        }
        Entry::Void => {}
        Entry::Foreign if origin == Origin::Perf && ticket == perf::CLOSED => {}
        Entry::Foreign => pass_on(signal, info, context),
    }
    // SAFETY: as above.
    unsafe { *errno = kept };
}

/// The fields of a signal that identify its source.
struct Arrival {
    /// 0, which is no ticket, for a signal of another origin.
    ticket: u64,
    origin: Origin,
    /// Periods of CPU time that it represents: the kernel counts a timer's expiries while its signal was pending.
    periods: u64,
}

#[inline]
fn arrival(info: *mut libc::siginfo_t) -> Arrival {
    const SI_TIMER: c_int = -2;
    const POLL_IN: c_int = 1;
    // SAFETY: the kernel hands a valid `siginfo_t` to an `SA_SIGINFO` handler; timers and senders fill the value in,
    // counters the descriptor.
    unsafe {
        let queued = &*info.cast::<Queued>();
        match queued.code {
            SI_TIMER => {
                let overrun = u64::try_from(queued.sender[1]).unwrap_or_default();
                Arrival { ticket: queued.value, origin: Origin::Tick, periods: 1 + overrun }
            }
            SI_QUEUE => Arrival { ticket: queued.value, origin: Origin::Tick, periods: 1 },
            POLL_IN => {
                let ticket = perf::ticket_of((*info.cast::<PollInfo>()).descriptor);
                Arrival { ticket, origin: Origin::Perf, periods: 1 }
            }
            _ => Arrival { ticket: 0, origin: Origin::Tick, periods: 1 },
        }
    }
}

/// Whether a SIGPROF is one that the sampler sends, by its facts. Async-signal-safe.
pub fn is_from_sampler(info: &libc::siginfo_t) -> bool {
    let Arrival { ticket, origin, .. } = arrival(std::ptr::from_ref(info).cast_mut());
    Slot::is_ticket(ticket) || origin == Origin::Perf && ticket == perf::CLOSED
}

/// `siginfo_t` of a signal about a file descriptor.
#[repr(C)]
struct PollInfo {
    header: [c_int; 4],
    band: libc::c_long,
    descriptor: c_int,
}

/// The arguments of the work on the slot's own stack.
struct Interruption {
    visit: Visit,
    context: *mut c_void,
    origin: Origin,
    periods: u64,
}

extern "C" fn take(interruption: *mut c_void) {
    // SAFETY: `on_sigprof` hands over its own, and waits.
    let interruption = unsafe { &*interruption.cast::<Interruption>() };
    // SAFETY: `context` is this signal's.
    unsafe { sample(interruption, Registers::interrupted(interruption.context)) }
}

/// # Safety
/// `registers` are the calling thread's, interrupted; the visit marks its slot busy, so the snapshot can't be freed.
#[inline]
unsafe fn sample(interruption: &Interruption, registers: Registers) {
    let Interruption { visit, origin, periods, .. } = interruption;
    // SAFETY: null, or a published snapshot that lives while any slot is busy.
    let Some(regions) = (unsafe { REGIONS.load(Ordering::SeqCst).as_ref() }) else { return };
    let Some(mut writer) = visit.ring().begin() else { return };
    if visit.is_alone() {
        writer.at(clock::own_cpu());
    }
    label::of_this_thread(|word| writer.label(word));
    // SAFETY: by this function's contract.
    let end = unsafe { walk(registers, regions, visit.cache(), |address| writer.push(address)) };
    writer.commit(*periods, end, *origin);
}

/// Passes a signal that is not ours to the program's own action.
///
/// A handler installed after ours may hand it back to us, and would get it again without end: so it is marked in
/// `si_errno`, which has no use in this signal.
fn pass_on(signal: c_int, info: *mut libc::siginfo_t, context: *mut c_void) {
    const PASSED_ON: c_int = 0x7070_7200;
    // SAFETY: the kernel's `siginfo_t` of this signal lies in the signal frame, which is the handlers' to write.
    let errno = unsafe { (*info).si_errno };
    if errno == PASSED_ON {
        return;
    }
    // SAFETY: the kernel's set of this signal's frame, which is the handlers' to change.
    let interrupted = unsafe { &mut *(&raw mut (*context.cast::<libc::ucontext_t>()).uc_sigmask).cast::<u64>() };
    let was_handed_on = arrival(info).ticket == sigprof::HANDED_ON;
    if is_agents_thread() {
        // Its threads take SIGPROF to be sampled, and must not run the program's handler. One that has met such a
        // signal takes none any more, or it would get this one again and again while the program's threads block it.
        *interrupted |= sigprof::SIGPROF_ALONE;
        if !was_handed_on {
            // SAFETY: the kernel's facts of this signal.
            sigprof::keep_facts(unsafe { &*info });
        }
        hand_on();
        return;
    }
    if was_handed_on {
        // SAFETY: as above; they lie in the signal frame.
        sigprof::put_facts_back(unsafe { &mut *info });
    }
    let wanted = sigprof::take_wanted();
    if !wanted.is_handler() {
        if wanted.handler == libc::SIG_DFL && is_from_outside(info) {
            sigprof::end_process();
        }
        return;
    }
    // SAFETY: as above.
    unsafe { (*info).si_errno = PASSED_ON };
    let former = sigprof::enter_wanted(&wanted, *interrupted);
    // SAFETY: `info` and `context` are this signal's.
    unsafe { call(&wanted, signal, info, context) };
    sigprof::leave_wanted(former);
    // SAFETY: as above.
    unsafe { (*info).si_errno = errno };
}

/// Sends SIGPROF to whichever thread of the process takes it. The facts of another signal can't be sent: the kernel
/// lets only the main thread do that.
fn hand_on() {
    let info = Queued {
        signal: libc::SIGPROF,
        errno: 0,
        code: SI_QUEUE,
        padding: 0,
        sender: [0; 2],
        value: sigprof::HANDED_ON,
        rest: [0; 12],
    };
    // SAFETY: `info` is as long as the kernel's siginfo (128 bytes), which it only reads.
    unsafe {
        libc::syscall(libc::SYS_rt_sigqueueinfo, libc::syscall(libc::SYS_getpid), libc::SIGPROF, &raw const info)
    };
}

/// Whether the calling thread is one of the agent's, by the name that all of them have.
fn is_agents_thread() -> bool {
    let mut name = [0_u8; 16];
    // SAFETY: the kernel writes as many bytes.
    let known = unsafe { libc::syscall(libc::SYS_prctl, libc::PR_GET_NAME, name.as_mut_ptr()) } == 0;
    known && name.starts_with(b"procprof-")
}

/// # Safety
/// `info` and `context` are those of the signal that is being handled.
unsafe fn call(wanted: &Action, signal: c_int, info: *mut libc::siginfo_t, context: *mut c_void) {
    if wanted.flags & libc::SA_SIGINFO as u64 != 0 {
        // SAFETY: it was installed as a three-argument handler.
        let action: Handler = unsafe { std::mem::transmute(wanted.handler) };
        action(signal, info, context);
    } else {
        // SAFETY: it was installed as a one-argument handler.
        let action: extern "C" fn(c_int) = unsafe { std::mem::transmute(wanted.handler) };
        action(signal);
    }
}

/// Whether a signal certainly is none of ours: where the kernel lacks memory, one of ours arrives without its facts, as
/// if process 0 had sent it.
fn is_from_outside(info: *mut libc::siginfo_t) -> bool {
    const SI_USER: c_int = 0;
    // SAFETY: the kernel's `siginfo_t`; a signal of this code has a sender.
    unsafe { (*info).si_code != SI_USER || (*info).si_pid() != 0 }
}

#[cfg(test)]
mod tests;
