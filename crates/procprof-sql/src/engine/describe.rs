//! The tables and their columns: `DESCRIBE`, and the `SHOW` statements about tables.

use super::tables::{Table, TableColumn, all, is_database};
use crate::DATABASE;
use crate::mysql::{Column, ColumnType, SqlError, SqlErrorKind, StatementResult, Value};
use crate::statement::Show;

/// Headers of lists that are always empty here; clients request them all the same.
const EMPTY: &[(&str, &[&str])] = &[
    (
        "triggers",
        &[
            "Trigger",
            "Event",
            "Table",
            "Statement",
            "Timing",
            "Created",
            "sql_mode",
            "Definer",
            "character_set_client",
            "collation_connection",
            "Database Collation",
        ],
    ),
    (
        "events",
        &[
            "Db",
            "Name",
            "Definer",
            "Time zone",
            "Type",
            "Execute at",
            "Interval value",
            "Interval field",
            "Starts",
            "Ends",
            "Status",
            "Originator",
            "character_set_client",
            "collation_connection",
            "Database Collation",
        ],
    ),
    ("procedure status", ROUTINE),
    ("function status", ROUTINE),
    ("plugins", &["Name", "Status", "Type", "Library", "License"]),
    ("open tables", &["Database", "Table", "In_use", "Name_locked"]),
    (
        "slave status",
        &[
            "Slave_IO_State",
            "Master_Host",
            "Master_User",
            "Master_Port",
            "Slave_IO_Running",
            "Slave_SQL_Running",
            "Seconds_Behind_Master",
        ],
    ),
    (
        "replica status",
        &[
            "Replica_IO_State",
            "Source_Host",
            "Source_User",
            "Source_Port",
            "Replica_IO_Running",
            "Replica_SQL_Running",
            "Seconds_Behind_Source",
        ],
    ),
    ("master status", &["File", "Position", "Binlog_Do_DB", "Binlog_Ignore_DB", "Executed_Gtid_Set"]),
    ("broker", &["Name", "IP", "Port", "Alive", "LastStartTime", "LastUpdateTime", "ErrMsg"]),
    (
        "warehouses",
        &[
            "Id",
            "Name",
            "State",
            "NodeCount",
            "CurrentClusterCount",
            "MaxClusterCount",
            "StartedClusters",
            "RunningSql",
            "QueuedSql",
        ],
    ),
    ("resources", &["Name", "ResourceType", "Key", "Value"]),
];

/// The columns of `SHOW PROCEDURE STATUS` and `SHOW FUNCTION STATUS`.
const ROUTINE: &[&str] = &[
    "Db",
    "Name",
    "Type",
    "Definer",
    "Modified",
    "Created",
    "Security_type",
    "Comment",
    "character_set_client",
    "collation_connection",
    "Database Collation",
];

/// Answers a `SHOW` statement about tables; `None` for one about something else.
pub(crate) fn answer(show: &Show, database: &str) -> Option<Result<StatementResult, SqlError>> {
    let database = show.of.as_deref().unwrap_or(if database.is_empty() { DATABASE } else { database });
    if let Some(name) = show.what.strip_prefix("create ") {
        return Some(create(name, show.of.as_deref()));
    }
    Some(match show.what.as_str() {
        "tables" => tables(show, database),
        "table status" => statuses(database),
        "columns" | "fields" => table(show).map(|table| columns(table, show.full)),
        "index" | "indexes" | "keys" => table(show).map(|_| keys()),
        other => {
            let (_, names) = EMPTY.iter().find(|(what, _)| *what == other)?;
            Ok(StatementResult::rows(names.iter().map(|name| Column::text(*name)).collect(), Vec::new()))
        }
    })
}

fn table(show: &Show) -> Result<&'static Table, SqlError> {
    Table::named(show.of.as_deref().unwrap_or_default())
}

/// The tables of a database.
fn tables_in(database: &str) -> Result<impl Iterator<Item = &'static Table>, SqlError> {
    if !is_database(database) {
        return Err(SqlError::new(
            SqlErrorKind::UnknownDatabase,
            format!("unknown database {database:?}; there is {DATABASE:?}"),
        ));
    }
    let database = database.to_ascii_lowercase();
    Ok(all().filter(move |table| table.database() == database))
}

fn tables(show: &Show, database: &str) -> Result<StatementResult, SqlError> {
    let mut names = vec![Column::text(format!("Tables_in_{}", database.to_ascii_lowercase()))];
    if show.full {
        names.push(Column::text("Table_type"));
    }
    let row = |table: &Table| {
        let mut row: Vec<Value> = vec![table.bare_name().into()];
        row.extend(
            show.full.then(|| Value::from(if table.database() == DATABASE { "BASE TABLE" } else { "SYSTEM VIEW" })),
        );
        row
    };
    Ok(StatementResult::rows(names, tables_in(database)?.map(row).collect()))
}

