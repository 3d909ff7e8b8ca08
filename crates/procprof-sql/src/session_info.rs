//! What statements know of the session that runs them, and what a `SELECT` hands back to it.

use jiff::Timestamp;

use crate::mysql::StatementResult;
use crate::variables::Variables;

/// The connection and its user, for `USER()` and the like.
pub(crate) struct SessionInfo<'a> {
    /// `name@host`.
    pub(crate) user: String,
    pub(crate) connection: u32,
    /// The database in use; empty for none.
    pub(crate) database: &'a str,
    /// The variables of the session.
    pub(crate) variables: &'a Variables,
    pub(crate) now: Timestamp,
}

/// The outcome of a `SELECT`.
pub(crate) struct SelectResult {
    pub(crate) answer: StatementResult,
    pub(crate) warnings: Vec<String>,
    /// Variables that its rows assigned.
    pub(crate) assigned: Vec<String>,
}
