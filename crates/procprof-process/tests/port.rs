//! The process that listens on a port is this test.

use std::net::{IpAddr, Ipv4Addr, TcpListener, TcpStream};

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
