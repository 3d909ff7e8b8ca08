//! OK, error and end packets, and whole result sets.
//!
//! ```text
//! OK     00, affected, last id (length-encoded), u16 status, u16 warnings
//! ERR    ff, u16 number, "#", 5 bytes SQL state, text
//! EOF    fe, u16 warnings, u16 status           (with DEPRECATE_EOF: an OK packet that begins with fe)
//! rows   number of columns, columns, [EOF], rows, EOF
//! ```

use super::column::{Column, Form, Value, put_count, put_row};
use super::error::{SqlError, SqlErrorKind};
use super::greeting::{can, status};
use super::packet::put_integer;
use super::service::{Rows, StatementResult, Transaction};
use super::wire::{Broken, Wire};

/// How results are written on a connection.
#[derive(Clone, Copy)]
pub(super) struct ResponseStyle {
    /// The client's capabilities.
    pub(super) capabilities: u32,
    pub(super) form: Form,
    pub(super) transaction: Transaction,
}

impl ResponseStyle {
    fn deprecates_eof(self) -> bool {
        self.capabilities & can::DEPRECATE_EOF != 0
    }

    /// The bits of the connection's status.
    fn status(self) -> u16 {
        let bit = |is_set: bool, bit: u16| if is_set { bit } else { 0 };
        bit(self.transaction.autocommit, status::AUTOCOMMIT) | bit(self.transaction.open, status::IN_TRANSACTION)
    }
}

fn put_ok_body(out: &mut Vec<u8>, style: ResponseStyle, head: u8, affected: u64, warnings: u16) {
    out.push(head);
    put_integer(out, affected);
    put_integer(out, 0);
    out.extend_from_slice(&style.status().to_le_bytes());
    out.extend_from_slice(&warnings.to_le_bytes());
}

/// Puts an OK packet.
pub(super) fn put_ok(wire: &mut Wire, style: ResponseStyle, affected: u64, warnings: u16) {
    wire.put(|out| put_ok_body(out, style, 0, affected, warnings));
}

/// Puts an error packet.
pub(super) fn put_failure(wire: &mut Wire, failure: &SqlError) {
    let (number, state) = failure.kind.code();
    wire.put(|out| {
        out.push(0xff);
        out.extend_from_slice(&number.to_le_bytes());
        out.push(b'#');
        out.extend_from_slice(state.as_bytes());
        out.extend_from_slice(failure.text.as_bytes());
    });
}

/// Puts the end of rows, or of nothing.
pub(super) fn put_end(wire: &mut Wire, style: ResponseStyle, warnings: u16) {
    match style.deprecates_eof() {
        true => wire.put(|out| put_ok_body(out, style, 0xfe, 0, warnings)),
        false => put_eof(wire, style, warnings),
    }
}

fn put_eof(wire: &mut Wire, style: ResponseStyle, warnings: u16) {
    wire.put(|out| {
        out.push(0xfe);
        out.extend_from_slice(&warnings.to_le_bytes());
        out.extend_from_slice(&style.status().to_le_bytes());
    });
}

/// Puts definitions of columns, and an end packet if the client expects one.
pub(super) fn put_columns(wire: &mut Wire, style: ResponseStyle, columns: &[Column], schema: &str) {
    for column in columns {
        wire.put(|out| column.put(out, schema));
    }
    if !style.deprecates_eof() {
        put_eof(wire, style, 0);
    }
}

/// Puts the answer to `COM_FIELD_LIST`: columns with an empty default each, then the end.
pub(super) fn put_fields(wire: &mut Wire, style: ResponseStyle, columns: &[Column], schema: &str) {
    for column in columns {
        wire.put(|out| {
            column.put(out, schema);
            out.push(0xfb);
        });
    }
    put_end(wire, style, 0);
}

/// Sends an answer; the number of rows sent, and the failure that cut them short if one did.
pub(super) async fn send(
    wire: &mut Wire,
    style: ResponseStyle,
    schema: &str,
    answer: StatementResult,
) -> Result<(u64, Result<(), SqlError>), Broken> {
    let (columns, rows, warnings) = match answer {
        StatementResult::Done { affected, warnings } => {
            put_ok(wire, style, affected, warnings);
            wire.send().await?;
            return Ok((0, Ok(())));
        }
        StatementResult::Rows { columns, rows, warnings } => (columns, rows, warnings),
    };
    wire.put(|out| put_count(out, &columns));
    put_columns(wire, style, &columns, schema);
    let mut sent = 0;
    let ended = match rows {
        Rows::Ready(rows) => put_rows(wire, style, &columns, &rows, &mut sent).await?,
        Rows::Stream(mut batches) => loop {
            let batch = tokio::select! {
                batch = batches.recv() => batch,
                () = wire.gone() => return Err(Broken::Gone),
            };
            let ended = match batch {
                None => break Ok(()),
                Some(Err(failure)) => break Err(failure),
                Some(Ok(rows)) => put_rows(wire, style, &columns, &rows, &mut sent).await?,
            };
            if ended.is_err() {
                break ended;
            }
        },
    };
    match &ended {
        Ok(()) => put_end(wire, style, warnings),
        Err(failure) => put_failure(wire, failure),
    }
    wire.send().await?;
    Ok((sent, ended))
}

async fn put_rows(
    wire: &mut Wire,
    style: ResponseStyle,
    columns: &[Column],
    rows: &[Vec<Value>],
    sent: &mut u64,
) -> Result<Result<(), SqlError>, Broken> {
    for row in rows {
        if let Some(column) = misfit(columns, row) {
            let text = format!(
                "row {}: the value of column {column:?} is of another type than the rows before; CAST it",
                *sent + 1
            );
            return Ok(Err(SqlError::new(SqlErrorKind::Other, text)));
        }
        wire.put(|out| put_row(out, style.form, columns, row));
        *sent += 1;
        wire.send_much().await?;
    }
    Ok(Ok(()))
}

/// The column whose type does not fit the row's value.
fn misfit<'a>(columns: &'a [Column], row: &[Value]) -> Option<&'a str> {
    let wrong = columns.iter().zip(row).find(|(column, value)| !value.fits(column.column_type));
    wrong.map(|(column, _)| column.name.as_str())
}
