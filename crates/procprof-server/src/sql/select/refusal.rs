//! What SQLite refuses, as MySQL's errors: its sentences are the only thing that tells most of them apart.

use rusqlite::{Error, ErrorCode};

use super::catalog::unknown_table;
use crate::mysql::{Failure, FailureKind};

/// How a sentence of SQLite's begins, and what it means.
const SENTENCES: &[(&str, FailureKind)] = &[
    ("no such column", FailureKind::UnknownColumn),
    ("no such function", FailureKind::UnknownFunction),
    ("not authorized", FailureKind::Denied),
    ("string or blob too big", FailureKind::Limit),
    ("too many", FailureKind::Limit),
    ("Expression tree is too large", FailureKind::Limit),
    ("parser stack overflow", FailureKind::Limit),
    ("LIKE or GLOB pattern too complex", FailureKind::Limit),
    ("wrong number of arguments", FailureKind::WrongArguments),
    ("datatype mismatch", FailureKind::WrongArguments),
    ("out of memory", FailureKind::Limit),
];

/// The error for a client.
pub(super) fn of(error: &Error) -> Failure {
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
        _ if known.is_some() => known.unwrap_or(FailureKind::Other),
        _ if text.ends_with("is prohibited") => FailureKind::Denied,
        _ if text.contains("call it as") => FailureKind::WrongArguments,
        Some(ErrorCode::AuthorizationForStatementDenied) => FailureKind::Denied,
        Some(ErrorCode::TooBig | ErrorCode::OutOfMemory) => FailureKind::Limit,
        Some(ErrorCode::OperationInterrupted) => FailureKind::Killed,
        // What SQLite finds wrong while it reads a statement, "syntax error" or not.
        Some(ErrorCode::Unknown) => FailureKind::Syntax,
        _ => FailureKind::Other,
    };
    Failure::new(kind, text)
}
