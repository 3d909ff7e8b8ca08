//! `DATA/symbols/`: the indexes that were uploaded, by key.
//!
//! ```text
//! KEY.index    the index as it was sent: checked, written beside and renamed, so it is there whole or not at all
//! KEY.json     what it is of, who sent it when, and when it was last used; may be deleted: then who is unknown, and the rest is read again
//! .N.upload    one that is on its way in; removed when the server starts
//! ```
//! A newer index of the same key takes the older one's place unless it tells less. When all together would be larger than `symbols_bytes_max`, those
//! that were used longest ago make room; profiles that were named by them keep their names.

use std::collections::BTreeMap;
use std::fs::DirBuilder;
use std::io;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use procprof_profile::Nanos;

use super::record::Record;
use super::wanted::Wanted;
use super::{SymbolKey, index};
use crate::nodes::write_whole;

/// Time between two notes that symbols are in use.
const NOTE_NANOS: i64 = 3_600_000_000_000;
/// Most indexes kept; beyond it the one used longest ago makes room.
const INDEXES_MAX: usize = 10_000;

/// All uploaded symbols.
pub(crate) struct Shelf {
    folder: PathBuf,
    records: Mutex<BTreeMap<SymbolKey, Record>>,
    uploads: AtomicU64,
}

/// How much room there is.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Room {
    /// Bytes of all indexes together.
    pub(crate) bytes_max: u64,
    /// Bytes to be left free on the disk.
    pub(crate) free_min: u64,
}

/// What became of an upload.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Outcome {
    /// There was none of that key.
    Added,
    /// It took the place of an older one.
    Replaced,
    /// The one that is there tells more, and stays.
    Kept,
}

impl Outcome {
    /// As the API spells it.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Outcome::Added => "added",
            Outcome::Replaced => "replaced",
            Outcome::Kept => "kept",
        }
    }
}

/// What is on the shelf after an upload.
#[derive(Debug)]
pub(crate) struct Put {
    pub(crate) outcome: Outcome,
    /// What is there now under that key.
    pub(crate) record: Record,
    /// What made room for it.
    pub(crate) evicted: Vec<Record>,
}

