//! Whether bytes without any magic are a pprof message: every field known, of the right wire type, and nested messages
//! likewise.
//!
//! Text is distinguished soon: its letters are tags with wire types the message does not have.

use crate::format::Detect;
use crate::format::protobuf::{Fault, FaultKind, Field, Reader, Value};

/// How many plausible nested messages are proof, when the whole is not there.
const PROOF: usize = 4;

pub(super) fn detect(bytes: &[u8]) -> Detect {
    let mut reader = Reader::new(bytes);
    let mut nested = 0usize;
    let mut typed = false;
    loop {
        let rest = reader.rest();
        let field = match reader.field() {
            Ok(Some(field)) => field,
            Ok(None) if typed => return Detect::Yes,
            Ok(None) if bytes.is_empty() => return Detect::NeedMore,
            Ok(None) => return Detect::No,
            Err(Fault { kind: FaultKind::Cut(_), .. }) if cut_is_plausible(rest) => {
                return if typed && nested >= PROOF { Detect::Yes } else { Detect::NeedMore };
            }
            Err(_) => return Detect::No,
        };
        if !is_profile_field(&field) {
            return Detect::No;
        }
        nested += usize::from(matches!(field.number, 1..=5 | 11));
        typed |= field.number == 1;
        if typed && nested >= PROOF {
            return Detect::Yes;
        }
    }
}

/// Whether a field that is cut off begins with a tag of `Profile`.
fn cut_is_plausible(rest: &[u8]) -> bool {
    let Some(tag) = rest.first() else { return true };
    match (tag >> 3, tag & 7) {
        (1..=6 | 11 | 13, 2) | (7..=10 | 12..=15, 0) => true,
        (number, _) => *tag >= 0x80 && number >= 16,
    }
}

fn is_profile_field(field: &Field<'_>) -> bool {
    match (field.number, field.value) {
        (1 | 11, Value::Bytes(message)) => {
            all(message, |field| matches!((field.number, field.value), (1 | 2, Value::Varint(_))))
        }
        (2, Value::Bytes(message)) => all(message, is_sample_field),
        (3, Value::Bytes(message)) => {
            all(message, |field| matches!((field.number, field.value), (1..=10, Value::Varint(_))))
        }
        (4, Value::Bytes(message)) => all(message, is_location_field),
        (5, Value::Bytes(message)) => {
            all(message, |field| matches!((field.number, field.value), (1..=5, Value::Varint(_))))
        }
        (6 | 13, Value::Bytes(_)) => true,
        (7..=10 | 12..=15, Value::Varint(_)) => true,
        (number, _) => number >= 1000,
    }
}

fn is_sample_field(field: &Field<'_>) -> bool {
    match (field.number, field.value) {
        (1 | 2, Value::Varint(_) | Value::Bytes(_)) => true,
        (3, Value::Bytes(label)) => {
            all(label, |field| matches!((field.number, field.value), (1..=4, Value::Varint(_))))
        }
        (number, _) => number >= 1000,
    }
}

fn is_location_field(field: &Field<'_>) -> bool {
    match (field.number, field.value) {
        (1..=3 | 5, Value::Varint(_)) => true,
        (4, Value::Bytes(line)) => all(line, |field| matches!((field.number, field.value), (1..=3, Value::Varint(_)))),
        (number, _) => number >= 1000,
    }
}

fn all(mut message: Reader<'_>, plausible: impl Fn(&Field<'_>) -> bool) -> bool {
    loop {
        match message.field() {
            Ok(Some(field)) if plausible(&field) => {}
            Ok(None) => return true,
            _ => return false,
        }
    }
}
