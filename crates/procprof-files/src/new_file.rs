//! [`NewFile`]: the only way to write a file.

use std::ffi::OsStr;
use std::fs::File;
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};

use rustix::fs::{AtFlags, Mode, OFlags, RenameFlags};
use rustix::io::Errno;

use crate::{Error, Folder, Result};

/// The data that a power cut may lose.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Durability {
    /// Nothing: content and name are on disk when the file has its name.
    #[default]
    Synced,
    /// The file or a part of its content. For files whose reader checks them and can make them again.
    Cached,
}

/// A file that is being written: it has a temporary name until it gets its own, and is removed if dropped before.
#[derive(Debug)]
pub struct NewFile {
    folder: Folder,
    temporary: String,
    /// Taken when it has its name.
    file: Option<File>,
    durability: Durability,
}

impl NewFile {
    /// Begins a file in a folder under a temporary name.
    ///
    /// # Errors
    /// Also when there is something of that name already.
    pub fn begin(folder: &Folder, temporary: impl Into<String>, mode: u32) -> Result<NewFile> {
        let temporary = temporary.into();
        let flags = OFlags::RDWR | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let file = rustix::fs::openat(folder.descriptor(), temporary.as_str(), flags, Mode::from_raw_mode(mode))
            .map_err(|errno| Error::io("create", folder.path().join(&temporary), errno))?;
        Ok(NewFile {
            folder: folder.clone(),
            temporary,
            file: Some(File::from(file)),
            durability: Durability::default(),
        })
    }

    /// The same with another durability.
    #[must_use]
    pub fn with_durability(mut self, durability: Durability) -> NewFile {
        self.durability = durability;
        self
    }

    /// The temporary path of its content.
    pub fn temporary_path(&self) -> PathBuf {
        self.folder.path().join(&self.temporary)
    }

    /// The file, to be written to.
    pub fn file(&mut self) -> &mut File {
        self.file.as_mut().expect("it is taken only when the file has got its name, which takes self")
    }

    /// Appends to the content.
    pub fn write(&mut self, bytes: &[u8]) -> Result<()> {
        self.file().write_all(bytes).map_err(|source| Error::io("write", self.temporary_path(), source))
    }

    /// Gives it its name, replacing any file of that name.
    pub fn replace(self, name: impl AsRef<OsStr>) -> Result<()> {
        let (folder, durability) = (self.folder.clone(), self.durability);
        self.rename(name.as_ref())?;
        match durability {
            Durability::Synced => folder.sync(),
            Durability::Cached => Ok(()),
        }
    }

    /// As [`NewFile::replace`], but returns the file, which is written on, and leaves it to the caller to sync the
    /// folder: where that fails, the new file has the name all the same.
    pub fn rename(mut self, name: impl AsRef<OsStr>) -> Result<File> {
        let name = name.as_ref();
        self.sync_content()?;
        let dir = self.folder.descriptor();
        rustix::fs::renameat(dir, &self.temporary, dir, name)
            .map_err(|errno| Error::io("rename to", self.folder.path().join(name), errno))?;
        Ok(self.named())
    }

    /// Gives it the first free one of the names and returns that; `None` if all are taken. Nothing is replaced.
    pub fn take_free<N: AsRef<OsStr>>(mut self, names: impl IntoIterator<Item = N>) -> Result<Option<N>> {
        self.sync_content()?;
        for name in names {
            match rename_to_free(&self.folder, &self.temporary, name.as_ref()) {
                Err(Errno::EXIST) => {}
                Err(errno) => return Err(Error::io("rename to", self.folder.path().join(name.as_ref()), errno)),
                Ok(()) => {
                    drop(self.named());
                    if self.durability == Durability::Synced
                        && let Err(error) = self.folder.sync()
                    {
                        // Best effort: a file whose name may go with the next power cut was not written.
                        let _ = self.folder.remove(name.as_ref());
                        return Err(error);
                    }
                    return Ok(Some(name));
                }
            }
        }
        Ok(None)
    }

    fn sync_content(&mut self) -> Result<()> {
        match self.durability {
            Durability::Synced => {
                self.file().sync_all().map_err(|source| Error::io("sync", self.temporary_path(), source))
            }
            Durability::Cached => Ok(()),
        }
    }

    fn named(&mut self) -> File {
        self.file.take().expect("a file gets its name once: that takes self")
    }
}

impl Write for NewFile {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.file().write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.file().flush()
    }
}

impl Drop for NewFile {
    fn drop(&mut self) {
        if self.file.is_some() {
            // Best effort: the error that kept it from its name is the one to report.
            let _ = self.folder.remove(&self.temporary);
        }
    }
}

/// Puts a content in the place of a file's old one; the new file has that mode.
///
/// # Errors
/// The old content stays then.
pub fn replace(path: &Path, content: &[u8], mode: u32) -> Result<()> {
    let (file, name) = written(path, content, mode)?;
    file.replace(name)
}

/// Writes a file that is not there yet.
///
/// # Errors
/// [`std::io::ErrorKind::AlreadyExists`] when it is.
pub fn create(path: &Path, content: &[u8], mode: u32) -> Result<()> {
    let (file, name) = written(path, content, mode)?;
    match file.take_free([name])? {
        Some(_) => Ok(()),
        None => Err(Error::io("create", path, io::Error::from(io::ErrorKind::AlreadyExists))),
    }
}

/// Removes a file, which stays removed after a power cut; false when there was none.
pub fn remove(path: &Path) -> Result<bool> {
    let folder = folder_of(path)?;
    let removed = folder.remove(file_name(path)?)?;
    if removed {
        folder.sync()?;
    }
    Ok(removed)
}

fn file_name(path: &Path) -> Result<&OsStr> {
    let no_name = || Error::io("name", path, io::Error::new(io::ErrorKind::InvalidInput, "a path without a file name"));
    path.file_name().ok_or_else(no_name)
}

fn folder_of(path: &Path) -> Result<Folder> {
    Folder::open_through_links(path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new(".")))
}

/// The file with its content, and the name it is to get.
fn written<'a>(path: &'a Path, content: &[u8], mode: u32) -> Result<(NewFile, &'a OsStr)> {
    let name = file_name(path)?;
    let folder = folder_of(path)?;
    let temporary = temporary_name(name);
    // Left by a process of the same number that ended: a container's is always the same.
    folder.remove(&temporary)?;
    let mut file = NewFile::begin(&folder, temporary, mode)?;
    file.write(content)?;
    Ok((file, name))
}

/// A hidden name that no other thread or process uses now.
fn temporary_name(name: &OsStr) -> String {
    static NUMBER: AtomicU64 = AtomicU64::new(0);
    let number = NUMBER.fetch_add(1, Ordering::Relaxed);
    format!(".{}.{}-{number}.tmp", name.display(), std::process::id())
}

fn rename_to_free(folder: &Folder, from: &str, to: &OsStr) -> rustix::io::Result<()> {
    let dir = folder.descriptor();
    match rustix::fs::renameat_with(dir, from, dir, to, RenameFlags::NOREPLACE) {
        // A file system without that flag: a hard link does not replace either.
        Err(Errno::INVAL | Errno::NOSYS | Errno::OPNOTSUPP) => {
            rustix::fs::linkat(dir, from, dir, to, AtFlags::empty())?;
            rustix::fs::unlinkat(dir, from, AtFlags::empty())
        }
        renamed => renamed,
    }
}
