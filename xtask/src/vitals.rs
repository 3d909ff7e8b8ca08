//! Memory and CPU time of a running process, from `/proc`.

use std::fs;

use std::process::{Child, ExitStatus};

use anyhow::{Context, Result};
use rustix::process::{Pid, WaitId, WaitIdOptions, waitid};

/// Clock ticks a second; the kernel's `USER_HZ`, 100 on every supported platform.
const TICKS: f64 = 100.0;

/// One reading of a process.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Vitals {
    /// Resident memory, bytes.
    pub(crate) resident: u64,
    /// The part of it without file pages, bytes.
    pub(crate) anonymous: u64,
    /// The most that was ever resident, bytes.
    pub(crate) resident_max: u64,
    /// CPU time of all its threads, seconds.
    pub(crate) cpu: f64,
    /// CPU time of children it has waited for, seconds.
    pub(crate) children_cpu: f64,
}

impl Vitals {
    /// Reads them.
    pub(crate) fn from_pid(pid: u32) -> Result<Vitals> {
        let status = fs::read_to_string(format!("/proc/{pid}/status"))
            .with_context(|| format!("read the status of process {pid}"))?;
        let bytes = |name: &str| {
            let line = status.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':'));
            line.and_then(|value| value.trim().strip_suffix(" kB")?.parse::<u64>().ok())
                .map_or(0, |kilobytes| kilobytes * 1024)
        };
        let stat = fs::read_to_string(format!("/proc/{pid}/stat"))
            .with_context(|| format!("read the times of process {pid}"))?;
        let after_name = stat.rsplit_once(')').map_or("", |(_, rest)| rest);
        let ticks: Vec<f64> =
            after_name.split_whitespace().skip(11).take(4).filter_map(|field| field.parse().ok()).collect();
        let [user, system, children_user, children_system] = ticks[..] else {
            anyhow::bail!("times of process {pid}: {stat:?}")
        };
        Ok(Vitals {
            resident: bytes("VmRSS"),
            anonymous: bytes("RssAnon"),
            resident_max: bytes("VmHWM"),
            cpu: (user + system) / TICKS,
            children_cpu: (children_user + children_system) / TICKS,
        })
    }
}

/// CPU time of all children that have ended and of theirs, in seconds.
///
/// # Errors
/// This process cannot be read.
pub(crate) fn children_cpu() -> Result<f64> {
    Ok(Vitals::from_pid(std::process::id())?.children_cpu)
}

/// Whether a process has ended; it is not waited for.
///
/// # Errors
/// It cannot be asked.
pub(crate) fn has_ended(child: &Child) -> Result<bool> {
    let options = WaitIdOptions::EXITED | WaitIdOptions::NOWAIT | WaitIdOptions::NOHANG;
    Ok(waitid(WaitId::Pid(pid(child)?), options).context("ask for a process")?.is_some())
}

fn pid(child: &Child) -> Result<Pid> {
    i32::try_from(child.id()).ok().and_then(Pid::from_raw).context("a process id")
}

/// Waits for a process; its status, and the CPU time of it and of its children, in seconds.
///
/// # Errors
/// It cannot be waited for or read.
pub(crate) fn wait_with_cpu(child: &mut Child) -> Result<(ExitStatus, f64)> {
    // It can be read until it is waited for.
    waitid(WaitId::Pid(pid(child)?), WaitIdOptions::EXITED | WaitIdOptions::NOWAIT).context("wait for a process")?;
    let vitals = Vitals::from_pid(child.id())?;
    Ok((child.wait().context("wait for a process")?, vitals.cpu + vitals.children_cpu))
}

/// Bytes as MB (10^6), with one digit.
pub(crate) fn megabytes(bytes: u64) -> String {
    format!("{:.1} MB", bytes as f64 / 1e6)
}
