//! The tables there are: their columns, what they take, and what they are for. `SHOW`, `DESCRIBE`, `information_schema` and SQLite read it here.
//!
//! A table with parameters is called like a function: `FROM samples('01930c5e-…')`. Those in brackets may be left out.

use super::scene::Scene;
use super::{nodes, reports, schema};
use crate::mysql::ColumnType::{Integer, Real, Text};
use crate::mysql::{ColumnType, Failure, FailureKind, Value};
use crate::sql::DATABASE;

/// Rows of a computed table.
pub(super) type TableRows = Vec<Vec<Value>>;

/// Where a table's rows come from.
pub(in crate::sql) enum Source {
    /// A query on the catalog.
    View(&'static str),
    /// Computed when it is read, from the values of its parameters (NULL where one was left out).
    Computed(fn(&Scene, &[Value]) -> Result<TableRows, Failure>),
}

/// A column.
pub(in crate::sql) struct TableColumn {
    pub(in crate::sql) name: &'static str,
    pub(in crate::sql) column_type: ColumnType,
    /// One line for people; empty where the name says it.
    pub(in crate::sql) comment: &'static str,
}

/// A parameter.
pub(in crate::sql) struct Parameter {
    pub(in crate::sql) name: &'static str,
    /// Whether it may be left out.
    pub(in crate::sql) optional: bool,
}

/// A table.
pub(in crate::sql) struct Table {
    /// Its name; with `information_schema.` before it for those of that database.
    pub(in crate::sql) name: &'static str,
    pub(in crate::sql) parameters: &'static [Parameter],
    pub(in crate::sql) columns: &'static [TableColumn],
    pub(in crate::sql) comment: &'static str,
    pub(in crate::sql) source: Source,
}

const fn column(name: &'static str, column_type: ColumnType, comment: &'static str) -> TableColumn {
    TableColumn { name, column_type, comment }
}

const fn needed(name: &'static str) -> Parameter {
    Parameter { name, optional: false }
}

const fn optional(name: &'static str) -> Parameter {
    Parameter { name, optional: true }
}

/// Every table, in the order `SHOW TABLES` has them, those of `information_schema` last.
pub(in crate::sql) const TABLES: &[Table] = &[
    Table {
        name: "profiles",
        parameters: &[],
        columns: &[
            column("id", Text, "UUID, as in URLs"),
            column("node", Integer, "id of the node"),
            column("type", Text, "cpu, wall, alloc, heap, contention, mutex, goroutine, …"),
            column("trigger", Text, "schedule, manual, import, push, …"),
            column("started", Text, "UTC"),
            column("completed", Text, "UTC"),
            column("seconds", Real, "length of the capture; 0 for a moment"),
            column("bytes", Integer, "size of the stored file"),
            column("samples", Integer, "number of samples"),
            column("totals", Text, "JSON: kind, unit and value of each sample type"),
            column("top_function", Text, "the function with the largest own value"),
            column("file", Text, "name of the file"),
            column("cluster", Text, ""),
            column("labels", Text, "of the node: key=value, separated by commas"),
            column("started_ns", Integer, "nanoseconds since 1970, UTC"),
            column("completed_ns", Integer, "nanoseconds since 1970, UTC; what indexes are by"),
        ],
        comment: "stored profiles",
        source: Source::View(
            "SELECT uuid_text(id) AS id, node, type, \"trigger\", datetime_text(started) AS started, datetime_text(completed) AS completed,
             duration / 1e9 AS seconds, bytes, samples, totals, top_function, file, cluster,
             labels_text(labels) AS labels, started AS started_ns, completed AS completed_ns FROM main.profiles",
        ),
    },
    Table {
        name: "nodes",
        parameters: &[],
        columns: &[
            column("id", Integer, ""),
            column("name", Text, ""),
            column("role", Text, "FE, BE, CN, service, self"),
            column("kind", Text, "how it is collected"),
            column("cluster", Text, ""),
            column("address", Text, "host:port"),
            column("health", Text, "ok, degraded, failing, unknown"),
            column("last_success", Text, "when a profile last arrived, UTC"),
            column("last_failure", Text, "when a type last failed that fails now, UTC"),
            column("failure", Text, "why"),
            column("past", Integer, "1: not configured any more; its profiles are still there"),
            column("demo", Integer, ""),
        ],
        comment: "the processes profiles come from",
        source: Source::Computed(nodes::nodes),
    },
    Table {
        name: "errors",
        parameters: &[],
        columns: &[
            column("number", Integer, "ascending, never used again"),
            column("time", Text, "UTC"),
            column("node", Integer, "id of the node, where there is one"),
            column("type", Text, "type of profile, where there is one"),
            column("kind", Text, "capture, refused, restarted, symbolize, storage, retention, import"),
            column("reason", Text, ""),
        ],
        comment: "what went wrong",
        source: Source::Computed(nodes::errors),
    },
    Table {
        name: "samples",
        parameters: &[needed("profile_id"), optional("only")],
        columns: &[
            column("sample_type", Text, "the profile's default unless another is asked for"),
            column("unit", Text, ""),
            column("function", Text, ""),
            column("file", Text, ""),
            column("line", Integer, ""),
            column("flat", Integer, "of the line itself"),
            column("cum", Integer, "with all it calls"),
        ],
        comment: "samples(profile_id [, sample_type | '*']): the lines of a profile and what they use",
        source: Source::Computed(reports::samples),
    },
    Table {
        name: "stacks",
        parameters: &[needed("profile_id"), optional("only")],
        columns: &[
            column("sample_type", Text, "the profile's default unless another is asked for"),
            column("unit", Text, ""),
            column("stack", Text, "functions, root first, joined by ;"),
            column("value", Integer, ""),
        ],
        comment: "stacks(profile_id [, sample_type | '*']): the stacks of a profile, collapsed",
        source: Source::Computed(reports::stacks),
    },
    Table {
        name: "top",
        parameters: &[needed("of_node"), optional("of_type"), optional("from"), optional("to"), optional("only")],
        columns: &[
            column("sample_type", Text, "the profiles' default unless another is asked for"),
            column("unit", Text, ""),
            column("function", Text, ""),
            column("file", Text, ""),
            column("flat", Integer, "of the function itself"),
            column("cum", Integer, "with all it calls"),
            column("profiles", Integer, "how many were merged"),
        ],
        comment: "top(node [, type [, from [, to [, sample_type | '*']]]]): functions over all profiles completed in a period, cpu unless said",
        source: Source::Computed(reports::top),
    },
    Table {
        name: "diff",
        parameters: &[needed("profile_a"), needed("profile_b"), optional("only")],
        columns: &[
            column("sample_type", Text, "the profiles' default unless another is asked for"),
            column("unit", Text, ""),
            column("function", Text, ""),
            column("file", Text, ""),
            column("flat", Integer, "of b less that of a"),
            column("cum", Integer, "of b less that of a"),
            column("flat_a", Integer, ""),
            column("flat_b", Integer, ""),
            column("cum_a", Integer, ""),
            column("cum_b", Integer, ""),
        ],
        comment: "diff(profile_a, profile_b [, sample_type | '*']): what functions use in b more than in a",
        source: Source::Computed(reports::diff),
    },
    Table {
        name: "information_schema.schemata",
        parameters: &[],
        columns: &[
            column("CATALOG_NAME", Text, ""),
            column("SCHEMA_NAME", Text, ""),
            column("DEFAULT_CHARACTER_SET_NAME", Text, ""),
            column("DEFAULT_COLLATION_NAME", Text, ""),
            column("SQL_PATH", Text, ""),
        ],
        comment: "databases",
        source: Source::Computed(schema::schemata),
    },
    Table {
        name: "information_schema.tables",
        parameters: &[],
        columns: &[
            column("TABLE_CATALOG", Text, ""),
            column("TABLE_SCHEMA", Text, ""),
            column("TABLE_NAME", Text, ""),
            column("TABLE_TYPE", Text, ""),
            column("ENGINE", Text, ""),
            column("VERSION", Integer, ""),
            column("ROW_FORMAT", Text, ""),
            column("TABLE_ROWS", Integer, ""),
            column("AVG_ROW_LENGTH", Integer, ""),
            column("DATA_LENGTH", Integer, ""),
            column("INDEX_LENGTH", Integer, ""),
            column("AUTO_INCREMENT", Integer, ""),
            column("CREATE_TIME", Text, ""),
            column("UPDATE_TIME", Text, ""),
            column("TABLE_COLLATION", Text, ""),
            column("CREATE_OPTIONS", Text, ""),
            column("TABLE_COMMENT", Text, ""),
        ],
        comment: "tables",
        source: Source::Computed(schema::tables),
    },
    Table {
        name: "information_schema.columns",
        parameters: &[],
        columns: &[
            column("TABLE_CATALOG", Text, ""),
            column("TABLE_SCHEMA", Text, ""),
            column("TABLE_NAME", Text, ""),
            column("COLUMN_NAME", Text, ""),
            column("ORDINAL_POSITION", Integer, ""),
            column("COLUMN_DEFAULT", Text, ""),
            column("IS_NULLABLE", Text, ""),
            column("DATA_TYPE", Text, ""),
            column("CHARACTER_MAXIMUM_LENGTH", Integer, ""),
            column("CHARACTER_OCTET_LENGTH", Integer, ""),
            column("NUMERIC_PRECISION", Integer, ""),
            column("NUMERIC_SCALE", Integer, ""),
            column("DATETIME_PRECISION", Integer, ""),
            column("CHARACTER_SET_NAME", Text, ""),
            column("COLLATION_NAME", Text, ""),
            column("COLUMN_TYPE", Text, ""),
            column("COLUMN_KEY", Text, ""),
            column("EXTRA", Text, ""),
            column("PRIVILEGES", Text, ""),
            column("COLUMN_COMMENT", Text, ""),
        ],
        comment: "columns of tables",
        source: Source::Computed(schema::columns),
    },
    empty(
        "information_schema.views",
        &[column("TABLE_SCHEMA", Text, ""), column("TABLE_NAME", Text, ""), column("VIEW_DEFINITION", Text, "")],
    ),
    empty(
        "information_schema.routines",
        &[column("ROUTINE_SCHEMA", Text, ""), column("ROUTINE_NAME", Text, ""), column("ROUTINE_TYPE", Text, "")],
    ),
    empty(
        "information_schema.triggers",
        &[column("TRIGGER_SCHEMA", Text, ""), column("TRIGGER_NAME", Text, ""), column("EVENT_OBJECT_TABLE", Text, "")],
    ),
    empty("information_schema.events", &[column("EVENT_SCHEMA", Text, ""), column("EVENT_NAME", Text, "")]),
    empty(
        "information_schema.statistics",
        &[
            column("TABLE_SCHEMA", Text, ""),
            column("TABLE_NAME", Text, ""),
            column("NON_UNIQUE", Integer, ""),
            column("INDEX_NAME", Text, ""),
            column("SEQ_IN_INDEX", Integer, ""),
            column("COLUMN_NAME", Text, ""),
        ],
    ),
    empty(
        "information_schema.key_column_usage",
        &[
            column("CONSTRAINT_SCHEMA", Text, ""),
            column("CONSTRAINT_NAME", Text, ""),
            column("TABLE_SCHEMA", Text, ""),
            column("TABLE_NAME", Text, ""),
            column("COLUMN_NAME", Text, ""),
            column("ORDINAL_POSITION", Integer, ""),
            column("REFERENCED_TABLE_SCHEMA", Text, ""),
            column("REFERENCED_TABLE_NAME", Text, ""),
            column("REFERENCED_COLUMN_NAME", Text, ""),
        ],
    ),
];

/// A table of `information_schema` that has no rows here, as there is nothing of its kind.
const fn empty(name: &'static str, columns: &'static [TableColumn]) -> Table {
    Table { name, parameters: &[], columns, comment: "always empty here", source: Source::Computed(schema::none) }
}

/// The database before the names of its tables.
const INFORMATION: &str = "information_schema.";

impl Table {
    /// The table of that name, in any case, with or without our database before it.
    ///
    /// # Errors
    /// [`FailureKind::UnknownTable`], with those there are.
    pub(in crate::sql) fn named(name: &str) -> Result<&'static Table, Failure> {
        let lower = name.to_ascii_lowercase();
        let bare = lower.strip_prefix(DATABASE).and_then(|rest| rest.strip_prefix('.')).unwrap_or(&lower);
        let of_ours = TABLES.iter().find(|table| table.name == bare);
        of_ours.or_else(|| TABLES.iter().find(|table| table.bare_name() == bare)).ok_or_else(|| unknown_table(name))
    }

