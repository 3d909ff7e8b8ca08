//! The one way a profile gets in: schedule, capture-now, import and push all call [`ingest`].
//!
//! ```text
//! bytes -> reserve (limits) -> decode -> adjust -> symbolize (child process) -> summary -> encode once -> store
//! ```
//! Partial results beat failure: when no symbols can be had, the profile is stored with its addresses, and the facts say which files are wanted.

mod budget;
mod facts;
mod strip;
mod summary;
pub(crate) mod symbols;
#[cfg(test)]
mod tests;

use std::sync::Arc;
use std::time::Instant;

use bytes::Bytes;
use procprof_profile::format::{self, Decoded, Limits};
use procprof_profile::{Grammar, Meta, Nanos, Profile, ProfileId};
use procprof_store::{Entry, ErrorKind, ErrorRow, NewProfile};

pub(crate) use budget::{Budget, Full};
pub(crate) use facts::guess_type;
pub(crate) use facts::{SHOWN, complete, now};
pub(crate) use strip::{COLUMNS, ROWS};
pub use symbols::symbolize_child_main;
pub(crate) use symbols::{Finding, name_again, note_unnamed};

use crate::app::App;

/// A profile that has arrived.
pub(crate) struct Arrival {
    /// What is known about it; node and type must be there.
    pub meta: Meta,
    /// As it came.
    pub bytes: Bytes,
    /// The same, decoded, if that is done already.
    pub decoded: Option<Decoded>,
    /// Start and length of the capture, for profiles that do not tell.
    pub window: (Nanos, Nanos),
    /// Where symbols may be found.
    pub finding: Finding,
}

/// Why a profile was not taken in.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub(crate) enum IngestError {
    /// A limit is reached; later it may fit.
    #[error(transparent)]
    Full(#[from] Full),
    /// The bytes are no profile.
    #[error(transparent)]
    Profile(#[from] procprof_profile::Error),
    /// The store did not take it.
    #[error(transparent)]
    Store(#[from] procprof_store::Error),
    /// A part of the server ended meanwhile.
    #[error("the server is stopping")]
    Stopping,
}

/// Takes a profile in and returns its row in the list.
///
/// # Errors
/// Nothing is stored then; the caller tells it where it is seen.
pub(crate) async fn ingest(app: &Arc<App>, arrival: Arrival) -> Result<Entry, IngestError> {
    let started = Instant::now();
    let length = arrival.bytes.len() as u64;
    let config = app.config();
    let reserved = app.budget.reserve(length, &config).inspect_err(|full| app.metrics.refuse(full.reason()))?;
    let Arrival { mut meta, bytes, decoded, window, finding } = arrival;
    let decoded = on_thread(move || decode(&bytes, decoded)).await??;
    facts::complete(&mut meta, &decoded);
    let (mut profile, symbols) = (decoded.profile, config.symbolize);
    if symbols {
        profile = symbols::symbolize(app, profile, &mut meta, finding).await?;
    }
    app.metrics.lost_samples.inc_by(meta.lost.unwrap_or(0));
    let store = Arc::clone(&app.store);
    let entry = on_thread(move || store_profile(&store, profile, meta, window)).await??;
    drop(reserved);
    app.metrics.ingested.inc();
    app.metrics.ingest_bytes.inc_by(length);
    app.metrics.ingest_seconds.observe(started.elapsed().as_secs_f64());
    Ok(entry)
}

async fn on_thread<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> Result<T, IngestError> {
    tokio::task::spawn_blocking(work).await.map_err(|_| IngestError::Stopping)
}

fn decode(bytes: &[u8], decoded: Option<Decoded>) -> Result<Decoded, IngestError> {
    let decoded = match decoded {
        Some(decoded) => decoded,
        None => format::decode(bytes, &Limits::default())?,
    };
    Ok(Decoded { profile: decoded.profile.adjusted(Grammar::Pprof)?, ..decoded })
}

/// Writes the facts into a profile, encodes it once and stores it.
pub(crate) fn store_profile(
    store: &procprof_store::Store,
    profile: Profile,
    mut meta: Meta,
    window: (Nanos, Nanos),
) -> Result<Entry, IngestError> {
    let id = meta.id.unwrap_or_else(|| ProfileId(uuid::Uuid::now_v7().as_u128()));
    meta.id = Some(id);
    with_encoded(profile, meta, window, |new| store.put(new))
}

/// Writes the facts into a profile that is stored already and puts it in the place of what was stored.
pub(crate) fn replace_profile(
    store: &procprof_store::Store,
    profile: Profile,
    meta: Meta,
    window: (Nanos, Nanos),
) -> Result<Entry, IngestError> {
    with_encoded(profile, meta, window, |new| store.replace(new))
}

fn with_encoded(
    profile: Profile,
    mut meta: Meta,
    window: (Nanos, Nanos),
    keep: impl FnOnce(NewProfile<'_>) -> procprof_store::Result<Entry>,
) -> Result<Entry, IngestError> {
    let (profile, start, duration) = facts::write(profile, &mut meta, window)?;
    let summary = summary::summarize(&profile);
    let encoded = format::pprof::encode_gzip(&profile)?;
    drop(profile);
    Ok(keep(NewProfile { meta, encoded: &encoded, summary, start, duration })?)
}

/// Keeps an error row where people see it.
pub(crate) fn record(
    app: &App,
    node: Option<u64>,
    profile_type: Option<procprof_profile::ProfileType>,
    kind: ErrorKind,
    reason: &str,
    first_bytes: &[u8],
) {
    let row = ErrorRow { node, profile_type, time: now(), kind, reason: reason.to_owned(), first_bytes: first_bytes.to_vec() };
    app.store.record_error(row);
}
