//! The clients: each a process that takes a statement a line and prints canonical answers.

use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::sync::LazyLock;

use crate::harness::{shared_folder, text};

/// How a client comes in.
pub(crate) struct Login {
    pub(crate) port: u16,
    pub(crate) user: String,
    pub(crate) password: String,
    /// The authority's certificate and the same as a Java key store; none without TLS.
    pub(crate) tls: Option<(PathBuf, PathBuf)>,
    /// The method to begin with, in the client's own word.
    pub(crate) method: Option<&'static str>,
    /// Whether to compress, where the client can.
    pub(crate) compress: bool,
}

/// An answer to a statement.
#[derive(Debug)]
pub(crate) struct Answer {
    pub(crate) names: Vec<String>,
    pub(crate) rows: Vec<Vec<String>>,
    pub(crate) code: Option<u16>,
}

/// A client program.
pub(crate) struct Client {
    pub(crate) name: &'static str,
    command: fn(&Login) -> Command,
    /// Its word for `mysql_native_password` where it lets one choose.
    pub(crate) method: Option<&'static str>,
}

/// All that are tested.
pub(crate) const CLIENTS: &[Client] = &[
    Client { name: "mariadb", command: mariadb, method: Some("mysql_native_password") },
    Client { name: "PyMySQL", command: |_| python("pymysql_client.py"), method: None },
    Client {
        name: "mysql-connector-python",
        command: |_| python("connector_client.py"),
        method: Some("mysql_native_password"),
    },
    Client { name: "mysql2", command: |_| mysql2(), method: None },
    Client { name: "Go driver", command: |_| Command::new(fetched("go/client")), method: None },
    Client {
        name: "Connector/J",
        command: |_| connector_j(),
        method: Some("com.mysql.cj.protocol.a.authentication.MysqlNativePasswordPlugin"),
    },
];

fn source(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/mysql/clients").join(name)
}

fn fetched(path: &str) -> PathBuf {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../target/mysql-clients").join(path);
    assert!(path.exists(), "this test needs {}: cargo xtask test fetches it", path.display());
    path
}

/// The mariadb client has no line mode of ours: a statement a time, read from its batch output.
fn mariadb(login: &Login) -> Command {
    let mut command = Command::new("bash");
    command.arg(source("mariadb_client.sh"));
    let tls = match &login.tls {
        Some((authority, _)) => format!("--ssl --ssl-ca={} --ssl-verify-server-cert", authority.display()),
        None => "--skip-ssl".to_owned(),
    };
    command.env("SQL_TLS", tls);
    command
}

fn python(name: &str) -> Command {
    let mut command = Command::new(fetched("python/bin/python"));
    command.arg("-B").arg(source(name));
    command
}

fn mysql2() -> Command {
    let mut command = Command::new("node");
    command.arg(source("mysql2_client.js")).env("NODE_PATH", fetched("node/node_modules"));
    command
}

fn connector_j() -> Command {
    java("mysql-connector-j-9.5.0", "Client")
}

/// Runs a class with a driver.
fn java(jar: &str, class: &str) -> Command {
    static CLASSES: LazyLock<PathBuf> = LazyLock::new(|| {
        let classes = shared_folder().join("classes");
        let mut compiler = Command::new("javac");
        let output = compiler.arg("-d").arg(&classes).args(["Client.java", "Several.java"].map(source)).output();
        let output = output.expect("this test needs javac");
        assert!(output.status.success(), "{}", text(&output));
        classes
    });
    let path = format!("{}:{}", fetched(&format!("java/{jar}.jar")).display(), CLASSES.display());
    let mut command = Command::new("java");
    // They end before a better compiler would have been of use.
    command.args(["-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC", "-cp", &path, class]);
    command
}

impl Client {
    fn run(&self, login: &Login, statements: &[String]) -> Output {
        let mut command = (self.command)(login);
        command.env("SQL_HOST", "127.0.0.1").env("SQL_PORT", login.port.to_string());
        command
            .env("SQL_USER", &login.user)
            .env("SQL_PASSWORD", &login.password)
            .env("SQL_AUTH", login.method.unwrap_or_default());
        command.env("SQL_COMPRESS", if login.compress { "1" } else { "" });
        if let Some((authority, store)) = &login.tls {
            command.env("SQL_CA", authority).env("SQL_KEY_STORE", store);
        }
        let child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn();
        let mut child = child.unwrap_or_else(|error| panic!("{}: {error}", self.name));
        let mut input = child.stdin.take().expect("its input is piped");
        // One that cannot log in ends without reading.
        let _ = input.write_all((statements.join("\n") + "\n").as_bytes());
        drop(input);
        child.wait_with_output().expect("its output")
    }

