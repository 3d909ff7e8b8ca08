//! Running one statement in the blocking pool, and sending its rows in batches.

use std::sync::Arc;
use std::time::Instant;

use rusqlite::{ErrorCode, Statement};
use tokio::sync::oneshot;

use super::rewrite::Rewritten;
use super::sandbox::SandboxedConnection;
use super::watch::{Batches, Watch};
use super::{Job, sqlite_errors, virtual_table};
use crate::mysql::{Column, ColumnType, SqlError, SqlErrorKind, Value};

/// Steps of SQLite's machine between two looks at the watch.
const STEPS: i32 = 500;
/// Most rows of a batch.
const BATCH_ROWS: usize = 1000;
/// Memory of a batch, in bytes, at which it is sent.
const BATCH_BYTES: usize = 256 << 10;
/// Longest row, in bytes: each of its values may be as long as a value may be.
const ROW_BYTES: usize = 2 << 20;

/// The beginning of a result, when the first rows are there.
pub(super) enum First {
    /// They are all.
    All { columns: Vec<Column>, rows: Vec<Vec<Value>> },
    /// They and more come in batches.
    Begun(Vec<Column>),
}

/// Runs a statement; sends its first rows or its error to `first`, and the remaining rows in batches.
pub(super) fn run(
    sandbox: Result<&mut SandboxedConnection, SqlError>,
    watch: &Arc<Watch>,
    job: &Job,
    first: oneshot::Sender<Result<First, SqlError>>,
    batches: &Batches,
) {
    let mut output = Output {
        first: Some(first),
        columns: Vec::new(),
        batch: Vec::new(),
        weight: 0,
        sent: 0,
        rows_max: job.rows_max,
        column_types: &job.column_types,
        watch,
        batches,
    };
    let ended = sandbox.and_then(|sandbox| rows(sandbox, watch, job, &mut output));
    match (ended, output.first.take()) {
        // A client that has gone needs no answer.
        (Err(failure), Some(first)) => drop(first.send(Err(failure))),
        (Err(failure), None) => drop(batches.blocking_send(Err(failure))),
        (Ok(()), Some(first)) => {
            let rows = std::mem::take(&mut output.batch);
            let columns = typed(std::mem::take(&mut output.columns), &rows, &job.column_types);
            drop(first.send(Ok(First::All { columns, rows })));
        }
        (Ok(()), None) => drop(output.send()),
    }
}

/// The columns a statement will give, without running it.
///
/// # Errors
/// What is wrong with it.
pub(super) fn columns(
    sandbox: &mut SandboxedConnection,
    watch: &Arc<Watch>,
    rewritten: &Rewritten,
) -> Result<Vec<Column>, SqlError> {
    watched(sandbox, watch, &rewritten.sql, |statement| Ok(typed(declared(statement), &[], &rewritten.column_types)))
}

fn rows(
    sandbox: &mut SandboxedConnection,
    watch: &Arc<Watch>,
    job: &Job,
    output: &mut Output<'_>,
) -> Result<(), SqlError> {
    watched(sandbox, watch, &job.sql, |statement| steps(statement, job, output))
}

