//! Heap capture: who holds the memory of this process, by jemalloc's own profiler or by a sampler around any allocator.

mod dump;
pub(crate) mod environment;
mod jemalloc;
#[cfg(feature = "heap")]
mod sampler;
mod source;
mod timed;

pub(crate) use dump::Dumper;
pub use dump::MAX_DUMP_BYTES;
pub use jemalloc::{HeapStatus, Jemalloc, JemallocNaming, MallctlFn};
#[cfg(feature = "heap")]
pub use sampler::{DEFAULT_SAMPLE_BYTES, HeapSampler, SampledAlloc, hook};
pub(crate) use source::Heap;
pub(crate) use timed::TimedSwitch;
