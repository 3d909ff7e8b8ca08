//! The listener over real sockets.

use crate::isolated::isolated;
use crate::work::wait_until;
use procprof_agent::{Agent, Config, Listener, MAX_CONNECTIONS, Response, start};
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// A listener on a free loopback port.
pub(crate) fn listen(agent: Agent) -> Listener {
    Listener::bind(SocketAddr::from(([127, 0, 0, 1], 0)), agent, None).unwrap()
}

fn exchange(address: SocketAddr, request: &str) -> String {
    String::from_utf8(exchange_bytes(address, request)).unwrap()
}

fn exchange_bytes(address: SocketAddr, request: &str) -> Vec<u8> {
    let mut stream = TcpStream::connect(address).unwrap();
    stream.write_all(request.as_bytes()).unwrap();
    let mut answer = Vec::new();
    stream.read_to_end(&mut answer).unwrap();
    answer
}

#[test]
fn requests_are_answered_with_length_and_head_has_no_body() {
    let listener = listen(start(Config::default()).unwrap());
    let got = exchange(listener.address(), "GET /pprof/symbol HTTP/1.1\r\nHost: localhost\r\n\r\n");
    assert!(got.starts_with("HTTP/1.1 200 OK\r\n"), "{got}");
    assert!(got.contains("\r\nContent-Length: 15\r\n") && got.contains("\r\n\r\nnum_symbols: "), "{got}");
    let head = exchange(listener.address(), "HEAD /pprof/symbol HTTP/1.1\r\nHost: localhost\r\n\r\n");
    assert!(head.contains("\r\nContent-Length: 15\r\n") && head.ends_with("\r\n\r\n"), "{head}");
    listener.stop();
}

#[test]
fn broken_and_foreign_requests_are_refused() {
    let listener = listen(start(Config::default()).unwrap());
    let long = format!("GET /{} HTTP/1.1\r\n\r\n", "a".repeat(20 << 10));
    for (request, status) in [
        ("nonsense\r\n\r\n", "400"),
        (long.as_str(), "431"),
        ("GET / HTTP/1.1\r\nHost: evil.example\r\n\r\n", "403"),
        ("POST /debug/pprof/heap/disable HTTP/1.1\r\nHost: localhost\r\nOrigin: http://evil.example\r\n\r\n", "403"),
        ("POST /pprof/symbol HTTP/1.1\r\nHost: localhost\r\nContent-Length: 99999999\r\n\r\n", "413"),
        ("GET /nothing HTTP/1.0\r\n\r\n", "404"),
        ("DELETE /pprof/heap HTTP/1.1\r\nHost: localhost\r\n\r\n", "405"),
    ] {
        let got = exchange(listener.address(), request);
        assert!(got.starts_with(&format!("HTTP/1.1 {status} ")), "{request:.60}: {got}");
    }
}

#[test]
fn an_address_beyond_loopback_needs_a_token() {
    let everywhere = SocketAddr::from(([0, 0, 0, 0], 0));
    let refused = Listener::bind(everywhere, start(Config::default()).unwrap(), None).unwrap_err();
    assert!(refused.to_string().contains("needs a token"), "{refused}");
    let agent = start(Config { token: Some("t".into()), ..Config::default() }).unwrap();
    let listener = Listener::bind(everywhere, agent, None).unwrap();
    let address = SocketAddr::from(([127, 0, 0, 1], listener.address().port()));
    let without = exchange(address, "GET /debug/pprof/ HTTP/1.1\r\nHost: some.host\r\n\r\n");
    assert!(without.starts_with("HTTP/1.1 401 ") && without.contains("WWW-Authenticate: Bearer"), "{without}");
    let with = exchange(address, "GET /debug/pprof/ HTTP/1.1\r\nHost: some.host\r\nAuthorization: Bearer t\r\n\r\n");
    assert!(with.starts_with("HTTP/1.1 200 "), "{with}");
}

#[test]
fn the_extra_handler_answers_first() {
    let extra =
        |request: &procprof_agent::Request<'_>| (request.path == "/healthz").then(|| Response::text(200, "well"));
    let address = SocketAddr::from(([127, 0, 0, 1], 0));
    let listener = Listener::bind(address, start(Config::default()).unwrap(), Some(Arc::new(extra))).unwrap();
    assert!(
        exchange(listener.address(), "GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n").ends_with("\r\n\r\nwell\n")
    );
    assert!(
        exchange(listener.address(), "GET /pprof/cmdline HTTP/1.1\r\nHost: localhost\r\n\r\n")
            .starts_with("HTTP/1.1 200")
    );
}

#[test]
fn too_many_connections_are_refused_and_idle_ones_do_not_delay_the_stop() {
    let listener = listen(start(Config::default()).unwrap());
    let idle: Vec<_> = (0..MAX_CONNECTIONS).map(|_| TcpStream::connect(listener.address()).unwrap()).collect();
    // Connections are accepted in their order.
    let mut refused = TcpStream::connect(listener.address()).unwrap();
    let mut answer = String::new();
    refused.read_to_string(&mut answer).unwrap();
    assert!(answer.starts_with("HTTP/1.1 503 ") && answer.ends_with("16 connections are open already\n"), "{answer}");
    drop(idle);
    let ask = || exchange(listener.address(), "GET /pprof/cmdline HTTP/1.1\r\nHost: localhost\r\n\r\n");
    wait_until("that those who left do not count", || ask().starts_with("HTTP/1.1 200"));
    listener.stop();
    // It waits for one that answers, for 5 s; a busy machine may be slow now and then.
    wait_until("a stop that does not wait for one that asks nothing", || {
        let listener = listen(start(Config::default()).unwrap());
        let address = listener.address();
        let _idle = TcpStream::connect(address).unwrap();
        let began = Instant::now();
        listener.stop();
        assert!(TcpStream::connect(address).is_err());
        began.elapsed() < Duration::from_secs(4)
    });
}

#[test]
fn a_client_that_leaves_ends_its_capture() {
    isolated("listener::a_client_that_leaves_ends_its_capture", || {
        let listener = listen(start(Config::default()).unwrap());
        let ask =
            || exchange_bytes(listener.address(), "GET /pprof/wall?seconds=1 HTTP/1.1\r\nHost: localhost\r\n\r\n");
        let mut first = None;
        // The first one is refused if the second one begins before it.
        wait_until("a capture that is refused", || {
            let mut stream = TcpStream::connect(listener.address()).unwrap();
            stream.write_all(b"GET /debug/pprof/wall?seconds=300 HTTP/1.1\r\nHost: localhost\r\n\r\n").unwrap();
            first = Some(stream);
            ask().starts_with(b"HTTP/1.1 409 ")
        });
        drop(first);
        let left = Instant::now();
        wait_until("the end of the capture of a client that has left", || ask().starts_with(b"HTTP/1.1 200 "));
        assert!(left.elapsed() < Duration::from_secs(250), "it goes on for a client that has left");
    });
}