    /// Its answers to these statements, parameters after tabs.
    pub(crate) fn answers(&self, login: &Login, statements: &[String]) -> Vec<Answer> {
        let output = self.run(login, statements);
        assert!(
            output.status.success(),
            "{} as {}, TLS {}: {}",
            self.name,
            login.user,
            login.tls.is_some(),
            text(&output)
        );
        let mut answers: Vec<Answer> = Vec::new();
        let cells = |line: &str| line.split('\t').map(str::to_owned).collect::<Vec<_>>();
        for line in String::from_utf8_lossy(&output.stdout).lines() {
            let mut answer = Answer { names: Vec::new(), rows: Vec::new(), code: None };
            if let Some(names) = line.strip_prefix("> ") {
                answer.names = cells(names);
            } else if let Some(code) = line.strip_prefix("! ") {
                answer.code = Some(code.parse().unwrap_or_else(|_| panic!("{}: {line}", self.name)));
            } else if line != "ok" {
                answers.last_mut().unwrap_or_else(|| panic!("{}: {line}", self.name)).rows.push(cells(line));
                continue;
            }
            answers.push(answer);
        }
        answers
    }

    /// Its error message when the login fails.
    pub(crate) fn refused(&self, login: &Login) -> String {
        let output = self.run(login, &["SELECT 1".to_owned()]);
        assert!(!output.status.success(), "{} came in: {}", self.name, text(&output));
        text(&output)
    }
}

/// A program that begins sessions by several clients and prints a line `ok NAME` for each that could.
struct Several {
    command: fn() -> Command,
    names: &'static [&'static str],
}

const SEVERAL: &[Several] = &[
    Several {
        command: || python("several.py"),
        names: &[
            "mysql-connector-python",
            "mysql-connector-python, compressed",
            "mysql-connector-python in C",
            "PyMySQL",
            "mysqlclient",
            "aiomysql",
            "asyncmy",
            "SQLAlchemy with PyMySQL",
            "SQLAlchemy with mysql-connector-python",
            "SQLAlchemy with mysqlclient",
            "Django",
        ],
    },
    Several {
        command: || script("node", "several.js"),
        names: &["mysql", "mysql2", "mariadb", "knex", "typeorm", "sequelize"],
    },
    Several { command: || script("php", "several.php"), names: &["mysqli", "PDO"] },
    Several { command: || Command::new(fetched("rust/several")), names: &["sqlx", "sqlx pool"] },
    Several {
        command: || driver("jdbc:mysql:", "mysql-connector-java-5.1.49"),
        names: &["jdbc:mysql: mysql-connector-java-5.1.49"],
    },
    Several {
        command: || driver("jdbc:mysql:", "mysql-connector-j-8.4.0"),
        names: &["jdbc:mysql: mysql-connector-j-8.4.0"],
    },
    Several {
        command: || driver("jdbc:mysql:", "mysql-connector-j-9.5.0"),
        names: &["jdbc:mysql: mysql-connector-j-9.5.0"],
    },
    Several {
        command: || driver("jdbc:mariadb:", "mariadb-java-client-2.7.12"),
        names: &["jdbc:mariadb: mariadb-java-client-2.7.12"],
    },
    Several {
        command: || driver("jdbc:mariadb:", "mariadb-java-client-3.5.6"),
        names: &["jdbc:mariadb: mariadb-java-client-3.5.6"],
    },
];

fn script(interpreter: &str, name: &str) -> Command {
    let mut command = Command::new(interpreter);
    command.arg(source(name)).env("NODE_PATH", fetched("node/node_modules"));
    command
}

/// A driver of Java by the beginning of its URLs.
fn driver(url: &str, jar: &str) -> Command {
    let mut command = java(jar, "Several");
    command.args([url, jar]);
    command
}

/// Begins a session by each of [`SEVERAL`], all at once; what went wrong.
pub(crate) fn begin_several(login: &Login) -> String {
    let children: Vec<_> = SEVERAL
        .iter()
        .map(|Several { command, names }| {
            let mut command = command();
            command.env("SQL_HOST", "127.0.0.1").env("SQL_PORT", login.port.to_string());
            command.env("SQL_USER", &login.user).env("SQL_PASSWORD", &login.password);
            let child = command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn();
            (child.unwrap_or_else(|error| panic!("{command:?}: {error}")), names)
        })
        .collect();
    let mut wrong = String::new();
    for (child, names) in children {
        let output = child.wait_with_output().expect("its output");
        let printed = String::from_utf8_lossy(&output.stdout);
        let missing: Vec<&&str> =
            names.iter().filter(|name| !printed.lines().any(|line| line == format!("ok {name}"))).collect();
        if !missing.is_empty() {
            wrong += &format!("{missing:?}:\n{}\n", text(&output));
        }
    }
    wrong
}
