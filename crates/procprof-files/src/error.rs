//! Errors of files.

use std::io;
use std::path::{Path, PathBuf};

/// Result with this crate's [`Error`].
pub type Result<T> = std::result::Result<T, Error>;

/// Why a file or folder was not read or written.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The operating system refused.
    #[error("{doing} {}", path.display())]
    Io {
        /// The operation.
        doing: &'static str,
        /// The file.
        path: PathBuf,
        /// The system's reason.
        source: io::Error,
    },
    /// A link, a folder, a pipe or a device where a file was expected.
    #[error("{}: not a regular file", path.display())]
    NotRegular {
        /// The path.
        path: PathBuf,
    },
    /// The file exceeds the caller's limit.
    #[error("{}: {bytes} bytes exceed the limit of {limit}", path.display())]
    TooLarge {
        /// The file.
        path: PathBuf,
        /// Its size in bytes, or the part that was read when the limit was exceeded.
        bytes: u64,
        /// The limit in bytes.
        limit: u64,
    },
    /// The file was written by a newer program, in a version that this one does not read.
    #[error("{}: {format} of version {found}; this procprof reads up to {supported}", path.display())]
    Version {
        /// The file.
        path: PathBuf,
        /// The name of the format.
        format: &'static str,
        /// The version of the file.
        found: u32,
        /// The newest version that is read.
        supported: u32,
    },
    /// The file with the version of a folder has none, or that of another format.
    #[error("{}: expected {expected:?}", path.display())]
    Mark {
        /// The file.
        path: PathBuf,
        /// The mark that is written.
        expected: String,
    },
}

impl Error {
    pub(crate) fn io(doing: &'static str, path: impl AsRef<Path>, source: impl Into<io::Error>) -> Error {
        Error::Io { doing, path: path.as_ref().to_owned(), source: source.into() }
    }

    /// Whether the file or its folder does not exist.
    pub fn is_not_found(&self) -> bool {
        matches!(self, Error::Io { source, .. } if source.kind() == io::ErrorKind::NotFound)
    }
}

/// The system's reason alone, for callers whose own errors name the file.
impl From<Error> for io::Error {
    fn from(error: Error) -> io::Error {
        match error {
            Error::Io { source, .. } => source,
            other => io::Error::new(io::ErrorKind::InvalidData, other.to_string()),
        }
    }
}
