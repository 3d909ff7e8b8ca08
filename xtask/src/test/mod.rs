//! `cargo xtask test`: all tests of the workspace, after checking that the programs they compare with are installed.
//!
//! Suites run beside each other, the longest first. A test that fails is run again, alone, after all others. At the
//! end stand the slowest tests, the unsteady ones, those that failed, and what tests left behind.

mod events;
mod leftovers;
mod run;
mod suites;
#[cfg(test)]
mod tests;
mod unsteady;

use std::thread;
use std::time::Instant;

use anyhow::{Context, Result, bail, ensure};

use self::events::{Ended, Ending};
use self::leftovers::Places;
use self::run::{Ran, Runner, side_by_side};
use self::suites::{Suite, Wanted};
use self::unsteady::Failure;
use crate::{clients, tools};

/// Folder of the output of tests.
const LOGS: &str = "target/tests";

/// Tests in the list of the slowest.
const SLOWEST: usize = 10;

/// Runs tests: all, those whose names contain one of the words, or unsteady ones again (`--unsteady N [NAME..]`).
///
/// # Errors
/// A program is missing, or tests fail.
pub(crate) fn run(arguments: &[String]) -> Result<()> {
    let arguments: Vec<String> = arguments.iter().filter(|word| *word != "--").cloned().collect();
    match arguments.split_first() {
        None => with_suites(|runner, suites| run_all(runner, suites, Wanted::All)),
        Some((option, rest)) if option == "--unsteady" => {
            let (times, names) = rest.split_first().context("--unsteady: how many times?")?;
            let times = times.parse().with_context(|| format!("--unsteady {times}: expected a number of times"))?;
            with_suites(|runner, suites| unsteady::hunt(runner, suites, times, names))
        }
        Some((option, _)) if option.starts_with('-') => {
            bail!("{option}: expected words of tests' names, or --unsteady N [NAME..]")
        }
        Some(_) => with_suites(|runner, suites| run_all(runner, suites, Wanted::Matching(&arguments))),
    }
}

/// Runs the tests that are ignored for their length.
///
/// # Errors
/// As for [`run`].
pub(crate) fn run_long() -> Result<()> {
    with_suites(|runner, suites| run_all(runner, suites, Wanted::Long))
}

/// Builds all suites, and runs some of their tests.
fn with_suites(run: impl FnOnce(&Runner<'_>, &[Suite]) -> Result<()>) -> Result<()> {
    tools::ensure()?;
    let (suites, library) = thread::scope(|scope| {
        let fetched = scope.spawn(clients::ensure);
        let built = suites::build().and_then(|suites| Ok((suites, suites::build_preload_library()?)));
        fetched.join().unwrap_or_else(|_| bail!("the thread that fetches clients panicked")).and(built)
    })?;
    std::fs::create_dir_all(LOGS).with_context(|| format!("create {LOGS}"))?;
    let places = Places::new()?;
    // Most tests wait for processes of their own.
    let threads = std::env::var("RUST_TEST_THREADS").unwrap_or_else(|_| (cores() + 1).to_string());
    let logs = std::path::absolute(LOGS)?;
    let result = run(&Runner { logs: &logs, places: &places, threads: &threads, library: &library }, &suites);
    let left = places.leftovers();
    if !left.is_empty() {
        eprintln!("xtask: left behind by tests:\n  {}", left.join("\n  "));
    }
    result
}

fn run_all(runner: &Runner<'_>, suites: &[Suite], wanted: Wanted<'_>) -> Result<()> {
    let mut worth = Vec::new();
    for suite in suites {
        if suite.may_have(wanted)? {
            worth.push(suite.clone());
        }
    }
    let start = Instant::now();
    let done = side_by_side(&worth, cores() + 1, |suite| runner.run(suite, wanted));
    eprintln!("xtask: {:.0} s: all suites, {} at a time", start.elapsed().as_secs_f64(), cores() + 1);
    conclude(runner, done, matches!(wanted, Wanted::All | Wanted::Long))
}

/// Prints the slowest tests, repeats those that failed, and prints which were unsteady and which failed. A whole run
/// keeps the list of the unsteady ones.
fn conclude(runner: &Runner<'_>, done: Vec<(Suite, Result<Ran>)>, is_whole: bool) -> Result<()> {
    let mut all: Vec<(Suite, Ended)> = Vec::new();
    let mut broken = Vec::new();
    for (suite, ran) in done {
        match ran {
            Ok(ran) => all.extend(ran.ended.into_iter().map(|test| (suite.clone(), test))),
            Err(error) => broken.push(format!("{}: {error:#}", suite.name)),
        }
    }
    ensure!(!all.is_empty() || !broken.is_empty(), "no test has such a name");
    print_slowest(&all);
    let count = |ending| all.iter().filter(|(_, test)| test.ending == ending).count();
    let (passed, ignored) = (count(Ending::Passed), count(Ending::Ignored));
    let failures = all.into_iter().filter(|(_, test)| test.ending == Ending::Failed);
    let judged = unsteady::judge(runner, failures.map(|(suite, test)| Failure { suite, test }).collect())?;
    if is_whole {
        unsteady::keep(runner.logs, &judged.unsteady)?;
    }
    print_names("unsteady (failed in the run, passed twice alone)", &judged.unsteady);
    print_names("failed", &judged.failed);
    broken.iter().for_each(|suite| eprintln!("xtask: not run: {suite}"));
    let failed = judged.failed.len() + broken.len();
    println!("{} passed, {failed} failed, {ignored} skipped", passed + judged.unsteady.len());
    ensure!(failed == 0, "{failed} tests failed");
    Ok(())
}

fn print_slowest(all: &[(Suite, Ended)]) {
    let mut slowest: Vec<_> = all.iter().collect();
    slowest.sort_by(|(_, left), (_, right)| right.seconds.total_cmp(&left.seconds));
    eprintln!("xtask: slowest tests:");
    for (suite, test) in slowest.into_iter().take(SLOWEST) {
        eprintln!("  {:6.1} s  {} {}", test.seconds, suite.name, test.name);
    }
}

fn print_names(heading: &str, failures: &[Failure]) {
    if !failures.is_empty() {
        eprintln!("xtask: {heading}:");
    }
    failures.iter().for_each(|Failure { suite, test }| eprintln!("  {} {}", suite.name, test.name));
}

fn cores() -> usize {
    std::thread::available_parallelism().map_or(2, std::num::NonZero::get)
}
