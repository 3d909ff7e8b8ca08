//! The uploaded indexes as the child process sees them: a folder in which it looks for what it needs.

use std::cell::OnceCell;
use std::path::{Path, PathBuf};

use procprof_symbolize::{Error, Outcome, SymbolIndex, WantedIndex};

use super::{NOTE_BYTES_MAX, Record, SymbolKey};

/// The uploaded indexes.
pub(crate) struct Uploads {
    folder: PathBuf,
    /// Each index with the name of its file; none if one of them cannot be read: then no other is known to be the only
    /// one that fits.
    names: OnceCell<Vec<(String, PathBuf)>>,
}

impl Uploads {
    /// Those of a folder, as `KEY.index`.
    pub(crate) fn in_folder(folder: &Path) -> Uploads {
        Uploads { folder: folder.to_owned(), names: OnceCell::new() }
    }

    /// The indexes of a file: the one of its build id; else of how its code is laid out; where neither is known, all
    /// that may be.
    pub(crate) fn find(&self, wanted: &WantedIndex<'_>) -> Vec<SymbolIndex> {
        let path = match (wanted.build_id, wanted.layout_key) {
            (Some(build_id), _) => Some(self.folder.join(format!("{build_id}.index"))),
            (None, Some(layout_key)) => self.by_layout(&format!("layout-{layout_key}-")),
            (None, None) => return self.fitting(wanted).unwrap_or_default(),
        };
        path.and_then(|path| SymbolIndex::open(&path, u64::MAX).ok()).into_iter().collect()
    }

    fn by_layout(&self, beginning: &str) -> Option<PathBuf> {
        let names = std::fs::read_dir(&self.folder).ok()?.map_while(Result::ok).map(|entry| entry.file_name());
        let mut fitting: Vec<_> =
            names.filter_map(|name| name.into_string().ok()).filter(|name| name.starts_with(beginning)).collect();
        fitting.retain(|name| name.ends_with(".index"));
        fitting.sort();
        fitting.first().map(|name| self.folder.join(name))
    }

    /// All that may be the file, in the order of their paths; `None` if one cannot be read.
    fn fitting(&self, wanted: &WantedIndex<'_>) -> Option<Vec<SymbolIndex>> {
        let names = self.names.get_or_init(|| self.read_names().unwrap_or_default());
        let mut fitting = Vec::new();
        for (_, path) in names.iter().filter(|(name, _)| wanted.is_named(name)) {
            fitting.extend(open(path)?.filter(|index| wanted.may_be(index)));
        }
        Some(fitting)
    }

    fn read_names(&self) -> Option<Vec<(String, PathBuf)>> {
        let mut names = Vec::new();
        for entry in std::fs::read_dir(&self.folder).ok()? {
            let path = entry.ok()?.path();
            if path.extension().is_some_and(|extension| extension == "index")
                && let Some(index) = open(&path)?
            {
                names.push((index.file_name().to_owned(), path));
            }
        }
        names.sort_by(|(_, a), (_, b)| a.cmp(b));
        Some(names)
    }

    /// The sender of an index with its standing; `None` if that is unknown.
    pub(crate) fn sender(&self, key: &SymbolKey) -> Option<String> {
        let note = procprof_files::read(self.folder.join(format!("{key}.json")), NOTE_BYTES_MAX).ok()?;
        let record: Record = serde_json::from_slice(&note).ok()?;
        (!record.by.is_empty()).then(|| format!("{} ({})", record.by, record.owner.name()))
    }

    /// The keys of those that gave names.
    pub(crate) fn used(outcome: &Outcome) -> Vec<SymbolKey> {
        let gave_names = outcome.mappings.iter().filter(|mapping| mapping.resolved_count() > 0);
        let mut keys: Vec<SymbolKey> =
            gave_names.filter_map(|mapping| mapping.index_key.as_ref()?.parse().ok()).collect();
        keys.sort_unstable();
        keys.dedup();
        keys
    }
}

/// An index; none if it is broken or was removed meanwhile. `None` if it is there and cannot be read.
fn open(path: &Path) -> Option<Option<SymbolIndex>> {
    match SymbolIndex::open(path, u64::MAX) {
        Ok(index) => Some(Some(index)),
        Err(Error::Io { source, .. }) if source.kind() != std::io::ErrorKind::NotFound => None,
        Err(_) => Some(None),
    }
}
