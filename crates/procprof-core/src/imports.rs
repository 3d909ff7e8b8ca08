//! Profiles that lie in StarRocks' log folder already, or anywhere else: taken over under an id of their content, so
//! that twice adds nothing.

mod seen;

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use procprof_profile::format::Limits;
use procprof_profile::{Meta, Nanos, ProfileId};
use procprof_store::{ErrorKind, IMPORTED_FROM, ImportItem, ImportOptions, ImportReport, Store};

use crate::clock::now;
use crate::config::Config;
use crate::error::{Error, Result, chain};
use crate::ingest::{Ingest, PrepareRequest, note_unnamed, record_error, store_prepared};
use crate::nodes::{NodeIds, Registry, Role};
use crate::shares::Requester;
use crate::symbols::WantedSymbols;

/// Name of the node that profiles from the log folder belong to.
const LOGS_NODE: &str = "imported";

/// Imports a `proc_profile` folder into a store that no server has open: the node is made when there is none of that
/// name.
///
/// # Errors
/// The folder cannot be read, the time zone is unknown, or the disk is full; single bad files are in the report.
pub fn import_folder(
    data: &Path,
    store: &Store,
    folder: &Path,
    node_name: &str,
    zone: Option<&str>,
) -> Result<ImportReport> {
    let node = NodeIds::open(data, None)?.id(node_name, Role::Service, None)?;
    let options = ImportOptions { node, zone: ImportOptions::zone(zone)?, now: now(), skip: BTreeSet::new() };
    Ok(store.import(folder, &options, &mut |item| take(store, item, node_name))?)
}

/// The files that would name the unnamed addresses of profiles, each with the number of profiles that lack it; the most
/// needed first.
///
/// # Errors
/// The store cannot be read.
pub fn wanted_files(store: &Store, ids: impl IntoIterator<Item = ProfileId>) -> Result<Vec<(String, usize)>> {
    let mut counts: BTreeMap<String, usize> = BTreeMap::new();
    for id in ids {
        for wanted in WantedSymbols::from_facts(&store.get(id)?.meta) {
            *counts.entry(wanted.file).or_default() += 1;
        }
    }
    let mut files: Vec<(String, usize)> = counts.into_iter().collect();
    files.sort_by_key(|(_, count)| std::cmp::Reverse(*count));
    Ok(files)
}

/// The result of taking over the log folder: the report, and how many files an earlier start had seen.
type TakenOver = (ImportReport, usize);

/// Imports what no earlier start has seen: what was deleted since, by retention or by hand, does not come back.
fn import_unseen(store: &Store, data: &Path, folder: &Path, node: u64) -> Result<TakenOver> {
    let (now_there, before) = (seen::files(folder)?, seen::read(data, folder));
    let skip: BTreeSet<String> = now_there
        .iter()
        .filter(|(name, stamp)| before.get(*name) == Some(stamp))
        .map(|(name, _)| name.clone())
        .collect();
    let skipped = skip.len();
    let options = ImportOptions { node, zone: ImportOptions::zone(None)?, now: now(), skip };
    let report = store.import(folder, &options, &mut |item| take(store, item, LOGS_NODE))?;
    seen::write(data, folder, now_there)?;
    Ok((report, skipped))
}

/// Decodes one file and stores it under its id.
fn take(store: &Store, item: &ImportItem<'_>, node_name: &str) -> std::result::Result<(), String> {
    let mut meta = Meta {
        id: Some(item.id),
        node: Some(item.node),
        node_name: node_name.to_owned(),
        role: Role::Service.name().to_owned(),
        profile_type: Some(item.profile_type.clone()),
        trigger: "import".to_owned(),
        ..Meta::default()
    };
    meta.more.insert(IMPORTED_FROM.to_owned(), item.file_name.to_owned());
    let unpacked_max = Limits::default().unpacked_bytes;
    let order = PrepareRequest {
        meta,
        window: (item.start, Nanos(0)),
        arrived: Some(now()),
        requested: None,
        unpacked_max,
        requester: Requester::server(),
    };
    for (mut order, profile) in order.decode(item.bytes).map_err(|refusal| refusal.to_string())? {
        note_unnamed(&profile, &mut order.meta);
        let made = order.finish(profile).map_err(|refusal| refusal.to_string())?;
        store_prepared(store, made).map_err(|error| error.to_string())?;
    }
    Ok(())
}

/// The folder whose profiles are taken over when the server starts: `sys_log_dir/proc_profile`, and the node they
/// belong to.
///
/// # Errors
/// The node cannot be given an id.
pub fn log_folder(config: &Config, registry: &Registry) -> Result<Option<(PathBuf, u64)>> {
    let folder = config.sys_log_dir.as_ref().map(|folder| folder.join("proc_profile")).filter(|folder| folder.is_dir());
    let Some(folder) = folder else { return Ok(None) };
    match registry.past(LOGS_NODE, Role::Service) {
        Ok(node) => Ok(Some((folder, node))),
        Err(Error::Archive(error)) => {
            tracing::warn!("{} is taken over at the next start: {}", folder.display(), chain(&error));
            Ok(None)
        }
        Err(error) => Err(error),
    }
}

/// Takes over what lies in a folder.
pub async fn take_over(ingest: Arc<Ingest>, folder: PathBuf, node: u64) {
    let store = Arc::clone(&ingest.store);
    let (data, from) = (ingest.settings.data.clone(), folder.clone());
    let done = tokio::task::spawn_blocking(move || import_unseen(&store, &data, &from, node)).await;
    match done {
        Ok(Ok((report, skipped))) => tracing::info!(
            "{}: {} files added, {} already there, {} refused, {skipped} passed over because an earlier start saw them",
            folder.display(),
            report.added.len(),
            report.already_there.len(),
            report.refused.len()
        ),
        Ok(Err(error)) => {
            let why = format!("{}: {}", folder.display(), crate::error::chain(&error));
            tracing::error!("{why}");
            record_error(&ingest, Some(node), None, ErrorKind::Import, &why, &[]);
        }
        Err(_) => {}
    }
}
