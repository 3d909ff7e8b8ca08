//! A run of a program that prints `key value` lines.

use std::collections::BTreeMap;
use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result, ensure};

/// What a run printed.
#[derive(Debug)]
pub(super) struct Figures(BTreeMap<String, f64>);

impl Figures {
    /// A figure; not a number where it was not printed.
    pub(super) fn get(&self, key: &str) -> f64 {
        self.0.get(key).copied().unwrap_or(f64::NAN)
    }
}

/// Runs the program to its end. What it says on standard error is shown only when it fails.
pub(super) fn run(program: &Path, arguments: &[&str], hz: u64) -> Result<Figures> {
    // gperftools reads its rate here; others are told it as an argument.
    let output = Command::new(program).args(arguments).env("CPUPROFILE_FREQUENCY", hz.to_string()).output();
    let output = output.with_context(|| format!("run {}", program.display()))?;
    let told = String::from_utf8_lossy(&output.stderr);
    ensure!(output.status.success(), "{} {} ended with {}: {told}", program.display(), arguments.join(" "), output.status);
    let text = String::from_utf8_lossy(&output.stdout);
    let figures =
        text.lines().filter_map(|line| line.split_once(' ')).filter_map(|(key, value)| Some((key.to_owned(), value.parse().ok()?)));
    Ok(Figures(figures.collect()))
}
