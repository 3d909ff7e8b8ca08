//! Test binaries of the workspace, two at a time and the longest first: many tests wait, and cargo runs one binary
//! after another.
//!
//! Each runs as cargo runs it, in the folder of its package. Its output is kept in `target/tests/NAME.log`, and printed
//! when it fails.

use std::collections::VecDeque;
use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::{Mutex, PoisonError};
use std::time::Instant;

use anyhow::{Context, Result, bail};
use serde_json::Value;

use crate::cargo;
use crate::vitals::{children_cpu, wait_with_cpu};

/// Binaries that run at the same time.
const AT_A_TIME: usize = 2;

/// Those that take longest, in this order; all others follow.
const LONGEST: [&str; 6] = [
    "procprof-main",
    "procprof-preload-main",
    "procprof-agent-main",
    "procprof-report-main",
    "procprof-profile-main",
    "procprof-server-main",
];

/// A binary of tests.
#[derive(Debug, PartialEq, Eq)]
struct TestBinary {
    /// Its package and target.
    name: String,
    /// The folder of its package.
    folder: PathBuf,
    executable: PathBuf,
}

/// Builds all tests, and runs them with this many threads in each binary.
///
/// # Errors
/// They cannot be built, or some fail.
pub(crate) fn run(threads: &str) -> Result<()> {
    let mut binaries = build()?;
    let place = |binary: &TestBinary| LONGEST.iter().position(|name| *name == binary.name).unwrap_or(LONGEST.len());
    binaries.sort_by_key(place);
    let logs = Path::new("target/tests");
    std::fs::create_dir_all(logs).context("create target/tests")?;
    let waiting = Mutex::new(VecDeque::from(binaries));
    let failed: Mutex<Vec<String>> = Mutex::default();
    let panics: Mutex<String> = Mutex::default();
    let start = Instant::now();
    std::thread::scope(|scope| {
        for _ in 0..AT_A_TIME {
            scope.spawn(|| {
                while let Some(binary) = next(&waiting) {
                    match binary.run(threads, logs) {
                        Ok(None) => {}
                        Ok(Some(output)) => {
                            lock(&panics).extend(panics_of(&output));
                            lock(&failed).push(binary.name);
                        }
                        Err(error) => lock(&failed).push(format!("{}: {error:#}", binary.name)),
                    }
                }
            });
        }
    });
    eprintln!("xtask: {:.0} s: all test binaries, {AT_A_TIME} at a time", start.elapsed().as_secs_f64());
    let failed = failed.into_inner().unwrap_or_else(PoisonError::into_inner);
    if !failed.is_empty() {
        // Last, where a log is read first.
        eprint!("{}", panics.into_inner().unwrap_or_else(PoisonError::into_inner));
        bail!("failed: {}", failed.join(", "));
    }
    Ok(())
}

fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

fn next(waiting: &Mutex<VecDeque<TestBinary>>) -> Option<TestBinary> {
    lock(waiting).pop_front()
}

/// Builds the product's tests, and those of this program by themselves: its dependencies would add features to those of
/// the product, whose examples would be built with other ones, DataFusion included.
fn build() -> Result<Vec<TestBinary>> {
    let mut binaries = build_of(&cargo::PRODUCT)?;
    binaries.extend(build_of(&["--package", "xtask"])?);
    Ok(binaries)
}

fn build_of(packages: &[&str]) -> Result<Vec<TestBinary>> {
    let words: Vec<&str> = ["test", "--locked", "--no-run", "--message-format=json-render-diagnostics"]
        .into_iter()
        .chain(packages.iter().copied())
        .collect();
    let line = format!("cargo {}", words.join(" "));
    eprintln!("xtask: {line}");
    let start = Instant::now();
    let before = children_cpu()?;
    let output =
        Command::new("cargo").args(&words).stderr(Stdio::inherit()).output().with_context(|| format!("run {line}"))?;
    let cpu = children_cpu()? - before;
    eprintln!("xtask: {:.0} s, CPU time {cpu:.0} s: {line}", start.elapsed().as_secs_f64());
    if !output.status.success() {
        bail!("{line} failed");
    }
    let binaries: Vec<TestBinary> = String::from_utf8_lossy(&output.stdout).lines().filter_map(test_binary).collect();
    if binaries.is_empty() {
        bail!("{line} built no tests");
    }
    Ok(binaries)
}

/// The test binary that a message of cargo names, if it names one.
fn test_binary(message: &str) -> Option<TestBinary> {
    let message: Value = serde_json::from_str(message).ok()?;
    if message["reason"] != "compiler-artifact" || message["profile"]["test"] != true {
        return None;
    }
    let folder = Path::new(message["manifest_path"].as_str()?).parent()?.to_owned();
    let (package, target) = (folder.file_name()?.to_str()?, message["target"]["name"].as_str()?);
    let kind = message["target"]["kind"][0].as_str()?;
    // A library and a program may have the same name.
    let name = if kind == "test" { format!("{package}-{target}") } else { format!("{package}-{kind}-{target}") };
    Some(TestBinary { name, executable: message["executable"].as_str()?.into(), folder })
}

