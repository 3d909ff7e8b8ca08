//! A timer on one thread's CPU clock that sends SIGPROF to that thread.

use crate::clock::thread_clock;
use std::io;

/// An armed timer; removed when dropped.
#[derive(Debug)]
pub(crate) struct Timer {
    id: libc::c_int,
}

impl Timer {
    /// Arms a timer of thread `tid` of this process: first after `first` nanoseconds of its CPU time, then every `period`.
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
        let mut timer = Self { id: -1 };
        // SAFETY: the kernel reads `event` and writes an int; libc's own wrapper would hide that int behind a pointer.
        check(unsafe { libc::syscall(libc::SYS_timer_create, thread_clock(tid), &raw const event, &raw mut timer.id) })?;
        let times = libc::itimerspec { it_interval: timespec(period), it_value: timespec(first.max(1)) };
        // SAFETY: `id` is the timer just made; the kernel only reads `times`.
        let armed = check(unsafe {
            libc::syscall(libc::SYS_timer_settime, timer.id, 0, &raw const times, std::ptr::null_mut::<libc::itimerspec>())
        });
        armed.map(|()| timer)
    }
}

impl Drop for Timer {
    fn drop(&mut self) {
        if self.id >= 0 {
            // SAFETY: `id` is a timer of this process that only this value owns.
            unsafe { libc::syscall(libc::SYS_timer_delete, self.id) };
        }
    }
}

fn timespec(nanos: u64) -> libc::timespec {
    libc::timespec { tv_sec: (nanos / 1_000_000_000) as i64, tv_nsec: (nanos % 1_000_000_000) as i64 }
}

fn check(code: libc::c_long) -> io::Result<()> {
    if code == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}
