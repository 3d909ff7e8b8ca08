//! Names for stored profiles that lacked them: when one is opened and its missing symbols were uploaded meanwhile, its
//! file gets the names.
//!
//! The child process of ingest does it, under the same limits; its result replaces the old file
//! ([`procprof_store::Store::replace`]), so that every report, page, list and download has it from then on. Addresses
//! stay in the file, so better symbols can name it once more. Concurrent requests for a profile share one run; each
//! waits at most `PATIENCE` and else gets the profile as it was.

use std::collections::{BTreeMap, HashMap};
use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use futures_util::future::{BoxFuture, FutureExt, Shared};
use procprof_profile::ProfileId;
use procprof_store::{Entry, ErrorKind, Format};
use tokio_util::task::TaskTracker;

use crate::ingest::{self, Ingest};
use crate::symbols::{Record, WantedSymbols};

/// How long a reader waits for names.
const PATIENCE: Duration = Duration::from_secs(20);
/// Profiles being named or waiting for it; beyond it they are shown as they are.
const WAITING_MAX: usize = 32;
/// Tries remembered, so that symbols that do not help are not tried at each opening.
const TRIED_MAX: usize = 10_000;

type UnderWay = Shared<BoxFuture<'static, Option<Arc<Entry>>>>;

/// Gives stored profiles the names that came later.
pub struct Resymbolizer {
    ingest: Arc<Ingest>,
    tasks: TaskTracker,
    under_way: Mutex<HashMap<ProfileId, UnderWay>>,
    /// A digest of the symbols that were tried, by profile.
    tried: Mutex<BTreeMap<ProfileId, u64>>,
}

impl Resymbolizer {
    /// Names what `ingest` stored.
    pub fn new(ingest: Arc<Ingest>, tasks: TaskTracker) -> Resymbolizer {
        Resymbolizer { ingest, tasks, under_way: Mutex::default(), tried: Mutex::default() }
    }

    /// The profile with the names that uploaded symbols give it, if it lacked some and they are there now; else as it
    /// is.
    pub async fn refreshed(self: &Arc<Self>, entry: Entry) -> Entry {
        let Some(naming) = self.begin(&entry) else { return entry };
        match tokio::time::timeout(PATIENCE, naming).await {
            Ok(Some(named)) => Entry::clone(&named),
            _ => entry,
        }
    }

    fn begin(self: &Arc<Self>, entry: &Entry) -> Option<UnderWay> {
        if entry.format != Format::Pprof || !self.ingest.config().symbolize {
            return None;
        }
        let symbols: Vec<Record> =
            WantedSymbols::from_facts(&entry.meta).iter().flat_map(|wanted| self.ingest.symbols.find(wanted)).collect();
        if symbols.is_empty() {
            return None;
        }
        let mut under_way = self.under_way.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(running) = under_way.get(&entry.id) {
            return Some(running.clone());
        }
        if under_way.len() >= WAITING_MAX || !self.is_untried(entry.id, &symbols) {
            return None;
        }
        let (own, id) = (Arc::clone(self), entry.id);
        // A task of its own: it goes on when the reader goes away.
        let task = self.tasks.spawn(async move {
            let named = ingest::resymbolize(&own.ingest, id).await;
            own.under_way.lock().unwrap_or_else(PoisonError::into_inner).remove(&id);
            match named {
                Ok(entry) => Some(Arc::new(entry)),
                Err(error) => {
                    let entry = own.ingest.store.get(id).ok();
                    let node = entry.as_ref().map(|entry| entry.node);
                    let why = format!("name profile {id} by uploaded symbols: {error}");
                    ingest::record_error(
                        &own.ingest,
                        node,
                        entry.map(|entry| entry.profile_type),
                        ErrorKind::Symbolize,
                        &why,
                        &[],
                    );
                    None
                }
            }
        });
        let naming = async move { task.await.ok().flatten() }.boxed().shared();
        under_way.insert(entry.id, naming.clone());
        Some(naming)
    }

    /// Whether these symbols were not tried on that profile; from now on they were.
    fn is_untried(&self, id: ProfileId, symbols: &[Record]) -> bool {
        let mut hasher = DefaultHasher::new();
        symbols.iter().for_each(|Record { key, stored, .. }| (key, stored).hash(&mut hasher));
        let symbols = hasher.finish();
        let mut tried = self.tried.lock().unwrap_or_else(PoisonError::into_inner);
        if tried.get(&id) == Some(&symbols) {
            return false;
        }
        if tried.len() >= TRIED_MAX {
            // Ids begin with their time: the oldest profile is the least likely to be opened again.
            tried.pop_first();
        }
        tried.insert(id, symbols);
        true
    }
}
