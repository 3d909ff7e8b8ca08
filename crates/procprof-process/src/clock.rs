//! The CPU time of the calling thread.

use std::time::Duration;

use rustix::time::{ClockId, clock_gettime};

/// CPU time that the calling thread has used since it began.
pub fn thread_cpu_time() -> Duration {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    Duration::new(time.tv_sec.unsigned_abs(), u32::try_from(time.tv_nsec).unwrap_or(0))
}
