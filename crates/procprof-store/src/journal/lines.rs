//! `DATA/journal/`: errors and pins as checksummed lines that are only appended.
//!
//! ```text
//! af164baa {"t":"version","version":1}
//! 5d41402a {"t":"error","number":7,"node":10001,"type":"cpu","time":1763677534000000000,"kind":"capture","reason":"connection refused"}
//! 8c736521 {"t":"pin","id":"01930c5e-7d1a-7000-8000-0123456789ab"}
//! 99cc0f1b {"t":"unpin","id":"01930c5e-7d1a-7000-8000-0123456789ab"}
//! ```
//! The first word is the CRC-32 of the rest of the line. A line with a wrong checksum is skipped and counted; a torn
//! last line is cut off.
//!
//! **Version.** A version is that of the lines after it; lines before the first one are of version 1, since the first
//! releases wrote none. It is written before the first line that is appended, and by each compaction. A program that
//! does not know the record skips it. A newer version is an error, and the journal stays as it is.
//!
//! **Syncing.** A pin or unpin is on disk before the call returns. An error row is written at once (it survives the
//! process), and synced unless another was synced less than a second ago; so a power cut may lose error rows of the
//! last second.
//!
//! **Full disk.** 256 KiB behind the end of the file are reserved, so that rows reporting "disk full" still fit. Once
//! that is used up, rows wait in memory, up to 1,000 of them, and are written when there is space again.

use std::borrow::Cow;
use std::collections::VecDeque;
use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::time::{Duration, Instant};

use procprof_files::{DiskFormat, Folder, NewFile};
use rustix::fs::FallocateFlags;
use serde::{Deserialize, Serialize};

use super::errors::ErrorJson;
use crate::{Error, Result};

const FORMAT: DiskFormat = DiskFormat { name: "journal", version: 1 };
/// The file, and the name of its replacement.
const NAME: &str = "journal";
const FRESH: &str = "journal.new";
const MODE: u32 = 0o640;
const RESERVE: u64 = 256 << 10;
const WAITING_MAX: usize = 1000;
const SYNC_EVERY: Duration = Duration::from_secs(1);

/// One line.
#[derive(Debug, Serialize, Deserialize)]
#[serde(tag = "t", rename_all = "lowercase")]
pub(crate) enum Record {
    Error(ErrorJson),
    Pin {
        id: String,
    },
    Unpin {
        id: String,
    },
    /// Of the lines that follow.
    Version {
        version: u32,
    },
}

const VERSION: Record = Record::Version { version: FORMAT.version };

/// Damage found when the journal was opened.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct JournalDamage {
    /// Bytes of a torn last line, cut off.
    pub torn_bytes: u64,
    /// Whole lines whose checksum or content is wrong, skipped.
    pub wrong_lines: u64,
}

/// The journal's file.
#[derive(Debug)]
pub(crate) struct Journal {
    file: File,
    folder: Folder,
    size: u64,
    reserved: u64,
    compact_at: u64,
    bytes_max: u64,
    synced: Instant,
    dirty: bool,
    waiting: VecDeque<String>,
    lost: u64,
    /// The version that its last lines say they have.
    version: Option<u32>,
}

