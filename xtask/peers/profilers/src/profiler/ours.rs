//! procprof-agent.

use super::{Seen, is_in, is_root};
use crate::work::{hot_30, hot_70};
use procprof_agent::{CpuCapture, CpuEngine, CpuOptions};

pub struct Profiler {
    capture: CpuCapture,
    options: CpuOptions,
}

impl Profiler {
    /// `PROFILERS_ENGINE` may choose the engine.
    pub fn start(hz: u32) -> Self {
        let engine = std::env::var("PROFILERS_ENGINE").map_or(CpuEngine::Auto, |name| CpuEngine::of_name(&name).expect("an engine"));
        let options = CpuOptions { hz, engine, ..CpuOptions::default() };
        Self { capture: CpuCapture::start(&options).expect("start a capture"), options }
    }

    /// Empties the rings, as the sampler does ten times a second: a capture that joins does.
    pub fn drain(&self) {
        drop(CpuCapture::start(&self.options));
    }

    pub fn finish(self) -> Seen {
        let profile = self.capture.finish().expect("finish the capture");
        let mut seen = Seen { total: profile.total(1) as f64, ..Seen::default() };
        for sample in profile.samples() {
            let (count, nanos) = (sample.values[0], sample.values[1] as f64);
            let leaf = sample.stack.first().map_or(0, |leaf| profile.location(*leaf).address.0);
            seen.samples += count as u64;
            seen.frames = seen.frames.max(sample.stack.len());
            let root = sample.stack.last().map_or(0, |root| profile.location(*root).address.0);
            seen.rooted += if count > 0 && is_root(root) { count as u64 } else { 0 };
            seen.unsampled += if count == 0 { nanos } else { 0.0 };
            seen.hot_70 += if is_in(leaf, hot_70) { nanos } else { 0.0 };
            seen.hot_30 += if is_in(leaf, hot_30) { nanos } else { 0.0 };
        }
        seen
    }
}
