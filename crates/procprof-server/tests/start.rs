//! Starting, refusing to start, reloading, stopping.

use std::os::unix::fs::PermissionsExt;

use procprof_server::auth::{Methods, UserRole, add_user};
use procprof_server::{Config, Server};

use crate::harness::{PATIENCE, TestServer, cpu_profile, options, parsed, quiet, until};

async fn refusal(config: Config, address: &str, explicit: bool) -> String {
    let data = tempfile::tempdir().unwrap();
    let mut options = options(config, data.path().to_owned());
    options.http = address.parse().unwrap();
    options.http_explicit = explicit;
    match Server::start(options).await {
        Ok(_) => panic!("{address}: started"),
        Err(error) => error.to_string(),
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_address_others_can_reach_needs_users_and_tls() {
    let sentence = refusal(quiet(), "0.0.0.0:0", true).await;
    assert_eq!(
        sentence,
        "0.0.0.0:0 can be reached from other machines: give users_file, tls_cert and tls_key, or --insecure to serve without"
    );
    let users = tempfile::tempdir().unwrap();
    let file = users.path().join("users");
    add_user(&file, "ann", UserRole::Operator, "secret", Methods::Modern).unwrap();
    let mut config = quiet();
    config.users_file = Some(file);
    assert!(refusal(config, "0.0.0.0:0", true).await.contains("give tls_cert and tls_key, or --insecure"));

    // Half of TLS is none, wherever the server listens.
    for address in ["127.0.0.1:0", "0.0.0.0:0"] {
        let mut half = quiet();
        half.set("tls_cert", "cert.pem").unwrap();
        assert_eq!(refusal(half, address, true).await, "configuration: tls_cert and tls_key: give both or neither");
    }

    let data = tempfile::tempdir().unwrap();
    let mut insecure = options(quiet(), data.path().to_owned());
    (insecure.http, insecure.insecure) = ("0.0.0.0:0".parse().unwrap(), true);
    let handle = Server::start(insecure).await.unwrap();
    assert!(handle.stop(PATIENCE).await);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_taken_port_names_its_holder_or_is_left_for_the_next() {
    let server = TestServer::start(quiet()).await;
    let address = server.address.to_string();
    let sentence = refusal(quiet(), &address, true).await;
    let pid = std::process::id();
    assert!(sentence.starts_with(&format!("{address} is in use by ")), "{sentence}");
    assert!(
        sentence.contains(&format!("(pid {pid})")) && sentence.ends_with("--http ADDR serves elsewhere"),
        "{sentence}"
    );

    let data = tempfile::tempdir().unwrap();
    let mut next = options(quiet(), data.path().to_owned());
    (next.http, next.http_explicit) = (server.address, false);
    let handle = Server::start(next).await.unwrap();
    assert!(handle.addr().port() > server.address.port());
    handle.stop(PATIENCE).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn two_servers_on_one_folder_are_refused() {
    let server = TestServer::start(quiet()).await;
    let second = Server::start(options(quiet(), server.data.path().to_owned())).await;
    let error = second.err().unwrap().to_string();
    assert!(error.contains("in use by") && error.ends_with("; --data DIR uses another folder"), "{error}");
}

#[tokio::test(flavor = "multi_thread")]
async fn others_on_the_machine_cannot_read_what_the_server_writes() {
    let parent = tempfile::tempdir().unwrap();
    let data = parent.path().join("deep/data");
    let config =
        parsed("self_interval_seconds = 3600\n[[node]]\nhttp = \"127.0.0.1:1\"\nschedule.cpu = { on = false }");
    let handle = Server::start(options(config, data.clone())).await.unwrap();
    let mode = |path: &std::path::Path| std::fs::metadata(path).unwrap().permissions().mode() & 0o777;
    assert_eq!((mode(&data) & 0o027, mode(&data.join("nodes.json")) & 0o137), (0, 0));
    assert!(handle.stop(PATIENCE).await);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_stop_gives_captures_up_and_leaves_nothing_half_written() {
    let server = TestServer::start(quiet()).await;
    let stored = server.push("cpu", cpu_profile(1_700_000_000)).await;
    // Longer than the stop may take.
    let body = serde_json::json!({ "node": "procprof", "type": "cpu", "seconds": 300 });
    assert_eq!(server.post("/api/captures", body).await.0, 202);
    let data = server.stop().await;
    let folder = data.path().join("profiles/1");
    let files: Vec<String> = std::fs::read_dir(folder)
        .unwrap()
        .map(|file| file.unwrap().file_name().to_string_lossy().into_owned())
        .collect();
    assert_eq!(files, [stored["file_name"].as_str().unwrap()]);

    let again = TestServer::in_folder(quiet(), data).await;
    let page = again.json("/api/profiles").await;
    assert_eq!(page["profiles"][0]["id"], stored["id"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_reload_takes_new_nodes_and_keeps_ids() {
    let node = |name: &str| {
        format!(
            "[[node]]\nname = \"{name}\"\nkind = \"go\"\nhttp = \"127.0.0.1:1\"\nschedule.cpu = {{ on = false }}\nschedule.heap = {{ on = false }}\nschedule.goroutine = {{ on = false }}\n"
        )
    };
    let server = TestServer::start(parsed(&format!("proc_profile_cpu_enable = false\n{}", node("a")))).await;
    let id = async |name: &str| {
        let nodes = server.json("/api/nodes").await;
        let found =
            nodes["nodes"].as_array().unwrap().iter().find(|node| node["name"] == name && node["past"] == false);
        found.map(|node| node["id"].as_u64().unwrap())
    };
    assert_eq!(id("a").await, Some(20_001));
    let handle = server.handle.as_ref().unwrap();
    let changed = handle.reload(parsed(&format!("http = \"127.0.0.1:1\"\n{}{}", node("b"), node("c")))).unwrap();
    assert_eq!(changed, ["http"]);
    assert_eq!((id("a").await, id("b").await, id("c").await), (None, Some(20_002), Some(20_003)));
    handle.reload(parsed(&format!("{}{}", node("c"), node("a")))).unwrap();
    assert_eq!((id("a").await, id("c").await), (Some(20_001), Some(20_003)));
    assert!(handle.reload(parsed("tls_key = \"key.pem\"")).is_err());
    assert_eq!(handle.url(), format!("http://{}", server.address));
    assert!(handle.reload(parsed("users_file = \"/nowhere/users\"")).is_err());
}

#[tokio::test(flavor = "multi_thread")]
async fn files_in_the_log_folder_are_taken_over_once() {
    let logs = tempfile::tempdir().unwrap();
    let folder = logs.path().join("proc_profile");
    std::fs::create_dir(&folder).unwrap();
    std::fs::write(folder.join("cpu-profile-20251120-120000-pprof.gz"), cpu_profile(1_763_640_000)).unwrap();
    std::fs::write(folder.join("contention-profile-20251120-120000-pprof.gz"), b"not a profile").unwrap();
    let mut config = quiet();
    config.sys_log_dir = Some(logs.path().to_owned());
    let server = TestServer::start(config.clone()).await;
    let rows = server.profiles("node=imported", 1).await;
    assert_eq!((rows.len(), rows[0]["trigger"].as_str()), (1, Some("import")));
    let refused = server.error("imported").await;
    assert!(refused["message"].as_str().unwrap().starts_with("contention-profile-"), "{refused}");
    // What is gone stays gone, what was refused is not refused again, and what is new is taken over.
    assert_eq!(
        server.status(reqwest::Method::DELETE, &format!("/api/profiles/{}", rows[0]["id"].as_str().unwrap())).await,
        204
    );
    let data = server.stop().await;
    std::fs::write(folder.join("cpu-profile-20251120-130000-pprof.gz"), cpu_profile(1_763_643_600)).unwrap();
    let again = TestServer::in_folder(config.clone(), data).await;
    let rows = again.profiles("node=imported", 1).await;
    assert_eq!((rows.len(), rows[0]["start"].as_str()), (1, Some("2025-11-20T13:00:00.000Z")), "{rows:?}");
    assert_eq!(again.json("/api/errors?node=imported").await["errors"].as_array().unwrap().len(), 1);

    // Without the list of what was seen, all is looked at again.
    let data = again.stop().await;
    std::fs::write(data.path().join("taken-over.json"), "{").unwrap();
    let third = TestServer::in_folder(config, data).await;
    assert_eq!(third.profiles("node=imported", 2).await.len(), 2);
}

#[tokio::test(flavor = "multi_thread")]
async fn retention_runs_by_itself() {
    let mut config = quiet();
    config.retention_interval_seconds = 1;
    config.proc_profile_file_retained_days = 1;
    let server = TestServer::start(config).await;
    let now = jiff::Timestamp::now().as_second();
    for days in [5, 4, 3] {
        // The end of a pushed profile is the time of its arrival unless it contains one.
        server.push("cpu", cpu_profile(now - days * 86_400)).await;
    }
    let newest = server.push("heap", cpu_profile(now)).await;
    until("two profiles are left", async || {
        (server.json("/api/profiles").await["profiles"].as_array().unwrap().len() == 2).then_some(())
    })
    .await;
    let state = server.json("/api/retention").await;
    assert_eq!((state["profiles"].as_u64(), state["days"].as_u64()), (Some(2), Some(1)));
    assert_eq!(server.get(&format!("/api/profiles/{}", newest["id"].as_str().unwrap())).await.status(), 200);
    assert!(server.text("/metrics").await.contains("procprof_retention_deleted_total 2"));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_clock_set_ahead_deletes_nothing() {
    let mut config = quiet();
    (config.retention_interval_seconds, config.proc_profile_file_retained_days) = (1, 1);
    let server = TestServer::start(config.clone()).await;
    let then = jiff::Timestamp::now().as_second() - 2 * 86_400;
    for minutes in [1, 2, 3] {
        server.push("cpu", cpu_profile(then - minutes * 60)).await;
    }
    let data = server.stop().await;
    // As if the clock had shown two days ago until this moment, when it was set ahead.
    let uptime = std::fs::read_to_string("/proc/uptime").unwrap();
    let uptime = (uptime.split(' ').next().unwrap().parse::<f64>().unwrap() * 1e9) as i64;
    let boot = std::fs::read_to_string("/proc/sys/kernel/random/boot_id").unwrap();
    let (then, begin) = (then * 1_000_000_000, (then - 3600) * 1_000_000_000);
    let record = serde_json::json!({
        "spans": [{ "from": begin, "to": then, "lived": begin }],
        "boot": boot.trim(),
        "uptime": uptime,
    });
    std::fs::write(data.path().join("clock.json"), record.to_string()).unwrap();
    let server = TestServer::in_folder(config, data).await;
    let newest = server.push("heap", cpu_profile(jiff::Timestamp::now().as_second())).await;
    let run = async || server.json("/api/retention").await["last_run"].as_str().map(str::to_owned);
    let first = run().await;
    until("retention runs", async || (run().await != first).then_some(())).await;
    let left = server.json("/api/profiles").await["profiles"].as_array().unwrap().len();
    assert_eq!(left, 4, "a jump of the clock deletes nothing");
    assert_eq!(server.json("/api/retention").await["last_deleted"], 0);
    assert_eq!(server.get(&format!("/api/profiles/{}", newest["id"].as_str().unwrap())).await.status(), 200);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_profile_from_the_future_is_listed_by_its_arrival_and_marked() {
    let server = TestServer::start(quiet()).await;
    let far = server.push("cpu", cpu_profile(9_100_000_000)).await;
    assert!(far["facts"]["time-claimed"].as_str().unwrap().starts_with("2258-"), "{far}");
    let now = jiff::Timestamp::now();
    let end: jiff::Timestamp = far["end"].as_str().unwrap().parse().unwrap();
    assert!(now.duration_since(end).as_secs().abs() < 600, "{end}");
    let next = server.push("cpu", cpu_profile(now.as_second())).await;
    let page = server.json("/api/profiles").await;
    assert_eq!(page["profiles"][0]["id"], next["id"], "what came later is above it");
    let page = server.text(&format!("/p/{}", far["id"].as_str().unwrap())).await;
    assert!(page.contains("2258-"), "the page shows the claimed time");
}