/// Of the output of a test binary, the panics of the tests that failed, each headed by the test's name.
fn panics_of(output: &str) -> Option<String> {
    let (_, failures) = output.split_once("\nfailures:\n")?;
    let (outputs, _) = failures.split_once("\nfailures:\n").unwrap_or((failures, ""));
    let mut panics = String::new();
    let mut is_panic = false;
    for line in outputs.lines() {
        if let Some(name) = line.strip_prefix("---- ").and_then(|line| line.strip_suffix(" stdout ----")) {
            panics.push_str(&format!("xtask: failed: {name}\n"));
            is_panic = false;
        } else if line.contains("panicked at ") {
            is_panic = true;
        } else if line.is_empty() || line == "stack backtrace:" || line.starts_with("note: run with `RUST_BACKTRACE") {
            is_panic = false;
        }
        if is_panic {
            panics.push_str(&format!("  {line}\n"));
        }
    }
    Some(panics)
}

impl TestBinary {
    /// Runs it, and reports how it ended; its output where tests failed.
    fn run(&self, threads: &str, logs: &Path) -> Result<Option<String>> {
        let path = logs.join(format!("{}.log", self.name));
        let log = File::create(&path).with_context(|| format!("create {}", path.display()))?;
        let start = Instant::now();
        let mut command = Command::new(&self.executable);
        command.current_dir(&self.folder).env("CARGO_MANIFEST_DIR", &self.folder).env("RUST_TEST_THREADS", threads);
        command.stdin(Stdio::null()).stdout(log.try_clone()?).stderr(log);
        let run = || format!("run {}", self.executable.display());
        let (status, cpu) = wait_with_cpu(&mut command.spawn().with_context(run)?).with_context(run)?;
        let output = String::from_utf8_lossy(&std::fs::read(&path)?).into_owned();
        let result = output.lines().rev().find_map(|line| line.strip_prefix("test result: ")).unwrap_or("no result");
        let seconds = start.elapsed().as_secs_f64();
        if status.success() {
            eprintln!("xtask: {seconds:.0} s, CPU time {cpu:.0} s: {}: {result}", self.name);
            return Ok(None);
        }
        eprintln!("{output}\nxtask: {seconds:.0} s, CPU time {cpu:.0} s: {}: {status}: {result}", self.name);
        Ok(Some(output))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn panics_are_found_in_the_output_of_a_test_binary() {
        let output = "running 2 tests\ntest a ... ok\ntest b::c ... FAILED\n\nfailures:\n\n---- b::c stdout ----\n\
            a line of the server\n\nthread 'b::c' panicked at tests/b.rs:7:5:\nassertion failed: left\n  left: 1\n\
            note: run with `RUST_BACKTRACE=1` environment variable to display a backtrace\n\n\nfailures:\n    b::c\n\n\
            test result: FAILED. 1 passed; 1 failed\n";
        let panics =
            "xtask: failed: b::c\n  thread 'b::c' panicked at tests/b.rs:7:5:\n  assertion failed: left\n    left: 1\n";
        assert_eq!(panics_of(output).as_deref(), Some(panics));
        assert_eq!(panics_of("test result: ok. 1 passed"), None);
    }

    #[test]
    fn messages_of_cargo_name_test_binaries() {
        let message = |kind: &str, is_test: bool, executable: &str| {
            format!(
                r#"{{"reason":"compiler-artifact","package_id":"x","manifest_path":"/w/crates/procprof/Cargo.toml",
                "target":{{"kind":["{kind}"],"name":"procprof"}},"profile":{{"test":{is_test}}},"executable":{executable}}}"#
            )
        };
        let binary = |name: &str| {
            Some(TestBinary {
                name: name.to_owned(),
                folder: "/w/crates/procprof".into(),
                executable: "/t/procprof-1".into(),
            })
        };
        assert_eq!(test_binary(&message("test", true, r#""/t/procprof-1""#)), binary("procprof-procprof"));
        assert_eq!(test_binary(&message("bin", true, r#""/t/procprof-1""#)), binary("procprof-bin-procprof"));
        assert_eq!(test_binary(&message("bin", false, r#""/t/procprof-1""#)), None, "the program itself");
        assert_eq!(test_binary(&message("lib", true, "null")), None, "not linked");
        assert_eq!(test_binary(r#"{"reason":"build-finished","success":true}"#), None);
        assert_eq!(test_binary("warning: text"), None);
    }
}
