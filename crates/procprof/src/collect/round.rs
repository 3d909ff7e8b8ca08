//! One round: every capture in turn (brpc takes one profile at a time), each checked, symbolized and kept; then the
//! folder is cleaned.

use std::fmt;
use std::io::Write;
use std::path::PathBuf;
use std::time::SystemTime;

use anyhow::{Context, Result};
use flate2::Compression;
use flate2::write::GzEncoder;
use procprof_collect::{CollectError, Collected, HttpClient, Request, Watch, collect};
use procprof_profile::format::pprof::encode_gzip;
use procprof_profile::{Grammar, Meta, Nanos, Profile, ProfileType};
use procprof_symbolize::{Outcome, Sources, symbolize_profile};
use tokio_util::sync::CancellationToken;

use super::journal::Journal;
use super::settings::Settings;
use super::{Symbolize, cleanup, daemon, file};
use crate::progress::Bar;

/// Why a capture left no file.
#[derive(Debug)]
pub(super) enum Failure {
    /// There is no profile.
    Collect(CollectError),
    /// There is one, but it could not be kept.
    Keep(anyhow::Error),
}

/// How one capture ended.
pub(super) struct Captured {
    pub(super) profile_type: ProfileType,
    pub(super) result: Result<Kept, Failure>,
}

/// A profile in the folder.
#[derive(Debug)]
pub(super) struct Kept {
    path: PathBuf,
    bytes: usize,
    /// Addresses without a name, and the files that would give one.
    note: Option<String>,
}

/// One round at the terminal; false when a capture failed.
pub(super) async fn once(settings: &Settings, journal: &Journal) -> Result<bool> {
    file::check_writable(&settings.folder)?;
    let cancel = daemon::cancelled_by_signals()?;
    let client = HttpClient::new();
    let mut succeeded = true;
    for request in &settings.requests {
        journal.info(&announcement(settings, request)?);
        let captured = capture(settings, &client, request, &cancel).await;
        succeeded &= captured.result.is_ok();
        log(journal, &captured);
    }
    clean(settings, journal);
    Ok(succeeded)
}

/// One capture.
pub(super) async fn capture(
    settings: &Settings,
    client: &HttpClient,
    request: &Request,
    cancel: &CancellationToken,
) -> Captured {
    let bar = Bar::new(request.profile_type.label());
    let watch = Watch { cancel: cancel.clone(), progress: Some(bar.listener()), ..Watch::default() };
    let collected = collect(client, &settings.target, request, &watch).await;
    let result = match collected {
        Ok(collected) => keep(settings, collected).await.map_err(Failure::Keep),
        Err(error) => Err(Failure::Collect(error)),
    };
    drop(bar);
    Captured { profile_type: request.profile_type.clone(), result }
}

/// Logs how a capture ended.
pub(super) fn log(journal: &Journal, captured: &Captured) {
    let profile_type = &captured.profile_type;
    match &captured.result {
        Ok(kept) => {
            journal.info(&format!("{profile_type} profile saved: {} ({} bytes)", kept.path.display(), kept.bytes));
            if let Some(note) = &kept.note {
                journal.warning(&format!("{profile_type} profile: {note}"));
            }
        }
        Err(failure) => journal.error(&format!("{profile_type} profile: {failure}")),
    }
}

/// Cleans the folder. A failure is logged and ends nothing.
pub(super) fn clean(settings: &Settings, journal: &Journal) {
    match cleanup::clean(&settings.folder, settings.max_age, settings.max_bytes, SystemTime::now()) {
        Ok(removed) => {
            if removed.files > 0 {
                journal.info(&format!("removed {} old files ({} bytes)", removed.files, removed.bytes));
            }
            removed.failures.iter().for_each(|failure| journal.warning(failure));
        }
        Err(error) => journal.warning(&format!("{error:#}")),
    }
}

fn announcement(settings: &Settings, request: &Request) -> Result<String> {
    let seconds = settings.target.capture_seconds(request)?;
    let span = if seconds == 0 { String::new() } else { format!(" for {seconds} s") };
    let base = settings.target.brpc.as_ref().unwrap_or(&settings.target.http);
    Ok(format!("collecting {} profile{span} from {base}", request.profile_type))
}

