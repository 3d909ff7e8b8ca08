//! The daemon: one at a time, at a fixed rate, ended by a signal.

use std::fs;
use std::net::{Shutdown, TcpListener, TcpStream};
use std::path::Path;
use std::process::{Command, Output};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::time::{Duration, Instant};

use super::replay::Replay;
use super::{collect, files, text};
use crate::harness::PATIENCE;

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
        assert!(begun.elapsed() < PATIENCE, "no {what}");
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
    // This waits until the terminal is given back.
    let first = start(home.path());
    assert!(first.status.success(), "{}", text(&first.stderr));
    let daemon = Daemon::from_pid_file(&pid_file);
    assert!(Path::new("/proc").join(&daemon.pid).exists(), "the terminal waited for the daemon");
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
    // Breaks off until the test has it answer.
    let (listener, replay) = (TcpListener::bind("127.0.0.1:0").unwrap(), Replay::live());
    let (attempts, is_up) = (Arc::new(AtomicU32::new(0)), Arc::new(AtomicBool::new(false)));
    let home = home(listener.local_addr().unwrap().port());
    let (counted, answers) = (Arc::clone(&attempts), Arc::clone(&is_up));
    std::thread::spawn(move || {
        for client in listener.incoming().flatten() {
            counted.fetch_add(1, Ordering::SeqCst);
            if answers.load(Ordering::SeqCst) {
                forward(client, TcpStream::connect(("127.0.0.1", replay.port)).unwrap());
            }
        }
    });
    // A pid file of a process that is long gone does not prevent a start.
    fs::create_dir(home.path().join("bin")).unwrap();
    let pid_file = home.path().join("bin/collect_be_profile.pid");
    fs::write(&pid_file, "1\n").unwrap();
    assert!(start(home.path()).status.success());
    let daemon = Daemon::from_pid_file(&pid_file);
    let log = || fs::read_to_string(home.path().join("logs/collect_be_profile.log")).unwrap();
    wait_for("error", || log().contains("ERROR: "));
    let before = attempts.load(Ordering::SeqCst);
    wait_for("two more attempts", || attempts.load(Ordering::SeqCst) >= before + 2);
    assert!(files(&home.path().join("logs")).is_empty());
    is_up.store(true, Ordering::SeqCst);
    wait_for("return", || log().contains("cpu profile: works again after "));
    daemon.terminate();
    assert_eq!(log().matches("ERROR:").count(), 1, "{}", log());
}

/// Copies between two connections until one ends.
fn forward(client: TcpStream, server: TcpStream) {
    let (mut from_client, mut to_server) = (client.try_clone().unwrap(), server.try_clone().unwrap());
    std::thread::spawn(move || drop(std::io::copy(&mut from_client, &mut to_server)));
    let (mut from_server, mut to_client) = (server, client);
    std::thread::spawn(move || {
        // One of them may have gone.
        let _ = std::io::copy(&mut from_server, &mut to_client);
        let _ = to_client.shutdown(Shutdown::Both);
    });
}
