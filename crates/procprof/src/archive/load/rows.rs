//! Rows of an archive as SQL values and as JSON objects, gathered into [`Piece`]s of bounded size.

use std::borrow::Cow;

use anyhow::{Context, Result, bail, ensure};
use jiff::Timestamp;
use procprof_archive::{Cell, Part, Table};
use serde::Serialize;

use super::tables::{self, Loaded};

/// How rows are written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Format {
    /// An `INSERT` statement. Backslashes escape, which the connection's `sql_mode` must not forbid.
    Insert,
    /// An array of JSON objects.
    Json,
}

/// What bounds a piece and its rows.
#[derive(Clone, Copy, Debug)]
pub(super) struct PieceLimits {
    /// Bytes of a piece; a row that is larger has a piece of its own.
    pub(super) bytes: usize,
    /// Rows of a piece.
    pub(super) rows: u64,
    /// Bytes of a row.
    pub(super) row_bytes: usize,
    /// Bytes of a text in a column.
    pub(super) text_bytes: usize,
}

/// Rows of a table that are sent together.
pub(super) struct Piece {
    format: Format,
    limits: PieceLimits,
    table: Table,
    part: Part,
    date: String,
    columns: Vec<Loaded>,
    /// What the piece begins with.
    head: String,
    text: String,
    row: String,
    rows: u64,
    /// Rows of the table so far.
    all: u64,
}

/// A value of a row in the loaded table.
enum Value<'a> {
    Missing,
    Number(i64),
    Flag(bool),
    Text(Cow<'a, str>),
    Json(String),
}

impl Piece {
    pub(super) fn new(format: Format, limits: PieceLimits, table: Table, part: Part) -> Piece {
        let head = match format {
            Format::Insert => {
                format!("INSERT INTO `{}` ({}) VALUES ", tables::name(table), tables::column_list(table))
            }
            Format::Json => "[".to_owned(),
        };
        let (date, columns) = (part.date(), tables::columns(table));
        let text = head.clone();
        Piece { format, limits, table, part, date, columns, head, text, row: String::new(), rows: 0, all: 0 }
    }

