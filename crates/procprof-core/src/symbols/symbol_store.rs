//! `DATA/symbols/`: the indexes that were uploaded, by key.
//!
//! ```text
//! KEY.index    the index as it was sent: checked, written beside and renamed, so it is there whole or not at all
//! KEY.json     its file, who uploaded it when and with which standing, and when it was last used; may be deleted: then
//!              the user is unknown, and the rest is read again
//! .writing-N   one that is on its way in; removed when the server starts
//! ```
//! An index takes the place of another one of its key if its sender has a greater standing ([`Owner`]), or the same and
//! the index more detail. When all together would be larger than `symbols_bytes_max`, those that were used longest ago
//! are removed, each sender's for its own alone ([`make_room`](super::room::make_room)); profiles that were named by
//! them keep their names.

use std::collections::BTreeMap;
use std::fs::DirBuilder;
use std::io;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};

use procprof_files::{Bounds, Durability, FileCache, Folder, Layout, NewFile};
use procprof_profile::Nanos;

use super::record::{Owner, Record};
use super::room::{INDEXES_MAX, UNUSED_DAYS, make_room};
use super::wanted::WantedSymbols;
use super::{NOTE_BYTES_MAX, SymbolKey, index};

/// Time between two notes that symbols are in use.
const NOTE_NANOS: i64 = 3_600_000_000_000;
/// Time between two readings of an index that does not name what it should.
const READ_NANOS: i64 = 3_600_000_000_000;
/// Mode of the files.
const MODE: u32 = 0o640;

/// All uploaded symbols.
pub struct SymbolStore {
    /// The indexes; each call states how much may be kept.
    files: FileCache,
    records: Mutex<BTreeMap<SymbolKey, Record>>,
    /// The times at which indexes that were doubted were read, in UTC nanoseconds.
    read: Mutex<BTreeMap<SymbolKey, i64>>,
}

/// How much room there is.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Room {
    /// Bytes of all indexes together.
    pub(crate) bytes_max: u64,
    /// Bytes to be left free on the disk.
    pub(crate) free_min: u64,
}

/// The result of an upload.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// There was none of that key.
    Added,
    /// It took the place of an older one.
    Replaced,
    /// The existing one is of a greater standing, or of the same and has no less detail, and stays.
    Kept,
}

impl Outcome {
    /// As the API spells it.
    pub fn name(self) -> &'static str {
        match self {
            Outcome::Added => "added",
            Outcome::Replaced => "replaced",
            Outcome::Kept => "kept",
        }
    }
}

/// The content of the store after an upload.
#[derive(Debug)]
pub struct Put {
    pub outcome: Outcome,
    /// The record that is under that key now.
    pub record: Record,
    /// Records that were removed for it.
    pub evicted: Vec<Record>,
}

/// Why symbols are not stored or removed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SymbolStoreError {
    /// It would not fit even alone.
    #[error("the index has {bytes} bytes, more than symbols_bytes_max = {limit}")]
    TooLarge {
        /// Its size.
        bytes: u64,
        /// The limit.
        limit: u64,
    },
    /// Others have what is left, and the sender has too little to remove.
    #[error(
        "symbols_bytes_max = {limit} has no room for {bytes} bytes: a quarter is for each sender, a quarter for \
         operators, and what others sent stays for {} days after its last use",
        UNUSED_DAYS
    )]
    NoRoom {
        /// Its size.
        bytes: u64,
        /// The limit of all.
        limit: u64,
    },
    /// The disk has no room.
    #[error("the disk has {free} bytes free, and data_free_bytes_min = {min} are to stay free")]
    DiskFull {
        /// Bytes free.
        free: u64,
        /// Bytes that are to stay free.
        min: u64,
    },
    /// There are none of that key.
    #[error("no symbols are stored by the key {0}")]
    NotFound(SymbolKey),
    /// A file cannot be written or removed.
    #[error("symbols: {}: {cause}", path.display())]
    Io {
        /// The file.
        path: PathBuf,
        /// The system's reason, part of the message.
        cause: io::Error,
    },
}

