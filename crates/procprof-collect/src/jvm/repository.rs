//! The repository of a JVM's Flight Recorder: a folder with the chunks of all its recordings, which stay there when the
//! JVM is killed. What has happened in the last second may not have been written.

use std::fs::File;
use std::io::Read;
use std::os::fd::OwnedFd;

use procprof_process::Pid;
use rustix::fs::{FileType, Mode, OFlags};

use super::chunks::chunks;
use super::folder::open_inside;

/// Most files that are looked at.
const FILES_MAX: usize = 1000;

/// The folder, kept open: a process that has ended has no root.
#[derive(Debug)]
pub(super) struct Repository(OwnedFd);

impl Repository {
    /// Opens the folder that the JVM names in its answer to `JFR.configure`, as the JVM sees it; `None` if it has none
    /// or it cannot be opened.
    pub(super) fn open(pid: Pid, configuration: &str) -> Option<Repository> {
        let path = configuration.lines().find_map(|line| line.strip_prefix("Repository path: "))?.trim();
        let path = path.strip_prefix('/')?;
        open_inside(pid, path, OFlags::RDONLY | OFlags::DIRECTORY).ok().map(Repository)
    }

    /// The whole chunks that begin at a time in nanoseconds or later, the oldest first; of more than `limit` bytes, the
    /// latest.
    pub(super) fn chunks_since(&self, since: u64, limit: u64) -> Vec<u8> {
        let Ok(entries) = rustix::fs::Dir::read_from(&self.0) else { return Vec::new() };
        let names = entries.flatten().map(|entry| entry.file_name().to_owned()).take(FILES_MAX);
        let mut found: Vec<(u64, Vec<u8>)> = Vec::new();
        let mut left = limit;
        let mut names: Vec<_> = names.filter(|name| name.to_bytes().ends_with(b".jfr")).collect();
        // By their times.
        names.sort_unstable();
        for name in names.iter().rev() {
            let Some(bytes) = self.read(name, left) else { continue };
            for (start, chunk) in chunks(&bytes).map_while(Result::ok).filter(|(start, _)| *start >= since) {
                left = left.saturating_sub(chunk.len() as u64);
                found.push((start, chunk.to_vec()));
            }
        }
        found.sort_unstable_by_key(|(start, _)| *start);
        found.into_iter().flat_map(|(_, chunk)| chunk).collect()
    }

    /// A regular file of at most `limit` bytes; other processes may write to the folder.
    fn read(&self, name: &std::ffi::CStr, limit: u64) -> Option<Vec<u8>> {
        let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
        let file = rustix::fs::openat(&self.0, name, flags, Mode::empty()).ok()?;
        let stat = rustix::fs::fstat(&file).ok()?;
        let is_regular = FileType::from_raw_mode(stat.st_mode) == FileType::RegularFile;
        if !is_regular || stat.st_size.cast_unsigned() > limit {
            return None;
        }
        let mut bytes = Vec::new();
        File::from(file).take(limit).read_to_end(&mut bytes).ok()?;
        Some(bytes)
    }
}
