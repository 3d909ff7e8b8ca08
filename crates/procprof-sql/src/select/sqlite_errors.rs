//! SQLite's errors, as MySQL's: most of them can be distinguished by their messages only.

use rusqlite::{Error, ErrorCode};

use super::tables::unknown_table;
use crate::mysql::{SqlError, SqlErrorKind};

/// How a sentence of SQLite's begins, and what it means.
const SENTENCES: &[(&str, SqlErrorKind)] = &[
    ("no such column", SqlErrorKind::UnknownColumn),
    ("no such function", SqlErrorKind::UnknownFunction),
    ("not authorized", SqlErrorKind::Denied),
    ("string or blob too big", SqlErrorKind::Limit),
    ("too many", SqlErrorKind::Limit),
    ("Expression tree is too large", SqlErrorKind::Limit),
    ("parser stack overflow", SqlErrorKind::Limit),
    ("VIEWs and/or subqueries nested too deep", SqlErrorKind::Limit),
    ("LIKE or GLOB pattern too complex", SqlErrorKind::Limit),
    ("wrong number of arguments", SqlErrorKind::WrongArguments),
    ("datatype mismatch", SqlErrorKind::WrongArguments),
    ("out of memory", SqlErrorKind::Limit),
];

/// The error for a client.
pub(super) fn from_sqlite(error: &Error) -> SqlError {
    let (code, text) = match error {
        Error::SqlInputError { error, msg, .. } => (Some(error.code), msg.clone()),
        Error::SqliteFailure(error, text) => (Some(error.code), text.clone().unwrap_or_else(|| error.to_string())),
        other => (None, other.to_string()),
    };
    if let Some(table) = text.strip_prefix("no such table: ") {
        return unknown_table(table);
    }
    let known = SENTENCES.iter().find(|(start, _)| text.starts_with(start)).map(|(_, kind)| *kind);
    let kind = match code {
        _ if known.is_some() => known.unwrap_or(SqlErrorKind::Other),
        _ if text.ends_with("is prohibited") => SqlErrorKind::Denied,
        _ if text.contains("call it as") => SqlErrorKind::WrongArguments,
        Some(ErrorCode::AuthorizationForStatementDenied) => SqlErrorKind::Denied,
        Some(ErrorCode::TooBig | ErrorCode::OutOfMemory) => SqlErrorKind::Limit,
        Some(ErrorCode::OperationInterrupted) => SqlErrorKind::Killed,
        // What SQLite finds wrong while it reads a statement, "syntax error" or not.
        Some(ErrorCode::Unknown) => SqlErrorKind::Syntax,
        _ => SqlErrorKind::Other,
    };
    SqlError::new(kind, text)
}
