//! The interfaces that `mysql` uses: execution of statements, and users.

use std::future::Future;
use std::net::SocketAddr;

use procprof_core::auth::{Principal, Refusal};
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;

use super::column::{Column, Value};
use super::error::SqlError;

/// A client that has logged in.
#[derive(Clone, Debug)]
pub(crate) struct Caller {
    /// The connection's number, as `SELECT CONNECTION_ID()` and `KILL` have it.
    pub(crate) connection: u32,
    /// The other end.
    pub(crate) peer: SocketAddr,
    /// The user and their role.
    pub(crate) principal: Principal,
}

/// Rows of a result.
pub(crate) enum Rows {
    /// All of them.
    Ready(Vec<Vec<Value>>),
    /// Batches as they come; an error ends the result.
    Stream(mpsc::Receiver<Result<Vec<Vec<Value>>, SqlError>>),
}

/// The result of a statement.
pub(crate) enum StatementResult {
    /// It is done; there are no rows.
    Done {
        /// Rows changed.
        affected: u64,
        /// The number of warnings that `SHOW WARNINGS` lists.
        warnings: u16,
    },
    /// A result set.
    Rows {
        /// Its columns; at least one.
        columns: Vec<Column>,
        /// Its rows, each as long as `columns`.
        rows: Rows,
        /// The number of warnings that `SHOW WARNINGS` lists.
        warnings: u16,
    },
}

impl StatementResult {
    /// Done, without rows or warnings.
    pub(crate) fn done() -> StatementResult {
        StatementResult::Done { affected: 0, warnings: 0 }
    }

    /// A result that is there already.
    pub(crate) fn rows(columns: Vec<Column>, rows: Vec<Vec<Value>>) -> StatementResult {
        StatementResult::Rows { columns, rows: Rows::Ready(rows), warnings: 0 }
    }
}

/// The facts about a statement before it runs.
pub(crate) struct Prepared {
    /// Number of `?`.
    pub(crate) parameters: usize,
    /// The columns it will give; empty if that shows only when it runs.
    pub(crate) columns: Vec<Column>,
}

/// Answers statements; one for all connections.
pub(crate) trait Service: Send + Sync + 'static {
    /// One connection's state.
    type Session: Session;

    /// A connection's state from its login on.
    fn session(&self, caller: Caller) -> Self::Session;
}

/// The state of transactions as shown to clients; there is nothing they could change.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Transaction {
    /// Whether each statement is one of its own.
    pub(crate) autocommit: bool,
    /// Whether one has begun.
    pub(crate) open: bool,
}

/// A connection, as who answers sees it. Dropping it ends what it runs.
pub(crate) trait Session: Send {
    /// Runs a statement; dropped when the client goes.
    fn query(
        &mut self,
        text: &str,
        parameters: &[Value],
    ) -> impl Future<Output = Result<StatementResult, SqlError>> + Send;

    /// Reads a statement without running it.
    fn prepare(&mut self, text: &str) -> impl Future<Output = Result<Prepared, SqlError>> + Send;

    /// The columns of a table, for clients that complete names.
    fn columns(&mut self, table: &str) -> impl Future<Output = Result<Vec<Column>, SqlError>> + Send;

    /// `USE`.
    ///
    /// # Errors
    /// No such database.
    fn use_database(&mut self, name: &str) -> Result<(), SqlError>;

    /// The user may do something else from now on.
    fn rights(&mut self, principal: Principal);

    /// Back to how it was after login, but for the database in use.
    fn reset(&mut self);

    /// Whether a transaction has begun.
    fn transaction(&self) -> Transaction;

    /// The database in use, for column definitions.
    fn database(&self) -> &str;

    /// Cancelled when the connection is to be closed.
    fn killed(&self) -> CancellationToken;

    /// A statement ended: the rows sent and how. Called once for each `query`.
    fn ended(&mut self, rows: u64, outcome: Result<(), &SqlError>);
}

/// The users that may log in.
pub(crate) trait Accounts: Send + Sync + 'static {
    /// The principal of a user who needs no password; `None` if one is required.
    fn open(&self, user: &str) -> Option<Principal>;

    /// The user as of now, who logged in some time ago; `None` for one who is no longer let in, or not by that
    /// password.
    fn still(&self, principal: &Principal) -> Option<Principal>;

    /// SHA1(SHA1(password)), if the user has one kept.
    fn native(&self, user: &str) -> Option<[u8; 20]>;

    /// SHA256(SHA256(password)), if it is remembered from a full login.
    fn remembered(&self, user: &str) -> Option<[u8; 32]>;

    /// The user of a checked answer. [`Refusal::TooMany`] where guesses from that address wait.
    fn checked(&self, user: &str, fits: bool, from: SocketAddr) -> Result<Principal, Refusal>;

    /// Checks the password itself.
    fn full(
        &self,
        user: String,
        password: String,
        from: SocketAddr,
    ) -> impl Future<Output = Result<Principal, Refusal>> + Send;
}
