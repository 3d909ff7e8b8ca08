//! Detects a pprof message, which has no magic: every field that the decoder knows has its wire type, and nested
//! messages likewise. Unknown fields are allowed wherever the decoder passes them over.
//!
//! Text is distinguished soon: its letters are tags with wire types the message does not have, and none of them is a
//! field of a sample type.

use crate::format::Detect;
use crate::format::protobuf::{Fault, FaultKind, Field, Reader, Value};

/// How many plausible nested messages are proof, when the whole is not there.
const PROOF: usize = 4;

/// How a field or a message fits the decoder.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Fit {
    /// It is read; of a message, at least one field, or it is empty.
    Known,
    /// It is passed over.
    Unknown,
    /// It is refused.
    Wrong,
}

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
        let fit = profile_field(&field);
        if fit == Fit::Wrong {
            return Detect::No;
        }
        let is_known = fit == Fit::Known;
        nested += usize::from(is_known && matches!(field.number, 1..=5 | 11));
        typed |= is_known && field.number == 1;
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

fn profile_field(field: &Field<'_>) -> Fit {
    match (field.number, field.value) {
        (1 | 11, Value::Bytes(kind)) => message(kind, |field| numbers(field, 2)),
        (2, Value::Bytes(sample)) => message(sample, sample_field),
        (3, Value::Bytes(mapping)) => message(mapping, |field| numbers(field, 10)),
        (4, Value::Bytes(location)) => message(location, location_field),
        (5, Value::Bytes(function)) => message(function, |field| numbers(field, 5)),
        (6 | 13, Value::Bytes(_)) | (7..=10 | 12..=15 | 1000..=1002, Value::Varint(_)) => Fit::Known,
        (1..=15 | 1000..=1002, _) => Fit::Wrong,
        _ => Fit::Unknown,
    }
}

fn sample_field(field: &Field<'_>) -> Fit {
    match (field.number, field.value) {
        (3, Value::Bytes(label)) => message(label, |field| numbers(field, 4)),
        (1 | 2 | 1000, Value::Varint(_) | Value::Bytes(_)) => Fit::Known,
        (1..=3 | 1000, _) => Fit::Wrong,
        _ => Fit::Unknown,
    }
}

fn location_field(field: &Field<'_>) -> Fit {
    match (field.number, field.value) {
        (4, Value::Bytes(line)) => message(line, |field| numbers(field, 3)),
        (4, _) => Fit::Wrong,
        (1000, Value::Varint(_)) => Fit::Known,
        (1000, _) => Fit::Wrong,
        _ => numbers(field, 5),
    }
}

/// A field of a message whose fields up to `last` are numbers.
fn numbers(field: &Field<'_>, last: u32) -> Fit {
    match field.value {
        _ if field.number > last => Fit::Unknown,
        Value::Varint(_) => Fit::Known,
        Value::Fixed(_) | Value::Bytes(_) => Fit::Wrong,
    }
}

fn message(mut message: Reader<'_>, fit: impl Fn(&Field<'_>) -> Fit) -> Fit {
    let mut all = if message.rest().is_empty() { Fit::Known } else { Fit::Unknown };
    loop {
        let field = match message.field() {
            Ok(Some(field)) => fit(&field),
            Ok(None) => return all,
            Err(_) => return Fit::Wrong,
        };
        match field {
            Fit::Wrong => return Fit::Wrong,
            Fit::Known => all = Fit::Known,
            Fit::Unknown => {}
        }
    }
}
