//! Tests that failed in a run: each is run again, alone, twice. One that passes both times is unsteady, and is listed
//! in `target/tests/unsteady`; any other has failed.

use std::fs;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::{hint, slice, thread};

use anyhow::{Context, Result, bail, ensure};

use super::events::{Ended, Ending};
use super::run::Runner;
use super::suites::{Suite, Wanted};

/// Runs, alone, of a test that has failed.
const REPETITIONS: usize = 2;

/// Threads that keep the machine busy while unsteady tests are run.
const BUSY: usize = 2;

/// The file of the list; below it, `NAME.txt` has what a test printed when it failed.
const LIST: &str = "unsteady";

/// A test of a suite that failed.
#[derive(Clone, Debug)]
pub(crate) struct Failure {
    pub(crate) suite: Suite,
    pub(crate) test: Ended,
}

/// Failures of a run, parted by what their repetitions said.
#[derive(Debug, Default)]
pub(crate) struct Judged {
    pub(crate) failed: Vec<Failure>,
    pub(crate) unsteady: Vec<Failure>,
}

/// Repeats tests that failed, after all others have ended.
///
/// # Errors
/// A suite cannot be started.
pub(crate) fn judge(runner: &Runner<'_>, failures: Vec<Failure>) -> Result<Judged> {
    let mut judged = Judged::default();
    for failure in failures {
        let name = &failure.test.name;
        eprintln!("xtask: failed: {} {name}\n{}", failure.suite.name, failure.test.output.trim_end());
        if passes_alone(runner, &failure.suite, name)? {
            judged.unsteady.push(failure);
        } else {
            judged.failed.push(failure);
        }
    }
    Ok(judged)
}

/// Whether a test passes each time when it is repeated; the first failure ends the repetitions.
fn passes_alone(runner: &Runner<'_>, suite: &Suite, name: &str) -> Result<bool> {
    for number in 1..=REPETITIONS {
        if let Some(output) = passes(runner, suite, name)? {
            eprintln!("xtask: failed alone, run {number} of {REPETITIONS}: {name}\n{}", output.trim_end());
            return Ok(false);
        }
        eprintln!("xtask: passed alone, run {number} of {REPETITIONS}: {name}");
    }
    Ok(true)
}

/// Runs one test alone; what it printed if it failed, or was not run.
fn passes(runner: &Runner<'_>, suite: &Suite, name: &str) -> Result<Option<String>> {
    let ran = runner.run(suite, Wanted::Named(slice::from_ref(&name.to_owned())))?;
    if let Some(failed) = ran.ended.iter().find(|test| test.ending == Ending::Failed) {
        return Ok(Some(failed.output.clone()));
    }
    let is_run = ran.ended.iter().any(|test| test.name == name && test.ending == Ending::Passed);
    Ok((!is_run).then(|| format!("no test of {} is called {name}", suite.name)))
}

/// Keeps the list of unsteady tests, one a line, and what each printed.
///
/// # Errors
/// A file cannot be written.
pub(crate) fn keep(logs: &Path, unsteady: &[Failure]) -> Result<()> {
    let folder = logs.join(LIST);
    match fs::remove_dir_all(&folder) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
            return Err(error).context("remove an older list");
        }
        _ => {}
    }
    fs::create_dir_all(&folder).context("create the folder of unsteady tests")?;
    let mut list = String::new();
    for Failure { suite, test } in unsteady {
        list.push_str(&format!("{} {}\n", suite.name, test.name));
        let file: String =
            test.name.chars().map(|letter| if letter.is_alphanumeric() { letter } else { '_' }).collect();
        let path = folder.join(format!("{file}.txt"));
        fs::write(&path, &test.output).with_context(|| format!("write {}", path.display()))?;
    }
    let path = logs.join(LIST).join("list");
    fs::write(&path, list).with_context(|| format!("write {}", path.display()))
}

/// Runs each listed or named test this many times beside busy loops, and prints how often it failed.
///
/// # Errors
/// One failed, none is named or listed, or none has the name.
pub(crate) fn hunt(runner: &Runner<'_>, suites: &[Suite], times: usize, names: &[String]) -> Result<()> {
    let hunted = if names.is_empty() { listed(runner.logs, suites)? } else { named(suites, names)? };
    let is_over = AtomicBool::new(false);
    let failed = thread::scope(|scope| {
        for _ in 0..BUSY {
            scope.spawn(|| {
                while !is_over.load(Ordering::Relaxed) {
                    hint::spin_loop();
                }
            });
        }
        let failed = hunted.iter().map(|(suite, name)| repeat(runner, suite, name, times)).collect::<Result<Vec<_>>>();
        is_over.store(true, Ordering::Relaxed);
        failed
    })?;
    let failures = failed.iter().filter(|count| **count > 0).count();
    ensure!(failures == 0, "{failures} of {} tests failed at least once of {times}", hunted.len());
    Ok(())
}

/// How often a test failed.
fn repeat(runner: &Runner<'_>, suite: &Suite, name: &str, times: usize) -> Result<usize> {
    let mut failures = 0;
    for _ in 0..times {
        if let Some(output) = passes(runner, suite, name)? {
            failures += 1;
            eprintln!("{}", output.trim_end());
        }
    }
    eprintln!("xtask: {} {name}: failed {failures} of {times}", suite.name);
    Ok(failures)
}

fn listed(logs: &Path, suites: &[Suite]) -> Result<Vec<(Suite, String)>> {
    let path = logs.join(LIST).join("list");
    let list =
        fs::read_to_string(&path).with_context(|| format!("read {}, which a whole run writes", path.display()))?;
    let mut tests = Vec::new();
    for line in list.lines() {
        let (suite, name) = line.split_once(' ').with_context(|| format!("{}: {line:?}", path.display()))?;
        let suite = suites.iter().find(|known| known.name == suite);
        let suite = suite.with_context(|| format!("{}: {line:?}: no such suite", path.display()))?;
        tests.push((suite.clone(), name.to_owned()));
    }
    if tests.is_empty() {
        bail!("no test was unsteady in the last run; name those to run");
    }
    Ok(tests)
}

fn named(suites: &[Suite], names: &[String]) -> Result<Vec<(Suite, String)>> {
    let mut tests = Vec::new();
    for name in names {
        let words = slice::from_ref(name);
        let mut found = 0;
        for suite in suites {
            let listed = suite.list(Wanted::Matching(words))?;
            // A file of browser tests does not list them.
            let is_in_file = listed.is_empty() && suite.is_file() && suite.may_have(Wanted::Named(words))?;
            let matching = listed.into_iter().chain(is_in_file.then(|| name.clone()));
            tests.extend(matching.map(|test| (suite.clone(), test)).inspect(|_| found += 1));
        }
        ensure!(found > 0, "no test's name contains {name:?}");
    }
    Ok(tests)
}
