//! The heap profiler of a node with an agent, switched by the API and by the page.

use std::io::{Read, Write};
use std::net::TcpListener;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};

use reqwest::Method;
use serde_json::json;

use crate::api::agree;
use crate::harness::{TestServer, parsed, until};

/// An agent's endpoints of its heap profiler, which refuses to be switched off with a status; the port, whether it
/// samples, and the query of the last request.
fn agent(refusal: &'static str) -> (u16, Arc<AtomicBool>, Arc<Mutex<String>>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let (port, active) = (listener.local_addr().unwrap().port(), Arc::new(AtomicBool::new(false)));
    let own = Arc::clone(&active);
    let query = Arc::new(Mutex::new(String::new()));
    let own_length = Arc::clone(&query);
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let mut stream = stream.unwrap();
            let mut request = [0; 4096];
            let length = stream.read(&mut request).unwrap_or(0);
            let request = String::from_utf8_lossy(&request[..length]).into_owned();
            let (line, length) = request
                .split_once(" HTTP")
                .unwrap()
                .0
                .split_once('?')
                .unwrap_or((request.split_once(" HTTP").unwrap().0, ""));
            own_length.lock().unwrap().replace_range(.., length);
            let (status, body) = match line.split(' ').collect::<Vec<_>>()[..] {
                ["GET", "/debug/pprof/heap/status"] => {
                    ("200 OK", format!("{{\"active\":{}}}", own.load(Ordering::SeqCst)))
                }
                ["POST", "/debug/pprof/heap/enable"] => {
                    own.store(true, Ordering::SeqCst);
                    ("200 OK", "on".to_owned())
                }
                ["POST", "/debug/pprof/heap/disable"] => (refusal, "it was started without a switch".to_owned()),
                _ => ("404 Not Found", "no such page".to_owned()),
            };
            let head = format!("HTTP/1.1 {status}\r\ncontent-length: {}\r\nconnection: close\r\n\r\n", body.len());
            let _ = stream.write_all(head.as_bytes()).and_then(|()| stream.write_all(body.as_bytes()));
        }
    });
    (port, active, query)
}

#[tokio::test(flavor = "multi_thread")]
async fn the_heap_profiler_of_a_node_is_switched_by_api_and_page() {
    let (port, active, query) = agent("501 Not Implemented");
    let off = "schedule.cpu = { on = false }\nschedule.heap = { on = false }\n";
    let nodes = format!(
        "self_interval_seconds = 3600\n[[node]]\nname = \"a\"\nkind = \"procprof\"\nhttp = \"127.0.0.1:{port}\"\n{off}\
         [[node]]\nname = \"g\"\nkind = \"go\"\nhttp = \"127.0.0.1:1\"\n{off}"
    );
    let server = TestServer::start(parsed(&nodes)).await;
    let (document, state) = (server.json("/api/openapi.json").await, server.json("/api/nodes/a/heap").await);
    assert_eq!(state, json!({ "active": false }));
    agree(
        &document["components"]["schemas"],
        &json!({ "$ref": "#/components/schemas/HeapProfiler" }),
        &state,
        "the state",
    );
    let card = async || server.text("/heap/profiler?node=a").await;
    assert!(card().await.contains("Switch on") && !card().await.contains("Switch off"));
    query.lock().unwrap().replace_range(.., "untouched");
    let page = server.text("/proc_profile?node=a").await;
    assert!(
        page.contains("data-fetch=\"/heap/profiler?node=") && page.contains("state=yes\">Show its state"),
        "{page}"
    );
    assert!(server.text("/heap?node=a").await.contains("data-fetch=\"/heap/profiler?node="));
    assert_eq!(*query.lock().unwrap(), "untouched", "pages do not wait for the node");
    assert_eq!(server.post("/api/nodes/a/heap/activate", json!(null)).await, (200, json!({ "active": true })));
    assert!(active.load(Ordering::SeqCst));
    assert_eq!(server.json("/api/nodes/a/heap").await, json!({ "active": true }));
    assert!(server.text("/heap?node=a&state=yes").await.contains("Switch off"), "complete without a script");
    // What the process refuses is said in its own words.
    let (status, problem) = server.post("/api/nodes/a/heap/deactivate", json!(null)).await;
    assert_eq!((status, &problem["code"]), (409, &json!("heap_refused")), "{problem}");
    assert!(problem["detail"].as_str().unwrap().contains("without a switch"), "{problem}");
    // The form does the same, from this server's own pages only.
    active.store(false, Ordering::SeqCst);
    let form = || server.request(Method::POST, "/proc_profile/heap").body("node=a&active=yes");
    let foreign = form().header("origin", "http://evil.example").send().await.unwrap();
    assert_eq!((foreign.status().as_u16(), active.load(Ordering::SeqCst)), (403, false));
    let own = form().send().await.unwrap();
    assert_eq!((own.status().as_u16(), active.load(Ordering::SeqCst)), (303, true));
    assert_eq!(*query.lock().unwrap(), "for=1800s", "it ends by itself");
    let page = card().await;
    assert!(page.contains("allocations are sampled until <time") && page.contains("Switch off"), "{page}");
    let switch = async |body: &'static str| {
        server.request(Method::POST, "/proc_profile/heap").body(body).send().await.unwrap().status()
    };
    assert_eq!(
        (switch("node=a&active=yes&minutes=120").await.as_u16(), query.lock().unwrap().as_str()),
        (303, "for=7200s")
    );
    assert_eq!((switch("node=a&active=yes&minutes=0").await.as_u16(), query.lock().unwrap().as_str()), (303, ""));
    assert!(card().await.contains("until it is switched off"));
    assert_eq!(switch("node=a&active=yes&minutes=1441").await, 400);
    // A kind without a switch.
    assert_eq!(server.status(Method::GET, "/api/nodes/g/heap").await, 409);
    assert!(!server.text("/proc_profile?node=g").await.contains("Heap profiler"));
    assert_eq!(server.status(Method::GET, "/api/nodes/nonsense/heap").await, 404);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_conflict_of_an_agent_is_a_refusal() {
    let (port, ..) = agent("409 Conflict");
    let node = format!(
        "self_interval_seconds = 3600\n[[node]]\nname = \"a\"\nkind = \"procprof\"\nhttp = \"127.0.0.1:{port}\"\n\
         schedule.cpu = {{ on = false }}\nschedule.heap = {{ on = false }}\n"
    );
    let server = TestServer::start(parsed(&node)).await;
    let (status, problem) = server.post("/api/nodes/a/heap/deactivate", json!(null)).await;
    assert_eq!((status, &problem["code"]), (409, &json!("heap_refused")), "{problem}");
    assert!(problem["detail"].as_str().unwrap().contains("without a switch"), "{problem}");
}

