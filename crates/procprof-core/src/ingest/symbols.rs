//! Names for addresses, and the facts that list missing files.
//!
//! The names are looked up in a child process ([`prepare_child`](super::prepare_child)). When it fails, the profile
//! stays as it is and an error row contains the reason.

use std::path::PathBuf;
use std::sync::Arc;

use bytes::Bytes;
use procprof_process::Identity;
use procprof_profile::{Addr, LocationId, Mapping, MappingId, Meta, Profile, ProfileId};
use procprof_store::{Encoded, Entry, NewProfile};
use procprof_symbolize::{MappingOutcome, Outcome, Reason, Sources, WantedFile, WantedShare, symbolize_profile};

use super::Ingest;
use super::prepare::{PrepareRequest, PreparedProfile};
use super::prepare_child::{self, NameSource};
use crate::clock::now;
use crate::remote::Remote;
use crate::shares::Requester;
use crate::symbols::{SymbolKey, UPLOADS, Uploads, WantedSymbols};

/// Most wanted files that are checked.
const WANTED_MAX: usize = 1000;
/// Largest stored profile after unpacking, in bytes; names make it larger than it arrived.
const STORED_MAX: u64 = 1 << 30;

/// Hints for finding the symbols of an incoming profile.
#[derive(Clone, Default)]
pub struct SymbolHints {
    /// The process it is from, if it runs on this host.
    pub process: Option<Identity>,
    /// The binary configured for the node.
    pub binary: Option<PathBuf>,
    /// The node's own symbol page, where that is allowed.
    pub remote: Option<Remote>,
}

/// The result of looking for names.
#[derive(Debug, Default)]
struct MissingNames {
    unresolved: usize,
    unverified: bool,
    /// File, build id, and the share of the profile it hides; the uploads that fit it, if those are several; whether it
    /// was read and is stripped.
    wanted: Vec<(String, String, f64, Vec<SymbolKey>, bool)>,
    /// Keys of the uploaded indexes that gave names.
    used: Vec<SymbolKey>,
}

impl MissingNames {
    fn from_outcome(profile: &Profile, outcome: &Outcome, used: Vec<SymbolKey>) -> MissingNames {
        let wanted = outcome.wanted_shares(profile).into_iter().take(WANTED_MAX);
        let fitting = |file: &WantedFile| {
            let of_file = outcome.mappings.iter().filter(|mapping| mapping.wanted().as_ref() == Some(file));
            let keys = of_file.map(|mapping| &mapping.fitting_keys).find(|keys| !keys.is_empty());
            keys.into_iter().flatten().filter_map(|key| key.parse().ok()).collect()
        };
        MissingNames {
            unresolved: outcome.unresolved_count(),
            unverified: outcome.is_unverified(),
            wanted: wanted
                .map(|WantedShare { file, share, is_stripped }| {
                    (file.filename.clone(), file.build_id.clone(), share, fitting(&file), is_stripped)
                })
                .collect(),
            used,
        }
    }
}

/// Fills in what names the sources give, and notes in the facts what is missing; the uploads used and how many
/// addresses got a name.
pub(super) fn name(profile: Profile, meta: &mut Meta, sources: &mut Sources<'_>) -> (Profile, Vec<SymbolKey>, usize) {
    // What an earlier look noted is out of date.
    meta.more.retain(|key, _| !["unresolved-locations", "symbolize-error"].contains(&key.as_str()));
    match symbolize_profile(profile.clone(), sources) {
        Ok((named, outcome)) => {
            drop(profile);
            let found = MissingNames::from_outcome(&named, &outcome, Uploads::used(&outcome));
            note(meta, &found);
            (named, found.used, outcome.resolved_count())
        }
        Err(error) => {
            note_failure(&profile, meta, error.to_string());
            (profile, Vec::new(), 0)
        }
    }
}

/// Notes in the facts that names could not be looked up, and which files would name the profile.
pub(super) fn note_failure(profile: &Profile, meta: &mut Meta, why: String) {
    meta.more.insert("symbolize-error".to_owned(), why);
    note(meta, &MissingNames::from_outcome(profile, &nothing_found(profile), Vec::new()));
}

/// Fills in the names of a node's own page, and corrects the list of missing files.
pub(super) fn name_by_page(profile: Profile, meta: &mut Meta, sources: &mut Sources<'_>) -> Profile {
    let Ok((named, outcome)) = symbolize_profile(profile.clone(), sources) else { return profile };
    let shares = outcome.wanted_shares(&named);
    // Of the files that would have helped, those that still would: for addresses that the page has no names for.
    let mut still = WantedSymbols::from_facts(meta);
    still.retain_mut(|wanted| {
        let share =
            shares.iter().find(|share| share.file.filename == wanted.file && share.file.build_id == wanted.build_id);
        wanted.percent = share.map(|share| share.share * 100.0);
        share.is_some()
    });
    WantedSymbols::write(&still, meta);
    meta.more.retain(|key, _| key != "unresolved-locations");
    if outcome.unresolved_count() > 0 {
        meta.more.insert("unresolved-locations".to_owned(), outcome.unresolved_count().to_string());
    }
    if outcome.resolved_count() > 0 {
        meta.more.insert("symbols-from".to_owned(), "the node's symbol page".to_owned());
    }
    named
}

