//! `DATA/profiles/<node id>/`: the only file that touches profile files.
//!
//! Everything goes through folder descriptors with `O_NOFOLLOW`, so a planted symbolic link is refused and never followed.
//! A new file is written as `.<id>.tmp`, synced, renamed without replacing anything, and its folder synced: it is there whole or not at all.

use std::fs::File;
use std::io::{Read, Write};
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};

use procprof_profile::{Nanos, ProfileId, ProfileType};
use rustix::fs::{AtFlags, Dir, FileType, Mode, OFlags, RenameFlags};
use rustix::io::Errno;

use crate::file_name::{FileName, second_of};
use crate::{Error, Format, Result};

const DIR_FLAGS: OFlags = OFlags::RDONLY.union(OFlags::DIRECTORY).union(OFlags::NOFOLLOW).union(OFlags::CLOEXEC);
/// Seconds tried, after the start, for a name that is free.
const SECONDS_TRIED: i64 = 86_400;

/// The folder of all nodes' folders.
#[derive(Debug)]
pub(crate) struct Folder {
    dir: OwnedFd,
    path: PathBuf,
}

/// What lies in a node's folder.
#[derive(Debug, Default)]
pub(crate) struct Listing {
    /// Names that are profiles'.
    pub(crate) profiles: Vec<String>,
    /// Half-written files of a process that ended.
    pub(crate) temporary: Vec<String>,
    /// Anything else.
    pub(crate) odd: Vec<String>,
}

impl Folder {
    /// Opens `DATA/profiles`, making it when needed.
    pub(crate) fn open(data: &Path) -> Result<Folder> {
        let path = data.join("profiles");
        make_folder(rustix::fs::CWD, &path, &path)?;
        let dir = rustix::fs::openat(rustix::fs::CWD, &path, DIR_FLAGS, Mode::empty()).map_err(|errno| Error::io("open", &path, errno))?;
        Ok(Folder { dir, path })
    }

    /// The nodes that have a folder, ascending.
    pub(crate) fn nodes(&self) -> Result<Vec<u64>> {
        let entries = self.entries(&self.dir, &self.path)?;
        let mut nodes: Vec<u64> =
            entries.iter().filter(|(_, kind)| *kind == FileType::Directory).filter_map(|(name, _)| node_id(name)).collect();
        nodes.sort_unstable();
        Ok(nodes)
    }

    /// What lies in a node's folder.
    pub(crate) fn list(&self, node: u64) -> Result<Listing> {
        let dir = self.node(node)?;
        let mut listing = Listing::default();
        for (name, kind) in self.entries(&dir, &self.at(node, ""))? {
            let regular = kind == FileType::RegularFile;
            let place = match name {
                _ if regular && name.starts_with('.') && name.ends_with(".tmp") => &mut listing.temporary,
                _ if regular && FileName::parse(&name).is_some() => &mut listing.profiles,
                _ => &mut listing.odd,
            };
            place.push(name);
        }
        listing.profiles.sort_unstable();
        Ok(listing)
    }

    /// Writes a file of a profile and gives it the first free name from the second of `start` on. Returns the name.
    pub(crate) fn put(&self, node: u64, id: ProfileId, kind: (&ProfileType, Nanos, Format), chunks: &[&[u8]]) -> Result<String> {
        self.make_node(node)?;
        let dir = self.node(node)?;
        let temporary = format!(".{id}.tmp");
        let name = self.write(&dir, node, &temporary, chunks).and_then(|()| self.publish(&dir, node, &temporary, kind));
        if name.is_err() {
            // Best effort: what is left here is removed when the store is next opened.
            let _ = rustix::fs::unlinkat(&dir, &temporary, AtFlags::empty());
        }
        name
    }

    /// Puts another content under the name of a file, which has the old one until the new one is whole.
    pub(crate) fn replace(&self, node: u64, id: ProfileId, name: &str, chunks: &[&[u8]]) -> Result<()> {
        let dir = self.node(node)?;
        let temporary = format!(".{id}.tmp");
        let renamed = self.write(&dir, node, &temporary, chunks).and_then(|()| {
            rustix::fs::renameat(&dir, &temporary, &dir, name).map_err(|errno| Error::io("rename to", self.at(node, name), errno))
        });
        if renamed.is_err() {
            // Best effort: what is left here is removed when the store is next opened.
            let _ = rustix::fs::unlinkat(&dir, &temporary, AtFlags::empty());
            return renamed;
        }
        rustix::fs::fsync(&dir).map_err(|errno| Error::io("sync", self.at(node, ""), errno))
    }

