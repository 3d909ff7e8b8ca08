//! Checks and their results, and the checks that both parts share.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result};

use crate::table::Table;

/// Everything checked so far.
#[derive(Default)]
pub(super) struct Checks {
    rows: Vec<(String, String, bool)>,
}

impl Checks {
    /// Adds a check: the condition, the result, and whether it holds.
    pub(super) fn add(&mut self, what: impl Into<String>, found: impl Into<String>, holds: impl Into<bool>) {
        let (what, found, holds) = (what.into(), found.into(), holds.into());
        eprintln!("xtask: {} {what}: {found}", if holds { "ok" } else { "FAILED" });
        self.rows.push((what, found, holds));
    }

    /// Adds all of another part.
    pub(super) fn join(&mut self, other: Checks) {
        self.rows.extend(other.rows);
    }

    pub(super) fn failed(&self) -> usize {
        self.rows.iter().filter(|(.., holds)| !holds).count()
    }

    pub(super) fn print(&self) {
        let mut table = Table::new(&["check", "found", "holds"]);
        for (what, found, holds) in &self.rows {
            table.row([
                what.clone(),
                found.replace('|', "\\|").replace('\n', " "),
                if *holds { "yes" } else { "NO" }.to_owned(),
            ]);
        }
        table.print("Soak");
    }

    /// Every stored file opens in `go tool pprof`, and there are no other files.
    pub(super) fn files(&mut self, data: &Path, when: &str) -> Result<()> {
        let files = files(&data.join("profiles"));
        let (whole, left_over): (Vec<_>, Vec<_>) =
            files.into_iter().partition(|path| path.to_string_lossy().ends_with("-pprof.gz"));
        self.add(
            format!("no half-written file {when}"),
            format!("{} besides {} profiles", left_over.len(), whole.len()),
            left_over.is_empty(),
        );
        let mut unread = Vec::new();
        for file in &whole {
            let run = Command::new("go")
                .args(["tool", "pprof", "-symbolize=none", "-raw"])
                .arg(file)
                .output()
                .context("run go tool pprof")?;
            if !run.status.success() || !String::from_utf8_lossy(&run.stdout).contains("\nSamples:\n") {
                unread.push(file.display().to_string());
            }
        }
        let found = match unread.first() {
            None => format!("all {}", whole.len()),
            Some(first) => format!("{} of {} do not, {first} first", unread.len(), whole.len()),
        };
        self.add(format!("go tool pprof -raw opens every file {when}"), found, unread.is_empty() && !whole.is_empty());
        Ok(())
    }
}

/// Every file below a folder.
pub(super) fn files(folder: &Path) -> Vec<PathBuf> {
    let Ok(entries) = std::fs::read_dir(folder) else { return Vec::new() };
    let paths = entries.map_while(Result::ok).map(|entry| entry.path());
    paths.flat_map(|path| if path.is_dir() { files(&path) } else { vec![path] }).collect()
}
