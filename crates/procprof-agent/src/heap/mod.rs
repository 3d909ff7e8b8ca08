//! Heap capture: who holds the memory of this process, by jemalloc's own profiler or by a sampler around any allocator.

mod dump;
pub(crate) mod environment;
mod growth;
mod jemalloc;
mod keeper;
#[cfg(feature = "heap")]
#[cfg_attr(not(target_os = "linux"), path = "../absent/sampler.rs")]
pub(crate) mod sampler;
mod source;
mod timed;
mod turns;
mod written;

pub(crate) use dump::Dumper;
pub(crate) use growth::InUse;
pub use jemalloc::{HeapStatus, Jemalloc, JemallocNaming, MallctlFn};
pub(crate) use keeper::Keeper;
#[cfg(all(feature = "heap", target_os = "linux"))]
pub use sampler::hook;
#[cfg(feature = "heap")]
pub use sampler::{DEFAULT_SAMPLE_BYTES, HeapSampler, SampledAlloc};
pub(crate) use source::Heap;
pub(crate) use timed::TimedSwitch;
pub(crate) use turns::Turns;
pub use written::DumpFileLimits;
pub(crate) use written::{DumpFile, DumpFiles};
