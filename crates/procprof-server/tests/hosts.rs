//! Host agents: heartbeats, pushes and captures, by a client that speaks their protocol.

use std::collections::BTreeMap;
use std::path::Path;

use procprof_server::Config;
use procprof_server::auth::{Methods, UserRole, add_token, add_user, remove_user};
use procprof_server::protocol::{
    Command, FRAME_HEADER_BYTES_MAX, Heartbeat, HeartbeatAnswer, HostFacts, OfferedType, Outcome, PUSH_MEDIA_TYPE,
    PushAnswer, PushedProfile, ServiceFacts,
};
use reqwest::Method;
use serde_json::{Value, json};
use tempfile::TempDir;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use crate::harness::{PATIENCE, TestServer, cpu_profile, quiet, until};

const START: i64 = 1_700_000_000;

/// A host agent.
pub(crate) struct Agent {
    pub(crate) id: String,
    pub(crate) name: String,
    pub(crate) token: Option<String>,
}

pub(crate) fn agent(number: u8, token: Option<String>) -> Agent {
    Agent { id: format!("{number:032x}"), name: format!("db{number}"), token }
}

fn service(name: &str) -> ServiceFacts {
    let offered = |profile_type: &str, continuous| OfferedType { profile_type: profile_type.to_owned(), continuous };
    ServiceFacts {
        name: name.to_owned(),
        process: (4711, 1000),
        processes: 2,
        program: format!("/usr/sbin/{name}"),
        labels: BTreeMap::from([("unit".to_owned(), format!("{name}.service"))]),
        types: vec![offered("cpu", true), offered("off_cpu", false)],
        cpu_milli: 350,
        hints: Vec::new(),
        in_host: false,
    }
}

/// An id of a profile.
fn id(number: u32) -> String {
    format!("01890000-0000-7000-8000-{number:012x}")
}

pub(crate) fn frame(header: &PushedProfile, profile: &[u8]) -> Vec<u8> {
    let header = serde_json::to_vec(header).unwrap();
    let length = |bytes: &[u8]| u32::try_from(bytes.len()).unwrap().to_le_bytes();
    [&length(&header)[..], &header, &length(profile), profile].concat()
}

impl Agent {
    pub(crate) fn heartbeat(&self, services: &[&str], wait_seconds: u32) -> Heartbeat {
        let host = HostFacts {
            id: self.id.clone(),
            name: self.name.clone(),
            kernel: "6.8.0".to_owned(),
            cpus: 2,
            hz: 19,
            hz_wanted: 19,
            started_nanos: 1,
            ..HostFacts::default()
        };
        let sent_nanos = i64::try_from(jiff::Timestamp::now().as_nanosecond()).unwrap();
        Heartbeat { host, services: services.iter().map(|name| service(name)).collect(), sent_nanos, wait_seconds }
    }

    pub(crate) fn header(&self, service: Option<&str>, number: u32) -> PushedProfile {
        PushedProfile {
            host: self.id.clone(),
            service: service.map(str::to_owned),
            id: id(number),
            profile_type: "cpu".to_owned(),
            start_nanos: START * 1_000_000_000,
            duration_nanos: 60_000_000_000,
            ..PushedProfile::default()
        }
    }

    pub(crate) async fn post(&self, server: &TestServer, path: &str, media_type: &str, body: Vec<u8>) -> (u16, String) {
        let request = server.client.post(server.url(path)).header("content-type", media_type).body(body);
        let request = match &self.token {
            Some(token) => request.bearer_auth(token),
            None => request,
        };
        let response = request.send().await.unwrap();
        (response.status().as_u16(), response.text().await.unwrap())
    }

    async fn beat(&self, server: &TestServer, heartbeat: &Heartbeat) -> (u16, String) {
        self.post(server, "/api/hosts/heartbeat", "application/json", serde_json::to_vec(heartbeat).unwrap()).await
    }

