//! Programs of tests: the test binaries of the workspace, the unwinder's on aarch64, the pages in a browser, and the
//! examples of the documentation.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context, Result, ensure};
use serde_json::Value;

use super::events::Events;
use crate::{browser, cargo, ports};

/// Those that take longest, in this order; all others follow.
const LONGEST: [&str; 10] = [
    "procprof-main",
    "browser-pages",
    "procprof-preload-main",
    "browser-viewer",
    "procprof-agent-main",
    "procprof-server-main",
    "procprof-report-main",
    "procprof-collect-main",
    "procprof-profile-main",
    "examples",
];

/// A program of tests, which tells its events (see `super::events`).
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Suite {
    /// Package and target, or what it tests.
    pub(crate) name: String,
    kind: Kind,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Kind {
    /// A binary with libtest's harness.
    Binary {
        /// The folder of its package, in which cargo would run it.
        folder: PathBuf,
        /// It, behind the emulator that runs it.
        words: Vec<String>,
    },
    /// A file for Node.
    Browser { file: String },
    /// Of the documentation of all libraries.
    Examples,
}

/// Which tests of a suite are run.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Wanted<'a> {
    /// All but those that are ignored.
    All,
    /// Of these, those whose name contains one of the words.
    Matching(&'a [String]),
    /// Those with just these names, also if they are ignored.
    Named(&'a [String]),
    /// Those that are ignored for their length.
    Long,
}

/// An ignored test that is a process of other tests.
const HELPER: &str = "records_until_it_is_killed";

/// Builds the preload library as users do: with the features that it asks for alone, and by rustc, since Clippy's driver
/// switches optimizations off that the sampler needs at high rates. Cargo does not build it for its tests.
///
/// # Errors
/// It cannot be built.
pub(crate) fn build_preload_library() -> Result<PathBuf> {
    let mut command = Command::new("cargo");
    command.args(["build", "--locked", "--package", "procprof-preload", "--lib", "--message-format=json"]);
    let messages = cargo::build(command)?.messages;
    let files = messages.iter().filter_map(|message| message["filenames"].as_array()).flatten();
    let library = files.filter_map(Value::as_str).find(|file| file.ends_with("libprocprof_preload.so"));
    Ok(library.context("cargo names no libprocprof_preload.so")?.into())
}

/// Builds all tests; the suites, the longest first.
///
/// # Errors
/// They cannot be built, or a program that they need is missing.
pub(crate) fn build() -> Result<Vec<Suite>> {
    let mut suites: Vec<Suite> =
        cargo::build_tests()?.messages.iter().filter_map(|message| binary(message, &[])).collect();
    ensure!(!suites.is_empty(), "the workspace has no tests");
    let emulated = ports::build_tests()?.messages;
    suites.extend(emulated.iter().filter_map(|message| binary(message, ports::EMULATOR)));
    suites.extend(browser::files()?.into_iter().map(|file| {
        let name = file.split('.').next().unwrap_or_default();
        Suite { name: format!("browser-{name}"), kind: Kind::Browser { file } }
    }));
    suites.push(Suite { name: "examples".to_owned(), kind: Kind::Examples });
    suites.sort_by_key(|suite| LONGEST.iter().position(|name| *name == suite.name).unwrap_or(LONGEST.len()));
    Ok(suites)
}

/// The test binary that a message of cargo names, if it names one.
fn binary(message: &Value, emulator: &[&str]) -> Option<Suite> {
    if message["reason"] != "compiler-artifact" || message["profile"]["test"] != true {
        return None;
    }
    let folder = Path::new(message["manifest_path"].as_str()?).parent()?.to_owned();
    let (package, target) = (folder.file_name()?.to_str()?, message["target"]["name"].as_str()?);
    let kind = message["target"]["kind"][0].as_str()?;
    // Benchmarks have no tests, and no harness that would say so.
    if kind == "bench" {
        return None;
    }
    // A library and a program may have the same name.
    let mut name = if kind == "test" { format!("{package}-{target}") } else { format!("{package}-{kind}-{target}") };
    if !emulator.is_empty() {
        name.push_str("-aarch64");
    }
    let words = emulator.iter().copied().chain([message["executable"].as_str()?]).map(str::to_owned).collect();
    Some(Suite { name, kind: Kind::Binary { folder, words } })
}

impl Suite {
    /// A program that takes libtest's options and tells its events.
    #[cfg(test)]
    pub(crate) fn program(name: &str, folder: &Path, words: &[&str]) -> Suite {
        let words = words.iter().map(|word| (*word).to_owned()).collect();
        Suite { name: name.to_owned(), kind: Kind::Binary { folder: folder.to_owned(), words } }
    }

    /// The command that runs tests of it, with this many at the same time where they share a process.
    ///
    /// # Errors
    /// A tool is missing.
    pub(crate) fn command(&self, wanted: Wanted<'_>, threads: &str) -> Result<Command> {
        Ok(match &self.kind {
            Kind::Binary { folder, words } => {
                let mut command = harness(folder, words);
                command.args(["--format", "json", "--report-time"]).env("RUST_TEST_THREADS", threads);
                command.args(selection(wanted));
                command
            }
            Kind::Browser { file } => {
                let patterns: Vec<String> = match wanted {
                    Wanted::All => Vec::new(),
                    Wanted::Matching(words) => words.iter().map(|word| escaped(word)).collect(),
                    Wanted::Named(names) => names.iter().map(|name| format!("^{}$", escaped(name))).collect(),
                    Wanted::Long => vec!["^$".to_owned()],
                };
                let mut command = Command::new("node");
                command.args(["--test", "--test-reporter=./reporter.mjs"]).current_dir(browser::FOLDER);
                command.args(patterns.iter().map(|pattern| format!("--test-name-pattern=/{pattern}/")));
                command.arg(file).stdin(Stdio::null());
                command
            }
            Kind::Examples => {
                let mut command = cargo::everything("test", &["--doc", "--no-fail-fast"])?;
                command.arg("--").args(selection(wanted));
                command
            }
        })
    }

    /// What its program told.
    pub(crate) fn events(&self, output: &str) -> Events {
        if self.kind == Kind::Examples { Events::parse_examples(output) } else { Events::parse(output) }
    }

    /// Whether a run of these tests is worth its start.
    ///
    /// # Errors
    /// Its tests cannot be read.
    pub(crate) fn may_have(&self, wanted: Wanted<'_>) -> Result<bool> {
        match (&self.kind, wanted) {
            (Kind::Binary { .. }, _) | (_, Wanted::All) | (Kind::Examples, Wanted::Named(_)) => Ok(true),
            (_, Wanted::Long) | (Kind::Examples, Wanted::Matching(_)) => Ok(false),
            (Kind::Browser { file }, Wanted::Matching(words) | Wanted::Named(words)) => {
                let path = Path::new(browser::FOLDER).join(file);
                let text = std::fs::read_to_string(&path).with_context(|| format!("read {}", path.display()))?;
                Ok(words.iter().any(|word| text.contains(word.as_str())))
            }
        }
    }

    /// Whether its tests can be read only in its file.
    pub(crate) fn is_file(&self) -> bool {
        matches!(self.kind, Kind::Browser { .. })
    }

    /// The names of the tests that a run of these would run, if the program can tell them.
    ///
    /// # Errors
    /// It cannot be asked.
    pub(crate) fn list(&self, wanted: Wanted<'_>) -> Result<Vec<String>> {
        let Kind::Binary { folder, words } = &self.kind else { return Ok(Vec::new()) };
        let mut command = harness(folder, words);
        command.args(["--list", "--format", "terse"]).args(selection(wanted));
        let output = command.stderr(Stdio::inherit()).output().with_context(|| format!("run {command:?}"))?;
        ensure!(output.status.success(), "{command:?}: {}", output.status);
        let text = String::from_utf8_lossy(&output.stdout);
        Ok(text.lines().filter_map(|line| line.strip_suffix(": test")).map(str::to_owned).collect())
    }
}

/// A binary as cargo would run it, ready for libtest's options.
fn harness(folder: &Path, words: &[String]) -> Command {
    let mut command = Command::new(&words[0]);
    command.args(&words[1..]).current_dir(folder).env("CARGO_MANIFEST_DIR", folder).stdin(Stdio::null());
    // Events and times of tests are options of a nightly libtest; the toolchain is pinned.
    command.args(["-Z", "unstable-options"]).env("RUSTC_BOOTSTRAP", "1");
    command
}

/// libtest's arguments that select tests.
fn selection(wanted: Wanted<'_>) -> Vec<&str> {
    match wanted {
        Wanted::All => Vec::new(),
        Wanted::Matching(words) => words.iter().map(String::as_str).collect(),
        Wanted::Named(names) => {
            ["--include-ignored", "--exact"].into_iter().chain(names.iter().map(String::as_str)).collect()
        }
        Wanted::Long => vec!["--ignored", "--skip", HELPER],
    }
}

/// A text as a regular expression of JavaScript.
fn escaped(text: &str) -> String {
    let mut pattern = String::with_capacity(text.len());
    for letter in text.chars() {
        if r"\^$.*+?()[]{}|/".contains(letter) {
            pattern.push('\\');
        }
        pattern.push(letter);
    }
    pattern
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn messages_of_cargo_name_test_binaries() {
        let message = |kind: &str, is_test: bool, executable: Value| {
            json!({
                "reason": "compiler-artifact", "manifest_path": "/w/crates/procprof/Cargo.toml",
                "target": { "kind": [kind], "name": "procprof" }, "profile": { "test": is_test },
                "executable": executable,
            })
        };
        let name = |message: &Value| binary(message, &[]).map(|suite| suite.name);
        assert_eq!(name(&message("test", true, json!("/t/procprof-1"))).as_deref(), Some("procprof-procprof"));
        assert_eq!(name(&message("bin", true, json!("/t/procprof-1"))).as_deref(), Some("procprof-bin-procprof"));
        assert_eq!(name(&message("bin", false, json!("/t/procprof-1"))), None, "the program itself");
        assert_eq!(name(&message("bench", true, json!("/t/procprof-1"))), None, "a benchmark");
        assert_eq!(name(&message("lib", true, Value::Null)), None, "not linked");
        assert_eq!(name(&json!({ "reason": "build-finished", "success": true })), None);
        let emulated = binary(&message("test", true, json!("/t/procprof-1")), &["qemu-aarch64", "-L", "/usr"]);
        assert_eq!(emulated.map(|suite| suite.name).as_deref(), Some("procprof-procprof-aarch64"));
    }

    #[test]
    fn names_are_patterns_that_match_them_alone() {
        assert_eq!(escaped("a page (of /top) fits?"), r"a page \(of \/top\) fits\?");
    }
}
