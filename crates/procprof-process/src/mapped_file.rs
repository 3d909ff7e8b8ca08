//! Opens the file that a process has mapped, whatever happened to its name since.
//!
//! | way | reaches | needs |
//! |---|---|---|
//! | `/proc/PID/map_files/START-END` | the file itself, deleted or not, in any container | privilege |
//! | `/proc/PID/exe` | the main binary itself, deleted or not | the right to trace the process |
//! | `/proc/PID/root` + path | a file in the process's mount namespace | the right to trace the process |
//! | the path | a file in this process's mount namespace | nothing |
//!
//! The first needs no proof. Files opened in the other ways are used only if they are proven to be the mapped file: by
//! device and inode, or (where a file system shows others in maps than in stat, as overlayfs and btrfs do) by the build
//! id in the process's memory.

use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use rustix::fs::{CWD, Mode, OFlags, ResolveFlags};

use crate::image::build_id_in_memory;
use crate::{BuildId, Error, Identity, MappedRange, Pid, Result, procfs};

/// The way in which a mapped file was opened.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Via {
    /// By the kernel's own link to the mapped file.
    MapFiles,
    /// By the kernel's link to the process's executable.
    Exe,
    /// By its path in the process's mount namespace.
    Root,
    /// By its path in this process's mount namespace.
    Path,
}

/// An open file that is proven to be the one a process has mapped.
#[derive(Debug)]
pub struct MappedFile {
    /// The file, open for reading.
    pub file: File,
    /// The path it was opened by; good for as long as the process lives.
    pub path: PathBuf,
    /// The way in which it was opened.
    pub via: Via,
}

/// Opens the file behind `range` of `process`.
pub(crate) fn open_mapped(process: &Identity, range: &MappedRange) -> Result<MappedFile> {
    let pid = process.pid;
    let unreachable = || Error::Unreachable { path: range.path.to_path_buf() };
    if range.inode == 0 || !range.path.is_absolute() {
        return Err(unreachable());
    }
    let link = format!("map_files/{:x}-{:x}", range.start, range.limit);
    let link = procfs::path(pid, &link);
    if let Ok(file) = open_regular(&link) {
        return Ok(MappedFile { file, path: link, via: Via::MapFiles });
    }
    let exe = procfs::path(pid, "exe");
    let root = procfs::path(pid, "root");
    let in_root = root.join(range.path.strip_prefix("/").unwrap_or(&range.path));
    let candidates = [
        (Via::Exe, open_regular(&exe), exe),
        (Via::Root, open_in_root(&root, &range.path), in_root),
        (Via::Path, open_regular(&range.path), range.path.to_path_buf()),
    ];
    for (via, file, path) in candidates {
        if let Ok(file) = file
            && is_mapped_file(pid, range, &file)
        {
            return Ok(MappedFile { file, path, via });
        }
    }
    process.check_current()?;
    Err(unreachable())
}

/// Whether `file` is proven to be what `range` maps.
fn is_mapped_file(pid: Pid, range: &MappedRange, file: &File) -> bool {
    let Ok(metadata) = file.metadata() else {
        return false;
    };
    let device = metadata.dev();
    let device = (rustix::fs::major(device), rustix::fs::minor(device));
    if device == range.device && metadata.ino() == range.inode {
        return true;
    }
    let Ok(Some(of_file)) = BuildId::of_file(file) else {
        return false;
    };
    matches!(build_id_in_memory(pid, range), Ok(Some(id)) if id == of_file)
}

/// Opens a regular file for reading; never blocks on a pipe or device of that name.
///
/// Errs with `InvalidInput` if it is no regular file.
pub fn open_regular(path: &Path) -> io::Result<File> {
    let nonblocking = OFlags::NONBLOCK.bits() as i32;
    let file = OpenOptions::new().read(true).custom_flags(nonblocking).open(path)?;
    only_regular(file)
}

/// As `open_regular`, with `path` and every link on it resolved below `root`.
fn open_in_root(root: &Path, path: &Path) -> io::Result<File> {
    let directory = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let directory = rustix::fs::openat(CWD, root, directory, Mode::empty())?;
    let flags = OFlags::RDONLY | OFlags::NONBLOCK | OFlags::CLOEXEC;
    let resolve = ResolveFlags::IN_ROOT | ResolveFlags::NO_MAGICLINKS;
    let file = rustix::fs::openat2(&directory, path, flags, Mode::empty(), resolve)?;
    only_regular(File::from(file))
}

fn only_regular(file: File) -> io::Result<File> {
    if file.metadata()?.is_file() {
        return Ok(file);
    }
    Err(io::ErrorKind::InvalidInput.into())
}
