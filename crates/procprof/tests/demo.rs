//! `serve --demo`: two busy processes, both with flame graphs.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError, Weak};

use tempfile::TempDir;

use crate::harness::{Server, curl, files, folder, go_tool_pprof};

/// A demo that tests share, which ends with the last of them.
struct Demo {
    server: Server,
    data: TempDir,
}

impl Demo {
    fn shared() -> Arc<Demo> {
        static RUNNING: Mutex<Weak<Demo>> = Mutex::new(Weak::new());
        let mut running = RUNNING.lock().unwrap_or_else(PoisonError::into_inner);
        running.upgrade().unwrap_or_else(|| {
            let data = folder();
            let demo = Arc::new(Demo { server: Server::start(data.path(), &["--demo"]), data });
            *running = Arc::downgrade(&demo);
            demo
        })
    }
}

/// CPU samples of a demo node's stored profiles in functions of that name, by the report's collapsed stacks.
fn leaf_samples(server: &Server, id: &str, function: &str) -> u64 {
    let (status, body) = server.get(&format!("/api/profiles/{id}/render/collapsed?sample_index=samples"));
    assert_eq!(status, 200);
    let text = String::from_utf8_lossy(&body);
    let lines = text.lines().filter_map(|line| line.rsplit_once(' '));
    let leaf = lines.filter(|(stack, _)| stack.rsplit(';').next().is_some_and(|leaf| leaf.contains(function)));
    leaf.map(|(_, count)| count.parse::<u64>().unwrap_or_default()).sum()
}

#[test]
fn both_tabs_show_flame_graphs_of_known_work() {
    let demo = Demo::shared();
    let Demo { server, data } = &*demo;
    for node in ["FE", "10001", "1"] {
        server.wait_for(&format!("a CPU profile of node {node}"), |server| {
            !server.profiles(&format!("node={node}&type=cpu")).is_empty()
        });
        let (status, page) = server.get(&format!("/proc_profile?node={node}"));
        assert_eq!(status, 200);
        assert!(String::from_utf8_lossy(&page).contains("cpu-profile"), "the tab of {node} lists no CPU profile");
    }
    server.wait_for("allocations and waits of the FE, a JVM", |server| {
        ["alloc", "contention"].iter().all(|kind| !server.profiles(&format!("node=FE&type={kind}")).is_empty())
    });
    server.wait_for("a heap profile of the BE", |server| !server.profiles("node=10001&type=heap").is_empty());
    let mut samples: BTreeMap<String, [u64; 2]> = BTreeMap::new();
    server.wait_for("200 samples in the known functions", |server| {
        for row in server.profiles("node=10001&type=cpu") {
            let id = row["id"].as_str().expect("an id").to_owned();
            let counted = |id: &String| ["hot_70", "hot_30"].map(|function| leaf_samples(server, id, function));
            samples.entry(id).or_insert_with_key(counted);
        }
        samples.values().flatten().sum::<u64>() >= 200
    });
    let [hot_70, hot_30] = [0, 1].map(|column| samples.values().map(|counts| counts[column]).sum::<u64>() as f64);
    let total = hot_70 + hot_30;
    // Five standard deviations of a binomial with p = 0.7.
    let error = 5.0 * (0.7 * 0.3 / total).sqrt();
    assert!((hot_70 / total - 0.7).abs() < error, "hot_70 has {} of {total}", hot_70);

    let stored: Vec<_> = files(&data.path().join("profiles"))
        .into_iter()
        .filter(|path| path.to_string_lossy().ends_with("pprof.gz"))
        .collect();
    assert!(stored.len() >= 6, "{stored:?}");
    // One of each type of each node.
    let kind = |path: &std::path::PathBuf| path.display().to_string().split("-profile-").next().map(str::to_owned);
    let kinds: BTreeMap<_, _> = stored.iter().map(|path| (kind(path), path)).collect();
    assert!(kinds.len() >= 6, "{kinds:?}");
    for path in kinds.values() {
        go_tool_pprof(&["-top", &path.display().to_string()]);
    }
    let name =
        stored.iter().find(|path| path.to_string_lossy().contains("/10001/cpu-profile")).expect("a CPU file of the BE");
    let name = name.file_name().expect("a name").to_string_lossy().into_owned();
    let (status, view) = server.get(&format!("/proc_profile/file?filename={name}&node=10001"));
    assert_eq!(status, 200);
    let view = String::from_utf8_lossy(&view);
    assert!(view.contains("<svg") && view.contains("hot_70"), "the view of {name} is no flame graph of the work");
}

