//! Names of the code that a JVM has compiled, in the perf map that it writes when it is asked (`Compiler.perfmap`, JDK 17
//! and later).
//!
//! The JVM writes `/tmp/perf-<pid>.map` in its own mount namespace, with its own pid there. The file is made before it is
//! asked, so that no link that others put there leads it to another file, and removed when it has answered. A map that
//! was there before stays; one that the JVM has open, as agents within it have, is read as it is.

use std::fs::File;
use std::os::unix::fs::MetadataExt;
use std::time::Duration;

use rustix::io::Errno;

use super::folder::TemporaryFolder;
use super::{Jvm, JvmError, answer};

/// Space that a file system must have for a map, in bytes; one of 100,000 methods has 10 MiB.
const ROOM_MIN: u64 = 32 << 20;
/// Largest map, in bytes.
const MAP_BYTES_MAX: u64 = 128 << 20;
/// Most open files of a JVM that are looked at.
const DESCRIPTORS_MAX: usize = 10_000;

impl Jvm {
    /// The names of all code that the JVM has compiled, written now, as an open perf map of at most 128 MiB. A JVM that
    /// is not known to be attachable is sent nothing.
    ///
    /// It takes as long as a connection and the answer, each at most `timeout`, and at most 6 s before these where the
    /// JVM was never attached to.
    ///
    /// # Errors
    /// [`JvmError::NotAttachable`] and [`JvmError::NoMap`]; [`JvmError::Command`] of an older JDK;
    /// [`JvmError::Suspicious`] where the file is not the JVM's; [`JvmError::NoSpace`], [`JvmError::TooLarge`]; those of
    /// attaching.
    pub fn perf_map(&self, timeout: Duration) -> Result<File, JvmError> {
        let folder = self.temporary_folder()?;
        let name = format!("perf-{}.map", self.inner_pid());
        let there = folder.read(&name)?;
        let file = match there {
            Some(file) if self.has_open(&name) => file,
            there => self.written(&folder, &name, there, timeout)?,
        };
        match file.metadata().map_err(|error| JvmError::io(self.pid(), format!("look at /tmp/{name}"), error))?.len() {
            0 => Err(JvmError::NoMap { pid: self.pid(), why: "its perf map is empty" }),
            1..=MAP_BYTES_MAX => Ok(file),
            bytes => Err(JvmError::TooLarge { pid: self.pid(), bytes, limit: MAP_BYTES_MAX }),
        }
    }

    /// Has it write the map to the file that is there, or to one that is made for it and removed.
    fn written(
        &self,
        folder: &TemporaryFolder,
        name: &str,
        there: Option<File>,
        timeout: Duration,
    ) -> Result<File, JvmError> {
        let (pid, (uid, gid)) = (self.pid(), self.owner());
        if let Some(file) = &there {
            self.check_own(file, name)?;
        }
        let stream = self.connect_if_attachable(folder, timeout)?;
        folder.check_room(ROOM_MIN)?;
        let (file, _mark) = match there {
            Some(file) => (file, None),
            None => {
                let made = folder.make(name, uid, gid);
                let (file, mark) =
                    made.map_err(|errno: Errno| JvmError::io(pid, format!("make /tmp/{name}"), errno))?;
                (file, Some(mark))
            }
        };
        let changed = |file: &File| file.metadata().map(|metadata| (metadata.mtime(), metadata.mtime_nsec())).ok();
        let before = changed(&file);
        let (code, text) = self.execute_on(stream, "jcmd", "Compiler.perfmap", timeout)?;
        if code != 0 {
            let command = "Compiler.perfmap".to_owned();
            return Err(JvmError::Command { pid, command, message: answer::shortened(&text) });
        }
        if changed(&file) == before {
            return Err(JvmError::NoMap { pid, why: "its perf map is unchanged" });
        }
        Ok(file)
    }

    /// Errs if a map is another user's, or has other names: the JVM would write to what it does not know.
    fn check_own(&self, file: &File, name: &str) -> Result<(), JvmError> {
        let path = format!("/tmp/{name}");
        let metadata = file.metadata().map_err(|error| JvmError::io(self.pid(), format!("look at {path}"), error))?;
        let why = match (metadata.uid() == self.owner().0, metadata.nlink()) {
            (true, ..=1) => return Ok(()),
            (true, _) => "has other names, too",
            (false, _) => "belongs to another user than the process",
        };
        Err(JvmError::Suspicious { pid: self.pid(), path, why })
    }

    /// Whether it has a file of that name open.
    fn has_open(&self, name: &str) -> bool {
        let descriptors = std::fs::read_dir(format!("/proc/{}/fd", self.pid())).into_iter().flatten().flatten();
        let links = descriptors.take(DESCRIPTORS_MAX).filter_map(|entry| std::fs::read_link(entry.path()).ok());
        links.into_iter().any(|link| link.file_name().is_some_and(|file| file == name))
    }
}
