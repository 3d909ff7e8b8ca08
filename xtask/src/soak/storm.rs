//! The agent inside a process, for as long as the watch takes: its heap profiler beside exact bookkeeping, then its
//! handler in storms of signals.
//!
//! These are the agent's own tests, which the environment makes longer.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context, Result, ensure};
use serde_json::Value;

use super::checks::Checks;

/// The share of the time for the bookkeeping; the rest is for the storms.
const BOOKKEEPING: f64 = 1.0 / 3.0;

/// A test program of the agent, by its name among cargo's targets.
struct Program {
    file: PathBuf,
    folder: PathBuf,
}

/// The agent's test programs.
pub(super) struct Storm {
    heap: Program,
    handler: Program,
}

impl Storm {
    /// Builds them and keeps copies in `folder`: those in the target folder may be rebuilt meanwhile.
    pub(super) fn build(folder: &Path) -> Result<Storm> {
        let output = Command::new("cargo")
            .args([
                "test",
                "--quiet",
                "--locked",
                "-p",
                "procprof-agent",
                "--all-features",
                "--lib",
                "--test",
                "main",
                "--no-run",
            ])
            .args(["--message-format", "json"])
            .stderr(Stdio::inherit())
            .output()
            .context("run cargo test")?;
        ensure!(output.status.success(), "the agent's tests do not build");
        let text = String::from_utf8(output.stdout).context("read what cargo built")?;
        Ok(Storm {
            heap: Program::find(&text, "main", folder)?,
            handler: Program::find(&text, "procprof_agent", folder)?,
        })
    }

    /// Runs the programs for `seconds` altogether. Returns the checks, their results, and whether they hold.
    pub(super) fn run(&self, seconds: u64) -> Result<Checks> {
        let mut checks = Checks::default();
        let bookkeeping = (seconds as f64 * BOOKKEEPING) as u64;
        let heap = ["--exact", "sampled::estimates_are_true_to_exact_bookkeeping_over_threads"];
        self.heap.run(
            "the agent's heap profiles beside exact bookkeeping",
            &heap,
            ("PROCPROF_SOAK_SECONDS", bookkeeping),
            " compared ",
            &mut checks,
        )?;
        let handler = ["cpu::safety::"];
        self.handler.run(
            "the agent's handler in storms",
            &handler,
            ("PROCPROF_STORM_SECONDS", seconds - bookkeeping),
            " signals",
            &mut checks,
        )?;
        Ok(checks)
    }
}

impl Program {
    /// The program of a target among cargo's messages.
    fn find(messages: &str, target: &str, folder: &Path) -> Result<Program> {
        let mut messages = messages.lines().filter_map(|line| serde_json::from_str::<Value>(line).ok());
        let message = messages.find(|message| message["target"]["name"] == target && message["executable"].is_string());
        let message = message.with_context(|| format!("cargo built no test program {target}"))?;
        let (built, manifest) =
            (message["executable"].as_str().unwrap_or_default(), message["manifest_path"].as_str().unwrap_or_default());
        let file = folder.join(format!("agent-tests-{target}"));
        fs::copy(built, &file).with_context(|| format!("copy {built}"))?;
        Ok(Program { file, folder: Path::new(manifest).parent().unwrap_or(Path::new(".")).to_owned() })
    }

    /// Runs tests for a while; their results are the lines that contain `telling`.
    fn run(
        &self,
        what: &str,
        tests: &[&str],
        (key, seconds): (&str, u64),
        mark: &str,
        checks: &mut Checks,
    ) -> Result<()> {
        eprintln!("xtask: {what} for {seconds} s");
        let mut command = Command::new(&self.file);
        let output =
            command.args(tests).arg("--nocapture").env(key, seconds.to_string()).current_dir(&self.folder).output();
        let output = output.with_context(|| format!("run {}", self.file.display()))?;
        let text = String::from_utf8_lossy(&output.stdout);
        let results: Vec<&str> = text
            .lines()
            .filter(|line| line.contains(mark))
            .map(|line| line.rsplit(" ... ").next().unwrap_or(line))
            .collect();
        let passed = output.status.success() && !results.is_empty();
        if !passed {
            eprintln!("{text}{}", String::from_utf8_lossy(&output.stderr));
        }
        checks.add(what, results.join("; "), passed);
        Ok(())
    }
}
