//! Embed in a process: CPU and heap capture and the pprof endpoints.

mod agent;
mod clock;
mod cpu;
mod endpoints;
mod error;
mod jemalloc;
mod legacy;
mod listener;
mod meta;
mod modules;
mod request;
mod symbols;

pub use agent::{Agent, Config, start};
pub use cpu::{CpuCapture, CpuOptions, DEFAULT_HZ, MAX_HZ};
pub use endpoints::{ENDPOINTS, Endpoint, MAX_SECONDS};
pub use error::{Error, Result};
pub use jemalloc::{HeapStatus, Jemalloc, JemallocNaming, MAX_DUMP_BYTES, MallctlFn};
pub use listener::{ExtraHandler, Listener, MAX_CONNECTIONS};
pub use request::{Method, Request, Response};
