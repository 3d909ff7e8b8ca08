//! Connections to the catalog on which strangers' statements run: what they see, what they may touch, and how much memory they may take.
//!
//! SQLite asks [`may`] about everything a statement does when it is prepared. Allowed is reading our tables and calling listed functions, nothing
//! else: no `ATTACH`, no `PRAGMA` (nor its functions), no extension, no table of SQLite's own, no other file. Besides, the connection is opened
//! read-only.

use std::sync::Arc;

use rusqlite::Connection;
use rusqlite::config::DbConfig;
use rusqlite::hooks::{AuthAction, AuthContext, Authorization};
use rusqlite::limits::Limit;

use super::catalog::{Source, TABLES};
use super::functions;
use super::refusal;
use super::rewrite::BYTES_MAX;
use super::scene::Scene;
use super::table;
use crate::app::App;
use crate::mysql::{Failure, FailureKind};
use procprof_store::{Reader as CatalogReader, Store};

/// Longest text or blob a statement may make or read, in bytes.
const LENGTH_MAX: i32 = 4 << 20;

/// Limits of one statement, beside those of time and memory.
const LIMITS: &[(Limit, i32)] = &[
    (Limit::SQLITE_LIMIT_LENGTH, LENGTH_MAX),
    // What is rewritten may be longer than what was said.
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
pub(super) struct Reader {
    catalog: CatalogReader,
    scene: Arc<Scene>,
}

impl Reader {
    /// Opens one and makes the tables known to it.
    ///
    /// # Errors
    /// The catalog cannot be opened.
    pub(super) fn open(app: &Arc<App>) -> Result<Reader, Failure> {
        let mut catalog = app.store.reader().map_err(|error| Failure::new(FailureKind::Other, error.to_string()))?;
        let scene = Arc::new(Scene::new(app));
        prepared(&mut catalog.connection, &scene).map_err(|error| refusal::of(&error))?;
        Ok(Reader { catalog, scene })
    }

    pub(super) fn connection(&mut self) -> &mut Connection {
        &mut self.catalog.connection
    }

    pub(super) fn scene(&self) -> &Arc<Scene> {
        &self.scene
    }

    /// Whether it reads the catalog there is.
    pub(super) fn is_current(&self, store: &Store) -> bool {
        store.is_current(&self.catalog)
    }
}

fn prepared(connection: &mut Connection, scene: &Arc<Scene>) -> rusqlite::Result<()> {
    for (config, on) in [
        (DbConfig::SQLITE_DBCONFIG_DEFENSIVE, true),
        (DbConfig::SQLITE_DBCONFIG_TRUSTED_SCHEMA, false),
        // Names that nobody knows are errors, not texts.
        (DbConfig::SQLITE_DBCONFIG_DQS_DML, false),
        (DbConfig::SQLITE_DBCONFIG_DQS_DDL, false),
        (DbConfig::SQLITE_DBCONFIG_ENABLE_TRIGGER, false),
    ] {
        connection.set_db_config(config, on)?;
    }
    // Sorting stays in memory, where it is counted.
    connection.execute_batch("PRAGMA temp_store = MEMORY; PRAGMA cell_size_check = ON;")?;
    functions::register(connection, scene)?;
    connection.execute_batch("CREATE TEMP VIEW dual AS SELECT 'X' AS dummy;")?;
    for table in TABLES {
        match table.source {
            Source::View(query) => connection.execute_batch(&format!("CREATE TEMP VIEW {} AS {query};", table.name))?,
            Source::Computed(_) => table::register(connection, scene, table)?,
        }
    }
    for (limit, value) in LIMITS {
        connection.set_limit(*limit, *value)?;
    }
    connection.authorizer(Some(may))
}

/// Whether a statement may do that.
fn may(asked: AuthContext<'_>) -> Authorization {
    let allowed = match asked.action {
        AuthAction::Select | AuthAction::Recursive => true,
        AuthAction::Function { function_name } => functions::is_known(function_name),
        AuthAction::Read { table_name, column_name } => may_read(table_name, column_name, asked.database_name, asked.accessor),
        _ => false,
    };
    if allowed { Authorization::Allow } else { Authorization::Deny }
}

/// Whether a column may be read. The catalog's own table only through our view of it.
fn may_read(table: &str, column: &str, database: Option<&str>, through: Option<&str>) -> bool {
    let is_ours = |name: &str| name == "dual" || TABLES.iter().any(|table| table.name == name);
    let is_view = |name: &str| TABLES.iter().any(|table| table.name == name && matches!(table.source, Source::View(_)));
    match database {
        // A query that is flattened into another is counted under that one's name; counting reads no column.
        Some("main") if is_view(table) => column.is_empty() || through.is_some_and(is_view),
        Some("main") => is_ours(table) || matches!(table, "json_each" | "json_tree"),
        Some("temp") => is_ours(table),
        Some(_) => false,
        // Of a table in `FROM` no column is read: its name is given as it stands there, which may be that of a common table expression.
        None => column.is_empty() && !is_hidden(table),
    }
}

/// Whether a table is SQLite's own, or one of the catalog that no table of ours shows.
fn is_hidden(table: &str) -> bool {
    let table = table.to_ascii_lowercase();
    ["sqlite_", "pragma_", "dbstat", "fts", "rtree", "geopoly", "bytecode", "tables_used", "profile_details"]
        .iter()
        .any(|start| table.starts_with(start))
}

#[cfg(test)]
mod tests {
    use super::may_read;

    #[test]
    fn only_our_tables_are_read() {
        for (table, column, database, through, allowed) in [
            ("profiles", "id", Some("temp"), None, true),
            ("profiles", "bytes", Some("main"), Some("profiles"), true),
            ("profiles", "", Some("main"), None, true),
            ("profiles", "bytes", Some("main"), None, false),
            ("profiles", "bytes", Some("main"), Some("other"), false),
            ("profile_details", "facts", Some("main"), Some("profiles"), false),
            ("profile_details", "", None, None, false),
            ("nodes", "id", Some("main"), None, true),
            ("json_each", "value", Some("main"), None, true),
            ("sqlite_master", "sql", Some("main"), None, false),
            ("sqlite_master", "", None, None, false),
            ("sqlite_temp_master", "sql", Some("temp"), None, false),
            ("pragma_table_info", "name", Some("main"), None, false),
            ("PRAGMA_database_list", "", None, None, false),
            ("dbstat", "", None, None, false),
            ("recent", "", None, None, true),
            ("profiles", "id", Some("other"), None, false),
        ] {
            assert_eq!(may_read(table, column, database, through), allowed, "{table}.{column} of {database:?} through {through:?}");
        }
    }
}