/// A backend's flag `je_prof_active`; the port and its value.
fn backend() -> (u16, Arc<AtomicBool>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let (port, active) = (listener.local_addr().unwrap().port(), Arc::new(AtomicBool::new(false)));
    let own = Arc::clone(&active);
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let mut stream = stream.unwrap();
            let mut request = [0; 4096];
            let length = stream.read(&mut request).unwrap_or(0);
            let line = String::from_utf8_lossy(&request[..length]).lines().next().unwrap_or_default().to_owned();
            if let Some((_, value)) = line.split_once("/flags/je_prof_active?setvalue=") {
                own.store(value.starts_with("true"), Ordering::SeqCst);
            }
            let head = "HTTP/1.1 200 OK\r\ncontent-length: 3\r\nconnection: close\r\n\r\nSet";
            let _ = stream.write_all(head.as_bytes());
        }
    });
    (port, active)
}

#[tokio::test(flavor = "multi_thread")]
async fn a_backends_heap_profiler_ends_although_the_server_restarts() {
    let (port, active) = backend();
    let config = || {
        parsed(&format!(
            "self_interval_seconds = 3600\n[[node]]\nname = \"be\"\nkind = \"starrocks-be\"\nhttp = \"127.0.0.1:{port}\"\n\
             brpc = \"127.0.0.1:{port}\"\nschedule.cpu = {{ on = false }}\nschedule.heap = {{ on = false }}\n\
             schedule.contention = {{ on = false }}\n"
        ))
    };
    let server = TestServer::start(config()).await;
    let node = server.json("/api/nodes/be").await["id"].as_u64().unwrap();
    let on = server.request(Method::POST, "/proc_profile/heap").body("node=be&active=yes&minutes=10").send().await;
    assert_eq!((on.unwrap().status().as_u16(), active.load(Ordering::SeqCst)), (303, true));
    let data = server.stop().await;
    assert!(active.load(Ordering::SeqCst), "a stop of the server does not end it");
    // Its time is over while the server is down.
    let file = data.path().join("heap-ends");
    let kept = std::fs::read_to_string(&file).unwrap();
    assert!(kept.starts_with(&format!("{node} 20")), "{kept}");
    std::fs::write(&file, format!("{node} 2026-01-01T00:00:00Z\n")).unwrap();
    let server = TestServer::in_folder(config(), data).await;
    let is_off = async || (!active.load(Ordering::SeqCst) && !file.exists()).then_some(());
    until("the profiler is off", is_off).await;
    server.stop().await;
}