fn statuses(database: &str) -> Result<StatementResult, SqlError> {
    let names = [
        "Name",
        "Engine",
        "Version",
        "Row_format",
        "Rows",
        "Avg_row_length",
        "Data_length",
        "Max_data_length",
        "Index_length",
        "Data_free",
        "Auto_increment",
        "Create_time",
        "Update_time",
        "Check_time",
        "Collation",
        "Checksum",
        "Create_options",
        "Comment",
    ];
    let row = |table: &Table| {
        let cell = |name: &&str| match *name {
            "Name" => table.bare_name().into(),
            "Engine" => "procprof".into(),
            "Collation" => "utf8mb4_general_ci".into(),
            "Comment" => table.comment.into(),
            _ => Value::Null,
        };
        names.iter().map(cell).collect()
    };
    Ok(StatementResult::rows(names.map(counted).to_vec(), tables_in(database)?.map(row).collect()))
}

/// A column of a list of tables or keys: a number where MySQL has one.
fn counted(name: &str) -> Column {
    const NUMBERS: &[&str] = &[
        "Version",
        "Rows",
        "Avg_row_length",
        "Data_length",
        "Max_data_length",
        "Index_length",
        "Data_free",
        "Auto_increment",
        "Checksum",
        "Non_unique",
        "Seq_in_index",
        "Cardinality",
        "Sub_part",
    ];
    Column::new(name, if NUMBERS.contains(&name) { ColumnType::Integer } else { ColumnType::Text })
}

fn columns(table: &Table, full: bool) -> StatementResult {
    let names: &[&str] = match full {
        true => &["Field", "Type", "Collation", "Null", "Key", "Default", "Extra", "Privileges", "Comment"],
        false => &["Field", "Type", "Null", "Key", "Default", "Extra"],
    };
    let row = |column: &TableColumn| {
        let cell = |name: &&str| match *name {
            "Field" => column.name.into(),
            "Type" => column.declared.mysql_type().into(),
            "Collation" => column.declared.collation().map_or(Value::Null, Value::from),
            "Null" => "YES".into(),
            "Privileges" => "select".into(),
            "Comment" => column.comment.into(),
            "Key" | "Extra" => "".into(),
            _ => Value::Null,
        };
        names.iter().map(cell).collect()
    };
    StatementResult::rows(
        names.iter().map(|name| Column::text(*name)).collect(),
        table.columns.iter().map(row).collect(),
    )
}

fn keys() -> StatementResult {
    let names = [
        "Table",
        "Non_unique",
        "Key_name",
        "Seq_in_index",
        "Column_name",
        "Collation",
        "Cardinality",
        "Sub_part",
        "Packed",
        "Null",
        "Index_type",
        "Comment",
        "Index_comment",
        "Visible",
        "Expression",
    ];
    StatementResult::rows(names.map(counted).to_vec(), Vec::new())
}

/// `SHOW CREATE TABLE name`, `SHOW CREATE DATABASE name`; the name is the last word, or was in backquotes.
fn create(what: &str, quoted: Option<&str>) -> Result<StatementResult, SqlError> {
    let (kind, name) = what.split_once(' ').unwrap_or((what, ""));
    let name = quoted.unwrap_or_else(|| name.rsplit(' ').next().unwrap_or(name));
    let headers = |names: [&str; 2]| names.map(Column::text).to_vec();
    match kind {
        "database" | "schema" => {
            drop(tables_in(name)?);
            let text = format!("CREATE DATABASE `{name}` /*!40100 DEFAULT CHARACTER SET utf8mb4 */");
            Ok(StatementResult::rows(headers(["Database", "Create Database"]), vec![vec![name.into(), text.into()]]))
        }
        "table" | "view" => {
            let table = Table::named(name)?;
            Ok(StatementResult::rows(
                headers(["Table", "Create Table"]),
                vec![vec![table.bare_name().into(), statement(table).into()]],
            ))
        }
        other => Err(SqlError::new(
            SqlErrorKind::NotSupported,
            format!("SHOW CREATE {} is not offered", other.to_uppercase()),
        )),
    }
}

/// A statement that would make a table like this one.
fn statement(table: &Table) -> String {
    let column = |column: &TableColumn| {
        let comment = if column.comment.is_empty() {
            String::new()
        } else {
            format!(" COMMENT '{}'", column.comment.replace('\'', "''"))
        };
        let collation = column.declared.collation().map_or(String::new(), |name| format!(" COLLATE {name}"));
        format!("  `{}` {}{collation}{comment}", column.name, column.declared.mysql_type())
    };
    let columns: Vec<String> = table.columns.iter().map(column).collect();
    let comment = table.comment.replace('\'', "''");
    format!(
        "CREATE TABLE `{}` (\n{}\n) ENGINE=procprof DEFAULT CHARSET=utf8mb4 COMMENT='{comment}'",
        table.bare_name(),
        columns.join(",\n")
    )
}
