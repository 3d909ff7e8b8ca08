//! `SELECT`: statements over read-only tables, answered by SQLite from the catalog and from what the server computes when a table is read.
//!
//! A statement goes through `rewrite` (MySQL's words to SQLite's), is run on a connection of `reader` in the blocking pool under a `watch`, and its
//! rows are sent as they come.
//!
//! | file | what |
//! |---|---|
//! | `catalog` | the tables there are: columns, parameters, comments |
//! | `rewrite`, `calls`, `names` | a statement in MySQL's words as SQLite takes it |
//! | `reader` | connections: views, what a statement may touch, limits of memory |
//! | `functions`, `dates`, `moment` | MySQL's functions that SQLite lacks; moments |
//! | `table` | a computed table for SQLite; the one file with `unsafe` |
//! | `scene` | what a connection's tables and functions share |
//! | `nodes`, `reports`, `schema` | the rows of computed tables |
//! | `run`, `watch`, `refusal` | running one, ending it, and why it failed |

mod calls;
mod catalog;
mod dates;
mod functions;
mod moment;
mod names;
mod nodes;
mod reader;
mod refusal;
mod reports;
mod rewrite;
mod run;
mod scene;
mod schema;
mod table;
#[cfg(test)]
mod tests;
mod watch;

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

pub(super) use catalog::{TABLES, Table, TableColumn, mysql_type};
pub(super) use rewrite::Asker;
use tokio::sync::{Semaphore, mpsc, oneshot};
use tokio_util::sync::CancellationToken;

use crate::app::App;
use crate::mysql::{Answer, Column, Failure, FailureKind, Prepared, Rows, Value};
use reader::Reader;
use watch::Watch;

/// Statements that run at a time, those whose client is slow among them; others wait.
const RUNNING_MAX: usize = 32;
/// Connections kept open while nobody uses them.
const IDLE_MAX: usize = 4;
/// Batches of rows that wait for the client.
const BATCHES: usize = 2;

/// Runs statements for all connections.
pub(super) struct Engine {
    app: Arc<App>,
    idle: Mutex<Vec<Reader>>,
    turns: Arc<Semaphore>,
}

/// A statement on its way.
struct Job {
    /// In SQLite's words.
    sql: String,
    parameters: Vec<Value>,
    /// Most rows it may give.
    rows_max: u64,
}

impl Engine {
    pub(super) fn new(app: &Arc<App>) -> Arc<Engine> {
        Arc::new(Engine { app: Arc::clone(app), idle: Mutex::default(), turns: Arc::new(Semaphore::new(RUNNING_MAX)) })
    }

    /// Runs a statement until `cancel` is cancelled, nobody waits for its answer any more, or it takes too long.
    ///
    /// # Errors
    /// Whatever is wrong with it before its first rows; what ends it later ends its rows.
    pub(super) async fn select(
        self: &Arc<Engine>,
        asker: &Asker<'_>,
        text: &str,
        parameters: &[Value],
        cancel: CancellationToken,
    ) -> Result<Answer, Failure> {
        let config = self.app.config();
        let rewritten = rewrite::rewrite(text, asker)?;
        if rewritten.parameters != parameters.len() {
            let text = format!("the statement has {} parameters, and {} values were given", rewritten.parameters, parameters.len());
            return Err(Failure::new(FailureKind::WrongArguments, text));
        }
        let job = Job { sql: rewritten.sql, parameters: parameters.to_vec(), rows_max: config.sql_rows_max };
        let limit = Duration::from_secs(config.sql_seconds_max);
        let turn = tokio::time::timeout(limit, Arc::clone(&self.turns).acquire_owned()).await;
        let turn = turn.map_err(|_| busy())?.map_err(|_| busy())?;
        let (batches, rows) = mpsc::channel(BATCHES);
        let (first, answer) = oneshot::channel();
        let watch = Arc::new(Watch::new(limit, cancel, batches.downgrade()));
        let engine = Arc::clone(self);
        tokio::task::spawn_blocking(move || {
            let _turn = turn;
            engine.with_reader(&watch, |reader| run::run(reader, &watch, &job, first, &batches));
        });
        match answer.await.map_err(|_| Failure::new(FailureKind::Other, "the statement failed; the log has the place"))?? {
            run::First::All { columns, rows } => Ok(Answer::rows(columns, rows)),
            run::First::Begun(columns) => Ok(Answer::Rows { columns, rows: Rows::Stream(rows), warnings: 0 }),
        }
    }

    /// What is known of a statement before it runs.
    ///
    /// # Errors
    /// Whatever is wrong with it.
    pub(super) async fn prepare(self: &Arc<Engine>, asker: &Asker<'_>, text: &str) -> Result<Prepared, Failure> {
        let rewritten = rewrite::rewrite(text, asker)?;
        let engine = Arc::clone(self);
        let columns = tokio::task::spawn_blocking(move || {
            let watch = Arc::new(Watch::unlimited());
            engine.with_reader(&watch, |reader| reader.and_then(|reader| run::columns(reader, &rewritten.sql)))
        });
        let columns = columns.await.map_err(|error| Failure::new(FailureKind::Other, error.to_string()))??;
        Ok(Prepared { parameters: rewritten.parameters, columns })
    }

    /// Does a job with a connection that reads the catalog there is.
    fn with_reader<T>(&self, watch: &Arc<Watch>, job: impl FnOnce(Result<&mut Reader, Failure>) -> T) -> T {
        let kept = self.idle().pop().filter(|reader| reader.is_current(&self.app.store));
        let mut reader = match kept.map_or_else(|| Reader::open(&self.app), Ok) {
            Ok(reader) => reader,
            Err(failure) => return job(Err(failure)),
        };
        reader.scene().begin(watch);
        let done = job(Ok(&mut reader));
        reader.scene().end();
        let mut idle = self.idle();
        if idle.len() < IDLE_MAX {
            idle.push(reader);
        }
        done
    }

    fn idle(&self) -> std::sync::MutexGuard<'_, Vec<Reader>> {
        self.idle.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn busy() -> Failure {
    Failure::new(FailureKind::Limit, format!("{RUNNING_MAX} statements are running; try again in a moment"))
}

/// A statement in SQLite's words.
///
/// # Errors
/// As [`rewrite::rewrite`].
pub(super) fn rewritten(text: &str, asker: &Asker<'_>) -> Result<String, Failure> {
    rewrite::rewrite(text, asker).map(|rewritten| rewritten.sql)
}

/// The columns of a table, as `COM_FIELD_LIST` gives them.
///
/// # Errors
/// [`FailureKind::UnknownTable`].
pub(super) fn columns(table: &str) -> Result<Vec<Column>, Failure> {
    let table = Table::named(table)?;
    let column = |column: &catalog::TableColumn| Column { table: table.name.to_owned(), ..Column::new(column.name, column.column_type) };
    Ok(table.columns.iter().map(column).collect())
}
