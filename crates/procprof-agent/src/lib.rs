//! Embed in a process: CPU and heap capture and the pprof endpoints.

mod clock;
mod cpu;
mod error;
mod meta;
mod modules;

pub use cpu::{CpuCapture, CpuOptions, DEFAULT_HZ, MAX_HZ};
pub use error::{Error, Result};
