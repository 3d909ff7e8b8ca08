//! Nodes on schedule: Go, the replayed brpc, and those that misbehave.

use std::io::{Read, Write};
use std::net::TcpListener;
use std::time::Duration;

use serde_json::Value;

use crate::harness::{TestServer, parsed};
use crate::process::Running;

const PATIENCE: Duration = Duration::from_secs(30);

/// A node that answers every request with the same bytes.
fn answering(body: &'static str) -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let mut stream = stream.unwrap();
            let mut request = [0; 4096];
            let _ = stream.read(&mut request);
            let head = format!("HTTP/1.1 200 OK\r\ncontent-length: {}\r\nconnection: close\r\n\r\n", body.len());
            let _ = stream.write_all(head.as_bytes()).and_then(|()| stream.write_all(body.as_bytes()));
        }
    });
    port
}

#[tokio::test(flavor = "multi_thread")]
async fn go_brpc_and_garbage_are_collected_side_by_side() {
    let (mut go, brpc, garbage) = (Running::go(), Running::brpc(), answering("<html>An error has occurred</html>"));
    let config = parsed(&format!(
        "self_interval_seconds = 3600
        [[node]]
        name = \"go\"
        kind = \"go\"
        http = \"127.0.0.1:{}\"
        labels = {{ zone = \"eu-1\" }}
        schedule.cpu = {{ seconds = 1, every = 2 }}
        schedule.heap = {{ every = 2 }}
        schedule.goroutine = {{ every = 2 }}
        [[node]]
        name = \"backend\"
        id = 10001
        kind = \"starrocks-be\"
        brpc = \"127.0.0.1:{}\"
        schedule.cpu = {{ seconds = 1, every = 2 }}
        schedule.contention = {{ seconds = 1, every = 2 }}
        [[node]]
        name = \"garbage\"
        kind = \"pprof\"
        urls = {{ cpu = \"http://127.0.0.1:{garbage}/cpu\" }}
        schedule.cpu = {{ seconds = 1, every = 2 }}
        ",
        go.port, brpc.port
    ));
    let server = TestServer::start(config).await;
    for kind in ["cpu", "heap", "goroutine"] {
        let rows = server.profiles(&format!("node=go&type={kind}&label=zone%3Deu-1"), 1, PATIENCE).await;
        assert_eq!((rows[0]["kind"].as_str(), rows[0]["node"].as_u64()), (None, Some(20_001)));
    }
    let cpu = server.profiles("node=backend&type=cpu", 2, PATIENCE).await;
    assert_eq!((cpu[0]["node"].as_u64(), cpu[0]["engine"].as_str()), (Some(10_001), Some("gperftools")));
    let contention = server.profiles(&format!("node=BE:127.0.0.1:{}&type=contention", brpc.port), 1, PATIENCE).await;
    assert_eq!(contention[0]["engine"], "brpc");
    names_the_functions(&server, &cpu[0]).await;
    never_at_once(&server).await;

    let row = server.error("garbage", PATIENCE).await;
    assert_eq!((row["code"].as_str(), row["type"].as_str()), (Some("refused"), Some("cpu")));
    assert!(row["first_bytes"].as_str().unwrap().starts_with("<html>An error"), "{row}");
    let state = server.json("/api/nodes/garbage").await;
    assert_eq!(state["health"], "failing");
    assert!(!state["types"][0]["retry_at"].is_null(), "{state}");
    assert!(!server.data.path().join("profiles/20002").join("anything").exists());
    assert!(server.json("/api/profiles?node=garbage").await["profiles"].as_array().unwrap().is_empty());

    go.kill();
    let row = server.error("go", PATIENCE).await;
    assert!(row["code"].as_str().is_some_and(|code| ["capture", "restarted"].contains(&code)), "{row}");
    let page = server.text("/proc_profile?node=go").await;
    assert!(page.contains("What went wrong") && page.contains("cpu-profile-"), "{page}");
    server.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn captures_that_had_to_wait_are_counted_as_late() {
    // Accepts and says nothing, so that a capture holds its place until it times out.
    let silent = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = silent.local_addr().unwrap().port();
    let node = |name: &str| {
        format!(
            "[[node]]\nname = \"{name}\"\nkind = \"pprof\"\nurls = {{ heap = \"http://127.0.0.1:{port}/{name}\" }}\nschedule.heap = {{ every = 1 }}\n"
        )
    };
    let server =
        TestServer::start(parsed(&format!("self_interval_seconds = 3600\nmax_concurrent_captures = 1\n{}{}", node("a"), node("b")))).await;
    let delay = async |end: &str| {
        let text = server.text("/metrics").await;
        let line = text
            .lines()
            .find(|line| line.starts_with(&format!("procprof_capture_start_delay_seconds_{end} ")))
            .unwrap_or_else(|| panic!("{text}"));
        line.rsplit(' ').next().unwrap().parse::<f64>().unwrap()
    };
    tokio::time::sleep(Duration::from_secs(4)).await;
    assert_eq!(delay("count").await, 1.0, "the other still waits");
    assert!(delay("sum").await < 1.0);
    // Whoever waits starts when the other is given up, at least two seconds late.
    drop(silent);
    let until = std::time::Instant::now() + PATIENCE;
    while delay("count").await < 2.0 {
        assert!(std::time::Instant::now() < until, "the second never starts");
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    assert!(delay("sum").await > 2.0);
}

/// The process is on this host, so its addresses have names.
async fn names_the_functions(server: &TestServer, profile: &Value) {
    let top = server.text(&format!("/api/profiles/{}/render/top", profile["id"].as_str().unwrap())).await;
    assert!(top.contains("hot_70"), "{top}\n{profile}");
}

/// CPU and contention of one backend take turns.
async fn never_at_once(server: &TestServer) {
    let page = server.json("/api/profiles?node=backend").await;
    let mut spans: Vec<(String, String)> = page["profiles"]
        .as_array()
        .unwrap()
        .iter()
        .map(|row| (row["start"].as_str().unwrap().to_owned(), row["end"].as_str().unwrap().to_owned()))
        .collect();
    spans.sort();
    for pair in spans.windows(2) {
        assert!(pair[0].1 <= pair[1].0, "captures of one backend overlap: {spans:?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn aliases_name_registered_nodes_and_nothing_else() {
    let brpc = Running::brpc();
    let config = parsed(&format!(
        "proc_profile_cpu_enable = false
        [[node]]
        name = \"be\"
        id = 10001
        kind = \"starrocks-be\"
        http = \"127.0.0.1:{port}\"
        brpc = \"127.0.0.1:{port}\"
        [[node]]
        name = \"fe\"
        role = \"FE\"
        kind = \"pprof\"
        http = \"127.0.0.1:1\"
        urls = {{ heap = \"http://127.0.0.1:1/heap\" }}
        schedule.heap = {{ on = false }}
        ",
        port = brpc.port
    ));
    let server = TestServer::start(config).await;
    let heading = async |node: String| {
        let response = server.get(&format!("/proc_profile?node={node}")).await;
        (response.status().as_u16(), response.text().await.unwrap())
    };
    for (alias, name) in [
        ("10001".to_owned(), "BE be"),
        ("be".to_owned(), "BE be"),
        (format!("BE:127.0.0.1:{}", brpc.port), "BE be"),
        ("FE".to_owned(), "FE fe"),
        ("FE:127.0.0.1:1".to_owned(), "FE fe"),
        ("1".to_owned(), "procprof"),
    ] {
        let (status, page) = heading(alias.clone()).await;
        assert_eq!(status, 200, "{alias}");
        assert!(page.contains(&format!("<strong>{name}</strong>")), "{alias}: {page}");
    }
    for stranger in ["BE:127.0.0.1:9", "FE:169.254.169.254:80", "nobody", "<script>", "BE:", "2"] {
        let (status, page) = heading(stranger.to_owned()).await;
        assert_eq!(status, 400, "{stranger}");
        assert!(!page.contains("<script>alert"), "{stranger}");
    }
    let first = server.get("/proc_profile").await.text().await.unwrap();
    assert!(first.contains("<strong>FE fe</strong>"));
}

#[tokio::test(flavor = "multi_thread")]
async fn symbols_come_from_where_they_may_and_missing_files_are_named() {
    let brpc = Running::brpc();
    let node = |name: &str, more: &str| {
        format!(
            "[[node]]\nname = \"{name}\"\nkind = \"starrocks-be\"\nbrpc = \"127.0.0.1:{}\"\nschedule.cpu = {{ on = false }}\n{more}\n",
            brpc.port
        )
    };
    let config = parsed(&format!(
        "self_interval_seconds = 3600\n{}{}{}",
        node("blind", "pid_lookup = \"off\""),
        node("asked", "pid_lookup = \"off\"\nremote_symbols = true"),
        node("given", &format!("pid_lookup = \"off\"\nbinary = {:?}", crate::process::replay()))
    ));
    let server = TestServer::start(config).await;
    let capture = async |node: &str| {
        let (_, job) = server.post("/api/captures", serde_json::json!({ "node": node, "type": "cpu", "seconds": 1 })).await;
        let job = server.ended(job["id"].as_str().unwrap()).await;
        assert_eq!(job["state"], "done", "{job}");
        let profile = server.json(&format!("/api/profiles/{}", job["profile"].as_str().unwrap())).await;
        let top = server.text(&format!("/api/profiles/{}/render/top", profile["id"].as_str().unwrap())).await;
        (profile, top)
    };
    let (blind, top) = capture("blind").await;
    assert!(
        blind["wanted"][0]["file"].as_str().unwrap().ends_with("brpc_replay")
            && blind["wanted"][0]["build_id"] == ""
            && !top.contains("hot_70"),
        "{blind}"
    );
    let (asked, top) = capture("asked").await;
    assert!(top.contains("hot_70") && asked["facts"]["symbols-from"] == "the node's symbol page", "{top}\n{asked}");
    let (given, top) = capture("given").await;
    assert!(top.contains("hot_70") && given["facts"]["symbols"] == "unverified", "{top}\n{given}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_difference_of_gos_totals_starts_when_it_was_asked_for() {
    let go = Running::go();
    let node = format!(
        "[[node]]\nname = \"go\"\nkind = \"go\"\nhttp = \"127.0.0.1:{}\"\nschedule.cpu = {{ on = false }}\nschedule.goroutine = {{ on = false }}\n",
        go.port
    );
    let server = TestServer::start(parsed(&format!("self_interval_seconds = 3600\nproc_profile_mem_enable = false\n{node}"))).await;
    let (_, job) = server.post("/api/captures", serde_json::json!({ "node": "go", "type": "mutex", "seconds": 3 })).await;
    let job = server.ended(job["id"].as_str().unwrap()).await;
    assert_eq!(job["state"], "done", "{job}");
    let profile = server.json(&format!("/api/profiles/{}", job["profile"].as_str().unwrap())).await;
    let time = |value: &Value| value.as_str().unwrap().parse::<jiff::Timestamp>().unwrap();
    let late = time(&profile["start"]).duration_since(time(&job["started"])).as_secs_f64();
    assert!((-0.1..1.5).contains(&late), "started {late} s after it was asked for: {profile}");
}
