//! Connections for statements of untrusted clients: the tables they see, the actions they permit, and the memory they
//! may take.
//!
//! SQLite calls [`may`] for every action of a statement when it is prepared. Allowed is reading our tables and calling
//! listed functions, nothing else: no `ATTACH`, no `PRAGMA` (nor its functions), no extension, no table of SQLite's
//! own, no file. The database of a connection is empty and in memory; all rows come from `virtual_table`.

use std::sync::Arc;

use rusqlite::Connection;
use rusqlite::config::DbConfig;
use rusqlite::hooks::{AuthAction, AuthContext, Authorization};
use rusqlite::limits::Limit;

use super::functions;
use super::rewrite::BYTES_MAX;
use super::sqlite_errors;
use super::statement_context::StatementContext;
use super::tables;
use super::virtual_table;
use crate::Sql;
use crate::mysql::{SqlError, SqlErrorKind};

/// Longest text or blob a statement may make or read, in bytes. SQLite's functions take time and memory in proportion
/// to it, and end only by themselves.
pub(super) const LENGTH_MAX: usize = 1 << 20;
/// Functions that a statement may call, as written.
const CALLS_MAX: usize = 500;

/// Limits of one statement, beside those of time and memory.
const LIMITS: &[(Limit, i32)] = &[
    (Limit::SQLITE_LIMIT_LENGTH, LENGTH_MAX as i32),
    // A rewritten statement may be longer than the client's.
    (Limit::SQLITE_LIMIT_SQL_LENGTH, 4 * BYTES_MAX as i32),
    (Limit::SQLITE_LIMIT_COLUMN, 200),
    (Limit::SQLITE_LIMIT_EXPR_DEPTH, 500),
    (Limit::SQLITE_LIMIT_COMPOUND_SELECT, 50),
    (Limit::SQLITE_LIMIT_FUNCTION_ARG, 100),
    (Limit::SQLITE_LIMIT_ATTACHED, 0),
    (Limit::SQLITE_LIMIT_LIKE_PATTERN_LENGTH, 1000),
    (Limit::SQLITE_LIMIT_VARIABLE_NUMBER, 1000),
    (Limit::SQLITE_LIMIT_WORKER_THREADS, 0),
];

/// A connection.
pub(super) struct SandboxedConnection {
    connection: Connection,
    statement: Arc<StatementContext>,
}

impl SandboxedConnection {
    /// Opens one and makes the tables known to it.
    ///
    /// # Errors
    /// SQLite has no memory.
    pub(super) fn open(sql: &Arc<Sql>) -> Result<SandboxedConnection, SqlError> {
        let statement = Arc::new(StatementContext::new(sql));
        let opened = Connection::open_in_memory().and_then(|mut connection| {
            prepared(&mut connection, &statement)?;
            Ok(connection)
        });
        Ok(SandboxedConnection { connection: opened.map_err(|error| sqlite_errors::from_sqlite(&error))?, statement })
    }

    pub(super) fn connection(&mut self) -> &mut Connection {
        &mut self.connection
    }

    pub(super) fn statement(&self) -> &Arc<StatementContext> {
        &self.statement
    }
}

fn prepared(connection: &mut Connection, statement: &Arc<StatementContext>) -> rusqlite::Result<()> {
    for (config, on) in [
        (DbConfig::SQLITE_DBCONFIG_DEFENSIVE, true),
        (DbConfig::SQLITE_DBCONFIG_TRUSTED_SCHEMA, false),
        // Unknown names are errors, not texts.
        (DbConfig::SQLITE_DBCONFIG_DQS_DML, false),
        (DbConfig::SQLITE_DBCONFIG_DQS_DDL, false),
        (DbConfig::SQLITE_DBCONFIG_ENABLE_TRIGGER, false),
    ] {
        connection.set_db_config(config, on)?;
    }
    // Sorting stays in memory, where it is counted.
    connection.execute_batch("PRAGMA temp_store = MEMORY; PRAGMA cell_size_check = ON;")?;
    functions::register(connection, statement)?;
    connection.execute_batch("CREATE TEMP VIEW dual AS SELECT 'X' AS dummy;")?;
    for table in tables::all() {
        virtual_table::register(connection, statement, table)?;
    }
    for (limit, value) in LIMITS {
        connection.set_limit(*limit, *value)?;
    }
    let statement = Arc::clone(statement);
    connection.authorizer(Some(move |context: AuthContext<'_>| {
        if matches!(context.action, AuthAction::Function { .. }) && statement.call() > CALLS_MAX {
            let text = format!("the statement calls more than {CALLS_MAX} functions");
            statement.fail(SqlError::new(SqlErrorKind::Limit, text));
            return Authorization::Deny;
        }
        may(context)
    }))
}

/// Whether a statement may do that.
fn may(action: AuthContext<'_>) -> Authorization {
    let allowed = match action.action {
        AuthAction::Select | AuthAction::Recursive => true,
        AuthAction::Function { function_name } => functions::is_known(function_name),
        AuthAction::Read { table_name, column_name } => may_read(table_name, column_name, action.database_name),
        _ => false,
    };
    if allowed { Authorization::Allow } else { Authorization::Deny }
}

/// Whether a column may be read.
fn may_read(table: &str, column: &str, database: Option<&str>) -> bool {
    let is_ours = |name: &str| name == "dual" || tables::all().any(|table| table.name == name);
    match database {
        Some("main") => is_ours(table) || matches!(table, "json_each" | "json_tree"),
        Some("temp") => is_ours(table),
        Some(_) => false,
        // Of a table in `FROM` no column is read: its name is passed as written, which may be that of a common table
        // expression.
        None => column.is_empty() && !is_hidden(table),
    }
}

/// Whether a table is SQLite's own.
fn is_hidden(table: &str) -> bool {
    let table = table.to_ascii_lowercase();
    ["sqlite_", "pragma_", "dbstat", "fts", "rtree", "geopoly", "bytecode", "tables_used"]
        .iter()
        .any(|start| table.starts_with(start))
}

#[cfg(test)]
mod tests {
    use super::may_read;

    #[test]
    fn only_our_tables_are_read() {
        for (table, column, database, allowed) in [
            ("profiles", "id", Some("main"), true),
            ("profiles", "", Some("main"), true),
            ("profile_details", "facts", Some("main"), false),
            ("nodes", "id", Some("main"), true),
            ("json_each", "value", Some("main"), true),
            ("sqlite_master", "sql", Some("main"), false),
            ("sqlite_master", "", None, false),
            ("sqlite_temp_master", "sql", Some("temp"), false),
            ("pragma_table_info", "name", Some("main"), false),
            ("PRAGMA_database_list", "", None, false),
            ("dbstat", "", None, false),
            ("recent", "", None, true),
            ("profiles", "id", Some("other"), false),
        ] {
            assert_eq!(may_read(table, column, database), allowed, "{table}.{column} of {database:?}");
        }
    }
}
