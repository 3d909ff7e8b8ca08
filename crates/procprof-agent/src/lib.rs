#![doc = include_str!("../README.md")]
//!
//! # How it is built
//!
//! [`CpuCapture`] is the sampler by itself, [`label()`] tells its samples apart; [`start`] gives an [`Agent`], which answers [`Request`]s to [`ENDPOINTS`]; a [`Listener`] carries them over HTTP
//! where there is no server. Nothing runs until a capture or a listener is started.
//!
//! The signal handler (`cpu::handler`) and what it calls are the only code that runs on an interrupted thread: it never allocates, locks or logs, and its
//! system calls read the thread's CPU clock and, for a perf event's signal, the thread's id.

mod agent;
#[cfg(target_os = "linux")]
mod clock;
#[cfg(feature = "contention")]
#[cfg_attr(not(target_os = "linux"), path = "absent/contention.rs")]
mod contention;
#[cfg_attr(not(target_os = "linux"), path = "absent/mod.rs")]
mod cpu;
mod endpoints;
mod error;
mod heap;
#[cfg(all(any(feature = "contention", feature = "heap"), target_os = "linux"))]
mod here;
mod legacy;
mod listener;
mod meta;
mod modules;
mod moment;
mod request;
#[cfg(feature = "axum")]
mod router;
mod site;
#[cfg(all(any(feature = "contention", feature = "heap"), target_os = "linux"))]
mod spin;
mod symbols;

pub use agent::{Agent, Config, start};
#[cfg(feature = "contention")]
pub use contention::Contention;
#[cfg(all(feature = "contention", target_os = "linux"))]
pub use contention::hook as contention_hook;
pub use cpu::{CpuCapture, CpuEngine, CpuOptions, DEFAULT_HZ, Label, LabelValue, MAX_HZ, label};
pub use endpoints::{ENDPOINTS, Endpoint, MAX_SECONDS};
pub use error::{Error, Result};
#[cfg(all(feature = "heap", target_os = "linux"))]
pub use heap::hook as heap_hook;
#[cfg(feature = "heap")]
pub use heap::{DEFAULT_SAMPLE_BYTES, HeapSampler, SampledAlloc};
pub use heap::{DumpFileLimits, HeapStatus, Jemalloc, JemallocNaming, MAX_DUMP_BYTES, MallctlFn};
pub use listener::{ExtraHandler, Listener, MAX_CONNECTIONS};
pub use request::{Method, Request, Response};
#[cfg(feature = "axum")]
pub use router::{open_router, router};
