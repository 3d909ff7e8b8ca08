//! The uploaded indexes as the child process sees them: a folder in which it looks for what it needs.

use std::cell::RefCell;
use std::path::{Path, PathBuf};

use procprof_process::BuildId;
use procprof_symbolize::{Outcome, Source, SymbolIndex, WantedIndex};

use super::SymbolKey;

/// The uploaded indexes, and which of them were asked for.
pub(crate) struct Uploads {
    folder: PathBuf,
    /// Those that were handed out: the key, and what the outcome names them by.
    found: RefCell<Vec<(SymbolKey, PathBuf, Option<BuildId>)>>,
}

impl Uploads {
    /// Those of a folder, as `KEY.index`.
    pub(crate) fn in_folder(folder: &Path) -> Uploads {
        Uploads { folder: folder.to_owned(), found: RefCell::default() }
    }

    /// The index of a file: by its build id, else by how its code is laid out.
    pub(crate) fn find(&self, wanted: &WantedIndex<'_>) -> Option<SymbolIndex> {
        let path = match (wanted.build_id, wanted.layout_key) {
            (Some(build_id), _) => self.folder.join(format!("{build_id}.index")),
            (None, Some(layout_key)) => self.by_layout(&format!("layout-{layout_key}-"))?,
            (None, None) => return None,
        };
        let index = SymbolIndex::open(&path, u64::MAX).ok()?;
        let name = Path::new(index.file_name()).to_owned();
        self.found.borrow_mut().push((index.key().parse().ok()?, name, index.build_id().cloned()));
        Some(index)
    }

    fn by_layout(&self, beginning: &str) -> Option<PathBuf> {
        let names = std::fs::read_dir(&self.folder).ok()?.map_while(Result::ok).map(|entry| entry.file_name());
        let mut fitting: Vec<_> = names.filter_map(|name| name.into_string().ok()).filter(|name| name.starts_with(beginning)).collect();
        fitting.retain(|name| name.ends_with(".index"));
        fitting.sort();
        fitting.first().map(|name| self.folder.join(name))
    }

    /// The keys of those that gave names.
    pub(crate) fn used(&self, outcome: &Outcome) -> Vec<SymbolKey> {
        let files = || outcome.mappings.iter().filter(|mapping| mapping.resolved_count() > 0).flat_map(|mapping| &mapping.used);
        let uploads = || files().filter(|used| used.source == Source::Uploaded);
        let found = self.found.borrow();
        let gave_names = found.iter().filter(|(_, name, build_id)| uploads().any(|used| used.path == *name && used.build_id == *build_id));
        gave_names.map(|(key, ..)| key.clone()).collect()
    }
}
