//! Prepared statements of one connection, and the binary form of their parameters.
//!
//! ```text
//! execute   u8 flags, u32 1, [NULL bits, u8 1, (u8 type, u8 80 if unsigned) each | 0, values]
//! prepared  00, u32 number, u16 columns, u16 parameters, 00, u16 warnings, [parameters, EOF], [columns, EOF]
//! ```

use std::collections::HashMap;

use super::column::{Column, Value};
use super::error::{SqlError, SqlErrorKind};
use super::packet::PacketReader;
use super::response::{ResponseStyle, put_columns};
use super::service::Prepared;
use super::wire::Wire;

/// Prepared statements a connection may hold.
const STATEMENTS_MAX: usize = 256;
/// Bytes of their texts together.
const TEXTS_MAX: usize = 4 << 20;
/// Bytes of values sent in pieces that a connection may hold.
const LONG_MAX: usize = 4 << 20;

/// One of them.
struct PreparedStatement {
    text: String,
    parameters: usize,
    /// Types of the last execution, for one that does not repeat them.
    types: Vec<[u8; 2]>,
    /// Values sent in pieces.
    long: HashMap<u16, Vec<u8>>,
}

/// Those of a connection.
#[derive(Default)]
pub(super) struct Statements {
    next: u32,
    by_number: HashMap<u32, PreparedStatement>,
}

fn unknown(number: u32) -> SqlError {
    SqlError::new(SqlErrorKind::UnknownStatement, format!("unknown prepared statement {number}"))
}

impl Statements {
    /// Keeps a statement and puts the answer.
    pub(super) fn keep(
        &mut self,
        wire: &mut Wire,
        style: ResponseStyle,
        schema: &str,
        text: String,
        prepared: &Prepared,
    ) -> Result<(), SqlError> {
        let limit = |what: &str| SqlError::new(SqlErrorKind::Limit, format!("{what}; close some"));
        if self.by_number.len() >= STATEMENTS_MAX {
            return Err(limit(&format!("{STATEMENTS_MAX} prepared statements are open on this connection")));
        }
        let texts: usize = self.by_number.values().map(|statement| statement.text.len()).sum();
        if texts + text.len() > TEXTS_MAX {
            return Err(limit(&format!("the prepared statements of this connection exceed {TEXTS_MAX} bytes")));
        }
        let parameters =
            u16::try_from(prepared.parameters).map_err(|_| limit("a statement has at most 65535 parameters"))?;
        self.next = self.next.wrapping_add(1);
        let number = self.next;
        self.by_number.insert(
            number,
            PreparedStatement { text, parameters: prepared.parameters, types: Vec::new(), long: HashMap::new() },
        );
        wire.put(|out| {
            out.push(0);
            out.extend_from_slice(&number.to_le_bytes());
            out.extend_from_slice(&(prepared.columns.len() as u16).to_le_bytes());
            out.extend_from_slice(&parameters.to_le_bytes());
            out.extend_from_slice(&[0, 0, 0]);
        });
        if parameters > 0 {
            put_columns(wire, style, &vec![Column::text("?"); prepared.parameters], schema);
        }
        if !prepared.columns.is_empty() {
            put_columns(wire, style, &prepared.columns, schema);
        }
        Ok(())
    }

    /// One statement that is there already, number 1.
    pub(super) fn holding(text: &str, parameters: usize) -> Statements {
        let statement =
            PreparedStatement { text: text.to_owned(), parameters, types: Vec::new(), long: HashMap::new() };
        Statements { next: 1, by_number: HashMap::from([(1, statement)]) }
    }

    /// The text and parameters of an execution.
    pub(super) fn execution(&mut self, number: u32, rest: &[u8]) -> Result<(String, Vec<Value>), SqlError> {
        let is_over = self.long_bytes() > LONG_MAX;
        let statement = self.by_number.get_mut(&number).ok_or_else(|| unknown(number))?;
        if is_over && !statement.long.is_empty() {
            statement.long.clear();
            let text = format!("the values sent in pieces exceed {LONG_MAX} bytes on this connection");
            return Err(SqlError::new(SqlErrorKind::PacketTooLarge, text));
        }
        let mut reader = PacketReader::new(rest, "the execution of a prepared statement");
        reader.bytes(5)?;
        let values = statement.values(&mut reader);
        statement.long.clear();
        Ok((statement.text.clone(), values?))
    }

    /// A piece of a value; errors wait for the execution, since there is no answer to this.
    pub(super) fn long_data(&mut self, number: u32, parameter: u16, bytes: &[u8]) {
        // One byte over the limit is kept, so that the execution sees it.
        let room = (LONG_MAX + 1).saturating_sub(self.long_bytes()).min(bytes.len());
        let Some(statement) = self.by_number.get_mut(&number) else { return };
        if usize::from(parameter) < statement.parameters {
            statement.long.entry(parameter).or_default().extend_from_slice(&bytes[..room]);
        }
    }

    /// Bytes of all values sent in pieces.
    fn long_bytes(&self) -> usize {
        self.by_number.values().flat_map(|statement| statement.long.values()).map(Vec::len).sum()
    }

