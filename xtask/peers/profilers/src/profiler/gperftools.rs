//! gperftools' CPU profiler, as a library of the system.

use super::{Seen, is_in, is_root};
use crate::work::{hot_30, hot_70};
use procprof_profile::format::{Limits, decode};
use std::ffi::{CString, c_char, c_int};
use std::path::PathBuf;

#[link(name = "profiler")]
unsafe extern "C" {
    fn ProfilerStart(file: *const c_char) -> c_int;
    fn ProfilerStop();
}

pub struct Profiler {
    file: PathBuf,
}

impl Profiler {
    /// The rate is read when the library is loaded, so it is set in the environment (`CPUPROFILE_FREQUENCY`).
    pub fn start(hz: u32) -> Self {
        let frequency = std::env::var("CPUPROFILE_FREQUENCY").unwrap_or_default();
        assert_eq!(frequency, hz.to_string(), "CPUPROFILE_FREQUENCY");
        let file = std::env::temp_dir().join(format!("profilers-{}.prof", std::process::id()));
        let name = CString::new(file.to_str().expect("a path in UTF-8")).expect("a path without NUL");
        // SAFETY: a path that ends in NUL.
        assert_ne!(unsafe { ProfilerStart(name.as_ptr()) }, 0, "start gperftools");
        Self { file }
    }

    pub fn drain(&self) {}

    pub fn finish(self) -> Seen {
        // SAFETY: it was started.
        unsafe { ProfilerStop() };
        let bytes = std::fs::read(&self.file).expect("read its file");
        // Its folder is the system's for temporary files.
        let _ = std::fs::remove_file(&self.file);
        let profile = decode(&bytes, &Limits::default()).expect("decode its file").profile;
        let mut seen = Seen { total: profile.total(1) as f64, samples: profile.total(0) as u64, ..Seen::default() };
        for sample in profile.samples() {
            let root = sample.stack.last().map_or(0, |root| profile.location(*root).address.0);
            seen.rooted += if is_root(root) { sample.values[0] as u64 } else { 0 };
            seen.frames = seen.frames.max(sample.stack.len());
            let leaf = sample.stack.first().map_or(0, |leaf| profile.location(*leaf).address.0);
            seen.hot_70 += if is_in(leaf, hot_70) { sample.values[1] as f64 } else { 0.0 };
            seen.hot_30 += if is_in(leaf, hot_30) { sample.values[1] as f64 } else { 0.0 };
        }
        seen
    }
}
