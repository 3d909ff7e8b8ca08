//! [`FileCache`]: a folder of reproducible files, within limits.
//!
//! Several processes may use one folder: a file exists whole or not at all, and the folder is read each time. A
//! file's modification time is its last use. The least recently used files are removed first ([`surplus`]).

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, SystemTime};

use crate::{Durability, Error, Folder, NewFile, Result};

/// The prefix of files that are being written.
const WRITING: &str = ".writing-";
/// Longest time of writing a file; an older one was left by a process that ended.
const WRITING_MAX: Duration = Duration::from_secs(600);

/// The path of the file of a name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Layout {
    /// `NAME` with this suffix.
    Files(&'static str),
    /// This in a folder `NAME`.
    Folders(&'static str),
}

/// The limits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Bounds {
    /// Bytes of all files together.
    pub bytes_max: u64,
    /// Number of files.
    pub files_max: usize,
}

/// A folder of files.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FileCache {
    /// Its path; created with the first file.
    pub path: PathBuf,
    /// The path of the file of a name.
    pub layout: Layout,
    /// The limits.
    pub bounds: Bounds,
    /// Mode of the files, before the umask.
    pub mode: u32,
    /// The data that a power cut may lose.
    pub durability: Durability,
}

/// A file of a cache.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct CachedFile<Time, Name> {
    /// When it was last used, on any axis.
    pub used: Time,
    /// Its size.
    pub bytes: u64,
    /// Its key.
    pub name: Name,
}

impl FileCache {
    /// The path that the file of a name has or would have.
    pub fn file_path(&self, name: &str) -> PathBuf {
        match self.layout {
            Layout::Files(suffix) => self.path.join(format!("{name}{suffix}")),
            Layout::Folders(file) => self.path.join(name).join(file),
        }
    }

    /// Starts the file of a name; [`FileCache::keep`] gives it its name.
    pub fn begin(&self, name: &str) -> Result<NewFile> {
        static NUMBER: AtomicU64 = AtomicU64::new(0);
        let place = match self.layout {
            Layout::Files(_) => self.path.clone(),
            Layout::Folders(_) => self.path.join(name),
        };
        fs::create_dir_all(&place).map_err(|source| Error::io("create folder", &place, source))?;
        let temporary = format!("{WRITING}{}-{}", std::process::id(), NUMBER.fetch_add(1, Ordering::Relaxed));
        let folder = Folder::open_through_links(place)?;
        // Left by an ended process with the same pid.
        folder.remove(&temporary)?;
        Ok(NewFile::begin(&folder, temporary, self.mode)?.with_durability(self.durability))
    }

    /// Replaces the old file of the name by a started one.
    pub fn keep(&self, file: NewFile, name: &str) -> Result<()> {
        match self.layout {
            Layout::Files(suffix) => file.replace(format!("{name}{suffix}")),
            Layout::Folders(own) => file.replace(own),
        }
    }

    /// All files, in no order.
    pub fn list(&self) -> Result<Vec<CachedFile<SystemTime, String>>> {
        let failed = |source: io::Error| Error::io("list", &self.path, source);
        let mut files = Vec::new();
        for entry in fs::read_dir(&self.path).map_err(failed)? {
            let name = entry.map_err(failed)?.file_name();
            let Some(name) = name.to_str().and_then(|name| self.name(name)) else { continue };
            // Another process may have removed it meanwhile.
            let Ok(state) = self.file_path(name).metadata() else { continue };
            if state.is_file() {
                files.push(CachedFile { used: used(&state), bytes: state.len(), name: name.to_owned() });
            }
        }
        Ok(files)
    }

    /// Removes files beyond the limits, except `kept`, and half-written ones.
    pub fn make_room(&self, kept: Option<&str>) -> Result<()> {
        self.remove_abandoned()?;
        let files = self.list()?;
        let room = files
            .iter()
            .filter(|file| Some(file.name.as_str()) == kept)
            .fold((0, 0), |(bytes, count), file| (bytes + file.bytes, count + 1));
        let others = files.into_iter().filter(|file| Some(file.name.as_str()) != kept);
        for name in surplus(others, room, self.bounds) {
            self.remove(&name)?;
        }
        Ok(())
    }

    /// Removes the file of a name; a missing one is no error.
    pub fn remove(&self, name: &str) -> Result<()> {
        let (path, removed) = match self.layout {
            Layout::Files(_) => (self.file_path(name), fs::remove_file(self.file_path(name))),
            Layout::Folders(_) => (self.path.join(name), fs::remove_dir_all(self.path.join(name))),
        };
        match removed {
            Err(error) if error.kind() != io::ErrorKind::NotFound => Err(Error::io("delete", path, error)),
            _ => Ok(()),
        }
    }

    /// The name of an entry in the folder.
    fn name<'a>(&self, entry: &'a str) -> Option<&'a str> {
        let name = match self.layout {
            Layout::Files(suffix) => entry.strip_suffix(suffix)?,
            Layout::Folders(_) => entry,
        };
        (!name.is_empty() && !name.starts_with('.')).then_some(name)
    }

    /// Removes half-written files of processes that ended. Those in folders are removed with their folder.
    fn remove_abandoned(&self) -> Result<()> {
        let failed = |source: io::Error| Error::io("list", &self.path, source);
        for entry in fs::read_dir(&self.path).map_err(failed)? {
            let entry = entry.map_err(failed)?;
            let is_writing = entry.file_name().as_encoded_bytes().starts_with(WRITING.as_bytes());
            if is_writing && entry.metadata().is_ok_and(|state| is_abandoned(&state)) {
                remove_file(&entry.path())?;
            }
        }
        Ok(())
    }
}

/// The names of the files to remove, least recently used first, until the others and `room` (other bytes and files) are
/// within the limits.
pub fn surplus<Time: Ord, Name: Ord>(
    files: impl IntoIterator<Item = CachedFile<Time, Name>>,
    room: (u64, usize),
    bounds: Bounds,
) -> Vec<Name> {
    let mut files: Vec<CachedFile<Time, Name>> = files.into_iter().collect();
    let mut bytes = files.iter().fold(room.0, |sum, file| sum.saturating_add(file.bytes));
    let mut count = files.len().saturating_add(room.1);
    if bytes <= bounds.bytes_max && count <= bounds.files_max {
        return Vec::new();
    }
    files.sort_unstable();
    let mut names = Vec::new();
    for file in files {
        if bytes <= bounds.bytes_max && count <= bounds.files_max {
            break;
        }
        bytes = bytes.saturating_sub(file.bytes);
        count -= 1;
        names.push(file.name);
    }
    names
}

fn used(state: &fs::Metadata) -> SystemTime {
    state.modified().unwrap_or(SystemTime::UNIX_EPOCH)
}

fn is_abandoned(state: &fs::Metadata) -> bool {
    used(state).elapsed().is_ok_and(|age| age > WRITING_MAX)
}

/// Removes a file; another process may have been faster.
fn remove_file(path: &Path) -> Result<()> {
    match fs::remove_file(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(Error::io("delete", path, error)),
        _ => Ok(()),
    }
}
