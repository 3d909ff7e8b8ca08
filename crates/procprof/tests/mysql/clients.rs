//! The clients: each a process that takes a statement a line and prints canonical answers, or that begins sessions as
//! clients do by themselves. The table of clients in `docs/sql.md` is made from what the latter report.

use std::collections::BTreeMap;
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

/// The clients of the documents, by language, as the programs of [`SEVERAL`] name them.
const LISTED: &[(&str, &[&str])] = &[
    ("command line", &["mariadb"]),
    ("C", &["libmariadb", "libmysqlclient"]),
    ("Go", &["go-sql-driver/mysql"]),
    ("Java", &["MySQL Connector/J", "MariaDB Connector/J", "Hibernate ORM"]),
    ("Node", &["mysql", "mysql2", "mariadb", "Knex", "TypeORM", "Sequelize"]),
    ("ODBC", &["MariaDB Connector/ODBC", "unixODBC", "pyodbc"]),
    ("Perl", &["DBD::MariaDB", "DBD::mysql"]),
    ("PHP", &["mysqli", "PDO"]),
    ("Python", &["PyMySQL", "mysql-connector-python", "mysqlclient", "aiomysql", "asyncmy", "SQLAlchemy", "Django"]),
    ("Rust", &["mysql_async", "sqlx"]),
];

/// A program that begins sessions by several clients and prints a line for each that could: `ok SESSION` and, after
/// tabs, the clients of the session, each with its version.
struct Several {
    command: fn() -> Command,
    /// The language of its clients, and one more of those that they are built on.
    languages: &'static [&'static str],
    sessions: &'static [&'static str],
}

