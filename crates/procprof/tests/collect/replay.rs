//! The replayed brpc service of procprof-collect: a program without dependencies, compiled once.

use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::Mutex;
use std::time::Duration;

/// A running service; ended with the test.
pub(crate) struct Replay {
    child: Child,
    pub(crate) port: u16,
}

impl Replay {
    /// Profiles that name functions of the service itself: `hot_70`, `hot_30`, `slow_lock`, `grow_heap`.
    pub(crate) fn live() -> Replay {
        Replay::start(Command::new(program()).arg("--live"))
    }

    /// The recorded profiles of `testdata/brpc`.
    pub(crate) fn recorded() -> Replay {
        Replay::start(Command::new(program()).arg("--recorded").arg(repository().join("testdata/brpc")))
    }

    fn start(command: &mut Command) -> Replay {
        let mut child = command.stdout(Stdio::piped()).spawn().unwrap_or_else(|error| panic!("{command:?}: {error}"));
        let mut line = String::new();
        BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
        let port = line.trim().strip_prefix("port ").and_then(|port| port.parse().ok());
        Replay { child, port: port.unwrap_or_else(|| panic!("{command:?} said {line:?}")) }
    }
}

/// Keeps the CPU profiler of a replayed brpc busy for as long as the connections are held: sends requests until one is
/// refused.
pub(crate) fn occupy(port: u16) -> Vec<TcpStream> {
    let mut connections = Vec::new();
    loop {
        let mut stream = TcpStream::connect(("127.0.0.1", port)).unwrap();
        stream.set_read_timeout(Some(Duration::from_millis(500))).unwrap();
        stream.write_all(b"GET /pprof/profile?seconds=60 HTTP/1.1\r\n\r\n").unwrap();
        let mut answer = [0; 64];
        let read = stream.read(&mut answer).unwrap_or(0);
        connections.push(stream);
        if answer[..read].starts_with(b"HTTP/1.1 500") {
            return connections;
        }
    }
}

impl Drop for Replay {
    fn drop(&mut self) {
        drop(self.child.kill());
        drop(self.child.wait());
    }
}

pub(crate) fn repository() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").canonicalize().unwrap()
}

fn program() -> PathBuf {
    static ONE_BUILD: Mutex<()> = Mutex::new(());
    let _guard = ONE_BUILD.lock().unwrap();
    let source = repository().join("crates/procprof-collect/examples/brpc_replay.rs");
    let program = Path::new(env!("CARGO_TARGET_TMPDIR")).join("brpc_replay");
    let modified = |path: &Path| fs::metadata(path).and_then(|metadata| metadata.modified()).ok();
    if modified(&program) < modified(&source) {
        let fresh = program.with_extension(std::process::id().to_string());
        let mut compile = Command::new("rustc");
        compile.args(["--edition", "2024", "-C", "debuginfo=1", "-o"]).arg(&fresh).arg(source);
        let status = compile.status().unwrap_or_else(|error| panic!("rustc is needed for this test: {error}"));
        assert!(status.success(), "{compile:?}");
        fs::rename(fresh, &program).unwrap();
    }
    program
}
