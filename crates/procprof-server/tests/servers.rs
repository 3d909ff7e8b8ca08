//! Several servers on one archive: who captures what, under which ids, and sums over what each has.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::time::Duration;

use mysql_async::prelude::Queryable;
use mysql_async::{Conn, OptsBuilder};
use procprof_archive::{ObjectFolder, Objects, Writer};
use procprof_server::auth::{Methods, UserRole, add_user};
use procprof_server::config::NodeConfig;
use procprof_server::{Config, Rhythm, Server, ServerOptions, SqlAddress, SqlLogin, archive_writer};
use reqwest::Method;
use serde_json::{Value, json};
use tempfile::TempDir;

use crate::harness::{TestServer, cpu_profile, options, quiet, until};

/// Seconds of a lease: as short as may be.
pub(crate) const LEASE: u64 = 3;
/// Seconds of a lease that does not run out on a busy machine.
const LONG_LEASE: u64 = 9;

/// Nodes that nobody serves, captured never.
pub(crate) fn nodes(names: &[&str]) -> Vec<NodeConfig> {
    let table: String = names
        .iter()
        .enumerate()
        .map(|(number, name)| {
            format!("[[node]]\nname = \"{name}\"\nkind = \"pprof\"\nhttp = \"127.0.0.1:{}\"\n", 10_000 + number)
        })
        .collect();
    Config::parse(&table, "nodes.toml").unwrap().nodes
}

fn config(archive: &Path, names: &[&str]) -> Config {
    Config { archive: archive.display().to_string(), server_lease_seconds: LEASE, nodes: nodes(names), ..quiet() }
}

/// A server that archives nothing for decades.
async fn started(config: Config) -> TestServer {
    let data = tempfile::tempdir().unwrap();
    let rhythm = Rhythm::Every(Duration::from_secs(1 << 30));
    let options = ServerOptions { archiving: rhythm, ..options(config, data.path().to_owned()) };
    TestServer::around(Server::start(options).await.unwrap(), data)
}

/// The nodes that each server captures by its own account, by URL, once it knows of so many live servers.
pub(crate) async fn shares(server: &TestServer, alive: usize) -> BTreeMap<String, u64> {
    until("servers see each other", async || {
        let list = server.json("/api/servers").await;
        let rows = list["servers"].as_array().unwrap();
        let alive_rows = rows.iter().filter(|row| row["alive"] == true);
        let shares: BTreeMap<String, u64> =
            alive_rows.map(|row| (row["url"].as_str().unwrap().to_owned(), row["nodes"].as_u64().unwrap())).collect();
        (shares.len() == alive && list["problem"].is_null()).then_some(shares)
    })
    .await
}

/// Ids by name.
pub(crate) async fn ids(server: &TestServer) -> BTreeMap<String, u64> {
    let nodes = server.json("/api/nodes").await;
    let named = nodes["nodes"].as_array().unwrap().iter().map(|node| (node["name"].as_str().unwrap(), &node["id"]));
    named.map(|(name, id)| (name.to_owned(), id.as_u64().unwrap())).collect()
}

