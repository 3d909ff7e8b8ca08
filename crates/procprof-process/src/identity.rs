//! The identity of a process: its pid and start time.

use std::path::Path;

use procprof_profile::Nanos;

use crate::stat::{Stat, duration_of_ticks};
use crate::{Error, Pid, Result, procfs};

/// The identity of a process: its pid and start time, since pids are reused.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Identity {
    /// The process id.
    pub pid: Pid,
    /// When the process started, in clock ticks since boot, exactly as the kernel keeps it.
    pub start_ticks: u64,
    /// The same time since the Unix epoch (UTC), to a second, since the kernel has the boot time in seconds. It changes
    /// when the machine's clock is set, so [`Identity::is_same`] ignores it.
    pub start_time: Nanos,
}

impl Identity {
    /// Reads the identity of the process that has `pid` now.
    ///
    /// Errs with [`Error::Gone`] when there is none.
    pub fn read(pid: Pid) -> Result<Self> {
        let text = procfs::read_text(pid, "stat")?;
        let stat = Stat::parse(&text, &procfs::path(pid, "stat"))?;
        let boot = boot_unix_seconds()?;
        let since_boot = duration_of_ticks(stat.start_ticks).as_nanos() as i64;
        Ok(Self {
            pid,
            start_ticks: stat.start_ticks,
            start_time: Nanos(boot.saturating_mul(1_000_000_000).saturating_add(since_boot)),
        })
    }

    /// Checks that the pid still belongs to this process.
    ///
    /// Errs with [`Error::Gone`] if the process ended.
    pub(crate) fn check_current(&self) -> Result<()> {
        if Self::read(self.pid)?.is_same(self) {
            return Ok(());
        }
        Err(Error::Gone { pid: self.pid })
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
