//! [`Store`]: opening, putting, listing, reading, deleting, pinning.

mod functions;
mod import;
mod in_flight;
mod lock_file;
mod reconcile;
mod replace;
mod retain;

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError, RwLock, Weak};
use std::time::{Duration, Instant};

use procprof_files::DiskFormat;
use procprof_profile::{Meta, Nanos, ProfileId, ProfileType};

use self::in_flight::InFlight;
use self::lock_file::LockFile;
use self::reconcile::{add, compare, reconcile};
use crate::blobs::{self, BlobFolder, BlobName, Blobs, Unfinished};
use crate::cache::Cache;
use crate::catalog::{Catalog, KnownFile, NewRow};
use crate::journal::Ledger;
use crate::mutex::lock;
use crate::stored::{self, Facts, FileName};
use crate::{
    CacheKey, Column, Cursor, Encoded, Entry, Error, ErrorEntry, ErrorFilter, ErrorRow, Filter, Format, FunctionTable,
    ItemKey, JournalDamage, NewProfile, Page, PageRequest, Result, RowQuery, Rows, Stamp, StoreOptions, Timeline,
    Usage,
};

pub use self::import::{IMPORTED_FROM, ImportItem, ImportOptions, ImportReport, NOT_A_NAME};
pub use self::reconcile::Reconciled;
pub use self::retain::RetainReport;

/// The data folder: the profiles, and each file in it that has no version of its own.
pub const DATA_FORMAT: DiskFormat = DiskFormat { name: "store", version: 1 };
/// Mode of the file with its version.
const MODE: u32 = 0o640;
/// Seconds tried, after the start, for a name that is free.
const SECONDS_TRIED: i64 = 86_400;
/// Seconds of them in which names that files had are passed over, too: a node whose profiles all state one start must
/// not run out of names.
const RETIRED_SECONDS: i64 = 1_000;
/// Reads of a file that is replaced each time meanwhile.
const READS_MAX: u32 = 16;

/// A folder of profiles. All methods block; share it between threads by reference.
#[derive(Debug)]
pub struct Store {
    data: PathBuf,
    options: StoreOptions,
    blobs: Box<dyn Blobs>,
    catalog: Catalog,
    ledger: Mutex<Ledger>,
    cache: Mutex<Cache>,
    in_flight: InFlight,
    /// Held for reading by operations that change files and rows together, for writing by a rebuild.
    gate: RwLock<()>,
    /// Taken after the gate, and held while something is deleted or pinned, so that checks made before are still valid.
    removal: Mutex<()>,
    /// The history of the clock.
    timeline: Mutex<Timeline>,
    /// Profiles whose files turned out to be unreadable, with the reasons.
    damaged: Mutex<BTreeMap<ProfileId, String>>,
    /// Profiles that retention could not delete and has reported.
    undeletable: Mutex<BTreeSet<ItemKey>>,
    opened: Opened,
    /// The last one, so that the folder is free when all else has ended.
    lock_file: LockFile,
}

/// The result of comparing a file with its row.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Examination {
    /// The row tells what the file contains.
    Known,
    /// The file does not tell whose it is.
    Unknown,
}

/// Profiles with unreadable files that a store remembers, at most.
const DAMAGED_MAX: usize = 10_000;

/// The report of opening.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Opened {
    /// Why the catalog was rebuilt, if it was.
    pub rebuilt: Option<String>,
    /// The changes from comparing catalog and folder.
    pub reconciled: Reconciled,
    /// Damage of the journal.
    pub journal: JournalDamage,
    /// The time it took.
    pub took: Duration,
}

/// The report of a rebuild.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Rebuilt {
    /// The files read from the folder.
    pub reconciled: Reconciled,
    /// The time it took.
    pub took: Duration,
}

