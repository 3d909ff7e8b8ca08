//! One run of a suite's tests, and runs of several suites beside each other.

use std::collections::VecDeque;
use std::fs::File;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::process::{Child, ExitStatus};
use std::sync::{Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result};

use super::events::{Ended, Ending, Events};
use super::leftovers::Places;
use super::suites::{Suite, Wanted};
use crate::vitals::{has_ended, wait_with_cpu};

/// A program whose tests neither start nor end for so long hangs, and is killed.
const SILENCE: Duration = Duration::from_secs(900);

/// How often a running program is looked at.
const LOOK: Duration = Duration::from_millis(50);

/// What a run of tests of one suite came to.
#[derive(Debug, Default)]
pub(crate) struct Ran {
    pub(crate) ended: Vec<Ended>,
    /// Wall and CPU time, seconds.
    pub(crate) seconds: f64,
    pub(crate) cpu: f64,
}

impl Ran {
    pub(crate) fn count(&self, ending: Ending) -> usize {
        self.ended.iter().filter(|test| test.ending == ending).count()
    }
}

/// Where runs keep what programs print and what tests write.
pub(crate) struct Runner<'a> {
    /// Folder of the logs.
    pub(crate) logs: &'a Path,
    pub(crate) places: &'a Places,
    /// Tests of one process at the same time.
    pub(crate) threads: &'a str,
    /// The preload library that is tested.
    pub(crate) library: &'a Path,
}

impl Runner<'_> {
    /// Runs tests of a suite, all of them also if some end their process. A test that did so has failed; so has the
    /// suite, under its own name, if its process fails beside its tests.
    ///
    /// # Errors
    /// It cannot be started.
    pub(crate) fn run(&self, suite: &Suite, wanted: Wanted<'_>) -> Result<Ran> {
        let mut ran = Ran::default();
        let mut rest: Option<Vec<String>> = None;
        loop {
            let wanted = rest.as_deref().map_or(wanted, Wanted::Named);
            let process = self.process(suite, wanted)?;
            ran.seconds += process.seconds;
            ran.cpu += process.cpu;
            let (is_complete, status) = (process.events.is_complete, process.status);
            let has_failed = process.events.ended.iter().any(|test| test.ending == Ending::Failed);
            ran.ended.extend(process.events.ended);
            if is_complete {
                if !status.success() && !has_failed {
                    ran.ended.push(failed(&suite.name, format!("{status}, though no test failed\n{}", process.log)));
                }
                return Ok(ran);
            }
            let fate = if process.is_hanging { "hung, and was killed" } else { "died" };
            let running = process.events.running;
            let output = format!("its process {fate}: {status}; running: {}\n{}", running.join(", "), process.log);
            if running.is_empty() {
                ran.ended.push(failed(&suite.name, output));
                return Ok(ran);
            }
            ran.ended.extend(running.iter().map(|name| failed(name, output.clone())));
            let listed = suite.list(wanted)?;
            let left: Vec<_> =
                listed.into_iter().filter(|name| !ran.ended.iter().any(|test| test.name == *name)).collect();
            if left.is_empty() {
                return Ok(ran);
            }
            rest = Some(left);
        }
    }

    fn process(&self, suite: &Suite, wanted: Wanted<'_>) -> Result<Process> {
        let (output, log) = (self.log(suite, "events"), self.log(suite, "log"));
        let create = |path: &Path| File::create(path).with_context(|| format!("create {}", path.display()));
        let mut command = suite.command(wanted, self.threads)?;
        command.stdout(create(&output)?).stderr(create(&log)?).env("TMPDIR", self.places.folder_of(&suite.name)?);
        command.env("PROCPROF_PRELOAD_LIBRARY", self.library);
        let start = Instant::now();
        let mut child = command.spawn().with_context(|| format!("run {command:?}"))?;
        let is_hanging = kill_when_silent(&mut child, &output)?;
        let (status, cpu) = wait_with_cpu(&mut child).with_context(|| format!("run {command:?}"))?;
        let read = |path: &Path| -> Result<String> {
            let mut bytes = Vec::new();
            File::open(path).and_then(|mut file| file.read_to_end(&mut bytes)).context("read a log")?;
            Ok(String::from_utf8_lossy(&bytes).into_owned())
        };
        Ok(Process {
            events: suite.events(&read(&output)?),
            log: read(&log)?,
            status,
            is_hanging,
            seconds: start.elapsed().as_secs_f64(),
            cpu,
        })
    }

    fn log(&self, suite: &Suite, extension: &str) -> PathBuf {
        self.logs.join(format!("{}.{extension}", suite.name))
    }
}

/// A process of a suite that has ended.
struct Process {
    events: Events,
    /// What it and its children wrote to standard error beside the output of tests.
    log: String,
    status: ExitStatus,
    is_hanging: bool,
    seconds: f64,
    cpu: f64,
}

fn failed(name: &str, output: String) -> Ended {
    Ended { name: name.to_owned(), ending: Ending::Failed, seconds: 0.0, output }
}

/// Waits for a process without reaping it, and kills it when it has told no event for too long; whether it did.
fn kill_when_silent(child: &mut Child, output: &Path) -> Result<bool> {
    let (mut length, mut heard) = (0, Instant::now());
    while !has_ended(child)? {
        thread::sleep(LOOK);
        let now = std::fs::metadata(output).map_or(0, |file| file.len());
        if now != length {
            (length, heard) = (now, Instant::now());
        } else if heard.elapsed() > SILENCE {
            child.kill().context("kill a program of tests that hangs")?;
            return Ok(true);
        }
    }
    Ok(false)
}

/// Runs suites, this many at the same time, in their order; each is reported when it has ended. A suite that cannot be
/// run has an error in place of its tests; the others run all the same.
pub(crate) fn side_by_side(
    suites: &[Suite],
    lanes: usize,
    run: impl Fn(&Suite) -> Result<Ran> + Sync,
) -> Vec<(Suite, Result<Ran>)> {
    let waiting = Mutex::new(suites.iter().collect::<VecDeque<_>>());
    let done = Mutex::new(Vec::new());
    let next = || lock(&waiting).pop_front();
    thread::scope(|scope| {
        for _ in 0..lanes {
            scope.spawn(|| {
                while let Some(suite) = next() {
                    let ran = run(suite);
                    report(suite, &ran);
                    lock(&done).push((suite.clone(), ran));
                }
            });
        }
    });
    done.into_inner().unwrap_or_else(PoisonError::into_inner)
}

fn report(suite: &Suite, ran: &Result<Ran>) {
    match ran {
        Ok(ran) if ran.ended.is_empty() => {}
        Ok(ran) => eprintln!(
            "xtask: {:.0} s, CPU time {:.0} s: {}: {} passed, {} failed, {} ignored",
            ran.seconds,
            ran.cpu,
            suite.name,
            ran.count(Ending::Passed),
            ran.count(Ending::Failed),
            ran.count(Ending::Ignored),
        ),
        Err(error) => eprintln!("xtask: {}: {error:#}", suite.name),
    }
}

fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
