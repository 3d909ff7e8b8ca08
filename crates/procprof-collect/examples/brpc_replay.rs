//! A substitute for a StarRocks backend's brpc service, for tests: sends brpc's answers, byte for byte where it
//! matters.
//!
//! `brpc_replay [--port N] [--recorded DIR | --live]` binds 127.0.0.1 (port 0 by default), prints `port N` on standard
//! output, `sampling` when the first profile is begun, and serves until it is ended. With `--recorded` the profiles are
//! the files `cpu.gperftools`, `contention.brpc` and `heap.jemalloc` of a folder. With `--live` they name functions of
//! this very process (`hot_70`, `hot_30`, `slow_lock`, `grow_heap`) at their real addresses and end in its real maps,
//! so that a reader on this host can resolve them.
//!
//! brpc's rules: `profile` and `contention` need `seconds=N`, else HTTP 400 and `[E22]…`; a second one at the same time
//! gets HTTP 500 and `[E11]Another profiler is running, try again later`; an unknown path is HTTP 404 and
//! `[E1002]Fail to find method on …`.

use std::fmt::Write as _;
use std::fs;
use std::hint::black_box;
use std::io::{self, BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

/// The source of the profiles.
enum Source {
    Recorded(PathBuf),
    Live,
}

struct Server {
    source: Source,
    started: Instant,
    cpu_busy: AtomicBool,
    contention_busy: AtomicBool,
    has_sampled: AtomicBool,
}

struct Question {
    method: String,
    path: String,
    query: String,
    body: String,
}

struct Answer {
    status: &'static str,
    body: Vec<u8>,
}

fn main() -> io::Result<()> {
    let mut port = 0_u16;
    let mut source = Source::Live;
    let mut arguments = std::env::args().skip(1);
    while let Some(argument) = arguments.next() {
        match argument.as_str() {
            "--port" => port = arguments.next().and_then(|port| port.parse().ok()).expect("--port needs a number"),
            "--recorded" => source = Source::Recorded(arguments.next().expect("--recorded needs a folder").into()),
            "--live" => source = Source::Live,
            other => panic!("unknown argument {other}"),
        }
    }
    let listener = TcpListener::bind(("127.0.0.1", port))?;
    println!("port {}", listener.local_addr()?.port());
    let (cpu_busy, contention_busy) = (AtomicBool::new(false), AtomicBool::new(false));
    let has_sampled = AtomicBool::new(false);
    let server = Server { source, started: Instant::now(), cpu_busy, contention_busy, has_sampled };
    let server: &'static Server = Box::leak(Box::new(server));
    for stream in listener.incoming() {
        let stream = stream?;
        thread::spawn(move || drop(server.converse(stream)));
    }
    Ok(())
}

impl Server {
    /// Answers the requests of one connection, one after another.
    fn converse(&self, stream: TcpStream) -> io::Result<()> {
        let mut reader = BufReader::new(stream.try_clone()?);
        let mut writer = stream;
        while let Some(question) = read_question(&mut reader)? {
            let Answer { status, body } = self.answer(&question);
            let head =
                format!("HTTP/1.1 {status}\r\ncontent-type: text/plain\r\ncontent-length: {}\r\n\r\n", body.len());
            writer.write_all(head.as_bytes())?;
            if question.method != "HEAD" {
                writer.write_all(&body)?;
            }
        }
        Ok(())
    }

    fn answer(&self, question: &Question) -> Answer {
        match question.path.as_str() {
            "/pprof/profile" => self.profile(question, &self.cpu_busy, "cpu.gperftools", live_cpu),
            "/pprof/contention" => self.profile(question, &self.contention_busy, "contention.brpc", live_contention),
            "/pprof/heap" => ok(self.bytes("heap.jemalloc", live_heap)),
            "/pprof/cmdline" => ok(fs::read("/proc/self/cmdline").unwrap_or_default()),
            "/pprof/symbol" if question.method == "POST" => ok(names(&question.body)),
            "/pprof/symbol" => ok("num_symbols: 1\n"),
            "/vars/pid;process_uptime" => {
                let uptime = self.started.elapsed().as_secs_f64();
                ok(format!("pid : {}\r\nprocess_uptime : {uptime:.6}\r\n", std::process::id()))
            }
            path => Answer { status: "404 Not Found", body: format!("[E1002]Fail to find method on `{path}'").into() },
        }
    }

    fn profile(&self, question: &Question, busy: &AtomicBool, file: &str, live: fn(u64) -> Vec<u8>) -> Answer {
        let seconds =
            question.query.split('&').find_map(|pair| pair.strip_prefix("seconds=")?.parse::<u64>().ok()).unwrap_or(0);
        if seconds == 0 {
            let body = "[E22]You have to specify ?seconds=N. If you're using pprof, add --seconds=N".into();
            return Answer { status: "400 Bad Request", body };
        }
        if busy.swap(true, Ordering::AcqRel) {
            let body = "[E11]Another profiler is running, try again later".into();
            return Answer { status: "500 Internal Server Error", body };
        }
        if !self.has_sampled.swap(true, Ordering::AcqRel) {
            // Not every test reads it.
            let _ = writeln!(io::stdout(), "sampling");
        }
        thread::sleep(Duration::from_secs(seconds));
        busy.store(false, Ordering::Release);
        ok(match &self.source {
            Source::Recorded(_) => self.bytes(file, Vec::new),
            Source::Live => live(seconds),
        })
    }

    fn bytes(&self, file: &str, live: fn() -> Vec<u8>) -> Vec<u8> {
        match &self.source {
            Source::Recorded(folder) => fs::read(folder.join(file)).unwrap_or_else(|error| panic!("{file}: {error}")),
            Source::Live => live(),
        }
    }
}

fn ok(body: impl Into<Vec<u8>>) -> Answer {
    Answer { status: "200 OK", body: body.into() }
}

fn read_question(reader: &mut impl BufRead) -> io::Result<Option<Question>> {
    let mut line = String::new();
    if reader.read_line(&mut line)? == 0 {
        return Ok(None);
    }
    let mut words = line.split_ascii_whitespace();
    let (method, target) = (words.next().unwrap_or_default().to_owned(), words.next().unwrap_or_default().to_owned());
    let (path, query) = target.split_once('?').unwrap_or((&target, ""));
    let mut length = 0_u64;
    loop {
        let mut header = String::new();
        if reader.read_line(&mut header)? == 0 || header.trim().is_empty() {
            break;
        }
        if let Some((name, value)) = header.split_once(':')
            && name.eq_ignore_ascii_case("content-length")
        {
            length = value.trim().parse().unwrap_or(0);
        }
    }
    let mut body = String::new();
    reader.by_ref().take(length.min(1 << 20)).read_to_string(&mut body)?;
    Ok(Some(Question { method, path: path.to_owned(), query: query.to_owned(), body }))
}

/// A function that live profiles name.
type Function = fn(u64) -> u64;

// The functions live profiles name. They are never inlined and differ, so that each has an address of its own.

#[inline(never)]
fn hot_70(n: u64) -> u64 {
    black_box(n).wrapping_mul(70) ^ black_box(7)
}

#[inline(never)]
fn hot_30(n: u64) -> u64 {
    black_box(n).wrapping_mul(30) ^ black_box(3)
}

#[inline(never)]
fn slow_lock(n: u64) -> u64 {
    black_box(n).wrapping_mul(11) ^ black_box(1)
}

#[inline(never)]
fn grow_heap(n: u64) -> u64 {
    black_box(n).wrapping_mul(13) ^ black_box(2)
}

#[inline(never)]
fn scan_rows(n: u64) -> u64 {
    hot_70(n) ^ slow_lock(n) ^ 5
}

#[inline(never)]
fn merge_rows(n: u64) -> u64 {
    hot_30(n) ^ grow_heap(n) ^ 9
}

/// An address well inside a function.
fn inside(function: Function) -> u64 {
    black_box(function) as usize as u64 + 6
}

fn maps() -> String {
    fs::read_to_string("/proc/self/maps").unwrap_or_default()
}

/// gperftools' binary: words `0 3 0 period 0`, then `count depth pc…` per stack, the trailer `0 1 0`, the maps.
///
/// The two stacks have different callers: readers take a second frame that all stacks share for the signal handler's
/// and drop it.
fn live_cpu(seconds: u64) -> Vec<u8> {
    let mut words = vec![0, 3, 0, 10_000, 0];
    for (count, leaf, caller) in [(70, hot_70 as Function, scan_rows as Function), (30, hot_30, merge_rows)] {
        words.extend([count * seconds, 2, inside(leaf), inside(caller)]);
    }
    words.extend([0, 1, 0]);
    let mut bytes: Vec<u8> = words.into_iter().flat_map(u64::to_le_bytes).collect();
    bytes.extend_from_slice(maps().as_bytes());
    bytes
}

fn live_contention(seconds: u64) -> Vec<u8> {
    let (leaf, caller) = (inside(slow_lock), inside(scan_rows));
    let count = 20 * seconds;
    format!(
        "--- contention\ncycles/second=1000000000\n{} {count} @ {leaf:#x} {caller:#x}\n{}",
        count * 5_000_000,
        maps()
    )
    .into_bytes()
}

fn live_heap() -> Vec<u8> {
    let (leaf, caller) = (inside(grow_heap), inside(merge_rows));
    let mut text = String::from("heap_v2/524288\n  t*: 4: 2097152 [0: 0]\n  t0: 4: 2097152 [0: 0]\n");
    // Writing to a string cannot fail.
    let _ = write!(
        text,
        "@ {leaf:#x} {caller:#x}\n  t*: 4: 2097152 [0: 0]\n  t0: 4: 2097152 [0: 0]\n\nMAPPED_LIBRARIES:\n{}",
        maps()
    );
    text.into_bytes()
}

/// Names for `0xA+0xB+…`, as far as they are ours.
fn names(query: &str) -> String {
    let known: [(&str, Function); 6] = [
        ("hot_70", hot_70),
        ("hot_30", hot_30),
        ("slow_lock", slow_lock),
        ("grow_heap", grow_heap),
        ("scan_rows", scan_rows),
        ("merge_rows", merge_rows),
    ];
    let addresses =
        query.split('+').filter_map(|address| u64::from_str_radix(address.trim().strip_prefix("0x")?, 16).ok());
    let mut text = String::new();
    for address in addresses {
        let own = known.iter().find(|(_, function)| (inside(*function) - 6..inside(*function) + 8).contains(&address));
        let _ = writeln!(text, "{address:#010x}\t{}", own.map_or("<unknown>", |(name, _)| name));
    }
    text
}
