//! `cargo xtask soak programs [CAPTURES [NAME]]`: real programs under `libprocprof_preload.so` while every type of
//! profile is taken of them at every rate. A program must end as it ends without the library, its clients must be
//! served, and no capture may hang.

mod captures;
mod table;

use std::fs::File;
use std::net::TcpListener;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};

use super::checks::Checks;
use crate::{product, tools};
use captures::{Captured, capture};
use table::{PROGRAMS, Program};

/// Captures of each program when none are given.
const CAPTURES: usize = 100;
/// Longest run of a program, and of a client, that has not hung.
const PATIENCE: Duration = Duration::from_secs(900);
const READY: Duration = Duration::from_secs(60);
/// Shell functions of every row: `under COMMAND...` replaces the shell by the program with the library in it.
const PRELUDE: &str = r#"set -eu
export PROCPROF_LISTENER=thread
under() { exec env LD_PRELOAD="$LIBRARY" PROCPROF_LISTEN="127.0.0.1:$AGENT" PROCPROF_ONLY="$ONLY" "$@"; }
"#;

/// Runs the programs whose name holds `name`, each until `captures` were taken of it.
pub(super) fn run(folder: &Path, captures: Option<&str>, name: Option<&str>, checks: &mut Checks) -> Result<()> {
    let wanted = match captures {
        None => CAPTURES,
        Some(text) => text.parse().with_context(|| format!("{text:?}: expected a number of captures"))?,
    };
    let rows: Vec<&Program> = PROGRAMS.iter().filter(|row| name.is_none_or(|name| row.name.contains(name))).collect();
    ensure!(!rows.is_empty(), "no program is named {}", name.unwrap_or_default());
    tools::require(&rows.iter().flat_map(|row| row.tools).copied().collect::<Vec<_>>())?;
    let library = library()?;
    for row in rows {
        let place = folder.join(row.name);
        std::fs::create_dir_all(&place).with_context(|| format!("create {}", place.display()))?;
        let stage = Stage { row, folder: place, library: library.clone(), agent: free_port()?, port: free_port()? };
        match stage.play(wanted) {
            Ok((captured, runs)) => {
                let found = format!("{runs} runs, {captured}");
                checks.add(
                    format!("{} runs as without the library", row.name),
                    found,
                    captured.taken >= wanted && captured.broken.is_empty(),
                );
            }
            Err(error) => checks.add(format!("{} runs as without the library", row.name), format!("{error:#}"), false),
        }
    }
    Ok(())
}

/// The release build of the library, or the one that `PROCPROF_PRELOAD` names.
fn library() -> Result<PathBuf> {
    match std::env::var_os("PROCPROF_PRELOAD") {
        Some(library) => Ok(library.into()),
        None => product::build(&["-p", "procprof-preload"], "libprocprof_preload.so"),
    }
}

fn free_port() -> Result<u16> {
    Ok(TcpListener::bind("127.0.0.1:0").context("find a free port")?.local_addr()?.port())
}

/// A program, its folder and its ports.
struct Stage<'a> {
    row: &'a Program,
    folder: PathBuf,
    library: PathBuf,
    agent: u16,
    port: u16,
}

impl Stage<'_> {
    /// Runs it until `wanted` captures were taken; returns what was captured and how often it, or its client, ran.
    fn play(&self, wanted: usize) -> Result<(Captured, usize)> {
        self.finish(self.shell("prepare", self.row.prepare)?, "prepare")?;
        let stop = AtomicBool::new(false);
        thread::scope(|scope| {
            let captures = scope.spawn(|| capture(self.agent, wanted, &stop));
            let runs = if self.row.load.is_empty() {
                self.batch(&|| captures.is_finished())
            } else {
                self.serve(&|| captures.is_finished())
            };
            stop.store(true, Ordering::Relaxed);
            let captured = captures.join().map_err(|_| anyhow::anyhow!("the captures panicked"))?;
            let runs = runs.with_context(|| captured.to_string())?;
            Ok((captured, runs))
        })
    }

    /// A program that ends by itself, again and again.
    fn batch(&self, enough: &dyn Fn() -> bool) -> Result<usize> {
        let mut runs = 0;
        while !enough() {
            self.finish(self.shell("run", self.row.run)?, "run")?;
            runs += 1;
            ensure!(runs < 2000, "no captures in {runs} runs");
        }
        Ok(runs)
    }

    /// A server, and its client again and again.
    fn serve(&self, enough: &dyn Fn() -> bool) -> Result<usize> {
        let mut server = self.shell("run", self.row.run)?;
        let start = Instant::now();
        while !self.shell("ready", self.row.ready)?.wait().context("wait until it is ready")?.success() {
            if let Some(status) = server.try_wait()? {
                bail!("it ended before it was ready: {status}; see {}", self.log("run").display());
            }
            ensure!(start.elapsed() < READY, "it is not ready after {} s", READY.as_secs());
            thread::sleep(Duration::from_millis(200));
        }
        let mut runs = 0;
        let mut served = Ok(());
        while !enough() && served.is_ok() {
            if let Some(status) = server.try_wait()? {
                bail!("it ended while it was captured: {status}; see {}", self.log("run").display());
            }
            served = self.shell("load", self.row.load).and_then(|client| self.finish(client, "load"));
            runs += 1;
        }
        let group = format!("-{}", server.id());
        // It may have ended by itself, which its status shows.
        let _ = Command::new("kill").args(["-TERM", "--", &group]).status();
        let status = self.ended(&mut server, "run")?;
        served?;
        ensure!(
            self.row.ends.contains(&code(status)),
            "it ended with {status} after SIGTERM; see {}",
            self.log("run").display()
        );
        Ok(runs)
    }

    /// Starts a part of the row in a process group of its own.
    fn shell(&self, part: &str, script: &str) -> Result<Child> {
        let log = File::create(self.log(part)).context("create a log")?;
        let mut command = Command::new("bash");
        command.arg("-c").arg(format!("{PRELUDE}{script}")).current_dir(&self.folder).process_group(0);
        command.env("LIBRARY", &self.library).env("ONLY", self.row.only).env("D", &self.folder);
        command.env("AGENT", self.agent.to_string()).env("PORT", self.port.to_string());
        command.stdin(Stdio::null()).stderr(log.try_clone().context("share a log")?).stdout(log);
        command.spawn().with_context(|| format!("start {}", self.row.name))
    }

    fn finish(&self, mut child: Child, part: &str) -> Result<()> {
        let status = self.ended(&mut child, part)?;
        ensure!(status.success(), "{part} ended with {status}; see {}", self.log(part).display());
        Ok(())
    }

    /// Waits for its end; what hangs is killed with all of its group.
    fn ended(&self, child: &mut Child, part: &str) -> Result<ExitStatus> {
        let start = Instant::now();
        loop {
            if let Some(status) = child.try_wait().with_context(|| format!("wait for {part}"))? {
                return Ok(status);
            }
            if start.elapsed() > PATIENCE {
                let _ = Command::new("kill").args(["-KILL", "--", &format!("-{}", child.id())]).status();
                let _ = child.wait();
                bail!("{part} hung for {} s; see {}", PATIENCE.as_secs(), self.log(part).display());
            }
            thread::sleep(Duration::from_millis(20));
        }
    }

    fn log(&self, part: &str) -> PathBuf {
        self.folder.join(format!("{part}.log"))
    }
}

/// The exit status as a shell reports it: 128 and the signal for a killed process.
fn code(status: ExitStatus) -> i32 {
    use std::os::unix::process::ExitStatusExt;
    status.code().unwrap_or_else(|| 128 + status.signal().unwrap_or(0))
}
