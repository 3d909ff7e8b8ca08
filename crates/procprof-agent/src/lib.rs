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
mod clock;
mod cpu;
mod endpoints;
mod error;
mod heap;
mod legacy;
mod listener;
mod meta;
mod modules;
mod request;
#[cfg(feature = "axum")]
mod router;
mod site;
mod symbols;

pub use agent::{Agent, Config, start};
pub use cpu::{CpuCapture, CpuEngine, CpuOptions, DEFAULT_HZ, Label, LabelValue, MAX_HZ, label};
pub use endpoints::{ENDPOINTS, Endpoint, MAX_SECONDS};
pub use error::{Error, Result};
#[cfg(feature = "heap")]
pub use heap::{DEFAULT_SAMPLE_BYTES, HeapSampler, SampledAlloc, hook as heap_hook};
pub use heap::{HeapStatus, Jemalloc, JemallocNaming, MAX_DUMP_BYTES, MallctlFn};
pub use listener::{ExtraHandler, Listener, MAX_CONNECTIONS};
pub use request::{Method, Request, Response};
#[cfg(feature = "axum")]
pub use router::{open_router, router};
