//! Names for addresses: in a child process of the same binary, since debug information is hostile input and can describe far more than it holds.
//!
//! The child is started as `EXECUTABLE ARGS... JSON` with the task as JSON; its standard input is the encoded profile. It limits its own memory
//! and CPU time before it reads anything, and answers on standard output:
//! ```text
//! length of the outcome, 8 bytes little endian | outcome as JSON | encoded profile
//! ```
//! When it fails, the profile stays as it is and an error row says why. The child has no network: what a node's own symbol page tells is asked for
//! by the server and filled in afterwards.

use std::io::{self, Read, Write};
use std::path::PathBuf;
use std::process::Stdio;
use std::sync::Arc;
use std::time::Duration;

use procprof_process::{Identity, Pid};
use procprof_profile::format::{self, Limits};
use procprof_profile::{Addr, Grammar, Meta, Profile};
use procprof_store::ErrorKind;
use procprof_symbolize::{Binary, BinaryRole, Outcome, PathUse, Sources, symbolize_profile};
use rustix::process::{Resource, Rlimit, setrlimit};
use serde::{Deserialize, Serialize};
use tokio::io::{AsyncReadExt, AsyncWriteExt};

use super::{IngestError, on_thread, record};
use crate::app::App;
use crate::remote::Remote;

/// Largest answer of the child, in bytes.
const ANSWER_MAX: u64 = 1 << 30;
/// Files named in a profile's facts.
const WANTED_MAX: usize = 8;

/// Where symbols of an arrival may be found.
#[derive(Clone, Default)]
pub(crate) struct Finding {
    /// The process it is from, if it runs on this host.
    pub process: Option<Identity>,
    /// The binary configured for the node.
    pub binary: Option<PathBuf>,
    /// The node's own symbol page, where that is allowed.
    pub(crate) remote: Option<Remote>,
}

/// What the child is asked to do.
#[derive(Debug, Serialize, Deserialize)]
struct Task {
    pid: Option<u32>,
    start_ticks: u64,
    binary: Option<PathBuf>,
    memory: u64,
    seconds: u64,
}

/// What the child says besides the profile.
#[derive(Debug, Default, Serialize, Deserialize)]
struct Said {
    resolved: usize,
    unresolved: usize,
    unverified: bool,
    wanted: Vec<(String, String)>,
}

impl Said {
    fn of(outcome: &Outcome) -> Said {
        let wanted = outcome.wanted().into_iter().take(WANTED_MAX).map(|file| (file.filename, file.build_id));
        Said {
            resolved: outcome.resolved_count(),
            unresolved: outcome.unresolved_count(),
            unverified: outcome.is_unverified(),
            wanted: wanted.collect(),
        }
    }
}

/// Fills in what names can be found, and notes in the facts what is missing.
pub(crate) async fn symbolize(app: &Arc<App>, profile: Profile, meta: &mut Meta, finding: Finding) -> Result<Profile, IngestError> {
    if !has_unnamed(&profile) {
        return Ok(profile);
    }
    let mut profile = match in_child(app, &profile, &finding).await {
        Ok((named, said)) => {
            note(meta, &said);
            named
        }
        Err(why) => {
            meta.more.insert("symbolize-error".to_owned(), why.clone());
            record(app, meta.node, meta.profile_type.clone(), ErrorKind::Symbolize, &why, &[]);
            profile
        }
    };
    if let Some(remote) = &finding.remote
        && has_unnamed(&profile)
    {
        profile = from_page(app, profile, meta, remote).await?;
    }
    Ok(profile)
}

/// Whether any location has an address without a name.
fn has_unnamed(profile: &Profile) -> bool {
    unnamed(profile).next().is_some()
}

fn unnamed(profile: &Profile) -> impl Iterator<Item = Addr> + '_ {
    let named = |index: usize| !profile.lines(procprof_profile::LocationId(index as u32)).is_empty();
    let all = profile.locations().iter().enumerate();
    all.filter(move |(index, location)| location.address.0 != 0 && !named(*index)).map(|(_, location)| location.address)
}

/// The facts that tell what symbols are missing, and which are not proven.
fn note(meta: &mut Meta, said: &Said) {
    if said.unverified {
        meta.more.insert("symbols".to_owned(), "unverified".to_owned());
    }
    if said.unresolved > 0 {
        meta.more.insert("unresolved-locations".to_owned(), said.unresolved.to_string());
    }
    for (number, (file, build_id)) in said.wanted.iter().enumerate() {
        let build_id = if build_id.is_empty() { "unknown build id".to_owned() } else { format!("build id {build_id}") };
        meta.more.insert(format!("wanted-file.{number}"), format!("{file} ({build_id})"));
    }
}

async fn in_child(app: &Arc<App>, profile: &Profile, finding: &Finding) -> Result<(Profile, Said), String> {
    let config = app.config();
    let _turn = app.symbolizers.acquire().await.map_err(|error| error.to_string())?;
    let task = Task {
        pid: finding.process.map(|identity| identity.pid.0),
        start_ticks: finding.process.map_or(0, |identity| identity.start_ticks),
        binary: finding.binary.clone(),
        memory: config.symbolize_memory_bytes_max,
        seconds: config.symbolize_seconds_max,
    };
    let copy = profile.clone();
    let encoded = tokio::task::spawn_blocking(move || format::pprof::encode(&copy)).await.map_err(|error| error.to_string())?;
    let encoded = encoded.map_err(|error| error.to_string())?;
    let time = Duration::from_secs(config.symbolize_seconds_max);
    let answer = match tokio::time::timeout(time, run(app, &task, encoded)).await {
        Ok(answer) => answer.map_err(|error| format!("symbolize: {error}"))?,
        Err(_) => return Err(format!("symbolize: not done after symbolize_seconds_max = {} s", config.symbolize_seconds_max)),
    };
    tokio::task::spawn_blocking(move || unpack(&answer)).await.map_err(|error| error.to_string())?
}

