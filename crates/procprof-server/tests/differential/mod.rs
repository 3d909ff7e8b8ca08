//! `SELECT` held against a real MariaDB server with the same rows: each statement of `statements.sql` has the same
//! answer, or is listed in `refused.txt`, or in `different.txt` with both answers.
//!
//! The order of rows counts where a statement has one. What both refuse is the same.

use std::collections::BTreeMap;
use std::fs::File;
use std::os::fd::AsRawFd;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use mysql_async::prelude::Queryable;
use mysql_async::{Conn, OptsBuilder, Row, Value};
use procprof_profile::Nanos;
use procprof_profile::ProfileBuilder;
use procprof_profile::format::pprof::encode_gzip;
use reqwest::Method;

use crate::harness::{PATIENCE, TestServer, parsed};
use crate::mysql_select::start;

/// A private server that ends with the test.
struct MariaDb {
    child: Child,
    folder: tempfile::TempDir,
    data: File,
}

impl MariaDb {
    fn start() -> MariaDb {
        let folder = tempfile::tempdir().unwrap();
        let data = folder.path().join("data");
        std::fs::create_dir(&data).unwrap();
        let child = Command::new("/usr/sbin/mariadbd")
            .args(["--no-defaults", "--user=root", "--skip-grant-tables", "--skip-networking", "--skip-log-bin"])
            .args(["--skip-innodb", "--default-storage-engine=Aria", "--default-time-zone=+00:00", "--console"])
            .arg("--lower-case-table-names=1")
            .args(["--character-set-server=utf8mb4", "--collation-server=utf8mb4_general_ci"])
            // It has the system's time zone as a variable.
            .env("TZ", "UTC")
            // Both are in its data folder: the path of a socket has 107 bytes at most.
            .args(["--socket=socket", "--pid-file=pid"])
            .arg(format!("--datadir={}", data.display()))
            .stdout(Stdio::null())
            .stderr(File::create(folder.path().join("log")).unwrap())
            .spawn()
            .expect("mariadbd: install mariadb-server-core");
        MariaDb { child, data: File::open(data).unwrap(), folder }
    }

    async fn connect(&mut self) -> Conn {
        let socket = format!("/proc/self/fd/{}/socket", self.data.as_raw_fd());
        let start = Instant::now();
        loop {
            let options = OptsBuilder::default().socket(Some(socket.clone())).user(Some("root"));
            match Conn::new(options).await {
                Ok(client) => return client,
                Err(_) if self.child.try_wait().unwrap().is_none() && start.elapsed() < PATIENCE => {
                    tokio::time::sleep(Duration::from_millis(50)).await;
                }
                Err(error) => {
                    let log = std::fs::read_to_string(self.folder.path().join("log")).unwrap_or_default();
                    panic!("{error}: {log}");
                }
            }
        }
    }
}

