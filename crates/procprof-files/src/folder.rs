//! [`Folder`]: a folder by its descriptor. Its contents are opened with `O_NOFOLLOW`, so a planted symbolic link is refused and never followed.

use std::ffi::OsStr;
use std::fs::File;
use std::io::Read;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use rustix::fs::{AtFlags, CWD, Dir, FileType, Mode, OFlags, ResolveFlags, Stat};
use rustix::io::Errno;

use crate::{Error, Result};

const DIR_FLAGS: OFlags = OFlags::RDONLY.union(OFlags::DIRECTORY).union(OFlags::CLOEXEC);
/// The mode of folders created here: no access for others than owner and group.
const FOLDER_MODE: Mode = Mode::from_raw_mode(0o750);

/// An open folder. Clones share the descriptor.
#[derive(Clone, Debug)]
pub struct Folder {
    dir: Arc<OwnedFd>,
    path: PathBuf,
}

/// The kind of an entry in a folder.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EntryKind {
    /// A regular file.
    File,
    /// A folder.
    Folder,
    /// A link, pipe, socket or device.
    Other,
}

/// A regular file at one moment; another one, or one that was written to meanwhile, differs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct FileState {
    /// Its device.
    pub device: u64,
    /// Its inode.
    pub inode: u64,
    /// Its size.
    pub bytes: u64,
    /// When it was written to, in nanoseconds since 1970.
    pub modified_nanos: i64,
    /// The user whose file it is.
    pub owner: u32,
}

impl FileState {
    /// The state of an open file.
    ///
    /// # Errors
    /// The system's.
    pub fn from_file(file: &File) -> std::io::Result<FileState> {
        Ok(FileState::new(&rustix::fs::fstat(file)?))
    }

    fn new(state: &Stat) -> FileState {
        FileState {
            device: state.st_dev,
            inode: state.st_ino,
            bytes: state.st_size.unsigned_abs(),
            modified_nanos: state.st_mtime.saturating_mul(1_000_000_000).saturating_add(state.st_mtime_nsec as i64),
            owner: state.st_uid,
        }
    }
}

impl Folder {
    /// Opens a folder that is not itself a symbolic link.
    pub fn open(path: impl AsRef<Path>) -> Result<Folder> {
        Folder::open_with(path.as_ref(), OFlags::NOFOLLOW)
    }

    /// Opens a folder and creates it if it is missing; its parent must exist.
    pub fn make(path: impl AsRef<Path>) -> Result<Folder> {
        let path = path.as_ref();
        make(CWD, path, path)?;
        Folder::open(path)
    }

    /// Opens a folder that the operator named, which may be reached through links.
    pub fn open_through_links(path: impl AsRef<Path>) -> Result<Folder> {
        Folder::open_with(path.as_ref(), OFlags::empty())
    }

    /// Opens a folder as a process sees it that has another root, `/proc/PID/root`: neither links nor `..` lead out of
    /// it.
    ///
    /// # Errors
    /// Also on kernels before 5.6.
    pub fn open_in_root(root: &Path, path: &Path) -> Result<Folder> {
        let shown = || path.to_owned();
        let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let root = rustix::fs::open(root, flags, Mode::empty()).map_err(|errno| Error::io("open", root, errno))?;
        let resolve = ResolveFlags::IN_ROOT | ResolveFlags::NO_MAGICLINKS;
        let dir = rustix::fs::openat2(&root, path, DIR_FLAGS, Mode::empty(), resolve)
            .map_err(|errno| Error::io("open", shown(), errno))?;
        Ok(Folder { dir: Arc::new(dir), path: shown() })
    }

    fn open_with(path: &Path, more: OFlags) -> Result<Folder> {
        let dir =
            rustix::fs::open(path, DIR_FLAGS | more, Mode::empty()).map_err(|errno| Error::io("open", path, errno))?;
        Ok(Folder { dir: Arc::new(dir), path: path.to_owned() })
    }

    /// Opens a folder in this one.
    pub fn folder(&self, name: &str) -> Result<Folder> {
        let path = self.path.join(name);
        let opened = rustix::fs::openat(&self.dir, name, DIR_FLAGS | OFlags::NOFOLLOW, Mode::empty());
        let dir = opened.map_err(|errno| Error::io("open", &path, errno))?;
        Ok(Folder { dir: Arc::new(dir), path })
    }

    /// Opens a folder in this one and creates it if it is missing; it survives a power cut when this returns.
    pub fn make_folder(&self, name: &str) -> Result<Folder> {
        if make(&self.dir, Path::new(name), &self.path.join(name))? {
            self.sync()?;
        }
        self.folder(name)
    }

    /// Its path, for messages.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Names and kinds of its entries, in no order. Names that are not UTF-8 are shown with replacement characters, so
    /// they match no file.
    pub fn entries(&self) -> Result<Vec<(String, EntryKind)>> {
        self.first_entries(usize::MAX)
    }

