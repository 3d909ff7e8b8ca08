//! A file's content replaced by another, whole or not at all: whatever ends the process before, what was there stays, and nothing lies beside it.

use std::fs::{File, OpenOptions};
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use rustix::fs::{AtFlags, CWD, Mode, OFlags};

/// Writes the bytes to a file that has no name yet and then gives it that of the target. A device or a pipe is written to as it is, and a link leads
/// to its target.
pub(crate) fn write_over(path: &Path, bytes: &[u8]) -> io::Result<()> {
    if path.metadata().is_ok_and(|metadata| !metadata.is_file() && !metadata.is_dir()) {
        return OpenOptions::new().write(true).open(path)?.write_all(bytes);
    }
    let target = path.canonicalize().unwrap_or_else(|_| path.to_owned());
    let temporary = beside(&target);
    let written = write_unnamed(&target, &temporary, bytes)
        .unwrap_or_else(|| std::fs::write(&temporary, bytes))
        .and_then(|()| std::fs::rename(&temporary, &target));
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

/// Writes a file without a name, which goes with the process, and names it once it is whole; `None` where the file system has no such files.
fn write_unnamed(target: &Path, name: &Path, bytes: &[u8]) -> Option<io::Result<()>> {
    let folder = target.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let descriptor = rustix::fs::open(folder, OFlags::TMPFILE | OFlags::WRONLY | OFlags::CLOEXEC, Mode::from_raw_mode(0o666)).ok()?;
    let mut file = File::from(descriptor);
    if let Err(error) = file.write_all(bytes) {
        return Some(Err(error));
    }
    let own = format!("/proc/self/fd/{}", std::os::fd::AsRawFd::as_raw_fd(&file));
    rustix::fs::linkat(CWD, own.as_str(), CWD, name, AtFlags::SYMLINK_FOLLOW).ok().map(Ok)
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
