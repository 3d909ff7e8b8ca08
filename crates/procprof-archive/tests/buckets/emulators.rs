//! Servers of buckets on this machine, each with a bucket named `bucket`, until they are dropped.

use std::io::{Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU8, Ordering};
use std::time::{Duration, Instant};

use base64::Engine;
use base64::prelude::BASE64_STANDARD as BASE64;
use procprof_archive::Environment;
use sha2::{Digest, Sha256};
use tempfile::TempDir;

use super::failing::{Reply, Request, passed, server};

/// The secrets of all tests; no error, log or page has them.
pub(crate) const SECRET: &str = "hunter2SecretKey";
pub(crate) const TOKEN: &str = "hunter2SessionToken";
/// The account of Azurite, and its key, which its documentation names.
const ACCOUNT: &str = "devstoreaccount1";
pub(crate) const ACCOUNT_KEY: &str =
    "Eby8vdM02xNOcqFlqUwJPLlmEtlCDXJ1OUzFT50uSRZ6IFsuFq2UVErCz4I6tq/K1SZFPTOtr/KBHBeksoGMGw==";

const PATIENCE: Duration = Duration::from_secs(180);

/// A server that is running.
pub(crate) struct Emulator {
    child: Child,
    folder: TempDir,
    pub(crate) address: SocketAddr,
}

impl Drop for Emulator {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn program(name: &str) -> PathBuf {
    let path = PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/../../target/engines")).join(name);
    assert!(path.exists(), "this test needs {}, which `cargo xtask test` installs", path.display());
    path
}

/// An address of this host that no other server of any test has, so that nobody takes its ports, not even while the
/// server is away.
fn own_address() -> SocketAddr {
    static NUMBER: AtomicU8 = AtomicU8::new(0);
    let [.., high, low] = std::process::id().to_be_bytes();
    let number = 1 + NUMBER.fetch_add(1, Ordering::Relaxed) % 250;
    TcpListener::bind((Ipv4Addr::new(127, number, high, low), 0)).unwrap().local_addr().unwrap()
}

impl Emulator {
    /// Starts a server, with another address should it end.
    fn start(command: impl Fn(&std::path::Path, SocketAddr) -> Command) -> Emulator {
        let folder = tempfile::tempdir().unwrap();
        std::fs::create_dir(folder.path().join("bucket")).unwrap();
        let start = Instant::now();
        loop {
            let address = own_address();
            let child = spawn(&mut command(folder.path(), address));
            if let Some(child) = answering(child, address, start) {
                return Emulator { child, folder, address };
            }
        }
    }

    /// S3: versitygw, whose objects are files.
    pub(crate) fn s3() -> Emulator {
        Emulator::start(versitygw)
    }

    /// The same, which is not there for a while; what it has stays.
    pub(crate) fn restarted(mut self, away: impl FnOnce()) -> Emulator {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
        away();
        let start = Instant::now();
        loop {
            let child = spawn(&mut versitygw(self.folder.path(), self.address));
            if let Some(child) = answering(child, self.address, start) {
                self.child = child;
                return self;
            }
            std::thread::sleep(Duration::from_millis(50));
        }
    }

