//! Nodes on schedule: Go, the replayed brpc, and those that misbehave.

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use procprof_server::Config;
use serde_json::{Value, json};

use crate::harness::{TestServer, cpu_profile, parsed, quiet, until};
use crate::process::Running;

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
        let rows = server.profiles(&format!("node=go&type={kind}&label=zone%3Deu-1"), 1).await;
        assert_eq!((rows[0]["kind"].as_str(), rows[0]["node"].as_u64()), (None, Some(20_001)));
    }
    let cpu = server.profiles("node=backend&type=cpu", 2).await;
    assert_eq!((cpu[0]["node"].as_u64(), cpu[0]["engine"].as_str()), (Some(10_001), Some("gperftools")));
    let contention = server.profiles(&format!("node=BE:127.0.0.1:{}&type=contention", brpc.port), 1).await;
    assert_eq!(contention[0]["engine"], "brpc");
    names_the_functions(&server, &cpu[0]).await;
    never_at_once(&server).await;

    let row = server.error("garbage").await;
    assert_eq!((row["code"].as_str(), row["type"].as_str()), (Some("refused"), Some("cpu")));
    assert!(row["first_bytes"].as_str().unwrap().starts_with("<html>An error"), "{row}");
    let state = server.json("/api/nodes/garbage").await;
    assert_eq!(state["health"], "failing");
    assert!(!server.data.path().join("profiles/20002").join("anything").exists());
    assert!(server.json("/api/profiles?node=garbage").await["profiles"].as_array().unwrap().is_empty());

    go.kill();
    let row = server.error("go").await;
    assert!(row["code"].as_str().is_some_and(|code| ["capture", "restarted"].contains(&code)), "{row}");
    let page = server.text("/proc_profile?node=go").await;
    assert!(page.contains("What went wrong") && page.contains("cpu-profile-"), "{page}");
    server.stop().await;
}

/// The reaction of a node to a request.
pub(crate) type Behaviour = Arc<dyn Fn(&mut TcpStream) + Send + Sync>;

/// A node on `listener` that treats every request in the same way, each on a thread of its own.
pub(crate) fn behaving(listener: TcpListener, behaviour: Behaviour) -> u16 {
    let port = listener.local_addr().unwrap().port();
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let (mut stream, behaviour) = (stream.unwrap(), Arc::clone(&behaviour));
            std::thread::spawn(move || {
                let _ = stream.read(&mut [0; 4096]);
                behaviour(&mut stream);
            });
        }
    });
    port
}

pub(crate) fn answer(stream: &mut TcpStream, status: &str, body: &[u8]) {
    let head = format!("HTTP/1.1 {status}\r\ncontent-length: {}\r\nconnection: close\r\n\r\n", body.len());
    let _ = stream.write_all(head.as_bytes()).and_then(|()| stream.write_all(body));
}

fn local() -> TcpListener {
    TcpListener::bind("127.0.0.1:0").unwrap()
}

fn node(name: &str, port: u16, schedule: &str) -> String {
    format!(
        "[[node]]\nname = \"{name}\"\nkind = \"pprof\"\nurls = {{ cpu = \"http://127.0.0.1:{port}/{name}\" }}\nschedule.cpu = {{ {schedule} }}\n"
    )
}