    /// Its database.
    pub(in crate::sql) fn database(&self) -> &'static str {
        if self.name.starts_with(INFORMATION) { "information_schema" } else { DATABASE }
    }

    /// Its name without the database.
    pub(in crate::sql) fn bare_name(&self) -> &'static str {
        self.name.strip_prefix(INFORMATION).unwrap_or(self.name)
    }

    /// Its columns and hidden parameters as SQLite's `CREATE TABLE` has them.
    pub(super) fn declaration(&self) -> String {
        let columns = self.columns.iter().map(|column| format!("\"{}\" {}", column.name, affinity(column.column_type)));
        let parameters = self.parameters.iter().map(|parameter| format!("\"{}\" HIDDEN", parameter.name));
        format!("CREATE TABLE x({})", columns.chain(parameters).collect::<Vec<_>>().join(", "))
    }
}

/// The sentence for a table nobody knows.
pub(super) fn unknown_table(name: &str) -> Failure {
    let name: String = name.chars().take(80).collect();
    let known: Vec<&str> = TABLES.iter().map(|table| table.name).filter(|name| !name.starts_with(INFORMATION)).collect();
    Failure::new(FailureKind::UnknownTable, format!("there is no table '{name}'; there are {}", known.join(", ")))
}

/// The name of a type in SQLite.
fn affinity(column_type: ColumnType) -> &'static str {
    match column_type {
        Integer => "INTEGER",
        Real => "REAL",
        Text => "TEXT",
        ColumnType::Blob => "BLOB",
    }
}

/// The name of a type in MySQL.
pub(in crate::sql) fn mysql_type(column_type: ColumnType) -> &'static str {
    match column_type {
        Integer => "bigint",
        Real => "double",
        Text => "longtext",
        ColumnType::Blob => "longblob",
    }
}
