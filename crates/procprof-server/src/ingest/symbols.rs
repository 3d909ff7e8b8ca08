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
use std::sync::Arc;

use procprof_process::{Identity, Pid};
use procprof_profile::format::{self, Limits};
use procprof_profile::{Addr, Grammar, LocationId, Mapping, MappingId, Meta, Profile, ProfileId};
use procprof_store::{Entry, ErrorKind};
use procprof_symbolize::{
    Binary, BinaryRole, FindIndex, ImageOptions, MappingOutcome, Outcome, PathUse, Reason, Sources, WantedFile, WantedShare,
    symbolize_profile,
};
use rustix::process::{Resource, Rlimit, setrlimit};
use serde::{Deserialize, Serialize};

use super::{IngestError, now, on_thread, record};
use crate::app::App;
use crate::child::{self, Child};
use crate::remote::Remote;
use crate::symbols::{SymbolKey, UPLOADS, Uploads, Wanted};

/// Largest answer of the child, in bytes.
const ANSWER_MAX: u64 = 1 << 30;
/// Most wanted files that the child tells.
const WANTED_MAX: usize = 1000;

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
    /// Folder of the uploaded indexes, by key.
    symbols: PathBuf,
    memory: u64,
    seconds: u64,
}

/// What the child says besides the profile.
#[derive(Debug, Default, Serialize, Deserialize)]
struct Said {
    resolved: usize,
    unresolved: usize,
    unverified: bool,
    /// File, build id, and the share of the profile it would name; the uploads that fit it, if those are several.
    wanted: Vec<(String, String, f64, Vec<SymbolKey>)>,
    /// Keys of the uploaded indexes that gave names.
    used: Vec<SymbolKey>,
}

