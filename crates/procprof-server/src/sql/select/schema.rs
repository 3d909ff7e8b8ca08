//! The rows of `information_schema`, from the table of tables.

use super::catalog::{TABLES, Table, TableRows, mysql_type};
use super::scene::Scene;
use crate::mysql::{ColumnType, Failure, Value};
use crate::sql::DATABASE;

pub(super) fn none(_scene: &Scene, _parameters: &[Value]) -> Result<TableRows, Failure> {
    Ok(Vec::new())
}

pub(super) fn schemata(_scene: &Scene, _parameters: &[Value]) -> Result<TableRows, Failure> {
    let row = |name: &str| vec!["def".into(), name.into(), "utf8mb4".into(), "utf8mb4_general_ci".into(), Value::Null];
    Ok([DATABASE, "information_schema"].into_iter().map(row).collect())
}

pub(super) fn tables(_scene: &Scene, _parameters: &[Value]) -> Result<TableRows, Failure> {
    let row = |table: &Table| {
        let kind = if table.database() == DATABASE { "BASE TABLE" } else { "SYSTEM VIEW" };
        let mut row = vec!["def".into(), table.database().into(), shown_name(table).into(), kind.into(), "procprof".into()];
        row.resize(14, Value::Null);
        row.extend(["utf8mb4_general_ci".into(), "".into(), table.comment.into()]);
        row
    };
    Ok(TABLES.iter().map(row).collect())
}

pub(super) fn columns(_scene: &Scene, _parameters: &[Value]) -> Result<TableRows, Failure> {
    let rows = TABLES.iter().flat_map(|table| {
        table.columns.iter().enumerate().map(move |(index, column)| {
            let is_text = column.column_type == ColumnType::Text;
            let of_text = |text: &str| if is_text { Value::from(text) } else { Value::Null };
            let length = if is_text { Value::Integer(u32::MAX.into()) } else { Value::Null };
            let precision = match column.column_type {
                ColumnType::Integer => Value::Integer(19),
                ColumnType::Real => Value::Integer(22),
                _ => Value::Null,
            };
            let scale = if column.column_type == ColumnType::Integer { Value::Integer(0) } else { Value::Null };
            let kind = mysql_type(column.column_type);
            vec![
                "def".into(),
                table.database().into(),
                shown_name(table).into(),
                column.name.into(),
                Value::Integer(index as i64 + 1),
                Value::Null,
                "YES".into(),
                kind.into(),
                length.clone(),
                length,
                precision,
                scale,
                Value::Null,
                of_text("utf8mb4"),
                of_text("utf8mb4_general_ci"),
                kind.into(),
                "".into(),
                "".into(),
                "select".into(),
                column.comment.into(),
            ]
        })
    });
    Ok(rows.collect())
}

/// MySQL writes the tables of `information_schema` in capitals.
fn shown_name(table: &Table) -> String {
    if table.database() == DATABASE { table.name.to_owned() } else { table.bare_name().to_ascii_uppercase() }
}
