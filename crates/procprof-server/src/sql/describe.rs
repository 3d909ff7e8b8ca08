//! What tables there are and of what columns: `DESCRIBE`, and the `SHOW` statements about tables.

use super::DATABASE;
use super::select::{TABLES, Table, TableColumn, mysql_type};
use super::statement::Show;
use super::variables::{is_database, like};
use crate::mysql::{Answer, Column, ColumnType, Failure, FailureKind, Value};

/// Headers of lists that are always empty here; clients ask for them all the same.
const EMPTY: &[(&str, &[&str])] = &[
    ("triggers", &["Trigger", "Event", "Table", "Statement", "Timing", "Created", "sql_mode", "Definer"]),
    ("events", &["Db", "Name", "Definer", "Time zone", "Type", "Execute at", "Status"]),
    ("procedure status", &["Db", "Name", "Type", "Definer", "Modified", "Created", "Security_type", "Comment"]),
    ("function status", &["Db", "Name", "Type", "Definer", "Modified", "Created", "Security_type", "Comment"]),
    ("plugins", &["Name", "Status", "Type", "Library", "License"]),
    ("open tables", &["Database", "Table", "In_use", "Name_locked"]),
];

/// Answers a `SHOW` statement about tables; `None` for one about something else.
pub(super) fn answer(show: &Show, database: &str) -> Option<Result<Answer, Failure>> {
    let database = show.of.as_deref().unwrap_or(if database.is_empty() { DATABASE } else { database });
    if let Some(name) = show.what.strip_prefix("create ") {
        return Some(create(name, show.of.as_deref()));
    }
    Some(match show.what.as_str() {
        "tables" => tables(show, database),
        "table status" => statuses(show, database),
        "columns" | "fields" => table(show).and_then(|table| columns(table, show.full, show.like.as_deref())),
        "index" | "indexes" | "keys" => table(show).map(|_| keys()),
        other => {
            let (_, names) = EMPTY.iter().find(|(what, _)| *what == other)?;
            Ok(Answer::rows(names.iter().map(|name| Column::text(*name)).collect(), Vec::new()))
        }
    })
}

/// `DESCRIBE table`.
///
/// # Errors
/// There is no such table.
pub(super) fn describe(name: &str) -> Result<Answer, Failure> {
    columns(Table::named(name)?, false, None)
}

fn table(show: &Show) -> Result<&'static Table, Failure> {
    Table::named(show.of.as_deref().unwrap_or_default())
}

/// The tables of a database.
fn of(database: &str) -> Result<impl Iterator<Item = &'static Table>, Failure> {
    if !is_database(database) {
        return Err(Failure::new(FailureKind::UnknownDatabase, format!("unknown database {database:?}; there is {DATABASE:?}")));
    }
    let database = database.to_ascii_lowercase();
    Ok(TABLES.iter().filter(move |table| table.database() == database))
}

fn tables(show: &Show, database: &str) -> Result<Answer, Failure> {
    let pattern = show.like.as_deref();
    let shown = of(database)?.filter(|table| pattern.is_none_or(|pattern| like(table.bare_name(), pattern)));
    let mut names = vec![Column::text(format!("Tables_in_{}", database.to_ascii_lowercase()))];
    if show.full {
        names.push(Column::text("Table_type"));
    }
    let row = |table: &Table| {
        let mut row: Vec<Value> = vec![table.bare_name().into()];
        row.extend(show.full.then(|| Value::from(if table.database() == DATABASE { "BASE TABLE" } else { "SYSTEM VIEW" })));
        row
    };
    Ok(Answer::rows(names, shown.map(row).collect()))
}

fn statuses(show: &Show, database: &str) -> Result<Answer, Failure> {
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
    let pattern = show.like.as_deref();
    let shown = of(database)?.filter(|table| pattern.is_none_or(|pattern| like(table.bare_name(), pattern)));
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
    Ok(Answer::rows(names.map(Column::text).to_vec(), shown.map(row).collect()))
}

fn columns(table: &Table, full: bool, pattern: Option<&str>) -> Result<Answer, Failure> {
    let names: &[&str] = match full {
        true => &["Field", "Type", "Collation", "Null", "Key", "Default", "Extra", "Privileges", "Comment"],
        false => &["Field", "Type", "Null", "Key", "Default", "Extra"],
    };
    let row = |column: &TableColumn| {
        let cell = |name: &&str| match *name {
            "Field" => column.name.into(),
            "Type" => mysql_type(column.column_type).into(),
            "Collation" if column.column_type == ColumnType::Text => "utf8mb4_general_ci".into(),
            "Null" => "YES".into(),
            "Privileges" => "select".into(),
            "Comment" => column.comment.into(),
            "Key" | "Extra" => "".into(),
            _ => Value::Null,
        };
        names.iter().map(cell).collect()
    };
    let shown = table.columns.iter().filter(|column| pattern.is_none_or(|pattern| like(column.name, pattern)));
    Ok(Answer::rows(names.iter().map(|name| Column::text(*name)).collect(), shown.map(row).collect()))
}

fn keys() -> Answer {
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
    ];
    Answer::rows(names.map(Column::text).to_vec(), Vec::new())
}

/// `SHOW CREATE TABLE name`, `SHOW CREATE DATABASE name`; the name is the last word, or was in backquotes.
fn create(what: &str, quoted: Option<&str>) -> Result<Answer, Failure> {
    let (kind, name) = what.split_once(' ').unwrap_or((what, ""));
    let name = quoted.unwrap_or_else(|| name.rsplit(' ').next().unwrap_or(name));
    let headers = |names: [&str; 2]| names.map(Column::text).to_vec();
    match kind {
        "database" | "schema" => {
            drop(of(name)?);
            let text = format!("CREATE DATABASE `{name}` /*!40100 DEFAULT CHARACTER SET utf8mb4 */");
            Ok(Answer::rows(headers(["Database", "Create Database"]), vec![vec![name.into(), text.into()]]))
        }
        "table" | "view" => {
            let table = Table::named(name)?;
            Ok(Answer::rows(headers(["Table", "Create Table"]), vec![vec![table.bare_name().into(), statement(table).into()]]))
        }
        other => Err(Failure::new(FailureKind::NotSupported, format!("SHOW CREATE {} is not offered", other.to_uppercase()))),
    }
}

/// A statement that would make a table like this one.
fn statement(table: &Table) -> String {
    let column = |column: &TableColumn| {
        let comment = if column.comment.is_empty() { String::new() } else { format!(" COMMENT '{}'", column.comment.replace('\'', "''")) };
        format!("  `{}` {}{comment}", column.name, mysql_type(column.column_type))
    };
    let columns: Vec<String> = table.columns.iter().map(column).collect();
    let comment = table.comment.replace('\'', "''");
    format!(
        "CREATE TABLE `{}` (\n{}\n) ENGINE=procprof DEFAULT CHARSET=utf8mb4 COMMENT='{comment}'",
        table.bare_name(),
        columns.join(",\n")
    )
}