impl Store {
    /// Opens a data folder and creates it if needed. It belongs to this process alone until the store is dropped.
    ///
    /// Half-written files are removed; the catalog is compared with the files, and rebuilt when it is missing, broken
    /// or of another version. One of more than 64 MiB is read through only by the first [`Store::retain`]; until then
    /// damage is repaired when it is found.
    ///
    /// # Errors
    /// [`Error::Locked`] when another process has it open; [`Error::Version`] when a newer program has written it: then
    /// nothing is changed.
    pub fn open(data: impl AsRef<Path>, options: StoreOptions) -> Result<Store> {
        let data = data.as_ref();
        Store::open_with(data, options, || Ok(Box::new(BlobFolder::open(data.join("profiles"))?)))
    }

    /// As [`Store::open`], with the profiles in another backend than the data folder, which has the rest. The backend
    /// also belongs to this store alone.
    ///
    /// # Errors
    /// As [`Store::open`].
    pub fn open_on(data: impl AsRef<Path>, blobs: Box<dyn Blobs>, options: StoreOptions) -> Result<Store> {
        Store::open_with(data.as_ref(), options, || Ok(blobs))
    }

    fn open_with(data: &Path, options: StoreOptions, blobs: impl FnOnce() -> Result<Box<dyn Blobs>>) -> Result<Store> {
        let started = Instant::now();
        // Also before the lock is taken, which writes into the folder.
        DATA_FORMAT.check_folder(data)?;
        std::fs::create_dir_all(data).map_err(|source| Error::io("create folder", data, source))?;
        let lock = LockFile::take(data)?;
        let (mut ledger, journal) = Ledger::open(data, &options)?;
        let blobs = blobs()?;
        let cache = Cache::open(data, options.cache_bytes_max)?;
        let (catalog, rebuilt) = Catalog::open(&data.join("catalog.sqlite"), options.readers)?;
        let compare = |catalog: &Catalog| reconcile(&*blobs, catalog, &options, Unfinished::Discard);
        let (reconciled, rebuilt) = match compare(&catalog) {
            Err(error) if error.is_catalog_corrupt() => (catalog.replace(compare)?, Some(error.to_string())),
            reconciled => (reconciled?, rebuilt),
        };
        if rebuilt.is_some() {
            catalog.set_complete()?;
        }
        ledger.reserve();
        // A full disk must not keep the server from starting: a folder without is of version 1.
        if let Err(error) = DATA_FORMAT.mark_folder(data, MODE) {
            tracing::warn!(%error, "write the version of the data folder");
        }
        std::fs::File::open(data)
            .and_then(|folder| folder.sync_all())
            .map_err(|source| Error::io("sync", data, source))?;
        let opened = Opened { rebuilt, reconciled, journal, took: started.elapsed() };
        log_opened(data, &opened);
        Ok(Store {
            data: data.to_owned(),
            options,
            blobs,
            catalog,
            ledger: Mutex::new(ledger),
            cache: Mutex::new(cache),
            in_flight: InFlight::default(),
            gate: RwLock::default(),
            removal: Mutex::default(),
            timeline: Mutex::new(Timeline::open(data)),
            damaged: Mutex::default(),
            undeletable: Mutex::default(),
            opened,
            lock_file: lock,
        })
    }

    /// The report of opening.
    pub fn opened(&self) -> &Opened {
        &self.opened
    }

    /// A reference that can be upgraded as long as the folder belongs to this process. It outlives the last reference to
    /// the store, which is gone before what it refers to has been dropped.
    pub fn held(&self) -> Weak<()> {
        self.lock_file.held()
    }

    /// Stores a profile. If this returns an entry, the profile survives a power cut; if it returns an error, nothing is
    /// left of it.
    ///
    /// # Errors
    /// [`Error::Incomplete`] without id, node or type; [`Error::Malformed`] when `encoded` is no intact pprof with that
    /// id in its comments; [`Error::Exists`], [`Error::TooLarge`], [`Error::DiskFull`].
    pub fn put(&self, profile: NewProfile<'_>) -> Result<Entry> {
        let prepared = prepared(profile, &self.options)?;
        let content = (Format::Pprof, prepared.functions.as_ref());
        self.keep(&prepared.facts, content, &prepared.chunks())
    }

