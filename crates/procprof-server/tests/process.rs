//! Processes under test: built, started, and ended with the test.

use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::OnceLock;

/// A running server that printed `port N`.
pub(crate) struct Running {
    child: Child,
    pub(crate) port: u16,
}

impl Running {
    fn start(command: &mut Command) -> Running {
        let mut child = command.stdout(Stdio::piped()).spawn().unwrap_or_else(|error| panic!("{command:?}: {error}"));
        let mut line = String::new();
        BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
        let port = line.trim().strip_prefix("port ").and_then(|port| port.parse().ok());
        Running { child, port: port.unwrap_or_else(|| panic!("{command:?} printed {line:?}")) }
    }

    /// The Go program of `testdata/go/pprof-server`.
    pub(crate) fn go() -> Running {
        Running::start(&mut Command::new(go_server()))
    }

    /// The replayed brpc service, with profiles of itself.
    pub(crate) fn brpc() -> Running {
        Running::start(Command::new(replay()).arg("--live"))
    }

    pub(crate) fn kill(&mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        drop(self.child.kill());
        drop(self.child.wait());
    }
}

fn repository() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").canonicalize().unwrap()
}

/// The replay is an example of the crate that collects; it is built when it is not there yet.
pub(crate) fn replay() -> &'static Path {
    static PROGRAM: OnceLock<PathBuf> = OnceLock::new();
    PROGRAM.get_or_init(|| {
        let tests = std::env::current_exe().unwrap();
        let path = tests.parent().unwrap().parent().unwrap().join("examples/brpc_replay");
        if !path.exists() {
            let mut build = Command::new(env!("CARGO"));
            build.args(["build", "-p", "procprof-collect", "--example", "brpc_replay"]).current_dir(repository());
            build.env_remove("RUSTC_BOOTSTRAP");
            assert!(build.status().unwrap().success(), "{build:?}");
        }
        path
    })
}

fn go_server() -> &'static Path {
    static PROGRAM: OnceLock<PathBuf> = OnceLock::new();
    PROGRAM.get_or_init(|| {
        let binary = Path::new(env!("CARGO_TARGET_TMPDIR")).join("go-pprof-server");
        let mut build = Command::new("go");
        build.args(["build", "-o"]).arg(&binary).arg(".").current_dir(repository().join("testdata/go/pprof-server"));
        let status =
            build.status().unwrap_or_else(|error| panic!("go (the Go toolchain) is needed for this test: {error}"));
        assert!(status.success(), "{build:?}");
        binary
    })
}
