//! Cargo as a step of this program: named before, timed after.

use std::ffi::OsStr;
use std::process::{Command, Stdio};
use std::time::Instant;

use anyhow::{Context, Result, bail};

use crate::vitals::wait_with_cpu;

/// Packages of the workspace that are no part of the product, whose dependencies would add features to the product's.
pub(crate) const TOOLS: [&str; 2] = ["procprof-fuzz", "xtask"];

/// Arguments that select the packages and features of the product's tests. What is built with others is built again.
pub(crate) const PRODUCT: [&str; 6] = ["--workspace", "--exclude", TOOLS[0], "--exclude", TOOLS[1], "--all-features"];

/// One run of cargo.
pub(crate) struct Step {
    command: Command,
    line: String,
}

impl Step {
    pub(crate) fn new(arguments: &[&str]) -> Self {
        let mut command = Command::new("cargo");
        // Cargo asks rustc about a target by compiling what it reads there.
        command.args(arguments).stdin(Stdio::null());
        Self { command, line: format!("cargo {}", arguments.join(" ")) }
    }

    pub(crate) fn env(mut self, name: &str, value: impl AsRef<OsStr>) -> Self {
        self.command.env(name, value);
        self
    }

    /// Runs it, and prints how long it took, and its CPU time.
    ///
    /// # Errors
    /// Cargo cannot be started, or fails.
    pub(crate) fn run(mut self) -> Result<()> {
        eprintln!("xtask: {}", self.line);
        let start = Instant::now();
        let mut child = self.command.spawn().with_context(|| format!("run {}", self.line))?;
        let (status, cpu) = wait_with_cpu(&mut child).with_context(|| format!("run {}", self.line))?;
        eprintln!("xtask: {:.0} s, CPU time {cpu:.0} s: {}", start.elapsed().as_secs_f64(), self.line);
        if !status.success() {
            bail!("{} failed", self.line);
        }
        Ok(())
    }
}
