//! Symbols of running files that the server lacks: one file after the other, read by a child process with limits.

use std::collections::HashSet;
use std::fs::File;
use std::io::{Read, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};
use std::process::{ExitCode, Stdio};
use std::sync::atomic::Ordering;
use std::sync::mpsc::Sender;
use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};
use procprof_symbolize::ProvenFile;
use reqwest::{Method, header};
use rustix::process::{Resource, Rlimit, setrlimit};
use rustix::thread::{CapabilitySets, set_capabilities};
use tokio::sync::{mpsc, oneshot};
use tokio_util::io::ReaderStream;

use super::link::{Failure, Link};
use super::sampler::Ask;
use super::shared::Shared;
use crate::symbols::index_of;

/// Longest time of the child.
const CHILD: Duration = Duration::from_secs(600);
/// Longest time for sending an index.
const SEND: Duration = Duration::from_secs(1800);
/// Longest time for other requests.
const ASK: Duration = Duration::from_secs(20);
/// Build ids that are not tried again.
const REMEMBERED: usize = 10_000;
/// Pause between two files.
const PAUSE: Duration = Duration::from_secs(1);

/// Sends the symbols that the server wants until the agent stops.
pub(super) async fn run(shared: &Shared, link: &Link, sampler: &Sender<Ask>, mut wanted: mpsc::Receiver<Vec<String>>) {
    // Those that were sent, and those that have no symbols.
    let mut done: HashSet<String> = HashSet::new();
    while let Some(build_ids) = wanted.recv().await {
        for build_id in build_ids {
            if !shared.settings.push_symbols || done.contains(&build_id) {
                continue;
            }
            let is_done = match send(shared, link, sampler, &build_id).await {
                Ok(Outcome::Sent(name)) => {
                    shared.counters.symbols.fetch_add(1, Ordering::Relaxed);
                    tracing::info!("sent the symbols of {name}");
                    true
                }
                Ok(Outcome::NotNeeded) => true,
                // It may have been seen by the next time the server asks, or run again.
                Ok(Outcome::NotRunning) => continue,
                Err(error) => {
                    tracing::warn!("symbols of build id {build_id}: {error:#}");
                    // A server that can't be reached is asked again.
                    !matches!(error.downcast_ref::<Failure>(), Some(Failure::NotReached(_)))
                }
            };
            if is_done {
                if done.len() >= REMEMBERED {
                    done.clear();
                }
                done.insert(build_id);
            }
            tokio::time::sleep(PAUSE).await;
        }
    }
}

/// What became of the symbols of a file.
enum Outcome {
    /// They were sent; the name of the file.
    Sent(String),
    /// The file has none, or the server has better ones.
    NotNeeded,
    /// No process that was seen runs the file.
    NotRunning,
}

/// Sends the index of a file.
async fn send(shared: &Shared, link: &Link, sampler: &Sender<Ask>, build_id: &str) -> Result<Outcome> {
    let (reply, file) = oneshot::channel();
    sampler.send(Ask::File(build_id.to_owned(), reply)).context("ask for the file")?;
    let Some(ProvenFile { path, file }) = file.await.context("ask for the file")? else {
        return Ok(Outcome::NotRunning);
    };
    let name = path.display().to_string();
    let Some(made) = make(shared, path, file).await? else { return Ok(Outcome::NotNeeded) };
    let detail = if made.has_lines { "lines" } else { "functions" };
    let offer = format!("/api/symbols/offer?key={}&detail={detail}&bytes={}", made.key.replace('+', "%2B"), made.bytes);
    let offered = link.ask(link.request(Method::POST, &offer), ASK).await?;
    let offered: serde_json::Value = serde_json::from_slice(&offered).context("this is no procprof server")?;
    if offered["take"] == false {
        return Ok(Outcome::NotNeeded);
    }
    let stream = ReaderStream::new(tokio::fs::File::from_std(made.file));
    let request = link.request(Method::POST, "/api/symbols")?.header(header::CONTENT_LENGTH, made.bytes);
    link.ask(Ok(request.body(reqwest::Body::wrap_stream(stream))), SEND).await?;
    Ok(Outcome::Sent(name))
}

/// An index in a file without a name.
struct Made {
    file: File,
    bytes: u64,
    key: String,
    has_lines: bool,
}

/// Has a child process make the index; `None` if the file has no symbols.
async fn make(shared: &Shared, path: PathBuf, mut file: File) -> Result<Option<Made>> {
    file.seek(SeekFrom::Start(0)).context("read the file")?;
    let mut index = tempfile::tempfile_in(&shared.settings.spool).context("make a file for the index")?;
    let child = tokio::process::Command::new("/proc/self/exe")
        .arg("symbol-index-child")
        .arg("--memory-bytes")
        .arg(shared.settings.symbol_memory_bytes_max.to_string())
        .arg(&path)
        .env_clear()
        .stdin(Stdio::from(file))
        .stdout(Stdio::from(index.try_clone().context("make a file for the index")?))
        .stderr(Stdio::piped())
        .kill_on_drop(true)
        .spawn()
        .context("start a process for symbols")?;
    let output = tokio::time::timeout(CHILD, child.wait_with_output()).await;
    let output = output.with_context(|| format!("{}: more than {} s", path.display(), CHILD.as_secs()))?;
    let output = output.context("wait for the process for symbols")?;
    let told = String::from_utf8_lossy(&output.stderr);
    let told = told.trim();
    ensure!(output.status.success(), "{}: {}", path.display(), told.chars().take(500).collect::<String>());
    let mut words = told.split(' ');
    let (Some(key), Some(detail)) = (words.next().filter(|key| !key.is_empty()), words.next()) else { return Ok(None) };
    let bytes = index.metadata().context("read the index")?.len();
    index.seek(SeekFrom::Start(0)).context("read the index")?;
    Ok(Some(Made { file: index, bytes, key: key.to_owned(), has_lines: detail == "lines" }))
}

/// The child: writes the index of the file that is its standard input to standard output, and what it has to standard
/// error.
///
/// # Errors
/// The file is none with code, or too large for the limits.
pub(crate) fn index_child(path: &Path, memory_bytes: u64) -> Result<ExitCode> {
    // Nothing that the file contains needs privileges to be read.
    let none = rustix::thread::CapabilitySet::empty();
    set_capabilities(None, CapabilitySets { effective: none, permitted: none, inheritable: none })
        .context("give up privileges")?;
    // At the ordinary priority it does the same work.
    let _ = rustix::process::nice(10);
    let input = std::os::fd::AsFd::as_fd(&std::io::stdin()).try_clone_to_owned().context("read the file")?;
    let mut file = File::from(input);
    // Files are mapped: these addresses take memory only as far as they are read, and give it back.
    let mapped = file.metadata().context("read the file")?.len().saturating_mul(2);
    for (resource, bytes) in [(Resource::Data, memory_bytes), (Resource::As, memory_bytes.saturating_add(mapped))] {
        let limit = Some(bytes);
        setrlimit(resource, Rlimit { current: limit, maximum: limit }).context("limit the memory")?;
    }
    let mut head = [0; 4];
    file.read_exact(&mut head).context("read the file")?;
    if &head != b"\x7fELF" {
        bail!("it is no ELF file");
    }
    file.seek(SeekFrom::Start(0)).context("read the file")?;
    let Some(made) = index_of(file, path)? else { return Ok(ExitCode::SUCCESS) };
    std::io::stdout().write_all(&made.bytes).context("write the index")?;
    eprint!("{} {}", made.key, if made.has_lines { "lines" } else { "functions" });
    Ok(ExitCode::SUCCESS)
}