#[tokio::test(flavor = "multi_thread")]
async fn nodes_that_hang_keep_no_place_and_late_starts_are_counted() {
    // Accepts and sends nothing; the other sends byte by byte, which is as bad.
    let silent = behaving(local(), Arc::new(|_| std::thread::sleep(std::time::Duration::from_secs(3600))));
    let dripping = behaving(
        local(),
        Arc::new(|stream| {
            let _ = stream.write_all(b"HTTP/1.1 200 OK\r\ncontent-length: 100000\r\n\r\n");
            while stream.write_all(b"x").is_ok() {
                std::thread::sleep(std::time::Duration::from_secs(1));
            }
        }),
    );
    let healthy = behaving(local(), Arc::new(|stream| answer(stream, "200 OK", &cpu_profile(1_700_000_000))));
    let often = "seconds = 1, every = 1";
    let mut text = "self_interval_seconds = 3600\nmax_concurrent_captures = 1\n".to_owned();
    for name in ["silent-1", "silent-2"] {
        text.push_str(&node(name, silent, often));
    }
    text.push_str(&node("dripping", dripping, often));
    text.push_str(&node("healthy", healthy, often));
    let server = TestServer::start(parsed(&text)).await;
    let delay = async |end: &str| {
        let text = server.text("/metrics").await;
        let line = text
            .lines()
            .find(|line| line.starts_with(&format!("procprof_capture_start_delay_seconds_{end} ")))
            .unwrap_or_else(|| panic!("{text}"));
        line.rsplit(' ').next().unwrap().parse::<f64>().unwrap()
    };
    // Three nodes hold the one place for 4 s each, and the healthy one waits.
    until("somebody waits", async || (delay("sum").await > 2.0).then_some(())).await;
    // A capture that kept the slot until its time limit, 31 s or 61 s, would let the healthy one have it once in two
    // minutes, so not for so often within the patience of a test.
    server.profiles("node=healthy", 4).await;
    assert!(delay("count").await >= 4.0);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_node_that_comes_back_is_profiled_again_and_the_next_try_is_shown() {
    let (attempts, is_back) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicBool::new(false)));
    let (counted, back) = (Arc::clone(&attempts), Arc::clone(&is_back));
    let port = behaving(
        local(),
        Arc::new(move |stream| {
            counted.fetch_add(1, Ordering::SeqCst);
            match back.load(Ordering::SeqCst) {
                true => answer(stream, "200 OK", &cpu_profile(1_700_000_000)),
                false => answer(stream, "503 Starting", b""),
            }
        }),
    );
    // The beat alone would take an hour.
    let every = "seconds = 0, every = 3600";
    let text = format!(
        "self_interval_seconds = 3600\n[[node]]\nname = \"away\"\nid = 10192\nkind = \"pprof\"\nurls = {{ goroutine = \"http://127.0.0.1:{port}/\" }}\nschedule.goroutine = {{ {every} }}\n"
    );
    let server = TestServer::start(parsed(&text)).await;
    let time = |value: &Value| value.as_str().map(|text| text.parse::<jiff::Timestamp>().unwrap());
    let (failed, retry) = until("a failure", async || {
        let state = &server.json("/api/nodes/away").await["types"][0];
        time(&state["last_error"]["at"]).zip(time(&state["retry_at"]))
    })
    .await;
    let wait = retry.duration_since(failed).as_secs_f64();
    assert!((5.0..3600.0).contains(&wait), "next try after {wait} s");
    is_back.store(true, Ordering::SeqCst);
    server.profiles("node=away", 1).await;
    let came = jiff::Timestamp::now();
    assert!(
        came.duration_since(retry).as_secs_f64() > -1.0,
        "it was tried at {came}, before the {retry} that was shown"
    );
    let state = server.json("/api/nodes/away").await["types"][0].clone();
    assert!(state["retry_at"].is_null() || attempts.load(Ordering::SeqCst) < 2, "{state}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_node_that_goes_on_failing_in_one_way_has_one_error_row() {
    let attempts = Arc::new(AtomicUsize::new(0));
    let counted = Arc::clone(&attempts);
    let port = behaving(
        local(),
        Arc::new(move |stream| {
            // After a while it fails in another way.
            match counted.fetch_add(1, Ordering::SeqCst) {
                ..3 => answer(stream, "503 Starting", b""),
                _ => answer(stream, "401 Who", b""),
            }
        }),
    );
    let server = TestServer::start(parsed(&format!(
        "self_interval_seconds = 3600\n{}",
        node("bad", port, "seconds = 1, every = 1")
    )))
    .await;
    until("it is tried again", async || (attempts.load(Ordering::SeqCst) >= 7).then_some(())).await;
    let page = server.json("/api/errors?node=bad").await;
    let rows: Vec<&str> =
        page["errors"].as_array().unwrap().iter().map(|row| row["message"].as_str().unwrap()).collect();
    assert_eq!(rows.len(), 2, "{rows:?}");
    assert!(rows[0].contains("HTTP 401") && rows[1].contains("HTTP 503"), "{rows:?}");
    let counted = server.text("/metrics").await;
    assert!(
        counted.contains("procprof_capture_failures_total{node=\"bad\",type=\"cpu\",code=\"server_error\"} 3"),
        "{counted}"
    );
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
        let (_, job) =
            server.post("/api/captures", serde_json::json!({ "node": node, "type": "cpu", "seconds": 1 })).await;
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
    let (profile, top) = capture("asked").await;
    assert!(top.contains("hot_70") && profile["facts"]["symbols-from"] == "the node's symbol page", "{top}\n{profile}");
    let (given, top) = capture("given").await;
    assert!(top.contains("hot_70") && given["facts"]["symbols"] == "unverified", "{top}\n{given}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_difference_of_gos_totals_starts_with_its_request() {
    let go = Running::go();
    let node = format!(
        "[[node]]\nname = \"go\"\nkind = \"go\"\nhttp = \"127.0.0.1:{}\"\nschedule.cpu = {{ on = false }}\nschedule.goroutine = {{ on = false }}\n",
        go.port
    );
    let server =
        TestServer::start(parsed(&format!("self_interval_seconds = 3600\nproc_profile_mem_enable = false\n{node}")))
            .await;
    let (_, job) =
        server.post("/api/captures", serde_json::json!({ "node": "go", "type": "mutex", "seconds": 2 })).await;
    let job = server.ended(job["id"].as_str().unwrap()).await;
    assert_eq!(job["state"], "done", "{job}");
    let profile = server.json(&format!("/api/profiles/{}", job["profile"].as_str().unwrap())).await;
    let time = |value: &Value| value.as_str().unwrap().parse::<jiff::Timestamp>().unwrap();
    // Go's own time is that of the answer. Times are shown in milliseconds.
    let start = time(&profile["start"]);
    let millis = jiff::SignedDuration::from_millis;
    assert!(start + millis(100) >= time(&job["started"]), "{job} {profile}");
    assert!(start + millis(1900) <= time(&job["ended"]), "{job} {profile}");
}

#[tokio::test(flavor = "multi_thread")]
async fn the_server_itself_has_its_url_as_a_label() {
    let server = TestServer::start(Config { server_url: "https://prof-a:8030".to_owned(), ..quiet() }).await;
    let nodes = server.json("/api/nodes").await;
    let own = nodes["nodes"].as_array().unwrap().iter().find(|node| node["name"] == "procprof").unwrap();
    assert_eq!(own["labels"], json!({ "server": "https://prof-a:8030" }));
}
