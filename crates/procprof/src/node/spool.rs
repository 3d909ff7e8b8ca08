//! Profiles that are not sent yet: one file each, with the frame of the push as its content.
//!
//! A file has its name once it is whole, so that a killed agent loses nothing that is in the spool; the id in its name
//! is that of the profile, so that what was sent before the agent was killed adds nothing when it is sent again. When
//! the spool or the disk is full, the oldest profiles make room and are counted. When nothing can be written, some
//! profiles are kept in memory.
//!
//! ```text
//! SPOOL/procprof-version      the version of all below
//! SPOOL/lock                  held by the agent
//! SPOOL/b-ID.frame            a profile; of a capture: a-ID.frame
//! SPOOL/dumps                 what was sent of folders of dumps
//! SPOOL/kallsyms              names of kernel functions, copied at each start
//! ```

use std::collections::{BTreeMap, HashSet, VecDeque};
use std::fs::File;
use std::path::Path;

use anyhow::{Context, Result, ensure};
use procprof_files::{DiskFormat, EntryKind, Folder, NewFile};
use procprof_server::protocol::{FRAME_HEADER_BYTES_MAX, PushedProfile};
use rustix::fs::{FlockOperation, flock};

/// The folder.
pub(super) const FORMAT: DiskFormat = DiskFormat { name: "spool", version: 1 };
/// Bytes of profiles kept in memory while nothing can be written.
const MEMORY_BYTES_MAX: usize = 4 << 20;
/// Largest frame.
const FRAME_BYTES_MAX: u64 = 64 << 20;
/// The ending of whole files.
const ENDING: &str = ".frame";
/// The beginning of files that are not whole.
const TEMPORARY: &str = "new-";

/// The name of a profile in the spool; those of captures come first.
pub(super) type Name = String;

/// The profiles that wait.
#[derive(Debug)]
pub(super) struct Spool {
    folder: Folder,
    bytes_max: u64,
    free_bytes_min: u64,
    /// Sizes by name.
    files: BTreeMap<Name, u64>,
    bytes: u64,
    memory: VecDeque<(Name, Vec<u8>)>,
    /// Those that are being sent, which are not removed to make room.
    sending: HashSet<Name>,
    /// Profiles that were removed from a full spool, or did not get into it.
    lost: u64,
    written: u64,
    /// Held by one agent at a time.
    _lock: File,
}

impl Spool {
    /// Opens the folder, or makes it; what a killed agent has left half written is removed.
    ///
    /// # Errors
    /// It can't be made or read, another agent has it, or a newer one has written it: then nothing is changed.
    pub(super) fn open(path: &Path, bytes_max: u64, free_bytes_min: u64) -> Result<Self> {
        FORMAT.check_folder(path)?;
        std::fs::create_dir_all(path).with_context(|| format!("make the spool {}", path.display()))?;
        let folder = Folder::open(path)?;
        let lock = File::options().create(true).truncate(false).write(true).open(path.join("lock"));
        let lock = lock.with_context(|| format!("open the spool {}", path.display()))?;
        let locked = flock(&lock, FlockOperation::NonBlockingLockExclusive);
        ensure!(locked.is_ok(), "the spool {} is in use by another agent", path.display());
        // A full disk must not keep the agent from starting: a folder without is of version 1.
        if let Err(error) = FORMAT.mark_folder(path, 0o600) {
            tracing::warn!("write the version of the spool: {error}");
        }
        let mut files = BTreeMap::new();
        for (name, kind) in folder.entries()? {
            if kind == EntryKind::File && name.starts_with(TEMPORARY) {
                folder.remove(&name)?;
            } else if kind == EntryKind::File && name.ends_with(ENDING) {
                let size = folder.size(&name).unwrap_or(0);
                files.insert(name, size);
            }
        }
        let bytes = files.values().sum();
        Ok(Self {
            folder,
            bytes_max,
            free_bytes_min,
            files,
            bytes,
            memory: VecDeque::new(),
            sending: HashSet::new(),
            lost: 0,
            written: 0,
            _lock: lock,
        })
    }