    /// The answer to a heartbeat that is taken.
    pub(crate) async fn taken(&self, server: &TestServer, heartbeat: &Heartbeat) -> HeartbeatAnswer {
        let (status, text) = self.beat(server, heartbeat).await;
        assert_eq!(status, 200, "{text}");
        serde_json::from_str(&text).unwrap()
    }

    pub(crate) async fn push(&self, server: &TestServer, body: Vec<u8>) -> (u16, String) {
        self.post(server, "/api/hosts/push", PUSH_MEDIA_TYPE, body).await
    }

    /// The outcomes of a push whose frames can be read.
    async fn outcomes(&self, server: &TestServer, body: Vec<u8>) -> Vec<Outcome> {
        let (status, text) = self.push(server, body).await;
        assert_eq!(status, 200, "{text}");
        let answer: PushAnswer = serde_json::from_str(&text).unwrap();
        answer.profiles.into_iter().map(|pushed| pushed.outcome).collect()
    }
}

/// The node of that name in the API's list.
async fn node(server: &TestServer, name: &str) -> Value {
    let nodes = server.json("/api/nodes").await;
    let found = nodes["nodes"].as_array().unwrap().iter().find(|node| node["name"] == name);
    found.unwrap_or_else(|| panic!("no node {name} in {nodes}")).clone()
}

/// A users file with ann (operator) and vic (viewer), and the configuration that names it.
fn users() -> (TempDir, Config) {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("users");
    add_user(&file, "ann", UserRole::Operator, "ann's secret", Methods::Modern).unwrap();
    add_user(&file, "vic", UserRole::Viewer, "vic's secret", Methods::Modern).unwrap();
    let mut config = quiet();
    config.users_file = Some(file);
    (folder, config)
}

pub(crate) fn token(folder: &TempDir, name: &str) -> String {
    add_token(&folder.path().join("users"), name).unwrap().to_string()
}

#[tokio::test(flavor = "multi_thread")]
async fn hosts_and_services_are_nodes_and_profiles_are_taken_in_once() {
    let server = TestServer::start(quiet()).await;
    let agent = agent(1, None);
    agent.taken(&server, &agent.heartbeat(&["mysqld", "nginx"], 0)).await;
    let (host, mysqld) = (node(&server, "db1").await, node(&server, "db1/mysqld").await);
    assert_eq!((host["kind"].as_str(), host["role"].as_str()), (Some("host"), Some("host")), "{host}");
    assert_eq!((mysqld["kind"].as_str(), mysqld["labels"]["host"].as_str()), (Some("process"), Some("db1")));
    assert_eq!(mysqld["labels"]["unit"], "mysqld.service");
    let types: Vec<(&str, bool)> = mysqld["types"].as_array().unwrap().iter().map(typed).collect();
    assert_eq!(types, [("cpu", true), ("off_cpu", false)]);

    // What a frame says of its host does not count.
    let labels = [("pod", "a"), ("host", "db2")].map(|(key, value)| (key.to_owned(), value.to_owned()));
    let labels = BTreeMap::from(labels);
    let first = PushedProfile { labels, ..agent.header(Some("mysqld"), 1) };
    let unknown = agent.header(Some("cron"), 2);
    let body = [
        frame(&first, &cpu_profile(START)),
        frame(&unknown, &cpu_profile(START)),
        frame(&agent.header(None, 3), &cpu_profile(START)),
        frame(&first, &cpu_profile(START)),
    ];
    let outcomes = agent.outcomes(&server, body.concat()).await;
    assert_eq!(outcomes, [Outcome::Stored, Outcome::Stored, Outcome::Stored, Outcome::Known]);
    let row = server.json(&format!("/api/profiles/{}", id(1))).await;
    assert_eq!((&row["node"], row["trigger"].as_str()), (&mysqld["id"], Some("push")), "{row}");
    assert_eq!((row["labels"]["pod"].as_str(), row["labels"]["host"].as_str()), (Some("a"), Some("db1")), "{row}");
    assert_eq!(node(&server, "db1/mysqld").await["health"], "ok");
    let cron = node(&server, "db1/cron").await;
    assert_eq!(typed(&node(&server, "db1").await["types"][0]), ("cpu", true), "a type of the host itself has come");

    // A restart, and the loss of what can be rebuilt, change nothing.
    let data = server.stop().await;
    std::fs::remove_file(data.path().join("catalog.sqlite")).unwrap();
    let server = TestServer::in_folder(quiet(), data).await;
    assert_eq!(agent.outcomes(&server, body.concat()).await, [const { Outcome::Known }; 4]);
    for (name, before) in [("db1", host), ("db1/mysqld", mysqld), ("db1/cron", cron)] {
        let now = node(&server, name).await;
        assert_eq!((&now["id"], &now["past"]), (&before["id"], &json!(false)), "{name}");
    }
    let renamed = Agent { name: "db-one".to_owned(), ..agent };
    renamed.taken(&server, &renamed.heartbeat(&["mysqld"], 0)).await;
    let now = node(&server, "db-one/mysqld").await;
    assert_eq!(server.json(&format!("/api/profiles/{}", id(1))).await["node"], now["id"], "a host may be renamed");
}

