//! Answers that are no profile, from a server that misbehaves by path.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::thread;
use std::time::{Duration, Instant};

use flate2::Compression;
use flate2::write::GzEncoder;
use procprof_collect::{
    Auth, CollectError, Collected, Header, HttpClient, Request, Secret, Target, Watch, collect, endpoints,
};
use procprof_profile::ProfileType;

use crate::process::PATIENCE;
use crate::target;

const CPU: &[u8] = include_bytes!("../../../testdata/brpc/cpu.gperftools");
const CONTENTION: &[u8] = include_bytes!("../../../testdata/brpc/contention.brpc");

/// Starts the server; it lives as long as the test process.
fn serve() -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            thread::spawn(move || drop(answer(stream)));
        }
    });
    port
}

fn answer(mut stream: TcpStream) -> std::io::Result<()> {
    let mut reader = BufReader::new(stream.try_clone()?);
    let mut first = String::new();
    reader.read_line(&mut first)?;
    let mut headers = String::new();
    while reader.read_line(&mut headers)? > 2 {}
    let path = first.split(' ').nth(1).unwrap_or_default();
    let path = path.split('?').next().unwrap_or_default();
    let port = stream.local_addr()?.port();
    let mut send = |head: &str, body: &[u8]| {
        stream.write_all(format!("HTTP/1.1 {head}\r\nConnection: close\r\n\r\n").as_bytes())?;
        stream.write_all(body)
    };
    match path {
        "/html" => send("200 OK\r\nContent-Type: text/html", b"<!DOCTYPE html><html><body>Login</body></html>"),
        "/empty" => send("200 OK\r\nContent-Length: 0", b""),
        "/sentence" => send("200 OK", b"dump jemalloc prof file failed"),
        "/busy200" => send("200 OK", b"Another profiler is running, try again later"),
        "/401" => send("401 Unauthorized", b""),
        "/403" => send("403 Forbidden", b"no"),
        "/404" => send("404 Not Found", b"[E1002]Fail to find method on `/404'"),
        "/400" => send("400 Bad Request", b"[E22]You have to specify ?seconds=N."),
        "/500" => send("500 Internal Server Error", b"opt.prof is not ON\nmore"),
        "/cut" => send(&format!("200 OK\r\nContent-Length: {}", CPU.len()), &CPU[..300]),
        "/cut-silently" => send("200 OK", &CPU[..300]),
        "/other-type" => send("200 OK", CONTENTION),
        "/gzip" => send("200 OK\r\nContent-Encoding: gzip", &gzip(CPU)),
        "/gzip-cut" => send("200 OK\r\nContent-Encoding: gzip", &gzip(CPU)[..400]),
        "/bomb" => send("200 OK\r\nContent-Encoding: gzip", &gzip(&vec![0; 8 << 20])),
        "/brotli" => send("200 OK\r\nContent-Encoding: br", b"xx"),
        "/announced" => send("200 OK\r\nContent-Length: 99999999999", b"x"),
        "/no-samples" => send("200 OK", b"heap_v2/524288\n  t*: 0: 0 [0: 0]\n\nMAPPED_LIBRARIES:\n"),
        "/loop" => send("302 Found\r\nLocation: /loop\r\nContent-Length: 0", b""),
        "/elsewhere" => {
            send(&format!("302 Found\r\nLocation: http://127.0.0.1:{}/cpu\r\nContent-Length: 0", port ^ 1), b"")
        }
        "/other-host" => send(&format!("302 Found\r\nLocation: http://localhost:{port}/cpu\r\nContent-Length: 0"), b""),
        "/moved" => send("302 Found\r\nLocation: /cpu\r\nContent-Length: 0", b""),
        "/private"
            if headers.contains("authorization: Basic am9lOmh1bnRlcjI=") && headers.contains("x-token: hunter3") =>
        {
            send("200 OK", CPU)
        }
        "/private" => send("401 Unauthorized", b""),
        "/mute" => reader.read_to_end(&mut Vec::new()).map(drop),
        "/drip" => {
            send("200 OK\r\nContent-Length: 1000000", b"")?;
            loop {
                stream.write_all(b"x")?;
                thread::sleep(Duration::from_millis(50));
            }
        }
        "/endless" => {
            send("200 OK", b"")?;
            loop {
                stream.write_all(&[b'x'; 8192])?;
            }
        }
        _ => send("200 OK", CPU),
    }
}

fn gzip(bytes: &[u8]) -> Vec<u8> {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::fast());
    encoder.write_all(bytes).unwrap();
    encoder.finish().unwrap()
}