    /// Adds a profile; the oldest make room for it.
    pub(super) fn put(&mut self, header: &PushedProfile, profile: &[u8]) {
        let Some(frame) = frame(header, profile) else {
            self.lost += 1;
            tracing::error!("a profile of {} bytes is too large for the spool", profile.len());
            return;
        };
        let name = format!("{}-{}{ENDING}", if header.capture.is_some() { "a" } else { "b" }, header.id);
        let size = frame.len() as u64;
        if size > self.bytes_max.min(FRAME_BYTES_MAX) {
            self.lost += 1;
            tracing::error!("a profile of {size} bytes is too large for the spool");
            return;
        }
        while self.bytes + size > self.bytes_max && self.remove_oldest() {}
        while self.free_bytes().is_some_and(|free| free < self.free_bytes_min.saturating_add(size))
            && self.remove_oldest()
        {}
        match self.write(&name, &frame) {
            Ok(()) => {
                self.files.insert(name, size);
                self.bytes += size;
            }
            Err(error) => {
                tracing::warn!("write to the spool: {error:#}; the profile is kept in memory");
                self.keep(name, frame);
            }
        }
    }

    fn write(&mut self, name: &str, frame: &[u8]) -> Result<()> {
        self.written += 1;
        let temporary = format!("{TEMPORARY}{}-{}", std::process::id(), self.written);
        let mut file = NewFile::begin(&self.folder, temporary, 0o600)?;
        file.write(frame)?;
        Ok(file.replace(name)?)
    }

    fn keep(&mut self, name: Name, frame: Vec<u8>) {
        self.memory.push_back((name, frame));
        let bytes = |memory: &VecDeque<(Name, Vec<u8>)>| memory.iter().map(|(_, frame)| frame.len()).sum::<usize>();
        while bytes(&self.memory) > MEMORY_BYTES_MAX {
            let oldest = self.memory.iter().position(|(name, _)| !self.sending.contains(name)).unwrap_or(0);
            self.memory.remove(oldest);
            self.lost += 1;
        }
    }

    fn free_bytes(&self) -> Option<u64> {
        self.folder.free_bytes().ok()
    }

    /// Removes the oldest profile of a continuous recording, or else of a capture; whether there was one.
    fn remove_oldest(&mut self) -> bool {
        let is_free = |name: &&Name| !self.sending.contains(*name);
        let oldest = self.files.keys().find(|name| name.starts_with('b') && is_free(name));
        let Some(name) = oldest.or_else(|| self.files.keys().find(is_free)).cloned() else { return false };
        if let Err(error) = self.folder.remove(&name) {
            tracing::error!("remove from the spool: {error}");
            return false;
        }
        self.forget(&name);
        self.lost += 1;
        true
    }

    fn forget(&mut self, name: &str) {
        if let Some(size) = self.files.remove(name) {
            self.bytes -= size;
        }
        self.memory.retain(|(kept, _)| kept != name);
        self.sending.remove(name);
    }

    /// The next profiles to send, at least one if there is any: names and frames.
    pub(super) fn batch(&mut self, bytes_max: u64, count_max: usize) -> Vec<(Name, Vec<u8>)> {
        let mut batch: Vec<(Name, Vec<u8>)> = Vec::new();
        let mut bytes = 0;
        for name in self.files.keys().cloned().collect::<Vec<_>>() {
            let size = self.files.get(&name).copied().unwrap_or(0);
            if batch.len() == count_max || (!batch.is_empty() && bytes + size > bytes_max) {
                break;
            }
            match self.folder.read(&name, FRAME_BYTES_MAX) {
                Ok(frame) => {
                    bytes += size;
                    batch.push((name, frame));
                }
                Err(error) => {
                    tracing::error!("read from the spool: {error}; the profile is lost");
                    // One that can't be removed is met again at the next start.
                    let _ = self.folder.remove(&name);
                    self.forget(&name);
                    self.lost += 1;
                }
            }
        }
        for (name, frame) in &self.memory {
            if batch.len() == count_max || (!batch.is_empty() && bytes + frame.len() as u64 > bytes_max) {
                break;
            }
            bytes += frame.len() as u64;
            batch.push((name.clone(), frame.clone()));
        }
        self.sending = batch.iter().map(|(name, _)| name.clone()).collect();
        batch
    }

