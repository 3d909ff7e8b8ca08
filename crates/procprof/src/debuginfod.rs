//! Debug files from debuginfod servers: the client's side of elfutils' protocol, with a cache.
//!
//! Queried only if `DEBUGINFOD_URLS` names servers, separated by spaces. `GET URL/buildid/HEX/debuginfo` returns the
//! file, or 404. Like elfutils' own client it heeds `DEBUGINFOD_TIMEOUT` (seconds a server may be silent),
//! `DEBUGINFOD_MAXTIME` (seconds for a file) and `DEBUGINFOD_MAXSIZE` (bytes of a file). Files are kept under
//! `PROCPROF_CACHE_DIR/debuginfod`, else `~/.cache/procprof/debuginfod`:
//! ```text
//! HEX/debuginfo     the file
//! HEX/missing       no server had it when this was written; requested again after ten minutes
//! ```
//! A server that fails is not queried again by this process. Users of a file verify its build id.

use std::fs;
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::time::{Duration, SystemTime};

use procprof_files::{Bounds, Durability, FileCache, Layout, NewFile};
use procprof_process::BuildId;
use reqwest::StatusCode;

/// Seconds a server may be silent.
const SILENCE_SECONDS: u64 = 90;
/// Longest wait for a connection.
const CONNECT_TIME: Duration = Duration::from_secs(5);
/// Seconds for a file.
const FILE_SECONDS: u64 = 600;
/// Largest file, in bytes.
const FILE_BYTES_MAX: u64 = 4 << 30;
/// Most bytes of all files that are kept; those fetched the longest ago are removed.
const CACHE_BYTES_MAX: u64 = 8 << 30;
/// How long a missing file is not requested again.
const MISSING_TIME: Duration = Duration::from_secs(600);

/// A client of debuginfod servers.
#[derive(Debug)]
pub(crate) struct Debuginfod {
    servers: Vec<String>,
    cache: FileCache,
    silence: Duration,
    time: Duration,
    bytes_max: u64,
    /// The servers that failed.
    failed: Mutex<Vec<String>>,
}

impl Debuginfod {
    /// A client as the environment describes it; `None` if it names no server, or no place for a cache.
    pub(crate) fn from_environment() -> Option<Self> {
        let number = |name: &str, default: u64| {
            let value = std::env::var(name).ok().and_then(|text| text.trim().parse().ok());
            value.filter(|value| *value > 0).unwrap_or(default)
        };
        let urls = std::env::var("DEBUGINFOD_URLS").ok()?;
        let servers: Vec<String> = urls.split_whitespace().map(|url| url.trim_end_matches('/').to_owned()).collect();
        (!servers.is_empty()).then_some(Self {
            servers,
            cache: cache(cache_dir()?.join("debuginfod")),
            silence: Duration::from_secs(number("DEBUGINFOD_TIMEOUT", SILENCE_SECONDS)),
            time: Duration::from_secs(number("DEBUGINFOD_MAXTIME", FILE_SECONDS)),
            bytes_max: number("DEBUGINFOD_MAXSIZE", FILE_BYTES_MAX),
            failed: Mutex::default(),
        })
    }

    /// The debug file of a build: from the cache, else from the first server that has it; `None` if none has.
    ///
    /// Errs if a server fails and no other has it, and if the cache can't be written.
    pub(crate) fn debug_file(&self, build_id: &BuildId) -> io::Result<Option<PathBuf>> {
        let name = build_id.to_string();
        let (file, missing) = (self.cache.file_path(&name), self.cache.path.join(&name).join("missing"));
        if file.is_file() {
            return Ok(Some(file));
        }
        if age(&missing).is_some_and(|age| age < MISSING_TIME) {
            return Ok(None);
        }
        let mut error = None;
        for server in &self.servers {
            if self.failed.lock().is_ok_and(|failed| failed.contains(server)) {
                continue;
            }
            let url = format!("{server}/buildid/{build_id}/debuginfo");
            match self.fetch(&url, &name) {
                Ok(Some(fetched)) => {
                    self.cache.keep(fetched, &name)?;
                    self.cache.make_room(Some(&name))?;
                    return Ok(Some(file));
                }
                Ok(None) => {}
                Err(what) => {
                    if let Ok(mut failed) = self.failed.lock() {
                        failed.push(server.clone());
                    }
                    error = Some(what);
                }
            }
        }
        match error {
            Some(error) => Err(error),
            None => {
                fs::create_dir_all(self.cache.path.join(&name))?;
                fs::write(missing, []).map(|()| None)
            }
        }
    }

    /// Downloads a file, to be kept; `None` if the server has none.
    fn fetch(&self, url: &str, name: &str) -> io::Result<Option<NewFile>> {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        let named = |error: reqwest::Error| io::Error::other(format!("{url}: {}", innermost(&error)));
        runtime.block_on(async {
            let client =
                reqwest::Client::builder().connect_timeout(CONNECT_TIME).read_timeout(self.silence).timeout(self.time);
            let mut response = client.build().map_err(named)?.get(url).send().await.map_err(named)?;
            match response.status() {
                StatusCode::OK => {}
                StatusCode::NOT_FOUND => return Ok(None),
                status => return Err(io::Error::other(format!("{url}: {status}"))),
            }
            let too_large =
                || io::Error::other(format!("{url}: more than {} bytes (DEBUGINFOD_MAXSIZE)", self.bytes_max));
            if response.content_length().is_some_and(|bytes| bytes > self.bytes_max) {
                return Err(too_large());
            }
            eprintln!("procprof: fetching debug information from {url}");
            let mut file = self.cache.begin(name)?;
            let mut bytes = 0;
            while let Some(chunk) = response.chunk().await.map_err(named)? {
                bytes += chunk.len() as u64;
                if bytes > self.bytes_max {
                    return Err(too_large());
                }
                file.file().write_all(&chunk)?;
            }
            Ok(Some(file))
        })
    }
}

/// `PROCPROF_CACHE_DIR`, else `~/.cache/procprof`.
pub(crate) fn cache_dir() -> Option<PathBuf> {
    let own = std::env::var_os("PROCPROF_CACHE_DIR").filter(|folder| !folder.is_empty()).map(PathBuf::from);
    own.or_else(|| Some(std::env::home_dir()?.join(".cache/procprof")))
}

/// The innermost error: the outer messages only state that a request failed.
fn innermost(error: &reqwest::Error) -> String {
    let mut error: &dyn std::error::Error = error;
    while let Some(source) = error.source() {
        error = source;
    }
    error.to_string()
}

fn age(path: &Path) -> Option<Duration> {
    SystemTime::now().duration_since(path.metadata().ok()?.modified().ok()?).ok()
}

/// The cache in a folder. A file's time of change is when it was fetched.
fn cache(path: PathBuf) -> FileCache {
    let bounds = Bounds { bytes_max: CACHE_BYTES_MAX, files_max: usize::MAX };
    FileCache { path, layout: Layout::Folders("debuginfo"), bounds, mode: 0o666, durability: Durability::Cached }
}