/// Runs the child; it is killed if this is given up.
async fn run(app: &App, task: &Task, profile: Vec<u8>) -> io::Result<Vec<u8>> {
    let child = &app.symbolize_child;
    let mut child = tokio::process::Command::new(&child.program)
        .args(&child.arguments)
        .arg(serde_json::to_string(task)?)
        .env_clear()
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .kill_on_drop(true)
        .spawn()?;
    let (stdin, stdout, stderr) = (child.stdin.take(), child.stdout.take(), child.stderr.take());
    let (Some(mut stdin), Some(stdout), Some(stderr)) = (stdin, stdout, stderr) else { return Err(io::ErrorKind::BrokenPipe.into()) };
    let write = async move {
        // A child that ended early is told by its status, not by the broken pipe.
        let _ = stdin.write_all(&profile).await;
        drop(stdin);
    };
    let (mut answer, mut complaint) = (Vec::new(), Vec::new());
    let mut stdout = stdout.take(ANSWER_MAX);
    let mut stderr = stderr.take(4096);
    let ((), read, _) = tokio::join!(write, stdout.read_to_end(&mut answer), stderr.read_to_end(&mut complaint));
    read?;
    let status = child.wait().await?;
    if status.success() {
        return Ok(answer);
    }
    let complaint = String::from_utf8_lossy(&complaint);
    let complaint = complaint.lines().next().unwrap_or("no message");
    Err(io::Error::other(format!("the child ended with {status}: {complaint}")))
}

fn unpack(answer: &[u8]) -> Result<(Profile, Said), String> {
    let wrong = || "symbolize: the child's answer is cut short".to_owned();
    let (length, rest) = answer.split_first_chunk::<8>().ok_or_else(wrong)?;
    let length = usize::try_from(u64::from_le_bytes(*length)).map_err(|_| wrong())?;
    let (said, encoded) = rest.split_at_checked(length).ok_or_else(wrong)?;
    let said = serde_json::from_slice(said).map_err(|error| format!("symbolize: {error}"))?;
    let decoded = format::decode(encoded, &Limits::default()).map_err(|error| format!("symbolize: {error}"))?;
    Ok((decoded.profile, said))
}

/// Asks the node's own page for what is still unnamed.
async fn from_page(app: &Arc<App>, profile: Profile, meta: &mut Meta, remote: &Remote) -> Result<Profile, IngestError> {
    let mut addresses: Vec<Addr> = unnamed(&profile).collect();
    addresses.sort_unstable();
    addresses.dedup();
    let names = match remote.names(&addresses).await {
        Ok(names) => names,
        Err(error) => {
            let why = format!("symbol page: {error}");
            record(app, meta.node, meta.profile_type.clone(), ErrorKind::Symbolize, &why, &[]);
            return Ok(profile);
        }
    };
    let done = on_thread(move || {
        let mut fetch = |_: &[Addr]| Ok(names.clone());
        let mut sources = Sources { paths: PathUse::Never, fetch: Some(Box::new(&mut fetch)), ..Sources::default() };
        symbolize_profile(profile.clone(), &mut sources).map_or((profile, None), |(named, outcome)| (named, Some(outcome)))
    });
    let (profile, outcome) = done.await?;
    if let Some(outcome) = outcome {
        meta.more.retain(|key, _| key != "unresolved-locations");
        if outcome.unresolved_count() > 0 {
            meta.more.insert("unresolved-locations".to_owned(), outcome.unresolved_count().to_string());
        }
        if outcome.resolved_count() > 0 {
            meta.more.insert("symbols-from".to_owned(), "the node's symbol page".to_owned());
        }
    }
    Ok(profile)
}

/// The main function of the child; `argument` is the task. Returns the process's exit code.
pub fn symbolize_child_main(argument: &str) -> i32 {
    match child(argument) {
        Ok(()) => 0,
        Err(error) => {
            eprintln!("{error}");
            1
        }
    }
}

fn child(argument: &str) -> io::Result<()> {
    let task: Task = serde_json::from_str(argument)?;
    limit(Resource::As, task.memory)?;
    limit(Resource::Cpu, task.seconds)?;
    limit(Resource::Core, 0)?;
    let mut encoded = Vec::new();
    io::stdin().lock().take(ANSWER_MAX).read_to_end(&mut encoded)?;
    let decoded = format::decode(&encoded, &Limits::default()).map_err(io::Error::other)?;
    drop(encoded);
    let profile = decoded.profile.adjusted(Grammar::Pprof).map_err(io::Error::other)?;
    let (profile, outcome) = symbolize_profile(profile, &mut sources(&task)).map_err(io::Error::other)?;
    let said = serde_json::to_vec(&Said::of(&outcome))?;
    let encoded = format::pprof::encode(&profile).map_err(io::Error::other)?;
    let mut out = io::stdout().lock();
    out.write_all(&(said.len() as u64).to_le_bytes())?;
    out.write_all(&said)?;
    out.write_all(&encoded)?;
    out.flush()
}

fn limit(resource: Resource, maximum: u64) -> io::Result<()> {
    setrlimit(resource, Rlimit { current: Some(maximum), maximum: Some(maximum) }).map_err(io::Error::from)
}

fn sources(task: &Task) -> Sources<'static> {
    let identity = task.pid.and_then(|pid| Identity::of(Pid(pid)).ok()).filter(|identity| identity.start_ticks == task.start_ticks);
    let binaries = task.binary.iter().map(|path| Binary { path: path.clone(), role: BinaryRole::Main });
    Sources { binaries: binaries.collect(), process: identity, ..Sources::default() }
}
