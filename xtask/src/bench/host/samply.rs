//! samply, installed from the crates registry.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use serde_json::Value;

use super::programs::quiet;
use crate::product::{self, Running};
use crate::vitals::Vitals;

const VERSION: &str = "0.13.1";
/// Longest wait for its end.
const PATIENCE: Duration = Duration::from_secs(120);

/// The program, installed.
pub(super) struct Samply(PathBuf);

impl Samply {
    /// Installs it unless it is there.
    pub(super) fn install() -> Result<Samply> {
        let paranoid = std::fs::read_to_string("/proc/sys/kernel/perf_event_paranoid").context("read the sysctl")?;
        let paranoid: i32 = paranoid.trim().parse().context("read kernel.perf_event_paranoid")?;
        ensure!(
            paranoid <= 1,
            "samply refuses to record, also as root, while kernel.perf_event_paranoid is {paranoid}; for these \
             measurements: sysctl kernel.perf_event_paranoid=1"
        );
        let folder = product::target()?.join("bench-host");
        let program = folder.join("bin/samply");
        if !program.exists() {
            eprintln!("xtask: installing samply {VERSION}");
            let mut cargo = Command::new("cargo");
            cargo.args(["install", "--quiet", "--locked", "--version", VERSION, "--root"]).arg(&folder).arg("samply");
            quiet(&mut cargo)?;
        }
        Ok(Samply(program))
    }

    /// Records a process for some seconds; returns how many samples it took, and of which CPU time.
    pub(super) fn samples(&self, pid: u32, hz: u32, seconds: u64) -> Result<(f64, f64)> {
        let folder = tempfile::tempdir().context("make a folder")?;
        let file = folder.path().join("profile.json");
        let before = super::children_cpu()?;
        let mut command = self.record(pid, hz, &file);
        quiet(command.args(["--duration", &seconds.to_string()]))?;
        Ok((count_samples(&file)?, super::children_cpu()? - before))
    }

    /// Records a process for some seconds; returns the wall and CPU time from its interrupt to the written profile and
    /// its table of symbols.
    pub(super) fn end(&self, pid: u32, hz: u32, seconds: u64) -> Result<(f64, f64)> {
        let folder = tempfile::tempdir().context("make a folder")?;
        let file = folder.path().join("profile.json");
        let mut command = self.record(pid, hz, &file);
        command.arg("--unstable-presymbolicate").stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        let mut running = Running::new(command.spawn().context("start samply")?);
        std::thread::sleep(Duration::from_secs(seconds));
        let recording = Vitals::from_pid(running.pid())?.cpu;
        let (began, before) = (Instant::now(), super::children_cpu()?);
        quiet(Command::new("kill").args(["-INT", &running.pid().to_string()]))?;
        while running.ended()?.is_none() {
            ensure!(began.elapsed() < PATIENCE, "samply does not end");
            std::thread::sleep(Duration::from_millis(5));
        }
        let wall = began.elapsed().as_secs_f64();
        ensure!(count_samples(&file)? > 0.0, "samply took no samples");
        Ok((wall, super::children_cpu()? - before - recording))
    }

    fn record(&self, pid: u32, hz: u32, file: &Path) -> Command {
        let mut command = Command::new(&self.0);
        command.args(["record", "--save-only", "--rate", &hz.to_string(), "-p", &pid.to_string(), "-o"]).arg(file);
        command
    }
}

/// The samples of all threads of a profile in the format of the Firefox Profiler.
fn count_samples(file: &Path) -> Result<f64> {
    let text = std::fs::read(file).context("read samply's profile")?;
    let profile: Value = serde_json::from_slice(&text).context("read samply's profile")?;
    let threads = profile["threads"].as_array().context("samply's profile has no threads")?;
    Ok(threads.iter().filter_map(|thread| thread["samples"]["length"].as_f64()).sum())
}
