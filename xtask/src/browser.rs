//! The viewer's script: its types are checked, and its pages driven in Chromium, by programs of Node.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Instant;

use anyhow::{Context, Result, ensure};

use crate::tools;
use crate::vitals::wait_with_cpu;

/// The folder with the tests and the list of packages.
pub(crate) const FOLDER: &str = "browser-tests";
/// The programs that the tests need beside cargo.
const PROGRAMS: &[(&str, &str)] = &[("node", "nodejs"), ("npm", "npm"), ("chromium", "chromium")];

/// Checks the types that the script's comments declare.
pub(crate) fn check_types() -> Result<()> {
    let folder = installed()?;
    run(Command::new(folder.join("node_modules/.bin/tsc")).args(["-p", "."]).current_dir(folder))
}

/// The files of tests, which drive servers with stored profiles through every control of their pages.
///
/// # Errors
/// A package or program is missing.
pub(crate) fn files() -> Result<Vec<String>> {
    let folder = installed()?;
    let entries = std::fs::read_dir(&folder).with_context(|| format!("read {}", folder.display()))?;
    let names = entries.flatten().filter_map(|entry| entry.file_name().into_string().ok());
    let mut files: Vec<String> = names.filter(|name| name.ends_with(".test.mjs")).collect();
    files.sort();
    Ok(files)
}

/// The folder with its packages as the list has them.
fn installed() -> Result<PathBuf> {
    tools::ensure_present(PROGRAMS)?;
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).parent().context("xtask lies in the workspace")?;
    let folder = root.join(FOLDER);
    let listed = std::fs::read(folder.join("package-lock.json")).context("read package-lock.json")?;
    let mark = folder.join("node_modules/.procprof-lock");
    if std::fs::read(&mark).is_ok_and(|fetched| fetched == listed) {
        return Ok(folder);
    }
    run(Command::new("npm").args(["ci", "--silent", "--no-audit", "--no-fund"]).current_dir(&folder))?;
    std::fs::write(&mark, listed).with_context(|| format!("write {}", mark.display()))?;
    Ok(folder)
}

fn run(command: &mut Command) -> Result<()> {
    eprintln!("xtask: {command:?}");
    let start = Instant::now();
    let mut child = command.spawn().with_context(|| format!("run {command:?}"))?;
    let (status, cpu) = wait_with_cpu(&mut child).with_context(|| format!("run {command:?}"))?;
    eprintln!("xtask: {:.0} s, CPU time {cpu:.0} s: {command:?}", start.elapsed().as_secs_f64());
    ensure!(status.success(), "{command:?}: {status}");
    Ok(())
}