    /// Opens a profile's file; returns it with its size, which is at most `bytes_max`.
    pub(crate) fn file(&self, node: u64, name: &str, bytes_max: u64) -> Result<(File, u64)> {
        let dir = self.node(node)?;
        open_regular(&dir, name, &self.at(node, name), bytes_max)
    }

    /// Reads a profile's file.
    pub(crate) fn read(&self, node: u64, name: &str, bytes_max: u64) -> Result<Vec<u8>> {
        let (file, size) = self.file(node, name, bytes_max)?;
        read_whole(file, size, bytes_max, &self.at(node, name))
    }

    /// Removes a file of a node's folder; one that is gone already is fine.
    pub(crate) fn remove(&self, node: u64, name: &str) -> Result<()> {
        let dir = match self.node(node) {
            Err(Error::Io { source, .. }) if source.kind() == std::io::ErrorKind::NotFound => return Ok(()),
            dir => dir?,
        };
        match rustix::fs::unlinkat(&dir, name, AtFlags::empty()) {
            Ok(()) | Err(Errno::NOENT) => Ok(()),
            Err(errno) => Err(Error::io("delete", self.at(node, name), errno)),
        }
    }

    /// Bytes of the file system that are free for this process.
    pub(crate) fn free_bytes(&self) -> Result<u64> {
        let state = rustix::fs::fstatvfs(&self.dir).map_err(|errno| Error::io("ask for free space of", &self.path, errno))?;
        Ok(state.f_bavail.saturating_mul(state.f_frsize))
    }

    fn write(&self, dir: &OwnedFd, node: u64, temporary: &str, chunks: &[&[u8]]) -> Result<()> {
        let path = self.at(node, temporary);
        let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let file =
            rustix::fs::openat(dir, temporary, flags, Mode::from_raw_mode(0o640)).map_err(|errno| Error::io("create", &path, errno))?;
        let mut file = File::from(file);
        for chunk in chunks {
            file.write_all(chunk).map_err(|source| Error::io("write", &path, source))?;
        }
        file.sync_all().map_err(|source| Error::io("sync", &path, source))
    }

    fn publish(&self, dir: &OwnedFd, node: u64, temporary: &str, kind: (&ProfileType, Nanos, Format)) -> Result<String> {
        let (profile_type, start, format) = kind;
        for later in 0..SECONDS_TRIED {
            let name = FileName::compose(profile_type, second_of(start, later)?, format);
            match rename_to_free(dir, temporary, &name) {
                Err(Errno::EXIST) => {}
                Err(errno) => return Err(Error::io("rename to", self.at(node, &name), errno)),
                Ok(()) => {
                    let synced = rustix::fs::fsync(dir).map_err(|errno| Error::io("sync", self.at(node, ""), errno));
                    if synced.is_err() {
                        // Best effort: what stays would be listed when the store is next opened.
                        let _ = rustix::fs::unlinkat(dir, &name, AtFlags::empty());
                    }
                    return synced.map(|()| name);
                }
            }
        }
        Err(Error::malformed(self.at(node, "").display().to_string(), "no free name within a day of the start"))
    }

    fn make_node(&self, node: u64) -> Result<()> {
        if make_folder(&self.dir, Path::new(&node.to_string()), &self.at(node, ""))? {
            rustix::fs::fsync(&self.dir).map_err(|errno| Error::io("sync", &self.path, errno))?;
        }
        Ok(())
    }

    fn node(&self, node: u64) -> Result<OwnedFd> {
        rustix::fs::openat(&self.dir, node.to_string(), DIR_FLAGS, Mode::empty())
            .map_err(|errno| Error::io("open", self.at(node, ""), errno))
    }

    fn at(&self, node: u64, name: &str) -> PathBuf {
        self.path.join(node.to_string()).join(name)
    }