    pub(super) fn close(&mut self, number: u32) {
        self.by_number.remove(&number);
    }

    pub(super) fn reset(&mut self, number: u32) -> Result<(), SqlError> {
        self.by_number.get_mut(&number).ok_or_else(|| unknown(number))?.long.clear();
        Ok(())
    }
}

impl PreparedStatement {
    fn values(&mut self, reader: &mut PacketReader<'_>) -> Result<Vec<Value>, SqlError> {
        if self.parameters == 0 {
            return Ok(Vec::new());
        }
        let nulls = reader.bytes(self.parameters.div_ceil(8))?;
        if reader.u8()? == 1 {
            let types = reader.bytes(self.parameters * 2)?;
            self.types = types.chunks_exact(2).map(|pair| [pair[0], pair[1]]).collect();
        }
        if self.types.len() != self.parameters {
            return Err(SqlError::new(SqlErrorKind::WrongArguments, "the parameters have no types"));
        }
        let mut values = Vec::with_capacity(self.parameters);
        for (index, kind) in self.types.iter().enumerate() {
            let long = u16::try_from(index).ok().and_then(|index| self.long.get(&index));
            values.push(match long {
                Some(bytes) => bytes_value(bytes),
                None if nulls[index / 8] >> (index % 8) & 1 == 1 => Value::Null,
                None => value(*kind, reader)?,
            });
        }
        Ok(values)
    }
}

/// A value of the given type.
fn value([kind, flags]: [u8; 2], reader: &mut PacketReader<'_>) -> Result<Value, SqlError> {
    let unsigned = flags & 0x80 != 0;
    Ok(match kind {
        0x01 => Value::Integer(if unsigned { reader.u8()?.into() } else { (reader.u8()? as i8).into() }),
        0x02 | 0x0d => Value::Integer(if unsigned { reader.u16()?.into() } else { (reader.u16()? as i16).into() }),
        0x03 | 0x09 => Value::Integer(if unsigned { reader.u32()?.into() } else { (reader.u32()? as i32).into() }),
        0x08 => {
            let bits = reader.u64()?;
            match i64::try_from(bits) {
                Err(_) if unsigned => {
                    return Err(SqlError::new(SqlErrorKind::WrongArguments, format!("{bits} is above {}", i64::MAX)));
                }
                _ => Value::Integer(bits as i64),
            }
        }
        0x04 => Value::Real(f32::from_bits(reader.u32()?).into()),
        0x05 => Value::Real(f64::from_bits(reader.u64()?)),
        0x06 => Value::Null,
        0x07 | 0x0a | 0x0c => Value::Text(date(reader)?),
        0x0b => Value::Text(time(reader)?),
        0x00 | 0x0f | 0x10 | 0xf5..=0xff => bytes_value(reader.string()?),
        other => {
            return Err(SqlError::new(
                SqlErrorKind::WrongArguments,
                format!("parameters of type {other:#04x} are not taken"),
            ));
        }
    })
}

/// Bytes are text if they are UTF-8, whatever type the client declares: some send strings as blobs.
fn bytes_value(bytes: &[u8]) -> Value {
    match std::str::from_utf8(bytes) {
        Ok(text) => Value::Text(text.to_owned()),
        Err(_) => Value::Blob(bytes.to_vec()),
    }
}

/// `u8 length, [u16 year, u8 month, u8 day, [u8 hour, u8 minute, u8 second, [u32 microseconds]]]`.
fn date(reader: &mut PacketReader<'_>) -> Result<String, SqlError> {
    let length = reader.u8()?;
    let mut inner = PacketReader::new(reader.bytes(usize::from(length))?, "a date");
    if length == 0 {
        return Ok("0000-00-00".to_owned());
    }
    let mut text = format!("{:04}-{:02}-{:02}", inner.u16()?, inner.u8()?, inner.u8()?);
    if length >= 7 {
        text += &format!(" {:02}:{:02}:{:02}", inner.u8()?, inner.u8()?, inner.u8()?);
    }
    if length >= 11 {
        text += &format!(".{:06}", inner.u32()?);
    }
    Ok(text)
}

/// `u8 length, [u8 negative, u32 days, u8 hours, u8 minutes, u8 seconds, [u32 microseconds]]`.
fn time(reader: &mut PacketReader<'_>) -> Result<String, SqlError> {
    let length = reader.u8()?;
    let mut inner = PacketReader::new(reader.bytes(usize::from(length))?, "a time");
    if length == 0 {
        return Ok("00:00:00".to_owned());
    }
    let (negative, days, hours) = (inner.u8()? == 1, inner.u32()?, inner.u8()?);
    let hours = u64::from(days) * 24 + u64::from(hours);
    let mut text = format!("{}{hours:02}:{:02}:{:02}", if negative { "-" } else { "" }, inner.u8()?, inner.u8()?);
    if length >= 12 {
        text += &format!(".{:06}", inner.u32()?);
    }
    Ok(text)
}
