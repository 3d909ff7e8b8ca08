//! A server in this process on a port and a folder of its own, and a client for it.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

use procprof_agent::Agent;
use procprof_archive::{Archive, ObjectFolder, ReadLimits};
use procprof_profile::ProfileBuilder;
use procprof_profile::format::pprof::encode_gzip;
use procprof_server::{ChildProgram, Config, Environment, Rhythm, Server, ServerHandle, ServerOptions};
use reqwest::{Client, Method, Response};
use serde_json::Value;
use tempfile::TempDir;

/// Longest wait for anything that must happen; nothing is measured by it.
pub(crate) const PATIENCE: Duration = Duration::from_secs(180);

pub(crate) struct TestServer {
    pub(crate) handle: Option<ServerHandle>,
    pub(crate) data: DataFolder,
    pub(crate) client: Client,
    pub(crate) address: SocketAddr,
    pub(crate) credentials: Option<(String, String)>,
}

/// The folder of a server, removed when it is dropped, also while a server that was not stopped writes to it.
pub(crate) struct DataFolder(Option<TempDir>);

impl DataFolder {
    pub(crate) fn path(&self) -> &Path {
        self.0.as_ref().unwrap().path()
    }
}

impl Drop for DataFolder {
    fn drop(&mut self) {
        let Some(path) = self.0.take().map(TempDir::keep) else { return };
        let start = Instant::now();
        while path.exists() && start.elapsed() < PATIENCE {
            // What is written meanwhile is removed the next time.
            let _ = std::fs::remove_dir_all(&path);
        }
    }
}

/// A configuration under which nothing happens by itself.
pub(crate) fn quiet() -> Config {
    let mut config = Config::defaults();
    config.proc_profile_cpu_enable = false;
    config.proc_profile_mem_enable = false;
    config.archive = String::new();
    config.proc_profile_file_retained_days = ANY_AGE;
    config.archive_days_max = 0;
    config
}

/// Profiles of tests are years old, and retention runs as soon as a server starts.
const ANY_AGE: u64 = 36_500;

/// A configuration from TOML, on top of nothing happening by itself.
pub(crate) fn parsed(text: &str) -> Config {
    let mut config = Config::parse(text, "test.toml").unwrap();
    if !text.contains("proc_profile_file_retained_days") {
        config.proc_profile_file_retained_days = ANY_AGE;
    }
    if !text.contains("archive") {
        config.archive = String::new();
    }
    if !text.contains("archive_days_max") {
        config.archive_days_max = 0;
    }
    config
}

pub(crate) fn agent() -> Agent {
    procprof_agent::start(procprof_agent::Config::default()).unwrap()
}

/// `cargo test` builds the examples beside the tests.
pub(crate) fn symbolize_child() -> ChildProgram {
    static PATH: OnceLock<PathBuf> = OnceLock::new();
    let path = PATH.get_or_init(|| {
        let tests = std::env::current_exe().unwrap();
        let path = tests.parent().unwrap().parent().unwrap().join("examples/symbolize_child");
        assert!(path.exists(), "{}: run `cargo build -p procprof-server --example symbolize_child`", path.display());
        path
    });
    ChildProgram { program: path.clone(), arguments: Vec::new() }
}

pub(crate) fn options(config: Config, data: PathBuf) -> ServerOptions {
    ServerOptions {
        config,
        data,
        http: "127.0.0.1:0".parse().unwrap(),
        http_explicit: true,
        mysql: None,
        jeprof_child: ChildProgram { program: "/nonexistent".into(), arguments: Vec::new() },
        insecure: false,
        archiving: Rhythm::Every(Duration::from_secs(1)),
        buckets: Environment::default(),
        extra_nodes: Vec::new(),
        agent: agent(),
        symbolize_child: symbolize_child(),
    }
}

/// The object by which [`keep_from_compacting`] does so.
pub(crate) const LEASE: &str = "leases/compaction-0000000900";

/// Lets servers believe for an hour that another one compacts their archive.
pub(crate) fn keep_from_compacting(archive: &Archive) {
    let until = jiff::Timestamp::now().as_millisecond() + 3_600_000;
    archive.objects().put(LEASE, format!("000000000000feed {until}").as_bytes()).unwrap();
}

/// The archive in the folder of a server.
pub(crate) fn archive(data: &Path) -> Archive {
    Archive::new(Arc::new(ObjectFolder::create(data.join("archive")).unwrap()), ReadLimits::default())
}

impl TestServer {
    pub(crate) async fn start(config: Config) -> TestServer {
        TestServer::in_folder(config, tempfile::tempdir().unwrap()).await
    }

    pub(crate) async fn in_folder(config: Config, data: TempDir) -> TestServer {
        let handle = Server::start(options(config, data.path().to_owned())).await.unwrap();
        TestServer::around(handle, data)
    }

