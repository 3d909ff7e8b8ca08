//! Processes of this host, profiled from outside: by pid, without their cooperation, a restart or a rebuild.
//!
//! The kernel samples what a CPU does each time that a period of CPU time has passed, and writes its own call chain,
//! the registers of user code and a copy of the upper part of the stack to a buffer for each CPU (perf events). A
//! [`Recorder`] reads the buffers while they fill: it keeps the address spaces of processes as records tell of their
//! mappings, forks and executions, unwinds each stack by the tables of the files (`.eh_frame`, built once for each
//! file, as far as stacks need them) or by frame pointers, and keeps stacks without repetition with their counts.
//!
//! Waits ([`Measure::OffCpu`]) are the time between the switches of threads. Where the kernel runs BPF programs, these
//! add up the waits of each thread by reason, and sample the stacks of as many as can be afforded, long ones first.
//! Otherwise the kernel records all switches and samples one in so many, and long waits are looked up in `/proc` while
//! they last.
//!
//! The caller decides how long to record, and names the addresses of the profile (`procprof-symbolize`). Lost samples,
//! cut stacks and processes that ended too early are counted in [`Statistics`] and in the profile.
//!
//! ```no_run
//! use procprof_host::{Options, Recorder, Target};
//! use std::time::{Duration, Instant};
//!
//! let mut recorder = Recorder::attach(Target::Processes(vec![1234]), &Options::default())?;
//! let begun = Instant::now();
//! while begun.elapsed() < Duration::from_secs(10) && !recorder.is_over() {
//!     recorder.poll(Duration::from_millis(200))?;
//! }
//! let recording = recorder.finish()?;
//! println!("{} samples", recording.statistics.samples);
//! # Ok::<(), procprof_host::Error>(())
//! ```

mod blocked;
mod bpf;
pub mod btf;
mod descendants;
mod ending;
mod error;
mod go_stacks;
mod images;
mod kernel;
mod live_memory;
mod measure;
mod membership;
mod moved_text;
mod own_names;
mod permission;
mod processes;
mod profile;
mod reason;
mod recorded_files;
mod recorder;
mod registers;
mod session;
mod stacks;
mod tally;
mod thorough;
mod waits;
mod walk;

pub use bpf::BpfError;
pub use error::{Error, Result};
pub use images::SECTION_BYTES_MAX;
pub use measure::{Engine, Measure};
pub use membership::Membership;
pub use own_names::{PERF_MAP_CPU_MAX, PerfMaps, UnnamedCode};
pub use recorded_files::RecordedFiles;
pub use recorder::{Cut, Options, ProcessShare, Recorder, Recording, Target};
pub use session::{Condition, Filter, Statistics};