/// Names of the nodes that another server captures.
async fn captured_by_others(server: &TestServer) -> BTreeSet<String> {
    let nodes = server.json("/api/nodes").await;
    let others = nodes["nodes"].as_array().unwrap().iter().filter(|node| !node["captured_by"].is_null());
    others.map(|node| node["name"].as_str().unwrap().to_owned()).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn nodes_have_the_same_ids_everywhere_and_one_server_each() {
    let folder = tempfile::tempdir().unwrap();
    let archive = folder.path().join("archive");
    let names: Vec<String> = (0..24).map(|number| format!("n{number}")).collect();
    let mut names: Vec<&str> = names.iter().map(String::as_str).collect();
    let one = started(config(&archive, &names)).await;
    assert_eq!(shares(&one, 1).await.into_values().collect::<Vec<_>>(), [24]);
    // In another order, and one more that only the second server has.
    names.reverse();
    names.insert(3, "own");
    let two = started(Config { nodes: nodes_at_their_addresses(&names), ..config(&archive, &[]) }).await;
    let (url_one, url_two) = (one.url(""), two.url(""));
    // One whose lease runs out on a busy machine is back in a moment.
    let of_two = until("both servers have their nodes", async || {
        let (seen_by_one, seen_by_two) = (shares(&one, 2).await, shares(&two, 2).await);
        let (of_two, of_one) = (captured_by_others(&one).await, captured_by_others(&two).await);
        let is_whole = seen_by_one[&url_one] + seen_by_one[&url_two] == 24
            && (seen_by_two[&url_one], seen_by_two[&url_two]) == (seen_by_one[&url_one], seen_by_one[&url_two] + 1)
            && seen_by_one.values().all(|nodes| *nodes > 0);
        let has_one_each = of_one.is_disjoint(&of_two) && of_one.len() + of_two.len() == 24;
        (is_whole && has_one_each).then_some(of_two)
    })
    .await;
    let (ids_one, mut ids_two) = (ids(&one).await, ids(&two).await);
    ids_two.remove("own");
    assert_eq!(ids_one, ids_two);
    let moved = of_two.first().unwrap();
    let page = one.text(&format!("/proc_profile?node={moved}")).await;
    assert!(page.contains(&format!("{url_two}/proc_profile?node=")), "{page}");
    assert!(one.text("/archive").await.contains(&url_two));
    // One that stops gives its nodes up without waiting for its lease.
    two.stop().await;
    assert_eq!(shares(&one, 1).await.into_values().collect::<Vec<_>>(), [24]);
    assert!(captured_by_others(&one).await.is_empty());
    let data = one.stop().await;
    let left = ObjectFolder::open(&archive).unwrap().list("servers").unwrap();
    assert!(left.is_empty(), "{left:?}");
    // After a restart they are the same.
    let again = TestServer::in_folder(config(&archive, &names[..2]), data).await;
    assert_eq!(ids(&again).await[names[0]], ids_one[names[0]]);
    again.stop().await;
}

/// Each node at the address that it has in every order of names.
fn nodes_at_their_addresses(names: &[&str]) -> Vec<NodeConfig> {
    let mut all = nodes(names);
    for node in &mut all {
        let number: u16 = node.name.trim_start_matches('n').parse().unwrap_or(999);
        node.http = format!("127.0.0.1:{}", 10_000 + number);
    }
    all
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_that_died_loses_its_nodes_after_its_lease() {
    let folder = tempfile::tempdir().unwrap();
    let archive = folder.path().join("archive");
    let names = ["a", "b", "c", "d", "e", "f", "g", "h", "i", "j", "k", "l"];
    let one = started(config(&archive, &names)).await;
    let objects = ObjectFolder::open(&archive).unwrap();
    let own = archive_writer(one.data.path()).unwrap();
    let read = |path: &str| objects.read(path, 0, objects.size(path).unwrap() as usize).unwrap();
    let (beat, keys) = until("the first heartbeat", async || {
        objects.size(&format!("servers/{own}/heartbeat.json")).ok()?;
        Some((read(&format!("servers/{own}/heartbeat.json")), read(&format!("servers/{own}/nodes.json"))))
    })
    .await;
    // What a server has left that was killed, with the same nodes; and what nobody understands.
    let other = Writer(own.0 ^ 0x5555_5555);
    let text = String::from_utf8(beat).unwrap().replace(&one.url(""), "http://127.0.0.1:1");
    objects.put(&format!("servers/{other}/nodes.json"), &keys).unwrap();
    objects.put(&format!("servers/{other}/heartbeat.json"), text.as_bytes()).unwrap();
    objects.put("servers/0000000000000007/heartbeat.json", b"{\"url\":7").unwrap();
    objects.put("servers/x/../heartbeat.json", b"{}").unwrap_or_default();
    let seen = shares(&one, 2).await;
    assert!(seen.values().all(|nodes| *nodes > 0) && seen.values().sum::<u64>() == 12, "{seen:?}");
    let after = shares(&one, 1).await;
    assert_eq!(after.into_values().collect::<Vec<_>>(), [12]);
    let list = one.json("/api/servers").await;
    assert_eq!(list["servers"].as_array().unwrap().len(), 2, "the dead one is shown: {list}");
    one.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_archive_that_is_away_changes_nothing_and_is_told() {
    let folder = tempfile::tempdir().unwrap();
    let archive = folder.path().join("archive");
    let names = ["a", "b", "c", "d", "e", "f", "g", "h", "i", "j", "k", "l"];
    let (one, two) = (started(config(&archive, &names)).await, started(config(&archive, &names)).await);
    let before = (shares(&one, 2).await, shares(&two, 2).await);
    let away = folder.path().join("away");
    std::fs::rename(&archive, &away).unwrap();
    let problem = until("the problem is told", async || {
        let list = one.json("/api/servers").await;
        list["problem"].as_str().filter(|problem| problem.contains("may capture the same nodes")).map(str::to_owned)
    })
    .await;
    assert!(one.text("/archive").await.contains("may capture the same nodes"), "{problem}");
    let rows = one.json("/api/servers").await;
    let alive = rows["servers"].as_array().unwrap().iter().filter(|row| row["alive"] == true).count();
    assert_eq!(alive, 2, "leases stand still: {rows}");
    std::fs::rename(&away, &archive).unwrap();
    until("all is as before", async || ((shares(&one, 2).await, shares(&two, 2).await) == before).then_some(())).await;
    one.stop().await;
    two.stop().await;
}

/// The sum of the functions of a node's profiles in the day of those that are pushed, and what it covers.
async fn summed(server: &TestServer, node: u64) -> (String, String) {
    let path = format!(
        "/merge?node={node}&type=cpu&from=2023-11-14T00:00:00Z&to=2023-11-15T00:00:00Z&format=collapsed&sample_index=samples"
    );
    let response = server.get(&path).await;
    let coverage =
        response.headers().get("procprof-coverage").map(|value| value.to_str().unwrap().to_owned()).unwrap_or_default();
    (response.text().await.unwrap(), coverage)
}

async fn push(server: &TestServer, node: &str, start: i64) -> Value {
    let path = format!("/api/push?node={node}&type=cpu");
    let response = server.request(Method::POST, &path).body(cpu_profile(start)).send().await.unwrap();
    let (status, text) = (response.status().as_u16(), response.text().await.unwrap());
    assert_eq!(status, 201, "{text}");
    serde_json::from_str(&text).unwrap()
}

/// Each with users, and the token of one who may read.
async fn with_users(archive: &Path, folder: &TempDir, token: &str) -> TestServer {
    let (users, token_file) = (folder.path().join("users"), folder.path().join(format!("token-{}", token.len())));
    if !users.exists() {
        add_user(&users, "ann", UserRole::Operator, "ann's secret", Methods::Modern).unwrap();
        add_user(&users, "peer", UserRole::Viewer, "peer's secret", Methods::Modern).unwrap();
    }
    std::fs::write(&token_file, token).unwrap();
    let config = Config {
        users_file: Some(users),
        servers_token_file: Some(token_file),
        server_lease_seconds: LONG_LEASE,
        ..config(archive, &["api", "web"])
    };
    let mut server = started(config).await;
    server.credentials = Some(("ann".to_owned(), "ann's secret".to_owned()));
    server
}

#[tokio::test(flavor = "multi_thread")]
async fn a_sum_has_what_each_server_has_and_has_not_archived() {
    let folder = tempfile::tempdir().unwrap();
    let archive = folder.path().join("archive");
    let one = with_users(&archive, &folder, "peer.peer's secret\n").await;
    let two = with_users(&archive, &folder, "peer.wrong\n").await;
    shares(&one, 2).await;
    shares(&two, 2).await;
    let id = ids(&one).await["api"];
    push(&one, "api", 1_700_000_000).await;
    let moved = push(&two, "api", 1_700_000_060).await;
    push(&two, "api", 1_700_000_120).await;
    push(&two, "web", 1_700_000_120).await;
    let (stacks, coverage) = summed(&one, id).await;
    assert_eq!(stacks, "main;hot_30 90\nmain;hot_70 210\n", "{coverage}");
    assert_eq!(coverage, "archived=0, stored=1, elsewhere=2, hours=24, empty-hours=23, unreadable=0, silent=0");
    let page = one.text(&format!("/merge?node={id}&type=cpu&from=2023-11-14T00:00:00Z&to=2023-11-15T00:00:00Z")).await;
    assert!(page.contains("2 from other servers of the archive."), "{page}");
    // One that may not ask says so.
    let (stacks, coverage) = summed(&two, id).await;
    assert_eq!(stacks, "main;hot_30 60\nmain;hot_70 140\n");
    assert_eq!(coverage, "archived=0, stored=2, elsewhere=0, hours=24, empty-hours=23, unreadable=0, silent=1");
    let page = two.text(&format!("/merge?node={id}&type=cpu&from=2023-11-14T00:00:00Z&to=2023-11-15T00:00:00Z")).await;
    assert!(page.contains("Another server cannot be asked") && !page.contains("wrong\n"), "{page}");
    let problem = two.get("/merge?node=nowhere&type=cpu&from=2023-11-14T00:00:00Z&to=2023-11-15T00:00:00Z").await;
    let problem = problem.text().await.unwrap();
    assert!(problem.contains(&format!("is registered; another server cannot be asked: {}", one.url(""))), "{problem}");
    // What both have is summed once.
    let file = two.get(&format!("/api/profiles/{}/download", moved["id"].as_str().unwrap())).await;
    let file = file.bytes().await.unwrap();
    let (status, answer) =
        two.post("/api/servers/files", json!({ "ids": [moved["id"], "0193ffff-ffff-7fff-bfff-ffffffffffff"] })).await;
    assert_eq!((status, answer), (200, Value::Null), "frames are no JSON");
    assert!(!file.is_empty());
    let (status, problem) = two.post("/api/servers/files", json!({ "ids": vec![moved["id"].clone(); 501] })).await;
    assert_eq!(status, 400, "{problem}");
    let (status, problem) = two.post("/api/servers/profiles", json!({ "nodes": [id] })).await;
    assert!(status == 400 && problem["detail"].as_str().unwrap().contains("missing field"), "{problem}");
    one.stop().await;
    two.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn sql_adds_up_what_each_server_has() {
    let folder = tempfile::tempdir().unwrap();
    let archive = folder.path().join("archive");
    let config = |names: &[&str]| Config { server_lease_seconds: LONG_LEASE, ..config(&archive, names) };
    let two = started(config(&["api", "elsewhere"])).await;
    let data = tempfile::tempdir().unwrap();
    let mysql = SqlAddress { address: "127.0.0.1:0".parse().unwrap(), explicit: true, login: SqlLogin::Everyone };
    let archiving = Rhythm::Every(Duration::from_secs(1 << 30));
    let config = config(&["api"]);
    let options = ServerOptions { mysql: Some(mysql), archiving, ..options(config, data.path().to_owned()) };
    let one = TestServer::around(Server::start(options).await.unwrap(), data);
    shares(&one, 2).await;
    push(&one, "api", 1_700_000_000).await;
    push(&two, "api", 1_700_000_060).await;
    let port = one.handle.as_ref().unwrap().mysql().unwrap().port();
    let client = OptsBuilder::default().ip_or_hostname("127.0.0.1").tcp_port(port).user(Some("ann"));
    let mut client = Conn::new(client.db_name(Some("procprof"))).await.unwrap();
    let top = "SELECT function, flat, profiles FROM top('api', 'cpu', '2023-11-14', '2023-11-15', 'samples')";
    let rows: Vec<(String, i64, i64)> = client.query(top).await.unwrap();
    assert!(rows.contains(&("hot_70".to_owned(), 140, 2)), "{rows:?}");

    let timeline = |split: &str| {
        format!(
            "SELECT series, value, profiles, archived \
             FROM timeline('api', 'cpu', '2023-11-14', '2023-11-15', '1d', '{split}', 'cpu') ORDER BY series"
        )
    };
    let rows: Vec<(Option<String>, i64, i64, i64)> = client.query(timeline("node")).await.unwrap();
    assert_eq!(rows, [(Some("api".to_owned()), 2_000_000_000, 2, 0)], "a profile of each server");
    let mut functions: Vec<(String, i64, i64, i64)> = client.query(timeline("function")).await.unwrap();
    let others = functions.remove(0);
    assert_eq!((others.0.as_str(), others.1), ("[others]", 1_000_000_000), "{functions:?}");
    let warnings: Vec<(String, u16, String)> = client.query("SHOW WARNINGS").await.unwrap();
    let text = "timeline: 1 profiles that only other servers have are among '[others]'";
    assert!(warnings.iter().any(|(_, _, warning)| warning == text), "{warnings:?}");

    // A node of another server has its name here, too.
    push(&two, "elsewhere", 1_700_000_060).await;
    let rows: Vec<(String, i64, i64)> = client.query(top.replace("api", "elsewhere")).await.unwrap();
    assert!(rows.contains(&("hot_70".to_owned(), 70, 1)), "{rows:?}");
    let merge = "/merge?type=cpu&from=2023-11-14T00:00:00Z&to=2023-11-15T00:00:00Z&format=collapsed";
    assert!(one.text(&format!("{merge}&node=elsewhere")).await.contains("main;hot_70 "));
    let problem = one.get(&format!("{merge}&node=nowhere")).await.text().await.unwrap();
    assert!(problem.contains("nowhere") && problem.contains("is registered"), "{problem}");
    let unknown = client.query_drop(top.replace("api", "nowhere")).await.unwrap_err().to_string();
    assert!(unknown.contains("node not found: nowhere"), "{unknown}");
    let warned = "SELECT COUNT(*) FROM top('99999', 'CPU', '2023-11-14', '2023-11-15')";
    assert_eq!(client.query::<i64, _>(warned).await.unwrap(), [0]);
    let warnings: Vec<(String, u16, String)> = client.query("SHOW WARNINGS").await.unwrap();
    assert_eq!(warnings.len(), 1, "{warnings:?}");
    assert_eq!(warnings[0].2, "top: no profiles of type cpu were found; unknown nodes: 99999");
    for (statement, why) in [
        ("COLLECT CPU ON api FOR 0 SECONDS", "a cpu profile of api takes at least 1 second"),
        ("COLLECT HEAP ON api FOR 3 SECONDS", "a heap profile of api is of a moment and takes no seconds"),
    ] {
        let refused = client.query_drop(statement).await.unwrap_err().to_string();
        assert!(refused.contains(why), "{statement}: {refused}");
    }
    drop(client);
    two.stop().await;
    one.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_id_that_is_another_nodes_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let archive = folder.path().join("archive");
    let alone = |names: &[&str]| Config { nodes: nodes(names), ..quiet() };
    // Two servers that numbered nodes each by itself.
    let mut folders = Vec::new();
    for names in [["a", "b"], ["b", "a"]] {
        folders.push(TestServer::start(alone(&names)).await.stop().await);
    }
    let (second, first) = (folders.pop().unwrap(), folders.pop().unwrap());
    let one = TestServer::in_folder(config(&archive, &["a", "b"]), first).await;
    let refused = Server::start(options(config(&archive, &["a", "b"]), second.path().to_owned())).await;
    let why = refused.err().unwrap().to_string();
    assert!(why.starts_with("node ids: node a has the id 20002 here and 20001 in the archive"), "{why}");
    one.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn servers_that_start_at_the_same_time_give_the_same_ids() {
    let folder = tempfile::tempdir().unwrap();
    let archive = folder.path().join("archive");
    std::fs::create_dir(&archive).unwrap();
    let names: Vec<String> = (0..40).map(|number| format!("n{number}")).collect();
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    let mut reversed = names.clone();
    reversed.reverse();
    let starts = [names.clone(), reversed, names].map(|names| {
        let config = Config { nodes: nodes_at_their_addresses(&names), ..config(&archive, &[]) };
        tokio::spawn(started(config))
    });
    let mut servers = Vec::new();
    for start in starts {
        servers.push(start.await.unwrap());
    }
    let first = ids(&servers[0]).await;
    let distinct: BTreeSet<u64> = first.values().copied().collect();
    assert_eq!((first.len(), distinct.len()), (41, 41), "the server itself included");
    for server in servers {
        assert_eq!(ids(&server).await, first);
        server.stop().await;
    }
}