    /// Keeps a recording of a JVM that profiles were made of, as it was recorded: listed, retained and deleted as a
    /// profile of the type `recording`.
    ///
    /// # Errors
    /// [`Error::Malformed`] when it is none; [`Error::Exists`], [`Error::TooLarge`], [`Error::DiskFull`].
    pub fn put_recording(&self, node: u64, start: Nanos, bytes: &[u8]) -> Result<Entry> {
        stored::check_recording(bytes)?;
        let (size, limit) = (bytes.len() as u64, self.options.profile_bytes_max);
        if size > limit {
            return Err(Error::TooLarge { what: "recording".to_owned(), bytes: size, limit });
        }
        let profile_type = ProfileType::Other("recording".to_owned());
        let meta = Meta {
            id: Some(stored::content_id(bytes)),
            node: Some(node),
            profile_type: Some(profile_type),
            ..Meta::default()
        };
        self.keep(&Facts { meta, start, ..Facts::default() }, (Format::Recording, None), &[bytes])
    }

    /// The profile with that id.
    pub fn get(&self, id: ProfileId) -> Result<Entry> {
        self.healing(|| self.catalog.get(id))?.map(|entry| self.with_pin(entry)).ok_or(Error::NotFound { id })
    }

    /// Whether there is a profile with that id.
    pub fn contains(&self, id: ProfileId) -> Result<bool> {
        Ok(self.healing(|| self.catalog.file_of(id))?.is_some())
    }

    /// The profile of a node with that file name.
    pub fn by_name(&self, node: u64, file_name: &str) -> Result<Option<Entry>> {
        Ok(self.healing(|| self.catalog.by_name(node, file_name))?.map(|entry| self.with_pin(entry)))
    }

    /// The newest profile of a node and type, by completion.
    pub fn newest(&self, node: u64, profile_type: &ProfileType) -> Result<Option<Entry>> {
        Ok(self.healing(|| self.catalog.newest(node, profile_type))?.map(|entry| self.with_pin(entry)))
    }

    /// A page of profiles, newest first by completion, then by id, descending.
    pub fn list(&self, filter: &Filter, page: &PageRequest<Cursor>) -> Result<Page<Entry, Cursor>> {
        let mut found = self.healing(|| self.catalog.list(filter, page))?;
        let ledger = lock(&self.ledger);
        for entry in &mut found.rows {
            entry.pinned = ledger.pins().contains(&entry.id);
        }
        Ok(found)
    }

    /// Rows of many profiles by columns, as a snapshot at the time when the first of them are read.
    ///
    /// # Errors
    /// [`Error::Argument`] when the filter has too many values.
    pub fn rows(&self, query: &RowQuery) -> Result<Rows> {
        let pins = match query.columns.contains(&Column::Pinned) {
            true => lock(&self.ledger).pins().clone(),
            false => BTreeSet::new(),
        };
        self.healing(|| self.catalog.rows(query.clone(), pins.clone()))
    }

    /// The file of a profile, as it is stored. A file that was exchanged for that of another profile is never returned:
    /// it is listed under its own id from then on.
    ///
    /// # Errors
    /// [`Error::NotFound`]; [`Error::Gone`] when the file is not there; [`Error::TooLarge`].
    pub fn open_bytes(&self, id: ProfileId) -> Result<Vec<u8>> {
        let mut blob = String::new();
        for _ in 0..READS_MAX {
            let known = self.healing(|| self.catalog.file_of(id))?.ok_or(Error::NotFound { id })?;
            let folder = folder(known.node);
            let name = BlobName::new(&folder, &known.file)?;
            blob = name.to_string();
            let Some(piece) = blobs::read(&*self.blobs, name, self.options.profile_bytes_max)? else { break };
            if piece.stamp == known.stamp {
                return Ok(piece.bytes);
            }
            let seen = self.healing(|| {
                let _gate = self.gate.read().unwrap_or_else(PoisonError::into_inner);
                let _removal = lock(&self.removal);
                self.examine(id)
            })?;
            if seen == Some(Examination::Unknown) {
                return Ok(piece.bytes);
            }
        }
        Err(Error::Gone { id, file: blob })
    }

