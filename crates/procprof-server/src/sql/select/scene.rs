//! What the computed tables and functions of one connection share: the server, and what belongs to the statement that runs.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use super::catalog::{Source, Table, TableRows};
use super::watch::Watch;
use crate::app::App;
use crate::mysql::{Failure, FailureKind, Value};

/// Computed tables kept while a statement runs: a join reads its inner table once for each row of the outer one.
const KEPT_MAX: usize = 4;

/// One connection's.
pub(in crate::sql) struct Scene {
    pub(super) app: Arc<App>,
    statement: Mutex<Statement>,
}

#[derive(Default)]
struct Statement {
    watch: Option<Arc<Watch>>,
    /// Why a table could not be computed; SQLite only hands on a sentence.
    failure: Option<Failure>,
    kept: Vec<Kept>,
}

/// A table for some values of its parameters.
struct Kept {
    table: &'static str,
    parameters: Vec<Value>,
    rows: Arc<TableRows>,
}

impl Scene {
    pub(super) fn new(app: &Arc<App>) -> Scene {
        Scene { app: Arc::clone(app), statement: Mutex::default() }
    }

    /// A statement begins.
    pub(super) fn begin(&self, watch: &Arc<Watch>) {
        *self.statement() = Statement { watch: Some(Arc::clone(watch)), ..Statement::default() };
    }

    /// It has ended.
    pub(super) fn end(&self) {
        *self.statement() = Statement::default();
    }

    /// Goes on unless the statement must end.
    ///
    /// # Errors
    /// Why it must.
    pub(super) fn go_on(&self) -> Result<(), Failure> {
        let watch = self.statement().watch.clone();
        watch.and_then(|watch| watch.ended()).map_or(Ok(()), Err)
    }

    /// The rows of a computed table.
    ///
    /// # Errors
    /// Whatever keeps it from being computed; [`Scene::failure`] has it, too.
    pub(super) fn rows(&self, table: &Table, parameters: &[Value]) -> Result<Arc<TableRows>, Failure> {
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
    pub(super) fn failure(&self) -> Option<Failure> {
        self.statement().failure.take()
    }

    /// Keeps why a function failed.
    pub(super) fn fail(&self, failure: Failure) {
        self.statement().failure = Some(failure);
    }

    fn statement(&self) -> MutexGuard<'_, Statement> {
        self.statement.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn compute(scene: &Scene, table: &Table, parameters: &[Value]) -> Result<TableRows, Failure> {
    let Source::Computed(rows) = table.source else { return Ok(Vec::new()) };
    if let Some((parameter, _)) =
        table.parameters.iter().zip(parameters).find(|(parameter, value)| !parameter.optional && **value == Value::Null)
    {
        let text = format!("{}: {} is NULL; call it as {}", table.name, parameter.name, table.comment);
        return Err(Failure::new(FailureKind::WrongArguments, text));
    }
    // SQLite calls this from C, through which no panic may pass.
    let computed = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| rows(scene, parameters)));
    computed.unwrap_or_else(|_| Err(Failure::new(FailureKind::Other, format!("{}: failed; the log has the place", table.name))))
}
