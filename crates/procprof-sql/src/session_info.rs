//! What statements can know of the session that runs them.

use jiff::Timestamp;

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
