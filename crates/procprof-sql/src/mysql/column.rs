//! Columns and values of a result set, in both row forms.
//!
//! ```text
//! column        "def", schema, table, table, name, name (length-encoded), 0c, u16 charset, u32 length, u8 type, u16 flags, u8 decimals, u16 0
//! text row      for each value a length-encoded string, or FB for NULL
//! binary row    00, NULL bits from bit 2 on, then each value in its column's type
//! ```

use super::packet::{put_integer, put_string};

/// utf8mb4_general_ci.
pub(super) const UTF8: u16 = 45;
const BINARY: u16 = 63;
const NOT_NULL: u16 = 1;
const BINARY_FLAG: u16 = 128;
const NUM_FLAG: u16 = 32768;

/// How a column's values are written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ColumnType {
    /// A signed 64-bit integer.
    Integer,
    /// A double.
    Real,
    /// Text in UTF-8.
    Text,
    /// Bytes.
    Blob,
}

impl ColumnType {
    /// MySQL's number, charset and greatest display length.
    fn facts(self) -> (u8, u16, u32, u16) {
        match self {
            ColumnType::Integer => (8, BINARY, 20, BINARY_FLAG | NUM_FLAG),
            ColumnType::Real => (5, BINARY, 22, BINARY_FLAG | NUM_FLAG),
            ColumnType::Text => (253, UTF8, 65_535 * 4, 0),
            ColumnType::Blob => (252, BINARY, u32::MAX, BINARY_FLAG),
        }
    }
}

/// A column of a result set.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Column {
    /// Its name, as shown.
    pub(crate) name: String,
    /// The table it is of; empty for an expression.
    pub(crate) table: String,
    /// How its values are written.
    pub(crate) column_type: ColumnType,
    /// Whether it may be NULL.
    pub(crate) nullable: bool,
}

impl Column {
    /// A nullable column of no table.
    pub(crate) fn new(name: impl Into<String>, column_type: ColumnType) -> Column {
        Column { name: name.into(), table: String::new(), column_type, nullable: true }
    }

    /// A nullable text column of no table.
    pub(crate) fn text(name: impl Into<String>) -> Column {
        Column::new(name, ColumnType::Text)
    }

    pub(super) fn put(&self, out: &mut Vec<u8>, schema: &str) {
        let schema = if self.table.is_empty() { "" } else { schema };
        for text in ["def", schema, &self.table, &self.table, &self.name, &self.name] {
            put_string(out, text.as_bytes());
        }
        let (number, charset, length, flags) = self.column_type.facts();
        out.push(0x0c);
        out.extend_from_slice(&charset.to_le_bytes());
        out.extend_from_slice(&length.to_le_bytes());
        out.push(number);
        out.extend_from_slice(&(flags | if self.nullable { 0 } else { NOT_NULL }).to_le_bytes());
        out.push(if self.column_type == ColumnType::Real { 31 } else { 0 });
        out.extend_from_slice(&[0, 0]);
    }
}

/// A value.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Value {
    /// Nothing.
    Null,
    /// A signed integer.
    Integer(i64),
    /// A double.
    Real(f64),
    /// Text.
    Text(String),
    /// Bytes.
    Blob(Vec<u8>),
}

impl From<&str> for Value {
    fn from(text: &str) -> Value {
        Value::Text(text.to_owned())
    }
}

impl From<String> for Value {
    fn from(text: String) -> Value {
        Value::Text(text)
    }
}

impl From<i64> for Value {
    fn from(value: i64) -> Value {
        Value::Integer(value)
    }
}

impl Value {
    /// Bytes a row takes in memory for this value, about.
    pub(crate) fn weight(&self) -> usize {
        match self {
            Value::Text(text) => 32 + text.len(),
            Value::Blob(bytes) => 32 + bytes.len(),
            _ => 32,
        }
    }

    fn put_text(&self, out: &mut Vec<u8>) {
        match self {
            Value::Null => out.push(0xfb),
            Value::Integer(value) => put_string(out, value.to_string().as_bytes()),
            Value::Real(value) => put_string(out, real(*value).as_bytes()),
            Value::Text(text) => put_string(out, text.as_bytes()),
            Value::Blob(bytes) => put_string(out, bytes),
        }
    }

    fn put_binary(&self, column: ColumnType, out: &mut Vec<u8>) {
        match (column, self) {
            (_, Value::Null) => {}
            (ColumnType::Integer, Value::Integer(value)) => out.extend_from_slice(&value.to_le_bytes()),
            (ColumnType::Real, Value::Real(value)) => out.extend_from_slice(&value.to_le_bytes()),
            (ColumnType::Real, Value::Integer(value)) => out.extend_from_slice(&(*value as f64).to_le_bytes()),
            (_, value) => value.put_text(out),
        }
    }

    /// Whether a column of that type can contain the value.
    pub(super) fn fits(&self, column: ColumnType) -> bool {
        match (column, self) {
            (_, Value::Null) | (ColumnType::Text | ColumnType::Blob, _) => true,
            (ColumnType::Integer, value) => matches!(value, Value::Integer(_)),
            (ColumnType::Real, value) => matches!(value, Value::Integer(_) | Value::Real(_)),
        }
    }
}

/// A double as MySQL prints it: the shortest text that reads back as the same number, whole numbers without a point.
fn real(value: f64) -> String {
    match value.abs() {
        size if size != 0.0 && !(1e-15..1e15).contains(&size) => format!("{value:e}"),
        _ => format!("{value}"),
    }
}

/// The two forms of a row.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Form {
    /// Of `COM_QUERY`.
    Text,
    /// Of `COM_STMT_EXECUTE`.
    Binary,
}

/// Appends a row's payload.
pub(super) fn put_row(out: &mut Vec<u8>, form: Form, columns: &[Column], row: &[Value]) {
    match form {
        Form::Text => row.iter().for_each(|value| value.put_text(out)),
        Form::Binary => {
            out.push(0);
            let nulls = out.len();
            out.resize(nulls + (row.len() + 9) / 8, 0);
            for (index, (value, column)) in row.iter().zip(columns).enumerate() {
                if *value == Value::Null {
                    out[nulls + (index + 2) / 8] |= 1 << ((index + 2) % 8);
                }
                value.put_binary(column.column_type, out);
            }
        }
    }
}

/// Appends the number of columns.
pub(super) fn put_count(out: &mut Vec<u8>, columns: &[Column]) {
    put_integer(out, columns.len() as u64);
}