fn typed(row: &Value) -> (&str, bool) {
    (row["type"].as_str().unwrap(), row["on"].as_bool().unwrap())
}

/// Waits until a capture is in a state.
async fn reaches(server: &TestServer, job: &str, state: &str) {
    let reached = async || (server.json(&format!("/api/captures/{job}")).await["state"] == state).then_some(());
    until(&format!("{job} is {state}"), reached).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_capture_reaches_the_agent_by_the_held_heartbeat() {
    let server = TestServer::start(quiet()).await;
    let agent = agent(1, None);
    agent.taken(&server, &agent.heartbeat(&["mysqld"], 0)).await;
    let wanted = json!({ "node": "db1/mysqld", "type": "off_cpu", "seconds": 5 });
    let capture = async || {
        let held = agent.heartbeat(&["mysqld"], 30);
        let (answer, (status, job)) =
            tokio::join!(agent.taken(&server, &held), server.post("/api/captures", wanted.clone()));
        assert_eq!(status, 202, "{job}");
        let [Command::Capture { capture, service, profile_type, seconds, hz }] = &answer.commands[..] else {
            panic!("{answer:?}");
        };
        assert_eq!((service.as_deref(), profile_type.as_str(), *seconds, *hz), (Some("mysqld"), "off_cpu", 5, None));
        (job["id"].as_str().unwrap().to_owned(), capture.clone())
    };
    let header = |number, capture| PushedProfile {
        capture: Some(capture),
        profile_type: "off_cpu".to_owned(),
        ..agent.header(Some("mysqld"), number)
    };
    let (job, asked) = capture().await;
    reaches(&server, &job, "running").await;
    let outcomes = agent.outcomes(&server, frame(&header(1, asked), &cpu_profile(START))).await;
    assert_eq!(outcomes, [Outcome::Stored]);
    let ended = server.ended(&job).await;
    assert_eq!((ended["state"].as_str(), ended["profile"].as_str()), (Some("done"), Some(id(1).as_str())), "{ended}");
    assert_eq!(server.json(&format!("/api/profiles/{}", id(1))).await["trigger"], "manual");

    let (job, asked) = capture().await;
    let failed = PushedProfile { failure: Some("perf events: permission denied".to_owned()), ..header(2, asked) };
    agent.outcomes(&server, frame(&failed, &[])).await;
    let ended = server.ended(&job).await;
    let reason = ended["message"].as_str().unwrap();
    assert_eq!((ended["state"].as_str(), reason), (Some("failed"), "perf events: permission denied"));

    let (job, asked) = capture().await;
    let held = agent.heartbeat(&["mysqld"], 30);
    let path = format!("/api/captures/{job}");
    let (answer, status) = tokio::join!(agent.taken(&server, &held), server.status(Method::DELETE, &path));
    assert_eq!((status, answer.commands), (202, vec![Command::Cancel { capture: asked }]));
    assert_eq!(server.ended(&job).await["state"], "cancelled");

    // One that no heartbeat has taken is taken back.
    let (_, job) = server.post("/api/captures", wanted.clone()).await;
    let job = job["id"].as_str().unwrap();
    reaches(&server, job, "waiting").await;
    server.status(Method::DELETE, &format!("/api/captures/{job}")).await;
    assert_eq!(server.ended(job).await["state"], "cancelled");
    assert_eq!(agent.taken(&server, &agent.heartbeat(&["mysqld"], 0)).await.commands, []);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_rate_is_asked_for_again_when_the_agent_was_restarted() {
    let server = TestServer::start(quiet()).await;
    let agent = agent(1, None);
    agent.taken(&server, &agent.heartbeat(&["mysqld"], 0)).await;
    assert_eq!(server.post("/api/nodes/db1/rate", json!({ "hz": 0 })).await.0, 400);
    assert_eq!(server.post("/api/nodes/procprof/rate", json!({ "hz": 9 })).await.0, 400, "a node without an agent");
    assert_eq!(server.post("/api/nodes/db1/rate", json!({ "hz": 99 })).await.0, 202);
    let rate = |hz| vec![Command::Rate { hz }];
    let mut heartbeat = agent.heartbeat(&["mysqld"], 0);
    assert_eq!(agent.taken(&server, &heartbeat).await.commands, rate(Some(99)));
    assert_eq!(agent.taken(&server, &heartbeat).await.commands, []);
    let server = TestServer::in_folder(quiet(), server.stop().await).await;
    heartbeat.host.started_nanos = 2;
    assert_eq!(agent.taken(&server, &heartbeat).await.commands, rate(Some(99)));
    assert_eq!(server.post("/api/nodes/db1%2Fmysqld/rate", json!({ "hz": null })).await.0, 202);
    assert_eq!(agent.taken(&server, &heartbeat).await.commands, rate(None));
    heartbeat.host.started_nanos = 3;
    assert_eq!(agent.taken(&server, &heartbeat).await.commands, []);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_token_speaks_for_one_host_until_it_is_revoked() {
    let (folder, config) = users();
    let first = agent(1, Some(token(&folder, "agent-1")));
    let second = agent(2, Some(token(&folder, "agent-2")));
    let mut server = TestServer::start(config.clone()).await;
    server.credentials = Some(("ann".to_owned(), "ann's secret".to_owned()));
    for agent in [&first, &second] {
        agent.taken(&server, &agent.heartbeat(&["mysqld"], 0)).await;
    }
    let posing = Agent { token: second.token.clone(), ..agent(1, None) };
    let (status, text) = posing.beat(&server, &posing.heartbeat(&[], 0)).await;
    assert!(status == 403 && text.contains("speaks for host db2"), "{status} {text}");
    let refused = posing.outcomes(&server, frame(&posing.header(None, 1), &cpu_profile(START))).await;
    assert!(matches!(&refused[..], [Outcome::Refused { reason }] if reason.contains("speaks for host")), "{refused:?}");
    let third = Agent { token: Some(token(&folder, "agent-3")), ..agent(1, None) };
    reload(&server, &config);
    let (status, text) = third.beat(&server, &third.heartbeat(&[], 0)).await;
    assert!(status == 403 && text.contains("has the token of agent-1"), "{status} {text}");
    let vic = server.client.post(server.url("/api/hosts/heartbeat")).basic_auth("vic", Some("vic's secret"));
    assert_eq!(vic.send().await.unwrap().status(), 403, "a viewer pushes nothing");

    // A restart forgets no binding; an operator speaks for all hosts.
    let mut server = TestServer::in_folder(config.clone(), server.stop().await).await;
    server.credentials = Some(("ann".to_owned(), "ann's secret".to_owned()));
    assert_eq!(third.beat(&server, &third.heartbeat(&[], 0)).await.0, 403);
    let operator = Agent { token: Some("ann.ann's secret".to_owned()), ..agent(1, None) };
    operator.taken(&server, &operator.heartbeat(&["mysqld"], 0)).await;

    // The heartbeat that is held ends when the token is revoked.
    let held = first.heartbeat(&["mysqld"], 30);
    let revoke = async {
        server.post("/api/nodes/db1/rate", json!({ "hz": 99 })).await;
        assert_eq!(first.taken(&server, &held).await.commands.len(), 1, "the token holds");
        let file = folder.path().join("users");
        tokio::join!(first.beat(&server, &held), async {
            // Any moment will do: the heartbeat is held, or comes too late.
            remove_user(&file, "agent-1").unwrap();
            reload(&server, &config);
        })
    };
    let ((status, _), ()) = tokio::time::timeout(PATIENCE, revoke).await.expect("it ends at once");
    assert_eq!(status, 401);
    let (status, _) = first.push(&server, frame(&first.header(None, 2), &cpu_profile(START))).await;
    assert_eq!(status, 401);
    // The host takes another token now.
    third.taken(&server, &third.heartbeat(&["mysqld"], 0)).await;
}

fn reload(server: &TestServer, config: &Config) {
    server.handle.as_ref().unwrap().reload(config.clone()).unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_push_is_cut_off_when_its_token_is_revoked() {
    let (folder, config) = users();
    let agent = agent(1, Some(token(&folder, "agent-1")));
    let server = TestServer::start(config.clone()).await;
    let frames = [1, 2].map(|number| frame(&agent.header(Some("mysqld"), number), &cpu_profile(START)));
    let mut stream = TcpStream::connect(server.address).await.unwrap();
    let head = format!(
        "POST /api/hosts/push HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {}\r\nContent-Type: {PUSH_MEDIA_TYPE}\
         \r\nConnection: close\r\nContent-Length: {}\r\n\r\n",
        agent.token.as_deref().unwrap(),
        frames.concat().len()
    );
    stream.write_all(head.as_bytes()).await.unwrap();
    stream.write_all(&frames[0]).await.unwrap();
    let ann = async |path: &str| {
        server.client.get(server.url(path)).basic_auth("ann", Some("ann's secret")).send().await.unwrap().status()
    };
    until("the first one is stored", async || (ann(&format!("/api/profiles/{}", id(1))).await == 200).then_some(()))
        .await;
    remove_user(&folder.path().join("users"), "agent-1").unwrap();
    reload(&server, &config);
    stream.write_all(&frames[1]).await.unwrap();
    let mut answer = String::new();
    tokio::time::timeout(PATIENCE, stream.read_to_string(&mut answer)).await.unwrap().unwrap();
    assert!(answer.starts_with("HTTP/1.1 401"), "{answer}");
    assert_eq!(ann(&format!("/api/profiles/{}", id(2))).await, 404);
}

#[tokio::test(flavor = "multi_thread")]
async fn frames_that_cannot_be_taken_cost_no_other_ones() {
    let mut config = quiet();
    config.profile_bytes_max = 64 << 10;
    let server = TestServer::start(config).await;
    let agent = agent(1, None);
    let good = |number| frame(&agent.header(Some("mysqld"), number), &cpu_profile(START));
    let bad = [
        frame(&agent.header(Some("mysqld"), 10), b"no profile"),
        frame(&agent.header(Some("mysqld"), 11), &vec![0; (64 << 10) + 1]),
        frame(&PushedProfile { id: "1".to_owned(), ..agent.header(None, 0) }, b""),
        frame(&PushedProfile { profile_type: "CPU!".to_owned(), ..agent.header(None, 12) }, b""),
        frame(&PushedProfile { host: "../etc/passwd".to_owned(), ..agent.header(None, 13) }, b"x"),
        frame(&agent.header(Some("a\nb"), 14), b"x"),
        frame(&agent.header(Some(&"x".repeat(1000)), 15), b"x"),
    ];
    let body = [good(1), bad.concat(), good(2)].concat();
    let outcomes = agent.outcomes(&server, body).await;
    assert_eq!((outcomes.len(), &outcomes[0], outcomes.last()), (9, &Outcome::Stored, Some(&Outcome::Stored)));
    for outcome in &outcomes[1..8] {
        assert!(matches!(outcome, Outcome::Refused { reason } if !reason.is_empty()), "{outcomes:?}");
    }
    assert_eq!(server.json("/api/errors").await["errors"].as_array().unwrap().len(), 2, "of the two that had a node");

    let long = [&(FRAME_HEADER_BYTES_MAX + 1).to_le_bytes()[..], &[b' '; 10]].concat();
    let no_json = [&4_u32.to_le_bytes()[..], b"null", &0_u32.to_le_bytes()].concat();
    let cut = |length: usize| good(4)[..length].to_vec();
    let whole = good(4).len();
    for (number, tail) in [long, no_json, cut(2), cut(20), cut(whole - 1)].into_iter().enumerate() {
        let number = 20 + u32::try_from(number).unwrap();
        let (status, text) = agent.push(&server, [good(number), tail].concat()).await;
        assert!(status == 400 && text.contains("frame 1"), "{status} {text}");
        assert_eq!(agent.outcomes(&server, good(number)).await, [Outcome::Known], "what came before is stored");
    }
    let (status, _) = agent.post(&server, "/api/hosts/push", "application/json", good(5)).await;
    assert_eq!(status, 415);
    for body in [&b"{}"[..], b"", b"[[[[", &[b'['; 100_000]] {
        assert_eq!(agent.post(&server, "/api/hosts/heartbeat", "application/json", body.to_vec()).await.0, 400);
    }
    assert_eq!(agent.post(&server, "/api/hosts/heartbeat", "application/json", vec![b' '; 5 << 20]).await.0, 413);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_profile_that_comes_several_times_at_once_is_stored_once() {
    let server = TestServer::start(quiet()).await;
    let agent = agent(1, None);
    for number in 1..6 {
        let body = frame(&agent.header(Some("mysqld"), number), &cpu_profile(START));
        let pushes = (0..8).map(|_| agent.outcomes(&server, body.clone()));
        let outcomes = futures_util::future::join_all(pushes).await.concat();
        let stored = outcomes.iter().filter(|outcome| **outcome == Outcome::Stored).count();
        let known = outcomes.iter().filter(|outcome| **outcome == Outcome::Known).count();
        assert_eq!((stored, known), (1, 7), "{outcomes:?}");
    }
    assert_eq!(server.json("/api/profiles").await["profiles"].as_array().unwrap().len(), 5);
}

#[tokio::test(flavor = "multi_thread")]
async fn what_has_no_room_may_come_again() {
    let mut config = quiet();
    config.ingest_queue_max = 0;
    let server = TestServer::start(config.clone()).await;
    let agent = agent(1, None);
    let body = [1, 2].map(|number| frame(&agent.header(Some("mysqld"), number), &cpu_profile(START))).concat();
    let outcomes = agent.outcomes(&server, body.clone()).await;
    assert!(outcomes.iter().all(|outcome| matches!(outcome, Outcome::Later { seconds: 1.., .. })), "{outcomes:?}");
    config.ingest_queue_max = 16;
    reload(&server, &config);
    assert_eq!(agent.outcomes(&server, body).await, [Outcome::Stored, Outcome::Stored]);
}

#[tokio::test(flavor = "multi_thread")]
async fn held_heartbeats_are_bounded_and_end_with_the_server() {
    let mut config = quiet();
    config.http_connections_max = 3;
    let server = TestServer::start(config).await;
    let (first, second) = (agent(1, None), agent(2, None));
    let (held, at_once) = (first.heartbeat(&[], 30), second.heartbeat(&[], 0));
    // Out of room, the server closes connections that have sent nothing yet: agents try again.
    let until_sent = async |agent: &Agent, heartbeat: &Heartbeat| loop {
        let request = server.client.post(server.url("/api/hosts/heartbeat")).body(json!(heartbeat).to_string());
        let answer = async { request.header("content-type", "application/json").send().await?.text().await };
        if let Ok(text) = answer.await {
            let answer: HeartbeatAnswer =
                serde_json::from_str(&text).unwrap_or_else(|_| panic!("{}: {text}", agent.id));
            return answer;
        }
    };
    let stopped = async {
        // As soon as one is held, another one is not.
        while until_sent(&second, &at_once).await.next_seconds == 0 {}
        until_sent(&first, &first.heartbeat(&[], 0)).await;
    };
    let hold = async {
        // The other one may be there at the same moment.
        while until_sent(&first, &held).await.next_seconds > 0 {}
    };
    let both = tokio::time::timeout(PATIENCE, async { tokio::join!(hold, stopped) });
    both.await.expect("a newer heartbeat ends an older one");

    let server = TestServer::start(quiet()).await;
    let url = server.url("/api/hosts/heartbeat");
    let request = server.client.post(&url).body(serde_json::to_vec(&held).unwrap());
    let held = tokio::spawn(request.send());
    until("the heartbeat is held", async || {
        (server.json("/api/nodes").await["nodes"].as_array().unwrap().len() >= 2).then_some(())
    })
    .await;
    server.stop().await;
    assert_eq!(held.await.unwrap().unwrap().status(), 200);
}

#[tokio::test(flavor = "multi_thread")]
async fn names_and_texts_of_agents_are_bounded_and_told() {
    let server = TestServer::start(quiet()).await;
    let agent = agent(1, None);
    let mut heartbeat = agent.heartbeat(&["good", "a\u{7}b", "", &"x".repeat(129), "db\u{202e}lqsym"], 0);
    heartbeat.host.name = "../<b>".to_owned();
    heartbeat.host.kernel = "k".repeat(10_000);
    heartbeat.host.missing = vec!["line 1\nline 2".to_owned()];
    heartbeat.host.labels = (0..1000).map(|number| (format!("key{number}"), "v".repeat(1000))).collect();
    agent.taken(&server, &heartbeat).await;
    let host = node(&server, "host-00000000").await;
    assert_eq!(host["labels"].as_object().unwrap().len(), 64);
    assert!(host["labels"].as_object().unwrap().values().all(|value| value.as_str().unwrap().len() <= 512));
    let names = server.json("/api/nodes").await;
    assert_eq!(names["nodes"].as_array().unwrap().len(), 3, "the server, the host, the good service: {names}");
    let file = server.data.path().join(format!("hosts/{}.json", agent.id));
    let _data = server.stop().await;
    assert_eq!(read(&file)["services_refused"], 4);
}

fn read(file: &Path) -> Value {
    serde_json::from_slice(&std::fs::read(file).unwrap()).unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn held_heartbeats_keep_their_connections_while_idle_ones_make_room() {
    let mut config = quiet();
    (config.http_connections_max, config.http_header_seconds_max) = (8, 600);
    let server = TestServer::start(config).await;
    let agents: Vec<Agent> = (1..=3).map(|number| agent(number, None)).collect();
    let beaten = async |agent: &Agent| node(&server, &agent.name).await["host"]["heartbeat"].clone();
    let mut first = Vec::new();
    for agent in &agents {
        agent.taken(&server, &agent.heartbeat(&[], 0)).await;
        first.push(beaten(agent).await);
    }
    let hold = agents.iter().map(async |agent| agent.taken(&server, &agent.heartbeat(&[], 30)).await);
    let others = async {
        for (agent, first) in agents.iter().zip(&first) {
            until("the heartbeat is held", async || (beaten(agent).await != *first).then_some(())).await;
        }
        let mut idle = Vec::new();
        for _ in 0..40 {
            let mut stream = TcpStream::connect(server.address).await.unwrap();
            stream.write_all(b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n").await.unwrap();
            stream.read_exact(&mut [0; 12]).await.unwrap();
            idle.push(stream);
        }
        for agent in &agents {
            assert_eq!(server.post(&format!("/api/nodes/{}/rate", agent.name), json!({ "hz": 99 })).await.0, 202);
        }
    };
    let (answers, ()) = tokio::join!(futures_util::future::join_all(hold), others);
    // One that had been closed would have failed; one that ended by itself has no command.
    for answer in answers {
        assert_eq!(answer.commands, [Command::Rate { hz: Some(99) }]);
    }
}
