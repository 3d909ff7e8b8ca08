//! Converts SQLite's errors to the store's.

use rusqlite::ErrorCode::{DatabaseCorrupt, DiskFull, NotADatabase};

use crate::Error;

/// An [`Error::DiskFull`] if SQLite reports that, or has no space for the index of its log, otherwise an
/// [`Error::Catalog`].
pub(super) fn failed(doing: &'static str, source: rusqlite::Error) -> Error {
    let has_no_index =
        source.sqlite_error().is_some_and(|error| error.extended_code == rusqlite::ffi::SQLITE_IOERR_SHMSIZE);
    if has_no_index || source.sqlite_error_code() == Some(DiskFull) {
        return Error::DiskFull { doing: format!("catalog: {doing}") };
    }
    Error::Catalog { doing, is_corrupt: is_corrupt(&source), source: Box::new(source) }
}

/// Whether the database itself is broken, so that only a rebuild helps.
fn is_corrupt(error: &rusqlite::Error) -> bool {
    use rusqlite::Error::{FromSqlConversionFailure, IntegralValueOutOfRange, InvalidColumnType, Utf8Error};
    match error {
        FromSqlConversionFailure(..) | IntegralValueOutOfRange(..) | InvalidColumnType(..) | Utf8Error(..) => true,
        error => {
            matches!(error.sqlite_error_code(), Some(DatabaseCorrupt | NotADatabase))
                || error.to_string().contains("no such table")
        }
    }
}

/// The error for a database that contradicts itself.
pub(super) fn broken(why: &str) -> rusqlite::Error {
    rusqlite::Error::SqliteFailure(rusqlite::ffi::Error::new(rusqlite::ffi::SQLITE_CORRUPT), Some(why.to_owned()))
}
