//! A bounded reader and a writer for the protobuf wire format, as far as pprof needs it.
//!
//! A message is a sequence of fields, each a varint tag (`number << 3 | wire type`) and a value. The reader borrows its
//! input, allocates nothing, and rejects groups (wire types 3 and 4), field number 0, and varints past ten bytes. See
//! <https://protobuf.dev/programming-guides/encoding/>.
//!
//! ```text
//! 0a 04 08 01 10 02   field 1, 4 bytes: field 1 = 1, field 2 = 2
//! ```

use std::cell::RefCell;

/// Most unknown fields that are told apart.
const UNKNOWN_MAX: usize = 16;

/// Why bytes are not a message, and where.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Fault {
    /// Offset into the whole input.
    pub(crate) offset: usize,
    pub(crate) kind: FaultKind,
}

/// Why bytes are not a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum FaultKind {
    /// The input ends inside this.
    Cut(&'static str),
    /// This is wrong.
    Wrong(&'static str),
}

type Result<T> = std::result::Result<T, Fault>;

/// The value of a field.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Value<'a> {
    /// Wire type 0.
    Varint(u64),
    /// Wire types 1 and 5; pprof has no such fields.
    Fixed(u64),
    /// Wire type 2.
    Bytes(Reader<'a>),
}

/// One field of a message.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Field<'a> {
    pub(crate) number: u32,
    pub(crate) value: Value<'a>,
    /// Offset of the field's tag in the whole input.
    pub(crate) offset: usize,
}

impl<'a> Field<'a> {
    /// The message or string in it.
    #[inline]
    pub(crate) fn bytes(&self) -> Result<Reader<'a>> {
        match self.value {
            Value::Bytes(reader) => Ok(reader),
            _ => Err(self.wrong("wire type: expected a length")),
        }
    }

    /// The number in it.
    #[inline]
    pub(crate) fn varint(&self) -> Result<u64> {
        match self.value {
            Value::Varint(number) => Ok(number),
            _ => Err(self.wrong("wire type: expected a varint")),
        }
    }

    /// The signed number in it.
    #[inline]
    pub(crate) fn int(&self) -> Result<i64> {
        self.varint().map(|number| number as i64)
    }

    /// Hands every number of a repeated field, packed or not, to `each`.
    #[inline]
    pub(crate) fn numbers(&self, mut each: impl FnMut(u64)) -> Result<()> {
        match self.value {
            Value::Varint(number) => each(number),
            Value::Fixed(_) => return Err(self.wrong("wire type: expected varints")),
            Value::Bytes(mut packed) => {
                while !packed.is_at_end() {
                    each(packed.varint()?);
                }
            }
        }
        Ok(())
    }

    /// The fixed number in it.
    pub(crate) fn fixed(&self) -> Result<u64> {
        match self.value {
            Value::Fixed(number) => Ok(number),
            _ => Err(self.wrong("wire type: expected a fixed number")),
        }
    }

    /// How many fixed numbers of 64 bits there are in a repeated field, packed or not.
    pub(crate) fn fixed_count(&self) -> Result<usize> {
        match self.value {
            Value::Fixed(_) => Ok(1),
            Value::Bytes(packed) if packed.rest().len() % 8 == 0 => Ok(packed.rest().len() / 8),
            _ => Err(self.wrong("wire type: expected fixed numbers")),
        }
    }

    /// A fault at this field.
    pub(crate) fn wrong(&self, what: &'static str) -> Fault {
        Fault { offset: self.offset, kind: FaultKind::Wrong(what) }
    }
}

/// Reads one message from the front.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Reader<'a> {
    bytes: &'a [u8],
    position: usize,
    /// Offset of `bytes` in the whole input.
    base: usize,
}

impl<'a> Reader<'a> {
    /// Reads a whole input.
    pub(crate) fn new(bytes: &'a [u8]) -> Reader<'a> {
        Reader { bytes, position: 0, base: 0 }
    }

    /// The next field, or `None` at the end of the message.
    #[inline]
    pub(crate) fn field(&mut self) -> Result<Option<Field<'a>>> {
        if self.is_at_end() {
            return Ok(None);
        }
        let offset = self.offset();
        let tag = self.varint()?;
        let number = match u32::try_from(tag >> 3) {
            Ok(number) if number != 0 && number < 1 << 29 => number,
            _ => return Err(Fault { offset, kind: FaultKind::Wrong("field number out of range") }),
        };
        let value = match tag & 7 {
            0 => Value::Varint(self.varint()?),
            1 => self.fixed(8)?,
            2 => Value::Bytes(self.message()?),
            5 => self.fixed(4)?,
            _ => return Err(Fault { offset, kind: FaultKind::Wrong("wire type not allowed") }),
        };
        Ok(Some(Field { number, value, offset }))
    }

