//! Cargo as a step of this program: named before, timed after.

use std::ffi::OsStr;
use std::io::{BufRead, BufReader};
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::time::Instant;

use anyhow::{Context, Result, bail};
use serde_json::Value;

use crate::vitals::wait_with_cpu;

/// Arguments that select all packages and features. One selection serves lints, tests and examples: what is built with
/// other features is built again, DataFusion included.
const EVERYTHING: [&str; 3] = ["--locked", "--workspace", "--all-features"];

/// Packages of the workspace that are no part of the product.
pub(crate) const TOOLS: [&str; 2] = ["procprof-fuzz", "xtask"];

/// What a build told.
pub(crate) struct Built {
    /// Cargo's messages about what it built, in JSON.
    pub(crate) messages: Vec<Value>,
    /// Warnings of rustc and Clippy.
    pub(crate) warnings: usize,
}

/// Cargo with a subcommand for all packages.
///
/// # Errors
/// Clippy cannot be found.
pub(crate) fn everything(subcommand: &str, more: &[&str]) -> Result<Command> {
    let mut command = linted(subcommand)?;
    command.args(EVERYTHING).args(more);
    Ok(command)
}

/// Cargo with a subcommand that compiles the packages of the workspace with all lints.
///
/// # Errors
/// Clippy cannot be found.
pub(crate) fn linted(subcommand: &str) -> Result<Command> {
    let mut command = Command::new("cargo");
    command.arg(subcommand).stdin(Stdio::null());
    // The compiler with Clippy's lints, for the packages of the workspace: they are compiled once, not checked and
    // compiled, and so are all that they depend on.
    command.env("RUSTC_WORKSPACE_WRAPPER", clippy()?);
    Ok(command)
}

/// Builds everything there is: libraries, programs, tests, benchmarks and fuzz targets.
///
/// # Errors
/// Something cannot be built, or fetched.
pub(crate) fn build_everything() -> Result<Built> {
    build(everything("build", &["--all-targets", "--keep-going", "--message-format=json"])?)
}

/// Builds all tests, and the programs that they start.
///
/// # Errors
/// Something cannot be built, or fetched.
pub(crate) fn build_tests() -> Result<Built> {
    build(everything("test", &["--no-run", "--message-format=json"])?)
}

/// Runs a build with messages in JSON, and prints what the compiler says.
///
/// # Errors
/// It fails.
pub(crate) fn build(mut command: Command) -> Result<Built> {
    Step::new(&["fetch", "--locked"]).run().context("crates.io does not answer, or lacks a crate of Cargo.lock")?;
    let line = line_of(&command);
    eprintln!("xtask: {line}");
    let start = Instant::now();
    let mut child = command.stdout(Stdio::piped()).spawn().with_context(|| format!("run {line}"))?;
    let mut built = Built { messages: Vec::new(), warnings: 0 };
    for message in BufReader::new(child.stdout.take().context("the output of cargo")?).lines() {
        let message = message.with_context(|| format!("read the output of {line}"))?;
        // Build scripts and linkers may print, too.
        let Ok(message) = serde_json::from_str::<Value>(&message) else { continue };
        if message["reason"] != "compiler-message" {
            built.messages.push(message);
            continue;
        }
        let told = &message["message"];
        eprint!("{}", told["rendered"].as_str().unwrap_or_default());
        // Summaries have no code and no place.
        let is_summary = told["spans"].as_array().is_some_and(Vec::is_empty) && told["code"].is_null();
        built.warnings += usize::from(told["level"] == "warning" && !is_summary);
    }
    let (status, cpu) = wait_with_cpu(&mut child).with_context(|| format!("run {line}"))?;
    eprintln!("xtask: {:.0} s, CPU time {cpu:.0} s: {line}", start.elapsed().as_secs_f64());
    if !status.success() {
        bail!("{line} failed");
    }
    Ok(built)
}

fn line_of(command: &Command) -> String {
    let words = command.get_args().map(OsStr::to_string_lossy).collect::<Vec<_>>();
    format!("cargo {}", words.join(" "))
}

/// The compiler with Clippy's lints, of the pinned toolchain.
fn clippy() -> Result<PathBuf> {
    let output = Command::new("rustc").args(["--print", "sysroot"]).output().context("run rustc --print sysroot")?;
    let path = PathBuf::from(String::from_utf8_lossy(&output.stdout).trim()).join("bin/clippy-driver");
    if !path.exists() {
        bail!("missing: {}; rustup component add clippy", path.display());
    }
    Ok(path)
}

/// One run of cargo.
pub(crate) struct Step(Command);

impl Step {
    pub(crate) fn new(arguments: &[&str]) -> Self {
        let mut command = Command::new("cargo");
        // Cargo asks rustc about a target by compiling what it reads there.
        command.args(arguments).stdin(Stdio::null());
        Self(command)
    }

    pub(crate) fn of(command: Command) -> Self {
        Self(command)
    }

    pub(crate) fn env(mut self, name: &str, value: impl AsRef<OsStr>) -> Self {
        self.0.env(name, value);
        self
    }

    /// Runs it, and prints how long it took, and its CPU time.
    ///
    /// # Errors
    /// Cargo cannot be started, or fails.
    pub(crate) fn run(mut self) -> Result<()> {
        let line = line_of(&self.0);
        eprintln!("xtask: {line}");
        let start = Instant::now();
        let mut child = self.0.spawn().with_context(|| format!("run {line}"))?;
        let (status, cpu) = wait_with_cpu(&mut child).with_context(|| format!("run {line}"))?;
        eprintln!("xtask: {:.0} s, CPU time {cpu:.0} s: {line}", start.elapsed().as_secs_f64());
        if !status.success() {
            bail!("{line} failed");
        }
        Ok(())
    }
}
