//! Errors of recording.

use std::io;

use crate::bpf::BpfError;

/// The result of recording.
pub type Result<T> = std::result::Result<T, Error>;

/// Errors of recording.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// There is no such process.
    #[error("there is no process {pid}")]
    NoSuchProcess {
        /// The pid as given.
        pid: u32,
    },
    /// The kernel does not permit the events.
    #[error("perf events on {subject} are not permitted ({})", .remedies.join("; "))]
    NotPermitted {
        /// The process, or the whole host.
        subject: String,
        /// The error of the system.
        source: io::Error,
        /// The settings and privileges that would permit them.
        remedies: Vec<String>,
    },
    /// The kernel has no perf events, or not this one.
    #[error("this kernel has no perf events of the needed kind")]
    Unsupported {
        /// The error of the system.
        source: io::Error,
    },
    /// Programs in the kernel were asked for and can't measure waits.
    #[error("no BPF programs: {0}")]
    Bpf(#[from] BpfError),
    /// The rate is beyond the kernel's limit.
    #[error("{hz} Hz is more than the kernel samples: at most {max} (kernel.perf_event_max_sample_rate)")]
    RateTooHigh {
        /// The rate as given.
        hz: u32,
        /// The limit.
        max: u32,
    },
    /// More events are needed than files may be open.
    #[error("{needed} events are needed (threads times CPUs), and {limit} files may be open; raise it (ulimit -n)")]
    TooManyEvents {
        /// Threads times CPUs.
        needed: usize,
        /// The hard limit of open files.
        limit: u64,
    },
    /// The buffers do not fit into the memory that may be locked.
    #[error("no buffer of even {bytes} bytes can be mapped; raise kernel.perf_event_mlock_kb or RLIMIT_MEMLOCK")]
    Buffer {
        /// The least size that was tried.
        bytes: usize,
        /// The error of the system.
        source: io::Error,
    },
    /// A call to the system fails.
    #[error("{what}")]
    System {
        /// What was to be done.
        what: &'static str,
        /// The error of the system.
        source: io::Error,
    },
    /// A process can't be read.
    #[error(transparent)]
    Process(#[from] procprof_process::Error),
    /// The samples do not fit into a profile.
    #[error("build the profile: {0}")]
    Profile(#[from] procprof_profile::Error),
}