    /// Remembers that the file of a profile can't be read, until it is replaced or deleted; whether that is new.
    pub fn set_damaged(&self, id: ProfileId, why: impl Into<String>) -> bool {
        let mut damaged = lock(&self.damaged);
        if damaged.len() >= DAMAGED_MAX && !damaged.contains_key(&id) {
            damaged.pop_first();
        }
        damaged.insert(id, why.into()).is_none()
    }

    /// Why the file of a profile can't be read, if that is known.
    pub fn why_damaged(&self, id: ProfileId) -> Option<String> {
        lock(&self.damaged).get(&id).cloned()
    }

    /// Deletes a profile and its cached renderings. Returns what was deleted.
    ///
    /// # Errors
    /// [`Error::Pinned`], [`Error::NotFound`].
    pub fn delete(&self, id: ProfileId) -> Result<Entry> {
        self.healing(|| {
            let _gate = self.gate.read().unwrap_or_else(PoisonError::into_inner);
            let _removal = lock(&self.removal);
            let entry = self.catalog.get(id)?.ok_or(Error::NotFound { id })?;
            if lock(&self.ledger).pins().contains(&id) {
                return Err(Error::Pinned { id });
            }
            if self.remove(id)? { Ok(entry) } else { Err(Error::NotFound { id }) }
        })
    }

    /// Pins a profile: retention keeps it and [`Store::delete`] refuses it. Survives a power cut when this returns.
    ///
    /// # Errors
    /// [`Error::PinsFull`] if pinned files would exceed `pinned_bytes_max` together.
    pub fn pin(&self, id: ProfileId) -> Result<()> {
        self.healing(|| {
            let _gate = self.gate.read().unwrap_or_else(PoisonError::into_inner);
            let _removal = lock(&self.removal);
            let entry = self.catalog.get(id)?.map(|entry| self.with_pin(entry)).ok_or(Error::NotFound { id })?;
            if entry.pinned {
                return Ok(());
            }
            let (pinned, limit) = (self.pinned_bytes()?, self.options.pinned_bytes_max);
            if pinned.saturating_add(entry.bytes) > limit {
                return Err(Error::PinsFull { id, bytes: entry.bytes, pinned, limit });
            }
            lock(&self.ledger).pin(id)
        })
    }

    /// Removes a pin; a profile that is not pinned stays so. Survives a power cut when this returns.
    pub fn unpin(&self, id: ProfileId) -> Result<()> {
        let _removal = lock(&self.removal);
        lock(&self.ledger).unpin(id)
    }

    /// Stores an error row and returns its number. Never fails: if the disk is full, the row is listed and waits in
    /// memory for space.
    pub fn record_error(&self, row: ErrorRow) -> u64 {
        lock(&self.ledger).record(row)
    }

    /// A page of error rows, the last recorded first.
    pub fn list_errors(&self, filter: &ErrorFilter, page: &PageRequest<u64>) -> Page<ErrorEntry, u64> {
        lock(&self.ledger).errors(filter, page)
    }

    /// The usage of the store.
    pub fn usage(&self) -> Result<Usage> {
        let nodes = self.healing(|| self.catalog.sums())?;
        let pinned_bytes = self.healing(|| self.pinned_bytes())?;
        let (errors_waiting, errors_lost) = lock(&self.ledger).waiting();
        Ok(Usage {
            profiles: nodes.iter().map(|node| node.profiles).sum(),
            bytes: nodes.iter().map(|node| node.bytes).sum(),
            nodes,
            pinned_bytes,
            cache_bytes: lock(&self.cache).bytes(),
            free_bytes: self.blobs.free_bytes()?,
            errors_waiting: errors_waiting as u64,
            errors_lost,
        })
    }

