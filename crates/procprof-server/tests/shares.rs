//! Shares: one requester leaves room for others, and what does not move is ended.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use procprof_server::Config;
use procprof_server::auth::{Methods, UserRole, add_token, add_user};
use reqwest::Method;
use serde_json::Value;
use tempfile::TempDir;
use tokio::io::AsyncWriteExt;
use tokio::net::TcpStream;

use crate::harness::{TestServer, cpu_profile, quiet};
use crate::raw::rest;

/// A server with an operator, two viewers and two tokens.
struct SharedServer {
    server: TestServer,
    tokens: Vec<String>,
    _users: TempDir,
}

impl SharedServer {
    async fn start(mut config: Config) -> SharedServer {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("users");
        add_user(&file, "olga", UserRole::Operator, "olga's secret", Methods::Modern).unwrap();
        for name in ["vic", "wil"] {
            add_user(&file, name, UserRole::Viewer, &format!("{name}'s secret"), Methods::Modern).unwrap();
        }
        let tokens = ["agent-1", "agent-2"].map(|name| format!("Bearer {}", add_token(&file, name).unwrap())).into();
        config.users_file = Some(file);
        let mut server = TestServer::start(config).await;
        server.credentials = Some(("olga".to_owned(), "olga's secret".to_owned()));
        SharedServer { server, tokens, _users: folder }
    }

    /// A request whose body is announced and does not come.
    async fn unfinished(&self, path: &str, authorization: &str, kind: &str) -> TcpStream {
        let mut stream = TcpStream::connect(self.server.address).await.unwrap();
        let head = format!(
            "POST {path} HTTP/1.1\r\nHost: localhost\r\nAuthorization: {authorization}\r\nContent-Type: {kind}\r\n\
             Content-Length: 100000\r\n\r\n\x1f"
        );
        stream.write_all(head.as_bytes()).await.unwrap();
        stream
    }

    /// The status of a push of an operator.
    async fn push(&self) -> u16 {
        let request = self.server.request(Method::POST, "/api/push?node=procprof&type=cpu");
        request.body(cpu_profile(1_700_000_000)).send().await.unwrap().status().as_u16()
    }

    /// Waits until so many refusals of a kind are counted.
    async fn refused(&self, reason: &str, count: u64) {
        crate::harness::until("refusals", async || {
            let metrics = self.server.text("/metrics").await;
            let line = metrics.lines().find(|line| line.contains(&format!("reason=\"{reason}\"")))?;
            (line.rsplit(' ').next()?.parse::<f64>().ok()? >= count as f64).then_some(())
        })
        .await;
    }
}

fn basic(name: &str) -> String {
    format!("Basic {}", STANDARD.encode(format!("{name}:{name}'s secret")))
}

const PLAIN: &str = "application/octet-stream";

#[tokio::test(flavor = "multi_thread")]
async fn unfinished_uploads_leave_room_for_others_and_are_ended() {
    let mut config = quiet();
    config.ingest_queue_max = 16;
    let served = SharedServer::start(config).await;
    let mut held = Vec::new();
    for name in ["vic", "wil"] {
        for _ in 0..6 {
            held.push(served.unfinished("/open", &basic(name), PLAIN).await);
        }
    }
    // Of sixteen places each has four.
    served.refused("own_queue", 4).await;
    for token in &served.tokens {
        for _ in 0..2 {
            held.push(served.unfinished("/api/hosts/heartbeat", token, "application/json").await);
        }
    }
    for _ in 0..10 {
        assert_eq!(served.push().await, 201, "an operator's push");
    }
    let mut ended = Vec::new();
    for stream in &mut held {
        let answer = rest(stream).await;
        let status = answer.split(' ').nth(1).unwrap_or_default().to_owned();
        assert!(status != "408" || answer.contains("it paused for 10 s, or sent less than 4 KiB/s"), "{answer}");
        assert!(status != "429" || answer.contains("4 profiles are being taken in from you"), "{answer}");
        ended.push(status);
    }
    let count = |status: &str| ended.iter().filter(|one| *one == status).count();
    assert_eq!((count("408"), count("429")), (12, 4), "{ended:?}");
    let open = served.server.client.post(served.server.url("/open")).header("authorization", basic("vic"));
    let opened = open.body(cpu_profile(1_700_000_000)).send().await.unwrap();
    assert_eq!(opened.status(), 303, "the places are free again");
}