impl SymbolStore {
    /// Opens the folder, making it when needed. A file that is no index is logged and left alone.
    ///
    /// # Errors
    /// The folder cannot be made or read.
    pub fn open(data: &Path) -> Result<SymbolStore, SymbolStoreError> {
        let folder = data.join("symbols");
        let failed = |cause| SymbolStoreError::Io { path: folder.clone(), cause };
        DirBuilder::new().recursive(true).mode(0o750).create(&folder).map_err(failed)?;
        let mut records = BTreeMap::new();
        for entry in std::fs::read_dir(&folder).map_err(failed)? {
            let path = entry.map_err(failed)?.path();
            match path.extension().and_then(|extension| extension.to_str()) {
                Some("upload" | "tmp") => remove(&path)?,
                _ if path.file_name().is_some_and(|name| name.as_encoded_bytes().starts_with(b".writing-")) => {
                    remove(&path)?
                }
                Some("index") => match record_of(&path) {
                    Ok(record) => drop(records.insert(record.key.clone(), record)),
                    Err(why) => tracing::warn!("symbols: {} is not used: {why}", path.display()),
                },
                _ => {}
            }
        }
        Ok(SymbolStore { files: files(folder), records: Mutex::new(records), read: Mutex::default() })
    }

    /// All that is there, by key.
    pub fn list(&self) -> Vec<Record> {
        self.records().values().cloned().collect()
    }

    /// The record of a key.
    pub fn get(&self, key: &SymbolKey) -> Option<Record> {
        self.records().get(key).cloned()
    }

    /// The indexes that may name a file: that of its build id. If the profile has none, those of its file name: whether
    /// they fit is checked when they are used.
    pub fn find(&self, wanted: &WantedSymbols) -> Vec<Record> {
        let records = self.records();
        if wanted.build_id.is_empty() {
            return records.values().filter(|record| wanted.is_named(&record.name)).cloned().collect();
        }
        let key: Option<SymbolKey> = wanted.build_id.parse().ok();
        key.and_then(|key| records.get(&key)).cloned().into_iter().collect()
    }

    /// The folder of the indexes, as `KEY.index`: for the child process, which looks for those it needs.
    pub(crate) fn folder(&self) -> &Path {
        &self.files.path
    }

    /// The file of the index of a key.
    pub(crate) fn index_path(&self, key: &SymbolKey) -> PathBuf {
        self.files.path.join(format!("{key}.index"))
    }

    fn note_path(&self, key: &SymbolKey) -> PathBuf {
        self.files.path.join(format!("{key}.json"))
    }

    /// A place for one that is on its way in; it is removed when dropped.
    ///
    /// # Errors
    /// The file cannot be made.
    pub(crate) fn upload(&self) -> Result<NewFile, SymbolStoreError> {
        self.files.begin("").map_err(|error| self.failed(error))
    }

    fn failed(&self, error: procprof_files::Error) -> SymbolStoreError {
        match error {
            procprof_files::Error::Io { path, source, .. } => SymbolStoreError::Io { path, cause: source },
            other => SymbolStoreError::Io { path: self.files.path.clone(), cause: other.into() },
        }
    }

    /// Keeps a checked index under its key.
    ///
    /// # Errors
    /// Nothing is changed then, except that others may have made room.
    pub(crate) fn put(&self, upload: NewFile, record: Record, room: Room) -> Result<Put, SymbolStoreError> {
        let Record { key, bytes, .. } = &record;
        if *bytes > room.bytes_max {
            return Err(SymbolStoreError::TooLarge { bytes: *bytes, limit: room.bytes_max });
        }
        let mut records = self.records();
        let old = records.get(key).cloned();
        if let Some(old) = old.as_ref().filter(|old| !record.replaces(old)) {
            return Ok(Put { outcome: Outcome::Kept, record: old.clone(), evicted: Vec::new() });
        }
        let victims = make_room(records.values(), &record, room.bytes_max)
            .ok_or(SymbolStoreError::NoRoom { bytes: record.bytes, limit: room.bytes_max })?;
        for victim in &victims {
            self.delete(&mut records, &victim.key)?;
        }
        self.check_free(room.free_min)?;
        self.write(upload, &record)?;
        self.read.lock().unwrap_or_else(PoisonError::into_inner).remove(&record.key);
        records.insert(record.key.clone(), record.clone());
        let outcome = if old.is_some() { Outcome::Replaced } else { Outcome::Added };
        Ok(Put { outcome, record, evicted: victims })
    }

