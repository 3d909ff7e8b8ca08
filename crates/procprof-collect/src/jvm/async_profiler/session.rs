//! Finds out whether a session of async-profiler is procprof's: by the libraries that a process has loaded, and by the
//! files of procprof that it has open.

use std::path::Path;

use procprof_process::{Pid, Process};

use crate::jvm::folder::FolderName;

/// Part of a library's file name, also of the copies that Java programs unpack: `libasyncProfiler-1234567890.so`.
const LIBRARY: &str = "asyncProfiler";
/// Prefix of the names of procprof's recordings.
const FILE_PREFIX: &str = "async-";
const FILE_SUFFIX: &str = ".jfr";
/// How far the clock may have been set while a maker of a folder ran, in nanoseconds.
const CLOCK_SLACK: i64 = 5_000_000_000;

/// The name of a recording of procprof.
pub(super) fn file_name(number: u32) -> String {
    format!("{FILE_PREFIX}{number}{FILE_SUFFIX}")
}

/// The libraries of async-profiler that a process has loaded, by the names it loaded them by, each once. Their files
/// may be gone.
pub(super) fn loaded(process: &Process) -> procprof_process::Result<Vec<String>> {
    let mut names = Vec::new();
    for range in process.maps()?.iter().filter(|range| range.is_file_code()) {
        let is_library = range.path.file_name().is_some_and(|name| name.to_string_lossy().contains(LIBRARY));
        let name = range.name().into_owned();
        if is_library && !names.contains(&name) {
            names.push(name);
        }
    }
    Ok(names)
}

/// A recording of procprof that a process is writing.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct OwnRecording {
    /// Its path, as the process names it.
    pub(super) path: String,
    /// The name of its folder.
    pub(super) folder: String,
    /// The parts of that name.
    pub(super) begun: FolderName,
    /// Whether it was removed while it is being written.
    pub(super) is_removed: bool,
}

impl OwnRecording {
    /// The recording of a path, if it is named like procprof's.
    fn read(path: &str) -> Option<OwnRecording> {
        let (path, is_removed) = path.strip_suffix(" (deleted)").map_or((path, false), |path| (path, true));
        let name = Path::new(path).file_name()?.to_str()?;
        let number = name.strip_prefix(FILE_PREFIX)?.strip_suffix(FILE_SUFFIX)?;
        let folder = Path::new(path).parent()?.file_name()?.to_str()?;
        let begun = FolderName::read(folder)?;
        let recording = || OwnRecording { path: path.to_owned(), folder: folder.to_owned(), begun, is_removed };
        number.bytes().all(|byte| byte.is_ascii_digit()).then(recording)
    }

    /// Whether the procprof that started it still runs.
    pub(super) fn has_live_maker(&self) -> bool {
        // A process that started later has only the same pid.
        let FolderName { maker, made, .. } = self.begun;
        Process::open(maker).is_ok_and(|process| process.identity().start_time.0 <= made.saturating_add(CLOCK_SLACK))
    }
}

/// The recording of procprof that a process is writing; `None` also where its files may not be seen.
pub(super) fn own_recording(pid: Pid) -> Option<OwnRecording> {
    let entries = std::fs::read_dir(format!("/proc/{pid}/fd")).ok()?;
    let targets = entries.flatten().filter_map(|entry| std::fs::read_link(entry.path()).ok());
    targets.into_iter().find_map(|target| OwnRecording::read(target.to_str()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn recordings_of_ours_are_known_by_their_names() {
        let path = "/tmp/procprof-7-0-ff/async-12.jfr";
        let begun = FolderName { maker: Pid(7), target: Pid(0), made: 255 };
        let expected = |is_removed| {
            Some(OwnRecording { path: path.to_owned(), folder: "procprof-7-0-ff".to_owned(), begun, is_removed })
        };
        assert_eq!(OwnRecording::read(path), expected(false));
        assert_eq!(OwnRecording::read(&format!("{path} (deleted)")), expected(true));
        for other in [
            "/tmp/procprof-7-0-ff/1.jfr",
            "/tmp/procprof-7/async-1.jfr",
            "/tmp/async-1.jfr",
            "/tmp/procprof-7-0-ff/async-x.jfr",
            "",
        ] {
            assert_eq!(OwnRecording::read(other), None, "{other}");
        }
    }

    #[test]
    fn a_later_process_of_the_same_pid_is_not_the_maker() {
        let start = Process::current().unwrap().identity().start_time.0;
        let begun = |made| FolderName { maker: Pid(std::process::id()), target: Pid(1), made };
        let made_at =
            |made| OwnRecording { path: String::new(), folder: String::new(), begun: begun(made), is_removed: true };
        assert!(made_at(start + CLOCK_SLACK).has_live_maker());
        assert!(!made_at(start - 2 * CLOCK_SLACK).has_live_maker());
    }

    #[test]
    fn an_open_recording_is_found_in_a_process() {
        let folder = tempfile::tempdir().unwrap();
        let own = folder.path().join(crate::jvm::folder::folder_name(Pid(1)));
        std::fs::create_dir(&own).unwrap();
        let path = own.join(file_name(3));
        let file = std::fs::File::create(&path).unwrap();
        let found = own_recording(Pid(std::process::id())).unwrap();
        assert_eq!((found.path.as_str(), found.begun.maker.0), (path.to_str().unwrap(), std::process::id()));
        drop(file);
    }
}
