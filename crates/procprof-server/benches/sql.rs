//! How long `SELECT` takes over a large catalog, by a client of bare packets over one connection.
//!
//! `cargo bench -p procprof-server --bench sql -- [rows] [part of statements]`, by default all over 100,000 rows, which
//! are written into the catalog behind the server's back; their facts are as long as those of real profiles. Printed
//! are milliseconds of wall time a statement, the least of some rounds.

#![allow(clippy::unwrap_used)]

use std::time::{Duration, Instant};

use procprof_server::{ChildProgram, Config, Rhythm, Server, ServerOptions, SqlAddress, SqlLogin};
use rusqlite::Connection;

#[path = "../../procprof/tests/mysql/raw.rs"]
#[allow(dead_code)]
mod raw;

use raw::Raw;

const ROUNDS: u32 = 30;

const STATEMENTS: &[&str] = &[
    "SHOW BACKENDS",
    "SELECT 1",
    "SELECT COUNT(*) FROM profiles",
    "SELECT node, type, COUNT(*), SUM(bytes) FROM profiles GROUP BY node, type",
    "SELECT n.name, p.type, COUNT(*) FROM profiles p JOIN nodes n ON n.id = p.node GROUP BY 1, 2",
    "SELECT type, COUNT(*) FROM profiles WHERE completed >= '2025-11-20 22:30:00' GROUP BY type",
    "SELECT type, COUNT(*) FROM profiles WHERE completed_ns >= 1763677534000000000 + 90000000000000 GROUP BY type",
    "SELECT DATE_FORMAT(completed, '%H:%i') AS minute, COUNT(*) FROM profiles GROUP BY 1",
    "SELECT id, node, type, completed FROM profiles ORDER BY completed_ns DESC LIMIT 100",
    "SELECT id, node, type, completed FROM profiles ORDER BY completed DESC LIMIT 100",
    "SELECT * FROM profiles ORDER BY completed_ns DESC LIMIT 100",
    "SELECT * FROM profiles WHERE id = '00000000-0000-0000-0000-0000000086a0'",
    "SELECT * FROM profiles WHERE node = 10003 AND type = 'cpu' ORDER BY completed DESC LIMIT 10",
    "SELECT type, AVG(seconds), MAX(bytes) FROM profiles GROUP BY type",
    "SELECT COUNT(*) FROM profiles WHERE labels LIKE '%zone=eu%'",
    "SELECT top_function, COUNT(*) FROM profiles GROUP BY 1",
    "SELECT top_function, COUNT(*) FROM profiles WHERE type = 'cpu' GROUP BY 1",
    "SELECT COUNT(*) FROM profiles WHERE top_function LIKE '%process_3%'",
    "SELECT type, SUM(samples) FROM profiles GROUP BY type",
    "SELECT SUM(totals->>'$[1].value') FROM profiles WHERE type = 'cpu'",
    "SELECT id, completed FROM profiles",
    "SELECT * FROM profiles",
];

fn main() {
    let words: Vec<String> = std::env::args().skip(1).filter(|word| !word.starts_with("--")).collect();
    let rows: u64 = words.iter().find_map(|word| word.parse().ok()).unwrap_or(100_000);
    let part = words.iter().find(|word| word.parse::<u64>().is_err()).map_or("", String::as_str);
    let data = tempfile::tempdir().unwrap();
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().unwrap();
    let nothing = ChildProgram { program: "/nonexistent".into(), arguments: Vec::new() };
    let mut config = "proc_profile_cpu_enable = false\nproc_profile_mem_enable = false\n".to_owned();
    for id in 10_001..10_011 {
        config += &format!(
            "[[node]]\nid = {id}\nname = \"be-{id}\"\nkind = \"starrocks-be\"\nhttp = \"127.0.0.1:1\"\npid_lookup = \"off\"\n"
        );
    }
    let config = Config::parse(&config, "bench.toml").unwrap();
    let options = ServerOptions {
        config,
        data: data.path().to_owned(),
        http: "127.0.0.1:0".parse().unwrap(),
        http_explicit: true,
        mysql: Some(SqlAddress { address: "127.0.0.1:0".parse().unwrap(), explicit: true, login: SqlLogin::Everyone }),
        insecure: false,
        archiving: Rhythm::Hourly,
        extra_nodes: Vec::new(),
        agent: procprof_agent::start(procprof_agent::Config::default()).unwrap(),
        symbolize_child: nothing.clone(),
        jeprof_child: nothing,
    };
    let server = runtime.block_on(Server::start(options)).unwrap();
    fill(&data.path().join("catalog.sqlite"), rows);
    let port = server.mysql().unwrap().port();
    let mut client = Raw::connect(port);
    println!("{rows} rows");
    for statement in STATEMENTS.iter().filter(|statement| statement.contains(part)) {
        let least = least(&mut client, statement);
        println!("{:8.2} ms  {statement}", least.as_secs_f64() * 1e3);
    }
    runtime.block_on(server.stop(Duration::from_secs(5)));
}

/// Time of one statement and its whole answer, the least of all rounds.
fn least(client: &mut Raw, statement: &str) -> Duration {
    let round = |_| {
        let began = Instant::now();
        assert!(client.query(statement).is_ok(), "{statement}");
        began.elapsed()
    };
    (0..ROUNDS).map(round).min().unwrap()
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
    let totals = r#"[{"kind":"samples","unit":"count","value":1},{"kind":"cpu","unit":"nanoseconds","value":2}]"#;
    let sql = "WITH RECURSIVE n(i) AS (SELECT 0 UNION ALL SELECT i + 1 FROM n LIMIT ?1)
        INSERT INTO profiles (id, node, type, file, completed, bytes, started, duration, trigger, cluster, labels, samples, totals, top_function)
        SELECT unhex(printf('%032x', i)), 10001 + i % 10, CASE i / 10 % 3 WHEN 0 THEN 'cpu' WHEN 1 THEN 'heap' ELSE 'contention' END,
            printf('cpu-profile-%d-pprof.gz', i), 1763677534000000000 + i * 1000000000, 8000 + i % 1000, 1763677524000000000 + i * 1000000000,
            10000000000, 'schedule', 'default', printf('%szone=eu-%d%s', char(10), i % 4, char(10)), 812 + i % 100, ?2,
            printf('starrocks::pipeline::PipelineDriver::process_%d(starrocks::RuntimeState*, int)', i % 37) FROM n";
    connection.execute(sql, (rows.cast_signed(), totals)).unwrap();
    let sql =
        "INSERT INTO profile_details (seq, words, facts, strip) SELECT seq, lower(?1), ?1, zeroblob(60) FROM profiles";
    connection.execute(sql, [facts]).unwrap();
}
