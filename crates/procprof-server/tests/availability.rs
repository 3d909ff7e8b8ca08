//! Connections without a request, and profile types that a node reports as unavailable, do not block others.

use procprof_agent::{Config as AgentConfig, Listener};
use serde_json::{Value, json};

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use crate::harness::{PATIENCE, TestServer, parsed, quiet, until};
use crate::raw::{http2, rest};

/// Each path is answered to a client that comes now.
async fn is_served(server: &TestServer, paths: &[&str]) {
    for path in paths {
        let client = reqwest::Client::builder().no_proxy().tls_certs_only([]).build().unwrap();
        let answer = tokio::time::timeout(PATIENCE, client.get(server.url(path)).send());
        assert_eq!(answer.await.expect("an answer in time").unwrap().status(), 200, "{path}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn idle_connections_make_room_whatever_they_speak() {
    let mut config = quiet();
    (config.http_connections_max, config.http_header_seconds_max) = (8, 600);
    let server = TestServer::start(config).await;
    let mut idle = Vec::new();
    for path in ["/healthz", "/api/nodes"] {
        for _ in 0..20 {
            idle.push(http2(server.address, path).await);
        }
        is_served(&server, &["/healthz", "/readyz", "/api/nodes"]).await;
        for _ in 0..20 {
            let mut stream = TcpStream::connect(server.address).await.unwrap();
            stream.write_all(format!("GET {path} HTTP/1.1\r\nHost: localhost\r\n\r\n").as_bytes()).await.unwrap();
            stream.read_exact(&mut [0; 12]).await.unwrap();
            idle.push(stream);
        }
        is_served(&server, &["/healthz", "/readyz", "/api/nodes"]).await;
    }
    // A request without its whole body is not answered, so it is closed to make room, too.
    for _ in 0..20 {
        let mut stream = TcpStream::connect(server.address).await.unwrap();
        let head = b"POST /api/captures HTTP/1.1\r\nHost: localhost\r\nContent-Length: 100\r\n\r\n{";
        stream.write_all(head).await.unwrap();
        idle.push(stream);
    }
    is_served(&server, &["/healthz", "/readyz", "/api/nodes"]).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn without_its_folder_the_server_is_not_ready() {
    let server = TestServer::start(quiet()).await;
    assert_eq!(server.status(reqwest::Method::GET, "/readyz").await, 200);
    std::fs::remove_dir_all(server.data.path().join("profiles")).unwrap();
    let answer = server.get("/readyz").await;
    let (status, text) = (answer.status(), answer.text().await.unwrap());
    assert!(status == 503 && text.contains("data_gone"), "{status}: {text}");
    assert_eq!(server.status(reqwest::Method::GET, "/healthz").await, 200, "the process lives");
}

#[tokio::test(flavor = "multi_thread")]
async fn connections_that_ask_for_nothing_are_closed() {
    let mut config = quiet();
    config.http_header_seconds_max = 1;
    let server = TestServer::start(config).await;
    let silent = TcpStream::connect(server.address).await.unwrap();
    let mut answered = TcpStream::connect(server.address).await.unwrap();
    answered.write_all(b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n").await.unwrap();
    for mut stream in [silent, answered, http2(server.address, "/healthz").await] {
        rest(&mut stream).await;
    }
}

/// A type's state in `/api/nodes/{node}`, once it is known to be unavailable.
async fn unavailable(server: &TestServer, node: &str, kind: &str) -> Value {
    until(&format!("{kind} of {node} is unavailable"), async || {
        let state = server.json(&format!("/api/nodes/{node}")).await;
        let found = state["types"].as_array().unwrap().iter().find(|row| row["type"] == kind).unwrap();
        (!found["unavailable"].is_null()).then(|| found.clone())
    })
    .await
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_without_a_heap_profiler_reports_it_and_nothing_fails() {
    let server = TestServer::start(parsed("proc_profile_cpu_enable = false")).await;
    let heap = unavailable(&server, "procprof", "heap").await;
    assert_eq!((heap["on"].as_bool(), heap["last_error"].is_null()), (Some(false), true), "{heap}");
    assert!(heap["unavailable"].as_str().unwrap().starts_with("heap profiles need jemalloc"), "{heap}");
    let page = server.text("/proc_profile?node=procprof").await;
    assert!(page.contains("not available: heap profiles need jemalloc"), "{page}");
    assert!(!page.contains("<option value=\"heap\">") && page.contains("<option value=\"cpu\">"), "{page}");
    let (_, job) = server.post("/api/captures", json!({ "node": 1, "type": "heap" })).await;
    let job = server.ended(job["id"].as_str().unwrap()).await;
    assert_eq!((job["state"].as_str(), job["code"].as_str()), (Some("failed"), Some("unavailable")), "{job}");
    assert!(server.json("/api/errors").await["errors"].as_array().unwrap().is_empty());
}

#[tokio::test(flavor = "multi_thread")]
async fn an_agent_without_a_type_is_queried_once_and_no_error_is_kept() {
    let agent = procprof_agent::start(AgentConfig::default()).unwrap();
    let listener = Listener::bind("127.0.0.1:0".parse().unwrap(), agent, None).unwrap();
    let server = TestServer::start(parsed(&format!(
        "self_interval_seconds = 3600
        [[node]]
        name = \"app\"
        kind = \"procprof\"
        http = \"{}\"
        schedule.cpu = {{ on = false }}
        schedule.heap = {{ every = 1 }}
        schedule.alloc = {{ seconds = 1, every = 1 }}
        ",
        listener.address()
    )))
    .await;
    for (kind, sentence) in [("heap", "heap profiles need jemalloc"), ("alloc", "heap profiles need jemalloc")] {
        let state = unavailable(&server, "app", kind).await;
        assert!(state["unavailable"].as_str().unwrap().starts_with(sentence), "{state}");
        assert_eq!(
            (state["on"].as_bool(), state["last_error"].is_null(), state["retry_at"].is_null()),
            (Some(false), true, true)
        );
    }
    let node = server.json("/api/nodes/app").await;
    assert_eq!((node["health"].as_str(), node["last_error"].is_null()), (Some("unknown"), true), "{node}");
    assert!(server.json("/api/errors?node=app").await["errors"].as_array().unwrap().is_empty());
    let page = server.text("/proc_profile?node=app").await;
    assert!(page.contains("not available: heap profiles need jemalloc"), "{page}");
    assert!(!page.contains("<option value=\"heap\">") && page.contains("<option value=\"wall\">"), "{page}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_wrong_address_of_an_agent_is_a_fault() {
    let agent = procprof_agent::start(AgentConfig::default()).unwrap();
    let listener = Listener::bind("127.0.0.1:0".parse().unwrap(), agent, None).unwrap();
    let server = TestServer::start(parsed(&format!(
        "self_interval_seconds = 3600
        [[node]]
        name = \"app\"
        kind = \"procprof\"
        http = \"http://{}/elsewhere\"
        schedule.cpu = {{ seconds = 1, every = 1 }}
        schedule.heap = {{ on = false }}
        ",
        listener.address()
    )))
    .await;
    let row = server.error("app").await;
    assert!(row["message"].as_str().unwrap().contains("HTTP 404"), "{row}");
}
