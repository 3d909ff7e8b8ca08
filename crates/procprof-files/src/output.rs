//! An output file named by a user, replaced whole or not at all: if the process ends before, the old content stays, and
//! nothing is left beside it.
//!
//! Unlike [`replace`](crate::replace) it follows a link to its target, writes to devices and pipes directly, and syncs
//! nothing.

use std::fs::{File, OpenOptions};
use std::io::{self, Seek, Write};
use std::path::{Path, PathBuf};

use rustix::fs::{AtFlags, CWD, Mode, OFlags};

/// Writes the bytes to a file that has no name yet and then gives it the target's. Devices and pipes are written to
/// directly, and links are followed.
///
/// # Errors
/// The system's; the old content is unchanged, unless it is a device or a pipe.
pub fn write_over(path: &Path, bytes: &[u8]) -> io::Result<()> {
    write_over_by(path, |file| file.write_all(bytes))
}

/// As [`write_over`], with a function that writes the content piece by piece.
///
/// # Errors
/// As [`write_over`], and those of `content`.
pub fn write_over_by<E: From<io::Error>>(
    path: &Path,
    content: impl FnOnce(&mut File) -> Result<(), E>,
) -> Result<(), E> {
    if path.metadata().is_ok_and(|metadata| !metadata.is_file() && !metadata.is_dir()) {
        return content(&mut OpenOptions::new().write(true).open(path)?);
    }
    let target = path.canonicalize().unwrap_or_else(|_| path.to_owned());
    let temporary = beside(&target);
    let written = match unnamed(&target) {
        Some(mut file) => content(&mut file).and_then(|()| Ok(name(file, &temporary)?)),
        None => File::create(&temporary).map_err(E::from).and_then(|mut file| content(&mut file)),
    };
    let written = written.and_then(|()| Ok(std::fs::rename(&temporary, &target)?));
    if written.is_err() {
        // The write's own error is what the user must see; a leftover that can't be removed is not.
        let _ = std::fs::remove_file(&temporary);
    }
    written
}

fn beside(target: &Path) -> PathBuf {
    let mut name = target.file_name().unwrap_or_default().to_owned();
    name.push(format!(".{}.tmp", std::process::id()));
    target.with_file_name(name)
}

/// A file without a name, which disappears with the process; `None` if the file system has no such files.
fn unnamed(target: &Path) -> Option<File> {
    let folder = target.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let flags = OFlags::TMPFILE | OFlags::RDWR | OFlags::CLOEXEC;
    rustix::fs::open(folder, flags, Mode::from_raw_mode(0o666)).ok().map(File::from)
}

/// Gives such a file its name, or, without `/proc`, copies it there.
fn name(mut file: File, name: &Path) -> io::Result<()> {
    let own = format!("/proc/self/fd/{}", std::os::fd::AsRawFd::as_raw_fd(&file));
    if rustix::fs::linkat(CWD, own.as_str(), CWD, name, AtFlags::SYMLINK_FOLLOW).is_ok() {
        return Ok(());
    }
    file.rewind()?;
    io::copy(&mut file, &mut File::create(name)?).map(drop)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_is_replaced_and_nothing_else_is_left() {
        let folder = tempfile::tempdir().unwrap();
        let (path, link) = (folder.path().join("out"), folder.path().join("link"));
        write_over(&path, b"one").unwrap();
        std::os::unix::fs::symlink(&path, &link).unwrap();
        write_over(&link, b"two").unwrap();
        assert_eq!(std::fs::read(&path).unwrap(), b"two");
        assert!(link.is_symlink());
        let names: Vec<_> = std::fs::read_dir(folder.path()).unwrap().map(|entry| entry.unwrap().file_name()).collect();
        assert_eq!(names.len(), 2, "{names:?}");
    }

    #[test]
    fn a_device_stays_one() {
        write_over(Path::new("/dev/null"), b"gone").unwrap();
        assert!(!Path::new("/dev/null").metadata().unwrap().is_file());
    }

    #[test]
    fn what_cannot_be_written_leaves_nothing() {
        let folder = tempfile::tempdir().unwrap();
        assert!(write_over(&folder.path().join("missing/out"), b"x").is_err());
        std::fs::create_dir(folder.path().join("taken")).unwrap();
        assert!(write_over(&folder.path().join("taken"), b"x").is_err());
        assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 1);
    }
}