/// Notes in the facts which files would name a profile, as if nothing had been found; for one that is stored without
/// looking.
pub(crate) fn note_unnamed(profile: &Profile, meta: &mut Meta) {
    if has_unnamed(profile) {
        note(meta, &MissingNames::from_outcome(profile, &nothing_found(profile), Vec::new()));
    }
}

/// Whether any location has an address without a name.
pub(super) fn has_unnamed(profile: &Profile) -> bool {
    unnamed(profile).next().is_some()
}

pub(super) fn unnamed(profile: &Profile) -> impl Iterator<Item = Addr> + '_ {
    let named = |index: usize| !profile.lines(LocationId(index as u32)).is_empty();
    let all = profile.locations().iter().enumerate();
    all.filter(move |(index, location)| location.address.0 != 0 && !named(*index)).map(|(_, location)| location.address)
}

/// The facts that list the missing symbols, the unverified ones, and the source of those that were used.
fn note(meta: &mut Meta, found: &MissingNames) {
    if found.unverified {
        meta.more.insert("symbols".to_owned(), "unverified".to_owned());
    }
    if found.unresolved > 0 {
        meta.more.insert("unresolved-locations".to_owned(), found.unresolved.to_string());
    }
    let wanted = found.wanted.iter().map(|(file, build_id, share, fitting, is_stripped)| WantedSymbols {
        file: file.clone(),
        build_id: build_id.clone(),
        percent: Some(share * 100.0),
        fitting: fitting.clone(),
        is_stripped: *is_stripped,
    });
    WantedSymbols::write(&wanted.collect::<Vec<_>>(), meta);
    if !found.used.is_empty() {
        let mut keys: Vec<&str> = meta.more.get(UPLOADS).map(|keys| keys.split(',').collect()).unwrap_or_default();
        keys.extend(found.used.iter().map(SymbolKey::as_str));
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
pub(crate) async fn resymbolize(ingest: &Ingest, id: ProfileId) -> Result<Entry, String> {
    let store = Arc::clone(&ingest.store);
    let opened = tokio::task::spawn_blocking(move || Ok((store.get(id)?, store.open_bytes(id)?)));
    let opened: procprof_store::Result<(Entry, Vec<u8>)> = opened.await.map_err(|error| error.to_string())?;
    let (entry, bytes) = opened.map_err(|error| error.to_string())?;
    let binary = ingest.registry.by_id(entry.node).and_then(|node| node.config.binary.clone());
    let naming = NameSource::files(ingest, &SymbolHints { binary, ..SymbolHints::default() });
    let window = (entry.start, entry.duration);
    let request = PrepareRequest {
        meta: entry.meta,
        window,
        arrived: None,
        requested: None,
        unpacked_max: STORED_MAX,
        requester: Requester::server(),
    };
    let size = bytes.len() as u64;
    let answer = prepare_child::prepare_one(ingest, &request, Bytes::from(bytes), size, naming)
        .await
        .map_err(|why| format!("symbolize: {why}"))?;
    let answer = answer.map_err(|refusal| refusal.to_string())?;
    if let Some(why) = answer.made.meta.more.get("symbolize-error") {
        return Err(why.clone());
    }
    let store = Arc::clone(&ingest.store);
    let replaced = tokio::task::spawn_blocking(move || with_prepared(answer.made, |new| store.replace(new)));
    let entry = replaced.await.map_err(|error| error.to_string())?.map_err(|error| error.to_string())?;
    ingest.symbols.used(&answer.used, now());
    tracing::info!("profile {id}: {} addresses named by what is known now", answer.resolved);
    Ok(entry)
}

/// Gives the store what was made.
pub(super) fn with_prepared(
    made: PreparedProfile,
    keep: impl FnOnce(NewProfile<'_>) -> procprof_store::Result<Entry>,
) -> procprof_store::Result<Entry> {
    let PreparedProfile { meta, start, duration, summary, functions, encoded, is_own } = made;
    let encoded = if is_own { Encoded::Own(&encoded) } else { Encoded::Received(&encoded) };
    keep(NewProfile { meta, encoded, summary, functions: Some(functions), start, duration })
}

/// Has a profile named by the node's own page where names are still missing: the page is queried here, the names are
/// filled in by a child.
///
/// # Errors
/// Why it stays as it is.
pub(super) async fn name_from_page(
    ingest: &Ingest,
    made: &PreparedProfile,
    unnamed: &[Addr],
    remote: &Remote,
) -> Result<PreparedProfile, String> {
    let names = remote.names(unnamed).await.map_err(|error| format!("symbol page: {error}"))?;
    let naming = NameSource::Page(names.into_iter().map(|(address, name)| (address.0, name)).collect());
    let window = (made.start, made.duration);
    let request = PrepareRequest {
        meta: made.meta.clone(),
        window,
        arrived: None,
        requested: None,
        unpacked_max: STORED_MAX,
        requester: Requester::server(),
    };
    let bytes = Bytes::copy_from_slice(&made.encoded);
    let size = bytes.len() as u64;
    let answer = prepare_child::prepare_one(ingest, &request, bytes, size, naming).await?;
    answer.map(|answer| answer.made).map_err(|refusal| refusal.to_string())
}

/// The outcome of symbolizing without any symbols: for a child that failed.
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
        if let Some(outcome) =
            id.map(|id| &mut mappings[id.index()]).filter(|outcome| outcome.filename.starts_with('/'))
        {
            outcome.unresolved = vec![(Reason::FileMissing, 1)];
        }
    }
    Outcome { mappings, ..Outcome::default() }
}