    fn entries(&self, dir: &OwnedFd, path: &Path) -> Result<Vec<(String, FileType)>> {
        entries(dir, path)
    }
}

/// Names and kinds of what lies in a folder; names that are not UTF-8 are shown with replacement characters, so they match nothing.
pub(crate) fn entries(dir: &OwnedFd, path: &Path) -> Result<Vec<(String, FileType)>> {
    let error = |errno: Errno| Error::io("list", path, errno);
    let mut found = Vec::new();
    for entry in Dir::read_from(dir).map_err(error)? {
        let entry = entry.map_err(error)?;
        let name = entry.file_name();
        if name == c"." || name == c".." {
            continue;
        }
        // Some file systems do not tell the kind in the listing.
        let kind = match entry.file_type() {
            FileType::Unknown => match rustix::fs::statat(dir, name, AtFlags::SYMLINK_NOFOLLOW) {
                Ok(state) => FileType::from_raw_mode(state.st_mode),
                Err(_) => continue,
            },
            kind => kind,
        };
        found.push((name.to_string_lossy().into_owned(), kind));
    }
    Ok(found)
}

/// Opens a folder that is not reached through a symbolic link at its end.
pub(crate) fn open_folder(path: &Path) -> Result<OwnedFd> {
    rustix::fs::openat(rustix::fs::CWD, path, DIR_FLAGS, Mode::empty()).map_err(|errno| Error::io("open", path, errno))
}

/// Opens a regular file of at most `bytes_max` bytes, never following a symbolic link nor waiting for a pipe.
pub(crate) fn open_regular(dir: &OwnedFd, name: &str, path: &Path, bytes_max: u64) -> Result<(File, u64)> {
    let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
    let file = rustix::fs::openat(dir, name, flags, Mode::empty()).map_err(|errno| Error::io("open", path, errno))?;
    let file = File::from(file);
    let state = file.metadata().map_err(|source| Error::io("examine", path, source))?;
    if !state.is_file() {
        return Err(Error::malformed(path.display().to_string(), "not a regular file"));
    }
    if state.len() > bytes_max {
        return Err(Error::TooLarge { what: path.display().to_string(), bytes: state.len(), limit: bytes_max });
    }
    Ok((file, state.len()))
}

/// Reads a file to its end, which may have grown, but not beyond `bytes_max`.
pub(crate) fn read_whole(file: File, size: u64, bytes_max: u64, path: &Path) -> Result<Vec<u8>> {
    let mut bytes = Vec::with_capacity(size as usize);
    file.take(bytes_max.saturating_add(1)).read_to_end(&mut bytes).map_err(|source| Error::io("read", path, source))?;
    if bytes.len() as u64 > bytes_max {
        return Err(Error::TooLarge { what: path.display().to_string(), bytes: bytes.len() as u64, limit: bytes_max });
    }
    Ok(bytes)
}

/// Makes a folder; tells whether it was not there.
pub(crate) fn make_folder(dir: impl std::os::fd::AsFd, name: &Path, path: &Path) -> Result<bool> {
    match rustix::fs::mkdirat(dir, name, Mode::from_raw_mode(0o750)) {
        Ok(()) => Ok(true),
        Err(Errno::EXIST) => Ok(false),
        Err(errno) => Err(Error::io("create folder", path, errno)),
    }
}

fn rename_to_free(dir: &OwnedFd, from: &str, to: &str) -> rustix::io::Result<()> {
    match rustix::fs::renameat_with(dir, from, dir, to, RenameFlags::NOREPLACE) {
        // A file system without that flag: a hard link does not replace either.
        Err(Errno::INVAL | Errno::NOSYS | Errno::OPNOTSUPP) => {
            rustix::fs::linkat(dir, from, dir, to, AtFlags::empty())?;
            rustix::fs::unlinkat(dir, from, AtFlags::empty())
        }
        renamed => renamed,
    }
}

/// The node a folder name stands for: digits as they are printed, so that each node has one folder.
fn node_id(name: &str) -> Option<u64> {
    name.parse().ok().filter(|node: &u64| node.to_string() == name)
}
