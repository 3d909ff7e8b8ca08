//! A MariaDB server of a test: its process, its data, its address, and a client of it.

use std::net::{SocketAddr, TcpListener};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::LazyLock;
use std::time::{Duration, Instant};

use mysql_async::prelude::Queryable;
use mysql_async::{Conn, OptsBuilder, Row, Value};
use tempfile::TempDir;
use tokio::runtime::Runtime;

use crate::harness::{PATIENCE, copy_folder, folder, shared_folder, text};

/// The password of the user `loader`, who has all privileges.
pub(super) const PASSWORD: &str = "it's a \"secret\"";

/// A private server; killed when dropped.
pub(super) struct MariaDb {
    child: Child,
    folder: TempDir,
    port: u16,
}

/// A client of a server, as `root`.
pub(super) struct Client {
    runtime: Runtime,
    conn: Conn,
}

impl MariaDb {
    /// Starts a server with an empty database `profiles`.
    pub(super) fn start() -> MariaDb {
        MariaDb::start_with(&[])
    }

    /// The same with more options.
    pub(super) fn start_with(options: &[String]) -> MariaDb {
        // The path of a socket has at most 107 bytes.
        let folder = tempfile::tempdir_in("/tmp").unwrap();
        // At its start a server removes the temporary tables of others from a folder that they share.
        std::fs::create_dir(folder.path().join("tmp")).unwrap();
        copy_folder(installed(), &folder.path().join("data"));
        let (port, child) = Self::spawn(folder.path(), options);
        let mut server = MariaDb { child, folder, port };
        let mut client = loop {
            match server.connect("") {
                Ok(client) => break client,
                // It cannot choose a port itself, and another process may have taken this one.
                Err(log) if log.contains("Address already in use") => {
                    (server.port, server.child) = Self::spawn(server.folder.path(), options);
                }
                Err(log) => panic!("{log}"),
            }
        };
        client.run("CREATE DATABASE profiles");
        let quoted = PASSWORD.replace('\'', "''");
        client.run(&format!("CREATE USER loader@'%' IDENTIFIED BY '{quoted}'"));
        client.run("GRANT ALL ON *.* TO loader@'%'");
        server
    }

    /// Starts a server on a port that was free a moment ago.
    fn spawn(folder: &Path, options: &[String]) -> (u16, Child) {
        let path = |name: &str| folder.join(name).display().to_string();
        let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
        let child = Command::new("/usr/sbin/mariadbd")
            .args(["--no-defaults", "--user=root", "--skip-log-bin", "--skip-name-resolve", "--console"])
            .args(["--bind-address=127.0.0.1", "--innodb-flush-log-at-trx-commit=0", "--innodb-log-file-size=16M"])
            .args(["--innodb-buffer-pool-size=64M", "--default-time-zone=+05:00", "--sql-mode=NO_BACKSLASH_ESCAPES"])
            .args(["--character-set-server=latin1", "--collation-server=latin1_swedish_ci"])
            .args([
                format!("--datadir={}", path("data")),
                format!("--tmpdir={}", path("tmp")),
                format!("--socket={}", path("socket")),
                format!("--pid-file={}", path("pid")),
                format!("--port={port}"),
            ])
            .args(options)
            .stdout(Stdio::null())
            .stderr(std::fs::File::create(path("log")).unwrap())
            .spawn()
            .expect("mariadbd: install mariadb-server-core");
        (port, child)
    }

    pub(super) fn address(&self) -> SocketAddr {
        SocketAddr::from(([127, 0, 0, 1], self.port))
    }

    /// A client of a database, once the server is there.
    pub(super) fn client(&mut self, database: &str) -> Client {
        self.connect(database).unwrap_or_else(|log| panic!("{log}"))
    }

    /// The same; the server's log if it ends instead.
    fn connect(&mut self, database: &str) -> Result<Client, String> {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        let socket: PathBuf = self.folder.path().join("socket");
        let database = (!database.is_empty()).then(|| database.to_owned());
        let begun = Instant::now();
        loop {
            let options = OptsBuilder::default()
                .socket(Some(socket.display().to_string()))
                .user(Some("root"))
                .db_name(database.clone());
            match runtime.block_on(Conn::new(options)) {
                Ok(conn) => {
                    let mut client = Client { runtime, conn };
                    client.run("SET NAMES utf8mb4, time_zone = '+00:00'");
                    return Ok(client);
                }
                Err(_) if self.child.try_wait().unwrap().is_none() && begun.elapsed() < PATIENCE => {
                    std::thread::sleep(Duration::from_millis(50));
                }
                Err(error) => {
                    let log = std::fs::read_to_string(self.folder.path().join("log")).unwrap_or_default();
                    return Err(format!("{error}: {log}"));
                }
            }
        }
    }
}

/// The data folder of a new server, from which others are copied.
fn installed() -> &'static Path {
    static DATA: LazyLock<PathBuf> = LazyLock::new(|| {
        let (data, temporary) = (shared_folder().join("mariadb"), folder());
        let installed = Command::new("mariadb-install-db")
            .args(["--no-defaults", "--user=root", "--auth-root-authentication-method=normal", "--skip-test-db"])
            .arg("--innodb-log-file-size=16M")
            .args([format!("--datadir={}", data.display()), format!("--tmpdir={}", temporary.path().display())])
            .output()
            .expect("mariadb-install-db: install mariadb-server-core");
        assert!(installed.status.success(), "{}", text(&installed));
        data
    });
    &DATA
}

impl Drop for MariaDb {
    fn drop(&mut self) {
        // It may have ended by itself.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Client {
    pub(super) fn run(&mut self, statement: &str) {
        let done = self.runtime.block_on(self.conn.query_drop(statement));
        done.unwrap_or_else(|error| panic!("{statement}: {error}"));
    }

    /// The rows of a statement as texts.
    pub(super) fn rows(&mut self, statement: &str) -> Vec<Vec<String>> {
        let rows: Result<Vec<Row>, _> = self.runtime.block_on(self.conn.query(statement));
        let rows = rows.unwrap_or_else(|error| panic!("{statement}: {error}"));
        let cell = |value: Value| match value {
            Value::NULL => "NULL".to_owned(),
            Value::Bytes(bytes) => String::from_utf8(bytes).unwrap(),
            other => panic!("{statement}: {other:?} in a row of text"),
        };
        rows.into_iter().map(|row| row.unwrap().into_iter().map(cell).collect()).collect()
    }
}
