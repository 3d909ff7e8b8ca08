//! `cargo xtask soak [SECONDS]`: a Go server, a replayed StarRocks backend and nodes that misbehave, collected on
//! schedule for that long while processes are killed; then the server itself killed at random moments. Meanwhile the
//! agent works in storms of signals. Prints the checks and fails unless all of them hold.
//!
//! `cargo xtask soak hostile [SECONDS]`: a server under attack instead (see [`hostile`]).
//! `cargo xtask soak fleet [SECONDS]`: two host agents and a server, all of which fail in turns (see [`fleet`]).
//! `cargo xtask soak neighbours [SECONDS]`: a host agent and hostile programs beside it (see [`neighbours`]).
//! `cargo xtask soak servers [SECONDS]`: two servers on one bucket, which fail in turns, as it does (see [`servers`]).
//! `cargo xtask soak programs [CAPTURES [NAME]]`: real programs under the preload library (see [`programs`]).
//! `cargo xtask soak long`: the tests that are too long for `cargo xtask test`.

mod checks;
mod crash;
mod fleet;
mod hostile;
mod neighbours;
mod nodes;
mod programs;
mod servers;
mod storm;
mod watch;

use std::path::Path;
use std::thread;

use anyhow::{Context, Result, bail, ensure};

use crate::{product, tools};
use checks::Checks;
use nodes::Nodes;
use storm::Storm;

/// Seconds watched when none are given.
const SECONDS: u64 = 600;
/// The least time for the events and their consequences.
const SECONDS_MIN: u64 = 60;

/// Runs it; `seconds` is the argument.
pub(crate) fn run(seconds: Option<&str>) -> Result<()> {
    let seconds = duration(seconds)?;
    checked(|folder, checks| collect(folder, seconds, checks))
}

/// Runs the attacks; `seconds` is the argument.
pub(crate) fn run_hostile(seconds: Option<&str>) -> Result<()> {
    let seconds = duration(seconds)?;
    tools::require(&[("mariadb", "mariadb-client")])?;
    checked(|folder, checks| hostile::run(folder, seconds, checks))
}

/// Runs two host agents; `seconds` is the argument.
pub(crate) fn run_fleet(seconds: Option<&str>) -> Result<()> {
    let seconds = duration(seconds)?;
    tools::require(&[("gcc", "gcc"), ("nsenter", "util-linux"), ("curl", "curl")])?;
    checked(|folder, checks| fleet::run(folder, seconds, checks))
}

/// Runs a host agent beside hostile programs; `seconds` is the argument.
pub(crate) fn run_neighbours(seconds: Option<&str>) -> Result<()> {
    let seconds = duration(seconds)?;
    tools::require(&[
        ("gcc", "gcc"),
        ("pg_ctlcluster", "postgresql-common"),
        ("pgbench", "postgresql"),
        ("setpriv", "util-linux"),
    ])?;
    checked(|folder, checks| neighbours::run(folder, seconds, checks))
}

/// Runs two servers on one bucket; `seconds` is the argument.
pub(crate) fn run_servers(seconds: Option<&str>) -> Result<()> {
    let seconds = duration(seconds)?;
    tools::require(&[("mount", "mount"), ("dd", "coreutils")])?;
    checked(|folder, checks| servers::run(folder, seconds, checks))
}

/// Captures real programs; arguments are the number of captures and a part of the programs' names.
pub(crate) fn run_programs(captures: Option<&str>, name: Option<&str>) -> Result<()> {
    checked(|folder, checks| programs::run(folder, captures, name, checks))
}

/// Runs the tests that are ignored for their length.
pub(crate) fn run_long() -> Result<()> {
    crate::clients::ensure_long()?;
    crate::test::run_long()
}

fn duration(seconds: Option<&str>) -> Result<u64> {
    let seconds = match seconds {
        None => SECONDS,
        Some(text) => text.parse().with_context(|| format!("{text:?}: expected a number of seconds"))?,
    };
    ensure!(seconds >= SECONDS_MIN, "{seconds} s: at least {SECONDS_MIN} s are needed for what is to happen");
    Ok(seconds)
}

/// Runs a part in a folder of its own, which is kept if anything failed, and prints its checks.
fn checked(part: impl FnOnce(&Path, &mut Checks) -> Result<()>) -> Result<()> {
    let folder = tempfile::tempdir().context("make a folder")?;
    let mut checks = Checks::default();
    let run = part(folder.path(), &mut checks);
    checks.print();
    if run.is_err() || checks.failed() > 0 {
        let kept = folder.keep();
        eprintln!("xtask: the server's data and log are kept in {}", kept.display());
    }
    run?;
    match checks.failed() {
        0 => Ok(()),
        failed => bail!("{failed} checks failed"),
    }
}

fn collect(folder: &Path, seconds: u64, checks: &mut Checks) -> Result<()> {
    let procprof = product::procprof()?;
    let mut nodes = Nodes::start(folder)?;
    let config = folder.join("procprof.toml");
    std::fs::write(&config, nodes.config()).context("write the configuration")?;
    let place = Place { procprof, data: folder.join("data"), config };
    let storm = Storm::build(folder)?;
    thread::scope(|scope| {
        let agent = scope.spawn(|| storm.run(seconds));
        let watched = watch::run(&place, &mut nodes, seconds, checks).and_then(|()| crash::run(&place, checks));
        let found = agent.join().unwrap_or_else(|_| bail!("the agent's part of the soak panicked"));
        watched.and(found.map(|found| checks.join(found)))
    })
}

/// The folder of the server under test.
struct Place {
    procprof: std::path::PathBuf,
    data: std::path::PathBuf,
    config: std::path::PathBuf,
}

impl Place {
    /// Starts the server, with further options.
    fn serve(&self, more: &[&str]) -> Result<product::Served> {
        let config = self.config.display().to_string();
        let arguments: Vec<&str> = ["--config", &config].into_iter().chain(more.iter().copied()).collect();
        product::Served::start(std::process::Command::new(&self.procprof), &self.data, &arguments)
    }
}
