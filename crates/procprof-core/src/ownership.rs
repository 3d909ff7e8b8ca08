//! Files that decide who gets in: others on this machine must not be able to write them, nor to read a secret.

use std::fs::{File, Metadata};
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};

use rustix::fs::{Mode, OFlags};
use rustix::io::Errno;

use crate::error::{Error, Result};

const OTHERS_READ: u32 = 0o004;
const OTHERS_WRITE: u32 = 0o002;
/// Bytes that a folder must take to count as writable.
const PROBE_BYTES: u64 = 4096;

/// Rejects a file that others can write: they could name themselves as its users.
///
/// # Errors
/// [`Error::OpenToOthers`] with its mode.
pub(crate) fn not_writable(what: &'static str, path: &Path, file: &File) -> Result<()> {
    check(what, path, file, OTHERS_WRITE)
}

/// Refuses a secret that others can read or write.
///
/// # Errors
/// [`Error::OpenToOthers`] with its mode.
pub fn secret(what: &'static str, path: &Path, file: &File) -> Result<()> {
    check(what, path, file, OTHERS_WRITE | OTHERS_READ)
}

fn check(what: &'static str, path: &Path, file: &File, refused: u32) -> Result<()> {
    let metadata = file.metadata().map_err(|cause| Error::File { what, path: path.to_owned(), cause })?;
    match open_to_others(&metadata, refused) {
        Some(may) => Err(Error::OpenToOthers { what, path: path.to_owned(), mode: mode(&metadata), may }),
        None => Ok(()),
    }
}

/// The permission of others, of those `refused`.
fn open_to_others(metadata: &Metadata, refused: u32) -> Option<&'static str> {
    match mode(metadata) & refused {
        0 => None,
        bits if bits & OTHERS_WRITE != 0 => Some("write"),
        _ => Some("read"),
    }
}

fn mode(metadata: &Metadata) -> u32 {
    metadata.permissions().mode() & 0o7777
}

/// A sentence about a file or folder that others can write.
pub(crate) fn writable(what: &str, path: &Path) -> Option<String> {
    sentence(what, path, OTHERS_WRITE)
}

/// A sentence about a secret that others can read or write.
pub(crate) fn exposed(what: &str, path: &Path) -> Option<String> {
    sentence(what, path, OTHERS_WRITE | OTHERS_READ)
}

fn sentence(what: &str, path: &Path, refused: u32) -> Option<String> {
    let metadata = std::fs::metadata(path).ok()?;
    let may = open_to_others(&metadata, refused)?;
    let sign = if may == "write" { 'w' } else { 'r' };
    Some(format!(
        "{what} {}: others on this machine may {may} it (mode {:o}); chmod o-{sign}",
        path.display(),
        mode(&metadata)
    ))
}

/// A folder as it was when it was opened.
pub struct WatchedFolder {
    path: PathBuf,
    device: u64,
    inode: u64,
}

impl WatchedFolder {
    /// The folder at this path.
    ///
    /// # Errors
    /// The system's.
    pub fn from_path(path: PathBuf) -> std::io::Result<WatchedFolder> {
        let metadata = std::fs::metadata(&path)?;
        Ok(WatchedFolder { device: metadata.dev(), inode: metadata.ino(), path })
    }

    /// Whether it is still there and can be written.
    ///
    /// # Errors
    /// A text with the reason.
    pub fn check(&self) -> std::result::Result<(), String> {
        let wrong = |why: &dyn std::fmt::Display| format!("{}: {why}", self.path.display());
        let metadata = std::fs::metadata(&self.path).map_err(|error| wrong(&error))?;
        if (metadata.dev(), metadata.ino()) != (self.device, self.inode) {
            return Err(wrong(&"another folder has taken its place"));
        }
        rustix::fs::access(&self.path, rustix::fs::Access::WRITE_OK | rustix::fs::Access::EXEC_OK)
            .map_err(|error| wrong(&error))?;
        self.write_probe().map_err(|error| wrong(&error))
    }

    /// Writes a block to a file without a name, which a full or broken disk refuses.
    fn write_probe(&self) -> rustix::io::Result<()> {
        let flags = OFlags::TMPFILE | OFlags::RDWR | OFlags::CLOEXEC;
        let file = match rustix::fs::open(&self.path, flags, Mode::RUSR | Mode::WUSR) {
            // A file system without such files.
            Err(Errno::OPNOTSUPP | Errno::ISDIR | Errno::INVAL) => return Ok(()),
            opened => opened?,
        };
        rustix::fs::fallocate(&file, rustix::fs::FallocateFlags::empty(), 0, PROBE_BYTES).or_else(|error| match error {
            Errno::OPNOTSUPP => rustix::io::pwrite(&file, &[0], 0).map(drop),
            error => Err(error),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn permissions_of_others_are_refused_or_reported() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("file");
        std::fs::write(&path, "x").unwrap();
        let set = |mode: u32| std::fs::set_permissions(&path, std::fs::Permissions::from_mode(mode)).unwrap();
        let file = File::open(&path).unwrap();
        let outcome = |mode: u32| {
            set(mode);
            (not_writable("users file", &path, &file).is_ok(), secret("key", &path, &file).is_ok())
        };
        for (mode, wanted) in
            [(0o600, (true, true)), (0o660, (true, true)), (0o644, (true, false)), (0o602, (false, false))]
        {
            assert_eq!(outcome(mode), wanted, "{mode:o}");
        }
        let error = not_writable("users file", &path, &file).unwrap_err().to_string();
        assert!(error.contains("may write it (mode 602)"), "{error}");
    }

    /// A file system of 64 KiB, unmounted when it is dropped.
    struct SmallDisk(tempfile::TempDir);

    impl SmallDisk {
        fn mounted() -> SmallDisk {
            let folder = tempfile::tempdir().unwrap();
            let arguments = ["-t", "tmpfs", "-o", "size=64k", "procprof-test"];
            let mounted = std::process::Command::new("mount").args(arguments).arg(folder.path()).status();
            assert!(mounted.is_ok_and(|status| status.success()), "this test needs `mount -t tmpfs`, so root");
            SmallDisk(folder)
        }
    }

    impl Drop for SmallDisk {
        fn drop(&mut self) {
            // What is left is told at the end of the run.
            let _ = std::process::Command::new("umount").arg(self.0.path()).status();
        }
    }

    #[test]
    fn a_folder_on_a_full_disk_is_noticed() {
        let disk = SmallDisk::mounted();
        let place = WatchedFolder::from_path(disk.0.path().to_owned()).unwrap();
        assert_eq!(place.check(), Ok(()));
        let filler = disk.0.path().join("filler");
        let error = std::fs::write(&filler, [0; 100_000]).unwrap_err();
        assert_eq!(error.kind(), std::io::ErrorKind::StorageFull);
        assert!(place.check().unwrap_err().contains("No space left"), "{:?}", place.check());
        std::fs::remove_file(&filler).unwrap();
        assert_eq!(place.check(), Ok(()));
    }

    #[test]
    fn a_folder_that_is_gone_or_another_is_noticed() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("data");
        std::fs::create_dir(&path).unwrap();
        let place = WatchedFolder::from_path(path.clone()).unwrap();
        assert_eq!(place.check(), Ok(()));
        let moved = folder.path().join("moved");
        std::fs::rename(&path, &moved).unwrap();
        assert!(place.check().unwrap_err().contains("No such file"));
        std::fs::create_dir(&path).unwrap();
        assert!(place.check().unwrap_err().ends_with("another folder has taken its place"));
    }
}
