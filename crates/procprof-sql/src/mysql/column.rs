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
const UNSIGNED: u16 = 32;

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
    /// An unsigned 64-bit integer, as text.
    Unsigned,
    /// A decimal with so many digits behind the point, as text.
    Decimal(u8),
    /// A double shown with so many digits behind the point, as text.
    Fixed(u8),
    /// A date, as text.
    Date,
    /// Date and time with so many digits behind the second, as text.
    DateTime(u8),
    /// A time with so many digits behind the second, as text.
    Time(u8),
}

impl ColumnType {
    /// MySQL's number, charset, greatest display length and flags.
    fn facts(self) -> (u8, u16, u32, u16) {
        let behind_second = |digits: u8| if digits == 0 { 0 } else { u32::from(digits) + 1 };
        match self {
            ColumnType::Unsigned => (8, BINARY, 20, BINARY_FLAG | NUM_FLAG | UNSIGNED),
            ColumnType::Decimal(_) => (246, BINARY, 41, BINARY_FLAG | NUM_FLAG),
            ColumnType::Fixed(_) => (5, BINARY, 22, BINARY_FLAG | NUM_FLAG),
            ColumnType::Date => (10, BINARY, 10, BINARY_FLAG),
            ColumnType::DateTime(digits) => (12, BINARY, 19 + behind_second(digits), BINARY_FLAG),
            ColumnType::Time(digits) => (11, BINARY, 10 + behind_second(digits), BINARY_FLAG),
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
        out.push(match self.column_type {
            ColumnType::Real => 31,
            ColumnType::Decimal(digits)
            | ColumnType::Fixed(digits)
            | ColumnType::DateTime(digits)
            | ColumnType::Time(digits) => digits,
            _ => 0,
        });
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
            (ColumnType::Unsigned, Value::Text(text)) => {
                out.extend_from_slice(&text.parse::<u64>().unwrap_or_default().to_le_bytes());
            }
            (ColumnType::Unsigned, Value::Integer(value)) => out.extend_from_slice(&value.to_le_bytes()),
            (ColumnType::Fixed(_), Value::Text(text)) => {
                out.extend_from_slice(&text.parse::<f64>().unwrap_or_default().to_le_bytes());
            }
            (ColumnType::Date | ColumnType::DateTime(_), Value::Text(text)) => put_moment(text, out),
            (ColumnType::Time(_), Value::Text(text)) => put_time(text, out),
            (_, value) => value.put_text(out),
        }
    }

    /// Whether a column of that type can contain the value.
    pub(super) fn fits(&self, column: ColumnType) -> bool {
        match (column, self) {
            (_, Value::Null) | (ColumnType::Text | ColumnType::Blob, _) => true,
            (ColumnType::Unsigned, Value::Integer(_)) => true,
            (ColumnType::Integer, value) => matches!(value, Value::Integer(_)),
            (ColumnType::Real, value) => matches!(value, Value::Integer(_) | Value::Real(_)),
            (_, value) => matches!(value, Value::Text(_)),
        }
    }
}

/// Numbers in a text.
fn numbers(text: &str) -> Vec<u32> {
    text.split(|character: char| !character.is_ascii_digit())
        .filter(|part| !part.is_empty())
        .map(|part| part.parse().unwrap_or_default())
        .collect()
}

/// Microseconds behind the point of a text.
fn micros(text: &str) -> u32 {
    text.split_once('.').map_or(0, |(_, digits)| format!("{digits:0<6}").parse().unwrap_or_default())
}

/// `u8 length, u16 year, u8 month, u8 day, [u8 hour, u8 minute, u8 second, [u32 microseconds]]`.
fn put_moment(text: &str, out: &mut Vec<u8>) {
    let numbers = numbers(text);
    let micros = micros(text);
    let length = if numbers.len() < 6 {
        4
    } else if micros == 0 {
        7
    } else {
        11
    };
    let number = |at: usize| numbers.get(at).copied().unwrap_or_default();
    out.push(length);
    out.extend_from_slice(&(number(0) as u16).to_le_bytes());
    let parts = if length == 4 { 3 } else { 6 };
    out.extend((1..parts).map(|at| number(at) as u8));
    if length == 11 {
        out.extend_from_slice(&micros.to_le_bytes());
    }
}

/// `u8 length, [u8 negative, u32 days, u8 hours, u8 minutes, u8 seconds, [u32 microseconds]]`.
fn put_time(text: &str, out: &mut Vec<u8>) {
    let numbers = numbers(text);
    let micros = micros(text);
    let number = |at: usize| numbers.get(at).copied().unwrap_or_default();
    out.push(if micros == 0 { 8 } else { 12 });
    out.push(text.starts_with('-').into());
    out.extend_from_slice(&(number(0) / 24).to_le_bytes());
    out.extend([(number(0) % 24) as u8, number(1) as u8, number(2) as u8]);
    if micros > 0 {
        out.extend_from_slice(&micros.to_le_bytes());
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
