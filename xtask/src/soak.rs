//! `cargo xtask soak [SECONDS]`: a Go server, a replayed StarRocks backend and nodes that misbehave, collected on schedule for that long
//! while processes are killed; then the server itself killed at random moments. All the while the agent works in storms of signals.
//! Prints what was checked and fails unless all of it holds.

mod checks;
mod crash;
mod nodes;
mod storm;
mod watch;

use std::thread;

use anyhow::{Context, Result, bail, ensure};

use crate::product;
use checks::Checks;
use nodes::Nodes;
use storm::Storm;

/// Seconds watched when none are given.
const SECONDS: u64 = 600;
/// The events and what must follow them need so long.
const SECONDS_MIN: u64 = 60;

/// Runs it; `seconds` as typed.
pub(crate) fn run(seconds: Option<&str>) -> Result<()> {
    let seconds = match seconds {
        None => SECONDS,
        Some(text) => text.parse().with_context(|| format!("{text:?}: expected a number of seconds"))?,
    };
    ensure!(seconds >= SECONDS_MIN, "{seconds} s: at least {SECONDS_MIN} s are needed for what is to happen");
    let procprof = product::procprof()?;
    let folder = tempfile::tempdir().context("make a folder")?;
    let mut nodes = Nodes::start(folder.path())?;
    let config = folder.path().join("procprof.toml");
    std::fs::write(&config, nodes.config()).context("write the configuration")?;
    let place = Place { procprof, data: folder.path().join("data"), config };
    let mut checks = Checks::default();
    let storm = Storm::build(folder.path())?;
    let run = thread::scope(|scope| {
        let agent = scope.spawn(|| storm.run(seconds));
        let watched = watch::run(&place, &mut nodes, seconds, &mut checks).and_then(|()| crash::run(&place, &mut checks));
        let found = agent.join().unwrap_or_else(|_| bail!("the agent's part of the soak panicked"));
        watched.and(found.map(|found| checks.join(found)))
    });
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

/// Where the server under test lives.
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