    /// Removes what is stored by a key. Profiles that were named by it keep their names.
    ///
    /// # Errors
    /// [`SymbolStoreError::NotFound`]; or the file cannot be removed.
    pub fn remove(&self, key: &SymbolKey) -> Result<Record, SymbolStoreError> {
        let mut records = self.records();
        let record = records.get(key).cloned().ok_or_else(|| SymbolStoreError::NotFound(key.clone()))?;
        self.delete(&mut records, key)?;
        Ok(record)
    }

    /// Notes that a profile was named by these, at most once an hour on disk.
    pub(crate) fn used(&self, keys: &[SymbolKey], now: Nanos) {
        let mut records = self.records();
        for key in keys {
            let Some(record) = records.get_mut(key) else { continue };
            if record.last_used.is_none_or(|last| now.0.saturating_sub(last) >= NOTE_NANOS) {
                record.last_used = Some(now.0);
                if let Err(error) = self.note(record) {
                    tracing::warn!("{error}");
                }
            }
        }
    }

    /// Reads through, at most once an hour, indexes that name less than they should, and removes those that were
    /// damaged since they were stored, so that whoever has their files is asked for them again. Blocks.
    pub(crate) fn doubt(&self, keys: &[SymbolKey], now: Nanos) {
        for key in keys {
            let Some(record) = self.get(key) else { continue };
            {
                let mut read = self.read.lock().unwrap_or_else(PoisonError::into_inner);
                read.retain(|_, last| (0..READ_NANOS).contains(&now.0.saturating_sub(*last)));
                if read.contains_key(key) {
                    continue;
                }
                read.insert(key.clone(), now.0);
            }
            let Err(why) = index::check(&self.index_path(key)) else { continue };
            // Another one may have taken its place meanwhile.
            let mut records = self.records();
            if records.get(key).is_none_or(|now| now.stored != record.stored) {
                continue;
            }
            let removed = self.delete(&mut records, key);
            tracing::warn!(key = key.as_str(), file = record.name, "symbols are damaged, and are wanted again: {why}");
            if let Err(error) = removed {
                tracing::warn!("{error}");
            }
        }
    }

    fn records(&self) -> MutexGuard<'_, BTreeMap<SymbolKey, Record>> {
        self.records.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn check_free(&self, min: u64) -> Result<(), SymbolStoreError> {
        let free = Folder::open_through_links(self.folder())
            .and_then(|folder| folder.free_bytes())
            .map_err(|error| self.failed(error))?;
        if free < min { Err(SymbolStoreError::DiskFull { free, min }) } else { Ok(()) }
    }

    fn write(&self, upload: NewFile, record: &Record) -> Result<(), SymbolStoreError> {
        self.files.keep(upload, record.key.as_str()).map_err(|error| self.failed(error))?;
        self.note(record)
    }

    fn note(&self, record: &Record) -> Result<(), SymbolStoreError> {
        let path = self.note_path(&record.key);
        let written = serde_json::to_vec(record).map_err(io::Error::other);
        let written = written.and_then(|json| Ok(procprof_files::replace(&path, &json, MODE)?));
        written.map_err(|cause| SymbolStoreError::Io { path, cause })
    }

    fn delete(&self, records: &mut BTreeMap<SymbolKey, Record>, key: &SymbolKey) -> Result<(), SymbolStoreError> {
        self.files.remove(key.as_str()).map_err(|error| self.failed(error))?;
        remove(&self.note_path(key))?;
        records.remove(key);
        Ok(())
    }
}

/// The files of a folder of indexes.
fn files(folder: PathBuf) -> FileCache {
    // Their sum is bounded by the configuration of the moment.
    let bounds = Bounds { bytes_max: u64::MAX, files_max: INDEXES_MAX };
    FileCache { path: folder, layout: Layout::Files(".index"), bounds, mode: MODE, durability: Durability::Synced }
}

/// Removes a file; one that is gone already is fine.
fn remove(path: &Path) -> Result<(), SymbolStoreError> {
    match std::fs::remove_file(path) {
        Err(cause) if cause.kind() != io::ErrorKind::NotFound => {
            Err(SymbolStoreError::Io { path: path.to_owned(), cause })
        }
        _ => Ok(()),
    }
}

