//! The only entry for profiles: schedule, capture-now, import and push all call [`accept`].
//!
//! ```text
//! bytes -> room by unpacked size -> decode -> adjust -> facts -> names -> summary -> encode once -> store
//!                                   `-- here if small and named already, else in a child process --'
//! ```
//! Decoding takes up to [`MEMORY_MULTIPLE`](procprof_profile::format::MEMORY_MULTIPLE) times what a profile unpacks to,
//! so this process decodes small ones only, and few at a time. Partial results beat failure: when no symbols are
//! available, the profile is stored with its addresses, and the facts list the missing files.

mod budget;
mod facts;
mod inspect;
mod missing_functions;
mod prepare;
mod prepare_child;
mod summary;
pub(crate) mod symbols;
#[cfg(test)]
mod tests;
mod thumbnail;

use std::sync::Arc;
use std::time::{Duration, Instant};

use bytes::Bytes;
use procprof_profile::format::{self, Decoded};
use procprof_profile::{Meta, Nanos, Profile, ProfileId, ProfileType};
use procprof_store::{Entry, ErrorKind, ErrorRow, Store};
use tokio::sync::Semaphore;

use budget::Budget;
pub use budget::{Full, Reserved};
pub use facts::SHOWN;
pub use inspect::{Inspected, inspect};
pub use missing_functions::fill_functions;
pub use prepare::{PrepareRequest, Refusal};
pub use prepare_child::symbolize_child_main;
pub(crate) use summary::functions;
pub use symbols::SymbolHints;
pub(crate) use symbols::{note_unnamed, resymbolize};
pub use thumbnail::{COLUMNS, ROWS};

use crate::children::Children;
use crate::clock::now;
use crate::config::Config;
use crate::metrics::Metrics;
use crate::nodes::Registry;
use crate::settings::Settings;
use crate::shares::Requester;
use crate::symbols::{SymbolKey, SymbolStore, WantedSymbols};
use prepare::PreparedProfile;
use prepare_child::NameSource;
use symbols::has_unnamed;

/// Largest profile that is decoded in this process, in bytes after unpacking.
const SMALL: u64 = 1 << 20;
/// Size, in KiB after unpacking, that profiles decoded in this process at a time may have together.
const DECODED_KIB: usize = 4 << 10;

/// Takes profiles in.
pub struct Ingest {
    pub(crate) settings: Arc<Settings>,
    pub(crate) registry: Arc<Registry>,
    pub(crate) store: Arc<Store>,
    pub(crate) metrics: Arc<Metrics>,
    /// Uploaded symbols.
    pub symbols: Arc<SymbolStore>,
    pub(crate) children: Arc<Children>,
    /// The limits of profiles on their way in.
    pub budget: Budget,
    /// KiB of profiles being decoded in this process.
    decodes: Semaphore,
}

impl Ingest {
    /// Takes profiles of the registered nodes into the store.
    pub fn new(
        settings: Arc<Settings>,
        registry: Arc<Registry>,
        store: Arc<Store>,
        metrics: Arc<Metrics>,
        symbols: Arc<SymbolStore>,
        children: Arc<Children>,
    ) -> Ingest {
        let decodes = Semaphore::new(DECODED_KIB);
        Ingest { settings, registry, store, metrics, symbols, children, budget: Budget::default(), decodes }
    }

    /// Takes a place for a profile of which nothing is here yet.
    ///
    /// # Errors
    /// [`Full::Queue`], [`Full::OwnQueue`].
    pub fn reserve(&self, requester: &Requester) -> Result<Reserved, Full> {
        self.budget.enter(&self.config(), requester).inspect_err(|full| self.metrics.refuse(full.reason()))
    }

    /// The configuration at this moment.
    pub(crate) fn config(&self) -> Arc<Config> {
        self.settings.config()
    }
}

/// How long a profile that has arrived waits for room.
const ROOM_WAIT: Duration = Duration::from_secs(30);

/// A profile that has arrived.
pub struct IncomingProfile {
    /// The facts about it; the node must be there.
    pub meta: Meta,
    /// The profile.
    pub data: IncomingData,
    /// Start and length of the capture, for profiles that do not contain them.
    pub window: (Nanos, Nanos),
    /// Hints for finding symbols.
    pub hints: SymbolHints,
    /// The room it took while it came in.
    pub reserved: Option<Arc<Reserved>>,
}

/// A profile on its way in.
pub enum IncomingData {
    /// Bytes from another process, and the requested type.
    Encoded(Bytes, Option<ProfileType>),
    /// Made in this process, and how many bytes it was.
    Decoded(Box<Decoded>, u64),
}

