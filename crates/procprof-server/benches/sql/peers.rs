//! The peers: a private MariaDB, and DuckDB in a Python. One that is not installed is named and left out.

use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use mysql_async::prelude::Queryable;
use mysql_async::{Conn, OptsBuilder, Row};

use super::{ROUNDS, client_of};

/// Rows that are copied at a time.
const COPIED: usize = 500;
/// Between two attempts to reach MariaDB.
const AGAIN: Duration = Duration::from_millis(50);

/// A private MariaDB on a port of this machine, which ends with the value.
pub(crate) struct MariaDb {
    child: Child,
    folder: tempfile::TempDir,
    pub(crate) port: u16,
}

impl MariaDb {
    /// `None` without the program.
    pub(crate) fn start() -> Option<MariaDb> {
        let folder = tempfile::tempdir().unwrap();
        let path = |name: &str| folder.path().join(name).display().to_string();
        std::fs::create_dir(path("data")).unwrap();
        let port = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
        let child = Command::new("/usr/sbin/mariadbd")
            .args(["--no-defaults", "--user=root", "--skip-grant-tables", "--bind-address=127.0.0.1"])
            .args(["--skip-log-bin", "--skip-innodb", "--default-storage-engine=Aria", "--console"])
            .args(["--default-time-zone=+00:00", "--lower-case-table-names=1", "--max-allowed-packet=256M"])
            .args(["--character-set-server=utf8mb4", "--collation-server=utf8mb4_general_ci"])
            .args([format!("--port={port}"), format!("--datadir={}", path("data"))])
            .args([format!("--socket={}", path("socket")), format!("--pid-file={}", path("pid"))])
            .stdout(Stdio::null())
            .stderr(std::fs::File::create(path("log")).unwrap())
            .spawn();
        match child {
            Ok(child) => Some(MariaDb { child, folder, port }),
            Err(error) => {
                println!("MariaDB is left out: /usr/sbin/mariadbd: {error} (mariadb-server-core)");
                None
            }
        }
    }

    async fn connect(&mut self) -> Conn {
        loop {
            match connection(self.port).await {
                Ok(client) => return client,
                Err(_) if self.child.try_wait().unwrap().is_none() => tokio::time::sleep(AGAIN).await,
                Err(error) => {
                    let log = std::fs::read_to_string(self.folder.path().join("log")).unwrap_or_default();
                    panic!("{error}: {log}");
                }
            }
        }
    }

    /// Copies tables of a procprof on a port, with indexes by id, by node and type, and by time, as its catalog has.
    pub(crate) async fn copy(&mut self, from: u16, tables: &[&str]) {
        let mut theirs = self.connect().await;
        theirs.query_drop("CREATE DATABASE procprof").await.unwrap();
        theirs.query_drop("USE procprof").await.unwrap();
        let mut ours = client_of(from).await;
        for table in tables {
            let (_, declared): (String, String) =
                ours.query_first(format!("SHOW CREATE TABLE {table}")).await.unwrap().unwrap();
            let declared = declared.replace("utf8mb4_0900_bin", "utf8mb4_nopad_bin");
            let (declared, _) = declared.rsplit_once(')').unwrap();
            theirs.query_drop(format!("{declared})")).await.unwrap();
            let rows: Vec<Row> = ours.query(format!("SELECT * FROM {table}")).await.unwrap();
            let tuple = |row: Row| -> String {
                let values: Vec<String> = row.unwrap().iter().map(|value| value.as_sql(true)).collect();
                format!("({})", values.join(", "))
            };
            let tuples: Vec<String> = rows.into_iter().map(tuple).collect();
            for tuples in tuples.chunks(COPIED) {
                theirs.query_drop(format!("INSERT INTO {table} VALUES {}", tuples.join(", "))).await.unwrap();
            }
        }
        for index in ["(id)", "(node, type, completed)", "(completed)", "(completed_ns)"] {
            theirs.query_drop(format!("ALTER TABLE profiles ADD INDEX {index}")).await.unwrap();
        }
        theirs.query_drop("ANALYZE TABLE profiles").await.unwrap();
        theirs.disconnect().await.unwrap();
        ours.disconnect().await.unwrap();
    }
}

