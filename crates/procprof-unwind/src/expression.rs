//! The few DWARF expressions that compilers and hand-written assembly use in unwind tables.
//!
//! `breg N offset` · the same and `deref` · then `plus_uconst`, or a small constant and `plus` or `minus` · the PLT's
//! own. Source: DWARF 5, 7.7.1 "Operation Encodings".

use crate::reader::Reader;

/// The value of an expression.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Expression {
    /// `register + offset`.
    Sum(u64, i64),
    /// `[register + offset] + plus`.
    Load(u64, i64, i64),
    /// `sp + 8 + (pc & 15 >= threshold ? 8 : 0)`.
    Plt(u8),
    /// Anything else.
    Other,
}

const DEREF: u8 = 0x06;
const CONST1U: u8 = 0x08;
const MINUS: u8 = 0x1c;
const PLUS: u8 = 0x22;
const PLUS_UCONST: u8 = 0x23;
const LIT0: u8 = 0x30;
const BREG0: u8 = 0x70;
const BREGX: u8 = 0x92;

impl Expression {
    pub(crate) fn parse(bytes: &[u8]) -> Self {
        // breg7 (rsp) 8; breg16 (rip) 0; lit15; and; litN; ge; lit3; shl; plus
        if let [0x77, 8, 0x80, 0, 0x3f, 0x1a, literal @ 0x30..=0x3f, 0x2a, 0x33, 0x24, PLUS] = bytes {
            return Self::Plt(literal - LIT0);
        }
        linear(Reader::new(bytes, 0)).unwrap_or(Self::Other)
    }
}

fn linear(mut reader: Reader<'_>) -> Option<Expression> {
    let register = match reader.u8()? {
        BREGX => reader.unsigned()?,
        operation @ BREG0..=0x8f => u64::from(operation - BREG0),
        _ => return None,
    };
    let offset = reader.signed()?;
    if reader.is_empty() {
        return Some(Expression::Sum(register, offset));
    }
    if reader.u8()? != DEREF {
        return None;
    }
    let plus = if reader.is_empty() { 0 } else { added(&mut reader)? };
    reader.is_empty().then_some(Expression::Load(register, offset, plus))
}

/// A constant and what is done with it.
fn added(reader: &mut Reader<'_>) -> Option<i64> {
    let constant = match reader.u8()? {
        PLUS_UCONST => return i64::try_from(reader.unsigned()?).ok(),
        CONST1U => i64::from(reader.u8()?),
        operation @ LIT0..=0x4f => i64::from(operation - LIT0),
        _ => return None,
    };
    match reader.u8()? {
        PLUS => Some(constant),
        MINUS => Some(-constant),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn known_shapes_are_distinguished_from_others() {
        for (bytes, expression) in [
            (&[0x76, 0x78, 0x06][..], Expression::Load(6, -8, 0)),
            (&[0x77, 0x38, 0x06, 0x23, 0x08], Expression::Load(7, 56, 8)),
            (&[0x77, 0x38, 0x06, 0x38, 0x22], Expression::Load(7, 56, 8)),
            (&[0x77, 0x38, 0x06, 0x08, 0x20, 0x1c], Expression::Load(7, 56, -32)),
            (&[0x76, 0x00], Expression::Sum(6, 0)),
            (&[0x92, 0x06, 0x10], Expression::Sum(6, 16)),
            (&[0x77, 8, 0x80, 0, 0x3f, 0x1a, 0x3b, 0x2a, 0x33, 0x24, 0x22], Expression::Plt(11)),
            (&[0x77, 8, 0x06, 0x06], Expression::Other),
            (&[0x77], Expression::Other),
            (&[], Expression::Other),
        ] {
            assert_eq!(Expression::parse(bytes), expression, "{bytes:x?}");
        }
    }
}
