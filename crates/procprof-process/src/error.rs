//! Errors of reading a process.

use std::io;
use std::path::{Path, PathBuf};

use crate::Pid;

/// The result of reading a process.
pub type Result<T> = std::result::Result<T, Error>;

/// Errors of reading a process.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The process has ended, or another one has its pid now.
    #[error("process {pid} is gone")]
    Gone {
        /// The requested pid.
        pid: Pid,
    },
    /// This user may not read that part of the process.
    #[error("no permission to read {}", path.display())]
    Permission {
        /// The file below `/proc` that was refused.
        path: PathBuf,
    },
    /// The kernel's text is not what this crate expects.
    #[error("{}: line {line}: expected {expected}", path.display())]
    Malformed {
        /// The file that was read.
        path: PathBuf,
        /// The line, from 1.
        line: usize,
        /// The expected text.
        expected: &'static str,
    },
    /// A file exceeds the limit of its length.
    #[error("{} is longer than {limit} bytes", path.display())]
    TooLong {
        /// The file that was read.
        path: PathBuf,
        /// The limit, in bytes.
        limit: u64,
    },
    /// A file has more of something than is read.
    #[error("{} has more than {limit} {what}", path.display())]
    TooMany {
        /// The file that was read.
        path: PathBuf,
        /// The limit.
        limit: usize,
        /// The counted things, in the plural.
        what: &'static str,
    },
    /// The file behind a mapping can't be opened, or what is there now is another file.
    #[error("the file mapped as {} can't be reached", path.display())]
    Unreachable {
        /// The file's name as in the maps of the process.
        path: PathBuf,
    },
    /// Any other failure to read.
    #[error("{}: {source}", path.display())]
    Io {
        /// The file that was read.
        path: PathBuf,
        /// The error of the system.
        source: io::Error,
    },
}

impl Error {
    /// Sorts a failure to read `path`, a file that has nothing to do with one process.
    pub(crate) fn io(path: &Path, source: io::Error) -> Self {
        let path = path.to_owned();
        if source.kind() == io::ErrorKind::PermissionDenied {
            return Self::Permission { path };
        }
        Self::Io { path, source }
    }

    /// Sorts a failure to read `path` below `/proc/PID`, where "not found" means the process ended.
    pub(crate) fn of_process(pid: Pid, path: &Path, source: io::Error) -> Self {
        /// `ESRCH`: the error of reading an open file of a process that ended.
        const NO_SUCH_PROCESS: i32 = 3;
        let not_found = source.kind() == io::ErrorKind::NotFound;
        if not_found || source.raw_os_error() == Some(NO_SUCH_PROCESS) {
            return Self::Gone { pid };
        }
        Self::io(path, source)
    }

    /// The error for something unexpected in `line` of `path`.
    pub(crate) fn malformed(path: &Path, line: usize, expected: &'static str) -> Self {
        Self::Malformed { path: path.to_owned(), line, expected }
    }

    /// Whether the process (or thread) ended, as opposed to a failure to read it.
    pub fn is_gone(&self) -> bool {
        matches!(self, Self::Gone { .. })
    }
}