/// Prepares a statement and does something with it; both end when the watch has ended.
fn watched<T>(
    sandbox: &mut SandboxedConnection,
    watch: &Arc<Watch>,
    sql: &str,
    done: impl FnOnce(&mut Statement<'_>) -> Result<T, Ended>,
) -> Result<T, SqlError> {
    let statement = Arc::clone(sandbox.statement());
    let connection = sandbox.connection();
    let own = Arc::clone(watch);
    connection
        .progress_handler(STEPS, Some(move || own.ended().is_some()))
        .map_err(|error| sqlite_errors::from_sqlite(&error))?;
    let stepped = connection.prepare(sql).map_err(Ended::Sql).and_then(|mut statement| done(&mut statement));
    // The next statement has its own.
    let removed = connection.progress_handler(0, None::<fn() -> bool>);
    match stepped {
        Err(Ended::Failure(failure)) => Err(failure),
        Err(Ended::Sql(error)) => {
            let interrupted = error.sqlite_error_code() == Some(ErrorCode::OperationInterrupted);
            let why = statement.failure().or_else(|| interrupted.then(|| watch.ended()).flatten());
            Err(why.unwrap_or_else(|| sqlite_errors::from_sqlite(&error)))
        }
        Ok(done) => removed.map(|()| done).map_err(|error| sqlite_errors::from_sqlite(&error)),
    }
}

/// Why a statement gives no more rows.
enum Ended {
    Sql(rusqlite::Error),
    Failure(SqlError),
}

impl From<rusqlite::Error> for Ended {
    fn from(error: rusqlite::Error) -> Ended {
        Ended::Sql(error)
    }
}

fn steps(statement: &mut Statement<'_>, job: &Job, output: &mut Output<'_>) -> Result<(), Ended> {
    if !statement.readonly() {
        return Err(Ended::Failure(SqlError::new(SqlErrorKind::NotSupported, "the tables are read-only")));
    }
    output.columns = declared(statement);
    let width = output.columns.len();
    if width == 0 {
        return Err(Ended::Failure(SqlError::new(SqlErrorKind::Syntax, "the statement has no columns")));
    }
    let mut rows = statement.query(rusqlite::params_from_iter(&job.parameters))?;
    while output.sent < job.rows_wanted
        && let Some(row) = rows.next()?
    {
        let mut values = Vec::with_capacity(width);
        let mut weight = 0;
        for column in 0..width {
            let value = virtual_table::value(row.get_ref(column)?);
            weight += value.weight();
            if weight > ROW_BYTES {
                let text = format!("row {} has more than {ROW_BYTES} bytes; use LEFT(text, n)", output.sent + 1);
                return Err(Ended::Failure(SqlError::new(SqlErrorKind::Limit, text)));
            }
            values.push(value);
        }
        output.put(values, weight).map_err(Ended::Failure)?;
    }
    Ok(())
}

/// Names of columns, and their types where they are columns of tables.
type Declared = Vec<(String, Option<ColumnType>)>;

fn declared(statement: &Statement<'_>) -> Declared {
    let column_type = |name: &str| match name {
        "INTEGER" => Some(ColumnType::Integer),
        "REAL" => Some(ColumnType::Real),
        "TEXT" => Some(ColumnType::Text),
        _ => None,
    };
    statement.columns().map(|column| (column.name().to_owned(), column.decl_type().and_then(column_type))).collect()
}

/// Columns with the types their declaration or their first values have, else with those they seem to have.
fn typed(declared: Declared, rows: &[Vec<Value>], column_types: &[Option<ColumnType>]) -> Vec<Column> {
    let column_types = if column_types.len() == declared.len() { column_types } else { &[] };
    let column_type = |index: usize| {
        let kinds = rows.iter().filter_map(|row| match row.get(index)? {
            Value::Null => None,
            Value::Integer(_) => Some(ColumnType::Integer),
            Value::Real(_) => Some(ColumnType::Real),
            Value::Text(_) => Some(ColumnType::Text),
            Value::Blob(_) => Some(ColumnType::Blob),
        });
        kinds.reduce(wider).or(column_types.get(index).copied().flatten()).unwrap_or(ColumnType::Text)
    };
    let column = |(index, (name, declared)): (usize, (String, Option<ColumnType>))| {
        let seen = || column_type(index);
        Column::new(name, declared.unwrap_or_else(seen))
    };
    declared.into_iter().enumerate().map(column).collect()
}

/// The type in which values of both can be written.
fn wider(left: ColumnType, right: ColumnType) -> ColumnType {
    use ColumnType::{Blob, Integer, Real, Text};
    match (left, right) {
        (Blob, _) | (_, Blob) => Blob,
        (Text, _) | (_, Text) => Text,
        (Real, _) | (_, Real) => Real,
        (Integer, Integer) => Integer,
    }
}

/// Rows on their way.
struct Output<'a> {
    /// Taken when the first batch is sent.
    first: Option<oneshot::Sender<Result<First, SqlError>>>,
    columns: Declared,
    batch: Vec<Vec<Value>>,
    weight: usize,
    sent: u64,
    rows_max: u64,
    column_types: &'a [Option<ColumnType>],
    watch: &'a Watch,
    batches: &'a Batches,
}

impl Output<'_> {
    fn put(&mut self, row: Vec<Value>, weight: usize) -> Result<(), SqlError> {
        self.sent += 1;
        if self.sent > self.rows_max {
            let text = format!(
                "the statement gives more than {} rows (sql_rows_max); use LIMIT or narrower conditions",
                self.rows_max
            );
            return Err(SqlError::new(SqlErrorKind::Limit, text));
        }
        self.weight += weight;
        self.batch.push(row);
        match self.batch.len() >= BATCH_ROWS || self.weight >= BATCH_BYTES {
            true => self.send(),
            false => Ok(()),
        }
    }

    fn send(&mut self) -> Result<(), SqlError> {
        let gone = || SqlError::new(SqlErrorKind::Killed, "the client has gone");
        let rows = std::mem::take(&mut self.batch);
        self.weight = 0;
        if let Some(first) = self.first.take() {
            let columns = typed(std::mem::take(&mut self.columns), &rows, self.column_types);
            first.send(Ok(First::Begun(columns))).map_err(|_| gone())?;
        }
        let began = Instant::now();
        let sent = self.batches.blocking_send(Ok(rows));
        self.watch.waited(began);
        sent.map_err(|_| gone())
    }
}
