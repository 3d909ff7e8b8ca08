//! Errors of a folder of profiles.

use std::io;
use std::path::{Path, PathBuf};

use procprof_profile::ProfileId;

/// Result with this crate's [`Error`].
pub type Result<T> = std::result::Result<T, Error>;

/// Why an operation of the store failed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// Another process has the folder open.
    #[error("{folder}: in use by {}", pid.map_or("another process".to_owned(), |pid| format!("process {pid}")))]
    Locked {
        /// The data folder.
        folder: PathBuf,
        /// The process that holds it, if the lock file has it.
        pid: Option<u32>,
    },
    /// No profile has that id.
    #[error("profile {id}: not in the store")]
    NotFound {
        /// The requested id.
        id: ProfileId,
    },
    /// The profile is listed, but its file was removed from outside.
    #[error("profile {id}: its file {file} is gone")]
    Gone {
        /// The requested id.
        id: ProfileId,
        /// Node and name of the missing file.
        file: String,
    },
    /// A profile with that id is stored already.
    #[error("profile {id}: already in the store")]
    Exists {
        /// The id.
        id: ProfileId,
    },
    /// A profile cannot be stored without this fact.
    #[error("profile lacks its {what}")]
    Incomplete {
        /// The fact that is missing.
        what: &'static str,
    },
    /// Malformed bytes.
    #[error("{what}: {why}")]
    Malformed {
        /// The input.
        what: String,
        /// The problem.
        why: String,
    },
    /// A limit was exceeded.
    #[error("{what}: {bytes} bytes exceed the limit of {limit}")]
    TooLarge {
        /// The object that is too large.
        what: String,
        /// Its size in bytes, or the part that was read when the limit was exceeded.
        bytes: u64,
        /// The limit in bytes.
        limit: u64,
    },
    /// The disk or the quota is full. Nothing half-written remains.
    #[error("{doing}: no space left")]
    DiskFull {
        /// The object that was written.
        doing: String,
    },
    /// The profile is pinned, so it is not deleted.
    #[error("profile {id}: pinned; unpin it first")]
    Pinned {
        /// The id.
        id: ProfileId,
    },
    /// Pinning this profile would exceed the limit of pinned bytes.
    #[error("profile {id}: pinning its {bytes} bytes beside {pinned} pinned already would exceed the limit of {limit}")]
    PinsFull {
        /// The id.
        id: ProfileId,
        /// Size of the profile's file.
        bytes: u64,
        /// Bytes that are already pinned.
        pinned: u64,
        /// The limit in bytes.
        limit: u64,
    },
    /// A cursor or another text that cannot be read.
    #[error("{what} {text:?}: {why}")]
    Argument {
        /// The meaning of the text.
        what: &'static str,
        /// The text, truncated to 64 characters.
        text: String,
        /// The problem.
        why: &'static str,
    },
    /// The catalog cannot be read or written; [`Store::rebuild`](crate::Store::rebuild) rebuilds it.
    #[error("catalog: {doing}")]
    Catalog {
        /// The operation.
        doing: &'static str,
        /// Whether the catalog itself is broken.
        is_corrupt: bool,
        /// The database's error.
        source: Box<dyn std::error::Error + Send + Sync>,
    },
    /// A row of the catalog is invalid.
    #[error("catalog: row of profile {id}: {why}")]
    CatalogRow {
        /// The profile.
        id: ProfileId,
        /// The problem.
        why: String,
    },
    /// A newer program has written the file.
    #[error(transparent)]
    Version(procprof_files::Error),
    /// The operating system refused.
    #[error("{doing} {}", path.display())]
    Io {
        /// The operation.
        doing: &'static str,
        /// The file.
        path: PathBuf,
        /// The system's error.
        source: io::Error,
    },
}

impl Error {
    /// An [`Error::DiskFull`] if the system reports that, otherwise an [`Error::Io`].
    pub(crate) fn io(doing: &'static str, path: impl AsRef<Path>, source: impl Into<io::Error>) -> Error {
        let source = source.into();
        let path = path.as_ref();
        if is_full(&source) {
            return Error::DiskFull { doing: format!("{doing} {}", path.display()) };
        }
        Error::Io { doing, path: path.to_owned(), source }
    }

    pub(crate) fn malformed(what: impl Into<String>, why: impl Into<String>) -> Error {
        Error::Malformed { what: what.into(), why: why.into() }
    }

    /// Whether the catalog file itself is broken, so that only a rebuild helps.
    pub fn is_catalog_corrupt(&self) -> bool {
        matches!(self, Error::CatalogRow { .. } | Error::Catalog { is_corrupt: true, .. })
    }
}

impl From<procprof_files::Error> for Error {
    fn from(error: procprof_files::Error) -> Error {
        match error {
            procprof_files::Error::Io { doing, path, source } => Error::io(doing, path, source),
            procprof_files::Error::TooLarge { path, bytes, limit } => {
                Error::TooLarge { what: path.display().to_string(), bytes, limit }
            }
            procprof_files::Error::NotRegular { path } => {
                Error::malformed(path.display().to_string(), "not a regular file")
            }
            error @ procprof_files::Error::Version { .. } => Error::Version(error),
            other => Error::malformed("file", other.to_string()),
        }
    }
}

/// A full disk, a full quota, or the process's own limit on file sizes.
fn is_full(error: &io::Error) -> bool {
    use io::ErrorKind::{FileTooLarge, QuotaExceeded, StorageFull};
    matches!(error.kind(), StorageFull | QuotaExceeded | FileTooLarge)
}

/// An error and its causes, in one line.
pub(crate) fn with_source(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut source = error.source();
    while let Some(inner) = source {
        text.push_str(&format!(": {inner}"));
        source = inner.source();
    }
    text
}
