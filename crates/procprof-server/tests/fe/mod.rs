//! `fe_query`: queries of StarRocks' frontends in SQL. Against a second server of ours, and against replayed answers of
//! frontends.

mod backend;
mod replay;

use std::path::Path;
use std::sync::atomic::Ordering;

use procprof_server::auth::{Methods, UserRole, add_user};
use procprof_server::{Config, Server, ServerOptions, SqlAddress, SqlLogin};

use crate::harness::{TestServer, options, parsed, quiet, until};
use crate::mysql_select::{refusal, rows, start};
use backend::Switch;
use replay::{Replay, Reply};

/// The 29 columns that StarRocks 3.x gives.
const BACKENDS: &str = "BackendId IP HeartbeatPort BePort HttpPort BrpcPort LastStartTime LastHeartbeat Alive SystemDecommissioned \
                        ClusterDecommissioned TabletNum DataUsedCapacity AvailCapacity TotalCapacity UsedPct MaxDiskUsedPct ErrMsg Version Status \
                        DataTotalCapacity DataUsedPct CpuCores MemLimit NumRunningQueries MemUsedPct CpuUsedPct DataCacheMetrics Location";

/// A list with these columns and a row for each id: nodes that can't be reached.
fn list(columns: &str, ids: &[u64]) -> Reply {
    let names: Vec<String> = columns.split_whitespace().map(str::to_owned).collect();
    let row = |id: &u64| {
        let cell = |name: &String| match name.as_str() {
            "BackendId" | "ComputeNodeId" => id.to_string(),
            "IP" => "127.0.0.1".to_owned(),
            "HttpPort" | "BrpcPort" => (id % 1000).to_string(),
            "CpuUsedPct" => "12.34 %".to_owned(),
            "Status" => "{\"lastSuccessReportTabletsTime\":\"N/A\"}".to_owned(),
            "Location" => "NULL".to_owned(),
            name => format!("its {name}"),
        };
        names.iter().map(cell).collect()
    };
    let rows = ids.iter().map(row).collect();
    Reply::Rows(names, rows)
}

fn result(text: &str) -> Reply {
    Reply::Rows(vec!["result".to_owned()], text.split('\n').map(|line| vec![line.to_owned()]).collect())
}

/// A configuration that queries a frontend, and collects nothing by itself.
fn querying(port: u16, more: &str) -> Config {
    let mut config = parsed(&format!(
        "[[fe_query]]\ncluster = \"prod\"\naddress = \"localhost:{port}\"\nnode.schedule.cpu = {{ on = false }}\n{more}\n"
    ));
    config.proc_profile_cpu_enable = false;
    config.proc_profile_mem_enable = false;
    config
}

fn script(on: &str, call: &str) -> String {
    format!("admin execute on {on} 'System.print(HeapProf.getInstance().{call})'")
}

