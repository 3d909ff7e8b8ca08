//! The listener without a thread, which is the default, in programs with one thread and with several.

use crate::build::program;
use crate::host::{Host, get, get_soon, preloaded, wait_until};
use std::io::{Read, Write};
use std::net::TcpStream;
use std::time::Duration;

/// A program under the library as users start it.
fn on_demand(source: &str, arguments: &[&str]) -> Host {
    let mut command = preloaded(&program(source, &[]));
    command.args(arguments).env("PROCPROF_LISTENER", "on-demand");
    Host::start(command)
}

/// Names of the process's threads but the first.
fn other_threads(host: &Host) -> Vec<String> {
    let folder = format!("/proc/{}/task", host.pid());
    let threads = std::fs::read_dir(folder).unwrap().flatten();
    let others = threads.filter(|thread| thread.file_name().to_str() != Some(&host.pid().to_string()));
    others
        .filter_map(|thread| Some(std::fs::read_to_string(thread.path().join("comm")).ok()?.trim().to_owned()))
        .collect()
}

/// Descriptors in the program's table but the standard ones.
fn sockets(host: &Host) -> Vec<u32> {
    let entries = std::fs::read_dir(format!("/proc/{}/fd", host.pid())).unwrap().flatten();
    let is_socket = |entry: &std::fs::DirEntry| {
        std::fs::read_link(entry.path()).is_ok_and(|link| link.to_string_lossy().starts_with("socket:"))
    };
    entries.filter(is_socket).filter_map(|entry| entry.file_name().to_str()?.parse().ok()).collect()
}

#[test]
fn a_thread_answers_clients_of_a_program_that_allocates_and_ends_after_the_last() {
    let mut host = on_demand("allocates.c", &[]);
    // Each line states whether the C library has seen one thread only.
    for _ in 0..3 {
        assert_eq!(host.line(), "alone");
        assert_eq!(other_threads(&host), Vec::<String>::new());
    }
    assert!(matches!(sockets(&host)[..], [number] if number >= 960), "{:?}", sockets(&host));
    for round in 0..3 {
        for path in ["/debug/pprof/profile?seconds=1", "/debug/pprof/heap", "/debug/pprof/wall?seconds=1"] {
            assert!(!host.get(path).is_empty(), "{path}");
        }
        assert!(matches!(sockets(&host)[..], [number] if number >= 960), "connections are in a table of their own");
        wait_until(&format!("the end of the thread, round {round}"), || other_threads(&host).is_empty());
    }
    assert!(host.finish().success());
}

/// Connections wait in the kernel until the program allocates.
#[test]
fn a_client_waits_for_a_program_that_does_not_allocate() {
    let mut host = on_demand("waits.c", &["read"]);
    assert_eq!(host.line(), "ready");
    let mut early = TcpStream::connect(&host.address).unwrap();
    early.set_read_timeout(Some(Duration::from_secs(1))).unwrap();
    write!(early, "GET /debug/pprof/cmdline HTTP/1.1\r\nHost: {}\r\n\r\n", host.address).unwrap();
    assert!(early.read(&mut [0; 64]).is_err(), "it was answered by nobody");
    assert_eq!(other_threads(&host), Vec::<String>::new());
    early.set_read_timeout(None).unwrap();
    host.go_on();
    assert_eq!(host.line(), "allocated");
    let mut answer = String::new();
    early.read_to_string(&mut answer).unwrap();
    assert!(answer.starts_with("HTTP/1.1 200 "), "{answer}");
    assert!(host.finish().success());
}

#[test]
fn a_server_that_never_allocates_looks_for_clients_where_it_waits() {
    let mut host = on_demand("waits.c", &["epoll"]);
    assert_eq!(host.line(), "ready");
    get_soon(&host.address, "/debug/pprof/profile?seconds=1");
    wait_until("the end of the thread", || other_threads(&host).is_empty());
    assert!(host.finish().success());
}

/// Such a program has lost nothing, and may be idle.
#[test]
fn a_program_with_several_threads_has_a_thread_that_listens() {
    let mut host = on_demand("waits.c", &["threads"]);
    assert_eq!(host.line(), "ready");
    for _ in 0..3 {
        host.get("/debug/pprof/cmdline");
        std::thread::sleep(Duration::from_millis(1200));
        assert!(other_threads(&host).contains(&"procprof-http".to_owned()), "{:?}", other_threads(&host));
    }
    assert!(host.finish().success());
}

#[test]
fn a_thread_that_is_asked_for_is_there_from_the_start() {
    let mut command = preloaded(&program("waits.c", &[]));
    command.arg("read").env("PROCPROF_LISTENER", "thread");
    let mut host = Host::start(command);
    assert_eq!(host.line(), "ready");
    assert_eq!(other_threads(&host), ["procprof-http"]);
    host.get("/debug/pprof/cmdline");
    assert_eq!(sockets(&host), Vec::<u32>::new());
    assert!(host.finish().success());
}

/// A socket that the program has closed is bound anew, under a number that is free, when it allocates.
#[test]
fn a_socket_that_the_program_closes_is_bound_anew() {
    let mut host = on_demand("waits.c", &["close"]);
    assert_eq!(host.line(), "ready");
    host.get("/debug/pprof/cmdline");
    wait_until("the end of the thread", || other_threads(&host).is_empty());
    host.go_on();
    assert_eq!(host.line(), "closed");
    get_soon(&host.address, "/debug/pprof/cmdline");
    host.go_on();
    assert_eq!(host.line(), "lost 0");
    assert!(host.finish().success());
}

/// The child has neither the socket nor a look for clients while its parent lives.
#[test]
fn a_forked_child_leaves_the_socket_to_its_parent() {
    let mut host = on_demand("waits.c", &["fork"]);
    let child: u32 = host.line().parse().unwrap();
    for _ in 0..5 {
        let answer = host.get("/debug/pprof/heap");
        assert!(!answer.is_empty());
    }
    let links = std::fs::read_dir(format!("/proc/{child}/fd")).unwrap().flatten();
    let sockets = links.filter_map(|entry| std::fs::read_link(entry.path()).ok());
    assert_eq!(sockets.filter(|link| link.to_string_lossy().starts_with("socket:")).count(), 0);
    assert_eq!(std::fs::read_dir(format!("/proc/{child}/task")).unwrap().count(), 1);
    assert!(host.finish().success());
}

/// No signal ends a wait of the program's: with clients that connect, it counts none that ended early.
#[test]
fn waits_of_the_program_are_not_interrupted() {
    let mut host = on_demand("waits.c", &["interrupted"]);
    assert_eq!(host.line(), "ready");
    for _ in 0..20 {
        get(&host.address, "/debug/pprof/cmdline").unwrap();
        get(&host.address, "/debug/pprof/heap").unwrap();
    }
    host.go_on();
    assert_eq!(host.line(), "interrupted 0");
    assert!(host.finish().success());
}
