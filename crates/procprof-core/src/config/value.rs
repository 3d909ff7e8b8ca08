//! A parsed TOML document in the few shapes the key tables need, each entry with its line; and what values mean.

use toml::de::{DeTable, DeValue};

use super::keys::KEYS;
use super::nearest::hint;
use crate::error::{self, Error};

/// A value as written.
#[derive(Clone, Debug, PartialEq)]
pub enum Value {
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
pub struct ConfigEntry {
    /// The key as written.
    pub key: String,
    /// Its value.
    pub value: Value,
    /// Line, from 1.
    pub line: usize,
}

impl Value {
    /// The type of the value, for error messages.
    pub fn kind(&self) -> &'static str {
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
#[derive(Clone, Debug)]
pub struct ConfigFile {
    file: String,
    entries: Vec<ConfigEntry>,
}

impl ConfigFile {
    /// Parses the text of a file; `file` is its name in errors.
    ///
    /// # Errors
    /// [`Error::Toml`] with the line.
    pub fn parse(text: &str, file: &str) -> error::Result<ConfigFile> {
        let table = DeTable::parse(text).map_err(|error| {
            let line = error.span().map_or(1, |span| line_of(text, span.start));
            let quoted = text.lines().nth(line - 1).and_then(quoted);
            let hint = quoted.map(|quoted| format!("; text needs quotes: {quoted}")).unwrap_or_default();
            Error::Toml { place: format!("{file}:{line}"), why: error.message().trim().to_owned() + &hint }
        })?;
        let entries = entries(text, table.get_ref())
            .map_err(|(line, why)| Error::Toml { place: format!("{file}:{line}"), why })?;
        Ok(ConfigFile { file: file.to_owned(), entries })
    }

    /// Its entries, in order of lines.
    pub fn entries(&self) -> &[ConfigEntry] {
        &self.entries
    }

    /// The error for an entry with an unknown key.
    pub fn unknown<'a>(&self, entry: &ConfigEntry, known: impl Iterator<Item = &'a str>) -> Error {
        self.unknown_with(entry, hint(&entry.key, known))
    }

    /// The same for a key of a `[[TABLE]]`, in which keys of the top level stand when they are written below it.
    pub(crate) fn unknown_in<'a>(
        &self,
        table: &str,
        entry: &ConfigEntry,
        known: impl Iterator<Item = &'a str>,
    ) -> Error {
        match KEYS.iter().any(|key| key.name == entry.key) {
            true => self.unknown_with(
                entry,
                Some(format!("it is a key of the top level and belongs above the first [[{table}]]")),
            ),
            false => self.unknown(entry, known),
        }
    }

    fn unknown_with(&self, entry: &ConfigEntry, hint: Option<String>) -> Error {
        Error::UnknownKey { place: self.place(entry), key: entry.key.clone(), hint }
    }

    /// The error for an entry whose key refuses its value.
    pub fn wrong(&self, entry: &ConfigEntry, why: String) -> Error {
        Error::WrongValue { place: self.place(entry), key: entry.key.clone(), why }
    }

    /// File and line of an entry.
    pub fn place(&self, entry: &ConfigEntry) -> String {
        format!("{}:{}", self.file, entry.line)
    }
}

/// `true` or `false`, also as text.
///
/// # Errors
/// What was expected.
pub fn boolean(value: &Value) -> Result<bool, String> {
    match value {
        Value::Bool(truth) => Ok(*truth),
        Value::Text(text) if text.eq_ignore_ascii_case("true") => Ok(true),
        Value::Text(text) if text.eq_ignore_ascii_case("false") => Ok(false),
        other => Err(format!("expected true or false, got {}", other.kind())),
    }
}

/// A whole number within bounds, also as text.
///
/// # Errors
/// What was expected.
pub fn count(value: &Value, low: u64, high: u64) -> Result<u64, String> {
    let number = match value {
        Value::Integer(number) => u64::try_from(*number).ok(),
        Value::Text(text) => text.trim().parse().ok(),
        _ => None,
    };
    match number {
        Some(number) if (low..=high).contains(&number) => Ok(number),
        _ => Err(format!("expected a whole number from {low} to {high}")),
    }
}

/// Bytes: a number, or text such as `"2 GiB"`.
///
/// # Errors
/// What was expected.
pub fn byte_count(value: &Value) -> Result<u64, String> {
    let wrong = || "expected bytes, such as 1048576 or \"2 GiB\"".to_owned();
    let text = match value {
        Value::Integer(number) => return u64::try_from(*number).map_err(|_| wrong()),
        Value::Text(text) => text.trim(),
        _ => return Err(wrong()),
    };
    let digits = text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
    let number: u64 = text[..digits].parse().map_err(|_| wrong())?;
    let unit = match text[digits..].trim() {
        "" | "B" => 1,
        "KiB" => 1 << 10,
        "MiB" => 1 << 20,
        "GiB" => 1 << 30,
        "TiB" => 1 << 40,
        _ => return Err(wrong()),
    };
    number.checked_mul(unit).ok_or_else(wrong)
}

/// Text in quotes.
///
/// # Errors
/// What was expected.
pub fn text(value: &Value) -> Result<String, String> {
    match value {
        Value::Text(text) => Ok(text.clone()),
        other => Err(format!("expected text in quotes, got {}", other.kind())),
    }
}

/// A list of texts; one text with commas where lists cannot be written.
///
/// # Errors
/// What was expected.
pub fn texts(value: &Value) -> Result<Vec<String>, String> {
    match value {
        Value::List(items) => items.iter().map(text).collect(),
        Value::Text(text) => {
            Ok(text.split(',').map(str::trim).filter(|part| !part.is_empty()).map(str::to_owned).collect())
        }
        other => Err(format!("expected a list of texts, got {}", other.kind())),
    }
}

/// A line that is no TOML with quotes around its value, if they make it right.
fn quoted(line: &str) -> Option<String> {
    let (key, value) = line.split_once('=')?;
    let value = value.split('#').next().unwrap_or_default().trim();
    if value.is_empty() || value.contains(['"', '\'', '[', '{', '\\']) || DeTable::parse(line).is_ok() {
        return None;
    }
    let quoted = format!("{} = \"{value}\"", key.trim());
    DeTable::parse(&quoted).is_ok().then_some(quoted)
}

fn line_of(text: &str, offset: usize) -> usize {
    1 + text.as_bytes().iter().take(offset).filter(|byte| **byte == b'\n').count()
}

type Misplaced = (usize, String);

fn entries(text: &str, table: &DeTable<'_>) -> Result<Vec<ConfigEntry>, Misplaced> {
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

fn convert(text: &str, line: usize, value: &DeValue<'_>) -> Result<Value, Misplaced> {
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
            Value::List(items.collect::<Result<_, _>>()?)
        }
        DeValue::Table(table) => Value::Table(entries(text, table)?),
    })
}