/// Why symbols are not stored or removed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub(crate) enum ShelfError {
    /// It would not fit even alone.
    #[error("the index has {bytes} bytes, more than symbols_bytes_max = {limit}")]
    TooLarge {
        /// Its size.
        bytes: u64,
        /// The limit.
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

/// A file that is on its way in; removed when dropped.
pub(crate) struct Upload {
    path: PathBuf,
}

impl Upload {
    /// Where its bytes go.
    pub(crate) fn path(&self) -> &Path {
        &self.path
    }
}

impl Drop for Upload {
    fn drop(&mut self) {
        // When it was kept, it has another name by now; else what is left is removed at the next start.
        let _ = std::fs::remove_file(&self.path);
    }
}

impl Shelf {
    /// Opens the folder, making it when needed. What is no index there is told and left alone.
    ///
    /// # Errors
    /// The folder cannot be made or read.
    pub(crate) fn open(data: &Path) -> Result<Shelf, ShelfError> {
        let folder = data.join("symbols");
        let failed = |cause| ShelfError::Io { path: folder.clone(), cause };
        DirBuilder::new().recursive(true).mode(0o750).create(&folder).map_err(failed)?;
        let mut records = BTreeMap::new();
        for entry in std::fs::read_dir(&folder).map_err(failed)? {
            let path = entry.map_err(failed)?.path();
            match path.extension().and_then(|extension| extension.to_str()) {
                Some("upload" | "tmp") => std::fs::remove_file(&path).map_err(|cause| ShelfError::Io { path: path.clone(), cause })?,
                Some("index") => match record_of(&path) {
                    Ok(record) => drop(records.insert(record.key.clone(), record)),
                    Err(why) => tracing::warn!("symbols: {} is not used: {why}", path.display()),
                },
                _ => {}
            }
        }
        Ok(Shelf { folder, records: Mutex::new(records), uploads: AtomicU64::new(0) })
    }

    /// All that is there, by key.
    pub(crate) fn list(&self) -> Vec<Record> {
        self.records().values().cloned().collect()
    }

    /// What is stored by a key.
    pub(crate) fn get(&self, key: &SymbolKey) -> Option<Record> {
        self.records().get(key).cloned()
    }

    /// What would name a file: the index of its build id. Where the profile tells none, those of its name: whether they fit is seen when it is named.
    pub(crate) fn find(&self, wanted: &Wanted) -> Vec<Record> {
        let records = self.records();
        if wanted.build_id.is_empty() {
            return records.values().filter(|record| wanted.is_named(&record.name)).cloned().collect();
        }
        let key: Option<SymbolKey> = wanted.build_id.parse().ok();
        key.and_then(|key| records.get(&key)).cloned().into_iter().collect()
    }

    /// Where the indexes are, as `KEY.index`: for the child process, which looks for what it needs.
    pub(crate) fn folder(&self) -> &Path {
        &self.folder
    }

    fn index_path(&self, key: &SymbolKey) -> PathBuf {
        self.folder.join(format!("{key}.index"))
    }

    /// A place for one that is on its way in.
    pub(crate) fn upload(&self) -> Upload {
        let number = self.uploads.fetch_add(1, Ordering::Relaxed);
        Upload { path: self.folder.join(format!(".{number}.upload")) }
    }

    /// Keeps a checked index under its key.
    ///
    /// # Errors
    /// Nothing is changed then, except that others may have made room.
    pub(crate) fn put(&self, upload: &Upload, record: Record, room: Room) -> Result<Put, ShelfError> {
        let Record { key, bytes, .. } = &record;
        if *bytes > room.bytes_max {
            return Err(ShelfError::TooLarge { bytes: *bytes, limit: room.bytes_max });
        }
        let mut records = self.records();
        let old = records.get(key).cloned();
        if let Some(old) = old.as_ref().filter(|old| old.detail > record.detail) {
            return Ok(Put { outcome: Outcome::Kept, record: old.clone(), evicted: Vec::new() });
        }
        let victims = victims(&records, &record, room.bytes_max);
        for victim in &victims {
            self.delete(&mut records, &victim.key)?;
        }
        self.check_free(room.free_min)?;
        self.write(upload, &record)?;
        records.insert(record.key.clone(), record.clone());
        let outcome = if old.is_some() { Outcome::Replaced } else { Outcome::Added };
        Ok(Put { outcome, record, evicted: victims })
    }

    /// Removes what is stored by a key. Profiles that were named by it keep their names.
    ///
    /// # Errors
    /// [`ShelfError::NotFound`]; or the file cannot be removed.
    pub(crate) fn remove(&self, key: &SymbolKey) -> Result<Record, ShelfError> {
        let mut records = self.records();
        let record = records.get(key).cloned().ok_or_else(|| ShelfError::NotFound(key.clone()))?;
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

    fn records(&self) -> MutexGuard<'_, BTreeMap<SymbolKey, Record>> {
        self.records.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn check_free(&self, min: u64) -> Result<(), ShelfError> {
        let state = rustix::fs::statvfs(&self.folder).map_err(|errno| ShelfError::Io { path: self.folder.clone(), cause: errno.into() })?;
        let free = state.f_bavail.saturating_mul(state.f_frsize);
        if free < min { Err(ShelfError::DiskFull { free, min }) } else { Ok(()) }
    }

    fn write(&self, upload: &Upload, record: &Record) -> Result<(), ShelfError> {
        let path = self.index_path(&record.key);
        let publish = || {
            std::fs::File::open(upload.path())?.sync_all()?;
            std::fs::rename(upload.path(), &path)?;
            std::fs::File::open(&self.folder)?.sync_all()
        };
        publish().map_err(|cause| ShelfError::Io { path: path.clone(), cause })?;
        self.note(record)
    }

    fn note(&self, record: &Record) -> Result<(), ShelfError> {
        let path = self.folder.join(format!("{}.json", record.key));
        let written = serde_json::to_vec(record).map_err(io::Error::other).and_then(|json| write_whole(&path, &json));
        written.map_err(|cause| ShelfError::Io { path, cause })
    }

    fn delete(&self, records: &mut BTreeMap<SymbolKey, Record>, key: &SymbolKey) -> Result<(), ShelfError> {
        for path in [self.index_path(key), self.folder.join(format!("{key}.json"))] {
            match std::fs::remove_file(&path) {
                Err(cause) if cause.kind() != io::ErrorKind::NotFound => return Err(ShelfError::Io { path, cause }),
                _ => {}
            }
        }
        records.remove(key);
        Ok(())
    }
}

/// Those used longest ago that make room for `new`; one of the same key gives way anyhow.
fn victims(records: &BTreeMap<SymbolKey, Record>, new: &Record, bytes_max: u64) -> Vec<Record> {
    let mut others: Vec<&Record> = records.values().filter(|record| record.key != new.key).collect();
    others.sort_by_key(|record| record.last_wanted());
    let mut bytes = others.iter().map(|record| record.bytes).fold(new.bytes, u64::saturating_add);
    let mut count = others.len() + 1;
    let mut victims = Vec::new();
    for record in others {
        if bytes <= bytes_max && count <= INDEXES_MAX {
            break;
        }
        bytes -= record.bytes;
        count -= 1;
        victims.push(record.clone());
    }
    victims
}

/// The record of an index found in the folder. Without the note beside it the index is read through, and who sent it is unknown.
fn record_of(path: &Path) -> Result<Record, String> {
    let metadata = path.metadata().map_err(|error| error.to_string())?;
    let note = std::fs::read(path.with_extension("json")).ok().and_then(|json| serde_json::from_slice::<Record>(&json).ok());
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
        last_used: None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::symbols::record::Detail;

    fn record(key: &str, bytes: u64, last: i64) -> Record {
        let key = key.parse().unwrap();
        let (name, by) = (String::new(), String::new());
        Record { key, name, bytes, functions: 1, detail: Detail::Lines, stored: last, by, last_used: None }
    }

    #[test]
    fn the_least_used_make_room() {
        let records: BTreeMap<_, _> =
            [("aa", 10, 3), ("bb", 20, 1), ("cc", 30, 2)].map(|(key, bytes, last)| (key.parse().unwrap(), record(key, bytes, last))).into();
        let gone = |new: &Record, max: u64| victims(&records, new, max).iter().map(|record| record.key.to_string()).collect::<Vec<_>>();
        assert_eq!(gone(&record("dd", 40, 9), 100), [""; 0]);
        assert_eq!(gone(&record("dd", 40, 9), 99), ["bb"]);
        assert_eq!(gone(&record("dd", 40, 9), 79), ["bb", "cc"]);
        assert_eq!(gone(&record("bb", 40, 9), 80), [""; 0], "its own forerunner does not count");
    }

    #[test]
    fn a_file_is_found_by_its_build_id_or_where_that_is_unknown_by_its_name() {
        let layout =
            |digit: &str, name: &str| Record { name: name.to_owned(), ..record(&format!("layout-{}-{name}", digit.repeat(32)), 1, 1) };
        let named = Record { name: "be.debuginfo".to_owned(), ..record("00fe", 1, 1) };
        let records = [record("00ff", 1, 1), named, layout("1", "be.debug"), layout("2", "fe"), layout("3", "fe")];
        let records = records.map(|record| (record.key.clone(), record)).into();
        let shelf = Shelf { folder: PathBuf::new(), records: Mutex::new(records), uploads: AtomicU64::new(0) };
        let find = |file: &str, build_id: &str| {
            let wanted = Wanted { file: file.to_owned(), build_id: build_id.to_owned(), percent: None, fitting: Vec::new() };
            shelf.find(&wanted).iter().map(|record| record.key.to_string()).collect::<Vec<_>>()
        };
        assert_eq!(find("/x/anything", "00ff"), ["00ff"]);
        assert_eq!(find("/x/be (deleted)", ""), ["00fe".to_owned(), format!("layout-{}-be.debug", "1".repeat(32))]);
        assert_eq!(find("/x/fe", "").len(), 2);
        for (file, build_id) in [("/x/be", "00aa"), ("/x/other", ""), ("", ""), ("", "../x")] {
            assert_eq!(find(file, build_id), [""; 0], "{file} {build_id}");
        }
    }
}
