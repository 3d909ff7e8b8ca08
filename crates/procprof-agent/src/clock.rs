//! Clocks: CPU time of this process and of its threads, and a moment as text.

use procprof_profile::Nanos;
use std::time::{Duration, SystemTime};

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

/// `2026-11-20T22:17:06Z` from the time since the Unix epoch.
pub(crate) fn utc_text(since_epoch: Duration) -> String {
    let seconds = since_epoch.as_secs();
    let (year, month, day) = civil(seconds / 86_400);
    let (hour, minute, second) = (seconds / 3600 % 24, seconds / 60 % 60, seconds % 60);
    format!("{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}Z")
}

/// Year, month and day of a day counted from 1970-01-01, by counting in years that begin in March.
fn civil(days: u64) -> (u64, u64, u64) {
    let shifted = days + 719_468;
    let (era, day_of_era) = (shifted / 146_097, shifted % 146_097);
    let year_of_era = (day_of_era - day_of_era / 1460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let month_from_march = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * month_from_march + 2) / 5 + 1;
    let month = if month_from_march < 10 { month_from_march + 3 } else { month_from_march - 9 };
    (era * 400 + year_of_era + u64::from(month <= 2), month, day)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn moments_are_written_in_utc() {
        for (seconds, text) in [
            (0, "1970-01-01T00:00:00Z"),
            (951_782_400, "2000-02-29T00:00:00Z"),
            (1_795_213_026, "2026-11-20T22:17:06Z"),
            (4_107_542_399, "2100-02-28T23:59:59Z"),
        ] {
            assert_eq!(utc_text(Duration::from_secs(seconds)), text);
        }
    }

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
