//! The process that listens on a port is this test.

use std::io::{BufRead, BufReader};
use std::net::{IpAddr, Ipv4Addr, TcpListener, TcpStream};
use std::process::{Command, Stdio};

use procprof_process::{Pid, listeners_on};

#[test]
fn finds_us_behind_our_port() {
    let socket = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = socket.local_addr().unwrap();
    let listeners = listeners_on(address.port()).unwrap();
    let listener = listeners.iter().find(|listener| listener.address == address).unwrap();
    assert!(listener.owners.iter().any(|owner| owner.pid == Pid::current()), "{listener:?}");
    assert!(listener.accepts(IpAddr::V4(Ipv4Addr::LOCALHOST)));
    assert!(listener.owners.iter().all(|owner| !owner.name.is_empty()));
    drop(socket);
    let listeners = listeners_on(address.port()).unwrap();
    assert!(listeners.iter().all(|listener| listener.address != address));
}

/// A thread whose descriptors are its own, as the agent's listener is, and which prints its port.
const THREAD_WITH_OWN_DESCRIPTORS: &str = "
import ctypes, socket, sys, threading
def listen():
    CLONE_FILES = 0x400
    assert ctypes.CDLL(None).unshare(CLONE_FILES) == 0
    listener = socket.create_server(('127.0.0.1', 0))
    print(listener.getsockname()[1], flush=True)
    sys.stdin.read()
threading.Thread(target=listen).start()
";

#[test]
fn a_thread_with_descriptors_of_its_own_is_found() {
    let mut program = Command::new("python3")
        .args(["-c", THREAD_WITH_OWN_DESCRIPTORS])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .expect("python3 is needed");
    let mut port = String::new();
    BufReader::new(program.stdout.take().unwrap()).read_line(&mut port).unwrap();
    let listeners = listeners_on(port.trim().parse().unwrap()).unwrap();
    let owners: Vec<Pid> = listeners.iter().flat_map(|listener| &listener.owners).map(|owner| owner.pid).collect();
    assert_eq!(owners, [Pid(program.id())]);
    // Its input ends, and it with it.
    drop(program.stdin.take());
    assert!(program.wait().unwrap().success());
}

#[test]
fn listeners_are_found_among_many_connections() {
    let first = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = first.local_addr().unwrap();
    let connections: Vec<_> =
        (0..100).map(|_| (TcpStream::connect(address).unwrap(), first.accept().unwrap())).collect();
    let second = TcpListener::bind("127.0.0.1:0").unwrap();
    for listener in [&first, &second] {
        let address = listener.local_addr().unwrap();
        let found = listeners_on(address.port()).unwrap();
        assert!(
            found
                .iter()
                .any(|found| found.address == address && found.owners.iter().any(|owner| owner.pid == Pid::current()))
        );
    }
    drop(connections);
}