fn at(port: u16, path: &str) -> Target {
    let mut target = target(&endpoints::PPROF, port);
    for profile_type in [ProfileType::Cpu, ProfileType::Heap] {
        target.urls.insert(profile_type, format!("http://127.0.0.1:{port}{path}").parse().unwrap());
    }
    target.max_bytes = 4 << 20;
    target
}

async fn get(target: &Target, profile_type: ProfileType) -> Result<Collected, CollectError> {
    let seconds = if profile_type == ProfileType::Cpu { 1 } else { 0 };
    collect(&HttpClient::new(), target, &Request::new(profile_type).seconds(seconds), &Watch::default()).await
}

#[tokio::test]
async fn every_kind_of_garbage_has_its_code_and_sentence() {
    let port = serve();
    let check = async |path: &str, code: &str, sentence: &str| {
        let error = get(&at(port, path), ProfileType::Cpu).await.unwrap_err();
        assert_eq!(error.code(), code, "{path}: {error}");
        let text = error.to_string();
        assert!(text.starts_with(&format!("http://127.0.0.1:{port}{path}?seconds=1: ")), "{text}");
        assert!(text.contains(sentence), "{path}: {text}");
        error
    };
    let html = check("/html", "not_a_profile", "an HTML page").await;
    assert!(html.first_bytes().starts_with(b"<!DOCTYPE"));
    check("/empty", "not_a_profile", "an empty body").await;
    check("/sentence", "not_a_profile", "it says \"dump jemalloc prof file failed\"").await;
    check("/busy200", "busy", "another profiler").await;
    check("/401", "unauthorized", "credentials").await;
    check("/403", "forbidden", "not allowed: \"no\"").await;
    check("/404", "not_found", "Fail to find method").await;
    check("/400", "refused", "HTTP 400").await;
    check("/500", "server_error", "\"opt.prof is not ON\"").await;
    check("/cut", "broken", "after 300 bytes").await;
    check("/cut-silently", "not_a_profile", "gperftools").await;
    check("/other-type", "not_a_profile", "a contention profile where a cpu profile was requested").await;
    check("/gzip-cut", "not_a_profile", "gzip").await;
    check("/brotli", "not_a_profile", "encoding").await;
    check("/bomb", "too_large", "4194304").await;
    check("/endless", "too_large", "4194304").await;
    check("/announced", "too_large", "4194304").await;
    check("/loop", "redirect", "more than 3 redirects").await;
    check("/elsewhere", "redirect", "another host or port").await;
    check("/other-host", "redirect", "another host or port").await;
}

#[tokio::test]
async fn slow_and_silent_servers_end_with_the_timeout() {
    let port = serve();
    for path in ["/drip", "/mute"] {
        let begun = Instant::now();
        let mut target = at(port, path);
        target.timeouts.margin = Duration::from_millis(500);
        // They would take hours.
        let ended = tokio::time::timeout(PATIENCE, get(&target, ProfileType::Cpu)).await;
        let error = ended.expect("the margin is over").unwrap_err();
        assert_eq!(error.code(), "timeout", "{path}: {error}");
        assert!(begun.elapsed() >= Duration::from_millis(1500), "{path}: {:?}", begun.elapsed());
    }
}

#[tokio::test]
async fn what_is_right_passes() {
    let port = serve();
    for path in ["/cpu", "/gzip", "/moved"] {
        let collected = get(&at(port, path), ProfileType::Cpu).await.unwrap();
        assert_eq!(&collected.bytes[..], CPU, "{path}");
    }
    let error = get(&at(port, "/no-samples"), ProfileType::Heap).await.unwrap_err();
    assert_eq!(error.code(), "no_samples", "{error}");
}

#[tokio::test]
async fn credentials_are_sent_and_never_shown() {
    let port = serve();
    let mut target = at(port, "/private");
    assert_eq!(get(&target, ProfileType::Cpu).await.unwrap_err().code(), "unauthorized");
    target.auth = Auth::Basic { user: "joe".into(), password: Secret::new("hunter2") };
    target.headers.push(Header::new("X-Token", "hunter3").unwrap());
    let collected = get(&target, ProfileType::Cpu).await.unwrap();
    let shown = format!("{target:?} {collected:?}");
    assert!(!shown.contains("hunter"), "{shown}");
}

#[tokio::test]
async fn a_refused_connection_names_the_node() {
    // Bound, so that nobody else takes the port, and not listening.
    let socket = tokio::net::TcpSocket::new_v4().unwrap();
    socket.bind("127.0.0.1:0".parse().unwrap()).unwrap();
    let port = socket.local_addr().unwrap().port();
    let error = get(&at(port, "/cpu"), ProfileType::Cpu).await.unwrap_err();
    assert_eq!(error.code(), "connect");
    assert!(error.to_string().to_lowercase().contains("connection refused"), "{error}");
}
