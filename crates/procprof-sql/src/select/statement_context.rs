//! State that the computed tables and functions of one connection share: the server, and the running statement.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use procprof_core::render::budget;
use procprof_report::{Budget, Error};

use super::tables::{Source, Table, TableRows};
use super::watch::Watch;
use crate::Sql;
use crate::mysql::{SqlError, SqlErrorKind, Value};

/// Computed tables kept while a statement runs: a join reads its inner table once for each row of the outer one.
const KEPT_MAX: usize = 4;

/// One connection's.
pub(crate) struct StatementContext {
    pub(super) sql: Arc<Sql>,
    statement: Mutex<StatementState>,
}

#[derive(Default)]
struct StatementState {
    watch: Option<Arc<Watch>>,
    /// Why a table could not be computed; SQLite only hands on a sentence.
    failure: Option<SqlError>,
    kept: Vec<Kept>,
    /// Functions called, as written.
    calls: usize,
}

/// A table for some values of its parameters.
struct Kept {
    table: &'static str,
    parameters: Vec<Value>,
    rows: Arc<TableRows>,
}

impl StatementContext {
    pub(super) fn new(sql: &Arc<Sql>) -> StatementContext {
        StatementContext { sql: Arc::clone(sql), statement: Mutex::default() }
    }

    /// A statement begins.
    pub(super) fn begin(&self, watch: &Arc<Watch>) {
        *self.statement() = StatementState { watch: Some(Arc::clone(watch)), ..StatementState::default() };
    }

    /// It has ended.
    pub(super) fn end(&self) {
        *self.statement() = StatementState::default();
    }

    /// Goes on unless the statement must end.
    ///
    /// # Errors
    /// Why it must.
    pub(super) fn go_on(&self) -> Result<(), SqlError> {
        let watch = self.statement().watch.clone();
        watch.and_then(|watch| watch.ended()).map_or(Ok(()), Err)
    }

    /// The limits of a report for this statement; it ends with the statement.
    pub(super) fn budget(&self) -> Budget {
        let budget = budget(&self.sql.config());
        match self.statement().watch.clone() {
            Some(watch) => budget.until(move || watch.ended().is_some()),
            None => budget,
        }
    }

    /// Why a report failed, as this statement's failure.
    pub(super) fn report_failure(&self, error: &procprof_report::Error) -> SqlError {
        let kind = match error {
            Error::Stopped => match self.go_on() {
                Err(failure) => return failure,
                Ok(()) => SqlErrorKind::Other,
            },
            Error::OutputLimit { .. } | Error::MemoryLimit { .. } => SqlErrorKind::Limit,
            _ => SqlErrorKind::Other,
        };
        let key = match error {
            Error::OutputLimit { .. } => " (render_bytes_max)",
            Error::MemoryLimit { .. } => " (render_memory_bytes_max)",
            _ => "",
        };
        SqlError::new(kind, format!("{error}{key}"))
    }

    /// The rows of a computed table.
    ///
    /// # Errors
    /// Whatever keeps it from being computed; [`StatementContext::failure`] has it, too.
    pub(super) fn rows(&self, table: &Table, parameters: &[Value]) -> Result<Arc<TableRows>, SqlError> {
        let kept = self
            .statement()
            .kept
            .iter()
            .find(|kept| kept.table == table.name && kept.parameters == parameters)
            .map(|kept| Arc::clone(&kept.rows));
        if let Some(rows) = kept {
            return Ok(rows);
        }
        let computed = self.go_on().and_then(|()| compute(self, table, parameters));
        let mut statement = self.statement();
        let rows = Arc::new(computed.inspect_err(|failure| statement.failure = Some(failure.clone()))?);
        if statement.kept.len() == KEPT_MAX {
            statement.kept.remove(0);
        }
        statement.kept.push(Kept { table: table.name, parameters: parameters.to_vec(), rows: Arc::clone(&rows) });
        Ok(rows)
    }

    /// Why a table or function of this statement failed.
    pub(super) fn failure(&self) -> Option<SqlError> {
        self.statement().failure.take()
    }

    /// Keeps why a function failed.
    pub(super) fn fail(&self, failure: SqlError) {
        self.statement().failure = Some(failure);
    }

    /// Counts one more function that the statement calls.
    pub(super) fn call(&self) -> usize {
        let mut statement = self.statement();
        statement.calls += 1;
        statement.calls
    }

    fn statement(&self) -> MutexGuard<'_, StatementState> {
        self.statement.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn compute(statement: &StatementContext, table: &Table, parameters: &[Value]) -> Result<TableRows, SqlError> {
    let Source::Computed(rows) = table.source else { return Ok(Vec::new()) };
    if let Some((parameter, _)) =
        table.parameters.iter().zip(parameters).find(|(parameter, value)| !parameter.optional && **value == Value::Null)
    {
        let text = format!("{}: {} is NULL; call it as {}", table.name, parameter.name, table.comment);
        return Err(SqlError::new(SqlErrorKind::WrongArguments, text));
    }
    // SQLite calls this from C, through which no panic may pass.
    let computed = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| rows(statement, parameters)));
    computed.unwrap_or_else(|_| {
        Err(SqlError::new(SqlErrorKind::Other, format!("{}: failed; the log has the place", table.name)))
    })
}
