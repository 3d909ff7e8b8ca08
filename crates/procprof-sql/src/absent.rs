//! What takes the place of `engine` in a build without the feature `select`: no statement on tables, and all else.

use std::sync::Arc;

use tokio_util::sync::CancellationToken;

use crate::mysql::{Column, Prepared, SqlError, SqlErrorKind, Value};
use crate::session_info::{SelectResult, SessionInfo};
use crate::{DATABASE, Sql};

/// Refuses statements.
pub(super) struct Engine;

/// What is told of all statements.
fn absent(what: &str) -> SqlError {
    let text = format!("{what} is not part of this procprof: it was built without the feature \"select\"");
    SqlError::new(SqlErrorKind::NotSupported, text)
}

impl Engine {
    /// # Errors
    /// None.
    pub(super) fn new(_sql: &Arc<Sql>) -> procprof_core::Result<Arc<Engine>> {
        tracing::info!("sql: SELECT is not part of this build; ADMIN EXECUTE and COLLECT are");
        Ok(Arc::new(Engine))
    }

    /// Refuses a statement.
    pub(super) async fn select(
        self: &Arc<Engine>,
        _session: &SessionInfo<'_>,
        _text: &str,
        _parameters: &[Value],
        _cancel: CancellationToken,
    ) -> Result<SelectResult, SqlError> {
        Err(absent("SELECT"))
    }

    /// Refuses an expression; literals need no engine.
    pub(super) async fn value(
        self: &Arc<Engine>,
        _session: &SessionInfo<'_>,
        _expression: &str,
        _cancel: CancellationToken,
    ) -> Result<Value, SqlError> {
        Err(absent("SET with an expression"))
    }

    /// Refuses a statement.
    pub(super) async fn prepare(
        self: &Arc<Engine>,
        _session: &SessionInfo<'_>,
        _text: &str,
        _cancel: CancellationToken,
    ) -> Result<Prepared, SqlError> {
        Err(absent("SELECT"))
    }
}

/// There are no tables.
pub(super) fn columns(_table: &str) -> Result<Vec<Column>, SqlError> {
    Err(absent("a list of columns"))
}

/// Whether there is a database of that name.
pub(super) fn is_database(name: &str) -> bool {
    databases().any(|one| one.eq_ignore_ascii_case(name))
}

/// The databases.
pub(super) fn databases() -> impl Iterator<Item = &'static str> {
    std::iter::once(DATABASE)
}

/// Reads nothing.
pub(super) fn read(_text: &str) {}

/// `DESCRIBE` and `SHOW` of tables.
pub(super) mod describe {
    use super::absent;
    use crate::mysql::{SqlError, StatementResult};
    use crate::statement::Show;

    /// Refuses a `SHOW` statement about tables; `None` for one about something else.
    pub(crate) fn answer(show: &Show, _database: &str) -> Option<Result<StatementResult, SqlError>> {
        const TABLES: [&str; 7] = ["tables", "table status", "columns", "fields", "index", "indexes", "keys"];
        let is_about_tables = TABLES.contains(&show.what.as_str()) || show.what.starts_with("create ");
        is_about_tables.then(|| Err(absent("a table")))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::statement::{Statement, parse};

    #[test]
    fn what_is_absent_is_told_and_all_else_is_answered_elsewhere() {
        let told = |error: SqlError| {
            let text = error.to_string();
            assert!(text.contains("built without the feature \"select\""), "{text}");
        };
        let show = |text: &str| match parse(text) {
            Ok(Statement::Show(show)) => describe::answer(&show, DATABASE),
            other => panic!("{text}: {other:?}"),
        };
        for text in ["SHOW TABLES", "SHOW FULL COLUMNS FROM profiles", "SHOW CREATE TABLE profiles", "DESC profiles"] {
            told(show(text).expect(text).err().expect(text));
        }
        assert!(show("SHOW VARIABLES").is_none() && show("SHOW PROCESSLIST").is_none());
        told(columns("profiles").expect_err("no table"));
        assert!(is_database(&DATABASE.to_uppercase()) && !is_database("other"));
        read("SELECT 1");
    }
}
