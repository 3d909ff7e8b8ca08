//! Clocks: CPU time of this process and of its threads.

use procprof_profile::Nanos;
use std::time::SystemTime;

/// CPU time, nanoseconds.
pub(crate) fn read(clock: libc::clockid_t) -> Option<u64> {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: `time` is a valid place to write to; async-signal-safe by POSIX.
    let known = unsafe { libc::clock_gettime(clock, &mut time) } == 0;
    known.then(|| time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64)
}

/// CPU time this process has used, threads that ended included; nanoseconds.
pub(crate) fn process_cpu() -> u64 {
    read(libc::CLOCK_PROCESS_CPUTIME_ID).unwrap_or_default()
}

/// CPU time the calling thread has used, nanoseconds. Called by the signal handler: one system call.
#[inline]
pub(crate) fn own_thread_cpu() -> u64 {
    read(libc::CLOCK_THREAD_CPUTIME_ID).unwrap_or_default()
}

/// CPU time the calling thread had used at the last kernel tick or switch, nanoseconds. One system call, at a bit more than half of what
/// [`own_thread_cpu`] costs; inside the signal of a timer that expired on a tick it is as exact, for the kernel has just brought it up to date.
#[inline]
pub(crate) fn own_thread_cpu_at_tick() -> u64 {
    // SAFETY: all-zero is a valid `rusage`.
    let mut usage: libc::rusage = unsafe { std::mem::zeroed() };
    // SAFETY: `usage` is a valid place to write to; the call is nothing but its system call.
    let known = unsafe { libc::getrusage(libc::RUSAGE_THREAD, &raw mut usage) } == 0;
    let nanos = |time: libc::timeval| time.tv_sec as u64 * 1_000_000_000 + time.tv_usec as u64 * 1000;
    if known { nanos(usage.ru_utime) + nanos(usage.ru_stime) } else { 0 }
}

/// The id of another thread's CPU clock, as the kernel forms it: the inverted thread id, then "per thread, scheduler's clock".
pub(crate) fn thread_clock(tid: i32) -> libc::clockid_t {
    const PER_THREAD_SCHEDULER: i32 = 0b110;
    (!tid << 3) | PER_THREAD_SCHEDULER
}

/// The kernel's timer tick, in which CPU timers expire; nanoseconds.
pub(crate) fn tick() -> u64 {
    const USUAL: u64 = 4_000_000;
    let mut resolution = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: `resolution` is a valid place to write to.
    let known = unsafe { libc::clock_getres(libc::CLOCK_MONOTONIC_COARSE, &mut resolution) } == 0;
    if known && resolution.tv_nsec > 0 { resolution.tv_nsec as u64 } else { USUAL }
}

/// A moment as the profile keeps it.
pub(crate) fn nanos(moment: SystemTime) -> Nanos {
    let since = moment.duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    Nanos(i64::try_from(since.as_nanos()).unwrap_or(i64::MAX))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_thread_is_read_by_its_id_as_by_itself() {
        // SAFETY: takes no argument and can't fail.
        let tid = unsafe { libc::gettid() };
        let own = own_thread_cpu();
        let by_id = read(thread_clock(tid)).unwrap();
        assert!(by_id >= own && by_id - own < 50_000_000);
        assert!(process_cpu() >= by_id);
    }
}