    /// The unread rest.
    pub(crate) fn rest(&self) -> &'a [u8] {
        &self.bytes[self.position..]
    }

    #[inline]
    fn varint(&mut self) -> Result<u64> {
        match self.bytes.get(self.position) {
            Some(byte) if *byte < 0x80 => {
                self.position += 1;
                Ok(u64::from(*byte))
            }
            _ => self.long_varint(),
        }
    }

    fn long_varint(&mut self) -> Result<u64> {
        let mut number = 0u64;
        for (i, byte) in self.bytes[self.position..].iter().take(10).enumerate() {
            number |= u64::from(byte & 0x7f) << (7 * i);
            if *byte < 0x80 {
                self.position += i + 1;
                return if i == 9 && *byte > 1 {
                    Err(self.fault(FaultKind::Wrong("varint past 64 bits")))
                } else {
                    Ok(number)
                };
            }
        }
        let left = self.bytes.len() - self.position;
        Err(self.fault(if left < 10 { FaultKind::Cut("a varint") } else { FaultKind::Wrong("varint past 64 bits") }))
    }

    #[inline]
    fn message(&mut self) -> Result<Reader<'a>> {
        let offset = self.offset();
        let length = self.varint()?;
        let left = self.bytes.len() - self.position;
        let length = match usize::try_from(length) {
            Ok(length) if length <= left => length,
            _ => return Err(Fault { offset, kind: FaultKind::Cut("a field with a length") }),
        };
        let start = self.position;
        self.position += length;
        Ok(Reader { bytes: &self.bytes[start..start + length], position: 0, base: self.base + start })
    }

    fn fixed(&mut self, length: usize) -> Result<Value<'a>> {
        let Some(bytes) = self.rest().get(..length) else {
            return Err(self.fault(FaultKind::Cut("a fixed number")));
        };
        self.position += length;
        Ok(Value::Fixed(bytes.iter().rev().fold(0, |number, byte| number << 8 | u64::from(*byte))))
    }

    #[inline]
    fn is_at_end(&self) -> bool {
        self.position == self.bytes.len()
    }

    /// Offset of the next byte in the whole input.
    #[inline]
    pub(crate) fn offset(&self) -> usize {
        self.base + self.position
    }

    fn fault(&self, kind: FaultKind) -> Fault {
        Fault { offset: self.offset(), kind }
    }
}

/// Fields that a decoder does not know, of formats that grow: counted, and warned about once each.
#[derive(Debug, Default)]
pub(crate) struct UnknownFields {
    all: RefCell<Vec<UnknownField>>,
}

#[derive(Debug)]
struct UnknownField {
    message: &'static str,
    number: u32,
    count: usize,
    /// Offset of the first.
    offset: usize,
}

impl UnknownFields {
    /// Notes a field of a message of that name.
    #[cold]
    pub(crate) fn note(&self, message: &'static str, field: &Field<'_>) {
        let mut all = self.all.borrow_mut();
        let known = all.iter().position(|known| (known.message, known.number) == (message, field.number));
        // Those beyond the limit are one.
        let (message, number) =
            if known.is_none() && all.len() >= UNKNOWN_MAX { ("", 0) } else { (message, field.number) };
        match all.iter_mut().find(|known| (known.message, known.number) == (message, number)) {
            Some(known) => known.count += 1,
            None => all.push(UnknownField { message, number, count: 1, offset: field.offset }),
        }
    }

    pub(crate) fn warn(self, format: &str, warnings: &mut Vec<String>) {
        for UnknownField { message, number, count, offset } in self.all.into_inner() {
            let what =
                if message.is_empty() { "other fields".to_owned() } else { format!("field {number} of {message}") };
            warnings.push(format!("{format}: {what}: unknown and left out, {count}, the first at offset {offset}"));
        }
    }
}

/// Writes one message at the back of a buffer.
#[derive(Debug, Default)]
pub(crate) struct Writer {
    bytes: Vec<u8>,
}

impl Writer {
    /// A writer with room for `capacity` bytes.
    pub(crate) fn with_capacity(capacity: usize) -> Writer {
        Writer { bytes: Vec::with_capacity(capacity) }
    }

    /// Writes a number; nothing when it is 0, the value a missing field has.
    pub(crate) fn number(&mut self, field: u32, number: u64) {
        if number != 0 {
            self.explicit_number(field, number);
        }
    }

    /// Writes a number, 0 too.
    pub(crate) fn explicit_number(&mut self, field: u32, number: u64) {
        self.varint(u64::from(field) << 3);
        self.varint(number);
    }

    /// Writes a number of 64 bits that takes as many in every case.
    pub(crate) fn fixed(&mut self, field: u32, number: u64) {
        self.varint(u64::from(field) << 3 | 1);
        self.bytes.extend_from_slice(&number.to_le_bytes());
    }

    /// Writes text, a message, or packed numbers.
    pub(crate) fn bytes(&mut self, field: u32, bytes: &[u8]) {
        self.varint(u64::from(field) << 3 | 2);
        self.varint(bytes.len() as u64);
        self.bytes.extend_from_slice(bytes);
    }

    /// Writes numbers packed; nothing when there are none.
    pub(crate) fn packed(&mut self, field: u32, numbers: impl Iterator<Item = u64> + Clone) {
        let length: usize = numbers.clone().map(varint_length).sum();
        if length == 0 {
            return;
        }
        self.varint(u64::from(field) << 3 | 2);
        self.varint(length as u64);
        for number in numbers {
            self.varint(number);
        }
    }

    /// Forgets what was written and keeps the room.
    pub(crate) fn clear(&mut self) {
        self.bytes.clear();
    }

    /// The bytes written.
    pub(crate) fn as_bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// The bytes written.
    pub(crate) fn into_bytes(self) -> Vec<u8> {
        self.bytes
    }

    #[inline]
    fn varint(&mut self, mut number: u64) {
        while number >= 0x80 {
            self.bytes.push(number as u8 | 0x80);
            number >>= 7;
        }
        self.bytes.push(number as u8);
    }
}

fn varint_length(number: u64) -> usize {
    (64 - (number | 1).leading_zeros() as usize).div_ceil(7)
}

#[cfg(test)]
mod tests;
