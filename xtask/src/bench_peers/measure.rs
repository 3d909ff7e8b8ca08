//! One run of a shell line: time by the clock, time of the processors, and memory of all its processes, with and
//! without file pages.

use std::fs::{self, File};
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Command, ExitStatus, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result};

use crate::vitals::{Vitals, children_cpu};

/// Time between two readings of the memory; ten times as long after a second, and if only the time limit is watched.
const EVERY: Duration = Duration::from_millis(1);

/// The watched values of a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Watch {
    /// Its memory, which takes a few per cent of the processors' time.
    Memory,
    /// Only its end.
    Time,
}

/// The cost of a run.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Taken {
    /// Seconds by the clock.
    pub(super) wall: f64,
    /// Seconds of all threads and processes, in user mode and in the kernel, in steps of 10 ms.
    pub(super) cpu: f64,
    /// `None` if it was not watched.
    pub(super) memory: Memory,
}

/// The most that was resident at any reading, all processes of the run together, in bytes.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Memory {
    pub(super) anonymous: u64,
    /// Pages of files; those that two processes share count twice.
    pub(super) file: u64,
}

/// The end of a run.
pub(super) enum Ended {
    Well(Taken),
    /// With an error; the last line of its output.
    Badly(String),
    /// It was killed at the time limit.
    GivenUp,
}

/// Runs a line by bash in `command`'s folder and environment, with its output going to `output`.
pub(super) fn run(command: &mut Command, output: &Path, patience: Duration, what: Watch) -> Result<Ended> {
    let errors = output.with_extension("errors");
    command.stdin(Stdio::null()).stdout(File::create(output).context("make a file")?);
    command.stderr(File::create(&errors).context("make a file")?).process_group(0);
    let before = children_cpu()?;
    let start = Instant::now();
    let mut child = command.spawn().context("run bash")?;
    let (done, pid) = (AtomicBool::new(false), child.id());
    let (status, wall, watched) = thread::scope(|scope| {
        let watcher = scope.spawn(|| watch(pid, &done, start, patience, what));
        let status = child.wait();
        let wall = start.elapsed();
        done.store(true, Ordering::Relaxed);
        (status, wall, watcher.join())
    });
    let status: ExitStatus = status.context("wait for a program")?;
    let Watched { memory, given_up } = watched.map_err(|_| anyhow::anyhow!("the watching thread panicked"))?;
    if given_up {
        return Ok(Ended::GivenUp);
    }
    if !status.success() {
        let text = fs::read_to_string(&errors).unwrap_or_default();
        return Ok(Ended::Badly(format!("{status}: {}", text.lines().last().unwrap_or_default())));
    }
    Ok(Ended::Well(Taken { wall: wall.as_secs_f64(), cpu: children_cpu()? - before, memory }))
}

struct Watched {
    memory: Memory,
    given_up: bool,
}

/// Watches the process and its descendants until it ends, and kills its group at the time limit.
fn watch(pid: u32, done: &AtomicBool, start: Instant, patience: Duration, what: Watch) -> Watched {
    let mut watched = Watched { memory: Memory::default(), given_up: false };
    while !done.load(Ordering::Relaxed) {
        let looked_at = if what == Watch::Memory { family(pid) } else { Vec::new() };
        let now = looked_at.into_iter().filter_map(|member| Vitals::from_pid(member).ok()).fold(
            Memory::default(),
            |sum, vitals| Memory {
                anonymous: sum.anonymous + vitals.anonymous,
                file: sum.file + vitals.resident.saturating_sub(vitals.anonymous),
            },
        );
        watched.memory.anonymous = watched.memory.anonymous.max(now.anonymous);
        watched.memory.file = watched.memory.file.max(now.file);
        if start.elapsed() > patience && !watched.given_up {
            watched.given_up = true;
            // It may have just ended; then there is nothing to kill.
            let _ = Command::new("kill").args(["-KILL", "--", &format!("-{pid}")]).stderr(Stdio::null()).status();
        }
        let is_close = what == Watch::Memory && start.elapsed() < Duration::from_secs(1);
        thread::sleep(if is_close { EVERY } else { EVERY * 10 });
    }
    watched
}

/// A process and all its descendants that exist.
fn family(pid: u32) -> Vec<u32> {
    let mut family = vec![pid];
    let mut next = 0;
    while let Some(member) = family.get(next).copied() {
        next += 1;
        for thread in fs::read_dir(format!("/proc/{member}/task")).into_iter().flatten().flatten() {
            let children = fs::read_to_string(thread.path().join("children")).unwrap_or_default();
            family.extend(children.split_whitespace().filter_map(|child| child.parse::<u32>().ok()));
        }
    }
    family
}