impl Journal {
    /// Opens the journal, creates it if needed, and calls `each` with every valid line but versions.
    /// [`Journal::reserve`] reserves space.
    ///
    /// # Errors
    /// [`Error::Version`] when a newer program has written to it: then nothing is changed.
    pub(crate) fn open(
        data: &Path,
        bytes_max: u64,
        mut each: impl FnMut(Record) -> bool,
    ) -> Result<(Journal, JournalDamage)> {
        let folder = Folder::make(data.join("journal"))?;
        let path = folder.path().join(NAME);
        let error = |doing, source| Error::io(doing, &path, source);
        let file = open_file(&path)?;
        let mut damage = JournalDamage::default();
        let bytes = procprof_files::read(&path, u64::MAX).map_err(|source| error("read", source))?;
        let whole = bytes.iter().rposition(|byte| *byte == b'\n').map_or(0, |at| at + 1);
        damage.torn_bytes = (bytes.len() - whole) as u64;
        let mut version = None;
        for line in bytes[..whole].split_inclusive(|byte| *byte == b'\n') {
            match parse(line) {
                Some(Record::Version { version: found }) => version = Some(FORMAT.check(&path, Some(found))?),
                record => damage.wrong_lines += u64::from(!record.is_some_and(&mut each)),
            }
        }
        // Also frees the space reserved behind the end: on a full disk the catalog opens in that space.
        file.set_len(whole as u64).map_err(|source| error("truncate", source))?;
        let journal = Journal {
            file,
            folder,
            size: whole as u64,
            reserved: 0,
            compact_at: bytes_max,
            bytes_max,
            synced: Instant::now(),
            dirty: false,
            waiting: VecDeque::new(),
            lost: 0,
            version,
        };
        journal.folder.sync()?;
        Ok((journal, damage))
    }

    /// Appends a line that must be on disk before this returns, or not be there at all.
    pub(crate) fn append_synced(&mut self, record: &Record) -> Result<()> {
        self.write_waiting()?;
        let (size, version) = (self.size, self.version);
        self.write(&line(record)?)?;
        self.sync().inspect_err(|_| {
            // A line that could not be synced is removed, so that it is not found at the next opening.
            (self.size, self.version) = (size, version);
            if let Err(error) = self.file.set_len(size) {
                tracing::warn!(%error, "truncate journal");
            }
        })
    }

    /// Appends a line; if that is not possible now, it waits in memory.
    pub(crate) fn append(&mut self, record: &Record) {
        let line = match line(record) {
            Ok(line) => line,
            Err(error) => return tracing::error!(%error, "encode journal line"),
        };
        self.waiting.push_back(line);
        if self.waiting.len() > WAITING_MAX {
            self.waiting.pop_front();
            self.lost += 1;
        }
        self.flush();
    }

    /// Writes waiting lines, and syncs when that is due.
    pub(crate) fn flush(&mut self) {
        let done =
            self.write_waiting().and_then(|()| if self.synced.elapsed() >= SYNC_EVERY { self.sync() } else { Ok(()) });
        if let Err(error) = done {
            tracing::warn!(%error, waiting = self.waiting.len(), "write journal");
        }
    }

    /// Lines that wait for space, and lines dropped since opening because too many waited.
    pub(crate) fn waiting(&self) -> (usize, u64) {
        (self.waiting.len(), self.lost)
    }

    /// Size of the file, in bytes.
    pub(crate) fn bytes(&self) -> u64 {
        self.size
    }

    /// Whether the file has grown so that [`Journal::compact`] is due.
    pub(crate) fn is_large(&self) -> bool {
        self.size >= self.compact_at
    }

    /// Replaces all lines at once: `kept` always, and of `newest_first` as many as then fit into half of the limit.
    /// Returns how many did.
    pub(crate) fn compact(&mut self, kept: &[Record], newest_first: impl Iterator<Item = Record>) -> Result<usize> {
        // If it fails (for example on a full disk), it is not tried again with every line.
        self.compact_at = self.size.saturating_add(RESERVE);
        let mut head = line(&VERSION)?;
        for record in kept {
            head.push_str(&line(record)?);
        }
        // Many pins leave less space; a quarter of the limit is always available, and the newest line always fits,
        // since numbers continue from it.
        let mut room = (self.bytes_max / 2).saturating_sub(head.len() as u64).max(self.bytes_max / 4);
        let mut tail: Vec<String> = Vec::new();
        for record in newest_first {
            let text = line(&record)?;
            let fits = text.len() as u64 <= room;
            if !fits && !tail.is_empty() {
                break;
            }
            room = room.saturating_sub(text.len() as u64);
            tail.push(text);
        }
        let count = tail.len();
        head.extend(tail.into_iter().rev());
        self.replace(head.as_bytes())?;
        // Pins alone may exceed the limit; then the next compaction waits until as much again was appended.
        self.compact_at = self.bytes_max.max(self.size.saturating_mul(2));
        Ok(count)
    }

