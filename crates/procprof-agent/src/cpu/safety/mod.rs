//! Safety of the handler in any interrupted code: signals far denser than any timer's during all kinds of work of a
//! program.
//!
//! Each test runs in a process of its own. `PROCPROF_STORM_SECONDS` makes storms longer than the seconds that every run
//! can afford.

#[cfg(target_arch = "x86_64")]
mod corrupted;
#[cfg(all(target_arch = "x86_64", target_env = "gnu"))]
mod guarded;
#[path = "../../../tests/isolated.rs"]
mod isolated;
mod storm;
mod unrest;

use super::CpuCapture;
use crate::options::{CpuEngine, CpuOptions};
use procprof_profile::Profile;
use std::time::Duration;

fn capture(hz: u32, engine: CpuEngine) -> CpuCapture {
    CpuCapture::start(&CpuOptions { hz, engine, owner: "the test".into(), until: None }).unwrap()
}

/// A number among the profile's facts.
fn fact(profile: &Profile, key: &str) -> u64 {
    let start = format!("#procprof:{key}=");
    profile.comments().find_map(|comment| comment.strip_prefix(&start)?.parse().ok()).unwrap_or_default()
}

/// How long a storm lasts; ends the process by SIGALRM should it hang.
fn storm_length() -> Duration {
    let wanted = std::env::var("PROCPROF_STORM_SECONDS").ok().and_then(|text| text.parse().ok());
    let seconds: u32 = wanted.unwrap_or(2);
    // SAFETY: only schedules a signal to this process.
    unsafe { libc::alarm(2 * seconds + 300) };
    Duration::from_secs(seconds.into())
}
