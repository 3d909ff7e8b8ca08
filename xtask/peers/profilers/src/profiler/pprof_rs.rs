//! pprof-rs, in the mode of its features.

use super::Seen;
use pprof::{ProfilerGuard, ProfilerGuardBuilder};

pub struct Profiler {
    guard: ProfilerGuard<'static>,
    hz: u32,
}

impl Profiler {
    pub fn start(hz: u32) -> Self {
        let guard = ProfilerGuardBuilder::default().frequency(hz as i32).build().expect("start pprof-rs");
        Self { guard, hz }
    }

    pub fn drain(&self) {}

    pub fn finish(self) -> Seen {
        let report = self.guard.report().build().expect("build the report");
        // As in its own encoder: a sample represents one period.
        let period = 1e9 / f64::from(self.hz);
        let mut seen = Seen::default();
        for (frames, count) in &report.data {
            let nanos = *count as f64 * period;
            let leaf = frames.frames.first().and_then(|symbols| symbols.first()).map(|symbol| symbol.name()).unwrap_or_default();
            // The standard library's first function; what calls it has no name.
            let is_rooted = frames.frames.iter().flatten().any(|symbol| symbol.name().contains("thread_start"));
            seen.rooted += if is_rooted { *count as u64 } else { 0 };
            seen.samples += *count as u64;
            seen.frames = seen.frames.max(frames.frames.len());
            seen.total += nanos;
            seen.hot_70 += if leaf == "hot_70" { nanos } else { 0.0 };
            seen.hot_30 += if leaf == "hot_30" { nanos } else { 0.0 };
        }
        seen
    }
}