/// Waits until the first node of a cluster has been discovered.
async fn discovered(server: &TestServer) {
    let count = "SELECT COUNT(*) FROM nodes WHERE cluster = 'prod' AND past = 0";
    until("a node of the cluster", async || (rows(server, count).await != "COUNT(*)\n0").then_some(())).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn lists_of_every_version_pass_through_and_nodes_are_discovered() {
    for columns in [
        BACKENDS.to_owned(),
        format!("{BACKENDS} StatusCode"),
        format!("Novel {BACKENDS} StatusCode StarletPort WorkerId WarehouseName"),
    ] {
        let known = columns.clone();
        let fe = Replay::start(move |statement, _, _| match statement {
            "SHOW BACKENDS" | "SHOW PROC '/backends'" => list(&known, &[10_002, 10_001]),
            "SHOW COMPUTE NODES" => list("ComputeNodeId IP HttpPort BrpcPort Odd", &[10_003]),
            "SHOW FRONTENDS" => list("Id Name IP QueryPort", &[1]),
            _ => Reply::Error(1064, "Getting syntax error"),
        });
        let server = start(querying(fe.port, "node.labels = { zone = \"eu-1\" }")).await;
        discovered(&server).await;
        let shown = rows(&server, "SHOW BACKENDS").await;
        let lines: Vec<Vec<&str>> = shown.lines().map(|line| line.split('\t').collect()).collect();
        assert_eq!(lines[0], columns.split_whitespace().collect::<Vec<_>>());
        assert_eq!(lines.len(), 3, "{shown}");
        assert!(lines.iter().all(|line| line.len() == lines[0].len()), "{shown}");
        assert!(lines[1].contains(&"10002") && lines[1].contains(&"12.34 %") && lines[1].contains(&"NULL"), "{shown}");
        assert_eq!(rows(&server, "show proc '/backends'").await, shown);
        assert!(
            rows(&server, "SHOW COMPUTE NODES")
                .await
                .starts_with("ComputeNodeId\tIP\tHttpPort\tBrpcPort\tOdd\n10003\t")
        );
        assert!(rows(&server, "SHOW FRONTENDS").await.starts_with("Id\tName\tIP\tQueryPort\n"));
        assert!(
            refusal(&server, "SHOW PROC '/dbs'").await.contains("SHOW PROC '/dbs' is not offered; there are /backends")
        );
        assert_eq!(
            rows(&server, "SELECT id, role, cluster FROM nodes WHERE past = 0 AND id <> 1 ORDER BY id").await,
            "id\trole\tcluster\n10001\tBE\tprod\n10002\tBE\tprod\n10003\tCN\tprod"
        );
        server.stop().await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn nodes_that_leave_stay_as_past_ones() {
    let fe = Replay::start(|statement, connection, count| match statement {
        "SHOW BACKENDS" if connection == 0 && count == 0 => list(BACKENDS, &[10_001, 10_002]),
        "SHOW BACKENDS" => list(BACKENDS, &[10_001]),
        "SHOW COMPUTE NODES" => Reply::Error(1064, "Getting syntax error"),
        _ => result("true"),
    });
    let server = start(querying(fe.port, "")).await;
    discovered(&server).await;
    // An unknown id makes the server query the frontend.
    assert!(refusal(&server, &script("4711", "has_enable()")).await.contains("node not found: 4711"));
    assert_eq!(
        rows(&server, "SELECT id, past FROM nodes WHERE id > 1 ORDER BY id").await,
        "id\tpast\n10001\t0\n10002\t1"
    );
    assert_eq!(
        rows(&server, &script("10001, 10002", "has_enable()")).await,
        "node_id\tstatus\tresult\n10001\tOK\ttrue\n10002\tERROR\tnode not found"
    );
    server.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn scripts_are_forwarded_call_by_call_and_only_known_paths_go_back() {
    let fe = Replay::start(|statement, _, _| match statement {
        "SHOW BACKENDS" => list(BACKENDS, &[10_001, 10_002]),
        "SHOW COMPUTE NODES" => list("ComputeNodeId IP HttpPort BrpcPort", &[]),
        _ if statement.contains("snapshot()") && statement.contains("dot") => result("digraph \"be\" {\n}"),
        _ if statement.contains("snapshot()") => result("/data/pprof/heap_profile.1.2"),
        _ if statement.contains("to_dot_format") => result("digraph \"of a path\" {\n}"),
        _ if statement.contains("has_enable") && statement.contains("10002") => {
            Reply::Error(1105, "executeCommand RPC failed")
        }
        _ if statement.contains("has_enable") => result("true"),
        _ => result("instance of HeapProf"),
    });
    let server = start(querying(fe.port, "")).await;
    let two = "ADMIN EXECUTE ON 10001 'System.print(HeapProf.getInstance().enable_prof()) ; System.print( HeapProf . getInstance ( ) . has_enable() )'";
    assert_eq!(rows(&server, two).await, "result\ninstance of HeapProf\ntrue");
    assert_eq!(rows(&server, &script("10001", "dump_dot_snapshot()")).await, "result\ndigraph \"be\" {\n}");
    let unknown = refusal(&server, &script("10001", "to_dot_format(\"/data/pprof/heap_profile.1.2\")")).await;
    assert!(unknown.contains("is no dump of node 10001"), "{unknown}");
    assert_eq!(rows(&server, &script("10001", "snapshot()")).await, "result\n/data/pprof/heap_profile.1.2");
    let known = rows(&server, &script("10001", "to_dot_format(\"/data/pprof/heap_profile.1.2\")")).await;
    assert_eq!(known, "result\ndigraph \"of a path\" {\n}");
    assert_eq!(
        rows(&server, &script("all backends", "has_enable()")).await.replace(&fe.port.to_string(), "PORT"),
        "node_id\tstatus\tresult\n10001\tOK\ttrue\n10002\tERROR\tFE localhost:PORT of cluster prod: error 1105 (HY000): executeCommand RPC failed"
    );
    assert_eq!(rows(&server, &script("frontend", "has_enable()")).await, "result\ntrue");
    let sent = fe.statements("ADMIN EXECUTE");
    assert_eq!(sent[0], "ADMIN EXECUTE ON 10001 'System.print(HeapProf.getInstance().enable_prof())'");
    assert!(
        sent.contains(&"ADMIN EXECUTE ON FRONTEND 'System.print(HeapProf.getInstance().has_enable())'".to_owned()),
        "{sent:?}"
    );
    server.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_frontend_that_restarts_is_queried_again() {
    let fe = Replay::start(|statement, connection, count| match statement {
        // Every connection breaks at its third statement.
        _ if count == 2 && connection < 3 => Reply::Close,
        "SHOW BACKENDS" => list(BACKENDS, &[10_001]),
        "SHOW COMPUTE NODES" => list("ComputeNodeId IP HttpPort BrpcPort", &[]),
        _ if statement.contains("dump_dot") => Reply::Half,
        _ => result("true"),
    });
    let server = start(querying(fe.port, "")).await;
    discovered(&server).await;
    for _ in 0..4 {
        assert_eq!(rows(&server, &script("10001", "has_enable()")).await, "result\ntrue");
    }
    assert!(fe.connections.load(Ordering::SeqCst) >= 2);
    let broken = refusal(&server, &script("10001", "dump_dot_snapshot()")).await;
    assert!(broken.contains("of cluster prod: the connection broke: "), "{broken}");
    assert_eq!(rows(&server, &script("10001", "has_enable()")).await, "result\ntrue");
    server.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_frontends_failure_is_reported() {
    let silent = Replay::start(|statement, _, _| match statement {
        "SHOW BACKENDS" => list(BACKENDS, &[10_001]),
        "SHOW COMPUTE NODES" => list("ComputeNodeId IP HttpPort BrpcPort", &[]),
        _ => Reply::Silence,
    });
    let server = start(querying(silent.port, "seconds_max = 1")).await;
    discovered(&server).await;
    let late = refusal(&server, &script("10001", "has_enable()")).await;
    assert!(late.contains("ERROR 3024") && late.contains("of cluster prod: no answer within 1 s"), "{late}");
    server.stop().await;

    let denied = Replay::start(|_, _, _| {
        Reply::Error(5203, "Access denied; you need (at least one of) the OPERATE privilege(s) on SYSTEM")
    });
    let server = start(querying(denied.port, "")).await;
    let refused = refusal(&server, "SHOW BACKENDS").await;
    assert!(
        refused.contains("of cluster prod: access denied: Access denied; you need") && refused.contains("ERROR 1105"),
        "{refused}"
    );
    server.stop().await;

    let server = start(querying(denied.port, "tls = true")).await;
    let refused = refusal(&server, "SHOW BACKENDS").await;
    assert!(refused.contains("TLS: the frontend offers none"), "{refused}");
    server.stop().await;

    let password = tempfile::NamedTempFile::new().unwrap();
    let server = start(querying(1, &format!("password_file = {:?}", password.path()))).await;
    let path = password.path().display().to_string();
    password.close().unwrap();
    let refused = refusal(&server, "SHOW BACKENDS").await;
    assert!(refused.contains(&format!("secret file {path}")), "{refused}");
    server.stop().await;

    let server = start(querying(1, "")).await;
    let refused = refusal(&server, "SHOW BACKENDS").await;
    assert!(refused.contains("the FE of cluster prod: cannot be reached: localhost:1: "), "{refused}");
    assert!(refusal(&server, &script("10001", "has_enable()")).await.contains("node not found: 10001"));
    server.stop().await;
}

/// A server in a frontend's place, with a backend behind it.
async fn second(backend: u16, users: Option<&Path>) -> TestServer {
    let mut config = parsed(&format!(
        "[[node]]\nname = \"be\"\nid = 10001\nkind = \"starrocks-be\"\nhttp = \"127.0.0.1:{backend}\"\nbrpc = \"127.0.0.1:{backend}\"\nschedule.cpu = {{ on = false }}\n"
    ));
    (config.proc_profile_cpu_enable, config.proc_profile_mem_enable) = (false, false);
    let Some(folder) = users else { return start(config).await };
    let file = folder.join("users");
    add_user(&file, "profiler", UserRole::Operator, "fe ☂ password", Methods::Modern).unwrap();
    let made = rcgen::generate_simple_self_signed(vec!["localhost".to_owned()]).unwrap();
    let (cert, key) = (folder.join("cert.pem"), folder.join("key.pem"));
    std::fs::write(&cert, made.cert.pem()).unwrap();
    std::fs::write(&key, made.signing_key.serialize_pem()).unwrap();
    (config.users_file, config.tls_cert, config.tls_key) = (Some(file), Some(cert), Some(key));
    let data = tempfile::tempdir().unwrap();
    let mysql = SqlAddress { address: "127.0.0.1:0".parse().unwrap(), explicit: true, login: SqlLogin::Users };
    let handle =
        Server::start(ServerOptions { mysql: Some(mysql), ..options(config, data.path().to_owned()) }).await.unwrap();
    TestServer::around(handle, data)
}

/// The transcript through two servers: the switch, a dump stored by both.
async fn transcript(fe: &TestServer, server: &TestServer) {
    discovered(server).await;
    assert_eq!(
        rows(server, "SHOW BACKENDS").await.lines().next(),
        Some((BACKENDS.split_whitespace().collect::<Vec<_>>().join("\t") + "\tStatusCode").as_str())
    );
    for (call, expected) in [
        ("has_enable()", "false"),
        ("enable_prof()", "instance of HeapProf"),
        ("has_enable()", "true"),
        ("disable_prof()", "instance of HeapProf"),
    ] {
        assert_eq!(rows(server, &script("10001", call)).await, format!("result\n{expected}"), "{call}");
    }
    let name = rows(server, &script("10001", "snapshot()")).await;
    assert!(name.starts_with("result\nheap_profile."), "{name}");
    // The one with users does not let the test in without TLS.
    for side in [fe, server].into_iter().filter(|side| side.credentials.is_none()) {
        assert_eq!(rows(side, "SELECT type, node FROM profiles").await, "type\tnode\nheap\t10001");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_second_server_of_ours_is_queried_without_and_with_password_and_tls() {
    let backend = backend::start(Switch::Works);
    let fe = second(backend, None).await;
    let port = fe.handle.as_ref().unwrap().mysql().unwrap().port();
    let server = start(querying(port, "")).await;
    transcript(&fe, &server).await;
    server.stop().await;
    fe.stop().await;

    let folder = tempfile::tempdir().unwrap();
    let mut fe = second(backend, Some(folder.path())).await;
    fe.credentials = Some(("profiler".to_owned(), "fe ☂ password".to_owned()));
    let port = fe.handle.as_ref().unwrap().mysql().unwrap().port();
    let (ca, password) = (folder.path().join("cert.pem"), folder.path().join("password"));
    std::fs::write(&password, "fe ☂ password\n").unwrap();
    let server = start(querying(
        port,
        &format!("user = \"profiler\"\npassword_file = {password:?}\ntls = {{ ca_file = {ca:?} }}"),
    ))
    .await;
    transcript(&fe, &server).await;
    server.stop().await;
    // A file that changes is read again; the frontend's refusal is reported.
    let server = start(querying(port, "user = \"profiler\"\npassword = \"wrong\"\ntls = { insecure = true }")).await;
    let refused = refusal(&server, "SHOW BACKENDS").await;
    assert!(refused.contains("access denied: Access denied for user 'profiler'"), "{refused}");
    server.stop().await;
    let server = start(querying(port, "user = \"profiler\"\npassword = \"fe ☂ password\"\ntls = true")).await;
    let refused = refusal(&server, "SHOW BACKENDS").await;
    assert!(refused.contains("of cluster prod: TLS: "), "{refused}");
    server.stop().await;
    fe.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn without_a_frontend_brpcs_flag_switches_or_the_answer_names_what_is_missing() {
    for (switch, enabled, expected) in [
        (Switch::Works, "result\ninstance of HeapProf", "result\nfalse"),
        (Switch::Refuses, "takes JEMALLOC_CONF=prof:true at its start", "result\nfalse"),
        (Switch::Missing, "has no brpc flag je_prof_active", "has no brpc flag je_prof_active"),
    ] {
        let server = second(backend::start(switch), None).await;
        let has = rows(&server, &script("10001", "has_enable()")).await;
        assert!(has.contains(expected), "{has}");
        let answer = rows(&server, &script("10001", "enable_prof()")).await;
        assert!(answer.contains(enabled), "{answer}");
        assert!(rows(&server, &script("10001", "snapshot()")).await.starts_with("result\nheap_profile."));
        server.stop().await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_databend_node_returns_dumps_or_names_what_it_lacks() {
    for (switch, expected) in [
        (Switch::Works, "result\nheap_profile."),
        (Switch::Refuses, "start it with MALLOC_CONF=prof:true"),
        (Switch::Missing, "build it with the cargo feature memory-profiling"),
    ] {
        let mut config = parsed(&format!(
            "[[node]]\nname = \"query\"\nid = 10001\nkind = \"databend\"\nhttp = \"127.0.0.1:{}\"\nschedule.cpu = {{ on = false }}\n",
            backend::start(switch)
        ));
        config.proc_profile_cpu_enable = false;
        let server = start(config).await;
        let answer = rows(&server, &script("10001", "snapshot()")).await;
        assert!(answer.contains(expected), "{answer}");
        let answer = rows(&server, &script("10001", "enable_prof()")).await;
        assert!(answer.contains("start it with MALLOC_CONF=prof:true,prof_active:true"), "{answer}");
        server.stop().await;
    }
}

#[tokio::test]
async fn keys_that_do_not_fit_are_refused_with_their_place() {
    let check = |text: &str, wanted: &str| {
        let error = Config::parse(text, "f.toml").and_then(|config| config.check()).unwrap_err().to_string();
        assert!(error.starts_with(wanted), "{text:?}: {error}");
    };
    check("[[fe_query]]\nuser = \"root\"", "f.toml:2: user: the frontends have no address");
    check("[[fe_query]]\naddress = \"h:1:2\"", "f.toml:2: address: \"h:1:2\" is no address");
    check("[[fe_query]]\naddress = \"http://h\"", "f.toml:2: address: ");
    check(
        "[[fe_query]]\naddress = \"h\"\npasword = \"x\"",
        "f.toml:3: unknown key \"pasword\"; the nearest known key is \"password\"",
    );
    check(
        "[[fe_query]]\naddress = \"h\"\npassword = \"x\"\npassword_file = \"y\"",
        "f.toml:2: address: give password or password_file",
    );
    check("[[fe_query]]\naddress = \"h\"\nnode.http = \"h:1\"", "f.toml:3: unknown key \"http\"");
    check(
        "[[fe_query]]\naddress = \"h\"\nnode.schedule.goroutine = { on = true }",
        "f.toml:3: schedule.goroutine: the node gives no such",
    );
    check(
        "[[fe_query]]\naddress = \"h\"\n[[fe_query]]\naddress = \"i\"",
        "f.toml:4: fe_query: cluster \"default\" has its frontends at f.toml:2",
    );
    assert!(!format!("{:?}", parsed("[[fe_query]]\naddress = \"h\"\npassword = \"hidden\"")).contains("hidden"));
    assert_eq!(quiet().fe_queries, []);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_second_cluster_is_numbered_here_and_configured_nodes_stand_for_theirs() {
    let cluster = |columns: &'static str| {
        Replay::start(move |statement, _, _| match statement {
            "SHOW BACKENDS" => list(columns, &[10_001, 10_002]),
            "SHOW COMPUTE NODES" => list("ComputeNodeId IP HttpPort BrpcPort", &[]),
            _ => result(if columns == BACKENDS { "true" } else { "false" }),
        })
    };
    let (first, second) = (cluster(BACKENDS), cluster("BackendId IP HttpPort BrpcPort Odd"));
    let mut config = parsed(&format!(
        "[[fe_query]]\ncluster = \"prod\"\naddress = \"localhost:{}\"\nnode.schedule.cpu = {{ on = false }}\n\
         [[fe_query]]\ncluster = \"test\"\naddress = \"localhost:{}\"\nnode.schedule.cpu = {{ on = false }}\n\
         [[node]]\nname = \"own\"\nkind = \"starrocks-be\"\ncluster = \"prod\"\nhttp = \"127.0.0.1:2\"\nschedule.cpu = {{ on = false }}\n",
        first.port, second.port
    ));
    (config.proc_profile_cpu_enable, config.proc_profile_mem_enable) = (false, false);
    let server = start(config).await;
    discovered(&server).await;
    // Unknown ids make the server query both frontends.
    assert!(refusal(&server, &script("4711", "has_enable()")).await.contains("node not found: 4711"));
    let known = rows(&server, "SELECT name, cluster FROM nodes WHERE id > 1 AND past = 0 ORDER BY cluster, name").await;
    assert_eq!(
        known,
        "name\tcluster\nBE 127.0.0.1:1\tprod\nown\tprod\nBE 127.0.0.1:1 (test)\ttest\nBE 127.0.0.1:2 (test)\ttest"
    );
    let other = rows(&server, "SELECT id FROM nodes WHERE name = 'BE 127.0.0.1:1 (test)'").await;
    let other = other.lines().nth(1).unwrap().to_owned();
    assert!(other.parse::<u64>().unwrap() > 20_000, "{other}");
    // By the cluster's own id, its node, also where it is configured under another one.
    for (id, expected) in [("10001", "true"), ("10002", "true"), (other.as_str(), "false")] {
        assert_eq!(rows(&server, &script(id, "has_enable()")).await, format!("result\n{expected}"), "{id}");
    }
    let shown = rows(&server, "SHOW BACKENDS").await;
    assert!(
        shown.lines().next().unwrap().ends_with("\tLocation\tOdd") && shown.contains(&format!("\n{other}\t")),
        "{shown}"
    );
    assert_eq!(shown.lines().count(), 5, "{shown}");
    server.stop().await;
}
