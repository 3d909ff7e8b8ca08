//! The commands of clients: one byte, then the command's own form.

use super::error::{SqlError, SqlErrorKind};
use super::greeting::text;
use super::packet::PacketReader;

/// A command.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Command<'a> {
    Quit,
    UseDatabase(String),
    Query(String),
    /// The columns of a table.
    FieldList(String),
    Statistics,
    ProcessList,
    Kill(u32),
    Ping,
    ChangeUser {
        user: String,
        database: Option<String>,
    },
    ResetConnection,
    /// Several statements in a packet, on or off.
    SetOption,
    Prepare(String),
    /// A prepared statement's number and the rest of the packet.
    Execute(u32, &'a [u8]),
    /// Statement, parameter, bytes; has no answer.
    LongData(u32, u16, &'a [u8]),
    /// Has no answer.
    Close(u32),
    ResetStatement(u32),
}

impl<'a> Command<'a> {
    /// Whether it reads or changes anything beyond the connection itself.
    pub(super) fn needs_rights(&self) -> bool {
        !matches!(
            self,
            Command::Quit
                | Command::Ping
                | Command::SetOption
                | Command::Statistics
                | Command::ChangeUser { .. }
                | Command::ResetConnection
                | Command::ResetStatement(_)
                // These have no answer.
                | Command::LongData(..)
                | Command::Close(_)
        )
    }

    pub(super) fn decode(payload: &'a [u8]) -> Result<Command<'a>, SqlError> {
        let mut reader = PacketReader::new(payload, "the command");
        Ok(match reader.u8()? {
            0x01 => Command::Quit,
            0x02 => Command::UseDatabase(text(reader.rest(), "database name")?),
            0x03 => Command::Query(text(reader.rest(), "statement")?),
            0x04 => Command::FieldList(text(reader.until_nul()?, "table name")?),
            0x09 => Command::Statistics,
            0x0a => Command::ProcessList,
            0x0c => Command::Kill(reader.u32()?),
            // COM_DEBUG has nothing to print here; like a ping it is answered with OK.
            0x0d | 0x0e => Command::Ping,
            0x11 => change_user(reader)?,
            0x16 => Command::Prepare(text(reader.rest(), "statement")?),
            0x17 => Command::Execute(reader.u32()?, reader.rest()),
            0x18 => Command::LongData(reader.u32()?, reader.u16()?, reader.rest()),
            0x19 => Command::Close(reader.u32()?),
            0x1a => Command::ResetStatement(reader.u32()?),
            0x1b => match reader.u16()? {
                0 | 1 => Command::SetOption,
                other => return Err(SqlError::new(SqlErrorKind::UnknownCommand, format!("unknown option {other}"))),
            },
            0x1f => Command::ResetConnection,
            other => return Err(SqlError::new(SqlErrorKind::UnknownCommand, format!("unknown command {other:#04x}"))),
        })
    }
}

/// `user NUL, u8 length, answer, database NUL, …`: a new answer is requested with a fresh nonce.
fn change_user(mut reader: PacketReader<'_>) -> Result<Command<'_>, SqlError> {
    let user = text(reader.until_nul()?, "user name")?;
    let length = reader.u8()?;
    reader.bytes(usize::from(length))?;
    let database = match reader.is_empty() {
        true => None,
        false => Some(text(reader.until_nul()?, "database name")?).filter(|name| !name.is_empty()),
    };
    Ok(Command::ChangeUser { user, database })
}
