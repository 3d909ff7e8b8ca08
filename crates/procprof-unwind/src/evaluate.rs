//! DWARF expressions in unwind tables, evaluated.
//!
//! Source: DWARF 5, 2.5.1 "General Operations" and 7.7.1 "Operation Encodings". Operations that need more than
//! registers and memory (calls, objects, typed values) have no value.

use crate::reader::Reader;

/// Operations of one expression; more is a loop.
const MAX_OPERATIONS: u32 = 1000;
/// Values on the stack at once.
const MAX_DEPTH: usize = 64;

/// What an expression may refer to.
pub(crate) trait Context {
    /// A register by its DWARF number, if it is known.
    fn register(&self, number: u64) -> Option<u64>;

    /// The word at an address, if it can be read.
    fn read(&mut self, address: u64) -> Option<u64>;
}

/// The value of an expression that begins with `initial` on the stack.
pub(crate) fn evaluate(block: &[u8], initial: Option<u64>, context: &mut impl Context) -> Option<u64> {
    let mut machine = Machine { block, rest: Reader::new(block, 0), stack: Vec::from_iter(initial), context };
    for _ in 0..MAX_OPERATIONS {
        if machine.rest.is_empty() {
            return machine.stack.pop();
        }
        machine.run()?;
    }
    None
}

struct Machine<'a, 'c, C> {
    block: &'a [u8],
    rest: Reader<'a>,
    stack: Vec<u64>,
    context: &'c mut C,
}

impl<C: Context> Machine<'_, '_, C> {
    /// Runs the next operation; `None` if it is unknown, cut short or has no value.
    fn run(&mut self) -> Option<()> {
        let operation = self.rest.u8()?;
        let value = match operation {
            0x03 | 0x0e | 0x0f => self.rest.u64()?,
            0x06 => {
                let address = self.stack.pop()?;
                self.context.read(address)?
            }
            0x08..=0x0d => self.constant(operation)?,
            0x10 => self.rest.unsigned()?,
            0x11 => self.rest.signed()?.cast_unsigned(),
            0x12 => self.pick(0)?,
            0x13 => return self.stack.pop().map(drop),
            0x14 => self.pick(1)?,
            0x15 => {
                let depth = self.rest.u8()?;
                self.pick(depth.into())?
            }
            0x16 => return self.rotate(2),
            0x17 => return self.rotate(3),
            0x19 => self.stack.pop()?.cast_signed().unsigned_abs(),
            0x1f => self.stack.pop()?.wrapping_neg(),
            0x20 => !self.stack.pop()?,
            0x23 => {
                let constant = self.rest.unsigned()?;
                self.stack.pop()?.wrapping_add(constant)
            }
            0x1a..=0x27 | 0x29..=0x2e => {
                let (right, left) = (self.stack.pop()?, self.stack.pop()?);
                binary(operation, left, right)?
            }
            0x28 => {
                let distance = self.rest.u16()?;
                return if self.stack.pop()? != 0 { self.skip(distance) } else { Some(()) };
            }
            0x2f => {
                let distance = self.rest.u16()?;
                return self.skip(distance);
            }
            0x30..=0x4f => u64::from(operation - 0x30),
            0x70..=0x8f => self.register(u64::from(operation - 0x70))?,
            0x92 => {
                let number = self.rest.unsigned()?;
                self.register(number)?
            }
            0x94 => {
                let (bytes, address) = (self.rest.u8()?, self.stack.pop()?);
                let mask = 1_u64.checked_shl(8 * u32::from(bytes)).map_or(u64::MAX, |bit| bit - 1);
                self.context.read(address).filter(|_| (1..=8).contains(&bytes))? & mask
            }
            0x96 => return Some(()),
            _ => return None,
        };
        (self.stack.len() < MAX_DEPTH).then(|| self.stack.push(value))
    }

    /// A constant of one, two or four bytes, unsigned or signed.
    fn constant(&mut self, operation: u8) -> Option<u64> {
        Some(match operation {
            0x08 => self.rest.u8()?.into(),
            0x09 => i64::from(self.rest.u8()?.cast_signed()).cast_unsigned(),
            0x0a => self.rest.u16()?.into(),
            0x0b => i64::from(self.rest.u16()?.cast_signed()).cast_unsigned(),
            0x0c => self.rest.u32()?.into(),
            _ => i64::from(self.rest.u32()?.cast_signed()).cast_unsigned(),
        })
    }

    /// A value under so many others.
    fn pick(&self, depth: usize) -> Option<u64> {
        self.stack.iter().rev().nth(depth).copied()
    }