/// The record of an index found in the folder. Without the note beside it the index is read through, and who sent it is
/// unknown.
fn record_of(path: &Path) -> Result<Record, String> {
    let metadata = path.metadata().map_err(|error| error.to_string())?;
    let note = procprof_files::read(path.with_extension("json"), NOTE_BYTES_MAX).ok();
    let note = note.and_then(|json| serde_json::from_slice::<Record>(&json).ok());
    let stem = path.file_stem().and_then(|stem| stem.to_str()).unwrap_or_default();
    let key = index::key_of(path)?;
    if key.as_str() != stem {
        return Err(format!("it is the index of {key}"));
    }
    if let Some(note) = note.filter(|note| note.key == key && note.bytes == metadata.len()) {
        return Ok(note);
    }
    let facts = index::check(path)?;
    let stored = metadata.modified().ok().and_then(|time| time.duration_since(std::time::UNIX_EPOCH).ok());
    Ok(Record {
        key,
        name: facts.name,
        bytes: metadata.len(),
        functions: facts.functions,
        detail: facts.detail,
        stored: stored.and_then(|time| i64::try_from(time.as_nanos()).ok()).unwrap_or(0),
        by: String::new(),
        owner: Owner::default(),
        last_used: None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::law::{Contents, Row, check, fixtures, line};
    use crate::symbols::record::Detail;

    #[test]
    fn every_version_of_the_folder_is_read() {
        check(&Row {
            name: "symbols",
            version: procprof_store::DATA_FORMAT.version,
            make: make_folder,
            read: read_folder,
            mark: None,
        });
    }

    fn make_folder(data: &Path) {
        let index = std::fs::read(fixtures().join("symbol-index/1/index.procsyms")).unwrap();
        let store = SymbolStore::open(data).unwrap();
        let mut upload = store.upload().unwrap();
        upload.write(&index).unwrap();
        let facts = index::check(&upload.temporary_path()).unwrap();
        let record = Record {
            key: facts.key.clone(),
            name: facts.name,
            bytes: index.len() as u64,
            functions: facts.functions,
            detail: facts.detail,
            stored: 1_763_677_534_000_000_000,
            by: "ann".to_owned(),
            owner: Owner::Operator,
            last_used: None,
        };
        store.put(upload, record, Room { bytes_max: u64::MAX, free_min: 0 }).unwrap();
        store.used(&[facts.key], Nanos(1_763_681_134_000_000_000));
    }

    fn read_folder(data: &Path) -> Contents {
        let mut text = String::new();
        SymbolStore::open(data)?.list().iter().for_each(|one| line(&mut text, one));
        Ok(text)
    }

    fn record(key: &str, bytes: u64, last: i64) -> Record {
        let key = key.parse().unwrap();
        let (name, by) = (String::new(), String::new());
        let (detail, owner) = (Detail::Lines, Owner::Operator);
        Record { key, name, bytes, functions: 1, detail, stored: last, by, owner, last_used: None }
    }

    #[test]
    fn a_file_is_found_by_its_build_id_or_where_that_is_unknown_by_its_name() {
        let layout = |digit: &str, name: &str| Record {
            name: name.to_owned(),
            ..record(&format!("layout-{}-{name}", digit.repeat(32)), 1, 1)
        };
        let named = Record { name: "be.debuginfo".to_owned(), ..record("00fe", 1, 1) };
        let records = [record("00ff", 1, 1), named, layout("1", "be.debug"), layout("2", "fe"), layout("3", "fe")];
        let records = records.map(|record| (record.key.clone(), record)).into();
        let symbol_store =
            SymbolStore { files: files(PathBuf::new()), records: Mutex::new(records), read: Mutex::default() };
        let find = |file: &str, build_id: &str| {
            let wanted = WantedSymbols {
                file: file.to_owned(),
                build_id: build_id.to_owned(),
                percent: None,
                fitting: Vec::new(),
                is_stripped: false,
            };
            symbol_store.find(&wanted).iter().map(|record| record.key.to_string()).collect::<Vec<_>>()
        };
        assert_eq!(find("/x/anything", "00ff"), ["00ff"]);
        assert_eq!(find("/x/be (deleted)", ""), ["00fe".to_owned(), format!("layout-{}-be.debug", "1".repeat(32))]);
        assert_eq!(find("/x/fe", "").len(), 2);
        for (file, build_id) in [("/x/be", "00aa"), ("/x/other", ""), ("", ""), ("", "../x")] {
            assert_eq!(find(file, build_id), [""; 0], "{file} {build_id}");
        }
    }
}
