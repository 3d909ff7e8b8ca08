//! What can go wrong in the agent, with the facts a caller needs to act on it.

use std::time::SystemTime;

/// The result of an operation of this crate.
pub type Result<T> = std::result::Result<T, Error>;

/// An error of the agent.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// This platform has no in-process capture.
    #[error("in-process CPU capture is built for Linux on x86-64 and aarch64 only")]
    UnsupportedPlatform,
    /// A sampling rate outside 1 to [`crate::MAX_HZ`].
    #[error("frequency {hz}: expected 1 to {} samples a second", crate::MAX_HZ)]
    Frequency {
        /// The rate that was asked for.
        hz: u32,
    },
    /// Another rate is being sampled at; one process has one sampler.
    #[error("CPU is being sampled at {hz} Hz by {owner} {}; ask for frequency={hz} to share it", until_text(.until))]
    Busy {
        /// The rate that is running.
        hz: u32,
        /// Who asked for it.
        owner: String,
        /// When it ends; `None` when it runs until stopped.
        until: Option<SystemTime>,
    },
    /// Too many captures at once.
    #[error("{limit} CPU captures are running already")]
    TooManyCaptures {
        /// How many may run at once.
        limit: usize,
    },
    /// This process is a fork of the one in which the capture or the agent was started.
    #[error("this process was forked from process {parent}, where the profiler was started; start an agent of its own here")]
    Forked {
        /// The process that started it.
        parent: u32,
    },
    /// The agent was stopped while the operation ran.
    #[error("the agent was stopped")]
    Stopped,
    /// A call of the operating system failed.
    #[error("{what}: {source}")]
    System {
        /// What was attempted.
        what: &'static str,
        /// The system's reason.
        source: std::io::Error,
    },
    /// A profile could not be built or encoded.
    #[error("build the profile: {0}")]
    Profile(#[from] procprof_profile::Error),
}

fn until_text(until: &Option<SystemTime>) -> String {
    match until.map(|end| end.duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default()) {
        Some(end) => format!("until {}", crate::clock::utc_text(end)),
        None => "continuously".to_owned(),
    }
}
