//! Clocks: CPU time of this process and of its threads.

use procprof_profile::Nanos;
use std::time::SystemTime;

/// CPU time, nanoseconds.
pub(crate) fn read(clock: libc::clockid_t) -> Option<u64> {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: `time` is a valid place to write to.
    let known = unsafe { libc::clock_gettime(clock, &mut time) } == 0;
    known.then(|| time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64)
}

/// CPU time of the calling thread, by a direct system call; nanoseconds. Async-signal-safe.
pub(crate) fn own_cpu() -> u64 {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: `time` is a valid place to write to.
    unsafe { libc::syscall(libc::SYS_clock_gettime, libc::CLOCK_THREAD_CPUTIME_ID, &raw mut time) };
    time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64
}

/// CPU time this process has used, threads that ended included; nanoseconds.
pub(crate) fn process_cpu() -> u64 {
    read(libc::CLOCK_PROCESS_CPUTIME_ID).unwrap_or_default()
}

/// The id of another thread's CPU clock, as the kernel forms it: the inverted thread id, then "per thread, scheduler's
/// clock".
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
        let own = read(libc::CLOCK_THREAD_CPUTIME_ID).unwrap();
        let by_call = own_cpu();
        let by_id = read(thread_clock(tid)).unwrap();
        assert!((own..=by_id).contains(&by_call));
        assert!(by_id >= own && by_id - own < 50_000_000);
        assert!(process_cpu() >= by_id);
    }
}
