//! `SELECT`: statements over read-only tables, answered by SQLite from rows of the store's catalog and from what the
//! server computes when a table is read. SQLite is the engine here and nothing else: its databases are empty.
//!
//! A statement goes through `rewrite` (MySQL's words to SQLite's), is run on a connection of `sandbox` in the blocking
//! pool under a `watch`, and its rows are sent as they come.
//!
//! | file | what |
//! |---|---|
//! | `tables`, `information_schema` | the tables there are: columns, parameters, comments |
//! | `rewrite`, `calls`, `column_names` | a statement in MySQL's words as SQLite takes it |
//! | `column_types` | the types of columns without values |
//! | `sandbox` | connections of SQLite: what a statement may touch, limits of memory |
//! | `functions`, `texts`, `dates`, `moment` | MySQL's functions that SQLite lacks, and those of its own that need a bound; moments |
//! | `virtual_table` | a table for SQLite; the one file with `unsafe` |
//! | `statement_context` | what a connection's tables and functions share |
//! | `profiles` | the rows of the catalog |
//! | `nodes`, `reports`, `information_schema_rows` | the rows of computed tables |
//! | `run`, `watch`, `sqlite_errors` | running a statement, ending it early, and the errors of SQLite as those of MySQL |

mod calls;
mod column_names;
mod column_types;
mod dates;
mod functions;
mod information_schema;
pub(super) mod information_schema_rows;
mod moment;
mod nodes;
mod profiles;
mod reports;
mod rewrite;
mod run;
mod sandbox;
mod sqlite_errors;
mod statement_context;
mod tables;
#[cfg(test)]
mod tests;
mod texts;
mod virtual_table;
mod watch;

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

pub(super) use rewrite::SessionInfo;
pub(super) use tables::{Table, TableColumn, all, databases, is_database, mysql_type};
use tokio::sync::{OwnedSemaphorePermit, Semaphore, mpsc, oneshot};
use tokio_util::sync::CancellationToken;

use crate::Sql;
use crate::mysql::{Column, ColumnType, Prepared, Rows, SqlError, SqlErrorKind, StatementResult, Value};
use sandbox::SandboxedConnection;
use watch::Watch;

/// Statements that run at a time, those whose client is slow among them; others wait.
const RUNNING_MAX: usize = 32;
/// Idle connections that are kept open.
const IDLE_MAX: usize = 4;
/// Batches of rows that wait for the client.
const BATCHES: usize = 2;

/// Runs statements for all connections.
pub(super) struct Engine {
    sql: Arc<Sql>,
    idle: Mutex<Vec<SandboxedConnection>>,
    turns: Arc<Semaphore>,
}

/// A statement on its way.
struct Job {
    /// In SQLite's words.
    sql: String,
    parameters: Vec<Value>,
    /// Types of columns of which no value is seen.
    column_types: Vec<Option<ColumnType>>,
    /// Most rows it may give.
    rows_max: u64,
    /// Rows after which the client needs no more.
    rows_wanted: u64,
}

impl Engine {
    pub(super) fn new(sql: &Arc<Sql>) -> Arc<Engine> {
        watch::bound_memory();
        Arc::new(Engine { sql: Arc::clone(sql), idle: Mutex::default(), turns: Arc::new(Semaphore::new(RUNNING_MAX)) })
    }

    /// Runs a statement until `cancel` is cancelled, the client no longer waits for its answer, or it takes too long.
    ///
    /// # Errors
    /// Errors before its first rows; one that ends it later ends its rows.
    pub(super) async fn select(
        self: &Arc<Engine>,
        session: &SessionInfo<'_>,
        text: &str,
        parameters: &[Value],
        cancel: CancellationToken,
    ) -> Result<StatementResult, SqlError> {
        let config = self.sql.config();
        let rewritten = rewrite::rewrite(text, session)?;
        if rewritten.parameters != parameters.len() {
            let text = format!(
                "the statement has {} parameters, and {} values were given",
                rewritten.parameters,
                parameters.len()
            );
            return Err(SqlError::new(SqlErrorKind::WrongArguments, text));
        }
        let rows_wanted = if rewritten.is_limited { u64::MAX } else { session.variables.select_limit() };
        let job = Job {
            sql: rewritten.sql,
            parameters: parameters.to_vec(),
            column_types: rewritten.column_types,
            rows_max: config.sql_rows_max,
            rows_wanted,
        };
        let limit = match session.variables.execution_time() {
            0 => Duration::from_secs(config.sql_seconds_max),
            own => Duration::from_millis(own).min(Duration::from_secs(config.sql_seconds_max)),
        };
        let turn = self.turn(limit).await?;
        let (batches, rows) = mpsc::channel(BATCHES);
        let (first, answer) = oneshot::channel();
        let watch = Arc::new(Watch::new(limit, cancel, Some(batches.downgrade())));
        let engine = Arc::clone(self);
        tokio::task::spawn_blocking(move || {
            let _turn = turn;
            engine.with_sandbox(&watch, |sandbox| run::run(sandbox, &watch, &job, first, &batches));
        });
        match answer
            .await
            .map_err(|_| SqlError::new(SqlErrorKind::Other, "the statement failed; the log has the place"))??
        {
            run::First::All { columns, rows } => Ok(StatementResult::rows(columns, rows)),
            run::First::Begun(columns) => Ok(StatementResult::Rows { columns, rows: Rows::Stream(rows), warnings: 0 }),
        }
    }