    /// Google Cloud Storage: fake-gcs-server.
    pub(crate) fn google() -> Emulator {
        let emulator = Emulator::start(|folder, address| {
            let mut command = Command::new(program("fake-gcs-server/fake-gcs-server"));
            command.args(["-scheme", "http", "-backend", "filesystem", "-host", &address.ip().to_string()]);
            command.args(["-port", &address.port().to_string(), "-public-host", &address.to_string()]);
            command.arg("-filesystem-root").arg(folder);
            command
        });
        let made = emulator.send("POST", "/storage/v1/b", "Content-Type: application/json\r\n", r#"{"name":"bucket"}"#);
        assert!(made.starts_with("HTTP/1.1 2") || made.starts_with("HTTP/1.1 409"), "{made}");
        emulator
    }

    /// Azure Blob Storage: Azurite.
    pub(crate) fn azure() -> Emulator {
        let emulator = Emulator::start(|folder, address| {
            let mut command = Command::new("node");
            command.arg(program("azurite/node/node_modules/azurite/dist/src/blob/main.js"));
            command.args(["--silent", "--skipApiVersionCheck", "--disableTelemetry"]);
            command.args(["--blobHost", &address.ip().to_string()]);
            command.args(["--blobPort", &address.port().to_string(), "--location"]).arg(folder);
            command
        });
        let date = jiff::Timestamp::now().strftime("%a, %d %b %Y %H:%M:%S GMT").to_string();
        let ms = format!("x-ms-date:{date}\nx-ms-version:2023-11-03");
        let resource = format!("/{ACCOUNT}/{ACCOUNT}/bucket\nrestype:container");
        let signature = hmac(
            &BASE64.decode(ACCOUNT_KEY).unwrap(),
            format!("PUT\n\n\n\n\n\n\n\n\n\n\n\n{ms}\n{resource}").as_bytes(),
        );
        let headers = format!(
            "x-ms-date: {date}\r\nx-ms-version: 2023-11-03\r\nAuthorization: SharedKey {ACCOUNT}:{}\r\n",
            BASE64.encode(signature)
        );
        let made = emulator.send("PUT", &format!("/{ACCOUNT}/bucket?restype=container"), &headers, "");
        assert!(made.starts_with("HTTP/1.1 201"), "{made}");
        emulator
    }

    /// Sends a request; the whole answer.
    fn send(&self, method: &str, path: &str, headers: &str, body: &str) -> String {
        let mut stream = TcpStream::connect(self.address).unwrap();
        let length = body.len();
        let head = format!("{method} {path} HTTP/1.1\r\nHost: {}\r\nConnection: close\r\n", self.address);
        write!(stream, "{head}Content-Length: {length}\r\n{headers}\r\n{body}").unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        answer
    }
}

fn versitygw(folder: &std::path::Path, address: SocketAddr) -> Command {
    let mut command = Command::new(program("versitygw/versitygw"));
    command.args(["--port", &address.to_string(), "posix"]).arg(folder);
    command.env("ROOT_ACCESS_KEY", "tester").env("ROOT_SECRET_KEY", SECRET);
    command
}

fn spawn(command: &mut Command) -> Child {
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap()
}

/// The server once it answers; `None` if it has ended.
fn answering(mut child: Child, address: SocketAddr, start: Instant) -> Option<Child> {
    while TcpStream::connect(address).is_err() {
        assert!(start.elapsed() < PATIENCE, "no server at {address}");
        if child.try_wait().unwrap().is_some() {
            return None;
        }
        std::thread::sleep(Duration::from_millis(20));
    }
    Some(child)
}

/// The settings for a server that speaks the protocol of S3.
pub(crate) fn s3_environment(address: SocketAddr) -> Environment {
    let endpoint = format!("http://{address}");
    Environment::new([
        ("AWS_ENDPOINT_URL", endpoint.as_str()),
        ("AWS_ACCESS_KEY_ID", "tester"),
        ("AWS_SECRET_ACCESS_KEY", SECRET),
    ])
}

pub(crate) fn google_environment(address: SocketAddr) -> Environment {
    let address = writable(address);
    Environment::new([("GOOGLE_BASE_URL", format!("http://{address}").as_str()), ("GOOGLE_BEARER_TOKEN", TOKEN)])
}

/// Passes requests on to fake-gcs-server, which has of the XML protocol all but the writing of objects: that becomes
/// the one of the JSON protocol.
fn writable(google: SocketAddr) -> SocketAddr {
    server(move |request, _| {
        let Some((path, _)) = request.head.strip_prefix("PUT /bucket/").and_then(|rest| rest.split_once(' ')) else {
            // It tells the protocols apart by its own name.
            let is_host = |line: &&str| line.to_ascii_lowercase().starts_with("host:");
            let host = request.head.lines().find(is_host).unwrap_or_default();
            let head = request.head.replace(host, &format!("Host: {google}"));
            return Reply::Raw(passed(google, &Request { head, body: request.body.clone() }));
        };
        let is_new = request.head.to_ascii_lowercase().contains("x-goog-if-generation-match: 0");
        let name = path.replace("%2F", "/").replace('/', "%2F");
        let condition = if is_new { "&ifGenerationMatch=0" } else { "" };
        let head = format!(
            "POST /upload/storage/v1/b/bucket/o?uploadType=media&name={name}{condition} HTTP/1.1\r\n\
             Host: {google}\r\nContent-Length: {}\r\n\r\n",
            request.body.len()
        );
        let answer = passed(google, &Request { head, body: request.body.clone() });
        let answer = String::from_utf8_lossy(&answer);
        let status = answer.lines().next().unwrap_or_default();
        let rest = "ETag: \"1\"\r\nx-goog-generation: 1\r\nContent-Length: 0\r\nConnection: close\r\n\r\n";
        Reply::Raw(format!("{status}\r\n{rest}").into_bytes())
    })
}

pub(crate) fn azure_environment(address: SocketAddr) -> Environment {
    Environment::new([
        ("AZURE_STORAGE_ENDPOINT", format!("http://{address}/{ACCOUNT}").as_str()),
        ("AZURE_STORAGE_ACCOUNT_NAME", ACCOUNT),
        ("AZURE_STORAGE_ACCOUNT_KEY", ACCOUNT_KEY),
    ])
}

fn hmac(key: &[u8], text: &[u8]) -> Vec<u8> {
    let mut block = if key.len() > 64 { Sha256::digest(key).to_vec() } else { key.to_vec() };
    block.resize(64, 0);
    let pad = |with: u8| block.iter().map(|byte| byte ^ with).collect::<Vec<u8>>();
    let inner = Sha256::new().chain_update(pad(0x36)).chain_update(text).finalize();
    Sha256::new().chain_update(pad(0x5c)).chain_update(inner).finalize().to_vec()
}
