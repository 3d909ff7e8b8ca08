//! How long `SELECT` takes over a large catalog, beside MariaDB and DuckDB with the same rows.
//!
//! `cargo bench -p procprof-server --bench sql -- [rows] [holders=N[,N]] [part of statements]`. By default: all
//! statements over 100,000 profiles, which are written into the catalog behind the server's back, with facts as long as
//! those of real profiles; then who holds a function, over 1,000 and 10,000 profiles of 3,000 functions (`holders=` for
//! none). Printed are milliseconds of wall time a statement, the least of some rounds: of procprof and MariaDB by a
//! client of bare packets over one connection, of DuckDB in a Python ([`peers`]), whose results are fetched as Python's
//! values. All answers have as many rows.

#![allow(clippy::unwrap_used)]

mod holders;
mod peers;

use std::path::Path;
use std::time::{Duration, Instant};

use mysql_async::{Conn, OptsBuilder};
use procprof_server::{
    ChildProgram, Config, Environment, Rhythm, Server, ServerHandle, ServerOptions, SqlAddress, SqlLogin,
};
use rusqlite::Connection;

#[path = "../../../procprof/tests/mysql/raw.rs"]
#[allow(dead_code)]
mod raw;

use peers::{MariaDb, duckdb, write_texts};
use raw::Raw;

const ROUNDS: u32 = 30;