    pub(crate) fn around(handle: ServerHandle, data: TempDir) -> TestServer {
        // A connection whose request was refused before it was read is closed; a pool may hand it out once more.
        let client = Client::builder()
            .no_proxy()
            .pool_max_idle_per_host(0)
            .redirect(reqwest::redirect::Policy::none())
            .tls_certs_only([])
            .build()
            .unwrap();
        let address = handle.addr();
        TestServer { handle: Some(handle), data: DataFolder(Some(data)), client, address, credentials: None }
    }

    pub(crate) fn url(&self, path: &str) -> String {
        format!("http://{}{path}", self.address)
    }

    pub(crate) fn request(&self, method: Method, path: &str) -> reqwest::RequestBuilder {
        let request = self.client.request(method, self.url(path));
        match &self.credentials {
            Some((name, password)) => request.basic_auth(name, Some(password)),
            None => request,
        }
    }

    pub(crate) async fn get(&self, path: &str) -> Response {
        self.request(Method::GET, path).send().await.unwrap()
    }

    pub(crate) async fn status(&self, method: Method, path: &str) -> u16 {
        self.request(method, path).send().await.unwrap().status().as_u16()
    }

    /// The JSON of a successful answer.
    pub(crate) async fn json(&self, path: &str) -> Value {
        let response = self.get(path).await;
        let (status, text) = (response.status(), response.text().await.unwrap());
        assert!(status.is_success(), "{path}: {status}: {text}");
        serde_json::from_str(&text).unwrap()
    }

    pub(crate) async fn text(&self, path: &str) -> String {
        self.get(path).await.text().await.unwrap()
    }

    /// Posts JSON; status and answer.
    pub(crate) async fn post(&self, path: &str, body: Value) -> (u16, Value) {
        let response = self.request(Method::POST, path).body(body.to_string()).send().await.unwrap();
        let status = response.status().as_u16();
        (status, serde_json::from_str(&response.text().await.unwrap()).unwrap_or(Value::Null))
    }

    /// Pushes a profile of that type to the server's own node; its object.
    pub(crate) async fn push(&self, profile_type: &str, bytes: Vec<u8>) -> Value {
        let path = format!("/api/push?node=procprof&type={profile_type}");
        let response = self.request(Method::POST, &path).body(bytes).send().await.unwrap();
        let (status, text) = (response.status().as_u16(), response.text().await.unwrap());
        assert_eq!(status, 201, "{text}");
        serde_json::from_str(&text).unwrap()
    }

    /// Waits until the profiles of a query are at least so many, and returns them.
    pub(crate) async fn profiles(&self, query: &str, count: usize) -> Vec<Value> {
        until(&format!("{count} profiles of {query}"), async || {
            let page = self.json(&format!("/api/profiles?{query}")).await;
            page["profiles"].as_array().filter(|rows| rows.len() >= count).cloned()
        })
        .await
    }

    /// Waits for an error row of a node and returns it.
    pub(crate) async fn error(&self, node: &str) -> Value {
        until(&format!("an error of {node}"), async || {
            let page = self.json(&format!("/api/errors?node={node}")).await;
            page["errors"].as_array().unwrap().first().cloned()
        })
        .await
    }

    /// Waits for a capture to end and returns it.
    pub(crate) async fn ended(&self, id: &str) -> Value {
        until(&format!("the end of capture {id}"), async || {
            let job = self.json(&format!("/api/captures/{id}")).await;
            let has_ended = !matches!(job["state"].as_str(), Some("running" | "waiting"));
            has_ended.then_some(job)
        })
        .await
    }

    /// Stops the server and gives its folder back.
    pub(crate) async fn stop(mut self) -> TempDir {
        assert!(self.handle.take().unwrap().stop(PATIENCE).await, "it does not stop");
        self.data.0.take().unwrap()
    }
}

/// Looks again and again until something is there, and returns it.
pub(crate) async fn until<T>(what: &str, mut look: impl AsyncFnMut() -> Option<T>) -> T {
    let start = Instant::now();
    loop {
        if let Some(found) = look().await {
            return found;
        }
        assert!(start.elapsed() < PATIENCE, "{what}: not within {PATIENCE:?}");
        tokio::time::sleep(Duration::from_millis(30)).await;
    }
}

/// A symbolized CPU profile that starts at this second after the epoch.
pub(crate) fn cpu_profile(start_seconds: i64) -> Vec<u8> {
    let mut builder = ProfileBuilder::new(&[("samples", "count"), ("cpu", "nanoseconds")]);
    let (hot, cold, root) = (builder.frame("hot_70"), builder.frame("hot_30"), builder.frame("main"));
    builder.sample(&[hot, root], &[70, 700_000_000], &[]);
    builder.sample(&[cold, root], &[30, 300_000_000], &[]);
    builder.time(procprof_profile::Nanos(start_seconds * 1_000_000_000), procprof_profile::Nanos(1_000_000_000));
    encode_gzip(&builder.finish().unwrap()).unwrap()
}
