//! A timer on one thread's CPU clock that sends SIGPROF to that thread.

use crate::clock::thread_clock;
use std::io;
use std::sync::atomic::{AtomicI32, Ordering};

/// In the place of a timer's id where there is none.
pub(crate) const NO_TIMER: i32 = -1;

/// An armed timer; removed when dropped.
#[derive(Debug)]
pub(crate) enum Timer {
    /// Known to this value alone.
    Own(libc::c_int),
    /// Made by its thread, which may remove it at any time.
    Shared(&'static AtomicI32),
}

impl Timer {
    /// Arms a timer of thread `tid` of this process: first after `first` nanoseconds of its CPU time, then every
    /// `period`.
    ///
    /// Each signal carries `ticket`.
    ///
    /// # Errors
    /// `EINVAL` when the thread has ended; `EAGAIN` at the limit of pending signals (`ulimit -i`).
    pub(crate) fn arm(tid: i32, ticket: u64, first: u64, period: u64) -> io::Result<Self> {
        // SAFETY: all-zero is a valid `sigevent`.
        let mut event: libc::sigevent = unsafe { std::mem::zeroed() };
        event.sigev_notify = libc::SIGEV_THREAD_ID;
        event.sigev_signo = libc::SIGPROF;
        event.sigev_notify_thread_id = tid;
        event.sigev_value.sival_ptr = ticket as *mut libc::c_void;
        let mut id = NO_TIMER;
        // SAFETY: the kernel reads `event` and writes an int; libc's own wrapper would hide that int behind a pointer.
        check(unsafe { libc::syscall(libc::SYS_timer_create, thread_clock(tid), &raw const event, &raw mut id) })?;
        let timer = Self::Own(id);
        timer.set(first, period).map(|()| timer)
    }

    /// Signals first after `first` nanoseconds from now on, then every `period`.
    ///
    /// # Errors
    /// `EINVAL` when the thread has removed it.
    pub(crate) fn set(&self, first: u64, period: u64) -> io::Result<()> {
        let id = match self {
            Self::Own(id) => *id,
            Self::Shared(place) => place.load(Ordering::SeqCst),
        };
        let times = libc::itimerspec { it_interval: timespec(period), it_value: timespec(first.max(1)) };
        // SAFETY: the kernel only reads `times`, and refuses an id that is none.
        check(unsafe {
            libc::syscall(libc::SYS_timer_settime, id, 0, &raw const times, std::ptr::null_mut::<libc::itimerspec>())
        })
    }

    /// Its id, which is to be removed by [`remove`] now.
    pub(crate) fn into_id(self) -> i32 {
        let id = match &self {
            Self::Own(id) => *id,
            Self::Shared(place) => place.swap(NO_TIMER, Ordering::SeqCst),
        };
        std::mem::forget(self);
        id
    }
}

impl Drop for Timer {
    fn drop(&mut self) {
        match self {
            Self::Own(id) => remove(*id),
            Self::Shared(place) => remove(place.swap(NO_TIMER, Ordering::SeqCst)),
        }
    }
}

/// Removes a timer of this process to which nothing else refers; does nothing where there is none. Async-signal-safe.
pub(crate) fn remove(id: i32) {
    if id != NO_TIMER {
        // SAFETY: takes a number.
        unsafe { libc::syscall(libc::SYS_timer_delete, id) };
    }
}

fn timespec(nanos: u64) -> libc::timespec {
    libc::timespec { tv_sec: (nanos / 1_000_000_000) as i64, tv_nsec: (nanos % 1_000_000_000) as i64 }
}

fn check(code: libc::c_long) -> io::Result<()> {
    if code == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}