const SEVERAL: &[Several] = &[
    Several { command: several_of_mariadb, languages: &["command line"], sessions: &["mariadb"] },
    Several {
        command: || python("several.py"),
        languages: &["Python", "C"],
        sessions: &[
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
        languages: &["Node"],
        sessions: &["mysql", "mysql2", "mariadb", "Knex", "TypeORM", "Sequelize"],
    },
    Several { command: || script("php", "several.php"), languages: &["PHP"], sessions: &["mysqli", "PDO"] },
    Several { command: several_of_go, languages: &["Go"], sessions: &["go-sql-driver/mysql"] },
    Several {
        command: || Command::new(fetched("rust/several")),
        languages: &["Rust"],
        sessions: &["sqlx", "sqlx pool", "mysql_async"],
    },
    Several { command: odbc, languages: &["ODBC"], sessions: &["pyodbc", "isql"] },
    Several { command: perl, languages: &["Perl"], sessions: &["DBD::MariaDB", "DBD::mysql"] },
    Several { command: || hibernate("6.6.33.Final"), languages: &["Java"], sessions: &["Hibernate ORM"] },
    Several { command: || hibernate("7.4.15.Final"), languages: &["Java"], sessions: &["Hibernate ORM"] },
    Several {
        command: || driver("jdbc:mysql:", "mysql-connector-java-5.1.49"),
        languages: &["Java"],
        sessions: &["jdbc:mysql: mysql-connector-java-5.1.49"],
    },
    Several {
        command: || driver("jdbc:mysql:", "mysql-connector-j-8.4.0"),
        languages: &["Java"],
        sessions: &["jdbc:mysql: mysql-connector-j-8.4.0"],
    },
    Several {
        command: || driver("jdbc:mysql:", "mysql-connector-j-9.5.0"),
        languages: &["Java"],
        sessions: &["jdbc:mysql: mysql-connector-j-9.5.0"],
    },
    Several {
        command: || driver("jdbc:mariadb:", "mariadb-java-client-2.7.12"),
        languages: &["Java"],
        sessions: &["jdbc:mariadb: mariadb-java-client-2.7.12"],
    },
    Several {
        command: || driver("jdbc:mariadb:", "mariadb-java-client-3.5.6"),
        languages: &["Java"],
        sessions: &["jdbc:mariadb: mariadb-java-client-3.5.6"],
    },
];

fn script(interpreter: &str, name: &str) -> Command {
    let mut command = Command::new(interpreter);
    command.arg(source(name)).env("NODE_PATH", fetched("node/node_modules"));
    command
}

fn several_of_mariadb() -> Command {
    let mut command = Command::new("bash");
    command.arg(source("several.sh"));
    command
}

fn several_of_go() -> Command {
    let mut command = Command::new(fetched("go/client"));
    command.arg("several");
    command
}

/// ODBC with Debian's driver and `isql`.
fn odbc() -> Command {
    let libraries = fetched("debian/usr/lib/x86_64-linux-gnu");
    let mut command = python("odbc.py");
    command.env("SQL_ODBC", libraries.join("odbc/libmaodbc.so")).env("SQL_ISQL", fetched("debian/usr/bin/isql"));
    command.env("LD_LIBRARY_PATH", libraries);
    command
}

fn perl() -> Command {
    let mut command = script("perl", "several.pl");
    command.env("PERL5LIB", fetched("debian/usr/lib/x86_64-linux-gnu/perl5/5.36"));
    command
}

/// A version of Hibernate ORM with Connector/J.
fn hibernate(version: &str) -> Command {
    let jars = fetched(&format!("hibernate/{version}")).join("*");
    let path = format!("{}:{}", jars.display(), fetched("java/mysql-connector-j-9.5.0.jar").display());
    let classes = shared_folder().join(format!("hibernate-{version}"));
    let mut compiler = Command::new("javac");
    let output = compiler.args(["-proc:none", "-cp", &path, "-d"]).arg(&classes).arg(source("Hibernate.java")).output();
    let output = output.expect("this test needs javac");
    assert!(output.status.success(), "{}", text(&output));
    let mut command = Command::new("java");
    let path = format!("{path}:{}", classes.display());
    command.args(["-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC", "-cp", &path, "Hibernate"]);
    command
}

/// A driver of Java by the beginning of its URLs.
fn driver(url: &str, jar: &str) -> Command {
    let mut command = java(jar, "Several");
    command.args([url, jar]);
    command
}

/// Begins a session by each of [`SEVERAL`], all at once; the table of clients with the versions that they report.
///
/// # Errors
/// The sessions that failed, and clients that are in no session or not listed.
pub(crate) fn begin_several(login: &Login) -> Result<String, String> {
    let children: Vec<_> = SEVERAL
        .iter()
        .map(|several| {
            let mut command = (several.command)();
            command.env("SQL_HOST", "127.0.0.1").env("SQL_PORT", login.port.to_string());
            command.env("SQL_USER", &login.user).env("SQL_PASSWORD", &login.password);
            let child = command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn();
            (child.unwrap_or_else(|error| panic!("{command:?}: {error}")), several)
        })
        .collect();
    let mut wrong = String::new();
    let mut versions: BTreeMap<(&'static str, &'static str), Vec<String>> = BTreeMap::new();
    for (child, several) in children {
        let output = child.wait_with_output().expect("its output");
        let printed = String::from_utf8_lossy(&output.stdout);
        let mut missing = several.sessions.to_vec();
        for line in printed.lines().filter_map(|line| line.strip_prefix("ok ")) {
            let (session, clients) = line.split_once('\t').unwrap_or((line, ""));
            missing.retain(|name| *name != session);
            for client in clients.split('\t') {
                let (name, version) = client.rsplit_once(' ').unwrap_or((client, ""));
                match listed(several.languages, name).filter(|_| !version.is_empty()) {
                    Some(key) => {
                        let known = versions.entry(key).or_default();
                        if !known.iter().any(|known| known == version) {
                            known.push(version.to_owned());
                        }
                    }
                    None => wrong += &format!("{client:?} of {session} is not listed, or has no version\n"),
                }
            }
        }
        if !missing.is_empty() {
            wrong += &format!("{missing:?}:\n{}\n", text(&output));
        }
    }
    let mut table = String::from("| language | clients |\n|---|---|\n");
    for (language, names) in LISTED {
        let cell = |name: &&'static str| match versions.get_mut(&(*language, *name)) {
            Some(known) => {
                known.sort_by_key(|version| parts(version));
                format!("{name} {}", known.join(", "))
            }
            None => {
                wrong += &format!("{name} ({language}) is listed, and no session uses it\n");
                String::new()
            }
        };
        table += &format!("| {language} | {} |\n", names.iter().map(cell).collect::<Vec<_>>().join("; "));
    }
    if wrong.is_empty() { Ok(table) } else { Err(wrong) }
}

/// A client of one of these languages as it is listed.
fn listed(languages: &[&str], name: &str) -> Option<(&'static str, &'static str)> {
    let of_them = LISTED.iter().filter(|(language, _)| languages.contains(language));
    of_them.flat_map(|(language, names)| names.iter().map(|own| (*language, *own))).find(|(_, own)| *own == name)
}

/// The numbers of a version.
fn parts(version: &str) -> Vec<u64> {
    version.split('.').filter_map(|part| part.parse().ok()).collect()
}
