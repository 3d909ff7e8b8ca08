//! `DATA/lock`: held by the one process that has the folder open, with its pid inside.
//!
//! The lock is the kernel's (`flock`), so it ends with the process in any case; the file remains and has no meaning by
//! itself.

use std::fs::{File, OpenOptions};
use std::io::{Read, Seek, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;
use std::sync::{Arc, Weak};

use rustix::fs::{FlockOperation, flock};

use crate::{Error, Result};

/// The lock, released on drop.
#[derive(Debug)]
pub(crate) struct LockFile {
    file: File,
    /// Dropped after the lock was released.
    held: Arc<()>,
}

impl LockFile {
    /// Takes the lock of a folder, or returns the process that has it.
    pub(crate) fn take(folder: &Path) -> Result<LockFile> {
        let path = folder.join("lock");
        let error = |doing, source: std::io::Error| Error::io(doing, &path, source);
        let mut options = OpenOptions::new();
        options.read(true).write(true).create(true).truncate(false).mode(0o640);
        // The target of a planted link is not truncated.
        options.custom_flags(rustix::fs::OFlags::NOFOLLOW.bits() as i32);
        let mut file = options.open(&path).map_err(|source| error("open", source))?;
        match flock(&file, FlockOperation::NonBlockingLockExclusive) {
            Ok(()) => {}
            Err(rustix::io::Errno::WOULDBLOCK) => {
                return Err(Error::Locked { folder: folder.to_owned(), pid: holder(&file) });
            }
            Err(errno) => return Err(error("lock", errno.into())),
        }
        // A full disk must not keep the server from starting: the pid is informative, the lock works without it.
        let written =
            file.set_len(0).and_then(|()| file.rewind()).and_then(|()| writeln!(file, "{}", std::process::id()));
        if let Err(source) = written {
            tracing::warn!(path = %path.display(), error = %source, "write pid into lock file");
        }
        Ok(LockFile { file, held: Arc::new(()) })
    }

    /// A reference that can be upgraded as long as the lock is held.
    pub(crate) fn held(&self) -> Weak<()> {
        Arc::downgrade(&self.held)
    }
}

impl Drop for LockFile {
    /// Unlocks by name: a child that another thread forked and that has not reached its `exec` still has the file open,
    /// and closing alone would leave the lock to it.
    fn drop(&mut self) {
        let _ = flock(&self.file, FlockOperation::NonBlockingUnlock);
    }
}

fn holder(file: &File) -> Option<u32> {
    let mut text = String::new();
    file.take(16).read_to_string(&mut text).ok()?;
    text.trim().parse().ok()
}

#[cfg(test)]
mod tests {
    use super::LockFile;
    use crate::Error;

    #[test]
    fn is_given_back_whoever_else_has_the_file_open() {
        let folder = tempfile::tempdir().unwrap();
        let lock = LockFile::take(folder.path()).unwrap();
        // As in a forked child.
        let inherited = lock.file.try_clone().unwrap();
        assert!(matches!(LockFile::take(folder.path()), Err(Error::Locked { .. })));
        let held = lock.held();
        assert_eq!(held.strong_count(), 1);
        drop(lock);
        assert_eq!(held.strong_count(), 0);
        LockFile::take(folder.path()).unwrap();
        drop(inherited);
    }
}
