//! A server with an SQL listener: the demo, or one with nodes of a test.

use std::io::Write;
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::time::{Duration, Instant};

use rcgen::{BasicConstraints, CertificateParams, DnType, IsCa, Issuer, KeyPair};
use tempfile::TempDir;

use super::clients::{CLIENTS, Login};
use crate::exposure::add_user;
use crate::harness::{PATIENCE, Server, folder};

/// The users that may log in.
pub(crate) enum Authentication {
    /// The users olga (operator), nina (operator with a native verifier), eve (viewer), with TLS offered.
    Tls,
    /// Everyone.
    Open,
    /// Everyone, to these nodes instead of the demo's.
    Nodes(String),
    /// The operator whose password the server made.
    Generated,
}

/// The server and the facts that clients need.
pub(crate) struct Sql {
    server: Server,
    port: u16,
    folder: TempDir,
}

impl Sql {
    /// A demo with users and TLS for tests that change nothing there; it ends with the last of them.
    pub(crate) fn shared() -> Arc<Sql> {
        static RUNNING: Mutex<Weak<Sql>> = Mutex::new(Weak::new());
        let mut running = RUNNING.lock().unwrap_or_else(PoisonError::into_inner);
        running.upgrade().unwrap_or_else(|| {
            let sql = Arc::new(Sql::start(Authentication::Tls));
            *running = Arc::downgrade(&sql);
            sql
        })
    }

    pub(crate) fn start(authentication: Authentication) -> Sql {
        let folder = folder();
        let mut arguments = vec!["--mysql".to_owned(), "127.0.0.1:0".to_owned()];
        let is_demo = !matches!(authentication, Authentication::Nodes(_));
        let operator = match authentication {
            Authentication::Tls => Some(("olga", "acts ☂".to_owned())),
            Authentication::Open | Authentication::Nodes(_) => Some(("anyone", String::new())),
            Authentication::Generated => None,
        };
        if is_demo {
            arguments.extend(["--demo", "--idle"].map(str::to_owned));
        }
        let config = match authentication {
            Authentication::Open => {
                arguments.push("--mysql-no-auth".to_owned());
                // A user has a quarter of them.
                Some("mysql_connections_max = 1024\n".to_owned())
            }
            Authentication::Nodes(nodes) => {
                arguments.push("--mysql-no-auth".to_owned());
                Some(nodes)
            }
            Authentication::Generated => None,
            Authentication::Tls => {
                let users = folder.path().join("users");
                add_user(&users, "olga", "operator", "acts ☂", &[]);
                add_user(&users, "nina", "operator", "natively", &["--mysql-native"]);
                add_user(&users, "eve", "viewer", "looks", &[]);
                let [certificate, key] = certificates(&folder);
                Some(format!("users_file = {users:?}\ntls_cert = {certificate:?}\ntls_key = {key:?}\n"))
            }
        };
        if let Some(text) = config {
            let config = folder.path().join("procprof.toml");
            std::fs::write(&config, text).expect("a configuration");
            arguments.extend(["--config".to_owned(), config.display().to_string()]);
        }
        let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
        let server = Server::start(&folder.path().join("data"), &arguments);
        let sql = Sql { port: server.sql_port(), server, folder };
        if is_demo {
            let (user, password) = operator.unwrap_or_else(|| ("root", sql.generated_password()));
            sql.wait_for_heap(user, &password);
        }
        sql
    }

    /// The port for SQL clients.
    pub(crate) fn port(&self) -> u16 {
        self.port
    }

    /// The server's process id.
    pub(crate) fn pid(&self) -> u32 {
        self.server.pid()
    }

    /// Its data folder.
    pub(crate) fn data(&self) -> PathBuf {
        self.folder.path().join("data")
    }

    /// How a user comes in.
    pub(crate) fn login(&self, user: &str, password: &str, tls: bool, method: Option<&'static str>) -> Login {
        let store = |name: &str| self.folder.path().join(name);
        let tls = tls.then(|| (store("authority.pem"), store("authority.p12")));
        Login { port: self.port, user: user.to_owned(), password: password.to_owned(), tls, method, compress: false }
    }

    /// The password of the generated operator.
    pub(crate) fn generated_password(&self) -> String {
        std::fs::read_to_string(self.folder.path().join("data/mysql-password"))
            .expect("the password file")
            .trim()
            .to_owned()
    }

    /// Waits until the demo's backend answers and has sampled calls of its heap.
    fn wait_for_heap(&self, user: &str, password: &str) {
        let dump = "admin execute on 10001 'System.print(HeapProf.getInstance().dump_dot_snapshot())'".to_owned();
        let began = Instant::now();
        loop {
            let answers = CLIENTS[0].answers(&self.login(user, password, false, None), std::slice::from_ref(&dump));
            if answers[0].rows.iter().any(|row| row[0].contains(" -> ")) {
                return;
            }
            assert!(began.elapsed() < PATIENCE, "the demo's backend has sampled nothing: {answers:?}");
            std::thread::sleep(Duration::from_millis(200));
        }
    }
}

/// The server's certificate and key, signed by an authority of our own whose certificate lies beside them, for Java as
/// a key store.
fn certificates(folder: &TempDir) -> [PathBuf; 2] {
    let authority_key = KeyPair::generate().expect("a key");
    let mut params = CertificateParams::new(Vec::new()).expect("an authority");
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    // By the same name as the server's, OpenSSL takes the latter for self-signed.
    params.distinguished_name.push(DnType::CommonName, "authority of a test");
    let authority = params.self_signed(&authority_key).expect("its certificate");
    let issuer = Issuer::new(params, authority_key);
    let key = KeyPair::generate().expect("a key");
    let names = vec!["localhost".into(), "127.0.0.1".into()];
    let leaf = CertificateParams::new(names).expect("a leaf").signed_by(&key, &issuer).expect("its certificate");
    let write = |name: &str, text: String| {
        let path = folder.path().join(name);
        std::fs::write(&path, text).expect("a file of the certificate");
        path
    };
    let pem = write("authority.pem", authority.pem());
    let mut keytool = Command::new("keytool");
    keytool.args([
        "-importcert",
        "-noprompt",
        "-alias",
        "authority",
        "-storetype",
        "PKCS12",
        "-storepass",
        "changeit",
        "-file",
    ]);
    let output = keytool
        .arg(&pem)
        .arg("-keystore")
        .arg(folder.path().join("authority.p12"))
        .output()
        .expect("this test needs keytool");
    assert!(output.status.success(), "{}", crate::harness::text(&output));
    [write("server.pem", leaf.pem()), write("server.key", key.serialize_pem())]
}

/// Whether `dot` draws it.
pub(crate) fn graphviz_accepts(dot: &str) -> bool {
    let mut child = Command::new("dot")
        .arg("-Tsvg")
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .spawn()
        .expect("this test needs dot of graphviz");
    child.stdin.take().expect("its input is piped").write_all(dot.as_bytes()).expect("it reads");
    child.wait().expect("it ends").success()
}
