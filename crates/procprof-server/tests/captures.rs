//! Capturing now, following, giving up, pausing.

use std::net::TcpListener;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex};
use std::time::Duration;

use reqwest::Method;
use serde_json::{Value, json};

use procprof_server::{ChildProgram, Server};

use crate::harness::{TestServer, cpu_profile, options, parsed, quiet, until};
use crate::nodes::{answer, behaving};

#[tokio::test(flavor = "multi_thread")]
async fn the_server_profiles_itself_now_and_on_schedule() {
    let mut config = quiet();
    config.proc_profile_cpu_enable = true;
    config.self_interval_seconds = 1;
    let server = TestServer::start(config).await;
    let spinning = Spinning::start();
    let manual = until("a profile with the thread that spins", async || {
        let manual = captured(&server).await;
        let top = server.text(&format!("/api/profiles/{}/render/top", manual["id"].as_str().unwrap())).await;
        top.contains("spin_for_the_test").then_some(manual)
    })
    .await;
    drop(spinning);
    assert_eq!(
        (manual["trigger"].as_str(), manual["node"].as_u64(), manual["type"].as_str()),
        (Some("manual"), Some(1), Some("cpu"))
    );
    let scheduled = server.profiles("trigger=schedule&type=cpu", 2).await;
    let start = |row: &Value| row["start"].as_str().unwrap().parse::<jiff::Timestamp>().unwrap();
    let length = jiff::SignedDuration::from_nanos(scheduled[1]["duration_ns"].as_i64().unwrap());
    let gap = start(&scheduled[0]).duration_since(start(&scheduled[1]) + length).as_secs_f64();
    // Starts are shown in milliseconds. The end of one is read after the start of the next.
    assert!(gap < 0.01 && start(&scheduled[0]) > start(&scheduled[1]), "{gap} s between two cuts");
    let page = server.text("/proc_profile").await;
    assert!(page.contains("continuously, a profile every 1 s"), "{page}");
}

/// The profile of a second of the server itself.
async fn captured(server: &TestServer) -> Value {
    let (status, job) = server.post("/api/captures", json!({ "node": "procprof", "type": "cpu", "seconds": 1 })).await;
    assert_eq!((status, job["state"].as_str()), (202, Some("running")));
    let job = server.ended(job["id"].as_str().unwrap()).await;
    assert_eq!(job["state"], "done", "{job}");
    server.json(&format!("/api/profiles/{}", job["profile"].as_str().unwrap())).await
}

/// A thread that spends CPU time until this is dropped.
struct Spinning(Arc<AtomicBool>);

impl Spinning {
    fn start() -> Spinning {
        let is_over = Arc::new(AtomicBool::new(false));
        let seen = Arc::clone(&is_over);
        std::thread::spawn(move || spin_for_the_test(&seen));
        Spinning(is_over)
    }
}

impl Drop for Spinning {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

#[inline(never)]
fn spin_for_the_test(is_over: &AtomicBool) -> u64 {
    let mut sum = 1_u64;
    while !is_over.load(Ordering::Relaxed) {
        for step in 0..100_000 {
            sum = std::hint::black_box(sum.wrapping_mul(31).wrapping_add(step));
        }
    }
    sum
}

/// A node `held` that answers when it may.
struct Held {
    port: u16,
    begun: Arc<AtomicUsize>,
    may_answer: Arc<(Mutex<bool>, Condvar)>,
}

impl Held {
    fn start() -> Held {
        let (begun, may_answer) = (Arc::<AtomicUsize>::default(), Arc::<(Mutex<bool>, Condvar)>::default());
        let (counted, seen) = (Arc::clone(&begun), Arc::clone(&may_answer));
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = behaving(
            listener,
            Arc::new(move |stream| {
                counted.fetch_add(1, Ordering::SeqCst);
                drop(seen.1.wait_while(seen.0.lock().unwrap(), |may| !*may).unwrap());
                answer(stream, "200 OK", &cpu_profile(1_700_000_000));
            }),
        );
        Held { port, begun, may_answer }
    }

    async fn server(&self) -> TestServer {
        TestServer::start(parsed(&format!(
            "self_interval_seconds = 3600\nproc_profile_cpu_enable = false\n\
             [[node]]\nname = \"held\"\nkind = \"pprof\"\n\
             urls = {{ cpu = \"http://127.0.0.1:{}/cpu\" }}\nschedule.cpu = {{ on = false }}\n",
            self.port
        )))
        .await
    }

    /// Waits for its requests to be so many.
    async fn begins(&self, count: usize) {
        until("a request", async || (self.begun.load(Ordering::SeqCst) >= count).then_some(())).await;
    }

