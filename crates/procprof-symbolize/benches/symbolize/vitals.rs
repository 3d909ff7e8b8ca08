//! The cost of a process: wall time, CPU time, and memory by kind.

use std::fmt;
use std::fs;
use std::io::Read;
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

/// The cost of one process.
pub(crate) struct Run {
    /// Seconds.
    pub(crate) wall: f64,
    /// Seconds of all threads, in steps of 10 ms.
    cpu: f64,
    memory: Memory,
    /// Half the lines it printed.
    frames: usize,
}

/// The most that was resident at any of the moments looked at, in KiB.
#[derive(Default)]
struct Memory {
    anonymous: u64,
    file: u64,
}

impl fmt::Display for Run {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [anonymous, file] = [self.memory.anonymous, self.memory.file].map(|kilobytes| kilobytes / 1024);
        write!(f, "{:.3} | {:.2} | {anonymous} | {file} | {}", self.wall, self.cpu, self.frames)
    }
}

/// Runs a process to its end while looking at its memory.
pub(crate) fn observe(command: &mut Command) -> Run {
    let cpu_before = children_cpu();
    let start = Instant::now();
    let mut child = command
        .stdout(Stdio::piped())
        .spawn()
        .unwrap_or_else(|error| panic!("{}: {error}", command.get_program().display()));
    let mut out = child.stdout.take().unwrap();
    let printed = thread::spawn(move || {
        let mut text = Vec::new();
        out.read_to_end(&mut text).unwrap();
        (text.iter().filter(|byte| **byte == b'\n').count(), Instant::now())
    });
    let memory = watch(&mut child);
    let (lines, end) = printed.join().unwrap();
    Run { wall: (end - start).as_secs_f64(), cpu: children_cpu() - cpu_before, memory, frames: lines / 2 }
}

fn watch(child: &mut Child) -> Memory {
    let path = format!("/proc/{}/status", child.id());
    let mut most = Memory::default();
    while child.try_wait().unwrap().is_none() {
        let status = fs::read_to_string(&path).unwrap_or_default();
        let field = |name: &str| {
            let line = status.lines().find_map(|line| line.strip_prefix(name));
            line.and_then(|line| line.trim().trim_end_matches(" kB").parse::<u64>().ok()).unwrap_or(0)
        };
        most.anonymous = most.anonymous.max(field("RssAnon:"));
        most.file = most.file.max(field("RssFile:"));
        thread::sleep(Duration::from_millis(1));
    }
    most
}

/// The processor time of all children that have ended, in seconds.
fn children_cpu() -> f64 {
    const TICKS_PER_SECOND: f64 = 100.0;
    let stat = fs::read_to_string("/proc/self/stat").unwrap();
    let after_name = stat.rsplit_once(") ").unwrap().1;
    let fields: Vec<&str> = after_name.split(' ').collect();
    // `cutime` and `cstime` are the 16th and 17th of all fields, the name being the second.
    let ticks: f64 = fields[13..15].iter().map(|field| field.parse::<f64>().unwrap()).sum();
    ticks / TICKS_PER_SECOND
}
