//! How long `SELECT` takes over a large catalog, by the `mariadb` client over one connection.
//!
//! `cargo bench -p procprof-server --bench sql -- [rows]`, by default 100,000. Rows are written into the catalog behind the server's back; their
//! facts are as long as those of real profiles. Printed are milliseconds of wall time a statement, the least of some rounds.

#![allow(clippy::unwrap_used)]

use std::io::Write;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use procprof_server::{ChildProgram, Config, Server, ServerOptions, SqlAddress, SqlLogin};
use rusqlite::Connection;

/// Statements of one round; the client's own start is divided by them.
const REPEATED: u32 = 20;
const ROUNDS: u32 = 5;

const STATEMENTS: &[&str] = &[
    "SHOW BACKENDS",
    "SELECT 1",
    "SELECT COUNT(*) FROM profiles",
    "SELECT node, type, COUNT(*), SUM(bytes) FROM profiles GROUP BY node, type",
    "SELECT n.name, p.type, COUNT(*) FROM profiles p JOIN nodes n ON n.id = p.node GROUP BY 1, 2",
    "SELECT type, COUNT(*) FROM profiles WHERE completed >= '2025-11-20 22:30:00' GROUP BY type",
    "SELECT DATE_FORMAT(completed, '%H:%i') AS minute, COUNT(*) FROM profiles GROUP BY 1",
    "SELECT id, node, type, completed FROM profiles ORDER BY completed_ns DESC LIMIT 100",
    "SELECT id, node, type, completed FROM profiles ORDER BY completed DESC LIMIT 100",
    "SELECT * FROM profiles ORDER BY completed_ns DESC LIMIT 100",
    "SELECT type, AVG(seconds), MAX(bytes) FROM profiles GROUP BY type",
    "SELECT COUNT(*) FROM profiles WHERE labels LIKE '%zone=eu%'",
    "SELECT top_function, COUNT(*) FROM profiles GROUP BY 1",
    "SELECT id, completed FROM profiles",
];

fn main() {
    let rows: u64 = std::env::args().skip(1).find_map(|argument| argument.parse().ok()).unwrap_or(100_000);
    let data = tempfile::tempdir().unwrap();
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().unwrap();
    let nothing = ChildProgram { program: "/nonexistent".into(), arguments: Vec::new() };
    let mut config = Config::defaults();
    (config.proc_profile_cpu_enable, config.proc_profile_mem_enable) = (false, false);
    let options = ServerOptions {
        config,
        data: data.path().to_owned(),
        http: "127.0.0.1:0".parse().unwrap(),
        http_explicit: true,
        mysql: Some(SqlAddress { address: "127.0.0.1:0".parse().unwrap(), explicit: true, login: SqlLogin::Everyone }),
        insecure: false,
        extra_nodes: Vec::new(),
        agent: procprof_agent::start(procprof_agent::Config::default()).unwrap(),
        symbolize_child: nothing.clone(),
        jeprof_child: nothing,
    };
    let server = runtime.block_on(Server::start(options)).unwrap();
    fill(&data.path().join("catalog.sqlite"), rows);
    let port = server.mysql().unwrap().port();
    println!("{rows} rows");
    for statement in STATEMENTS {
        let least = (0..ROUNDS).map(|_| round(port, statement)).min().unwrap();
        println!("{:8.2} ms  {statement}", least.as_secs_f64() * 1e3);
    }
    runtime.block_on(server.stop(Duration::from_secs(5)));
}

/// Time of one statement.
fn round(port: u16, statement: &str) -> Duration {
    let mut client = Command::new("mariadb")
        .args(["--no-defaults", "--protocol=tcp", "--skip-ssl", "--batch", "--host=127.0.0.1", "--user=bench"])
        .arg(format!("--port={port}"))
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .spawn()
        .expect("mariadb: install it");
    let began = Instant::now();
    let mut stdin = client.stdin.take().unwrap();
    for _ in 0..REPEATED {
        writeln!(stdin, "{statement};").unwrap();
    }
    drop(stdin);
    assert!(client.wait().unwrap().success(), "{statement}");
    began.elapsed() / REPEATED
}

fn fill(catalog: &std::path::Path, rows: u64) {
    let top = (0..10)
        .map(|at| format!(r#"{{"name":"starrocks::pipeline::PipelineDriver::process_{at}(starrocks::RuntimeState*, int)","value":{at}}}"#));
    let facts = format!(
        r#"{{"meta":["procprof:node_name=be-1","procprof:engine=gperftools","procprof:means=CPU time of all threads, sampled 100 times a second"],
        "start":1,"duration":2,"summary":{{"totals":[{{"kind":"samples","unit":"count","value":1}},{{"kind":"cpu","unit":"nanoseconds","value":2}}],
        "samples":812,"top":[{}]}}}}"#,
        top.collect::<Vec<_>>().join(",")
    );
    let connection = Connection::open(catalog).unwrap();
    connection.busy_timeout(Duration::from_secs(5)).unwrap();
    let sql = "WITH RECURSIVE n(i) AS (SELECT 0 UNION ALL SELECT i + 1 FROM n LIMIT ?1)
        INSERT INTO profiles (id, node, type, file, completed, bytes, started, duration, trigger, cluster, labels, words, facts, strip)
        SELECT unhex(printf('%032x', i)), 10001 + i % 10, CASE i / 10 % 3 WHEN 0 THEN 'cpu' WHEN 1 THEN 'heap' ELSE 'contention' END,
            printf('cpu-profile-%d-pprof.gz', i), 1763677534000000000 + i * 1000000000, 8000 + i % 1000, 1763677524000000000 + i * 1000000000,
            10000000000, 'schedule', 'default', printf('%szone=eu-%d%s', char(10), i % 4, char(10)), lower(?2), ?2, zeroblob(60) FROM n";
    connection.execute(sql, (rows.cast_signed(), facts)).unwrap();
}
