//! Blobs in memory, as an object store has them: no folders, only names with `/` in them.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::{Arc, LazyLock, Mutex};

use procprof_store::{BlobName, Blobs, Listing, Piece, Result, Unfinished};

type Contents = BTreeMap<(String, String), Vec<u8>>;

/// The contents that belong to each data folder, so that what was put is there when it is opened again.
static PLACES: LazyLock<Mutex<BTreeMap<PathBuf, Arc<Mutex<Contents>>>>> = LazyLock::new(Mutex::default);

#[derive(Debug)]
pub(crate) struct Memory {
    contents: Arc<Mutex<Contents>>,
}

impl Memory {
    pub(crate) fn open(data: &Path) -> Memory {
        Memory { contents: Arc::clone(PLACES.lock().unwrap().entry(data.to_owned()).or_default()) }
    }
}

fn key(blob: BlobName<'_>) -> (String, String) {
    (blob.folder().to_owned(), blob.name().to_owned())
}

impl Blobs for Memory {
    fn put(&self, folder: &str, names: &mut dyn Iterator<Item = String>, chunks: &[&[u8]]) -> Result<Option<String>> {
        let mut contents = self.contents.lock().unwrap();
        for name in names {
            if let Entry::Vacant(free) = contents.entry(key(BlobName::new(folder, &name)?)) {
                free.insert(chunks.concat());
                return Ok(Some(name));
            }
        }
        Ok(None)
    }

    fn replace(&self, blob: BlobName<'_>, chunks: &[&[u8]]) -> Result<()> {
        self.contents.lock().unwrap().insert(key(blob), chunks.concat());
        Ok(())
    }

    fn get(&self, blob: BlobName<'_>, range: Range<u64>) -> Result<Option<Piece>> {
        Ok(self.contents.lock().unwrap().get(&key(blob)).map(|content| {
            let end = content.len().min(range.end as usize);
            let start = end.min(range.start as usize);
            Piece { bytes: content[start..end].to_vec(), size: content.len() as u64 }
        }))
    }

    fn list(&self, folder: &str, _unfinished: Unfinished) -> Result<Listing> {
        let contents = self.contents.lock().unwrap();
        let below = if folder.is_empty() { String::new() } else { format!("{folder}/") };
        let folders = contents.keys().filter_map(|(own, _)| own.strip_prefix(&below)?.split('/').next());
        let mut folders: Vec<String> = folders.map(str::to_owned).collect();
        folders.dedup();
        let blobs = contents.keys().filter(|(own, _)| own == folder).map(|(_, name)| name.clone()).collect();
        Ok(Listing { folders, blobs, ..Listing::default() })
    }

    fn delete(&self, blob: BlobName<'_>) -> Result<()> {
        self.contents.lock().unwrap().remove(&key(blob));
        Ok(())
    }

    fn free_bytes(&self) -> Result<u64> {
        Ok(u64::MAX)
    }
}