    /// Lets it answer all requests, also later ones.
    fn release(&self) {
        *self.may_answer.0.lock().unwrap() = true;
        self.may_answer.1.notify_all();
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_second_capture_joins_or_waits_and_hears_for_whom_until_when() {
    let held = Held::start();
    let server = held.server().await;
    let ask = async |seconds: u32| {
        server.post("/api/captures", json!({ "node": "held", "type": "cpu", "seconds": seconds })).await.1
    };
    let first = ask(300).await;
    held.begins(1).await;
    let same = ask(300).await;
    let others = futures_util::future::join_all((0..20).map(|_| ask(1))).await;
    let waiting = until("one waits", async || {
        let job = server.json(&format!("/api/captures/{}", others[0]["id"].as_str().unwrap())).await;
        (job["state"] == "waiting").then_some(job)
    })
    .await;
    assert_eq!(waiting["progress"].as_f64(), Some(0.0), "{waiting}");
    let message = waiting["message"].as_str().unwrap();
    assert!(message.starts_with("waiting: local is capturing cpu for 300 s until 2"), "{message}");
    assert!(server.text("/proc_profile?node=held").await.contains("waiting: local is capturing"));
    let given_up = ask(2).await;
    let path = format!("/api/captures/{}", given_up["id"].as_str().unwrap());
    assert_eq!(server.status(Method::DELETE, &path).await, 202);
    assert_eq!(server.ended(given_up["id"].as_str().unwrap()).await["state"], "cancelled");
    held.release();
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
    let held = Held::start();
    let server = held.server().await;
    let request =
        async || server.post("/api/captures", json!({ "node": "held", "type": "cpu", "seconds": 300 })).await.1;
    let first = request().await;
    held.begins(1).await;
    let joined = [request().await, request().await];
    let path = format!("/api/captures/{}", first["id"].as_str().unwrap());
    assert_eq!(server.status(Method::DELETE, &path).await, 202);
    held.begins(2).await;
    held.release();
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
async fn a_pause_stops_the_schedule_at_once_and_outlives_a_restart() {
    // Never answers: a capture hangs until it is cancelled, or fails after a minute.
    let silent = Held::start();
    let node = format!(
        "[[node]]\nname = \"silent\"\nkind = \"pprof\"\nurls = {{ cpu = \"http://127.0.0.1:{}/cpu\" }}\n\
         schedule.cpu = {{ seconds = 1, every = 1 }}\n",
        silent.port
    );
    let text = format!("self_interval_seconds = 3600\n{node}");
    let server = TestServer::start(parsed(&text)).await;
    let capturing =
        async |server: &TestServer| server.json("/api/nodes/silent").await["types"][0]["capturing"].as_bool().unwrap();
    until("the schedule begins", async || capturing(&server).await.then_some(())).await;
    assert_eq!(server.post("/api/pause", json!(null)).await, (200, json!({ "paused": true })));
    until("the pause ends the capture", async || (!capturing(&server).await).then_some(())).await;
    assert!(server.json("/api/errors").await["errors"].as_array().unwrap().is_empty(), "it did not end by itself");
    assert!(server.text("/proc_profile").await.contains("Schedule paused"));
    let data = server.stop().await;

    let begun = silent.begun.load(Ordering::SeqCst);
    let server = TestServer::in_folder(parsed(&text), data).await;
    assert_eq!(server.json("/api/pause").await["paused"], true);
    // A schedule begins with the server: one that is not paused would be there by then.
    tokio::time::sleep(Duration::from_millis(1500)).await;
    assert!(!capturing(&server).await && silent.begun.load(Ordering::SeqCst) == begun, "captures while paused");
    let form = server.request(Method::POST, "/proc_profile/pause").body("node=silent&paused=no").send().await.unwrap();
    assert_eq!(form.status(), 303);
    until("the schedule goes on", async || capturing(&server).await.then_some(())).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_child_that_fails_costs_an_error_row_and_nothing_else() {
    let data = tempfile::tempdir().unwrap();
    let mut options = options(quiet(), data.path().to_owned());
    options.symbolize_child = ChildProgram { program: "false".into(), arguments: Vec::new() };
    let server = TestServer::around(Server::start(options).await.unwrap(), data);
    let _spinning = Spinning::start();
    // One without samples needs no child.
    let profile = until("a profile with samples", async || {
        let profile = captured(&server).await;
        profile["facts"]["symbolize-error"].is_string().then_some(profile)
    })
    .await;
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
    let _spinning = Spinning::start();
    let profile = until("a profile with samples", async || {
        let profile = captured(&server).await;
        (profile["samples"].as_u64() > Some(0)).then_some(profile)
    })
    .await;
    let top = server.text(&format!("/api/profiles/{}/render/top", profile["id"].as_str().unwrap())).await;
    assert!(!top.contains("spin_for_the_test"), "{top}");
    let is_reported =
        !profile["wanted"].as_array().unwrap().is_empty() || profile["facts"]["symbolize-error"].is_string();
    assert!(is_reported, "missing names are not reported: {profile}");
}