    /// Adds a row, after `send` has taken those before it when they are enough.
    ///
    /// # Errors
    /// A value that the table cannot hold, with table, column and row; those of `send`.
    pub(super) fn add(&mut self, cells: &[Cell<'_>], send: &mut dyn FnMut(&str, u64) -> Result<()>) -> Result<()> {
        let mut row = std::mem::take(&mut self.row);
        row.clear();
        self.write(cells, &mut row)?;
        let is_full = self.rows == self.limits.rows || self.text.len() + row.len() + 2 > self.limits.bytes;
        if self.rows > 0 && is_full {
            self.send(send)?;
        }
        if self.rows > 0 {
            self.text.push(',');
        }
        self.text.push_str(&row);
        self.row = row;
        self.rows += 1;
        self.all += 1;
        Ok(())
    }

    /// Sends the last rows; the number of all rows.
    pub(super) fn finish(mut self, send: &mut dyn FnMut(&str, u64) -> Result<()>) -> Result<u64> {
        if self.rows > 0 {
            self.send(send)?;
        }
        Ok(self.all)
    }

    fn send(&mut self, send: &mut dyn FnMut(&str, u64) -> Result<()>) -> Result<()> {
        if self.format == Format::Json {
            self.text.push(']');
        }
        send(&self.text, self.rows)?;
        self.text.clone_from(&self.head);
        self.rows = 0;
        Ok(())
    }

    fn write(&self, cells: &[Cell<'_>], out: &mut String) -> Result<()> {
        let (open, close) = if self.format == Format::Insert { ('(', ')') } else { ('{', '}') };
        let mut cells = cells.iter();
        let mut longest = ("", 0);
        for (at, column) in self.columns.iter().enumerate() {
            let wrong = || format!("table {}: column {}: row {}", tables::name(self.table), column.name(), self.all);
            let value = match column {
                Loaded::Part => Value::Number(*self.part.ids().start()),
                Loaded::PartRow => Value::Number(i64::try_from(self.all)?),
                Loaded::Date => Value::Text(Cow::Borrowed(&self.date)),
                Loaded::Archived(_) => {
                    let cell = cells.next().context("a row without all of its cells")?;
                    value(cell, self.limits.text_bytes).with_context(wrong)?
                }
            };
            let before = out.len();
            out.push(if at == 0 { open } else { ',' });
            match self.format {
                Format::Insert => push_literal(out, &value),
                Format::Json => {
                    push_json(out, column.name())?;
                    out.push(':');
                    push_json_value(out, &value)?;
                }
            }
            if out.len() - before > longest.1 {
                longest = (column.name(), out.len() - before);
            }
        }
        out.push(close);
        let limit = self.limits.row_bytes.saturating_sub(self.head.len() + 1);
        ensure!(
            out.len() <= limit,
            "table {}: column {}: row {}: the row has {} bytes as it is sent; the server takes {limit}",
            tables::name(self.table),
            longest.0,
            self.all,
            out.len(),
        );
        Ok(())
    }
}

fn value<'a>(cell: &'a Cell<'_>, text_bytes: usize) -> Result<Value<'a>> {
    Ok(match cell {
        Cell::Missing => Value::Missing,
        Cell::Text(text) => {
            let bytes = text.len();
            ensure!(bytes <= text_bytes, "a text of {bytes} bytes; the column takes {text_bytes}");
            Value::Text(Cow::Borrowed(*text))
        }
        Cell::Integer(number) => Value::Number(*number),
        Cell::Flag(flag) => Value::Flag(*flag),
        Cell::Moment(micros) => Value::Text(Cow::Owned(moment(*micros)?)),
        Cell::Texts(entries) => Value::Json(map(entries)?),
        Cell::Integers(entries) => Value::Json(map(entries)?),
    })
}

/// A moment of UTC as SQL writes it.
fn moment(micros: i64) -> Result<String> {
    let Ok(moment) = Timestamp::from_microsecond(micros) else { bail!("{micros} µs since 1970 is no time") };
    let text = moment.strftime("%Y-%m-%d %H:%M:%S%.6f").to_string();
    // Of other years some engines have no times.
    let year = text.split('-').next().and_then(|year| year.parse::<u16>().ok());
    ensure!(year.is_some_and(|year| (1000..10_000).contains(&year)), "{moment} is in none of the years 1000 to 9999");
    Ok(text)
}

/// The entries as a JSON object, in their order.
fn map<V: Serialize>(entries: &[(String, V)]) -> Result<String> {
    let mut text = "{".to_owned();
    for (at, (key, value)) in entries.iter().enumerate() {
        if at > 0 {
            text.push(',');
        }
        push_json(&mut text, key.as_str())?;
        text.push(':');
        push_json(&mut text, value)?;
    }
    text.push('}');
    Ok(text)
}

fn push_json(out: &mut String, value: impl Serialize) -> Result<()> {
    out.push_str(&serde_json::to_string(&value)?);
    Ok(())
}

fn push_json_value(out: &mut String, value: &Value<'_>) -> Result<()> {
    match value {
        Value::Missing => out.push_str("null"),
        Value::Number(number) => out.push_str(&number.to_string()),
        Value::Flag(flag) => out.push_str(if *flag { "true" } else { "false" }),
        Value::Text(text) => push_json(out, text)?,
        Value::Json(text) => out.push_str(text),
    }
    Ok(())
}

fn push_literal(out: &mut String, value: &Value<'_>) {
    match value {
        Value::Missing => out.push_str("NULL"),
        Value::Number(number) => out.push_str(&number.to_string()),
        Value::Flag(flag) => out.push(if *flag { '1' } else { '0' }),
        Value::Text(text) => push_quoted(out, text),
        Value::Json(text) => push_quoted(out, text),
    }
}

/// A text in quotes, for a `sql_mode` without `NO_BACKSLASH_ESCAPES`.
fn push_quoted(out: &mut String, text: &str) {
    out.push('\'');
    let mut rest = text;
    while let Some(at) = rest.find(['\'', '\\', '\0', '\n', '\r', '\x1a']) {
        out.push_str(&rest[..at]);
        out.push_str(match rest.as_bytes()[at] {
            b'\'' => "\\'",
            b'\\' => "\\\\",
            0 => "\\0",
            b'\n' => "\\n",
            b'\r' => "\\r",
            _ => "\\Z",
        });
        rest = &rest[at + 1..];
    }
    out.push_str(rest);
    out.push('\'');
}

#[cfg(test)]
mod tests {
    use procprof_archive::{Hour, Writer};

    use super::*;

    const LIMITS: PieceLimits = PieceLimits { bytes: 1 << 20, rows: 1000, row_bytes: 1 << 20, text_bytes: 1000 };

    fn label<'a>(key: &'a str, text: &'a str) -> [Cell<'a>; 5] {
        [Cell::Integer(-7), Cell::Text(key), Cell::Text(text), Cell::Missing, Cell::Text("")]
    }

    /// The pieces of rows of the table of labels.
    fn pieces(format: Format, limits: PieceLimits, rows: &[[Cell<'_>; 5]]) -> Result<Vec<(String, u64)>> {
        let part = Part::of_hour(Hour(489_910), Writer(1), 0);
        let mut piece = Piece::new(format, limits, Table::Labels, part);
        let mut sent = Vec::new();
        let mut send = |text: &str, rows: u64| {
            sent.push((text.replace(&part.ids().start().to_string(), "FIRST"), rows));
            Ok(())
        };
        for row in rows {
            piece.add(row, &mut send)?;
        }
        assert_eq!(piece.finish(&mut send)?, rows.len() as u64);
        Ok(sent)
    }

    #[test]
    fn values_are_written_as_sql_and_json() {
        let rows = [label("it's", "a\\b\0\n\r\x1a\"😀"), label("", "x")];
        let sent = pieces(Format::Insert, LIMITS, &rows).unwrap();
        let expected = "INSERT INTO `archive_labels` (`part`, `part_row`, `labels`, `key`, `text`, `number`, `unit`, \
                        `date`) VALUES (FIRST,0,-7,'it\\'s','a\\\\b\\0\\n\\r\\Z\"😀',NULL,'','2025-11-20'),\
                        (FIRST,1,-7,'','x',NULL,'','2025-11-20')";
        assert_eq!(sent, [(expected.to_owned(), 2)]);
        let sent = pieces(Format::Json, LIMITS, &rows[..1]).unwrap();
        let expected = "[{\"part\":FIRST,\"part_row\":0,\"labels\":-7,\"key\":\"it's\",\
                        \"text\":\"a\\\\b\\u0000\\n\\r\\u001a\\\"😀\",\"number\":null,\"unit\":\"\",\
                        \"date\":\"2025-11-20\"}]";
        assert_eq!(sent, [(expected.to_owned(), 1)]);
    }

    #[test]
    fn pieces_are_bounded_by_bytes_and_rows() {
        let rows = [label("a", "b"), label("a", "b"), label("a", "b")];
        let sizes = |limits: PieceLimits| {
            let sent = pieces(Format::Insert, limits, &rows).unwrap();
            sent.iter().map(|(_, rows)| *rows).collect::<Vec<_>>()
        };
        assert_eq!(sizes(LIMITS), [3]);
        assert_eq!(sizes(PieceLimits { rows: 2, ..LIMITS }), [2, 1]);
        assert_eq!(sizes(PieceLimits { bytes: 1, ..LIMITS }), [1, 1, 1]);
    }

    #[test]
    fn what_does_not_fit_is_named() {
        let long = "x".repeat(1001);
        let rows = [label("a", "b"), label("a", &long)];
        let error = |limits: PieceLimits| format!("{:#}", pieces(Format::Insert, limits, &rows).unwrap_err());
        assert_eq!(
            error(LIMITS),
            "table archive_labels: column text: row 1: a text of 1001 bytes; the column takes 1000"
        );
        let small = PieceLimits { row_bytes: 900, text_bytes: 2000, ..LIMITS };
        let text = error(small);
        assert!(text.starts_with("table archive_labels: column text: row 1: the row has 1"), "{text}");
        for micros in [i64::MAX, i64::MIN, 253_402_300_800_000_000] {
            moment(micros).unwrap_err();
        }
        assert_eq!(moment(-1).unwrap(), "1969-12-31 23:59:59.999999");
        assert_eq!(moment(0).unwrap(), "1970-01-01 00:00:00.000000");
    }
}
