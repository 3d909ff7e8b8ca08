//! Errors of an archive.

use procprof_profile::ProfileId;

use crate::{Hour, Part};

/// Result with this crate's [`Error`].
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// Why an archive was not read or written.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The storage refused, or an object is of a version that is not read.
    #[error(transparent)]
    Files(#[from] procprof_files::Error),
    /// There is no such object.
    #[error("{object}: not found")]
    NotFound {
        /// The object.
        object: String,
    },
    /// A bucket refused, or was not reached in time.
    #[error("{doing} {object}: {why}")]
    Bucket {
        /// The operation.
        doing: &'static str,
        /// The URL of the object.
        object: String,
        /// The host and what it answered, without anything secret.
        why: String,
    },
    /// A text that names no place of an archive; it is not shown, since it may have a password.
    #[error("{scheme}:// {why}")]
    Place {
        /// The scheme of the URL.
        scheme: String,
        /// The problem.
        why: String,
    },
    /// The file is not intact Parquet.
    #[error("{file}: {why}")]
    Malformed {
        /// The file, relative to the archive.
        file: String,
        /// The problem.
        why: String,
    },
    /// A column is missing, of another type, or holds what it must not.
    #[error("{file}: column {column}: {why}")]
    Column {
        /// The file, relative to the archive.
        file: String,
        /// The column.
        column: String,
        /// The problem.
        why: String,
    },
    /// A limit was exceeded.
    #[error("{what}: {size} exceeds the limit of {limit}")]
    TooLarge {
        /// What is too large.
        what: String,
        /// Its size.
        size: u64,
        /// The limit, in the same unit.
        limit: u64,
    },
    /// A file of a part is at fault, whatever it was read for.
    #[error("a part of the archive cannot be read")]
    Part {
        /// The part.
        part: Part,
        /// The problem.
        source: Box<Error>,
    },
    /// A change of a day cannot be read, so that which of its parts others have replaced is not known.
    #[error("the archive's parts of {} are left out: which of them count is not known: {why}", .day.date().trim_start_matches("date="))]
    UnclearDay {
        /// The first hour of the day.
        day: Hour,
        /// Which change, and the problem.
        why: String,
    },
    /// A profile that cannot be archived.
    #[error("profile {id}")]
    Profile {
        /// The profile.
        id: ProfileId,
        /// The problem.
        source: procprof_profile::Error,
    },
    /// Profiles that cannot be summed.
    #[error("profiles of different sample types: {one} and {other}")]
    Incompatible {
        /// The sample types of one profile.
        one: String,
        /// Those of another.
        other: String,
    },
    /// A file could not be written as Parquet.
    #[error("write {table}")]
    Write {
        /// The table.
        table: &'static str,
        /// The problem.
        source: parquet::errors::ParquetError,
    },
    /// The caller does not need the sum any more.
    #[error("stopped")]
    Stopped,
    /// Another compaction of the archive runs, or has died within the time of its lease.
    #[error("another compaction of the archive runs, or died: it has the lease for {} s more", .left.0 / 1_000_000_000 + 1)]
    Busy {
        /// How long its lease lasts.
        left: procprof_profile::Nanos,
    },
    /// A compaction took longer than its lease without renewing it, or another one has taken it.
    #[error("the lease of the compaction is lost; the next one completes what it has begun")]
    LeaseLost,
    /// A sum that no profile can hold.
    #[error("sum of profiles")]
    Sum(#[source] procprof_profile::Error),
}

impl Error {
    /// Whether an object is missing that was to be read.
    pub fn is_not_found(&self) -> bool {
        match self {
            Error::Files(error) => error.is_not_found(),
            error => matches!(error, Error::NotFound { .. }),
        }
    }

    /// Whether a file of an archive is at fault, not its storage.
    pub fn is_of_file(&self) -> bool {
        matches!(
            self,
            Error::Malformed { .. }
                | Error::Column { .. }
                | Error::TooLarge { .. }
                | Error::Files(procprof_files::Error::Version { .. })
        )
    }

    pub(crate) fn malformed(file: impl ToString, why: impl ToString) -> Error {
        Error::Malformed { file: file.to_string(), why: why.to_string() }
    }

    pub(crate) fn column(file: impl ToString, column: &str, why: impl ToString) -> Error {
        Error::Column { file: file.to_string(), column: column.to_owned(), why: why.to_string() }
    }
}
