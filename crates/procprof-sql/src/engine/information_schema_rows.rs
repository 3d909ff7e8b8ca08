//! The rows of `information_schema`, from the table of tables.

use sqlparser::keywords::{
    ALL_KEYWORDS, ALL_KEYWORDS_INDEX, Keyword, RESERVED_FOR_COLUMN_ALIAS, RESERVED_FOR_IDENTIFIER,
};

use super::computed::StatementContext;
use super::tables::{self, Declared, Table, TableRows};
use crate::DATABASE;
use crate::mysql::{SqlError, Value};
use crate::names::{CHARSETS, COLLATIONS, ENGINE, is_default};

pub(super) fn none(_statement: &StatementContext, _parameters: &[Value]) -> Result<TableRows, SqlError> {
    Ok(Vec::new())
}

pub(super) fn schemata(_statement: &StatementContext, _parameters: &[Value]) -> Result<TableRows, SqlError> {
    let row = |name: &str| {
        vec!["def".into(), name.into(), "utf8mb4".into(), "utf8mb4_general_ci".into(), Value::Null, "NO".into()]
    };
    Ok(tables::databases().map(row).collect())
}

pub(super) fn tables(_statement: &StatementContext, _parameters: &[Value]) -> Result<TableRows, SqlError> {
    let row = |table: &Table| {
        let kind = if table.database() == DATABASE { "BASE TABLE" } else { "SYSTEM VIEW" };
        let mut row =
            vec!["def".into(), table.database().into(), shown_name(table).into(), kind.into(), "procprof".into()];
        row.resize(17, Value::Null);
        row.extend(["utf8mb4_general_ci".into(), Value::Null, "".into(), table.comment.into()]);
        row
    };
    Ok(tables::all().map(row).collect())
}

pub(super) fn columns(_statement: &StatementContext, _parameters: &[Value]) -> Result<TableRows, SqlError> {
    let rows = tables::all().flat_map(|table| {
        table.columns.iter().enumerate().map(move |(index, column)| {
            let declared = column.declared;
            let collation = declared.collation();
            let of_text = |text: &str| if collation.is_some() { Value::from(text) } else { Value::Null };
            let (length, bytes) = match declared {
                Declared::Text | Declared::Code => (Value::Integer(255), Value::Integer(1020)),
                Declared::LongText | Declared::LongCode => {
                    (Value::Integer(u32::MAX.into()), Value::Integer(u32::MAX.into()))
                }
                _ => (Value::Null, Value::Null),
            };
            let precision = match declared {
                Declared::Integer => Value::Integer(19),
                Declared::Real => Value::Integer(22),
                _ => Value::Null,
            };
            let scale = if declared == Declared::Integer { Value::Integer(0) } else { Value::Null };
            let digits =
                if let Declared::Moment(digits) = declared { Value::Integer(digits.into()) } else { Value::Null };
            let kind = declared.mysql_type();
            let data_type = kind.split('(').next().unwrap_or(kind);
            vec![
                "def".into(),
                table.database().into(),
                shown_name(table).into(),
                column.name.into(),
                Value::Integer(index as i64 + 1),
                Value::Null,
                "YES".into(),
                data_type.into(),
                length,
                bytes,
                precision,
                scale,
                digits,
                of_text("utf8mb4"),
                of_text(collation.unwrap_or_default()),
                kind.into(),
                "".into(),
                "".into(),
                "select".into(),
                column.comment.into(),
                "".into(),
                Value::Null,
            ]
        })
    });
    Ok(rows.collect())
}

pub(super) fn character_sets(_statement: &StatementContext, _parameters: &[Value]) -> Result<TableRows, SqlError> {
    let row = |(name, collation, description, bytes): &(&str, &str, &str, i64)| {
        vec![(*name).into(), (*collation).into(), (*description).into(), Value::Integer(*bytes)]
    };
    Ok(CHARSETS.iter().map(row).collect())
}

pub(super) fn collations(_statement: &StatementContext, _parameters: &[Value]) -> Result<TableRows, SqlError> {
    let row = |(name, charset, number): &(&str, &str, i64)| {
        let default = if is_default(name) { "Yes" } else { "" };
        vec![
            (*name).into(),
            (*charset).into(),
            Value::Integer(*number),
            default.into(),
            "Yes".into(),
            Value::Integer(1),
            if name.contains("_0900_") { "NO PAD" } else { "PAD SPACE" }.into(),
        ]
    };
    Ok(COLLATIONS.iter().map(row).collect())
}

pub(super) fn collation_character_set_applicability(
    _statement: &StatementContext,
    _parameters: &[Value],
) -> Result<TableRows, SqlError> {
    Ok(COLLATIONS.iter().map(|(name, charset, _)| vec![(*name).into(), (*charset).into()]).collect())
}

pub(super) fn keywords(_statement: &StatementContext, _parameters: &[Value]) -> Result<TableRows, SqlError> {
    let row = |(word, keyword): (&&str, &Keyword)| {
        let is_reserved = RESERVED_FOR_IDENTIFIER.contains(keyword) || RESERVED_FOR_COLUMN_ALIAS.contains(keyword);
        vec![(*word).into(), Value::Integer(is_reserved.into())]
    };
    Ok(ALL_KEYWORDS.iter().zip(ALL_KEYWORDS_INDEX).map(row).collect())
}

pub(super) fn engines(_statement: &StatementContext, _parameters: &[Value]) -> Result<TableRows, SqlError> {
    Ok(vec![ENGINE.map(Value::from).to_vec()])
}

pub(super) fn user_privileges(_statement: &StatementContext, _parameters: &[Value]) -> Result<TableRows, SqlError> {
    Ok(vec![["'%'@'%'", "def", "SELECT", "NO"].map(Value::from).to_vec()])
}

/// MySQL writes the tables of `information_schema` in capitals.
fn shown_name(table: &Table) -> String {
    if table.database() == DATABASE { table.name.to_owned() } else { table.bare_name().to_ascii_uppercase() }
}
