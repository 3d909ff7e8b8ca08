//! Two servers on one archive, one of which is killed, or has a full disk.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use serde_json::Value;

use crate::harness::{Server, SmallDisk};

const NODES: usize = 8;

/// Starts a server that shares an archive and captures CPU profiles of a process under several names.
fn start(data: &Path, archive: &Path, target: &Server) -> Server {
    let node = |number: usize| {
        format!(
            "[[node]]\nname = \"t{number}\"\nkind = \"pprof\"\nhttp = \"{}\"\n\
             schedule.cpu = {{ on = true, seconds = 1, every = 2 }}\nschedule.heap = {{ on = false }}\n",
            target.base
        )
    };
    let config = data.with_extension("toml");
    let nodes: String = (0..NODES).map(node).collect();
    std::fs::write(&config, format!("data_free_bytes_min = 0\n{nodes}")).expect("write the configuration");
    let archive = format!("archive={}", archive.display());
    let own = ["--config", config.to_str().expect("a path in UTF-8"), "--set", &archive];
    Server::start(data, &[&own[..], &["--set", "server_lease_seconds=3"]].concat())
}

/// The nodes that a server captures, and those that another one does, by name.
fn shares(server: &Server) -> [BTreeSet<String>; 2] {
    let nodes = server.json("/api/nodes");
    let nodes: Vec<&Value> =
        nodes["nodes"].as_array().expect("nodes").iter().filter(|node| node["kind"] == "pprof").collect();
    [true, false].map(|is_own| {
        let some = nodes.iter().filter(|node| node["captured_by"].is_null() == is_own);
        some.map(|node| node["name"].as_str().expect("a name").to_owned()).collect()
    })
}

/// The nodes of the first of two servers, and those of the second, once both agree on them and have some.
fn shared(one: &Server, two: &Server) -> [BTreeSet<String>; 2] {
    let mut found = Default::default();
    one.wait_for("both share the nodes", |one| {
        found = shares(one);
        let [own, others] = &found;
        own.len() + others.len() == NODES
            && !own.is_empty()
            && !others.is_empty()
            && shares(two) == [others.clone(), own.clone()]
    });
    found
}

/// The number of profiles of each node.
fn counts(server: &Server) -> BTreeMap<String, usize> {
    let mut counts = BTreeMap::new();
    for row in server.profiles("trigger=schedule&type=cpu") {
        *counts.entry(row["node_name"].as_str().expect("a name").to_owned()).or_default() += 1;
    }
    counts
}

#[test]
fn a_killed_server_has_its_nodes_captured_by_the_other_one() {
    let folder = tempfile::tempdir().unwrap();
    let place = |name: &str| folder.path().join(name);
    let target = Server::start(&place("target"), &["--set", "archive="]);
    let archive = place("archive");
    let one = start(&place("one"), &archive, &target);
    let two = start(&place("two"), &archive, &target);
    let [own, others] = shared(&one, &two);
    two.wait_for("profiles of its share", |two| others.iter().all(|name| counts(two).contains_key(name)));
    two.kill();
    let before = counts(&one);
    let more = |one: &Server, name: &String| counts(one).get(name) > before.get(name);
    one.wait_for("profiles of the other's share", |one| others.iter().all(|name| more(one, name)));
    one.wait_for("all nodes, and the other one is dead", |one| {
        let servers = one.json("/api/servers");
        let alive = servers["servers"].as_array().unwrap().iter().map(|server| server["alive"] == true);
        shares(one)[1].is_empty() && alive.eq([true, false])
    });
    // It comes back, and takes its share.
    let two = start(&place("two"), &archive, &target);
    two.wait_for("its share", |two| shares(two) == [others.clone(), own.clone()]);
    one.wait_for("its share", |one| shares(one) == [own.clone(), others.clone()]);
    assert!(two.terminate().success() && one.terminate().success());
}

#[test]
fn a_server_with_a_full_disk_has_its_nodes_captured_by_the_other_one() {
    let folder = tempfile::tempdir().unwrap();
    let place = |name: &str| folder.path().join(name);
    let target = Server::start(&place("target"), &["--set", "archive="]);
    let archive = place("archive");
    let disk = SmallDisk::new("64m");
    let one = start(&place("one"), &archive, &target);
    let two = start(&disk.path().join("two"), &archive, &target);
    let before = shared(&one, &two);
    let filler = disk.fill();
    one.wait_for("the nodes of the one whose disk is full", |one| shares(one)[0].len() == NODES);
    two.wait_for("it lets go of them", |two| shares(two)[0].is_empty());
    for server in [&one, &two] {
        server.wait_for("it knows whose disk is full", |server| {
            let servers = server.json("/api/servers");
            let mut rows = servers["servers"].as_array().unwrap().iter();
            rows.all(|row| (row["full"] == true) == (row["url"] == two.base.as_str()) && row["alive"] == true)
        });
    }
    std::fs::remove_file(&filler).unwrap();
    assert_eq!(shared(&one, &two), before);
    assert!(two.terminate().success() && one.terminate().success());
}
