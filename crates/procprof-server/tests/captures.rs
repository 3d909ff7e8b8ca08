//! Capturing now, following, giving up, pausing.

use std::time::{Duration, Instant};

use reqwest::Method;
use serde_json::json;

use procprof_server::{ChildProgram, Server};

use crate::harness::{TestServer, options, parsed, quiet};

#[tokio::test(flavor = "multi_thread")]
async fn the_server_profiles_itself_now_and_on_schedule() {
    let mut config = quiet();
    config.proc_profile_cpu_enable = true;
    config.self_interval_seconds = 1;
    let server = TestServer::start(config).await;
    let spin = std::thread::spawn(|| spin_for_the_test(Duration::from_secs(4)));
    let (status, job) = server.post("/api/captures", json!({ "node": "procprof", "type": "cpu", "seconds": 1 })).await;
    assert_eq!((status, job["state"].as_str()), (202, Some("running")));
    let job = server.ended(job["id"].as_str().unwrap()).await;
    assert_eq!(job["state"], "done", "{job}");
    let manual = server.json(&format!("/api/profiles/{}", job["profile"].as_str().unwrap())).await;
    assert_eq!(
        (manual["trigger"].as_str(), manual["node"].as_u64(), manual["type"].as_str()),
        (Some("manual"), Some(1), Some("cpu"))
    );
    let top = server.text(&format!("/api/profiles/{}/render/top", manual["id"].as_str().unwrap())).await;
    assert!(top.contains("spin_for_the_test"), "{top}");
    let scheduled = server.profiles("trigger=schedule&type=cpu", 2, Duration::from_secs(20)).await;
    spin.join().unwrap();
    let start = |row: &serde_json::Value| row["start"].as_str().unwrap().parse::<jiff::Timestamp>().unwrap();
    let length = jiff::SignedDuration::from_nanos(scheduled[1]["duration_ns"].as_i64().unwrap());
    let gap = start(&scheduled[0]).duration_since(start(&scheduled[1]) + length).as_secs_f64();
    assert!(gap.abs() < 0.1, "{gap} s between two cuts");
    let page = server.text("/proc_profile").await;
    assert!(page.contains("continuously, a profile every 1 s"), "{page}");
}

#[inline(never)]
fn spin_for_the_test(length: Duration) -> u64 {
    let until = Instant::now() + length;
    let mut sum = 1_u64;
    while Instant::now() < until {
        for step in 0..100_000 {
            sum = std::hint::black_box(sum.wrapping_mul(31).wrapping_add(step));
        }
    }
    sum
}

#[tokio::test(flavor = "multi_thread")]
async fn a_second_capture_joins_or_waits_and_hears_for_whom_until_when() {
    let server = TestServer::start(quiet()).await;
    let ask = async |seconds: u32| {
        server.post("/api/captures", json!({ "node": 1, "type": "cpu", "seconds": seconds })).await.1
    };
    let first = ask(3).await;
    tokio::time::sleep(Duration::from_millis(200)).await;
    let same = ask(3).await;
    let others = futures_util::future::join_all((0..20).map(|_| ask(1))).await;
    tokio::time::sleep(Duration::from_millis(200)).await;
    let waiting = server.json(&format!("/api/captures/{}", others[0]["id"].as_str().unwrap())).await;
    assert_eq!((waiting["state"].as_str(), waiting["progress"].as_f64()), (Some("waiting"), Some(0.0)), "{waiting}");
    let message = waiting["message"].as_str().unwrap();
    assert!(message.starts_with("waiting: local is capturing cpu for 3 s until 2"), "{message}");
    assert!(server.text("/proc_profile").await.contains("waiting: local is capturing"));
    let given_up = server.post("/api/captures", json!({ "node": 1, "type": "cpu", "seconds": 2 })).await.1;
    let path = format!("/api/captures/{}", given_up["id"].as_str().unwrap());
    assert_eq!(server.status(Method::DELETE, &path).await, 202);
    assert_eq!(server.ended(given_up["id"].as_str().unwrap()).await["state"], "cancelled");
    let (first, same) =
        (server.ended(first["id"].as_str().unwrap()).await, server.ended(same["id"].as_str().unwrap()).await);
    assert_eq!((first["state"].as_str(), &first["profile"]), (Some("done"), &same["profile"]));
    let shared = server.ended(others[0]["id"].as_str().unwrap()).await;
    assert!(shared["state"] == "done" && shared["profile"] != first["profile"], "{shared}");
    for other in &others {
        assert_eq!(server.ended(other["id"].as_str().unwrap()).await["profile"], shared["profile"]);
    }
    assert_eq!(server.json("/api/profiles").await["profiles"].as_array().unwrap().len(), 2);
}