#[tokio::test(flavor = "multi_thread")]
async fn an_upload_that_crawls_is_ended() {
    let served = SharedServer::start(quiet()).await;
    let mut stream = served.unfinished("/open", &basic("vic"), PLAIN).await;
    let (mut reader, mut writer) = stream.split();
    let crawl = async {
        // Faster than the longest pause, slower than the least rate.
        while writer.write_all(b"\x1f").await.is_ok() {
            tokio::time::sleep(std::time::Duration::from_secs(1)).await;
        }
    };
    let answer = async {
        let mut answer = vec![0; 4096];
        let length = tokio::io::AsyncReadExt::read(&mut reader, &mut answer).await.unwrap();
        String::from_utf8_lossy(&answer[..length]).into_owned()
    };
    let answer = tokio::select! {
        answer = answer => answer,
        () = crawl => panic!("closed without an answer"),
    };
    assert!(answer.starts_with("HTTP/1.1 408") && answer.contains("came too slowly"), "{answer}");
}

#[tokio::test(flavor = "multi_thread")]
async fn symbol_uploads_of_one_leave_places_for_others() {
    let served = SharedServer::start(quiet()).await;
    let token = &served.tokens[0];
    let mut held = vec![served.unfinished("/api/symbols", token, PLAIN).await];
    held.push(served.unfinished("/api/symbols", token, PLAIN).await);
    let (mut refused, mut ended) = (0, 0);
    for _ in 0..4 {
        held.push(served.unfinished("/api/symbols", token, PLAIN).await);
    }
    let other = served.server.client.post(served.server.url("/api/symbols")).header("authorization", &served.tokens[1]);
    assert_eq!(other.body("no index").send().await.unwrap().status(), 422, "another token has a place");
    for stream in &mut held {
        match rest(stream).await.split(' ').nth(1) {
            Some("429") => refused += 1,
            Some("408") => ended += 1,
            status => panic!("{status:?}"),
        }
    }
    assert_eq!((refused, ended), (4, 2));
}

#[tokio::test(flavor = "multi_thread")]
async fn users_behind_a_trusted_proxy_are_told_apart() {
    for (is_trusted, status) in [(true, 401), (false, 429)] {
        let mut config = quiet();
        if is_trusted {
            config.trusted_proxies = vec!["127.0.0.0/8".parse().unwrap()];
        }
        let served = SharedServer::start(config).await;
        let wrong = async |client: &str| {
            let request = served.server.client.get(served.server.url("/api/nodes")).basic_auth("vic", Some("wrong"));
            request.header("x-forwarded-for", client).send().await.unwrap().status().as_u16()
        };
        for _ in 0..10 {
            assert_eq!(wrong("203.0.113.1").await, 401);
        }
        assert_eq!(wrong("203.0.113.1").await, 429);
        assert_eq!(wrong("203.0.113.2").await, status, "trusted: {is_trusted}");
        // What a client writes itself does not count.
        assert_eq!(wrong("203.0.113.3, 203.0.113.1").await, 429);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn problems_of_shares_are_documents() {
    let mut config = quiet();
    config.ingest_queue_max = 1;
    let served = SharedServer::start(config).await;
    let mut both = Vec::new();
    for _ in 0..2 {
        let mut stream = served.unfinished("/open", &basic("vic"), PLAIN).await;
        both.push(async move { rest(&mut stream).await });
    }
    let mut answers = futures_util::future::join_all(both).await;
    answers.sort();
    assert!(answers[0].starts_with("HTTP/1.1 408 ") && answers[1].starts_with("HTTP/1.1 429 "), "{answers:?}");
    let (head, body) = answers[1].split_once("\r\n\r\n").unwrap();
    assert!(head.to_lowercase().contains("\r\nretry-after: "), "{head}");
    let problem: Value = serde_json::from_str(body).unwrap();
    let why = problem["error"].as_str().unwrap();
    assert!(why.contains("1 profiles are being taken in from you, a quarter of ingest_queue_max"), "{problem}");
    assert_eq!(served.push().await, 201);
}