    /// Moves the top under so many less one.
    fn rotate(&mut self, values: usize) -> Option<()> {
        let start = self.stack.len().checked_sub(values)?;
        self.stack.get_mut(start..)?.rotate_right(1);
        Some(())
    }

    fn register(&mut self, number: u64) -> Option<u64> {
        let offset = self.rest.signed()?;
        Some(self.context.register(number)?.wrapping_add_signed(offset))
    }

    fn skip(&mut self, distance: u16) -> Option<()> {
        let place = self.block.len() - self.rest.bytes().len();
        let place = place.checked_add_signed(distance.cast_signed().into())?;
        self.rest = Reader::new(self.block.get(place..)?, 0);
        Some(())
    }
}

fn binary(operation: u8, left: u64, right: u64) -> Option<u64> {
    let (signed_left, signed_right) = (left.cast_signed(), right.cast_signed());
    let shift = u32::try_from(right).unwrap_or(u32::MAX);
    Some(match operation {
        0x1a => left & right,
        0x1b => signed_left.checked_div(signed_right)?.cast_unsigned(),
        0x1c => left.wrapping_sub(right),
        0x1d => left.checked_rem(right)?,
        0x1e => left.wrapping_mul(right),
        0x21 => left | right,
        0x22 => left.wrapping_add(right),
        0x24 => left.checked_shl(shift).unwrap_or(0),
        0x25 => left.checked_shr(shift).unwrap_or(0),
        0x26 => (signed_left >> shift.min(63)).cast_unsigned(),
        0x27 => left ^ right,
        0x29 => u64::from(left == right),
        0x2a => u64::from(signed_left >= signed_right),
        0x2b => u64::from(signed_left > signed_right),
        0x2c => u64::from(signed_left <= signed_right),
        0x2d => u64::from(signed_left < signed_right),
        0x2e => u64::from(left != right),
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Fixed;

    impl Context for Fixed {
        fn register(&self, number: u64) -> Option<u64> {
            (number < 17).then_some(1000 * number)
        }

        fn read(&mut self, address: u64) -> Option<u64> {
            (address < 1 << 20).then_some(address + 1)
        }
    }

    #[test]
    fn operations_have_their_values() {
        for (block, value) in [
            (&[][..], Some(7)),
            (&[0x77, 0x78, 0x06, 0x23, 0x08], Some(7001)),
            // The rule of a PLT entry, before and behind its push.
            (&[0x77, 8, 0x80, 0, 0x3f, 0x1a, 0x3b, 0x2a, 0x33, 0x24, 0x22], Some(7008)),
            (&[0x77, 8, 0x80, 11, 0x3f, 0x1a, 0x33, 0x2a, 0x33, 0x24, 0x22], Some(7016)),
            (&[0x92, 0x10, 0x00], Some(16_000)),
            (&[0x09, 0xff, 0x19], Some(1)),
            (&[0x0b, 0xfe, 0xff, 0x1f], Some(2)),
            (&[0x0d, 0xff, 0xff, 0xff, 0xff, 0x20], Some(0)),
            (&[0x31, 0x32, 0x33, 0x17, 0x1c], Some((1_u64).wrapping_sub(2))),
            (&[0x31, 0x32, 0x16, 0x1c], Some(1)),
            (&[0x35, 0x32, 0x14, 0x15, 1, 0x22], Some(7)),
            (&[0x3f, 0x94, 2], Some(16)),
            // A branch that is taken, and one that is not.
            (&[0x31, 0x28, 2, 0, 0x08, 5, 0x39], Some(9)),
            (&[0x30, 0x28, 1, 0, 0x35], Some(5)),
            // A loop, what leads outside, divides by zero, is unknown, cut short, or lacks a value.
            (&[0x2f, 0xfd, 0xff], None),
            (&[0x2f, 0xf0, 0xff], None),
            (&[0x30, 0x1b], None),
            (&[0x30, 0x1d], None),
            (&[0xe0], None),
            (&[0x77], None),
            (&[0x13, 0x06], None),
            (&[0x0e, 0, 0, 0, 0, 0, 0, 0, 1, 0x06], None),
            (&[0x8f, 0], None),
        ] {
            assert_eq!(evaluate(block, Some(7), &mut Fixed), value, "{block:x?}");
        }
        assert_eq!(evaluate(&[0x12, 0x2f, 0xfc, 0xff], Some(1), &mut Fixed), None, "the stack is limited");
    }
}
