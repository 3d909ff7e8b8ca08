//! A folder of indexes: a cache by build id, bounded in size, that may be deleted at any time.
//!
//! It is a [`FileCache`], which several processes may share; a file's modification time is its last use.

use std::fs::File;
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use procprof_files::{Bounds, Durability, FileCache, Layout};
use procprof_process::BuildId;

use super::behind::Writers;

/// The suffix of index files.
const SUFFIX: &str = ".procsyms";
/// Mode of the files, before the umask.
const MODE: u32 = 0o666;

/// A folder of indexes by build id.
///
/// Threads write what [`Image::resolve`](crate::Image::resolve) caches; dropping the last clone waits for them.
#[derive(Debug, Clone)]
pub struct IndexFolder {
    cache: FileCache,
    writers: Arc<Writers>,
}

impl PartialEq for IndexFolder {
    fn eq(&self, other: &Self) -> bool {
        self.cache == other.cache
    }
}

impl Eq for IndexFolder {}

impl IndexFolder {
    /// A folder, created when the first index is stored, and the most bytes that its files may have together.
    pub fn new(folder: PathBuf, bytes_max: u64) -> Self {
        let bounds = Bounds { bytes_max, files_max: usize::MAX };
        let cache = FileCache {
            path: folder,
            layout: Layout::Files(SUFFIX),
            bounds,
            mode: MODE,
            durability: Durability::Cached,
        };
        Self { cache, writers: Arc::default() }
    }

    /// Its path.
    pub fn path(&self) -> &Path {
        &self.cache.path
    }

    /// Stores an index under its build id, then removes the least recently used ones beyond the limit.
    ///
    /// Errs if the folder can't be written, and with [`io::ErrorKind::InvalidInput`] for an index
    /// without a build id.
    pub fn store(&self, build_id: &BuildId, bytes: &[u8]) -> io::Result<()> {
        write(&self.cache, &build_id.to_string(), |file| file.write_all(bytes).map(|()| true))
    }

    /// The most bytes that its files may have together.
    pub(crate) fn bytes_max(&self) -> u64 {
        self.cache.bounds.bytes_max
    }

    /// Waits until everything read so far is written.
    pub fn wait(&self) {
        self.writers.wait(|_| true);
    }

    /// Opens the file under a name, once it is written; with its path.
    pub(crate) fn open_file(&self, name: &str) -> Option<(File, PathBuf)> {
        self.writers.wait(|written| written == name);
        let path = self.cache.file_path(name);
        let file = File::options().read(true).write(true).open(&path).or_else(|_| File::open(&path)).ok()?;
        Some((file, path))
    }

    /// Makes and writes an index in a thread of its own. If that fails, the files are read again the next time.
    pub(crate) fn write_behind(&self, name: &str, make: impl FnOnce(&mut File) -> io::Result<bool> + Send + 'static) {
        let (cache, file) = (self.cache.clone(), name.to_owned());
        self.writers.start(name, move || {
            let _ = write(&cache, &file, make);
        });
    }
}

/// Writes an index, then removes files beyond the limit; `make` returns whether there is anything to store.
fn write(cache: &FileCache, name: &str, make: impl FnOnce(&mut File) -> io::Result<bool>) -> io::Result<()> {
    let mut file = cache.begin(name)?;
    if make(file.file())? {
        cache.keep(file, name)?;
        cache.make_room(None)?;
    }
    Ok(())
}
