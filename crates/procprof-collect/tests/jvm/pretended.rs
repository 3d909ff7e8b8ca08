//! Processes that take part in the protocol and are not JVMs.

use std::io::{BufRead, BufReader};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use procprof_collect::jvm::{Jvm, JvmError};
use procprof_process::Pid;

/// Handles SIGQUIT, puts something where a JVM's socket would be, and answers each connection with `answer`.
const PRETENDER: &str = r#"
import os, signal, socket, sys, time
path = f"/tmp/.java_pid{os.getpid()}"
if os.path.lexists(path): os.unlink(path) # of a JVM that was killed, by the same pid
signal.signal(signal.SIGQUIT, lambda *_: None)
kind = sys.argv[1]
if kind == "link":
    os.symlink("/etc/passwd", path)
elif kind == "file":
    open(path, "w").close()
elif kind == "foreign":
    listener = socket.socket(socket.AF_UNIX); listener.bind(path); listener.listen()
    if os.fork() == 0:
        other = f"/tmp/.java_pid{os.getppid()}"
        os.unlink(other)
        mine = socket.socket(socket.AF_UNIX); mine.bind(other); mine.listen()
        print("ready", os.getppid(), flush=True)
        time.sleep(600)
else:
    listener = socket.socket(socket.AF_UNIX); listener.bind(path); listener.listen()
if kind != "foreign":
    print("ready", os.getpid(), flush=True)
while kind not in ("link", "file", "foreign"):
    connection, _ = listener.accept()
    connection.recv(4096)
    try:
        if kind == "endless":
            while True: connection.sendall(b"0\n" + b"x" * 65536)
        elif kind == "silent": time.sleep(600)
        elif kind == "drip":
            while True: connection.sendall(b"0"); time.sleep(0.05)
        else: connection.sendall(bytes(kind, "latin-1").decode("unicode_escape").encode("latin-1"))
    except BrokenPipeError: pass
    connection.close()
time.sleep(600)
"#;

struct Pretender {
    child: Child,
    pid: Pid,
}

impl Pretender {
    fn start(kind: &str) -> Pretender {
        let mut child = Command::new("python3").args(["-c", PRETENDER, kind]).stdout(Stdio::piped()).spawn().unwrap();
        let mut line = String::new();
        BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
        let pid = line.trim().strip_prefix("ready ").and_then(|pid| pid.parse().ok());
        Pretender { child, pid: Pid(pid.unwrap_or_else(|| panic!("{kind}: {line:?}"))) }
    }

    fn ask(&self, timeout: Duration) -> Result<String, JvmError> {
        Jvm::open(self.pid).unwrap().command("VM.version", timeout)
    }
}

impl Drop for Pretender {
    fn drop(&mut self) {
        let children = std::fs::read_to_string(format!("/proc/{0}/task/{0}/children", self.pid)).unwrap_or_default();
        for child in children.split_whitespace().filter_map(|child| child.parse().ok()) {
            let _ = rustix::process::kill_process(super::raw(Pid(child)), rustix::process::Signal::KILL);
        }
        let _ = self.child.kill();
        let _ = self.child.wait();
        let _ = std::fs::remove_file(format!("/tmp/.java_pid{}", self.pid));
    }
}

#[test]
fn links_files_and_other_processes_sockets_are_refused() {
    for (kind, why) in
        [("link", "not a socket"), ("file", "not a socket"), ("foreign", "another process listens there")]
    {
        let error = Pretender::start(kind).ask(super::PATIENCE).unwrap_err();
        assert!(matches!(error, JvmError::Suspicious { .. }) && error.to_string().contains(why), "{kind}: {error}");
    }
}

#[test]
fn odd_answers_are_errors_within_their_time_and_size() {
    let short = Duration::from_millis(400);
    let outcome = |kind: &str, timeout| Pretender::start(kind).ask(timeout).map_err(|error| error.code());
    assert_eq!(outcome("0\\nyes\\n", super::PATIENCE), Ok("yes\n".to_owned()));
    assert_eq!(outcome("", super::PATIENCE), Err("jvm_refused"));
    assert_eq!(outcome("no code", super::PATIENCE), Err("jvm_refused"));
    assert_eq!(outcome("-1\\n\\x1b[31mred", super::PATIENCE), Err("jvm_refused"));
    assert_eq!(outcome("99999999999\\n", super::PATIENCE), Err("jvm_refused"));
    assert_eq!(outcome("endless", super::PATIENCE), Err("too_large"));
    assert_eq!(outcome("silent", short), Err("timeout"));
    assert_eq!(outcome("drip", short), Err("timeout"));
}

#[test]
fn what_only_handles_the_signal_is_not_sent_it_for_names() {
    let pretender = Pretender::start("file");
    std::fs::remove_file(format!("/tmp/.java_pid{}", pretender.pid)).unwrap();
    let error = Jvm::open(pretender.pid).unwrap().perf_map(super::PATIENCE).map(drop).unwrap_err();
    assert!(matches!(error, JvmError::NotAttachable { .. }), "{error}");
    assert!(!std::path::Path::new(&format!("/tmp/.attach_pid{}", pretender.pid)).exists());
}

#[test]
fn what_does_not_handle_the_signal_lives_on() {
    let mut sleeper = Command::new("sleep").arg("600").spawn().unwrap();
    let error = Jvm::open(Pid(sleeper.id())).unwrap().command("VM.version", super::PATIENCE).unwrap_err();
    assert!(matches!(error, JvmError::NotAJvm { .. }), "{error}");
    assert!(sleeper.try_wait().unwrap().is_none());
    sleeper.kill().unwrap();
    sleeper.wait().unwrap();
    assert!(matches!(Jvm::open(Pid(sleeper.id())), Err(JvmError::Gone { .. })));
}
