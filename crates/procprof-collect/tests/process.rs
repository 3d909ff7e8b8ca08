//! Processes under test: built, started, and ended with the test.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdout, Command, Stdio};
use std::sync::OnceLock;
use std::time::Duration;

/// Longest wait for anything that must happen; nothing is measured by it.
pub(crate) const PATIENCE: Duration = Duration::from_secs(180);

/// A running server that printed `port N`.
pub(crate) struct Server {
    pub(crate) child: Child,
    pub(crate) port: u16,
    /// Lines that it prints after that, until someone takes them.
    output: Option<BufReader<ChildStdout>>,
}

impl Server {
    fn start(command: &mut Command) -> Server {
        let mut child = command.stdout(Stdio::piped()).spawn().unwrap_or_else(|error| panic!("{command:?}: {error}"));
        let mut line = String::new();
        let mut output = BufReader::new(child.stdout.take().unwrap());
        output.read_line(&mut line).unwrap();
        let port = line.trim().strip_prefix("port ").and_then(|port| port.parse().ok());
        Server { child, port: port.unwrap_or_else(|| panic!("{command:?} said {line:?}")), output: Some(output) }
    }

    /// The replayed brpc service, with recorded profiles.
    pub(crate) fn brpc_recorded() -> Server {
        Server::start(Command::new(replay()).arg("--recorded").arg(repository().join("testdata/brpc")))
    }

    /// The replayed brpc service, with profiles of itself.
    pub(crate) fn brpc_live() -> Server {
        Server::start(Command::new(replay()).arg("--live"))
    }

    /// The Go program of `testdata/go/pprof-server`.
    pub(crate) fn go() -> Server {
        Server::start(&mut Command::new(go_server()))
    }

    /// A process that listens and answers nobody, with a file of the preload library's name mapped.
    pub(crate) fn deaf() -> Server {
        const SCRIPT: &str = "import mmap, os, socket, sys, tempfile, time\n\
            folder = tempfile.mkdtemp()\n\
            path = os.path.join(folder, 'libprocprof_preload.so')\n\
            open(path, 'wb').write(bytes(4096))\n\
            file = open(path, 'rb')\n\
            library = mmap.mmap(file.fileno(), 4096, prot=mmap.PROT_READ)\n\
            os.unlink(path)\n\
            os.rmdir(folder)\n\
            listener = socket.create_server(('127.0.0.1', 0))\n\
            print('port', listener.getsockname()[1], flush=True)\n\
            time.sleep(3600)\n";
        Server::start(Command::new("python3").args(["-c", SCRIPT]))
    }

    /// Waits until the replayed brpc service has begun its first profile.
    pub(crate) async fn samples(&mut self) {
        let mut output = self.output.take().unwrap();
        let line = tokio::task::spawn_blocking(move || {
            let mut line = String::new();
            output.read_line(&mut line).map(|_| line)
        });
        let line = tokio::time::timeout(PATIENCE, line).await.expect("it begins a profile").unwrap();
        assert_eq!(line.unwrap(), "sampling\n");
    }

    /// Kills it and leaves it unwaited for: what ended is not gone yet.
    pub(crate) fn kill(&mut self) {
        self.child.kill().unwrap();
    }
}

/// Keeps the CPU profiler of a replayed brpc busy for as long as the connections are held: sends requests until one is
/// refused.
pub(crate) fn occupy(port: u16) -> Vec<TcpStream> {
    let mut connections = Vec::new();
    loop {
        let mut stream = TcpStream::connect(("127.0.0.1", port)).unwrap();
        stream.set_read_timeout(Some(Duration::from_millis(500))).unwrap();
        stream.write_all(b"GET /pprof/profile?seconds=3600 HTTP/1.1\r\n\r\n").unwrap();
        let mut answer = [0; 64];
        let read = stream.read(&mut answer).unwrap_or(0);
        connections.push(stream);
        if answer[..read].starts_with(b"HTTP/1.1 500") {
            return connections;
        }
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        drop(self.child.kill());
        drop(self.child.wait());
    }
}

fn repository() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").canonicalize().unwrap()
}

/// `cargo test` builds the examples beside the tests: `target/debug/examples` beside `target/debug/deps`.
fn replay() -> PathBuf {
    let tests = std::env::current_exe().unwrap();
    let path = tests.parent().unwrap().parent().unwrap().join("examples/brpc_replay");
    assert!(path.exists(), "{}: run `cargo build -p procprof-collect --example brpc_replay`", path.display());
    path
}

fn go_server() -> &'static Path {
    static BINARY: OnceLock<PathBuf> = OnceLock::new();
    BINARY.get_or_init(|| {
        let binary = Path::new(env!("CARGO_TARGET_TMPDIR")).join("go-pprof-server");
        let source = repository().join("testdata/go/pprof-server");
        let mut build = Command::new("go");
        build.args(["build", "-o"]).arg(&binary).arg(".").current_dir(source);
        let status =
            build.status().unwrap_or_else(|error| panic!("go (the Go toolchain) is needed for this test: {error}"));
        assert!(status.success(), "{build:?}");
        binary
    })
}
