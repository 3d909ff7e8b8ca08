//! The nodes: real processes that can be killed and started again on the same port, and listeners that answer garbage.

use std::io::{BufRead, BufReader};
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::Arc;

use anyhow::{Context, Result, ensure};

use crate::answerer::{self, Answer};
use crate::inputs;
use crate::product::{self, Running};

const BUSY_GO: &str = include_str!("busy.go");

/// A node's process that can be started again.
pub(super) struct Node {
    pub(super) name: &'static str,
    program: PathBuf,
    arguments: Vec<String>,
    port: u16,
    process: Option<Running>,
}

impl Node {
    fn start(name: &'static str, program: PathBuf, arguments: &[&str]) -> Result<Node> {
        let port = TcpListener::bind("127.0.0.1:0")?.local_addr()?.port();
        let arguments = arguments.iter().map(|argument| argument.replace("PORT", &port.to_string())).collect();
        let mut node = Node { name, program, arguments, port, process: None };
        node.restart()?;
        Ok(node)
    }

    /// `kill -9`.
    pub(super) fn kill(&mut self) -> Result<()> {
        self.process.take().map_or(Ok(()), Running::kill)
    }

    /// Starts it and waits until it listens; kills the one before.
    pub(super) fn restart(&mut self) -> Result<()> {
        self.kill()?;
        let mut child = Command::new(&self.program)
            .args(&self.arguments)
            .stdout(Stdio::piped())
            .spawn()
            .with_context(|| format!("start {}", self.name))?;
        let stdout = child.stdout.take().context("read what it prints")?;
        self.process = Some(Running::new(child));
        let mut line = String::new();
        BufReader::new(stdout).read_line(&mut line).context("read its port")?;
        ensure!(line.trim() == format!("port {}", self.port), "{} said {line:?}", self.name);
        Ok(())
    }
}

/// All of them.
pub(super) struct Nodes {
    /// A Go server that is killed and comes back after a while.
    pub(super) go: Node,
    /// A Go server that is replaced by another process during a capture.
    pub(super) restarting: Node,
    /// A replayed StarRocks backend.
    pub(super) be: Node,
    /// Name and port of each that answers garbage.
    pub(super) garbage: Vec<(&'static str, u16)>,
}

impl Nodes {
    /// Builds and starts them.
    pub(super) fn start(folder: &Path) -> Result<Nodes> {
        let brpc = product::build(&["-p", "procprof-collect", "--example", "brpc_replay"], "examples/brpc_replay")?;
        let busy = folder.join("busy-go");
        let source = folder.join("main.go");
        std::fs::write(&source, BUSY_GO).context("write the Go source")?;
        let built = Command::new("go")
            .args(["build", "-o"])
            .arg(&busy)
            .arg(&source)
            .env("GO111MODULE", "off")
            .status()
            .context("run go")?;
        ensure!(built.success(), "go build failed");
        let garbage = garbage()?.into_iter().map(|(name, status, body)| {
            let body = Arc::new(body);
            Ok((name, answerer::serve(move |_| Answer { status, body: Arc::clone(&body) })?))
        });
        Ok(Nodes {
            go: Node::start("go", busy.clone(), &["PORT"])?,
            restarting: Node::start("restarting", busy, &["PORT"])?,
            be: Node::start("be", brpc, &["--live", "--port", "PORT"])?,
            garbage: garbage.collect::<Result<_>>()?,
        })
    }

    /// The configuration that has them all.
    pub(super) fn config(&self) -> String {
        let cpu = "schedule.cpu = { seconds = 2, every = 5 }\n";
        let go = |name: &str, port: u16| {
            let moment = "schedule.heap = { every = 10 }\nschedule.goroutine = { every = 10 }\n";
            format!("[[node]]\nname = \"{name}\"\nkind = \"go\"\nhttp = \"127.0.0.1:{port}\"\n{cpu}{moment}\n")
        };
        let port = self.be.port;
        let be = format!(
            "[[node]]\nname = \"be\"\nid = 10002\nkind = \"starrocks-be\"\nhttp = \"127.0.0.1:{port}\"\nbrpc = \"127.0.0.1:{port}\"\n{cpu}\
             schedule.contention = {{ on = true, seconds = 1, every = 5 }}\nschedule.heap = {{ on = true, every = 10 }}\n\n"
        );
        let garbage: String = self.garbage.iter().map(|(name, port)| go(name, *port)).collect();
        format!(
            "self_interval_seconds = 5\n{}{}{be}{garbage}",
            go(self.go.name, self.go.port),
            go(self.restarting.name, self.restarting.port)
        )
    }
}

/// Answers that are no profile, though some look like success.
fn garbage() -> Result<Vec<(&'static str, &'static str, Vec<u8>)>> {
    let mut truncated = inputs::node()?;
    truncated.truncate(truncated.len() / 2);
    Ok(vec![
        ("answers-html", "200 OK", b"<html><body>Sign in to continue</body></html>".to_vec()),
        ("answers-sentence", "200 OK", b"Could not enable CPU profiling: profiler is busy\n".to_vec()),
        ("answers-nothing", "200 OK", Vec::new()),
        ("answers-half", "200 OK", truncated),
        (
            "answers-noise",
            "200 OK",
            (0..100_000u64).map(|index| (index.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 56) as u8).collect(),
        ),
        ("answers-500", "500 Internal Server Error", b"out of memory\n".to_vec()),
    ])
}
