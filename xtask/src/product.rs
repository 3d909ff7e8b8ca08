//! The measured product: the release build, a running `procprof serve`, and its own reports.

use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::mpsc;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use serde_json::Value;

use crate::http;
use crate::vitals::Vitals;

/// Longest wait for a start.
const PATIENCE: Duration = Duration::from_secs(60);

/// Builds a package in release mode and returns its path below the target folder.
pub(crate) fn build(arguments: &[&str], file: &str) -> Result<PathBuf> {
    let status = Command::new("cargo")
        .args(["build", "--quiet", "--release", "--locked"])
        .args(arguments)
        .status()
        .context("run cargo build")?;
    ensure!(status.success(), "cargo build --release {} failed", arguments.join(" "));
    Ok(target()?.join("release").join(file))
}

/// The release build of the command; or the program that `PROCPROF_BIN` names, to measure another build in the same
/// way.
pub(crate) fn procprof() -> Result<PathBuf> {
    if let Some(program) = std::env::var_os("PROCPROF_BIN") {
        return Ok(program.into());
    }
    build(&["-p", "procprof"], "procprof")
}

/// The target folder, which also contains this program.
pub(crate) fn target() -> Result<PathBuf> {
    let own = std::env::current_exe().context("find this program")?;
    own.ancestors().nth(2).map(Path::to_owned).context("find the target folder")
}

/// A program that is ended when dropped.
pub(crate) struct Running(Child);

impl Running {
    /// Takes ownership of a child.
    pub(crate) fn new(child: Child) -> Running {
        Running(child)
    }

    pub(crate) fn pid(&self) -> u32 {
        self.0.id()
    }

    /// Signals it to end and waits for that.
    pub(crate) fn terminate(self) -> Result<ExitStatus> {
        let status = Command::new("kill").args(["-TERM", &self.pid().to_string()]).status().context("run kill")?;
        ensure!(status.success(), "kill -TERM failed");
        self.wait()
    }

    /// Waits for its end.
    pub(crate) fn wait(mut self) -> Result<ExitStatus> {
        self.0.wait().context("wait for a process")
    }

    /// Kills it.
    pub(crate) fn kill(mut self) -> Result<()> {
        self.0.kill().context("kill a process")?;
        self.0.wait().context("wait for a killed process")?;
        Ok(())
    }

    /// Its exit status, if it has ended.
    pub(crate) fn ended(&mut self) -> Result<Option<ExitStatus>> {
        self.0.try_wait().context("look after a process")
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        // It may have already ended, which is no error.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// A running server.
pub(crate) struct Served {
    process: Running,
    /// `127.0.0.1:PORT`.
    pub(crate) address: String,
}

impl Served {
    /// Starts `serve` on a free port over `data`, by `command` (the program, perhaps behind another such as `taskset`),
    /// and waits until it answers. Its log goes to `data`'s folder, beside `data`.
    pub(crate) fn start(mut command: Command, data: &Path, arguments: &[&str]) -> Result<Served> {
        command.args(["serve", "--http", "127.0.0.1:0", "--data"]).arg(data).args(arguments);
        let mut child = command
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .spawn()
            .context("start procprof")?;
        let log = child.stderr.take().context("read its log")?;
        let process = Running::new(child);
        let mut file = std::fs::OpenOptions::new()
            .create(true)
            .append(true)
            .open(data.with_extension("log"))
            .context("open its log")?;
        let (sender, receiver) = mpsc::channel();
        std::thread::spawn(move || {
            for line in BufReader::new(log).lines().map_while(Result::ok) {
                let _ = std::io::Write::write_all(&mut file, format!("{line}\n").as_bytes());
                let _ = sender.send(line);
            }
        });
        let start = Instant::now();
        while let Ok(line) = receiver.recv_timeout(PATIENCE.saturating_sub(start.elapsed())) {
            if let Some((_, url)) = line.split_once("open http://") {
                let address = url.split('/').next().unwrap_or(url).to_owned();
                return Ok(Served { process, address });
            }
        }
        bail!("procprof serve did not start; see {}", data.with_extension("log").display())
    }

    pub(crate) fn vitals(&self) -> Result<Vitals> {
        Vitals::from_pid(self.process.pid())
    }

    /// `kill -9`.
    pub(crate) fn kill(self) -> Result<()> {
        self.process.kill()
    }

    /// Sends SIGTERM and waits until it has ended; it must succeed.
    pub(crate) fn terminate(self) -> Result<()> {
        let status = self.process.terminate()?;
        ensure!(status.success(), "procprof serve ended with {status}");
        Ok(())
    }

    /// Whether it has ended unexpectedly.
    pub(crate) fn ended(&mut self) -> Result<Option<ExitStatus>> {
        self.process.ended()
    }

    pub(crate) fn json(&self, path: &str) -> Result<Value> {
        http::json(&self.address, path)
    }

    /// All rows of a paged list: `/api/profiles` or `/api/errors` with a query such as `type=cpu`.
    pub(crate) fn rows(&self, list: &str, query: &str) -> Result<Vec<Value>> {
        let (mut rows, mut cursor) = (Vec::new(), String::new());
        loop {
            let page = self.json(&format!("/api/{list}?limit=1000&{query}{cursor}"))?;
            rows.extend(page[list].as_array().with_context(|| format!("{list}: {page}"))?.iter().cloned());
            match page["next"].as_str() {
                Some(next) => cursor = format!("&cursor={next}"),
                None => return Ok(rows),
            }
        }
    }
}

/// The port for SQL clients, read from the server's log.
pub(crate) fn sql_port(log: &Path) -> Result<String> {
    let began = Instant::now();
    loop {
        let text = std::fs::read_to_string(log).context("read the server's log")?;
        let port = text
            .split_once("SQL at 127.0.0.1:")
            .map(|(_, rest)| rest.chars().take_while(char::is_ascii_digit).collect());
        if let Some(port) = port {
            return Ok(port);
        }
        ensure!(
            began.elapsed() < PATIENCE,
            "the log of the server has no address for SQL clients; see {}",
            log.display()
        );
        std::thread::sleep(Duration::from_millis(20));
    }
}
