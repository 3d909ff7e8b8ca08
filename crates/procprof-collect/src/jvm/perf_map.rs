//! Names of the code that a JVM has compiled, in the perf map that it writes when it is asked (`Compiler.perfmap`, JDK 17
//! and later).
//!
//! The JVM writes `/tmp/perf-<pid>.map` in its own mount namespace, with its own pid there. The file is made before it is
//! asked, so that no link that others put there leads it to another file, and removed when it has answered. A map that
//! was there before stays; one that the JVM has open, as agents within it have, is read as it is.

use std::fs::File;
use std::os::unix::fs::MetadataExt;
use std::time::{Duration, Instant};

use rustix::fs::{FlockOperation, flock};
use rustix::io::Errno;

use super::folder::{Mark, TemporaryFolder};
use super::{Jvm, JvmError, answer};

/// Space that a file system must have for a map, in bytes; one of 100,000 methods has 10 MiB.
const ROOM_MIN: u64 = 32 << 20;
/// Largest map, in bytes.
const MAP_BYTES_MAX: u64 = 64 << 20;
/// Time between two tries to lock a map.
const PAUSE: Duration = Duration::from_millis(10);
/// Files changed within this time may have the same time of change: ticks of the kernel have 1 to 10 ms.
const TIME_STEP: Duration = Duration::from_millis(20);
/// Most open files of a JVM that are looked at.
const DESCRIPTORS_MAX: usize = 10_000;

impl Jvm {
    /// The names of all code that the JVM has compiled, written now, as an open perf map of at most 64 MiB. A JVM that
    /// is not known to be attachable is sent nothing.
    ///
    /// Those who ask at the same time wait for each other. It takes as long as they, a connection and the answer, each at
    /// most `timeout`, and at most 6 s before these where the JVM was never attached to.
    ///
    /// # Errors
    /// [`JvmError::NotAttachable`] and [`JvmError::NoMap`]; [`JvmError::Command`] of an older JDK;
    /// [`JvmError::Suspicious`] where the file is not the JVM's; [`JvmError::NoSpace`], [`JvmError::TooLarge`]; those of
    /// attaching.
    pub fn perf_map(&self, timeout: Duration) -> Result<File, JvmError> {
        let folder = self.temporary_folder()?;
        let name = format!("perf-{}.map", self.inner_pid());
        let (file, mark) = self.locked(&folder, &name, timeout)?;
        if mark.is_some() || !self.has_open(&name) {
            self.check_own(&file, &name)?;
            self.have_it_write(&folder, &file, timeout)?;
        }
        // For as long as the file is used, others may ask again.
        let _ = flock(&file, FlockOperation::Unlock);
        match file.metadata().map_err(|error| JvmError::io(self.pid(), format!("look at /tmp/{name}"), error))?.len() {
            0 => Err(JvmError::NoMap { pid: self.pid(), why: "its perf map is empty" }),
            1..=MAP_BYTES_MAX => Ok(file),
            bytes => Err(JvmError::TooLarge { pid: self.pid(), bytes, limit: MAP_BYTES_MAX }),
        }
    }

    /// The map that is there, or one that is made and removed with its mark, locked against all who ask, too: the JVM
    /// begins each map by making the file empty.
    fn locked<'f>(
        &self,
        folder: &'f TemporaryFolder,
        name: &str,
        timeout: Duration,
    ) -> Result<(File, Option<Mark<'f>>), JvmError> {
        let start = Instant::now();
        loop {
            let (file, mark) = match folder.read(name)? {
                Some(file) => {
                    // Nobody waits for the lock of a file that the JVM is not asked to write.
                    self.check_own(&file, name)
                        .or_else(|error| if self.has_open(name) { Ok(()) } else { Err(error) })?;
                    (file, None)
                }
                None => {
                    self.check_attachable(folder)?;
                    folder.check_room(ROOM_MIN)?;
                    match folder.make(name, self.owner().0, self.owner().1) {
                        Ok((file, mark)) => (file, Some(mark)),
                        // Made by another who asks.
                        Err(Errno::EXIST) => continue,
                        Err(errno) => return Err(JvmError::io(self.pid(), format!("make /tmp/{name}"), errno)),
                    }
                }
            };
            // One who has made a file keeps its name, also where another is faster to lock it.
            while flock(&file, FlockOperation::NonBlockingLockExclusive) == Err(Errno::WOULDBLOCK) {
                if start.elapsed() >= timeout {
                    return Err(JvmError::NoMap { pid: self.pid(), why: "another process has its perf map locked" });
                }
                std::thread::sleep(PAUSE);
            }
            // It may have been removed meanwhile.
            if file.metadata().is_ok_and(|metadata| metadata.nlink() > 0) {
                return Ok((file, mark));
            }
        }
    }

    /// Has it write the map to the file that is there.
    fn have_it_write(&self, folder: &TemporaryFolder, file: &File, timeout: Duration) -> Result<(), JvmError> {
        let pid = self.pid();
        let stream = self.connect_if_attachable(folder, timeout)?;
        folder.check_room(ROOM_MIN)?;
        let state = || file.metadata().map(|metadata| (metadata.mtime(), metadata.mtime_nsec(), metadata.len())).ok();
        if let Some((.., 1..)) = state() {
            // A map that was written just before would have the same time when it is written again.
            std::thread::sleep(TIME_STEP);
        }
        let before = state();
        let (code, text) = self.execute_on(stream, "jcmd", "Compiler.perfmap", timeout)?;
        if code != 0 {
            let command = "Compiler.perfmap".to_owned();
            return Err(JvmError::Command { pid, command, message: answer::shortened(&text) });
        }
        if state() == before {
            return Err(JvmError::NoMap { pid, why: "its perf map is unchanged" });
        }
        Ok(())
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
