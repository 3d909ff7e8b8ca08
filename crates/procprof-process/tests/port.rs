//! Who listens on a port: this test does.

use std::net::{IpAddr, Ipv4Addr, TcpListener};

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