    /// Bytes that its disk can still take.
    pub fn free_bytes(&self) -> Result<u64> {
        self.blobs.free_bytes()
    }

    /// Rebuilds the catalog from the files. Puts and deletes wait meanwhile; lists show the old one until the new one
    /// is whole.
    pub fn rebuild(&self) -> Result<Rebuilt> {
        let _gate = self.gate.write().unwrap_or_else(PoisonError::into_inner);
        self.rebuild_behind_gate()
    }

    fn rebuild_behind_gate(&self) -> Result<Rebuilt> {
        let started = Instant::now();
        let reconciled =
            self.catalog.replace(|fresh| reconcile(&*self.blobs, fresh, &self.options, Unfinished::Keep))?;
        Ok(Rebuilt { reconciled, took: started.elapsed() })
    }

    /// A cached rendering.
    pub fn cache_get(&self, key: &CacheKey<'_>) -> Option<Vec<u8>> {
        lock(&self.cache).get(key)
    }

    /// Caches a new rendering and removes the oldest ones beyond the limit. Returns whether it was cached: one larger
    /// than the whole cache is not.
    pub fn cache_put(&self, key: &CacheKey<'_>, content: &[u8], now: Nanos) -> Result<bool> {
        lock(&self.cache).put(key, content, now)
    }

    /// Writes the file of a profile, then its row.
    fn keep(&self, facts: &Facts, content: (Format, Option<&FunctionTable>), chunks: &[&[u8]]) -> Result<Entry> {
        self.healing(|| {
            let _gate = self.gate.read().unwrap_or_else(PoisonError::into_inner);
            self.keep_once(facts, content, chunks)
        })
    }

    fn keep_once(
        &self,
        facts: &Facts,
        (format, functions): (Format, Option<&FunctionTable>),
        chunks: &[&[u8]],
    ) -> Result<Entry> {
        let id = facts.meta.id.ok_or(Error::Incomplete { what: "id" })?;
        let node = facts.meta.node.ok_or(Error::Incomplete { what: "node" })?;
        let profile_type = facts.meta.profile_type.clone().ok_or(Error::Incomplete { what: "type" })?;
        let bytes = chunks.iter().map(|chunk| chunk.len() as u64).sum();
        let _flight = self.in_flight.enter(id, node, &profile_type, facts.completed(), bytes)?;
        if self.catalog.file_of(id)?.is_some() {
            return Err(Error::Exists { id });
        }
        let (file, stamp) = self.put_file(node, (&profile_type, facts.start, format), chunks)?;
        let facts = match format {
            Format::Pprof => Cow::Borrowed(facts),
            _ => Cow::Owned(Facts::of_stored_page(node, &file, id)?),
        };
        let row = NewRow { id, node, file, bytes, stamp, facts, functions: functions.map(Cow::Borrowed) };
        if let Err(error) = self.catalog.insert(&row) {
            if let Err(left) = self.delete_file(node, &row.file) {
                tracing::error!(error = %left, "take back a file without a row");
            }
            return Err(error);
        }
        Ok(self.with_pin(row.entry()?))
    }

