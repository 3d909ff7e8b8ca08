//! jeprof's grammar as a child of the server: the dumps are the frames of its input.

use std::fs::File;
use std::io::{Read, Write};
use std::os::fd::AsRawFd;
use std::process::ExitCode;

use anyhow::{Context, Result};
use procprof_server::{ChildTask, JeprofWords, frame_length};
use rustix::fs::{MemfdFlags, memfd_create};

/// Largest dump, in bytes.
const DUMP_MAX: u64 = 4 << 30;

/// Runs a task that the server has written.
pub(crate) fn run(task: &str) -> Result<ExitCode> {
    let JeprofWords { words } = ChildTask::begin(task).context("read the task and set its limits")?;
    // Held until the end: their paths lead through this process.
    let dumps = dumps()?;
    let path =
        |index: usize| dumps.get(index).map_or(String::new(), |dump| format!("/proc/self/fd/{}", dump.as_raw_fd()));
    let word = |word: &String| word.replace("{0}", &path(0)).replace("{1}", &path(1)).into();
    // A server keeps nothing outside of its own folder.
    Ok(super::run(words.iter().map(word).collect(), procprof_server::child_indexes()))
}

/// The dumps of standard input, each a file in memory.
fn dumps() -> Result<Vec<File>> {
    let mut input = std::io::stdin().lock();
    let mut dumps = Vec::new();
    while let Some(length) = frame_length(&mut input).context("read a dump")? {
        anyhow::ensure!(length <= DUMP_MAX, "a dump of {length} bytes: at most {DUMP_MAX} are taken");
        let mut file = File::from(memfd_create("dump", MemfdFlags::CLOEXEC).context("make room for a dump")?);
        let copied = std::io::copy(&mut input.by_ref().take(length), &mut file).context("read a dump")?;
        anyhow::ensure!(copied == length, "a dump is cut short");
        file.flush()?;
        dumps.push(file);
    }
    Ok(dumps)
}
