//! The dump files that jemalloc writes by itself: every so many bytes (`lg_prof_interval`), at each new peak
//! (`prof_gdump`), and at the end of the process (`prof_final`).
//!
//! ```text
//! <prof_prefix>.<pid>.<number>.<cause><number of that cause>.heap      jeprof.4711.12.i12.heap
//! <prof_prefix>.<pid>.<number>.f.heap                                  jeprof.4711.13.f.heap
//! ```
//! (jemalloc 5.3, `src/prof_sys.c`, `prof_dump_filename`.) The prefix may hold a path; a relative one is looked up from
//! the process's working folder, as jemalloc does. Files of other processes with the same prefix, former runs of this
//! program most likely, are in the list, too.

use super::jemalloc::Jemalloc;
use crate::error::{Error, Result};
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

/// Directory entries looked at; in a folder of more, some files are not seen.
const MAX_ENTRIES: usize = 100_000;

/// How many dump files stay.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DumpFileLimits {
    /// The newest so many are kept.
    pub files: usize,
    /// And of these as many as have no more bytes in all; the newest one whatever its size.
    pub bytes: u64,
}

impl Default for DumpFileLimits {
    /// 16 files, 256 MiB.
    fn default() -> Self {
        Self { files: 16, bytes: 256 << 20 }
    }
}

/// Why jemalloc wrote a dump.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Cause {
    Interval,
    Peak,
    Asked,
    End,
}

impl Cause {
    const ALL: [(char, Self, &'static str); 4] = [
        ('i', Self::Interval, "interval"),
        ('u', Self::Peak, "peak"),
        ('m', Self::Asked, "asked"),
        ('f', Self::End, "end"),
    ];

    fn of_letter(letter: char) -> Option<Self> {
        Self::ALL.into_iter().find(|(of, ..)| *of == letter).map(|(_, cause, _)| cause)
    }

    /// One word.
    pub(crate) fn name(self) -> &'static str {
        Self::ALL.into_iter().find(|(_, cause, _)| *cause == self).map_or("", |(.., name)| name)
    }
}

/// A dump file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct DumpFile {
    /// Its name within the folder.
    pub(crate) name: String,
    pub(crate) pid: u32,
    /// Counts the process's dumps.
    pub(crate) number: u64,
    pub(crate) cause: Cause,
    pub(crate) bytes: u64,
    /// When it was last written to.
    pub(crate) written: SystemTime,
}

/// The files of dumps that a jemalloc writes by itself.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct DumpFiles {
    pub(crate) folder: PathBuf,
    /// The start of their names.
    pub(crate) prefix: String,
}

impl DumpFiles {
    /// Those of this jemalloc; `None` where it has no prefix, and writes none.
    pub(crate) fn from_jemalloc(jemalloc: &Jemalloc) -> Option<Self> {
        Self::with_prefix(&jemalloc.dump_prefix()?)
    }

    fn with_prefix(prefix: &str) -> Option<Self> {
        let (folder, prefix) = prefix
            .rsplit_once('/')
            .map_or((".", prefix), |(folder, prefix)| (if folder.is_empty() { "/" } else { folder }, prefix));
        (!prefix.is_empty()).then(|| Self { folder: folder.into(), prefix: prefix.into() })
    }

    /// All of them, newest first.
    pub(crate) fn list(&self) -> Result<Vec<DumpFile>> {
        let system = |source| Error::System { what: "list the folder of heap dumps", source };
        let entries = fs::read_dir(&self.folder).map_err(system)?.take(MAX_ENTRIES);
        // One that is gone by now is none.
        let mut files: Vec<DumpFile> = entries.flatten().filter_map(|entry| self.file(&entry)).collect();
        files.sort_by(|a, b| {
            b.written.cmp(&a.written).then_with(|| b.number.cmp(&a.number)).then_with(|| a.name.cmp(&b.name))
        });
        Ok(files)
    }

    fn file(&self, entry: &fs::DirEntry) -> Option<DumpFile> {
        let name = entry.file_name().into_string().ok()?;
        let (pid, number, cause) = parse(&self.prefix, &name)?;
        // Not through links: what is listed can be read and deleted.
        let metadata = entry.metadata().ok().filter(fs::Metadata::is_file)?;
        Some(DumpFile { name, pid, number, cause, bytes: metadata.len(), written: metadata.modified().ok()? })
    }

    /// The text of one of them.
    pub(crate) fn read(&self, name: &str) -> Result<Vec<u8>> {
        let unknown = || Error::NoSuchDumpFile { name: name.to_owned() };
        let file = self.list()?.into_iter().find(|file| file.name == name).ok_or_else(unknown)?;
        if file.bytes > crate::options::MAX_DUMP_BYTES {
            return Err(Error::DumpTooLarge { bytes: file.bytes });
        }
        let text = fs::read(self.folder.join(&file.name))
            .map_err(|source| Error::System { what: "read the heap dump", source })?;
        // The map is what jemalloc writes last, in one piece.
        let is_whole = memory_map(&text).is_some_and(|map| map.ends_with(b"\n"));
        if is_whole { Ok(text) } else { Err(Error::DumpFileUnfinished { name: file.name }) }
    }