#[test]
#[ignore = "takes a minute: `cargo xtask soak long` runs it"]
fn profiles_are_archived() {
    let demo = Demo::shared();
    demo.server.wait_for("archived profiles", |server| {
        let (_, metrics) = server.get("/metrics");
        let metrics = String::from_utf8_lossy(&metrics).into_owned();
        metrics
            .lines()
            .any(|line| line.strip_prefix("procprof_archived_profiles_total ").is_some_and(|count| count != "0"))
    });
}

#[test]
fn contention_is_shown_by_who_waits_and_by_who_holds_the_lock() {
    let demo = Demo::shared();
    let server = &demo.server;
    for (kind, function) in [("contention", "read_balance"), ("mutex", "post_batch")] {
        let query = format!("node=10001&type={kind}");
        server.wait_for(&format!("a {kind} profile of the BE"), |server| !server.profiles(&query).is_empty());
        let profile = &server.profiles(&query)[0];
        assert!(
            profile["top"][0]["name"].as_str().is_some_and(|name| name.contains(function)),
            "{kind}: {}",
            profile["top"]
        );
    }
    let (status, page) = server.get("/proc_profile?node=10001");
    assert_eq!(status, 200);
    let page = String::from_utf8_lossy(&page);
    assert!(page.contains("Contention (holder)") && page.contains("contention-profile"), "{page}");
}

#[test]
fn go_tool_pprof_reads_the_server_itself() {
    let demo = Demo::shared();
    let (server, is_done) = (&demo.server, AtomicBool::new(false));
    let top = std::thread::scope(|scope| {
        // It has something to do meanwhile.
        scope.spawn(|| {
            while !is_done.load(Ordering::Relaxed) {
                server.get("/proc_profile?node=1");
            }
        });
        let top = go_tool_pprof(&["-top", &format!("{}/debug/pprof/profile?seconds=3", server.base)]);
        is_done.store(true, Ordering::Relaxed);
        top
    });
    assert!(top.contains("Type: cpu"), "{top}");
    assert!(top.contains("procprof") || top.contains("tokio"), "{top}");
}

#[test]
fn foreign_hosts_and_path_tricks_are_refused() {
    let data = folder();
    let server = Server::start(data.path(), &[]);
    let (status, _) = server.get("/proc_profile/file?filename=../catalog.sqlite&node=1");
    assert!(status >= 400, "a path trick got {status}");
    let (status, _) = curl(&["-H", "Host: evil.example", &format!("{}/api/nodes", server.base)]);
    assert!(status >= 400, "a foreign Host got {status}");
    let (status, _) = curl(&["-X", "POST", "-H", "Origin: http://evil.example", &format!("{}/api/pause", server.base)]);
    assert!(status >= 400, "a foreign Origin got {status}");
}

#[test]
fn a_signal_ends_it_and_its_children() {
    let data = folder();
    let server = Server::start(data.path(), &["--demo"]);
    let nodes = server.json("/api/nodes");
    let addresses: Vec<String> = nodes["nodes"]
        .as_array()
        .expect("an array of nodes")
        .iter()
        .filter(|node| node["demo"] == true)
        .filter_map(|node| node["address"].as_str().map(str::to_owned))
        .collect();
    assert_eq!(addresses.len(), 2, "{nodes}");
    assert!(server.terminate().success());
    // The demo's JVM is shown by its process.
    let (jvms, listening): (Vec<String>, Vec<String>) =
        addresses.into_iter().partition(|address| address.starts_with("pid "));
    for jvm in jvms {
        let folder = format!("/proc/{}", jvm.trim_start_matches("pid "));
        assert!(!std::path::Path::new(&folder).exists(), "the demo's JVM still runs");
    }
    for address in listening {
        let (status, _) = curl(&[&format!("http://{address}/pprof/cmdline")]);
        assert_eq!(status, 0, "the demo process at {address} still answers");
    }
    let temporary: Vec<_> = files(data.path())
        .into_iter()
        .filter(|path| path.file_name().is_some_and(|name| name.to_string_lossy().contains("tmp")))
        .collect();
    assert!(temporary.is_empty(), "{temporary:?}");
}
