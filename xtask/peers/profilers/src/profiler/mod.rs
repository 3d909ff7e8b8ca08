//! The profiler of this build.

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

/// The result of a profile, in nanoseconds of CPU time.
#[derive(Debug, Default)]
pub struct Seen {
    /// Everything, including time without samples.
    pub total: f64,
    /// Time without samples, if the profiler reports it.
    pub unsampled: f64,
    /// Samples whose innermost function is `hot_70`.
    pub hot_70: f64,
    /// Samples whose innermost function is `hot_30`.
    pub hot_30: f64,
    /// The number of samples.
    pub samples: u64,
    /// Those whose stack reaches the thread's root.
    pub rooted: u64,
    /// Frames of the deepest stack.
    pub frames: usize,
}

/// Whether an address is in a burner.
#[cfg(any(feature = "ours", feature = "gperftools"))]
fn is_in(address: u64, burner: extern "C" fn(u64)) -> bool {
    let start = burner as usize as u64;
    (start..start + crate::work::BURNER_BYTES).contains(&address)
}

/// Whether an outermost address is where a thread begins: in the C library.
#[cfg(any(feature = "ours", feature = "gperftools"))]
fn is_root(address: u64) -> bool {
    // SAFETY: all-zero is a valid `Dl_info` to be filled.
    let (found, info) = unsafe {
        let mut info: libc::Dl_info = std::mem::zeroed();
        (libc::dladdr(address as usize as *const libc::c_void, &raw mut info), info)
    };
    // SAFETY: a name that `dladdr` has filled in ends with NUL.
    found != 0 && unsafe { std::ffi::CStr::from_ptr(info.dli_fname) }.to_bytes().windows(8).any(|part| part == b"/libc.so")
}