/// Until then, those who joined it got nothing.
#[tokio::test(flavor = "multi_thread")]
async fn who_joined_a_capture_that_is_given_up_has_one_of_their_own() {
    let server = TestServer::start(quiet()).await;
    let request = async || server.post("/api/captures", json!({ "node": 1, "type": "cpu", "seconds": 2 })).await.1;
    let first = request().await;
    // On a busy machine the first may have ended before; then there is nothing to give up.
    let joined = [request().await, request().await];
    let path = format!("/api/captures/{}", first["id"].as_str().unwrap());
    server.status(Method::DELETE, &path).await;
    let [one, other] = joined.map(|job| job["id"].as_str().unwrap().to_owned());
    let (one, other) = (server.ended(&one).await, server.ended(&other).await);
    assert_eq!((one["state"].as_str(), &one["profile"]), (Some("done"), &other["profile"]), "{one} {other}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_capture_can_be_given_up_and_wrong_ones_are_refused() {
    let server = TestServer::start(quiet()).await;
    let (_, job) = server.post("/api/captures", json!({ "node": "FE", "type": "cpu", "seconds": 60 })).await;
    let path = format!("/api/captures/{}", job["id"].as_str().unwrap());
    assert_eq!(server.status(Method::DELETE, &path).await, 202);
    let ended = server.ended(job["id"].as_str().unwrap()).await;
    assert_eq!(ended["state"], "cancelled", "{ended}");
    assert!(server.json("/api/errors").await["errors"].as_array().unwrap().is_empty(), "giving up is no error");
    for wrong in [
        json!({ "node": "nobody", "type": "cpu" }),
        json!({ "node": 1, "type": "goroutine" }),
        json!({ "node": 1, "type": "cpu", "seconds": 0 }),
        json!({ "node": 1, "type": "cpu", "seconds": 301 }),
        json!({ "node": 1, "type": "cpu", "second": 1 }),
        json!({ "node": 1 }),
        json!("cpu"),
    ] {
        assert_eq!(server.post("/api/captures", wrong.clone()).await.0, 400, "{wrong}");
    }
    for seconds in ["0", "301", "-1", "x"] {
        let form = server
            .request(Method::POST, "/proc_profile/collect")
            .body(format!("node=1&type=cpu&seconds={seconds}"))
            .send();
        let page = form.await.unwrap().text().await.unwrap();
        assert!(page.contains("seconds: expected a whole number from 1 to 300"), "{seconds}: {page}");
    }
    assert_eq!(server.status(Method::GET, "/api/captures/none").await, 404);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_pause_stops_the_schedule_within_a_second_and_outlives_a_restart() {
    // Accepts connections and never answers: a capture hangs until it is cancelled.
    let silent = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let port = silent.local_addr().unwrap().port();
    let node = format!(
        "[[node]]\nname = \"silent\"\nkind = \"pprof\"\nurls = {{ cpu = \"http://127.0.0.1:{port}/cpu\" }}\nschedule.cpu = {{ seconds = 1, every = 1 }}\n"
    );
    let text = format!("self_interval_seconds = 3600\n{node}");
    let server = TestServer::start(parsed(&text)).await;
    let capturing =
        async |server: &TestServer| server.json("/api/nodes/silent").await["types"][0]["capturing"].as_bool().unwrap();
    let until = Instant::now() + Duration::from_secs(10);
    while !capturing(&server).await {
        assert!(Instant::now() < until, "the schedule never begins");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    assert_eq!(server.post("/api/pause", json!(null)).await, (200, json!({ "paused": true })));
    let paused = Instant::now();
    while capturing(&server).await {
        assert!(paused.elapsed() < Duration::from_secs(1), "still capturing a second after the pause");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    assert!(server.text("/proc_profile").await.contains("Schedule paused"));
    let data = server.stop().await;

    let server = TestServer::in_folder(parsed(&text), data).await;
    assert_eq!(server.json("/api/pause").await["paused"], true);
    tokio::time::sleep(Duration::from_millis(1500)).await;
    assert!(!capturing(&server).await, "captures while paused");
    let form = server.request(Method::POST, "/proc_profile/pause").body("node=silent&paused=no").send().await.unwrap();
    assert_eq!(form.status(), 303);
    let until = Instant::now() + Duration::from_secs(10);
    while !capturing(&server).await {
        assert!(Instant::now() < until, "the schedule does not go on");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_child_that_fails_costs_an_error_row_and_nothing_else() {
    let data = tempfile::tempdir().unwrap();
    let mut options = options(quiet(), data.path().to_owned());
    options.symbolize_child = ChildProgram { program: "false".into(), arguments: Vec::new() };
    let server = TestServer::around(Server::start(options).await.unwrap(), data);
    let spin = std::thread::spawn(|| spin_for_the_test(Duration::from_secs(2)));
    let (_, job) = server.post("/api/captures", json!({ "node": 1, "type": "cpu", "seconds": 1 })).await;
    let job = server.ended(job["id"].as_str().unwrap()).await;
    spin.join().unwrap();
    assert_eq!(job["state"], "done", "{job}");
    let profile = server.json(&format!("/api/profiles/{}", job["profile"].as_str().unwrap())).await;
    assert!(
        profile["facts"]["symbolize-error"]
            .as_str()
            .unwrap()
            .starts_with("symbolize: the child ended with exit status: 1"),
        "{profile}"
    );
    let row = &server.json("/api/errors").await["errors"][0];
    assert_eq!((row["code"].as_str(), row["node"].as_u64()), (Some("symbolize"), Some(1)), "{row}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_child_without_memory_leaves_the_addresses_as_they_are() {
    let mut config = quiet();
    config.symbolize_memory_bytes_max = 1 << 20;
    let server = TestServer::start(config).await;
    let spin = std::thread::spawn(|| spin_for_the_test(Duration::from_secs(2)));
    let (_, job) = server.post("/api/captures", json!({ "node": 1, "type": "cpu", "seconds": 1 })).await;
    let job = server.ended(job["id"].as_str().unwrap()).await;
    spin.join().unwrap();
    assert_eq!(job["state"], "done", "{job}");
    let profile = server.json(&format!("/api/profiles/{}", job["profile"].as_str().unwrap())).await;
    let top = server.text(&format!("/api/profiles/{}/render/top", profile["id"].as_str().unwrap())).await;
    assert!(!top.contains("spin_for_the_test"), "{top}");
    let is_reported =
        !profile["wanted"].as_array().unwrap().is_empty() || profile["facts"]["symbolize-error"].is_string();
    assert!(is_reported, "missing names are not reported: {profile}");
}
