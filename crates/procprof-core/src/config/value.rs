//! A parsed TOML document in the few shapes the key tables need, each entry with its line.

use toml::de::{DeTable, DeValue};

use super::nearest::nearest;
use crate::error::{Error, Result};

/// A value as written.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Value {
    /// `true` or `false`.
    Bool(bool),
    /// A whole number.
    Integer(i64),
    /// Text; also every value of a StarRocks file and of the command line.
    Text(String),
    /// `[...]`.
    List(Vec<Value>),
    /// `{...}` or a `[table]`.
    Table(Vec<ConfigEntry>),
}

/// A key with its value and its place.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct ConfigEntry {
    /// The key as written.
    pub key: String,
    /// Its value.
    pub value: Value,
    /// Line, from 1.
    pub line: usize,
}

impl Value {
    /// The type of the value, for error messages.
    pub(crate) fn kind(&self) -> &'static str {
        match self {
            Value::Bool(_) => "a boolean",
            Value::Integer(_) => "a number",
            Value::Text(_) => "text",
            Value::List(_) => "a list",
            Value::Table(_) => "a table",
        }
    }
}

/// A file: its name for errors, and its entries in order of lines.
pub(crate) struct ConfigFile {
    file: String,
    entries: Vec<ConfigEntry>,
}

impl ConfigFile {
    pub(crate) fn parse(text: &str, file: &str) -> Result<ConfigFile> {
        let table = DeTable::parse(text).map_err(|error| {
            let line = error.span().map_or(1, |span| line_of(text, span.start));
            Error::Toml { place: format!("{file}:{line}"), why: error.message().to_owned() }
        })?;
        let entries = entries(text, table.get_ref())
            .map_err(|(line, why)| Error::Toml { place: format!("{file}:{line}"), why })?;
        Ok(ConfigFile { file: file.to_owned(), entries })
    }

    pub(crate) fn entries(&self) -> &[ConfigEntry] {
        &self.entries
    }

    pub(crate) fn unknown<'a>(&self, entry: &ConfigEntry, known: impl Iterator<Item = &'a str>) -> Error {
        Error::UnknownKey { place: self.place(entry), key: entry.key.clone(), nearest: nearest(&entry.key, known) }
    }

    pub(crate) fn wrong(&self, entry: &ConfigEntry, why: String) -> Error {
        Error::WrongValue { place: self.place(entry), key: entry.key.clone(), why }
    }

    /// File and line of an entry.
    pub(crate) fn place(&self, entry: &ConfigEntry) -> String {
        format!("{}:{}", self.file, entry.line)
    }
}

fn line_of(text: &str, offset: usize) -> usize {
    1 + text.as_bytes().iter().take(offset).filter(|byte| **byte == b'\n').count()
}

type Misplaced = (usize, String);

fn entries(text: &str, table: &DeTable<'_>) -> std::result::Result<Vec<ConfigEntry>, Misplaced> {
    let mut entries = Vec::new();
    for (key, value) in table {
        let line = line_of(text, key.span().start);
        entries.push(ConfigEntry {
            key: key.get_ref().to_string(),
            value: convert(text, line, value.get_ref())?,
            line,
        });
    }
    entries.sort_by_key(|entry| entry.line);
    Ok(entries)
}

fn convert(text: &str, line: usize, value: &DeValue<'_>) -> std::result::Result<Value, Misplaced> {
    Ok(match value {
        DeValue::Boolean(truth) => Value::Bool(*truth),
        DeValue::Integer(number) => match i64::from_str_radix(number.as_str(), number.radix()) {
            Ok(number) => Value::Integer(number),
            Err(_) => return Err((line, "a number beyond 64 bits".to_owned())),
        },
        DeValue::Float(number) => Value::Text(number.as_str().to_owned()),
        DeValue::Datetime(time) => Value::Text(time.to_string()),
        DeValue::String(text) => Value::Text(text.to_string()),
        DeValue::Array(items) => {
            let items = items.iter().map(|item| convert(text, line_of(text, item.span().start), item.get_ref()));
            Value::List(items.collect::<std::result::Result<_, _>>()?)
        }
        DeValue::Table(table) => Value::Table(entries(text, table)?),
    })
}