impl Drop for MariaDb {
    fn drop(&mut self) {
        // It may have ended by itself.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

async fn connection(port: u16) -> mysql_async::Result<Conn> {
    let options = OptsBuilder::default().ip_or_hostname("127.0.0.1").tcp_port(port).user(Some("root"));
    Conn::new(options.prefer_socket(false)).await
}

/// Rows of a table of procprof as a file of tab-separated texts with a header, for DuckDB.
pub(crate) async fn write_texts(port: u16, table: &str, path: &Path) {
    let mut ours = client_of(port).await;
    let mut file = std::io::BufWriter::new(std::fs::File::create(path).unwrap());
    let rows: Vec<Row> = ours.query(format!("SELECT * FROM {table}")).await.unwrap();
    let quoted = |text: &str| format!("\"{}\"", text.replace('"', "\"\""));
    for (at, row) in rows.into_iter().enumerate() {
        if at == 0 {
            let names: Vec<String> = row.columns_ref().iter().map(|column| quoted(&column.name_str())).collect();
            writeln!(file, "{}", names.join("\t")).unwrap();
        }
        let text = |value: mysql_async::Value| match value {
            mysql_async::Value::NULL => String::new(),
            mysql_async::Value::Bytes(bytes) => quoted(&String::from_utf8(bytes).unwrap()),
            other => panic!("{other:?} in a row of text"),
        };
        let values: Vec<String> = row.unwrap().into_iter().map(text).collect();
        writeln!(file, "{}", values.join("\t")).unwrap();
    }
    file.flush().unwrap();
    ours.disconnect().await.unwrap();
}

/// Runs statements in DuckDB: the number of rows, the last value of the first, and the least time of all rounds.
const PYTHON: &str = r#"
import json, sys, time
import duckdb
asked = json.load(sys.stdin)
connection = duckdb.connect()
connection.execute("SET enable_progress_bar = false")
for statement in asked["setup"]:
    connection.execute(statement)
for statement in asked["statements"]:
    least = None
    for _ in range(asked["rounds"]):
        began = time.perf_counter()
        rows = connection.execute(statement).fetchall()
        took = time.perf_counter() - began
        least = took if least is None else min(least, took)
    print(json.dumps([len(rows), str(rows[0][-1]) if rows else "", least]))
"#;

/// The answer of DuckDB to a statement.
pub(crate) struct DuckDbAnswer {
    pub(crate) rows: usize,
    /// The last value of the first row.
    pub(crate) last: String,
    pub(crate) least: Duration,
}

/// The answers of DuckDB to statements after others that prepare its tables; `None` without DuckDB.
pub(crate) fn duckdb(setup: &[String], statements: &[String]) -> Option<Vec<DuckDbAnswer>> {
    let fetched = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../target/engines/python/bin/python");
    let python = std::env::var_os("DUCKDB_PYTHON").map_or(fetched, PathBuf::from);
    let has_duckdb = Command::new(&python).args(["-c", "import duckdb"]).stderr(Stdio::null()).status();
    if !has_duckdb.is_ok_and(|status| status.success()) {
        println!("DuckDB is left out: no module duckdb for {} (DUCKDB_PYTHON)", python.display());
        return None;
    }
    let mut child =
        Command::new(&python).args(["-c", PYTHON]).stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
    let asked = serde_json::json!({ "setup": setup, "statements": statements, "rounds": ROUNDS });
    child.stdin.take().unwrap().write_all(asked.to_string().as_bytes()).unwrap();
    let output = child.wait_with_output().unwrap();
    assert!(output.status.success(), "DuckDB refuses a statement");
    let answers = String::from_utf8(output.stdout).unwrap();
    let answer = |line: &str| {
        let (rows, last, seconds): (usize, String, f64) = serde_json::from_str(line).unwrap();
        DuckDbAnswer { rows, last, least: Duration::from_secs_f64(seconds) }
    };
    Some(answers.lines().map(answer).collect())
}
