//! The attacks of hostile clients, each on a thread of its own until it is stopped. None needs to succeed; errors are
//! expected.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use super::{AUTHORIZATION, Target, statement};
use crate::{http, inputs};

/// One attack.
pub(super) type Attack = fn(&Target, &AtomicBool);

/// All of them, by name.
pub(super) const ATTACKS: &[(&str, Attack)] = &[
    ("idle HTTP/1 connections", idle),
    ("idle HTTP/2 connections", idle_h2),
    ("half requests", half_requests),
    ("silent SQL connections", silent_sql),
    ("readers that do not read", slow_readers),
    ("push bombs", push_bombs),
    ("reports of an amplified profile", heavy_reports),
    ("unbounded statements", heavy_statements),
    ("wrong passwords", wrong_passwords),
];

/// Time between two rounds of an attack.
const PAUSE: Duration = Duration::from_millis(500);
const CONNECT: Duration = Duration::from_secs(2);

/// Keeps `count` connections to `address`, each begun with `first`; those that were closed are made again.
fn hold(stop: &AtomicBool, address: &str, count: usize, first: &[u8]) {
    let Ok(address) = address.parse() else { return };
    let mut held: Vec<TcpStream> = Vec::new();
    while !stop.load(Ordering::Relaxed) {
        held.retain_mut(is_open);
        while held.len() < count && !stop.load(Ordering::Relaxed) {
            let Ok(mut stream) = TcpStream::connect_timeout(&address, CONNECT) else { break };
            let begun = stream.set_write_timeout(Some(CONNECT)).and_then(|()| stream.write_all(first));
            if begun.and_then(|()| stream.set_nonblocking(true)).is_ok() {
                held.push(stream);
            }
        }
        thread::sleep(PAUSE);
    }
}

/// Whether the connection is still open; answers are read and discarded.
fn is_open(stream: &mut TcpStream) -> bool {
    match stream.read(&mut [0; 4096]) {
        Ok(bytes) => bytes > 0,
        Err(error) => error.kind() == std::io::ErrorKind::WouldBlock,
    }
}

fn idle(target: &Target, stop: &AtomicBool) {
    hold(stop, &target.http, 600, format!("GET /healthz HTTP/1.1\r\nHost: {}\r\n\r\n", target.http).as_bytes());
}

/// A HEADERS frame on stream 1: `GET /healthz`, by the static table and literals of HPACK (RFC 7541).
fn idle_h2(target: &Target, stop: &AtomicBool) {
    let mut header = vec![0x82, 0x86, 0x04, 8];
    header.extend_from_slice(b"/healthz\x01");
    header.push(target.http.len() as u8);
    header.extend_from_slice(target.http.as_bytes());
    let mut bytes = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\x04\0\0\0\0\0".to_vec();
    bytes.extend_from_slice(&[0, 0, header.len() as u8, 1, 5, 0, 0, 0, 1]);
    bytes.extend_from_slice(&header);
    hold(stop, &target.http, 600, &bytes);
}

fn half_requests(target: &Target, stop: &AtomicBool) {
    hold(stop, &target.http, 200, b"POST /api/push?node=healthy-0 HTTP/1.1\r\nHost: x\r\nContent-Le");
}

fn silent_sql(target: &Target, stop: &AtomicBool) {
    hold(stop, &format!("127.0.0.1:{}", target.sql_port), 256, b"");
}

fn slow_readers(target: &Target, stop: &AtomicBool) {
    let request = format!(
        "GET /p/{}?format=flamegraph HTTP/1.1\r\nHost: {}\r\n{AUTHORIZATION}\r\n",
        target.ordinary, target.http
    );
    let Ok(address) = target.http.parse() else { return };
    let mut held = Vec::new();
    while !stop.load(Ordering::Relaxed) {
        // All of them are dropped from time to time: whether each is still open can't be seen without reading.
        if held.len() >= 100 {
            thread::sleep(Duration::from_secs(10));
            held.clear();
        }
        if let Ok(mut stream) = TcpStream::connect_timeout(&address, CONNECT) {
            let _ = stream.set_write_timeout(Some(CONNECT));
            if stream.write_all(request.as_bytes()).is_ok() {
                held.push(stream);
            }
        }
        thread::sleep(PAUSE / 10);
    }
}

fn push_bombs(target: &Target, stop: &AtomicBool) {
    let Ok(bomb) = inputs::bomb(1 << 30) else { return };
    while !stop.load(Ordering::Relaxed) {
        let _ = http::send("POST", &target.http, "/api/push?node=healthy-0&type=cpu", AUTHORIZATION, &bomb);
        thread::sleep(PAUSE);
    }
}

fn heavy_reports(target: &Target, stop: &AtomicBool) {
    let formats = ["collapsed", "traces", "tags", "disasm", "tree", "flamegraph"];
    for format in formats.iter().cycle().take_while(|_| !stop.load(Ordering::Relaxed)) {
        let _ =
            http::send("GET", &target.http, &format!("/p/{}?format={format}", target.amplified), AUTHORIZATION, &[]);
        thread::sleep(PAUSE);
    }
}

fn heavy_statements(target: &Target, stop: &AtomicBool) {
    let text = "printf('%.*c',4000000,'a')";
    let many = vec![text; 100].join(",");
    let statements = [
        format!("SELECT INSTR({text}, CONCAT(printf('%.*c',2000000,'a'),'b'))"),
        format!("SELECT LENGTH(CONCAT({many}))"),
        "SELECT COUNT(*) FROM profiles a, profiles b, profiles c, profiles d".to_owned(),
        format!("SELECT LENGTH(stack) FROM stacks('{}')", target.amplified),
    ];
    for text in statements.iter().cycle().take_while(|_| !stop.load(Ordering::Relaxed)) {
        let _ = statement(target, text);
        thread::sleep(PAUSE);
    }
}

fn wrong_passwords(target: &Target, stop: &AtomicBool) {
    // load:wrong, eve:wrong
    let credentials = ["bG9hZDp3cm9uZw==", "ZXZlOndyb25n"];
    for credential in credentials.iter().cycle().take_while(|_| !stop.load(Ordering::Relaxed)) {
        let _ = http::send("GET", &target.http, "/api/nodes", &format!("Authorization: Basic {credential}\r\n"), &[]);
        thread::sleep(PAUSE / 25);
    }
}
