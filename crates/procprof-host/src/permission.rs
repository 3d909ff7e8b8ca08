//! Why the kernel refuses an event, in terms of what can be done about it.

use std::io;

use procprof_process::{Pid, Process};

use crate::error::{Error, Result};

const CAP_SYS_ADMIN: u32 = 21;
const CAP_PERFMON: u32 = 38;
/// The kernel's clocks sample every 10 microseconds at most.
const TIMER_HZ_MAX: u32 = 100_000;

/// The error for an event that could not be opened on a process, or on the whole host.
pub(crate) fn refusal(pid: Option<u32>, source: io::Error) -> Error {
    match source.raw_os_error() {
        Some(libc::ESRCH) => {
            pid.map_or_else(|| Error::System { what: "open a perf event", source }, |pid| Error::NoSuchProcess { pid })
        }
        Some(libc::EACCES | libc::EPERM) => Error::NotPermitted {
            subject: pid.map_or_else(|| "the whole host".to_owned(), |pid| format!("process {pid}")),
            source,
            remedies: remedies(pid),
        },
        Some(libc::ENOSYS | libc::ENOENT | libc::EOPNOTSUPP | libc::ENODEV) => Error::Unsupported { source },
        _ => Error::System { what: "open a perf event", source },
    }
}

/// Fails for a rate that the kernel would lower without a word.
pub(crate) fn check_rate(hz: u32) -> Result<()> {
    let max = setting("perf_event_max_sample_rate").and_then(|max| u32::try_from(max).ok());
    let max = max.unwrap_or(u32::MAX).min(TIMER_HZ_MAX);
    if hz <= max { Ok(()) } else { Err(Error::RateTooHigh { hz, max }) }
}

/// Whether an error means that time in the kernel may not be sampled, but other time may.
pub(crate) fn is_about_permission(error: &io::Error) -> bool {
    matches!(error.raw_os_error(), Some(libc::EACCES | libc::EPERM))
}

fn remedies(pid: Option<u32>) -> Vec<String> {
    if has_capability(CAP_PERFMON) || has_capability(CAP_SYS_ADMIN) {
        return vec![
            "this process has CAP_PERFMON, so a seccomp filter (as container runtimes set) or a security module refuses \
             perf_event_open"
                .to_owned(),
        ];
    }
    let mut remedies = Vec::new();
    if let Some(user) = pid.and_then(other_user) {
        remedies.push(format!("it belongs to user {user}"));
    }
    let level = setting("perf_event_paranoid");
    let is_enough = level.is_some_and(|level| level <= if pid.is_some() { 2 } else { 0 });
    let capabilities = "CAP_PERFMON, CAP_SYS_PTRACE and CAP_DAC_READ_SEARCH permit it \
                        (setcap cap_perfmon,cap_sys_ptrace,cap_dac_read_search=ep procprof)";
    if let Some(level) = level.filter(|_| !is_enough) {
        remedies.push(format!("kernel.perf_event_paranoid is {level}"));
    }
    remedies.push(capabilities.to_owned());
    remedies
}

/// The user of a process, if it is not ours.
fn other_user(pid: u32) -> Option<u32> {
    let user = |process: Process| process.status().ok().map(|status| status.uid);
    let (theirs, own) = (user(Process::open(Pid(pid)).ok()?)?, user(Process::current().ok()?)?);
    (theirs != own).then_some(theirs)
}

fn setting(name: &str) -> Option<i64> {
    std::fs::read_to_string(format!("/proc/sys/kernel/{name}")).ok()?.trim().parse().ok()
}

fn has_capability(number: u32) -> bool {
    let text = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let effective = text.lines().find_map(|line| line.strip_prefix("CapEff:"));
    let bits = effective.and_then(|bits| u64::from_str_radix(bits.trim(), 16).ok());
    bits.is_some_and(|bits| bits & 1 << number != 0)
}