    /// Writes a file of a profile under the first name, from the second of its start on, that no file has or, within
    /// [`RETIRED_SECONDS`], had. Returns the name and the file's stamp.
    fn put_file(
        &self,
        node: u64,
        (profile_type, start, format): (&ProfileType, Nanos, Format),
        chunks: &[&[u8]],
    ) -> Result<(String, Stamp)> {
        // An error here means a start that no name can express; later seconds are skipped.
        stored::second_of(start, 0)?;
        let mut failed = None;
        let name = |later| {
            let name = FileName::compose(profile_type, stored::second_of(start, later).ok()?, format);
            match self.catalog.is_retired(node, &name) {
                Ok(retired) => Some((name, retired && later < RETIRED_SECONDS)),
                Err(error) => {
                    failed = Some(error);
                    None
                }
            }
        };
        let names = (0..SECONDS_TRIED).map_while(name);
        let mut names = names.filter_map(|(name, retired)| (!retired).then_some(name));
        let folder = folder(node);
        let put = self.blobs.put(&folder, &mut names, chunks)?;
        match (put, failed) {
            (Some(put), _) => Ok(put),
            (None, Some(error)) => Err(error),
            (None, None) => Err(Error::malformed(folder, "no free name within a day of the start")),
        }
    }

    fn delete_file(&self, node: u64, file: &str) -> Result<()> {
        self.blobs.delete(BlobName::new(&folder(node), file)?)
    }

    /// Removes file, row and cached renderings; returns whether they were there. The caller holds the locks `gate` and
    /// `removal`.
    fn remove(&self, id: ProfileId) -> Result<bool> {
        let Some(known) = self.own_file(id)? else { return Ok(false) };
        self.delete_file(known.node, &known.file)?;
        self.catalog.remove(id)?;
        self.forget(id);
        Ok(true)
    }

    fn forget(&self, id: ProfileId) {
        lock(&self.cache).forget(id);
        lock(&self.damaged).remove(&id);
    }

    /// The file of a profile, which has no other content than the profile's; `None` when there is no such profile. The
    /// caller holds the locks `gate` and `removal`.
    fn own_file(&self, id: ProfileId) -> Result<Option<KnownFile>> {
        let Some(known) = self.catalog.file_of(id)? else { return Ok(None) };
        let piece = self.blobs.get(BlobName::new(&folder(known.node), &known.file)?, 0..0)?;
        if piece.is_none_or(|piece| piece.stamp == known.stamp) {
            return Ok(Some(known));
        }
        self.examine(id)?;
        self.catalog.file_of(id)
    }

    /// Compares the file of a profile with its row, and corrects the row; `None` when there is no such profile. The
    /// caller holds the locks `gate` and `removal`.
    fn examine(&self, id: ProfileId) -> Result<Option<Examination>> {
        let Some(KnownFile { node, file, .. }) = self.catalog.file_of(id)? else { return Ok(None) };
        let compared = compare(&*self.blobs, &self.catalog, &self.options, &[(node, file.clone())])?;
        if !compared.unknown.is_empty() {
            return Ok(Some(Examination::Unknown));
        }
        if !compared.changed.is_empty() {
            let mut done = Reconciled::default();
            add(&*self.blobs, &self.catalog, &self.options, &compared.changed, &mut done)?;
            if self.catalog.file_of(id)?.is_none_or(|known| (known.node, &known.file) != (node, &file)) {
                self.forget(id);
                tracing::warn!(node, file, "the file of profile {id} has another one's content: {id} is gone");
            }
            for odd in &done.odd {
                tracing::warn!("not listed: {odd}");
            }
        }
        Ok(Some(Examination::Known))
    }

    /// Runs a job of the catalog; if the catalog is found to be broken, rebuilds it, unless another thread just did,
    /// and runs the job again.
    fn healing<T>(&self, job: impl Fn() -> Result<T>) -> Result<T> {
        let generation = self.catalog.generation();
        match job() {
            Err(error) if error.is_catalog_corrupt() => {
                self.heal(&error, generation)?;
                job()
            }
            done => done,
        }
    }

    fn heal(&self, error: &Error, generation: u64) -> Result<()> {
        let _gate = self.gate.write().unwrap_or_else(PoisonError::into_inner);
        if self.catalog.generation() == generation {
            tracing::error!(%error, "catalog is broken, rebuilding it");
            let rebuilt = self.rebuild_behind_gate()?;
            tracing::info!(files = rebuilt.reconciled.files, seconds = rebuilt.took.as_secs_f64(), "catalog rebuilt");
        }
        Ok(())
    }