impl Said {
    fn of(profile: &Profile, outcome: &Outcome, used: Vec<SymbolKey>) -> Said {
        let wanted = outcome.wanted_shares(profile).into_iter().take(WANTED_MAX);
        let fitting = |file: &WantedFile| {
            let of_file = outcome.mappings.iter().filter(|mapping| mapping.wanted().as_ref() == Some(file));
            let keys = of_file.map(|mapping| &mapping.fitting_keys).find(|keys| !keys.is_empty());
            keys.into_iter().flatten().filter_map(|key| key.parse().ok()).collect()
        };
        Said {
            resolved: outcome.resolved_count(),
            unresolved: outcome.unresolved_count(),
            unverified: outcome.is_unverified(),
            wanted: wanted
                .map(|WantedShare { file, share }| (file.filename.clone(), file.build_id.clone(), share, fitting(&file)))
                .collect(),
            used,
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
            app.symbols.used(&said.used, now());
            named
        }
        Err(why) => {
            meta.more.insert("symbolize-error".to_owned(), why.clone());
            note(meta, &Said::of(&profile, &nothing_found(&profile), Vec::new()));
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

/// Notes in the facts which files would name a profile, as if nothing had been found; for one that is stored without looking.
pub(crate) fn note_unnamed(profile: &Profile, meta: &mut Meta) {
    if has_unnamed(profile) {
        note(meta, &Said::of(profile, &nothing_found(profile), Vec::new()));
    }
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

/// The facts that tell what symbols are missing, which are not proven, and whose were used.
fn note(meta: &mut Meta, said: &Said) {
    if said.unverified {
        meta.more.insert("symbols".to_owned(), "unverified".to_owned());
    }
    if said.unresolved > 0 {
        meta.more.insert("unresolved-locations".to_owned(), said.unresolved.to_string());
    }
    let wanted = said.wanted.iter().map(|(file, build_id, share, fitting)| Wanted {
        file: file.clone(),
        build_id: build_id.clone(),
        percent: Some(share * 100.0),
        fitting: fitting.clone(),
    });
    Wanted::write(&wanted.collect::<Vec<_>>(), meta);
    if !said.used.is_empty() {
        let mut keys: Vec<&str> = meta.more.get(UPLOADS).map(|keys| keys.split(',').collect()).unwrap_or_default();
        keys.extend(said.used.iter().map(SymbolKey::as_str));
        keys.sort_unstable();
        keys.dedup();
        let keys = keys.join(",");
        meta.more.insert(UPLOADS.to_owned(), keys);
    }
}

/// Names a stored profile by what is known now, and puts it in the place of what was stored.
///
/// # Errors
/// It stays as it was.
pub(crate) async fn name_again(app: &Arc<App>, id: ProfileId) -> Result<Entry, String> {
    let store = Arc::clone(&app.store);
    let opened = tokio::task::spawn_blocking(move || {
        let entry = store.get(id).map_err(|error| error.to_string())?;
        let bytes = store.open_bytes(id).map_err(|error| error.to_string())?;
        let decoded = format::decode(&bytes, &Limits::default()).map_err(|error| error.to_string())?;
        decoded.profile.adjusted(Grammar::Pprof).map(|profile| (entry, profile)).map_err(|error| error.to_string())
    });
    let (entry, profile) = opened.await.map_err(|error| error.to_string())??;
    let binary = app.registry.by_id(entry.node).and_then(|node| node.config.binary.clone());
    let (profile, said) = in_child(app, &profile, &Finding { binary, ..Finding::default() }).await?;
    let mut meta = entry.meta.clone();
    meta.more.retain(|key, _| !["unresolved-locations", "symbolize-error"].contains(&key.as_str()));
    note(&mut meta, &said);
    let store = Arc::clone(&app.store);
    let replaced = tokio::task::spawn_blocking(move || super::replace_profile(&store, profile, meta, (entry.start, entry.duration)));
    let entry = replaced.await.map_err(|error| error.to_string())?.map_err(|error| error.to_string())?;
    app.symbols.used(&said.used, now());
    tracing::info!("profile {id}: {} addresses named by what is known now", said.resolved);
    Ok(entry)
}

/// What symbolizing would have said if nothing had been found: for a child that failed.
fn nothing_found(profile: &Profile) -> Outcome {
    let of_mapping = |(index, mapping): (usize, &Mapping)| MappingOutcome {
        mapping: Some(MappingId(index as u32)),
        filename: profile.string(mapping.filename).to_owned(),
        build_id: profile.string(mapping.build_id).to_owned(),
        ..MappingOutcome::default()
    };
    let mut mappings: Vec<MappingOutcome> = profile.mappings().iter().enumerate().map(of_mapping).collect();
    for (index, location) in profile.locations().iter().enumerate() {
        let id = location.mapping.filter(|_| profile.lines(LocationId(index as u32)).is_empty());
        if let Some(outcome) = id.map(|id| &mut mappings[id.index()]).filter(|outcome| outcome.filename.starts_with('/')) {
            outcome.unresolved = vec![(Reason::FileMissing, 1)];
        }
    }
    Outcome { mappings, ..Outcome::default() }
}

async fn in_child(app: &Arc<App>, profile: &Profile, finding: &Finding) -> Result<(Profile, Said), String> {
    let config = app.config();
    let (memory, seconds) = (config.symbolize_memory_bytes_max, config.symbolize_seconds_max);
    let task = Task {
        pid: finding.process.map(|identity| identity.pid.0),
        start_ticks: finding.process.map_or(0, |identity| identity.start_ticks),
        binary: finding.binary.clone(),
        symbols: app.symbols.folder().to_owned(),
        memory,
        seconds,
    };
    let copy = profile.clone();
    let encoded = tokio::task::spawn_blocking(move || format::pprof::encode(&copy)).await.map_err(|error| error.to_string())?;
    let input = vec![encoded.map_err(|error| error.to_string())?.into()];
    let task = serde_json::to_string(&task).map_err(|error| error.to_string())?;
    let child = Child { program: &app.symbolize_child, task, input, seconds, answer_max: ANSWER_MAX };
    let answer = child::run(app, child).await.map_err(|error| format!("symbolize: {error}"))?;
    tokio::task::spawn_blocking(move || unpack(&answer)).await.map_err(|error| error.to_string())?
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
        let shares = outcome.wanted_shares(&profile);
        // Of the files that would have helped, those that still would: what the page knows nothing of.
        let mut still = Wanted::of(meta);
        still.retain_mut(|wanted| {
            let share = shares.iter().find(|share| share.file.filename == wanted.file && share.file.build_id == wanted.build_id);
            wanted.percent = share.map(|share| share.share * 100.0);
            share.is_some()
        });
        Wanted::write(&still, meta);
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
    let uploads = Uploads::in_folder(&task.symbols);
    let (profile, outcome) = symbolize_profile(profile, &mut sources(&task, &uploads)).map_err(io::Error::other)?;
    let said = serde_json::to_vec(&Said::of(&profile, &outcome, Uploads::used(&outcome)))?;
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

fn sources<'a>(task: &Task, uploads: &'a Uploads) -> Sources<'a> {
    let identity = task.pid.and_then(|pid| Identity::of(Pid(pid)).ok()).filter(|identity| identity.start_ticks == task.start_ticks);
    let binaries = task.binary.iter().map(|path| Binary { path: path.clone(), role: BinaryRole::Main });
    let uploaded: Box<FindIndex<'a>> = Box::new(|wanted| uploads.find(wanted));
    let image = ImageOptions { cache: child::child_indexes(), ..ImageOptions::default() };
    Sources { binaries: binaries.collect(), process: identity, uploaded: Some(uploaded), image, ..Sources::default() }
}
