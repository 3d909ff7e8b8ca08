//! jeprof's grammar as a child of the server: dumps come on standard input, memory and CPU time are limited.

use std::fs::File;
use std::io::{Read, Write};
use std::os::fd::AsRawFd;
use std::process::ExitCode;

use anyhow::{Context, Result};
use procprof_server::JeprofTask;
use rustix::fs::{MemfdFlags, memfd_create};
use rustix::process::{Resource, Rlimit, setrlimit};

/// Largest dump, in bytes.
const DUMP_MAX: u64 = 4 << 30;

/// Runs a task the server has written.
pub(crate) fn run(task: &str) -> Result<ExitCode> {
    let task: JeprofTask = serde_json::from_str(task).context("read the task")?;
    for (resource, maximum) in [(Resource::As, task.memory), (Resource::Cpu, task.seconds), (Resource::Core, 0)] {
        setrlimit(resource, Rlimit { current: Some(maximum), maximum: Some(maximum) }).context("limit the child")?;
    }
    // Held until the end: their paths lead through this process.
    let dumps = dumps()?;
    let path = |index: usize| dumps.get(index).map_or(String::new(), |dump| format!("/proc/self/fd/{}", dump.as_raw_fd()));
    let words = task.words.iter().map(|word| word.replace("{0}", &path(0)).replace("{1}", &path(1)).into()).collect();
    // A server keeps nothing outside of its own folder.
    Ok(super::run(words, procprof_server::child_indexes()))
}

/// The dumps of standard input, each a file in memory.
fn dumps() -> Result<Vec<File>> {
    let mut input = std::io::stdin().lock();
    let mut dumps = Vec::new();
    let mut length = [0; 8];
    while input.read_exact(&mut length).is_ok() {
        let length = u64::from_le_bytes(length);
        anyhow::ensure!(length <= DUMP_MAX, "a dump of {length} bytes: at most {DUMP_MAX} are taken");
        let mut file = File::from(memfd_create("dump", MemfdFlags::CLOEXEC).context("make room for a dump")?);
        let copied = std::io::copy(&mut input.by_ref().take(length), &mut file).context("read a dump")?;
        anyhow::ensure!(copied == length, "a dump is cut short");
        file.flush()?;
        dumps.push(file);
    }
    Ok(dumps)
}
