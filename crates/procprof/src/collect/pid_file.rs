//! The daemon's pid file: holds its pid, is locked while it runs and goes when it ends.
//!
//! The lock decides, so that a pid that now belongs to another process does not prevent a start. A script's daemon
//! locks nothing: it is recognized by its command line.

use std::fs::{self, File, OpenOptions};
use std::io::{Read, Seek, SeekFrom, Write};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use procprof_process::{Pid, Process};
use rustix::fs::{FlockOperation, flock};

/// A pid file that is ours; dropping it removes it.
#[derive(Debug)]
pub(super) struct PidFile {
    path: PathBuf,
    /// Holds the lock.
    _file: File,
}

/// The result of a claim to the pid file.
#[derive(Debug)]
pub(super) enum Claim {
    /// No other daemon runs.
    Ours(PidFile),
    /// That process runs already.
    Running(u32),
}

/// Takes the pid file for this process.
pub(super) fn claim(path: &Path) -> Result<Claim> {
    if let Some(folder) = path.parent() {
        fs::create_dir_all(folder).with_context(|| format!("make folder {}", folder.display()))?;
    }
    loop {
        let options = OpenOptions::new().read(true).write(true).create(true).truncate(false).open(path);
        let mut file = options.with_context(|| format!("open {}", path.display()))?;
        if let Some(pid) = holder(&mut file) {
            return Ok(Claim::Running(pid));
        }
        // A process that has just ended may have removed the file between our opening and our locking it.
        let same = fs::metadata(path)
            .ok()
            .zip(file.metadata().ok())
            .is_some_and(|(named, opened)| named.ino() == opened.ino());
        if !same {
            continue;
        }
        let written = file
            .set_len(0)
            .and_then(|()| file.seek(SeekFrom::Start(0)))
            .and_then(|_| writeln!(file, "{}", std::process::id()));
        written.with_context(|| format!("write {}", path.display()))?;
        return Ok(Claim::Ours(PidFile { path: path.to_owned(), _file: file }));
    }
}

/// The process that runs by this pid file, if any does.
pub(super) fn running(path: &Path) -> Option<u32> {
    holder(&mut File::open(path).ok()?)
}

/// The pid in the file, if its process still runs. Locks the file otherwise.
fn holder(file: &mut File) -> Option<u32> {
    let locked = flock(&*file, FlockOperation::NonBlockingLockExclusive).is_ok();
    let pid = read_pid(file);
    if !locked {
        return Some(pid.unwrap_or(0));
    }
    pid.filter(|pid| is_script(*pid))
}

/// The pid a file holds.
pub(super) fn read_pid(file: &mut File) -> Option<u32> {
    let mut text = String::new();
    file.seek(SeekFrom::Start(0)).ok()?;
    file.take(32).read_to_string(&mut text).ok()?;
    text.trim().parse().ok()
}

fn is_script(pid: u32) -> bool {
    let line = Process::open(Pid(pid)).and_then(|process| process.command_line()).unwrap_or_default();
    line.arguments.iter().any(|argument| argument.contains("collect_be_profile.sh"))
}

impl Drop for PidFile {
    fn drop(&mut self) {
        // An error can't be reported any more; the lock ends with the process in any case.
        drop(fs::remove_file(&self.path));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_holder_at_a_time_and_stale_files_do_not_count() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("bin/collect_be_profile.pid");
        assert_eq!(running(&path), None);
        let Claim::Ours(ours) = claim(&path).unwrap() else { panic!("taken") };
        assert_eq!(running(&path), Some(std::process::id()));
        let Claim::Running(pid) = claim(&path).unwrap() else { panic!("taken twice") };
        assert_eq!(pid, std::process::id());
        drop(ours);
        assert!(!path.exists());
        // Pid 1 lives, but is not what the file is about.
        fs::write(&path, "1\n").unwrap();
        assert_eq!(running(&path), None);
        assert!(matches!(claim(&path).unwrap(), Claim::Ours(_)));
    }
}