    /// Deletes those beyond the limits; how many and how many bytes these were.
    pub(crate) fn clean(&self, limits: DumpFileLimits) -> Result<(usize, u64)> {
        let files = self.list()?;
        let (mut deleted, mut freed) = (0, 0);
        for file in beyond(&files, limits) {
            match fs::remove_file(self.folder.join(&file.name)) {
                Ok(()) => (deleted, freed) = (deleted + 1, freed + file.bytes),
                // Another process has deleted it already.
                Err(error) if error.kind() == io::ErrorKind::NotFound => {}
                Err(source) => return Err(Error::System { what: "delete a heap dump", source }),
            }
        }
        Ok((deleted, freed))
    }

    /// The folder as a full path, where it can be resolved.
    pub(crate) fn full_path(&self) -> PathBuf {
        fs::canonicalize(&self.folder).unwrap_or_else(|_| Path::new(&self.folder).to_owned())
    }
}

/// The process, the number and the cause in a file's name.
fn parse(prefix: &str, name: &str) -> Option<(u32, u64, Cause)> {
    let rest = name.strip_prefix(prefix)?.strip_prefix('.')?.strip_suffix(".heap")?;
    let mut parts = rest.split('.');
    let (Some(pid), Some(number), Some(cause), None) = (parts.next(), parts.next(), parts.next(), parts.next()) else {
        return None;
    };
    let mut letters = cause.chars();
    let cause = Cause::of_letter(letters.next()?)?;
    let is_number = letters.as_str().bytes().all(|digit| digit.is_ascii_digit());
    Some((pid.parse().ok()?, number.parse().ok()?, cause)).filter(|_| is_number)
}

/// The files beyond the limits, of files newest first.
fn beyond(files: &[DumpFile], limits: DumpFileLimits) -> &[DumpFile] {
    let mut bytes = 0_u64;
    let is_kept = |(index, file): &(usize, &DumpFile)| {
        bytes = bytes.saturating_add(file.bytes);
        *index < limits.files && (*index == 0 || bytes <= limits.bytes)
    };
    let kept = files.iter().enumerate().take_while(is_kept).count();
    &files[kept..]
}

fn memory_map(text: &[u8]) -> Option<&[u8]> {
    const HEAD: &[u8] = b"\nMAPPED_LIBRARIES:\n";
    let at = text.windows(HEAD.len()).rposition(|window| window == HEAD)?;
    text.get(at..)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    #[test]
    fn names_are_jemallocs() {
        assert_eq!(parse("jeprof", "jeprof.4711.12.i12.heap"), Some((4711, 12, Cause::Interval)));
        assert_eq!(parse("jeprof", "jeprof.4711.3.u0.heap"), Some((4711, 3, Cause::Peak)));
        assert_eq!(parse("a.b", "a.b.1.2.f.heap"), Some((1, 2, Cause::End)));
        for other in [
            "jeprof.heap",
            "jeprof.1.2.x3.heap",
            "jeprof.1.2.i3.heap.tmp",
            "other.1.2.i3.heap",
            "jeprof.1.2.i3x.heap",
            "jeprof.1.2.3.i4.heap",
        ] {
            assert_eq!(parse("jeprof", other), None, "{other}");
        }
        let folder =
            |prefix| DumpFiles::with_prefix(prefix).map(|files| (files.folder.display().to_string(), files.prefix));
        assert_eq!(folder("jeprof"), Some((".".into(), "jeprof".into())));
        assert_eq!(folder("/var/dumps/be"), Some(("/var/dumps".into(), "be".into())));
        assert_eq!(folder("/be"), Some(("/".into(), "be".into())));
        assert_eq!((folder(""), folder("dumps/")), (None, None));
    }

    #[test]
    fn the_newest_stay_within_both_limits() {
        let file = |number: u64, bytes| DumpFile {
            name: format!("jeprof.1.{number}.i{number}.heap"),
            pid: 1,
            number,
            cause: Cause::Interval,
            bytes,
            written: SystemTime::UNIX_EPOCH + Duration::from_secs(number),
        };
        let files = [file(5, 100), file(4, 30), file(3, 30), file(2, 1)];
        for (limits, gone) in [((9, 1000), 0), ((2, 1000), 2), ((9, 130), 2), ((9, 50), 3), ((0, 0), 4), ((1, 0), 3)] {
            assert_eq!(beyond(&files, DumpFileLimits { files: limits.0, bytes: limits.1 }).len(), gone, "{limits:?}");
        }
    }
}