/// A statement, and how DuckDB has it: in the same words, in others, or not at all.
struct Statement(&'static str, DuckDbWords);

enum DuckDbWords {
    Same,
    Others(&'static str),
    Nothing,
}

use DuckDbWords::{Nothing, Others, Same};

const STATEMENTS: &[Statement] = &[
    Statement("SHOW BACKENDS", Nothing),
    Statement("SELECT 1", Same),
    Statement("SELECT COUNT(*) FROM profiles", Same),
    Statement("SELECT node, type, COUNT(*), SUM(bytes) FROM profiles GROUP BY node, type", Same),
    Statement("SELECT n.name, p.type, COUNT(*) FROM profiles p JOIN nodes n ON n.id = p.node GROUP BY 1, 2", Same),
    Statement("SELECT type, COUNT(*) FROM profiles WHERE completed >= '2025-11-20 22:30:00' GROUP BY type", Same),
    Statement(
        "SELECT type, COUNT(*) FROM profiles WHERE completed_ns >= 1763677534000000000 + 90000000000000 GROUP BY type",
        Same,
    ),
    Statement(
        "SELECT DATE_FORMAT(completed, '%H:%i') AS minute, COUNT(*) FROM profiles GROUP BY 1",
        Others("SELECT strftime(completed, '%H:%M') AS minute, COUNT(*) FROM profiles GROUP BY 1"),
    ),
    Statement("SELECT id, node, type, completed FROM profiles ORDER BY completed_ns DESC LIMIT 100", Same),
    Statement("SELECT id, node, type, completed FROM profiles ORDER BY completed DESC LIMIT 100", Same),
    Statement("SELECT * FROM profiles ORDER BY completed_ns DESC LIMIT 100", Same),
    Statement("SELECT * FROM profiles WHERE id = '00000000-0000-0000-0000-0000000086a0'", Same),
    Statement("SELECT * FROM profiles WHERE node = 10003 AND type = 'cpu' ORDER BY completed DESC LIMIT 10", Same),
    Statement("SELECT type, AVG(seconds), MAX(bytes) FROM profiles GROUP BY type", Same),
    Statement("SELECT COUNT(*) FROM profiles WHERE labels LIKE '%\"zone\":\"eu-1\"%'", Same),
    Statement("SELECT top_function, COUNT(*) FROM profiles GROUP BY 1", Same),
    Statement("SELECT top_function, COUNT(*) FROM profiles WHERE type = 'cpu' GROUP BY 1", Same),
    Statement("SELECT COUNT(*) FROM profiles WHERE top_function LIKE '%process_3%'", Same),
    Statement("SELECT type, SUM(samples) FROM profiles GROUP BY type", Same),
    Statement(
        "SELECT SUM(JSON_VALUE(totals, '$[1].value')) FROM profiles WHERE type = 'cpu'",
        Others("SELECT SUM(CAST(totals->>'$[1].value' AS DOUBLE)) FROM profiles WHERE type = 'cpu'"),
    ),
    Statement(
        "SELECT DISTINCT type, PERCENTILE_CONT(0.95) WITHIN GROUP (ORDER BY samples) OVER (PARTITION BY type) \
         FROM profiles",
        Others("SELECT type, QUANTILE_CONT(samples, 0.95) FROM profiles GROUP BY type"),
    ),
    Statement(
        "SELECT COUNT(*) FROM profiles WHERE JSON_CONTAINS(labels, '{\"zone\":\"eu-1\"}')",
        Others("SELECT COUNT(*) FROM profiles WHERE json_contains(labels, '{\"zone\":\"eu-1\"}')"),
    ),
    Statement("SELECT * FROM timeline('*', 'cpu', '2025-11-20', '2025-11-23', '1h', 'node')", Nothing),
    Statement("SELECT id, completed FROM profiles", Same),
    Statement("SELECT * FROM profiles", Same),
];

/// What a statement took.
struct Measured {
    ours: Duration,
    mariadb: Option<Duration>,
    duckdb: Option<Duration>,
}

impl Measured {
    fn heading() {
        println!("{:>10} {:>10} {:>10}", "procprof", "MariaDB", "DuckDB");
    }

    fn print(&self, statement: &str) {
        let millis =
            |time: Option<Duration>| time.map_or("-".to_owned(), |time| format!("{:.2}", time.as_secs_f64() * 1e3));
        let [ours, mariadb, duckdb] = [Some(self.ours), self.mariadb, self.duckdb].map(millis);
        println!("{ours:>10} {mariadb:>10} {duckdb:>10}  {statement}");
    }
}

fn main() {
    let words: Vec<String> = std::env::args().skip(1).filter(|word| !word.starts_with("--")).collect();
    let (mut rows, mut holders, mut part) = (100_000, vec![1000, 10_000], String::new());
    for word in &words {
        match (word.parse(), word.strip_prefix("holders=")) {
            (Ok(number), _) => rows = number,
            (_, Some(numbers)) => holders = numbers.split(',').filter_map(|number| number.parse().ok()).collect(),
            _ => part.clone_from(word),
        }
    }
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().unwrap();
    let statements: Vec<&Statement> = STATEMENTS.iter().filter(|statement| statement.0.contains(&part)).collect();
    Measured::heading();
    if !statements.is_empty() {
        select(&runtime, rows, &statements);
    }
    for profiles in holders {
        holders::measure(&runtime, profiles);
    }
}

/// Measures statements over a catalog of so many profiles.
fn select(runtime: &tokio::runtime::Runtime, rows: u64, statements: &[&Statement]) {
    let data = tempfile::tempdir().unwrap();
    let server = server_in(runtime, data.path());
    fill(&data.path().join("catalog.sqlite"), rows);
    let port = server.mysql().unwrap().port();
    let tables = ["profiles", "nodes"];
    let mut setup = Vec::new();
    for table in tables {
        let path = data.path().join(format!("{table}.tsv"));
        runtime.block_on(write_texts(port, table, &path));
        setup.push(format!(
            "CREATE TABLE {table} AS SELECT * FROM read_csv('{}', delim = '\t', header = true, quote = '\"', \
             escape = '\"', nullstr = '', sample_size = -1)",
            path.display()
        ));
    }
    let text = |statement: &&Statement| match statement.1 {
        Same => Some(statement.0.to_owned()),
        Others(text) => Some(text.to_owned()),
        Nothing => None,
    };
    let asked: Vec<String> = statements.iter().filter_map(text).collect();
    let mut answers = duckdb(&setup, &asked).map(Vec::into_iter);
    let peer = MariaDb::start().map(|mut peer| {
        runtime.block_on(peer.copy(port, &tables));
        peer
    });
    let mut theirs = peer.as_ref().map(|peer| {
        let mut client = Raw::connect(peer.port);
        client.query("USE procprof").unwrap();
        client
    });
    let mut client = Raw::connect(port);
    println!("{rows} profiles: ms, the least of all rounds");
    for statement in statements {
        let (ours, count) = least(&mut client, statement.0);
        let has_peer = !matches!(statement.1, Nothing);
        let mariadb = theirs.as_mut().filter(|_| has_peer).map(|client| {
            let (time, rows) = least(client, statement.0);
            assert_eq!(rows, count, "{}", statement.0);
            time
        });
        let duckdb = answers.as_mut().filter(|_| has_peer).and_then(Iterator::next).map(|answer| {
            assert_eq!(answer.rows, count, "{}", statement.0);
            answer.least
        });
        Measured { ours, mariadb, duckdb }.print(statement.0);
    }
    stop(runtime, server);
}

/// A server in a folder that does nothing by itself, with ten nodes. Retention would check the catalog, whose rows have
/// no files.
fn server_in(runtime: &tokio::runtime::Runtime, data: &Path) -> ServerHandle {
    let nothing = ChildProgram { program: "/nonexistent".into(), arguments: Vec::new() };
    let mut config = "proc_profile_cpu_enable = false\nproc_profile_mem_enable = false\narchive = \"\"\n\
                      proc_profile_file_retained_days = 36500\nretention_interval_seconds = 86400\n"
        .to_owned();
    for id in 10_001..10_011 {
        config += &format!(
            "[[node]]\nid = {id}\nname = \"be-{id}\"\nkind = \"starrocks-be\"\n\
             http = \"127.0.0.1:1\"\npid_lookup = \"off\"\n"
        );
    }
    let config = Config::parse(&config, "bench.toml").unwrap();
    let options = ServerOptions {
        config,
        data: data.to_owned(),
        http: "127.0.0.1:0".parse().unwrap(),
        http_explicit: true,
        mysql: Some(SqlAddress { address: "127.0.0.1:0".parse().unwrap(), explicit: true, login: SqlLogin::Everyone }),
        insecure: false,
        archiving: Rhythm::Hourly,
        buckets: Environment::default(),
        extra_nodes: Vec::new(),
        agent: procprof_agent::start(procprof_agent::Config::default()).unwrap(),
        symbolize_child: nothing.clone(),
        jeprof_child: nothing,
    };
    runtime.block_on(Server::start(options)).unwrap()
}

fn stop(runtime: &tokio::runtime::Runtime, server: ServerHandle) {
    runtime.block_on(server.stop(Duration::from_secs(5)));
}

async fn client_of(port: u16) -> Conn {
    let options = OptsBuilder::default().ip_or_hostname("127.0.0.1").tcp_port(port).user(Some("root"));
    Conn::new(options.db_name(Some("procprof")).prefer_socket(false)).await.unwrap()
}

/// Time of one statement and its whole answer, the least of all rounds, and the number of its rows.
fn least(client: &mut Raw, statement: &str) -> (Duration, usize) {
    let mut rows = 0;
    let mut round = |_| {
        let began = Instant::now();
        rows = client.query(statement).unwrap_or_else(|error| panic!("{statement}: {error:?}"));
        began.elapsed()
    };
    let least = (0..ROUNDS).map(&mut round).min().unwrap();
    (least, rows)
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
        INSERT INTO profiles (id, node, type, file, completed, bytes, started, duration, trigger, cluster, labels, samples, totals, top_function,
            total, instance, threads, functions, engine, lost)
        SELECT unhex(printf('%032x', i)), 10001 + i % 10, CASE i / 10 % 3 WHEN 0 THEN 'cpu' WHEN 1 THEN 'heap' ELSE 'contention' END,
            strftime('cpu-profile-%Y%m%d-%H%M%S-pprof.gz', 1763677534 + i, 'unixepoch'), 1763677534000000000 + i * 1000000000, 8000 + i % 1000, 1763677524000000000 + i * 1000000000,
            10000000000, 'schedule', 'default', printf('%szone=eu-%d%s', char(10), i % 4, char(10)), 812 + i % 100, ?2,
            printf('starrocks::pipeline::PipelineDriver::process_%d(starrocks::RuntimeState*, int)', i % 37),
            2, 0, 12, 0, 'gperftools', 0 FROM n";
    connection.execute(sql, (rows.cast_signed(), totals)).unwrap();
    let sql =
        "INSERT INTO profile_details (seq, words, facts, strip) SELECT seq, lower(?1), ?1, zeroblob(60) FROM profiles";
    connection.execute(sql, [facts]).unwrap();
}