impl Drop for MariaDb {
    fn drop(&mut self) {
        // It may have ended by itself.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// A profile of these functions, with a size and length of its own.
fn profile(number: i64, functions: [&str; 2], start: i64) -> Vec<u8> {
    let mut builder = ProfileBuilder::new(&[("samples", "count"), ("cpu", "nanoseconds")]);
    let root = builder.frame("main");
    for (share, name) in functions.iter().enumerate() {
        let frame = builder.frame(name);
        let value = 70 - 40 * share as i64 + number;
        builder.sample(&[frame, root], &[value, value * 10_000_000], &[]);
    }
    for extra in 0..number {
        let frame = builder.frame(&format!("extra_{number}_{extra}"));
        builder.sample(&[frame, root], &[1, 10_000_000], &[]);
    }
    builder.time(Nanos(start), Nanos(500_000_000 * (1 + number % 5)));
    encode_gzip(&builder.finish().unwrap()).unwrap()
}

/// A server with profiles of three nodes over some days.
async fn with_rows() -> TestServer {
    let node = |id: u64, name: &str| {
        format!(
            "[[node]]\nid = {id}\nname = \"{name}\"\nkind = \"pprof\"\nlabels = {{ team = \"T{id}\" }}\n\
             urls = {{ heap = \"http://127.0.0.1:1/heap\" }}\nschedule.heap = {{ on = false }}\n"
        )
    };
    let quiet = "proc_profile_cpu_enable = false\nproc_profile_mem_enable = false\n";
    let server =
        start(parsed(&[quiet, &node(10_002, "web-1"), &node(10_003, "Web-2"), &node(10_001, "db")].concat())).await;
    let names = ["hot_a", "HOT_a", "hot_b", "éclair", "Zeta::run"];
    for number in 0..30_i64 {
        let start = 1_763_500_000_123_456_789 + number * 7_777_777_777_777;
        let functions = [names[number as usize % names.len()], "cold"];
        let node = ["procprof", "web-1", "Web-2"][number as usize % 3];
        let kind = ["cpu", "heap", "cpu", "mutex"][number as usize % 4];
        let path = format!("/api/push?node={node}&type={kind}");
        let request = server.request(Method::POST, &path).body(profile(number, functions, start));
        let response = request.send().await.unwrap();
        assert_eq!(response.status().as_u16(), 201, "{}", response.text().await.unwrap());
    }
    server
}

/// Copies a table, as the server declares it.
async fn copy(ours: &mut Conn, theirs: &mut Conn, table: &str) {
    let (_, declared): (String, String) =
        ours.query_first(format!("SHOW CREATE TABLE {table}")).await.unwrap().unwrap();
    let declared = declared.replace("utf8mb4_0900_bin", "utf8mb4_nopad_bin");
    let (declared, _) = declared.rsplit_once(')').unwrap();
    theirs.query_drop(format!("{declared})")).await.unwrap();
    let rows: Vec<Row> = ours.query(format!("SELECT * FROM {table}")).await.unwrap();
    assert!(!rows.is_empty(), "{table} has no rows");
    for row in rows {
        let values: Vec<String> = row.unwrap().iter().map(|value| value.as_sql(true)).collect();
        theirs.query_drop(format!("INSERT INTO {table} VALUES ({})", values.join(", "))).await.unwrap();
    }
}

/// The rows of a statement as text, or the number of the error.
async fn answer(client: &mut Conn, statement: &str) -> Result<Vec<String>, u16> {
    let text = |value: Value| match value {
        Value::NULL => "NULL".to_owned(),
        Value::Bytes(bytes) => printable(&String::from_utf8_lossy(&bytes)),
        other => panic!("{statement}: {other:?} in a row of text"),
    };
    match client.query::<Row, _>(statement).await {
        Ok(rows) => {
            let mut rows: Vec<String> =
                rows.into_iter().map(|row| row.unwrap().into_iter().map(text).collect::<Vec<_>>().join("\t")).collect();
            if !statement.contains("ORDER BY") {
                rows.sort_unstable();
            }
            Ok(rows)
        }
        Err(mysql_async::Error::Server(error)) => Err(error.code),
        Err(error) => panic!("{statement}: {error}"),
    }
}

/// A text without control characters, which files and terminals would not show.
fn printable(text: &str) -> String {
    let shown = |character: char| match character {
        '\n' => "\\n".to_owned(),
        other if other.is_control() => other.escape_unicode().to_string(),
        other => other.to_string(),
    };
    text.chars().map(shown).collect()
}

/// How a statement's answer compares with the peer's.
fn outcome(statement: &str, ours: &Result<Vec<String>, u16>, theirs: &Result<Vec<String>, u16>) -> Option<String> {
    match (ours, theirs) {
        (Ok(ours), Ok(theirs)) if ours == theirs => None,
        (Err(_), Err(_)) => None,
        (Err(code), Ok(_)) => Some(format!("{code} {statement}")),
        // A stored file is as large as its random id lets gzip make it.
        (Ok(_), _) if statement.contains("bytes") => Some(statement.to_owned()),
        (Ok(ours), Ok(theirs)) => {
            let place = ours.iter().zip(theirs).find(|(own, other)| own != other);
            let [own, other] = match place {
                Some((own, other)) => [own.clone(), other.clone()],
                None => [ours, theirs].map(|rows| format!("{} rows", rows.len())),
            };
            Some(format!("{statement}\n  MariaDB:  {other}\n  procprof: {own}"))
        }
        (Ok(ours), Err(code)) => {
            Some(format!("{statement}\n  MariaDB:  error {code}\n  procprof: {}", ours.join(" | ")))
        }
    }
}

/// Compares with a golden file, or writes it with `UPDATE_EXPECT=1`.
fn golden(name: &str, text: &str) -> Result<(), String> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/differential").join(name);
    if std::env::var_os("UPDATE_EXPECT").is_some() {
        std::fs::write(&path, text).unwrap();
        return Ok(());
    }
    let expected = std::fs::read_to_string(&path).unwrap_or_default();
    let only = |of: &str, other: &str| {
        of.lines().filter(|line| !other.lines().any(|own| own == *line)).collect::<Vec<_>>().join("\n")
    };
    let (appeared, gone) = (only(text, &expected), only(&expected, text));
    let same = appeared.is_empty() && gone.is_empty();
    if same { Ok(()) } else { Err(format!("{name}: new:\n{appeared}\n{name}: gone:\n{gone}\n")) }
}

#[tokio::test]
async fn select_answers_as_mariadb_does() {
    let server = with_rows().await;
    let mut peer = MariaDb::start();
    let mut theirs = peer.connect().await;
    theirs.query_drop("CREATE DATABASE procprof").await.unwrap();
    theirs.query_drop("USE procprof").await.unwrap();
    theirs.query_drop("SET NAMES utf8mb4, sql_mode = 'ONLY_FULL_GROUP_BY'").await.unwrap();
    let port = server.handle.as_ref().unwrap().mysql().unwrap().port();
    let options = OptsBuilder::default().ip_or_hostname("127.0.0.1").tcp_port(port).user(Some("somebody"));
    let mut ours = Conn::new(options.db_name(Some("procprof"))).await.unwrap();
    for table in ["profiles", "nodes", "functions"] {
        copy(&mut ours, &mut theirs, table).await;
    }
    let (mut refused, mut different) = (String::new(), String::new());
    let mut counts: BTreeMap<&str, usize> = BTreeMap::new();
    for statement in include_str!("statements.sql").lines().filter(|line| !line.starts_with("-- ")) {
        let own = answer(&mut ours, statement).await;
        let other = answer(&mut theirs, statement).await;
        let kind = match outcome(statement, &own, &other) {
            None => "equal",
            Some(line) if own.is_err() => {
                refused += &format!("{line}\n");
                "refused"
            }
            Some(lines) => {
                different += &format!("{lines}\n");
                "different"
            }
        };
        *counts.entry(kind).or_default() += 1;
    }
    println!("{counts:?}");
    ours.disconnect().await.unwrap();
    theirs.disconnect().await.unwrap();
    server.stop().await;
    let wrong = [golden("refused.txt", &refused), golden("different.txt", &different)];
    let wrong: Vec<String> = wrong.into_iter().filter_map(Result::err).collect();
    assert!(wrong.is_empty(), "{}", wrong.concat());
}
