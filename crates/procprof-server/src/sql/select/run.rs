//! Running one statement in the blocking pool, and sending its rows in batches.

use std::sync::Arc;
use std::time::Instant;

use rusqlite::{ErrorCode, Statement};
use tokio::sync::oneshot;

use super::reader::Reader;
use super::watch::{Batches, Watch};
use super::{Job, refusal, table};
use crate::mysql::{Column, ColumnType, Failure, FailureKind, Value};

/// Steps of SQLite's machine between two looks at the watch.
const STEPS: i32 = 500;
/// Most rows of a batch.
const BATCH_ROWS: usize = 1000;
/// Memory of a batch, in bytes, at which it is sent.
const BATCH_BYTES: usize = 256 << 10;

/// What is known when the first rows are there.
pub(super) enum First {
    /// They are all.
    All { columns: Vec<Column>, rows: Vec<Vec<Value>> },
    /// They and more come in batches.
    Begun(Vec<Column>),
}

/// Runs a statement; tells `first` its beginning or its failure, and sends what does not fit there in batches.
pub(super) fn run(
    reader: Result<&mut Reader, Failure>,
    watch: &Arc<Watch>,
    job: &Job,
    first: oneshot::Sender<Result<First, Failure>>,
    batches: &Batches,
) {
    let mut output =
        Output { first: Some(first), columns: Vec::new(), batch: Vec::new(), weight: 0, sent: 0, rows_max: job.rows_max, watch, batches };
    let ended = reader.and_then(|reader| rows(reader, watch, job, &mut output));
    match (ended, output.first.take()) {
        // A client that has gone needs no answer.
        (Err(failure), Some(first)) => drop(first.send(Err(failure))),
        (Err(failure), None) => drop(batches.blocking_send(Err(failure))),
        (Ok(()), Some(first)) => {
            let rows = std::mem::take(&mut output.batch);
            let columns = typed(std::mem::take(&mut output.columns), &rows);
            drop(first.send(Ok(First::All { columns, rows })));
        }
        (Ok(()), None) => drop(output.send()),
    }
}

/// The columns a statement will give, without running it.
///
/// # Errors
/// What is wrong with it.
pub(super) fn columns(reader: &mut Reader, sql: &str) -> Result<Vec<Column>, Failure> {
    let statement = reader.connection().prepare(sql).map_err(|error| refusal::of(&error))?;
    Ok(declared(&statement).into_iter().map(|(name, declared)| Column::new(name, declared.unwrap_or(ColumnType::Text))).collect())
}

fn rows(reader: &mut Reader, watch: &Arc<Watch>, job: &Job, output: &mut Output<'_>) -> Result<(), Failure> {
    let scene = Arc::clone(reader.scene());
    let connection = reader.connection();
    let own = Arc::clone(watch);
    connection.progress_handler(STEPS, Some(move || own.ended().is_some())).map_err(|error| refusal::of(&error))?;
    let stepped = connection.prepare(&job.sql).map_err(Ended::Sql).and_then(|mut statement| steps(&mut statement, job, output));
    // The next statement has its own.
    let removed = connection.progress_handler(0, None::<fn() -> bool>);
    match stepped {
        Err(Ended::Failure(failure)) => Err(failure),
        Err(Ended::Sql(error)) => {
            let interrupted = error.sqlite_error_code() == Some(ErrorCode::OperationInterrupted);
            let why = scene.failure().or_else(|| interrupted.then(|| watch.ended()).flatten());
            Err(why.unwrap_or_else(|| refusal::of(&error)))
        }
        Ok(()) => removed.map_err(|error| refusal::of(&error)),
    }
}

/// Why a statement gives no more rows.
enum Ended {
    Sql(rusqlite::Error),
    Failure(Failure),
}

impl From<rusqlite::Error> for Ended {
    fn from(error: rusqlite::Error) -> Ended {
        Ended::Sql(error)
    }
}

fn steps(statement: &mut Statement<'_>, job: &Job, output: &mut Output<'_>) -> Result<(), Ended> {
    if !statement.readonly() {
        return Err(Ended::Failure(Failure::new(FailureKind::NotSupported, "the tables are read-only")));
    }
    output.columns = declared(statement);
    let width = output.columns.len();
    if width == 0 {
        return Err(Ended::Failure(Failure::new(FailureKind::Syntax, "the statement has no columns")));
    }
    let mut rows = statement.query(rusqlite::params_from_iter(&job.parameters))?;
    while let Some(row) = rows.next()? {
        let values = (0..width).map(|column| row.get_ref(column).map(table::value)).collect::<rusqlite::Result<Vec<Value>>>()?;
        output.put(values).map_err(Ended::Failure)?;
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

/// Columns with the types their declaration or their first values have.
fn typed(declared: Declared, rows: &[Vec<Value>]) -> Vec<Column> {
    let column_type = |index: usize| {
        let kinds = rows.iter().filter_map(|row| match row.get(index)? {
            Value::Null => None,
            Value::Integer(_) => Some(ColumnType::Integer),
            Value::Real(_) => Some(ColumnType::Real),
            Value::Text(_) => Some(ColumnType::Text),
            Value::Blob(_) => Some(ColumnType::Blob),
        });
        kinds.reduce(wider).unwrap_or(ColumnType::Text)
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
    first: Option<oneshot::Sender<Result<First, Failure>>>,
    columns: Declared,
    batch: Vec<Vec<Value>>,
    weight: usize,
    sent: u64,
    rows_max: u64,
    watch: &'a Watch,
    batches: &'a Batches,
}

impl Output<'_> {
    fn put(&mut self, row: Vec<Value>) -> Result<(), Failure> {
        self.sent += 1;
        if self.sent > self.rows_max {
            let text = format!("the statement gives more than {} rows (sql_rows_max); use LIMIT or narrower conditions", self.rows_max);
            return Err(Failure::new(FailureKind::Limit, text));
        }
        self.weight += row.iter().map(Value::weight).sum::<usize>();
        self.batch.push(row);
        match self.batch.len() >= BATCH_ROWS || self.weight >= BATCH_BYTES {
            true => self.send(),
            false => Ok(()),
        }
    }

    fn send(&mut self) -> Result<(), Failure> {
        let gone = || Failure::new(FailureKind::Killed, "the client has gone");
        let rows = std::mem::take(&mut self.batch);
        self.weight = 0;
        if let Some(first) = self.first.take() {
            let columns = typed(std::mem::take(&mut self.columns), &rows);
            first.send(Ok(First::Begun(columns))).map_err(|_| gone())?;
        }
        let began = Instant::now();
        let sent = self.batches.blocking_send(Ok(rows));
        self.watch.waited(began);
        sent.map_err(|_| gone())
    }
}