/// Why a profile was not taken in.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum IngestError {
    /// A limit is reached.
    #[error(transparent)]
    Full(#[from] Full),
    /// The bytes are no profile, or none of the requested type.
    #[error(transparent)]
    Refused(#[from] Refusal),
    /// The process that decodes large profiles did not come to an end with it.
    #[error("not decoded: {0}")]
    NotDecoded(String),
    /// The store did not take it.
    #[error(transparent)]
    Store(#[from] procprof_store::Error),
    /// A part of the server ended meanwhile.
    #[error("the server is stopping")]
    Stopping,
}

/// Takes a profile in and returns its row in the list, and those of further profiles in the same file: first the
/// requested one.
///
/// # Errors
/// Nothing is stored then; the caller reports it to its client. A further profile that cannot be stored has an error
/// row.
pub async fn accept(ingest: &Ingest, incoming: IncomingProfile) -> Result<Vec<Entry>, IngestError> {
    let taken = take(ingest, incoming).await;
    if let Err(IngestError::Full(full)) = &taken {
        ingest.metrics.refuse(full.reason());
    }
    taken
}

async fn take(ingest: &Ingest, incoming: IncomingProfile) -> Result<Vec<Entry>, IngestError> {
    let started = Instant::now();
    let IncomingProfile { mut meta, data: content, window, hints, reserved } = incoming;
    let reserved = match reserved {
        Some(reserved) => reserved,
        None => Arc::new(ingest.budget.enter(&ingest.config(), &Requester::server())?),
    };
    meta.id.get_or_insert_with(|| ProfileId(uuid::Uuid::now_v7().as_u128()));
    let (requested, unpacked_max, requester) = (None, reserved.unpacked_max(), reserved.requester().clone());
    let request = PrepareRequest { meta, window, arrived: Some(now()), requested, unpacked_max, requester };
    let (made, length) = match content {
        IncomingData::Encoded(bytes, requested) => {
            let (own, whole) = (Arc::clone(&reserved), bytes.clone());
            let length = bytes.len() as u64;
            let (size, unpacked) = on_thread(move || own.measure(&whole)).await??;
            let bytes = if reserved.reach_at_once(size.max(length)) {
                unpacked.unwrap_or(bytes)
            } else {
                drop(unpacked);
                reserved.reach(size.max(length), ROOM_WAIT).await?;
                bytes
            };
            (prepare_received(ingest, PrepareRequest { requested, ..request }, bytes, size, &hints).await?, length)
        }
        IncomingData::Decoded(decoded, length) => (vec![prepare_own(ingest, request, *decoded, &hints).await?], length),
    };
    let mut entries = Vec::new();
    for made in made {
        ingest.metrics.lost_samples.inc_by(made.meta.lost.unwrap_or(0));
        let (store, node, profile_type) = (Arc::clone(&ingest.store), made.meta.node, made.meta.profile_type.clone());
        match on_thread(move || symbols::with_prepared(made, |new| store.put(new))).await? {
            Ok(entry) => {
                entries.push(entry);
                ingest.metrics.ingested.inc();
            }
            Err(error) if entries.is_empty() => return Err(error.into()),
            Err(error) => {
                record_error(ingest, node, profile_type, ErrorKind::Storage, &crate::error::chain(&error), &[])
            }
        }
    }
    drop(reserved);
    ingest.metrics.ingest_bytes.inc_by(length);
    ingest.metrics.ingest_seconds.observe(started.elapsed().as_secs_f64());
    Ok(entries)
}

/// Makes what others sent; `size` is what it unpacks to.
async fn prepare_received(
    ingest: &Ingest,
    request: PrepareRequest,
    bytes: Bytes,
    size: u64,
    hints: &SymbolHints,
) -> Result<Vec<PreparedProfile>, IngestError> {
    let look = ingest.config().symbolize;
    if size <= SMALL
        && let Some(made) = prepare_in_process(
            ingest,
            request.clone(),
            bytes.clone(),
            size,
            move |has_unnamed| !(has_unnamed && look),
            None,
        )
        .await?
    {
        return Ok(made);
    }
    let naming = if look { NameSource::files(ingest, hints) } else { NameSource::Off };
    let why = match prepare_child::prepare_all(ingest, &request, bytes.clone(), size, naming).await {
        Ok(answers) => {
            let (first, others) = answers?;
            let mut made = vec![with_names_from_page(ingest, first, hints).await?];
            for other in others {
                made.push(with_names_from_page(ingest, other, hints).await?);
            }
            return Ok(made);
        }
        Err(why) if look => why,
        Err(why) => return Err(IngestError::NotDecoded(why)),
    };
    let why = note_error(ingest, &request.meta, &why);
    if size <= SMALL {
        let made = prepare_in_process(ingest, request, bytes, size, |_| true, Some(why)).await?;
        return made.ok_or(IngestError::Stopping);
    }
    let answers = prepare_child::prepare_all(ingest, &request, bytes, size, NameSource::Failed(why))
        .await
        .map_err(IngestError::NotDecoded)?;
    let (first, others) = answers?;
    Ok(std::iter::once(first).chain(others).map(|answer| answer.made).collect())
}

/// Prepares the profiles of a file in this process when it is its turn; `None` unless that is permitted, by whether it
/// has unnamed addresses.
async fn prepare_in_process(
    ingest: &Ingest,
    request: PrepareRequest,
    bytes: Bytes,
    size: u64,
    is_wanted: impl Fn(bool) -> bool + Send + 'static,
    failed: Option<String>,
) -> Result<Option<Vec<PreparedProfile>>, IngestError> {
    let kib = u32::try_from(size / 1024 + 1).unwrap_or(u32::MAX);
    let _turn = ingest.decodes.acquire_many(kib).await.map_err(|_| IngestError::Stopping)?;
    let made = move || {
        let all = request.decode(&bytes)?;
        if !is_wanted(all.iter().any(|(_, profile)| has_unnamed(profile))) {
            return Ok(None);
        }
        let finish = |(mut request, profile): (PrepareRequest, Profile)| {
            if let Some(why) = &failed {
                symbols::note_failure(&profile, &mut request.meta, why.clone());
            }
            request.finish(profile)
        };
        all.into_iter().map(finish).collect::<Result<Vec<PreparedProfile>, Refusal>>().map(Some)
    };
    Ok(on_thread(made).await??)
}

/// Makes what this process measured of itself.
async fn prepare_own(
    ingest: &Ingest,
    mut request: PrepareRequest,
    decoded: Decoded,
    hints: &SymbolHints,
) -> Result<PreparedProfile, IngestError> {
    let profile = request.complete(decoded)?;
    if !ingest.config().symbolize || !has_unnamed(&profile) {
        return Ok(on_thread(move || request.finish(profile)).await??);
    }
    let (profile, encoded) = on_thread(move || {
        let encoded = format::pprof::encode(&profile);
        (profile, encoded)
    })
    .await?;
    let encoded = Bytes::from(encoded.map_err(|error| Refusal::NotEncoded(error.to_string()))?);
    let size = encoded.len() as u64;
    // It is made here, so no limit for what others send holds.
    let in_child = PrepareRequest { unpacked_max: size, ..request.clone() };
    match prepare_child::prepare_one(ingest, &in_child, encoded, size, NameSource::files(ingest, hints)).await {
        Ok(answer) => with_names_from_page(ingest, answer?, hints).await,
        Err(why) => {
            let why = note_error(ingest, &request.meta, &why);
            symbols::note_failure(&profile, &mut request.meta, why);
            Ok(on_thread(move || request.finish(profile)).await??)
        }
    }
}

/// Keeps the reason why names could not be looked up as an error row; the same as the facts have it.
fn note_error(ingest: &Ingest, meta: &Meta, why: &str) -> String {
    let why = format!("symbolize: {why}");
    record_error(ingest, meta.node, meta.profile_type.clone(), ErrorKind::Symbolize, &why, &[]);
    why
}

/// A child's output, with further names by the node's own page where that is allowed.
async fn with_names_from_page(
    ingest: &Ingest,
    answer: prepare_child::ChildOutput,
    hints: &SymbolHints,
) -> Result<PreparedProfile, IngestError> {
    let prepare_child::ChildOutput { made, used, unnamed, .. } = answer;
    ingest.symbols.used(&used, now());
    doubt_symbols(ingest, &made.meta).await;
    if let Some(why) = made.meta.more.get("symbolize-error") {
        record_error(ingest, made.meta.node, made.meta.profile_type.clone(), ErrorKind::Symbolize, why, &[]);
    }
    let Some(remote) = hints.remote.as_ref().filter(|_| !unnamed.is_empty()) else { return Ok(made) };
    match symbols::name_from_page(ingest, &made, &unnamed, remote).await {
        Ok(paged) => Ok(paged),
        Err(why) => {
            record_error(ingest, made.meta.node, made.meta.profile_type.clone(), ErrorKind::Symbolize, &why, &[]);
            Ok(made)
        }
    }
}

/// Has the stored indexes of files that still lack names read through.
async fn doubt_symbols(ingest: &Ingest, meta: &Meta) {
    let wanted = WantedSymbols::from_facts(meta);
    let keys: Vec<SymbolKey> =
        wanted.iter().flat_map(|file| ingest.symbols.find(file)).map(|found| found.key).collect();
    if !keys.is_empty() {
        let symbols = Arc::clone(&ingest.symbols);
        // It fails only while the server stops.
        let _ = on_thread(move || symbols.doubt(&keys, now())).await;
    }
}

async fn on_thread<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> Result<T, IngestError> {
    tokio::task::spawn_blocking(work).await.map_err(|_| IngestError::Stopping)
}

/// Stores a profile that was made.
///
/// # Errors
/// The store's.
pub(crate) fn store_prepared(store: &procprof_store::Store, made: PreparedProfile) -> procprof_store::Result<Entry> {
    symbols::with_prepared(made, |new| store.put(new))
}

/// Keeps an error row where people see it.
pub(crate) fn record_error(
    ingest: &Ingest,
    node: Option<u64>,
    profile_type: Option<procprof_profile::ProfileType>,
    kind: ErrorKind,
    reason: &str,
    first_bytes: &[u8],
) {
    let row = ErrorRow {
        node,
        profile_type,
        time: now(),
        kind,
        reason: reason.to_owned(),
        first_bytes: first_bytes.to_vec(),
    };
    ingest.store.record_error(row);
}