    /// As [`Folder::entries`], but at most so many of them.
    pub fn first_entries(&self, most: usize) -> Result<Vec<(String, EntryKind)>> {
        let error = |errno: Errno| Error::io("list", &self.path, errno);
        let mut found = Vec::new();
        for entry in Dir::read_from(&self.dir).map_err(error)? {
            let entry = entry.map_err(error)?;
            let name = entry.file_name();
            if name == c"." || name == c".." {
                continue;
            }
            // Some file systems do not report the kind in the listing.
            let kind = match entry.file_type() {
                FileType::Unknown => match rustix::fs::statat(&self.dir, name, AtFlags::SYMLINK_NOFOLLOW) {
                    Ok(state) => FileType::from_raw_mode(state.st_mode),
                    Err(_) => continue,
                },
                kind => kind,
            };
            let kind = match kind {
                FileType::RegularFile => EntryKind::File,
                FileType::Directory => EntryKind::Folder,
                _ => EntryKind::Other,
            };
            if found.len() == most {
                break;
            }
            found.push((name.to_string_lossy().into_owned(), kind));
        }
        Ok(found)
    }

    /// Opens a regular file of at most `bytes_max` bytes, never following a link nor waiting for a pipe; returns it
    /// with its size.
    pub fn file(&self, name: &str, bytes_max: u64) -> Result<(File, u64)> {
        let path = self.path.join(name);
        let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
        let file = rustix::fs::openat(&self.dir, name, flags, Mode::empty())
            .map_err(|errno| Error::io("open", &path, errno))?;
        let file = File::from(file);
        let state = file.metadata().map_err(|source| Error::io("examine", &path, source))?;
        if !state.is_file() {
            return Err(Error::NotRegular { path });
        }
        if state.len() > bytes_max {
            return Err(Error::TooLarge { path, bytes: state.len(), limit: bytes_max });
        }
        Ok((file, state.len()))
    }

    /// Reads a regular file to its end, which may grow meanwhile, up to `bytes_max`.
    pub fn read(&self, name: &str, bytes_max: u64) -> Result<Vec<u8>> {
        let (file, size) = self.file(name, bytes_max)?;
        let path = || self.path.join(name);
        let mut bytes = Vec::with_capacity(usize::try_from(size).unwrap_or(0));
        file.take(bytes_max.saturating_add(1))
            .read_to_end(&mut bytes)
            .map_err(|source| Error::io("read", path(), source))?;
        let read = bytes.len() as u64;
        if read > bytes_max { Err(Error::TooLarge { path: path(), bytes: read, limit: bytes_max }) } else { Ok(bytes) }
    }

    /// The size of a regular file; `None` when there is none of that name.
    pub fn size(&self, name: &str) -> Option<u64> {
        self.state(name).map(|state| state.bytes)
    }

    /// The state of a regular file; `None` when there is none of that name.
    pub fn state(&self, name: &str) -> Option<FileState> {
        let state = rustix::fs::statat(&self.dir, name, AtFlags::SYMLINK_NOFOLLOW).ok()?;
        (FileType::from_raw_mode(state.st_mode) == FileType::RegularFile).then(|| FileState::new(&state))
    }

    /// Removes a file; false when there was none.
    pub fn remove(&self, name: impl AsRef<OsStr>) -> Result<bool> {
        let name = name.as_ref();
        match rustix::fs::unlinkat(&self.dir, name, AtFlags::empty()) {
            Ok(()) => Ok(true),
            Err(Errno::NOENT) => Ok(false),
            Err(errno) => Err(Error::io("delete", self.path.join(name), errno)),
        }
    }

    /// Makes renames and removals in it survive a power cut.
    pub fn sync(&self) -> Result<()> {
        rustix::fs::fsync(&self.dir).map_err(|errno| Error::io("sync", &self.path, errno))
    }

    /// Bytes of its file system that are free for this process; none if it takes no more files.
    pub fn free_bytes(&self) -> Result<u64> {
        let state =
            rustix::fs::fstatvfs(&self.dir).map_err(|errno| Error::io("ask for free space of", &self.path, errno))?;
        // Some file systems have no fixed number of files, and say 0 of 0.
        let takes_no_file = state.f_files > 0 && state.f_favail == 0;
        Ok(if takes_no_file { 0 } else { state.f_bavail.saturating_mul(state.f_frsize) })
    }

    pub(crate) fn descriptor(&self) -> &OwnedFd {
        &self.dir
    }
}

/// Creates a folder; returns whether it was missing.
fn make(dir: impl std::os::fd::AsFd, name: &Path, path: &Path) -> Result<bool> {
    match rustix::fs::mkdirat(dir, name, FOLDER_MODE) {
        Ok(()) => Ok(true),
        Err(Errno::EXIST) => Ok(false),
        Err(errno) => Err(Error::io("create folder", path, errno)),
    }
}
