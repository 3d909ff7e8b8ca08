//! Opens, checks, creates and removes the catalog's database file.

use std::fs::OpenOptions;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use rusqlite::config::DbConfig;
use rusqlite::{Connection, ErrorCode, OpenFlags};

use super::error::{broken, failed};
use super::schema::{self, COLUMNS, ENTRIES};
use crate::{Error, Result};

/// Why a database cannot be used.
pub(crate) enum Unfit {
    /// The system refused: creating it again would not help.
    Error(Error),
    /// It is missing, broken or of another version.
    Because(String),
}

/// Databases up to this size are read through before they are trusted (it takes about half a second); larger ones
/// later, by [`check`].
const CHECKED_AT_ONCE_BYTES: u64 = 64 << 20;
/// Number of pages of 4 KiB from which on the log is written back into the database, so that deletions on a full disk
/// do not use up the space that they free.
const WAL_PAGES: u32 = 256;

/// Opens a database for writing if it can be trusted, and returns whether it was read through.
pub(crate) fn open_checked(path: &Path) -> std::result::Result<(Connection, bool), Unfit> {
    let bytes = match path.symlink_metadata() {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Err(Unfit::Because("missing".to_owned())),
        Err(error) => return Err(Unfit::Error(Error::io("examine", path, error))),
        Ok(state) if !state.is_file() => return Err(Unfit::Because("not a regular file".to_owned())),
        Ok(state) => state.len(),
    };
    let broken = |source: rusqlite::Error| {
        let error = failed("open", source);
        match &error {
            Error::Catalog { source, .. } if error.is_catalog_corrupt() => Unfit::Because(source.to_string()),
            _ => Unfit::Error(error),
        }
    };
    let connection = open_writer(path).map_err(broken)?;
    let version = schema::version(&connection).map_err(broken)?;
    if version != schema::VERSION {
        let upgraded = schema::upgrade(&connection, version).map_err(|source| match source.sqlite_error_code() {
            // Its tables are not those of its version.
            Some(ErrorCode::Unknown) => Unfit::Because(source.to_string()),
            _ => broken(source),
        });
        if !upgraded? {
            return Err(Unfit::Because(format!("of version {version}, not {}", schema::VERSION)));
        }
    }
    let more = "type, started, duration, trigger, cluster, labels, samples, totals, top_function, threads, functions, \
                engine, lost, stamp, words";
    let tables = connection.prepare(&format!("SELECT {COLUMNS}, {more} FROM {ENTRIES}")).map(drop);
    if let Err(error) = tables {
        return Err(Unfit::Because(error.to_string()));
    }
    let is_small = bytes <= CHECKED_AT_ONCE_BYTES;
    if is_small {
        check(&connection).map_err(broken)?;
    }
    Ok((connection, is_small))
}

/// Reads a database through; returns an error that means corruption if it is broken.
pub(crate) fn check(connection: &Connection) -> rusqlite::Result<()> {
    let found: String = connection.query_row("PRAGMA quick_check(1)", [], |row| row.get(0))?;
    if found == "ok" {
        return Ok(());
    }
    Err(broken(&found))
}

/// Replaces whatever is there by an empty database.
pub(crate) fn create(path: &Path) -> Result<Connection> {
    remove_files(path)?;
    let made = open_writer(path).and_then(|connection| schema::create(&connection).map(|()| connection));
    made.map_err(|source| failed("create", source))
}

/// The suffixes of a database's files.
const ENDS: [&str; 4] = ["", "-wal", "-shm", "-journal"];

/// Sizes of a database's files together.
pub(crate) fn bytes(path: &Path) -> u64 {
    ENDS.iter().filter_map(|end| std::fs::symlink_metadata(with_end(path, end)).ok()).map(|state| state.len()).sum()
}

fn with_end(path: &Path, end: &str) -> PathBuf {
    let mut file = path.as_os_str().to_owned();
    file.push(end);
    PathBuf::from(file)
}

/// Removes a database with its logs.
pub(crate) fn remove_files(path: &Path) -> Result<()> {
    for end in ENDS {
        let file = with_end(path, end);
        let removed = match std::fs::symlink_metadata(&file) {
            Ok(state) if state.is_dir() => std::fs::remove_dir_all(&file),
            Ok(_) => std::fs::remove_file(&file),
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(()),
            Err(error) => Err(error),
        };
        removed.map_err(|source| Error::io("delete", &file, source))?;
    }
    Ok(())
}

pub(crate) fn open_writer(path: &Path) -> rusqlite::Result<Connection> {
    // SQLite would make it readable for all users; the files that it creates beside take their mode from this one. A
    // failure shows when opening.
    drop(OpenOptions::new().create(true).append(true).mode(0o640).open(path));
    let connection = Connection::open(path)?;
    connection.busy_timeout(Duration::from_secs(5))?;
    connection.pragma_update(None, "journal_mode", "WAL")?;
    connection.pragma_update(None, "synchronous", "NORMAL")?;
    connection.pragma_update(None, "wal_autocheckpoint", WAL_PAGES)?;
    connection.set_prepared_statement_cache_capacity(32);
    keep_plans(&connection)?;
    Ok(connection)
}

pub(crate) fn open_reader(path: &Path) -> rusqlite::Result<Connection> {
    let connection =
        Connection::open_with_flags(path, OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_NO_MUTEX)?;
    connection.busy_timeout(Duration::from_secs(5))?;
    keep_plans(&connection)?;
    Ok(connection)
}

/// SQLite is built with `SQLITE_ENABLE_STAT4`, so that other bound values would have a cached statement planned again,
/// by statistics that the catalog does not have.
fn keep_plans(connection: &Connection) -> rusqlite::Result<()> {
    connection.set_db_config(DbConfig::SQLITE_DBCONFIG_ENABLE_QPSG, true).map(drop)
}
