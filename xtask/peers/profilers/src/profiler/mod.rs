//! The profiler that this build has.

#[cfg(feature = "gperftools")]
mod gperftools;
#[cfg(feature = "ours")]
mod ours;
#[cfg(feature = "pprof-rs")]
mod pprof_rs;

#[cfg(feature = "gperftools")]
pub use gperftools::Profiler;
#[cfg(feature = "ours")]
pub use ours::Profiler;
#[cfg(feature = "pprof-rs")]
pub use pprof_rs::Profiler;

/// What it saw, in nanoseconds of CPU time.
#[derive(Debug, Default)]
pub struct Seen {
    /// Everything, what no sample stands for included.
    pub total: f64,
    /// What no sample stands for, where the profiler says so.
    pub unsampled: f64,
    /// Samples whose innermost function is `hot_70`.
    pub hot_70: f64,
    /// Samples whose innermost function is `hot_30`.
    pub hot_30: f64,
    /// How many samples there were.
    pub samples: u64,
}

/// Whether an address is in a burner.
#[cfg(any(feature = "ours", feature = "gperftools"))]
fn is_in(address: u64, burner: extern "C" fn(u64)) -> bool {
    let start = burner as usize as u64;
    (start..start + crate::work::BURNER_BYTES).contains(&address)
}
