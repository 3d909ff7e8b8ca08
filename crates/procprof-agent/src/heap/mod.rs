//! Heap capture: who holds the memory of this process, by jemalloc's own profiler.

mod dump;
pub(crate) mod environment;
mod jemalloc;
mod timed;

pub use dump::MAX_DUMP_BYTES;
pub(crate) use dump::Dumper;
pub use jemalloc::{HeapStatus, Jemalloc, JemallocNaming, MallctlFn};
pub(crate) use timed::TimedSwitch;
