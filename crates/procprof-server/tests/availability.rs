//! Profile types that a node says it does not have: shown as such, and no fault.

use std::time::{Duration, Instant};

use procprof_agent::{Config as AgentConfig, Listener};
use serde_json::{Value, json};

use crate::harness::{TestServer, parsed};

/// A type's state as `/api/nodes/{node}` tells it, once it is known to be unavailable.
async fn unavailable(server: &TestServer, node: &str, kind: &str) -> Value {
    let until = Instant::now() + Duration::from_secs(30);
    loop {
        let state = server.json(&format!("/api/nodes/{node}")).await;
        let found = state["types"].as_array().unwrap().iter().find(|row| row["type"] == kind).unwrap().clone();
        if !found["unavailable"].is_null() {
            return found;
        }
        assert!(Instant::now() < until, "{state}");
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_without_a_heap_profiler_says_so_and_fails_at_nothing() {
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
async fn an_agent_without_a_type_is_asked_once_and_no_error_is_kept() {
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
        assert_eq!((state["on"].as_bool(), state["last_error"].is_null(), state["retry_at"].is_null()), (Some(false), true, true));
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
    let row = server.error("app", Duration::from_secs(30)).await;
    assert!(row["message"].as_str().unwrap().contains("HTTP 404"), "{row}");
}
