#![doc = include_str!("../README.md")]
//!
//! # How it is built
//!
//! [`CpuCapture`] is the sampler by itself, [`label()`] labels its samples; [`start`] returns an [`Agent`], which
//! answers [`Request`]s to [`ENDPOINTS`]; a [`Listener`] serves them over HTTP where there is no server. Nothing runs
//! until a capture or a listener is started.
//!
//! The signal handler (`cpu::handler`) and what it calls are the only code that runs on an interrupted thread: it never
//! allocates, locks or logs. All else is done by threads of the module `aside`: they have descriptors of their own and
//! take no signals that are meant for the program.

#![allow(unsafe_code)]

mod agent;
#[cfg_attr(not(target_os = "linux"), path = "absent/aside.rs")]
mod aside;
#[cfg(target_os = "linux")]
mod clock;
#[cfg(feature = "contention")]
#[cfg_attr(not(target_os = "linux"), path = "absent/contention.rs")]
mod contention;
#[cfg(all(feature = "heap", target_os = "linux"))]
mod countdown;
#[cfg_attr(not(target_os = "linux"), path = "absent/mod.rs")]
mod cpu;
mod endpoints;
mod error;
mod heap;
#[cfg(all(any(feature = "contention", feature = "heap"), target_os = "linux"))]
mod here;
mod legacy;
#[cfg(target_os = "linux")]
mod lineage;
mod listener;
#[cfg(target_os = "linux")]
mod loader;
#[cfg(all(feature = "symbolize", target_os = "linux"))]
mod memory_cgroup;
mod meta;
mod modules;
mod moment;
mod options;
mod own_thread;
#[cfg(target_os = "linux")]
mod process_context;
#[cfg(target_os = "linux")]
mod readable;
mod request;
#[cfg_attr(not(target_os = "linux"), path = "absent/room.rs")]
mod room;
#[cfg(feature = "axum")]
mod router;
#[cfg(all(feature = "heap", target_os = "linux"))]
mod side_stack;
mod site;
#[cfg(target_os = "linux")]
mod spin;
mod symbols;
#[cfg(target_os = "linux")]
pub mod thread_start_hook;
#[cfg(target_os = "linux")]
mod tree;

pub use agent::{Agent, Config, start};
#[cfg(feature = "contention")]
pub use contention::Contention;
#[cfg(all(feature = "contention", target_os = "linux"))]
pub use contention::hook as contention_hook;
#[cfg(target_os = "linux")]
pub use cpu::birth as thread_hook;
#[cfg(target_os = "linux")]
pub use cpu::sigprof as sigprof_hook;
pub use cpu::{CpuCapture, Label, LabelValue, label};
pub use endpoints::{ENDPOINTS, Endpoint, MAX_SECONDS};
pub use error::{Error, Result};
#[cfg(all(feature = "heap", target_os = "linux"))]
pub use heap::hook as heap_hook;
#[cfg(feature = "heap")]
pub use heap::{DEFAULT_SAMPLE_BYTES, HeapSampler, SampledAlloc};
pub use heap::{DumpFileLimits, HeapStatus, Jemalloc, JemallocNaming, MallctlFn};
pub use listener::{ExtraHandler, Listener, MAX_CONNECTIONS};
pub use options::{CpuEngine, CpuOptions, DEFAULT_HZ, MAX_DUMP_BYTES, MAX_HZ};
#[cfg(target_os = "linux")]
pub use readable::is_readable;
pub use request::{Method, Request, Response};
#[cfg(feature = "axum")]
pub use router::{open_router, router};
#[cfg(target_os = "linux")]
pub use tree::ProcessTree;
