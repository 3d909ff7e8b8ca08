//! The allocator of this build, and its heap profiler.

use procprof_profile::Grammar;
use procprof_profile::format::{Limits, decode};

#[cfg(all(feature = "ours", not(feature = "jemalloc")))]
#[global_allocator]
static ALLOCATOR: procprof_agent::SampledAlloc = procprof_agent::SampledAlloc::new();

#[cfg(all(feature = "ours", feature = "jemalloc"))]
#[global_allocator]
static ALLOCATOR: procprof_agent::SampledAlloc<tikv_jemallocator::Jemalloc> =
    procprof_agent::SampledAlloc::over(tikv_jemallocator::Jemalloc);

#[cfg(all(feature = "jemalloc", not(feature = "ours")))]
#[global_allocator]
static ALLOCATOR: tikv_jemallocator::Jemalloc = tikv_jemallocator::Jemalloc;

/// The totals of a profile.
pub struct Seen {
    /// Samples that are live.
    pub samples: i64,
    /// Bytes in use.
    pub live: i64,
    /// Bytes ever allocated, where the profiler counts them.
    pub allocated: Option<i64>,
}

/// Starts sampling every `mean` bytes, or as usual. Other profilers than procprof's are configured by their environment
/// before they start.
pub fn start(mean: Option<u64>) {
    #[cfg(feature = "ours")]
    {
        procprof_agent::HeapSampler::reset(mean);
        procprof_agent::HeapSampler::enable();
    }
    // Others read it elsewhere.
    #[cfg(not(feature = "ours"))]
    let _ = mean;
}

/// The current totals: of the types in order, the last two are of live memory, and those before, if there are any, of
/// all allocations.
pub fn seen() -> Seen {
    let measured = decode(&text(), &Limits::default()).expect("decode a heap profile").profile;
    let live = measured.sample_types().len() - 1;
    let samples = measured.total(live - 1);
    let estimated = measured.adjusted(Grammar::Pprof).expect("estimate");
    Seen { samples, live: estimated.total(live), allocated: (live == 3).then(|| estimated.total(1)) }
}

#[cfg(feature = "ours")]
fn text() -> Vec<u8> {
    procprof_agent::HeapSampler::text().expect("write a heap profile")
}

#[cfg(all(feature = "jemalloc", not(feature = "ours")))]
fn text() -> Vec<u8> {
    let file = std::env::temp_dir().join(format!("profilers-{}.heap", std::process::id()));
    let name = std::ffi::CString::new(file.to_str().expect("a path in UTF-8")).expect("a path without NUL");
    // SAFETY: `prof.dump` takes a path that ends in NUL.
    unsafe { tikv_jemalloc_ctl::raw::write(b"prof.dump\0", name.as_ptr()) }.expect("dump the heap");
    let text = std::fs::read(&file).expect("read the dump");
    // Its folder is the system's for temporary files.
    let _ = std::fs::remove_file(&file);
    text
}

#[cfg(feature = "tcmalloc")]
fn text() -> Vec<u8> {
    #[link(name = "tcmalloc")]
    unsafe extern "C" {
        /// Of `heap_sample.cc`, which is linked in.
        fn heap_sample() -> *mut std::ffi::c_char;
    }
    // SAFETY: returns a string that ends with NUL, which is not changed.
    unsafe { std::ffi::CStr::from_ptr(heap_sample()) }.to_bytes().to_vec()
}

#[cfg(not(any(feature = "ours", feature = "jemalloc", feature = "tcmalloc")))]
fn text() -> Vec<u8> {
    panic!("this build has no heap profiler")
}
