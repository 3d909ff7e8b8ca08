//! A run of a program that prints `key value` lines.

use std::collections::BTreeMap;
use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result, ensure};

/// The output of a run.
#[derive(Debug)]
pub(super) struct Figures(BTreeMap<String, f64>);

impl Figures {
    /// A figure; NaN if it was not printed.
    pub(super) fn get(&self, key: &str) -> f64 {
        self.0.get(key).copied().unwrap_or(f64::NAN)
    }
}

/// Runs the program to its end, prepared further by `prepare`. Its standard error is shown only if it fails.
pub(super) fn run_with(program: &Path, arguments: &[&str], prepare: impl FnOnce(&mut Command)) -> Result<Figures> {
    let mut command = Command::new(program);
    command.args(arguments).env("RUST_BACKTRACE", "0");
    prepare(&mut command);
    let output = command.output().with_context(|| format!("run {}", program.display()))?;
    let errors = String::from_utf8_lossy(&output.stderr);
    ensure!(output.status.success(), "{}", complaint(&errors).unwrap_or(&output.status.to_string()));
    let text = String::from_utf8_lossy(&output.stdout);
    let figures = text
        .lines()
        .filter_map(|line| line.split_once(' '))
        .filter_map(|(key, value)| Some((key.to_owned(), value.parse().ok()?)));
    Ok(Figures(figures.collect()))
}

/// The message of a panic.
fn complaint(errors: &str) -> Option<&str> {
    let mut lines = errors.lines().skip_while(|line| !line.contains("panicked at"));
    lines.nth(1)
}
