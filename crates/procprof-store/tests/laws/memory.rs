//! Blobs in memory, as an object store has them: no folders, only names with `/` in them.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, LazyLock, Mutex};

use procprof_store::{BlobName, Blobs, Listing, Piece, Result, Stamp, Unfinished};

type Contents = BTreeMap<(String, String), (Vec<u8>, Stamp)>;

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

/// A stamp that no other content has.
fn next_stamp() -> Stamp {
    static NEXT: AtomicU64 = AtomicU64::new(1);
    Stamp(NEXT.fetch_add(1, Ordering::Relaxed))
}

fn key(blob: BlobName<'_>) -> (String, String) {
    (blob.folder().to_owned(), blob.name().to_owned())
}

impl Blobs for Memory {
    fn put(
        &self,
        folder: &str,
        names: &mut dyn Iterator<Item = String>,
        chunks: &[&[u8]],
    ) -> Result<Option<(String, Stamp)>> {
        let mut contents = self.contents.lock().unwrap();
        for name in names {
            if let Entry::Vacant(free) = contents.entry(key(BlobName::new(folder, &name)?)) {
                let stamp = next_stamp();
                free.insert((chunks.concat(), stamp));
                return Ok(Some((name, stamp)));
            }
        }
        Ok(None)
    }

    fn replace(&self, blob: BlobName<'_>, chunks: &[&[u8]]) -> Result<Stamp> {
        let stamp = next_stamp();
        self.contents.lock().unwrap().insert(key(blob), (chunks.concat(), stamp));
        Ok(stamp)
    }

    fn get(&self, blob: BlobName<'_>, range: Range<u64>) -> Result<Option<Piece>> {
        Ok(self.contents.lock().unwrap().get(&key(blob)).map(|(content, stamp)| {
            let end = content.len().min(range.end as usize);
            let start = end.min(range.start as usize);
            Piece { bytes: content[start..end].to_vec(), size: content.len() as u64, stamp: *stamp }
        }))
    }

    fn list(&self, folder: &str, _unfinished: Unfinished) -> Result<Listing> {
        let contents = self.contents.lock().unwrap();
        let below = if folder.is_empty() { String::new() } else { format!("{folder}/") };
        let folders = contents.keys().filter_map(|(own, _)| own.strip_prefix(&below)?.split('/').next());
        let mut folders: Vec<String> = folders.map(str::to_owned).collect();
        folders.dedup();
        let blobs = contents.iter().filter(|((own, _), _)| own == folder);
        let blobs = blobs.map(|((_, name), (_, stamp))| (name.clone(), *stamp)).collect();
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
