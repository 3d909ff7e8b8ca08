//! Processes that come from a process that listens.

use crate::build::program;
use crate::host::{Host, Running, get_soon, preloaded, wait_until};
use std::net::{SocketAddr, TcpStream};
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::path::Path;
use std::process::{Command, Stdio};

/// A loopback address that no other process gets by chance while this is there: a socket is bound to it that does not
/// listen, which one that may share addresses (`SO_REUSEADDR`) can do nevertheless.
struct ReservedAddress {
    _socket: OwnedFd,
    address: SocketAddr,
}

impl ReservedAddress {
    fn new() -> Self {
        let on: libc::c_int = 1;
        let mut address = libc::sockaddr_in {
            sin_family: libc::AF_INET as libc::sa_family_t,
            sin_port: 0,
            sin_addr: libc::in_addr { s_addr: u32::from_ne_bytes([127, 0, 0, 1]) },
            sin_zero: [0; 8],
        };
        let mut length = size_of_val(&address) as libc::socklen_t;
        // SAFETY: the kernel reads and fills values of the lengths given; the descriptor is this socket's alone.
        let socket = unsafe {
            let number = libc::socket(libc::AF_INET, libc::SOCK_STREAM | libc::SOCK_CLOEXEC, 0);
            assert!(number >= 0, "{}", std::io::Error::last_os_error());
            let socket = OwnedFd::from_raw_fd(number);
            let (level, name, bytes) = (libc::SOL_SOCKET, libc::SO_REUSEADDR, size_of_val(&on) as libc::socklen_t);
            assert_eq!(libc::setsockopt(number, level, name, (&raw const on).cast(), bytes), 0);
            assert_eq!(libc::bind(number, (&raw const address).cast(), length), 0);
            assert_eq!(libc::getsockname(socket.as_raw_fd(), (&raw mut address).cast(), &raw mut length), 0);
            socket
        };
        Self { _socket: socket, address: SocketAddr::from(([127, 0, 0, 1], u16::from_be(address.sin_port))) }
    }
}

#[test]
fn a_daemon_takes_the_listener_over() {
    a_daemon_listens("thread");
    a_daemon_listens("on-demand");
}

fn a_daemon_listens(listener: &str) {
    let folder = tempfile::tempdir().unwrap();
    let alive = folder.path().join("alive");
    std::fs::write(&alive, "").unwrap();
    let reserved = ReservedAddress::new();
    let address = reserved.address.to_string();
    let mut command = preloaded(&program("daemon.c", &[]));
    command.env("PROCPROF_LISTENER", listener);
    command.arg(&alive).env("PROCPROF_LISTEN", &address).stdin(Stdio::piped()).stdout(Stdio::piped());
    let mut parent = Running(command.spawn().unwrap());
    // It waits for its input, where it looks for no clients.
    if listener == "thread" {
        get_soon(&address, "/debug/pprof/cmdline");
    }
    drop(parent.0.stdin.take());
    assert!(parent.0.wait().unwrap().success());
    // The parent and with it its listener are gone.
    let answer = get_soon(&address, "/debug/pprof/cmdline");
    assert!(String::from_utf8_lossy(&answer).contains("daemon"));
    get_soon(&address, "/debug/pprof/profile?seconds=1");
    std::fs::remove_file(&alive).unwrap();
    wait_until("the end of the daemon", || TcpStream::connect(&address).is_err());
}

#[test]
fn children_keep_still_while_their_ancestor_listens() {
    let mut command = preloaded(Path::new("/bin/sh"));
    let script = "/bin/sh -c '(/bin/ls -d /); grep Threads /proc/$$/status'; grep Threads /proc/$$/status";
    command.args(["-c", script]).env("PROCPROF_LISTEN", "127.0.0.1:0");
    for (listener, threads) in [("thread", 2), ("on-demand", 1)] {
        let output = command.env("PROCPROF_LISTENER", listener).output().unwrap();
        assert_eq!(String::from_utf8_lossy(&output.stdout), format!("/\nThreads:\t1\nThreads:\t{threads}\n"));
        let errors = String::from_utf8_lossy(&output.stderr);
        assert!(errors.lines().count() == 1 && errors.contains("listens on http://"), "{errors}");
    }
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
