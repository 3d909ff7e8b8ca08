//! The agent in a real process. Each test runs in a process of its own (`isolated`), since a process has one sampler
//! and one clock.

#![allow(unsafe_code)]
#![allow(clippy::unwrap_used, reason = "these are tests")]

mod blocked;
mod contention;
mod context;
mod cpu;
mod endpoints;
mod engines;
mod filters;
mod forks;
mod heap;
mod isolated;
mod listener;
mod router;
mod runtimes;
mod sampled;
mod tools;
mod wall;
mod work;

#[global_allocator]
static ALLOCATOR: procprof_agent::SampledAlloc<tikv_jemallocator::Jemalloc> =
    procprof_agent::SampledAlloc::over(tikv_jemallocator::Jemalloc);

/// Settings that jemalloc reads at start, before the environment: profiling possible, a sample every 32 KiB.
#[unsafe(export_name = "_rjem_malloc_conf")]
#[allow(non_upper_case_globals, reason = "jemalloc's name")]
pub static malloc_conf: &[u8; 45] = b"prof:true,prof_active:true,lg_prof_sample:15\0";
