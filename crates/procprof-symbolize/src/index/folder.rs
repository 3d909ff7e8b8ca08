//! A folder of indexes: a cache by build id, bounded in size, that may be deleted at any time.
//!
//! Files are written under another name and renamed, so that a reader sees a whole index or none,
//! whatever other processes do. A file's time of change is when it was last used; those not used for
//! the longest are removed when the folder is larger than its bound.

use std::fs::{self, File};
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::SystemTime;

use procprof_process::BuildId;

use super::SymbolIndex;
use super::behind::Writers;

/// What names of index files end in.
const SUFFIX: &str = ".procsyms";
/// What names of files begin with that are being written.
const PREFIX: &str = ".writing-";
/// How long a file may be written at, in seconds; an older one was left by a process that ended.
const WRITING_SECONDS_MAX: u64 = 600;

/// A folder of indexes by build id.
///
/// What [`Image::resolve`](crate::Image::resolve) keeps is written by threads of its own; dropping the last clone waits for them.
#[derive(Debug, Clone)]
pub struct IndexFolder {
    folder: PathBuf,
    bytes_max: u64,
    writers: Arc<Writers>,
}

impl PartialEq for IndexFolder {
    fn eq(&self, other: &Self) -> bool {
        (&self.folder, self.bytes_max) == (&other.folder, other.bytes_max)
    }
}

impl Eq for IndexFolder {}

impl IndexFolder {
    /// A folder, made when the first index is stored, and the most its files may have together in bytes.
    pub fn new(folder: PathBuf, bytes_max: u64) -> Self {
        Self { folder, bytes_max, writers: Arc::default() }
    }

    /// Where it is.
    pub fn path(&self) -> &Path {
        &self.folder
    }

    /// The complete index of the file with that build id; `None` if there is none that can be read.
    pub fn find(&self, build_id: &BuildId) -> Option<SymbolIndex> {
        self.open(&build_id.to_string()).filter(|index| index.build_id() == Some(build_id))
    }

    /// Stores an index under its build id, then removes what is too much.
    ///
    /// Errs if the folder can't be written, and with [`io::ErrorKind::InvalidInput`] for an index
    /// without a build id.
    pub fn store(&self, build_id: &BuildId, bytes: &[u8]) -> io::Result<()> {
        self.write(&build_id.to_string(), |file| file.write_all(bytes).map(|()| true))
    }

    /// Waits until all is written that was read so far.
    pub fn wait(&self) {
        self.writers.wait(|_| true);
    }

    /// The index under a name.
    pub(crate) fn open(&self, name: &str) -> Option<SymbolIndex> {
        self.writers.wait(|written| written == name);
        let path = self.folder.join(format!("{name}{SUFFIX}"));
        let file = File::options().read(true).write(true).open(&path).or_else(|_| File::open(&path)).ok()?;
        let index = SymbolIndex::from_file(&file, &path, self.bytes_max).ok()?;
        // Where it can't be marked as used it is forgotten earlier, no more.
        let _ = file.set_modified(SystemTime::now());
        Some(index)
    }

    /// Makes and writes an index in a thread of its own, as [`write`](Self::write). Where that fails the files are read again.
    pub(super) fn write_behind(&self, name: &str, make: impl FnOnce(&mut File) -> io::Result<bool> + Send + 'static) {
        let own = Self::new(self.folder.clone(), self.bytes_max);
        let file = name.to_owned();
        self.writers.start(name, move || {
            let _ = own.write(&file, make);
        });
    }

    /// Writes an index, then removes what is too much; `make` says whether there is anything to keep.
    fn write(&self, name: &str, make: impl FnOnce(&mut File) -> io::Result<bool>) -> io::Result<()> {
        static NUMBER: AtomicU64 = AtomicU64::new(0);
        fs::create_dir_all(&self.folder)?;
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        let temporary = self.folder.join(format!("{PREFIX}{}-{number}", std::process::id()));
        let mut file = File::options().write(true).create_new(true).open(&temporary)?;
        let kept = make(&mut file).and_then(|is_kept| {
            if is_kept {
                fs::rename(&temporary, self.folder.join(format!("{name}{SUFFIX}")))?;
            }
            Ok(is_kept)
        });
        if !matches!(kept, Ok(true)) {
            // The first error is the one to tell.
            let _ = fs::remove_file(&temporary);
        }
        if kept? { self.evict() } else { Ok(()) }
    }

    /// Removes the indexes not used for the longest until the others fit, and what was left half written.
    fn evict(&self) -> io::Result<()> {
        let mut files = Vec::new();
        for entry in fs::read_dir(&self.folder)? {
            let entry = entry?;
            let (name, Ok(metadata)) = (entry.file_name(), entry.metadata()) else { continue };
            let Some(name) = name.to_str() else { continue };
            let used = metadata.modified().unwrap_or(SystemTime::UNIX_EPOCH);
            if name.ends_with(SUFFIX) {
                files.push((used, metadata.len(), entry.path()));
            } else if name.starts_with(PREFIX) && used.elapsed().is_ok_and(|age| age.as_secs() > WRITING_SECONDS_MAX) {
                remove(&entry.path())?;
            }
        }
        files.sort();
        let mut bytes: u64 = files.iter().map(|(_, bytes, _)| bytes).sum();
        for (_, own, path) in files {
            if bytes <= self.bytes_max {
                break;
            }
            remove(&path)?;
            bytes -= own;
        }
        Ok(())
    }
}

/// Removes a file; another process may have been faster.
fn remove(path: &Path) -> io::Result<()> {
    match fs::remove_file(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        removed => removed,
    }
}
