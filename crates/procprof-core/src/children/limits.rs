//! The limits of a child: made of the configuration by the server, set by the child before it reads anything.

use std::io;

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use serde::{Deserialize, Serialize};

use crate::config::Config;

/// Configuration key of the memory that a child may have.
pub(super) const MEMORY_KEY: &str = "symbolize_memory_bytes_max";
/// Configuration key of the time that a child may take.
pub(super) const SECONDS_KEY: &str = "symbolize_seconds_max";

/// Resources of one child.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct ChildLimits {
    /// Most address space, in bytes.
    pub(super) memory: u64,
    /// Most time, of the clock and of processors, in seconds.
    pub(super) seconds: u64,
}

impl ChildLimits {
    pub(crate) fn from_config(config: &Config) -> ChildLimits {
        ChildLimits { memory: config.symbolize_memory_bytes_max, seconds: config.symbolize_seconds_max }
    }

    /// Limits this process.
    ///
    /// # Errors
    /// The system's.
    pub(super) fn set(&self) -> io::Result<()> {
        limit(Resource::As, self.memory, self.memory)?;
        // The signal at the lower of the two differs from that of a process that was killed.
        limit(Resource::Cpu, self.seconds, self.seconds.saturating_add(1))?;
        limit(Resource::Core, 0, 0)?;
        // When the system runs out of memory, this process is the one to be ended. Without the permission for it
        // nothing is lost.
        let _ = std::fs::write("/proc/self/oom_score_adj", "1000");
        Ok(())
    }
}

/// Sets a limit, or leaves it where it is lower already.
fn limit(resource: Resource, current: u64, maximum: u64) -> io::Result<()> {
    let held = getrlimit(resource);
    let lower = |held: Option<u64>, new: u64| Some(held.map_or(new, |held| held.min(new)));
    let maximum = lower(held.maximum, maximum);
    let current = lower(maximum, current);
    setrlimit(resource, Rlimit { current, maximum }).map_err(io::Error::from)
}

/// The size that an answer may have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AnswerLimit {
    /// Most bytes.
    pub bytes: u64,
    /// The configuration key that it follows from, with its value; `None` for a limit of the program.
    pub key: Option<(&'static str, u64)>,
}