    fn with_pin(&self, mut entry: Entry) -> Entry {
        entry.pinned = lock(&self.ledger).pins().contains(&entry.id);
        entry
    }

    fn pinned_bytes(&self) -> Result<u64> {
        let pins: Vec<ProfileId> = lock(&self.ledger).pins().iter().copied().collect();
        let mut sum: u64 = 0;
        for id in pins {
            sum = sum.saturating_add(self.catalog.get(id)?.map_or(0, |entry| entry.bytes));
        }
        Ok(sum)
    }
}

/// The folder of a node's profiles.
fn folder(node: u64) -> String {
    node.to_string()
}

/// A profile to be written.
struct Prepared<'a> {
    facts: Facts,
    functions: Option<FunctionTable>,
    header: Vec<u8>,
    body: &'a [u8],
}

impl Prepared<'_> {
    /// The file's bytes, in order.
    fn chunks(&self) -> [&[u8]; 2] {
        [&self.header, self.body]
    }
}

/// Checks a profile to be stored and writes its facts where a rebuild finds them.
fn prepared<'a>(profile: NewProfile<'a>, options: &StoreOptions) -> Result<Prepared<'a>> {
    let meta = profile.meta;
    let id = meta.id.ok_or(Error::Incomplete { what: "id" })?;
    meta.node.ok_or(Error::Incomplete { what: "node" })?;
    meta.profile_type.as_ref().ok_or(Error::Incomplete { what: "type" })?;
    let malformed = |why: String| Error::malformed(format!("profile {id}"), why);
    let encoded = profile.encoded.bytes();
    let size = encoded.len() as u64;
    if size > options.profile_bytes_max {
        return Err(Error::TooLarge { what: format!("profile {id}"), bytes: size, limit: options.profile_bytes_max });
    }
    // Debug builds read what this process wrote, too.
    if matches!(profile.encoded, Encoded::Received(_)) || cfg!(debug_assertions) {
        let comments =
            stored::read_comments(encoded, options.unpacked_bytes_max).map_err(|error| malformed(error.to_string()))?;
        if comments.meta.id != Some(id) {
            return Err(malformed("its comments do not name that id".to_owned()));
        }
    }
    let facts = Facts { meta, start: profile.start, duration: profile.duration, summary: profile.summary.cut() };
    let json = facts.to_json()?;
    let header = stored::compose(json.as_bytes(), &facts.summary.thumbnail)?;
    let body = stored::body(encoded).ok_or_else(|| malformed("not gzip".to_owned()))?;
    // In the form in which they will be read back, so that a rebuild changes nothing.
    let facts = Facts::from_json(json.as_bytes(), &facts.summary.thumbnail)?;
    Ok(Prepared { facts, functions: profile.functions, header, body })
}

fn log_opened(data: &Path, opened: &Opened) {
    let Opened { rebuilt, reconciled, journal, took } = opened;
    let (files, seconds) = (reconciled.files, took.as_secs_f64());
    tracing::info!(data = %data.display(), files, added = reconciled.added, dropped = reconciled.dropped, seconds, "store opened");
    if let Some(why) = rebuilt.as_ref().filter(|_| files > 0) {
        tracing::info!(why, files, seconds, "catalog rebuilt");
    }
    if reconciled.leftovers > 0 {
        tracing::info!(count = reconciled.leftovers, "half-written files removed");
    }
    for odd in &reconciled.odd {
        tracing::warn!("not listed: {odd}");
    }
    if *journal != JournalDamage::default() {
        tracing::warn!(torn_bytes = journal.torn_bytes, wrong_lines = journal.wrong_lines, "journal was damaged");
    }
}
