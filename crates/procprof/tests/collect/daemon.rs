//! The daemon: one at a time, at a fixed rate, ended by a signal.

use std::fs;
use std::path::Path;
use std::process::{Command, Output};
use std::time::{Duration, Instant};

use super::replay::Replay;
use super::{collect, files, text};

/// A StarRocks home whose `be.conf` names the port and a round every 2 seconds.
fn home(port: u16) -> tempfile::TempDir {
    let home = tempfile::tempdir().unwrap();
    fs::create_dir(home.path().join("conf")).unwrap();
    let conf =
        format!("# test\nbrpc_port = {port}\nsys_log_dir = ${{STARROCKS_HOME}}/logs\nCOLLECT_BE_PROFILE_INTERVAL=2\n");
    fs::write(home.path().join("conf/be.conf"), conf).unwrap();
    home
}

fn start(home: &Path) -> Output {
    collect("--daemon --duration 1").env("STARROCKS_HOME", home).output().unwrap()
}

fn wait_for(what: &str, mut happened: impl FnMut() -> bool) {
    let begun = Instant::now();
    while !happened() {
        assert!(begun.elapsed() < Duration::from_secs(20), "no {what} in 20 s");
        std::thread::sleep(Duration::from_millis(50));
    }
}

/// A running daemon; ended with the test, however that ends.
struct Daemon<'a> {
    pid: String,
    pid_file: &'a Path,
}

impl Daemon<'_> {
    fn from_pid_file(pid_file: &Path) -> Daemon<'_> {
        Daemon { pid: fs::read_to_string(pid_file).unwrap().trim().to_owned(), pid_file }
    }

    fn terminate(&self) {
        assert!(Command::new("kill").arg(&self.pid).status().unwrap().success());
        wait_for("end of the daemon", || !self.pid_file.exists());
    }
}

impl Drop for Daemon<'_> {
    fn drop(&mut self) {
        if self.pid_file.exists() {
            drop(Command::new("kill").args(["-9", &self.pid]).status());
        }
    }
}

#[test]
fn collects_until_a_signal_ends_it() {
    let replay = Replay::live();
    let home = home(replay.port);
    let pid_file = home.path().join("bin/collect_be_profile.pid");
    let begun = Instant::now();
    let first = start(home.path());
    assert!(first.status.success(), "{}", text(&first.stderr));
    assert!(begun.elapsed() < Duration::from_secs(5), "the terminal waited for the daemon");
    let daemon = Daemon::from_pid_file(&pid_file);
    let second = start(home.path());
    assert_eq!(second.status.code(), Some(1));
    assert!(text(&second.stderr).contains(&format!("already running (pid {}", daemon.pid)), "{}", text(&second.stderr));
    wait_for("second profile", || files(&home.path().join("logs")).len() >= 2);
    daemon.terminate();
    let log = fs::read_to_string(home.path().join("logs/collect_be_profile.log")).unwrap();
    assert!(log.contains("] cpu profile saved: ") && log.trim_end().ends_with("] stopped"), "{log}");
}

#[test]
fn a_backend_that_is_down_is_logged_once_and_so_is_its_return() {
    let replay = Replay::live();
    let home = home(replay.port);
    drop(replay);
    // A pid file of a process that is long gone does not prevent a start.
    fs::create_dir(home.path().join("bin")).unwrap();
    let pid_file = home.path().join("bin/collect_be_profile.pid");
    fs::write(&pid_file, "1\n").unwrap();
    assert!(start(home.path()).status.success());
    let daemon = Daemon::from_pid_file(&pid_file);
    let log = || fs::read_to_string(home.path().join("logs/collect_be_profile.log")).unwrap();
    wait_for("error", || log().contains("Connection refused"));
    std::thread::sleep(Duration::from_secs(5));
    daemon.terminate();
    assert_eq!(log().matches("ERROR:").count(), 1, "{}", log());
    assert!(files(&home.path().join("logs")).is_empty());
}
