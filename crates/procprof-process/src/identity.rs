//! Which process it is: a pid and the moment it started.

use std::fmt;
use std::path::Path;
use std::str::FromStr;

use procprof_profile::Nanos;

use crate::stat::{Stat, duration_of_ticks};
use crate::{Error, Result, procfs};

/// A process id in this process's pid namespace.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Pid(pub u32);

/// A thread id in this process's pid namespace. The main thread's is the process id.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Tid(pub u32);

impl fmt::Display for Pid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl fmt::Display for Tid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl FromStr for Pid {
    type Err = std::num::ParseIntError;

    fn from_str(text: &str) -> std::result::Result<Self, Self::Err> {
        text.parse().map(Self)
    }
}

impl Pid {
    /// The calling process.
    pub fn current() -> Self {
        Self(std::process::id())
    }
}

/// Which process it is: a pid and the moment it started, since pids are reused.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Identity {
    /// The process id.
    pub pid: Pid,
    /// When the process started, in clock ticks since boot, exactly as the kernel keeps it.
    pub start_ticks: u64,
    /// The same moment since the Unix epoch (UTC), to a second: the kernel tells the boot in
    /// seconds. It moves when the machine's clock is set, so it takes no part in
    /// [`Identity::is_same`].
    pub start_time: Nanos,
}

impl Identity {
    /// Reads the identity of the process that has `pid` now.
    ///
    /// Errs with [`Error::Gone`] when there is none.
    pub fn of(pid: Pid) -> Result<Self> {
        let text = procfs::read_text(pid, "stat")?;
        let stat = Stat::parse(&text, &procfs::path(pid, "stat"))?;
        let boot = boot_unix_seconds()?;
        let since_boot = duration_of_ticks(stat.start_ticks).as_nanos() as i64;
        Ok(Self { pid, start_ticks: stat.start_ticks, start_time: Nanos(boot.saturating_mul(1_000_000_000).saturating_add(since_boot)) })
    }

    /// Whether both are the same process of one boot of the machine.
    pub fn is_same(&self, other: &Self) -> bool {
        self.pid == other.pid && self.start_ticks == other.start_ticks
    }
}

/// When the machine booted, in seconds since the Unix epoch: the `btime` line of `/proc/stat`.
fn boot_unix_seconds() -> Result<i64> {
    let path = Path::new("/proc/stat");
    let text = procfs::read_global_text(path)?;
    for (index, line) in text.lines().enumerate() {
        let Some(seconds) = line.strip_prefix("btime ") else {
            continue;
        };
        let seconds = seconds.trim().parse();
        return seconds.map_err(|_| Error::malformed(path, index + 1, "seconds after btime"));
    }
    Err(Error::malformed(path, 1, "a btime line"))
}