    /// Makes everything written so far survive a power cut.
    pub(crate) fn sync(&mut self) -> Result<()> {
        if self.dirty {
            self.file.sync_data().map_err(|source| self.error("sync", source))?;
            self.dirty = false;
        }
        self.synced = Instant::now();
        Ok(())
    }

    fn replace(&mut self, bytes: &[u8]) -> Result<()> {
        // Left by an interrupted compaction.
        self.folder.remove(FRESH)?;
        let mut file = NewFile::begin(&self.folder, FRESH, MODE)?;
        file.write(bytes)?;
        self.file = file.rename(NAME)?;
        self.size = bytes.len() as u64;
        self.version = Some(FORMAT.version);
        self.reserved = 0;
        self.dirty = false;
        // Every row in memory is in the new file, those that waited too.
        self.waiting.clear();
        self.reserve();
        Ok(self.folder.sync()?)
    }

    fn write_waiting(&mut self) -> Result<()> {
        while let Some(line) = self.waiting.pop_front() {
            if let Err(error) = self.write(&line) {
                self.waiting.push_front(line);
                return Err(error);
            }
        }
        Ok(())
    }

    /// Written at a position and not by `O_APPEND`: a line cut short by a full disk is overwritten by the next, or cut
    /// off at the next opening.
    fn write(&mut self, line: &str) -> Result<()> {
        let is_versioned = self.version == Some(FORMAT.version);
        let text = if is_versioned { Cow::Borrowed(line) } else { Cow::Owned(self::line(&VERSION)? + line) };
        if let Err(source) = self.file.write_all_at(text.as_bytes(), self.size) {
            return Err(self.error("append to", source));
        }
        self.version = Some(FORMAT.version);
        self.size += text.len() as u64;
        self.dirty = true;
        if self.reserved < self.size + RESERVE / 2 {
            self.reserve();
        }
        Ok(())
    }

    /// Reserves space behind the end. If the file system cannot, or is full, this is no error: rows then wait in
    /// memory.
    pub(crate) fn reserve(&mut self) {
        if rustix::fs::fallocate(&self.file, FallocateFlags::KEEP_SIZE, self.size, RESERVE).is_ok() {
            self.reserved = self.size + RESERVE;
        }
    }

    fn error(&self, doing: &'static str, source: std::io::Error) -> Error {
        Error::io(doing, self.folder.path().join(NAME), source)
    }
}

impl Drop for Journal {
    fn drop(&mut self) {
        if let Err(error) = self.write_waiting().and_then(|()| self.sync()) {
            tracing::warn!(%error, waiting = self.waiting.len(), "close journal");
        }
    }
}

fn open_file(path: &Path) -> Result<File> {
    use std::os::unix::fs::OpenOptionsExt;
    let mut options = File::options();
    options.read(true).write(true).create(true).truncate(false).mode(MODE);
    options.custom_flags(rustix::fs::OFlags::NOFOLLOW.bits() as i32);
    options.open(path).map_err(|source| Error::io("open", path, source))
}

fn line(record: &Record) -> Result<String> {
    let json = serde_json::to_string(record).map_err(|error| Error::malformed("journal line", error.to_string()))?;
    Ok(format!("{:08x} {json}\n", checksum(json.as_bytes())))
}

fn parse(line: &[u8]) -> Option<Record> {
    let line = line.strip_suffix(b"\n")?;
    let (sum, json) = (line.get(..8)?, line.get(9..)?);
    let sum = u32::from_str_radix(std::str::from_utf8(sum).ok()?, 16).ok()?;
    (sum == checksum(json)).then(|| serde_json::from_slice(json).ok())?
}

fn checksum(bytes: &[u8]) -> u32 {
    let mut crc = flate2::Crc::new();
    crc.update(bytes);
    crc.sum()
}