    /// A batch is sent, or failed to be.
    pub(super) fn end_batch(&mut self) {
        self.sending.clear();
    }

    /// Removes a profile that the server has answered for.
    pub(super) fn settle(&mut self, name: &str) {
        if self.files.contains_key(name)
            && let Err(error) = self.folder.remove(name)
        {
            tracing::error!("remove from the spool: {error}");
        }
        self.forget(name);
    }

    /// Profiles that wait, and their bytes.
    pub(super) fn waiting(&self) -> (u64, u64) {
        let in_memory: usize = self.memory.iter().map(|(_, frame)| frame.len()).sum();
        (self.files.len() as u64 + self.memory.len() as u64, self.bytes + in_memory as u64)
    }

    /// Whether what can be made again later should wait.
    pub(super) fn is_half_full(&self) -> bool {
        self.bytes > self.bytes_max / 2 || !self.memory.is_empty()
    }

    /// Profiles that were lost since the start.
    pub(super) fn lost(&self) -> u64 {
        self.lost
    }
}

/// The id of the profile that a name in the spool is of.
pub(super) fn id(name: &str) -> &str {
    name.split_once('-').map_or("", |(_, rest)| rest.trim_end_matches(ENDING))
}

/// A frame of a push; `None` if the parts are too large for it.
fn frame(header: &PushedProfile, profile: &[u8]) -> Option<Vec<u8>> {
    let header = serde_json::to_vec(header).ok()?;
    let length = u32::try_from(header.len()).ok().filter(|length| *length <= FRAME_HEADER_BYTES_MAX)?;
    let profile_length = u32::try_from(profile.len()).ok()?;
    Some([&length.to_le_bytes(), &*header, &profile_length.to_le_bytes(), profile].concat())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::law::{Contents, Mark, Row, check, line};

    #[test]
    fn every_version_of_the_spool_is_read() {
        let mark = Mark::new("procprof-version", b"procprof.spool ");
        check(&Row { name: "spool", version: 1, make, read, mark: Some(mark) });
    }

    fn make(folder: &Path) {
        let mut spool = Spool::open(folder, 1 << 20, 0).unwrap();
        let header = PushedProfile {
            host: "0123456789abcdef0123456789abcdef".to_owned(),
            service: Some("mysqld.service".to_owned()),
            id: "019aa40e-5c30-7000-8000-000000000001".to_owned(),
            profile_type: "cpu".to_owned(),
            start_nanos: 1_763_677_534_000_000_000,
            duration_nanos: 10_000_000_000,
            capture: None,
            labels: BTreeMap::from([("unit".to_owned(), "mysqld.service".to_owned())]),
            failure: None,
        };
        spool.put(&header, b"a profile");
        let failed = PushedProfile {
            service: None,
            id: "019aa40e-5c30-7000-8000-000000000002".to_owned(),
            capture: Some("019aa40e-0000-7000-8000-000000000003".to_owned()),
            failure: Some("no such service".to_owned()),
            ..header
        };
        spool.put(&failed, b"");
        drop(spool);
        std::fs::remove_file(folder.join("lock")).unwrap();
    }

    fn read(folder: &Path) -> Contents {
        let mut spool = Spool::open(folder, 1 << 20, 0)?;
        let mut text = String::new();
        line(&mut text, spool.waiting());
        for (name, frame) in spool.batch(u64::MAX, 9) {
            let (header, profile) = frame[4..].split_at(u32::from_le_bytes(frame[..4].try_into()?) as usize);
            let header: PushedProfile = serde_json::from_slice(header)?;
            line(&mut text, (&name, id(&name), header, &profile[..4], String::from_utf8_lossy(&profile[4..])));
        }
        Ok(text)
    }

    fn header(number: u64, is_capture: bool) -> PushedProfile {
        PushedProfile { id: format!("{number:08}"), capture: is_capture.then(|| "c".to_owned()), ..Default::default() }
    }

    fn names(batch: &[(Name, Vec<u8>)]) -> Vec<&str> {
        batch.iter().map(|(name, _)| id(name)).collect()
    }

    #[test]
    fn profiles_wait_over_restarts_until_they_are_settled() {
        let folder = tempfile::tempdir().unwrap();
        let open = || Spool::open(folder.path(), 1 << 20, 0);
        let mut spool = open().unwrap();
        assert!(open().unwrap_err().to_string().contains("in use by another agent"));
        for number in 0..5 {
            spool.put(&header(number, number == 4), &[7; 100]);
        }
        std::fs::write(folder.path().join("new-1-1"), "half").unwrap();
        drop(spool);
        let mut spool = open().unwrap();
        assert!(!folder.path().join("new-1-1").exists());
        let batch = spool.batch(u64::MAX, 3);
        assert_eq!(names(&batch), ["00000004", "00000000", "00000001"]);
        let header_bytes = u32::from_le_bytes(batch[0].1[..4].try_into().unwrap()) as usize;
        let read: PushedProfile = serde_json::from_slice(&batch[0].1[4..4 + header_bytes]).unwrap();
        assert_eq!(read, header(4, true));
        assert_eq!(batch[0].1[8 + header_bytes..], [7; 100]);
        batch.iter().for_each(|(name, _)| spool.settle(name));
        spool.end_batch();
        assert_eq!((names(&spool.batch(1, 9)), spool.waiting().0), (vec!["00000002"], 2));
    }

    #[test]
    fn the_oldest_make_room_and_are_counted() {
        let folder = tempfile::tempdir().unwrap();
        let size = frame(&header(0, false), &[0; 1000]).unwrap().len() as u64;
        let mut spool = Spool::open(folder.path(), 3 * size + size / 2, 0).unwrap();
        spool.put(&header(0, true), &[0; 1000]);
        (1..6).for_each(|number| spool.put(&header(number, false), &[0; 1000]));
        assert_eq!((names(&spool.batch(u64::MAX, 9)), spool.lost()), (vec!["00000000", "00000004", "00000005"], 3));
        // What is being sent stays.
        spool.put(&header(6, false), &[0; 1000]);
        assert_eq!((spool.lost(), spool.files.len()), (3, 4));
        spool.end_batch();
        spool.put(&header(7, false), &[0; 1000]);
        assert_eq!((names(&spool.batch(u64::MAX, 9)), spool.lost()), (vec!["00000000", "00000006", "00000007"], 5));
        spool.end_batch();
        spool.put(&header(8, false), &vec![0; 1 << 20]);
        assert_eq!((spool.lost(), spool.waiting().0), (6, 3));
    }

    #[test]
    fn what_can_not_be_written_is_kept_in_memory_for_a_while() {
        let folder = tempfile::tempdir().unwrap();
        let mut spool = Spool::open(folder.path(), 1 << 30, 0).unwrap();
        // Nothing can be made in a folder that is gone.
        std::fs::remove_dir_all(folder.path()).unwrap();
        (0..6).for_each(|number| spool.put(&header(number, false), &vec![0; 1 << 20]));
        assert_eq!((names(&spool.batch(u64::MAX, 9)).len(), spool.lost()), (3, 3));
        spool.settle("b-00000005.frame");
        assert_eq!(spool.waiting().0, 2);
    }
}
