//! What can go wrong with a folder of profiles.

use std::io;
use std::path::{Path, PathBuf};

use procprof_profile::ProfileId;

/// Result with this crate's [`Error`].
pub type Result<T> = std::result::Result<T, Error>;

/// Why the store could not do what it was asked.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// Another process has the folder open.
    #[error("{folder}: in use by {}", pid.map_or("another process".to_owned(), |pid| format!("process {pid}")))]
    Locked {
        /// The data folder.
        folder: PathBuf,
        /// The process that holds it, as far as the lock file tells.
        pid: Option<u32>,
    },
    /// No profile has that id.
    #[error("profile {id}: not in the store")]
    NotFound {
        /// The id asked for.
        id: ProfileId,
    },
    /// The profile is listed, but its file went away behind the store's back.
    #[error("profile {id}: its file {file} is gone")]
    Gone {
        /// The id asked for.
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
    /// Bytes that are not what they should be.
    #[error("{what}: {why}")]
    Malformed {
        /// What was read.
        what: String,
        /// What is wrong with it.
        why: String,
    },
    /// A stated limit was passed.
    #[error("{what}: {bytes} bytes pass the limit of {limit}")]
    TooLarge {
        /// What is too large.
        what: String,
        /// Its size in bytes, or how much of it was seen when the limit was passed.
        bytes: u64,
        /// The limit in bytes.
        limit: u64,
    },
    /// The disk (or the quota) has no room left. Nothing half-written remains.
    #[error("{doing}: no space left")]
    DiskFull {
        /// What was being written.
        doing: String,
    },
    /// The profile is pinned, so it is not deleted.
    #[error("profile {id}: pinned; unpin it first")]
    Pinned {
        /// The id.
        id: ProfileId,
    },
    /// Pinning this profile would pass the limit on pinned bytes.
    #[error("profile {id}: pinning its {bytes} bytes beside {pinned} pinned already would pass the limit of {limit}")]
    PinsFull {
        /// The id.
        id: ProfileId,
        /// Size of the profile's file.
        bytes: u64,
        /// Bytes pinned already.
        pinned: u64,
        /// The limit in bytes.
        limit: u64,
    },
    /// A cursor or another text that cannot be read.
    #[error("{what} {text:?}: {why}")]
    Argument {
        /// What the text stands for.
        what: &'static str,
        /// The text, cut at 64 characters.
        text: String,
        /// What is wrong with it.
        why: &'static str,
    },
    /// The catalog cannot be read or written; [`Store::rebuild`](crate::Store::rebuild) makes it anew.
    #[error("catalog: {doing}")]
    Catalog {
        /// What was being done.
        doing: &'static str,
        /// What SQLite says.
        source: rusqlite::Error,
    },
    /// A row of the catalog does not say what it must.
    #[error("catalog: row of profile {id}: {why}")]
    CatalogRow {
        /// The profile.
        id: ProfileId,
        /// What is wrong with it.
        why: String,
    },
    /// The operating system refused.
    #[error("{doing} {}", path.display())]
    Io {
        /// What was being done.
        doing: &'static str,
        /// With which file.
        path: PathBuf,
        /// What the system says.
        source: io::Error,
    },
}

impl Error {
    /// An [`Error::DiskFull`] when the system says so, else an [`Error::Io`].
    pub(crate) fn io(doing: &'static str, path: impl AsRef<Path>, source: impl Into<io::Error>) -> Error {
        let source = source.into();
        let path = path.as_ref();
        if is_full(&source) {
            return Error::DiskFull { doing: format!("{doing} {}", path.display()) };
        }
        Error::Io { doing, path: path.to_owned(), source }
    }

    /// An [`Error::DiskFull`] when SQLite says so, or finds no room for the index of its log, else an [`Error::Catalog`].
    pub(crate) fn catalog(doing: &'static str, source: rusqlite::Error) -> Error {
        let has_no_index = source.sqlite_error().is_some_and(|error| error.extended_code == rusqlite::ffi::SQLITE_IOERR_SHMSIZE);
        if has_no_index || source.sqlite_error_code() == Some(rusqlite::ErrorCode::DiskFull) {
            return Error::DiskFull { doing: format!("catalog: {doing}") };
        }
        Error::Catalog { doing, source }
    }

    pub(crate) fn malformed(what: impl Into<String>, why: impl Into<String>) -> Error {
        Error::Malformed { what: what.into(), why: why.into() }
    }

    /// Whether the catalog file itself is broken, so that only a rebuild helps.
    pub fn is_catalog_corrupt(&self) -> bool {
        use rusqlite::Error::{FromSqlConversionFailure, IntegralValueOutOfRange, InvalidColumnType, Utf8Error};
        use rusqlite::ErrorCode::{DatabaseCorrupt, NotADatabase};
        match self {
            Error::CatalogRow { .. } => true,
            Error::Catalog { source: FromSqlConversionFailure(..) | IntegralValueOutOfRange(..) | InvalidColumnType(..), .. } => true,
            Error::Catalog { source: Utf8Error(..), .. } => true,
            Error::Catalog { source, .. } => {
                matches!(source.sqlite_error_code(), Some(DatabaseCorrupt | NotADatabase)) || source.to_string().contains("no such table")
            }
            _ => false,
        }
    }
}

/// A full disk, a full quota, or the process's own limit on file sizes.
fn is_full(error: &io::Error) -> bool {
    use io::ErrorKind::{FileTooLarge, QuotaExceeded, StorageFull};
    matches!(error.kind(), StorageFull | QuotaExceeded | FileTooLarge)
}
