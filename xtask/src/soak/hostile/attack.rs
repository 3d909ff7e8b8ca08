//! The attacks of hostile clients, each on a thread of its own until it is stopped. None needs to succeed; errors are
//! expected.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::process::Stdio;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use super::{OPERATOR, Target, VIEWER, client, statement};
use crate::product::Running;
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
    ("unfinished uploads", unfinished_uploads),
    ("unfinished uploads over HTTP/2", unfinished_h2_uploads),
    ("unfinished symbols", unfinished_symbols),
    ("idle SQL sessions", idle_sessions),
    ("statements that ask for gigabytes", statement_bombs),
    ("pushes that are no profiles", garbage),
    ("heartbeats that do not end", deep_heartbeats),
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

/// The first bytes of a connection of HTTP/2: its preface and empty settings (RFC 9113).
const H2: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\x04\0\0\0\0\0";
/// Flags of a HEADERS frame: it is whole, and the request ends with it.
const H2_HEADERS: u8 = 4;
const H2_END: u8 = 1;

/// A HEADERS frame of a stream, by the static table and literals of HPACK (RFC 7541). `method` is its place there: 2
/// for GET, 3 for POST.
fn h2_request(target: &Target, stream: u32, flags: u8, (method, path): (u8, &str), authorization: &str) -> Vec<u8> {
    let mut header = vec![0x80 | method, 0x86];
    let mut literal = |name: &[u8], value: &str| {
        header.extend_from_slice(name);
        header.push(value.len() as u8);
        header.extend_from_slice(value.as_bytes());
    };
    literal(&[0x04], path);
    literal(&[0x01], &target.http);
    if let Some((_, value)) = authorization.trim_end().split_once(": ") {
        literal(&[0x0f, 23 - 15], value);
    }
    let mut frame = h2_frame(header.len(), 1, flags, stream);
    frame.extend_from_slice(&header);
    frame
}

/// The head of a frame.
fn h2_frame(length: usize, kind: u8, flags: u8, stream: u32) -> Vec<u8> {
    let length = (length as u32).to_be_bytes();
    [&length[1..], &[kind, flags], &stream.to_be_bytes()].concat()
}

fn idle_h2(target: &Target, stop: &AtomicBool) {
    let request = h2_request(target, 1, H2_HEADERS | H2_END, (2, "/healthz"), "");
    hold(stop, &target.http, 600, &[H2, &request].concat());
}

/// A viewer's files to look at, of which one byte comes.
fn unfinished_uploads(target: &Target, stop: &AtomicBool) {
    hold(stop, &target.http, 270, upload(target, "/open", VIEWER.authorization).as_bytes());
}

fn unfinished_h2_uploads(target: &Target, stop: &AtomicBool) {
    let mut bytes = H2.to_vec();
    for stream in (1..400).step_by(2) {
        bytes.extend(h2_request(target, stream, H2_HEADERS, (3, "/open"), VIEWER.authorization));
        bytes.extend(h2_frame(1, 0, 0, stream));
        bytes.push(0x1f);
    }
    hold(stop, &target.http, 4, &bytes);
}

fn unfinished_symbols(target: &Target, stop: &AtomicBool) {
    hold(stop, &target.http, 100, upload(target, "/api/symbols", &target.token).as_bytes());
}

/// A request with the first byte of its body.
fn upload(target: &Target, path: &str, authorization: &str) -> String {
    format!("POST {path} HTTP/1.1\r\nHost: {}\r\n{authorization}Content-Length: 1000000\r\n\r\n\x1f", target.http)
}

/// A viewer's connections for SQL, signed in and silent.
fn idle_sessions(target: &Target, stop: &AtomicBool) {
    let mut sessions: Vec<Running> = Vec::new();
    while !stop.load(Ordering::Relaxed) {
        sessions.retain_mut(|session| matches!(session.ended(), Ok(None)));
        if sessions.len() < 80 {
            let mut command = client(target, VIEWER);
            command.stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::null());
            sessions.extend(command.spawn().map(Running::new));
        }
        thread::sleep(PAUSE / 10);
    }
}

/// Short statements of a viewer that are large when they are carried out.
fn statement_bombs(target: &Target, stop: &AtomicBool) {
    let many = |count: usize, between: &str, text: &str| vec![text; count].join(between);
    let statements = [
        format!("SELECT {}", many(200, ",", "repeat('a', 1000000)")),
        format!("SELECT {} FROM profiles", many(700, "+", "id")),
        many(400, " UNION ALL ", "SELECT 1"),
        format!("SELECT 1 FROM profiles WHERE {}", many(700, " AND ", "id = id")),
        format!("SELECT id {} FROM profiles", " BETWEEN id AND id".repeat(20)),
        format!("SELECT {}1{}", "(".repeat(3000), ")".repeat(3000)),
        format!("SELECT {}", many(60, ",", "concat(repeat(a.file_name, 100000))") + " FROM profiles a, profiles b"),
    ];
    for text in statements.iter().cycle().take_while(|_| !stop.load(Ordering::Relaxed)) {
        let _ = statement(target, VIEWER, text);
        thread::sleep(PAUSE);
    }
}

/// Rows of errors and lines of the log.
fn garbage(target: &Target, stop: &AtomicBool) {
    let names = ["healthy-0", "<b>none</b>", "none%0aof%e2%80%ae", "none"];
    for node in names.iter().cycle().take_while(|_| !stop.load(Ordering::Relaxed)) {
        let path = format!("/api/push?node={node}&type=cpu");
        let _ = http::send("POST", &target.http, &path, &target.token, b"no profile");
        thread::sleep(PAUSE / 25);
    }
}

fn deep_heartbeats(target: &Target, stop: &AtomicBool) {
    let body = vec![b'['; 16 << 20];
    while !stop.load(Ordering::Relaxed) {
        let headers = format!("{}Content-Type: application/json\r\n", target.token);
        let _ = http::send("POST", &target.http, "/api/hosts/heartbeat", &headers, &body);
        thread::sleep(PAUSE);
    }
}

fn half_requests(target: &Target, stop: &AtomicBool) {
    hold(stop, &target.http, 200, b"POST /api/push?node=healthy-0 HTTP/1.1\r\nHost: x\r\nContent-Le");
}

fn silent_sql(target: &Target, stop: &AtomicBool) {
    hold(stop, &format!("127.0.0.1:{}", target.sql_port), 256, b"");
}

fn slow_readers(target: &Target, stop: &AtomicBool) {
    let request = format!(
        "GET /p/{}?format=flamegraph HTTP/1.1\r\nHost: {}\r\n{}\r\n",
        target.ordinary, target.http, OPERATOR.authorization
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
        let _ = http::send("POST", &target.http, "/api/push?node=healthy-0&type=cpu", OPERATOR.authorization, &bomb);
        thread::sleep(PAUSE);
    }
}

fn heavy_reports(target: &Target, stop: &AtomicBool) {
    let formats = ["collapsed", "traces", "tags", "disasm", "tree", "flamegraph"];
    for format in formats.iter().cycle().take_while(|_| !stop.load(Ordering::Relaxed)) {
        let _ = http::send(
            "GET",
            &target.http,
            &format!("/p/{}?format={format}", target.amplified),
            OPERATOR.authorization,
            &[],
        );
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
        let _ = statement(target, OPERATOR, text);
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