/// Encodes and writes on a thread of its own: reading debug information takes seconds for a large binary.
async fn keep(settings: &Settings, collected: Collected) -> Result<Kept> {
    let (settings, started) = (settings.clone(), collected.started);
    let work = tokio::task::spawn_blocking(move || {
        let profile_type = collected.profile_type.clone();
        let (bytes, note) = match settings.symbolize {
            Symbolize::None => (packed(&collected.bytes)?, None),
            Symbolize::Host => symbolized(&settings, collected)?,
        };
        let path = file::write(&settings.folder, &profile_type, started, &bytes)?;
        Ok(Kept { path, bytes: bytes.len(), note })
    });
    work.await.context("keep profile")?
}

/// The answer as it came, gzip'd unless it is already.
fn packed(bytes: &[u8]) -> Result<Vec<u8>> {
    if bytes.starts_with(&[0x1f, 0x8b]) {
        return Ok(bytes.to_vec());
    }
    let mut encoder = GzEncoder::new(Vec::new(), Compression::default());
    encoder.write_all(bytes)?;
    Ok(encoder.finish()?)
}

/// The answer as pprof protobuf, with names from the process on this host, and a line about those that are missing.
fn symbolized(settings: &Settings, collected: Collected) -> Result<(Vec<u8>, Option<String>)> {
    let meta = facts(settings, &collected);
    let (started, seconds) = (collected.started, collected.seconds);
    let mut sources = Sources { process: collected.instance.local, ..Sources::default() };
    let profile = collected.decoded.profile.adjusted(Grammar::Pprof)?;
    let (profile, outcome) = symbolize_profile(profile, &mut sources).context("symbolize")?;
    let profile = with_facts(profile, &meta, started, seconds)?;
    Ok((encode_gzip(&profile)?, missing_names(&outcome)))
}

fn facts(settings: &Settings, collected: &Collected) -> Meta {
    let engine = match (collected.decoded.format, &collected.profile_type) {
        (_, ProfileType::Contention) if settings.target.brpc.is_some() => "brpc",
        (_, ProfileType::Cpu) if settings.target.brpc.is_some() => "gperftools",
        (format, _) => format,
    };
    Meta {
        profile_type: Some(collected.profile_type.clone()),
        kind: settings.target.endpoints.name.to_owned(),
        trigger: "collect".to_owned(),
        engine: engine.to_owned(),
        instance_start: collected.instance.start_time(),
        tool: concat!("procprof ", env!("CARGO_PKG_VERSION")).to_owned(),
        end: Some(collected.finished),
        ..Meta::default()
    }
}

/// Adds when it was and what is known; a time of the profile's own stays.
fn with_facts(profile: Profile, meta: &Meta, started: Nanos, seconds: u32) -> Result<Profile> {
    let mut parts = profile.into_parts();
    if parts.time == Nanos(0) {
        parts.time = started;
    }
    if parts.duration == Nanos(0) {
        parts.duration = Nanos(i64::from(seconds) * 1_000_000_000);
    }
    for comment in meta.to_comments() {
        let id = parts.intern(&comment)?;
        parts.comments.push(id);
    }
    Ok(parts.finish()?)
}

fn missing_names(outcome: &Outcome) -> Option<String> {
    let missing = outcome.unresolved_count();
    if missing == 0 {
        return None;
    }
    let known: usize = outcome.resolved_count() + outcome.mappings.iter().map(|mapping| mapping.already).sum::<usize>();
    let wanted = outcome.wanted().into_iter().map(|file| match file.build_id.as_str() {
        "" => file.filename,
        build_id => format!("{} (build id {build_id})", file.filename),
    });
    let wanted: Vec<String> = wanted.take(5).collect();
    let hint = if wanted.is_empty() {
        String::new()
    } else {
        format!("; symbols of these files are wanted: {}", wanted.join(", "))
    };
    Some(format!("{missing} of {} addresses have no name{hint}", missing + known))
}

impl Failure {
    /// Whether the process could not be reached.
    pub(super) fn is_down(&self) -> bool {
        matches!(self, Failure::Collect(CollectError::Connect { .. }))
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Failure::Collect(error) => error.fmt(f),
            Failure::Keep(error) => write!(f, "{error:#}"),
        }
    }
}
