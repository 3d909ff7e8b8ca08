//! Java virtual machines of this host, profiled from outside by their own profilers.
//!
//! [`Jvm`] sends commands to a running one (HotSpot's attach protocol, as `jcmd` speaks it), [`JvmTarget`] names one
//! by pid, pid file, main class or command line, [`FlightRecorder`] has the JDK's Flight Recorder record CPU,
//! allocations and waits, [`AsyncProfiler`] has async-profiler do so where its library is configured, and [`JvmSource`]
//! is the [`Source`](crate::Source) made of these. No code of ours runs in the target.
//!
//! The files of the target's container are reached through `/proc/PID/root` by descriptors, and never through a link
//! that lies there: its owner may put anything into that tree.

mod answer;
mod async_profiler;
mod attach;
mod chunks;
mod counters;
mod engine;
mod error;
mod find;
mod flight;
mod folder;
mod perf_map;
mod repository;
mod settings;
mod source;

pub use async_profiler::{AsyncProfiler, RunningSession};
pub use attach::Jvm;
pub use engine::JvmEngine;
pub use error::JvmError;
pub use find::{FoundJvm, JvmTarget, running_jvms};
pub use flight::{FlightRecorder, RunningRecording};
pub use settings::{Events, FlightSettings, file as settings_file};
pub use source::{JvmOptions, JvmSource, SingleRecording, wait_for_discards};