    /// The value of an expression.
    ///
    /// # Errors
    /// Whatever is wrong with it.
    pub(super) async fn value(
        self: &Arc<Engine>,
        session: &SessionInfo<'_>,
        expression: &str,
        cancel: CancellationToken,
    ) -> Result<Value, SqlError> {
        let answer = self.select(session, &format!("SELECT {expression} LIMIT 1"), &[], cancel).await?;
        let StatementResult::Rows { rows: Rows::Ready(rows), .. } = answer else { return Ok(Value::Null) };
        Ok(rows.into_iter().next().and_then(|row| row.into_iter().next()).unwrap_or(Value::Null))
    }

    /// The facts about a statement before it runs.
    ///
    /// # Errors
    /// Errors in the statement.
    pub(super) async fn prepare(
        self: &Arc<Engine>,
        session: &SessionInfo<'_>,
        text: &str,
        cancel: CancellationToken,
    ) -> Result<Prepared, SqlError> {
        let rewritten = rewrite::rewrite(text, session)?;
        let parameters = rewritten.parameters;
        let limit = Duration::from_secs(self.sql.config().sql_seconds_max);
        let turn = self.turn(limit).await?;
        let engine = Arc::clone(self);
        let columns = tokio::task::spawn_blocking(move || {
            let _turn = turn;
            let watch = Arc::new(Watch::new(limit, cancel, None));
            engine.with_sandbox(&watch, |sandbox| sandbox.and_then(|sandbox| run::columns(sandbox, &watch, &rewritten)))
        });
        let columns = columns.await.map_err(|error| SqlError::new(SqlErrorKind::Other, error.to_string()))??;
        Ok(Prepared { parameters, columns })
    }

    /// Waits until a statement may run.
    async fn turn(&self, limit: Duration) -> Result<OwnedSemaphorePermit, SqlError> {
        let turn = tokio::time::timeout(limit, Arc::clone(&self.turns).acquire_owned()).await;
        turn.map_err(|_| busy())?.map_err(|_| busy())
    }

    /// Does a job with a connection of its own.
    fn with_sandbox<T>(
        &self,
        watch: &Arc<Watch>,
        job: impl FnOnce(Result<&mut SandboxedConnection, SqlError>) -> T,
    ) -> T {
        let kept = self.idle().pop();
        let mut sandbox = match kept.map_or_else(|| SandboxedConnection::open(&self.sql), Ok) {
            Ok(sandbox) => sandbox,
            Err(failure) => return job(Err(failure)),
        };
        sandbox.statement().begin(watch);
        let done = job(Ok(&mut sandbox));
        sandbox.statement().end();
        let mut idle = self.idle();
        if idle.len() < IDLE_MAX {
            idle.push(sandbox);
        }
        done
    }

    fn idle(&self) -> std::sync::MutexGuard<'_, Vec<SandboxedConnection>> {
        self.idle.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn busy() -> SqlError {
    SqlError::new(SqlErrorKind::Limit, format!("{RUNNING_MAX} statements are running; try again in a moment"))
}

/// A statement in SQLite's words.
///
/// # Errors
/// As [`rewrite::rewrite`].
pub(super) fn rewritten(text: &str, session: &SessionInfo<'_>) -> Result<String, SqlError> {
    rewrite::rewrite(text, session).map(|rewritten| rewritten.sql)
}

/// The columns of a table, as `COM_FIELD_LIST` gives them.
///
/// # Errors
/// [`SqlErrorKind::UnknownTable`].
pub(super) fn columns(table: &str) -> Result<Vec<Column>, SqlError> {
    let table = Table::named(table)?;
    let column = |column: &tables::TableColumn| Column {
        table: table.name.to_owned(),
        ..Column::new(column.name, column.column_type)
    };
    Ok(table.columns.iter().map(column).collect())
}
