//! Processes that are profiled over HTTP by a test, and one that sends prepared answers.

// A test may unwrap in the functions it calls, too.
#![allow(clippy::unwrap_used)]

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::LazyLock;

use crate::harness::{procprof, shared_folder};

/// A process with profiles at an address; killed when dropped.
pub(crate) struct Profiled {
    child: Child,
    /// `127.0.0.1:PORT`.
    pub(crate) address: String,
    /// Its executable.
    pub(crate) binary: PathBuf,
}

impl Profiled {
    /// The Go program of `testdata/go/pprof-server`.
    pub(crate) fn go() -> Profiled {
        let binary = go_server().to_owned();
        let (child, line) = started(&mut Command::new(&binary));
        let port = line.strip_prefix("port ").unwrap_or_else(|| panic!("it printed {line:?}"));
        Profiled { child, address: format!("127.0.0.1:{port}"), binary }
    }

    /// A Rust program with our agent, as the demo runs it, but with more allocations sampled, so that a few seconds
    /// make a difference.
    pub(crate) fn demo_node() -> Profiled {
        let mut command = procprof();
        command.args(["demo-node", "--role", "BE"]).env("_RJEM_MALLOC_CONF", "prof_accum:true,lg_prof_sample:14");
        let (child, line) = started(&mut command);
        let address = line.strip_prefix("listening ").unwrap_or_else(|| panic!("it printed {line:?}")).to_owned();
        Profiled { child, address, binary: env!("CARGO_BIN_EXE_procprof").into() }
    }
}

impl Drop for Profiled {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// The process and the first line it prints.
fn started(command: &mut Command) -> (Child, String) {
    let mut child = command
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .unwrap_or_else(|error| panic!("{command:?}: {error}"));
    let mut line = String::new();
    BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
    (child, line.trim().to_owned())
}

/// The Go program of `testdata/go/pprof-server`, built once.
pub(crate) fn go_server() -> &'static Path {
    static BINARY: LazyLock<PathBuf> = LazyLock::new(|| {
        let binary = shared_folder().join("go-pprof-server");
        let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../testdata/go/pprof-server");
        let mut build = Command::new("go");
        build.args(["build", "-o"]).arg(&binary).arg(".").current_dir(source);
        let status =
            build.status().unwrap_or_else(|error| panic!("go (the Go toolchain) is needed for this test: {error}"));
        assert!(status.success(), "{build:?}");
        binary
    });
    &BINARY
}

/// Answers requests, given as path, body and on further lines the head, until the test ends; what `answer` gives is
/// written as it is.
pub(crate) fn answering(answer: impl Fn(&str) -> Vec<u8> + Send + Sync + 'static) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap().to_string();
    let answer = std::sync::Arc::new(answer);
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let (mut stream, answer) = (stream.unwrap(), answer.clone());
            std::thread::spawn(move || {
                let (head, body) = request(&mut stream);
                let path = head.split_whitespace().nth(1).unwrap_or_default();
                // The other side may be gone by then, as it may in life.
                drop(stream.write_all(&answer(&format!("{path} {body}\n{head}"))));
            });
        }
    });
    address
}

/// The head and the body of a request.
fn request(stream: &mut impl Read) -> (String, String) {
    let mut bytes = Vec::new();
    let mut piece = [0; 4096];
    loop {
        let text = String::from_utf8_lossy(&bytes).into_owned();
        if let Some((head, body)) = text.split_once("\r\n\r\n") {
            let length = head.lines().find_map(|line| {
                line.to_ascii_lowercase().strip_prefix("content-length:").map(|n| n.trim().parse().unwrap_or(0))
            });
            if body.len() >= length.unwrap_or(0) {
                return (head.to_owned(), body.to_owned());
            }
        }
        match stream.read(&mut piece) {
            Ok(count) if count > 0 => bytes.extend_from_slice(&piece[..count]),
            _ => return (text, String::new()),
        }
    }
}

/// A whole answer.
pub(crate) fn ok(body: &[u8]) -> Vec<u8> {
    let mut answer =
        format!("HTTP/1.1 200 OK\r\nContent-Length: {}\r\nConnection: close\r\n\r\n", body.len()).into_bytes();
    answer.extend_from_slice(body);
    answer
}
