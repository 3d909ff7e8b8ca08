//! Processes that come from a process that listens.

use crate::build::program;
use crate::host::{Host, get_soon, preloaded};
use std::path::Path;
use std::process::{Command, Stdio};

fn free_port() -> u16 {
    std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port()
}

#[test]
fn a_daemon_takes_the_listener_over() {
    let folder = tempfile::tempdir().unwrap();
    let alive = folder.path().join("alive");
    std::fs::write(&alive, "").unwrap();
    let address = format!("127.0.0.1:{}", free_port());
    let mut command = preloaded(&program("daemon.c", &[]));
    command.arg(&alive).env("PROCPROF_LISTEN", &address).stdin(Stdio::piped()).stdout(Stdio::piped());
    let mut parent = command.spawn().unwrap();
    get_soon(&address, "/debug/pprof/cmdline");
    drop(parent.stdin.take());
    assert!(parent.wait().unwrap().success());
    // The parent and with it its listener are gone.
    let answer = get_soon(&address, "/debug/pprof/cmdline");
    assert!(String::from_utf8_lossy(&answer).contains("daemon"));
    get_soon(&address, "/debug/pprof/profile?seconds=1");
    std::fs::remove_file(&alive).unwrap();
}

#[test]
fn children_keep_still_while_their_ancestor_listens() {
    let address = format!("127.0.0.1:{}", free_port());
    let mut command = preloaded(Path::new("/bin/sh"));
    let script = "/bin/sh -c '(/bin/ls -d /); grep Threads /proc/$$/status'; grep Threads /proc/$$/status";
    command.args(["-c", script]).env("PROCPROF_LISTEN", &address);
    let output = command.output().unwrap();
    assert_eq!(String::from_utf8_lossy(&output.stdout), "/\nThreads:\t1\nThreads:\t2\n");
    assert_eq!(String::from_utf8_lossy(&output.stderr), "");
}

/// A program that takes the place of the one that was started, as after `env` and `nohup`, listens again.
#[test]
fn exec_begins_anew() {
    let mut command = preloaded(Path::new("/usr/bin/env"));
    command.args(["/bin/cat"]);
    let host = Host::start(command);
    let address = host.reported_address();
    assert!(
        String::from_utf8_lossy(&crate::host::get(&address, "/debug/pprof/cmdline").unwrap()).starts_with("/bin/cat")
    );
    assert!(host.unread_errors().is_empty());
    assert!(host.finish().success());
}

#[test]
fn only_the_named_program_listens() {
    let mut command = preloaded(Path::new("/bin/sh"));
    command.args(["-c", "/bin/cat; exit 5"]).env("PROCPROF_ONLY", "another,cat");
    let host = Host::start(command);
    assert!(String::from_utf8_lossy(&host.get("/debug/pprof/cmdline")).starts_with("/bin/cat"));
    assert_eq!(host.finish().code(), Some(5));
}

#[test]
fn descriptors_that_the_program_took_stay_its_own() {
    let mut host = Host::start(preloaded(&program("closes.c", &[])));
    assert_eq!(host.line(), "ready");
    host.go_on();
    assert_eq!(host.line(), "closed");
    // The first connection still reaches the old socket, if a thread was waiting for it already.
    let _ = crate::host::get(&host.address, "/debug/pprof/");
    get_soon(&host.address, "/debug/pprof/");
    host.go_on();
    assert_eq!(host.line(), "lost:");
    assert!(host.finish().success());
}

/// The loader ignores `LD_PRELOAD` where a program has more rights than its caller; nothing of ours is to be seen then.
#[test]
fn a_child_without_the_library_is_left_alone() {
    let output = Command::new("/bin/sh")
        .args(["-c", "echo $LD_PRELOAD"])
        .env("PROCPROF_LISTEN", "127.0.0.1:0")
        .output()
        .unwrap();
    assert_eq!((output.stdout.as_slice(), output.stderr.as_slice()), (b"\n".as_slice(), b"".as_slice()));
}
