//! `sigwait` and its kin: a program that waits for all signals gets none of the sampler's.

use libc::{c_int, siginfo_t, sigset_t, timespec};
use procprof_agent::sigprof_hook::is_from_sampler;

mod next {
    use libc::{c_int, siginfo_t, sigset_t, timespec};

    crate::next::next! {
        sigwait(set: *const sigset_t, signal: *mut c_int) -> c_int, or libc::ENOSYS;
        sigwaitinfo(set: *const sigset_t, info: *mut siginfo_t) -> c_int, or -1;
        sigtimedwait(set: *const sigset_t, info: *mut siginfo_t, limit: *const timespec) -> c_int, or -1;
    }
}

pub(super) fn look_up() {
    next::look_all_up();
}

/// # Safety
/// `set` may be read.
unsafe fn has_sigprof(set: *const sigset_t) -> bool {
    // SAFETY: by the caller's promise; the kernel's part of a set is its first word.
    unsafe { set.cast::<u64>().read() & 1 << (libc::SIGPROF - 1) != 0 }
}

/// Waits by `wait` until a signal comes that is not the sampler's; its facts.
fn foreign(mut wait: impl FnMut(*mut siginfo_t) -> c_int) -> (c_int, siginfo_t) {
    // SAFETY: all-zero is a valid `siginfo_t`.
    let mut info: siginfo_t = unsafe { std::mem::zeroed() };
    loop {
        let signal = wait(&raw mut info);
        if signal != libc::SIGPROF || !is_from_sampler(&info) {
            return (signal, info);
        }
    }
}

/// # Safety
/// As in C.
#[unsafe(no_mangle)]
unsafe extern "C" fn sigwait(set: *const sigset_t, signal: *mut c_int) -> c_int {
    // SAFETY: by the caller's promise.
    if unsafe { !has_sigprof(set) } {
        // SAFETY: by the caller's promise.
        return unsafe { next::sigwait(set, signal) };
    }
    loop {
        // SAFETY: by the caller's promise.
        let (found, _) = foreign(|info| unsafe { next::sigwaitinfo(set, info) });
        if found >= 0 {
            // SAFETY: by the caller's promise.
            unsafe { signal.write(found) };
            return 0;
        }
        // SAFETY: the calling thread's own errno.
        let error = unsafe { *libc::__errno_location() };
        if error != libc::EINTR {
            return error;
        }
    }
}

/// # Safety
/// As in C.
#[unsafe(no_mangle)]
unsafe extern "C" fn sigwaitinfo(set: *const sigset_t, info: *mut siginfo_t) -> c_int {
    // SAFETY: by the caller's promise.
    unsafe { waited(set, info, |found| next::sigwaitinfo(set, found)) }
}

/// # Safety
/// As in C.
#[unsafe(no_mangle)]
unsafe extern "C" fn sigtimedwait(set: *const sigset_t, info: *mut siginfo_t, limit: *const timespec) -> c_int {
    // SAFETY: by the caller's promise.
    let Some(length) = (unsafe { limit.as_ref() }) else {
        // SAFETY: by the caller's promise.
        return unsafe { sigwaitinfo(set, info) };
    };
    // A wait that was ended by a signal of the sampler's goes on for what is left of it.
    let mut end = None;
    // SAFETY: by the caller's promise.
    unsafe {
        waited(set, info, |found| {
            let now = now();
            let end = *end.get_or_insert_with(|| now.saturating_add(nanos(length)));
            let left = if end == u64::MAX { *length } else { time(end.saturating_sub(now)) };
            // The first wait has the program's own limit, be it legal or not.
            let limit =
                if left.tv_sec == length.tv_sec && left.tv_nsec == length.tv_nsec { limit } else { &raw const left };
            next::sigtimedwait(set, found, limit)
        })
    }
}

/// # Safety
/// `set` may be read, `info` is null or may be written to.
unsafe fn waited(set: *const sigset_t, info: *mut siginfo_t, mut wait: impl FnMut(*mut siginfo_t) -> c_int) -> c_int {
    // SAFETY: by the caller's promise.
    if unsafe { !has_sigprof(set) } {
        return wait(info);
    }
    let (signal, found) = foreign(wait);
    if signal >= 0 && !info.is_null() {
        // SAFETY: by the caller's promise.
        unsafe { info.write(found) };
    }
    signal
}

fn now() -> u64 {
    let mut time = timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: fills `time`.
    unsafe { libc::clock_gettime(libc::CLOCK_MONOTONIC, &mut time) };
    nanos(&time)
}

/// A time in nanoseconds; one that is none is as long as can be.
fn nanos(time: &timespec) -> u64 {
    let seconds = u64::try_from(time.tv_sec).ok().and_then(|seconds| seconds.checked_mul(1_000_000_000));
    seconds
        .zip(u64::try_from(time.tv_nsec).ok())
        .and_then(|(seconds, nanos)| seconds.checked_add(nanos))
        .unwrap_or(u64::MAX)
}

fn time(nanos: u64) -> timespec {
    timespec { tv_sec: (nanos / 1_000_000_000) as i64, tv_nsec: (nanos % 1_000_000_000) as i64 }
}
