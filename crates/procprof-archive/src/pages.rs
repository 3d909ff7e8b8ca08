//! The headers of a column's pages, which tell how much memory their content takes before it is unpacked.
//!
//! A page is a Thrift struct in the compact protocol, followed by its content
//! (<https://github.com/apache/parquet-format/blob/master/src/main/thrift/parquet.thrift>):
//!
//! ```text
//! PageHeader  1 type i32  2 uncompressed_page_size i32  3 compressed_page_size i32  4 crc i32  5.. headers by type
//! ```
//! The compact protocol writes a field as a byte (difference of the ids << 4 | type) and its value, numbers as zigzag
//! varints, and ends a struct by 0. For example, a data page of 24 bytes, 28 when compressed:
//!
//! ```text
//! 15 00  15 30  15 38  2c 15 08 15 00 15 06 15 06 00 00
//! ```

/// Structs within structs, at most; a page header has three.
const DEPTH: usize = 8;

/// Checks that no page of a column takes more than `page_max` bytes unpacked.
pub(crate) fn check(chunk: &[u8], page_max: u64) -> Result<(), String> {
    let mut at = 0;
    while at < chunk.len() {
        let mut reader = Compact { bytes: chunk, at };
        let (unpacked, packed) = page(&mut reader).ok_or_else(|| format!("page header at {at} is malformed"))?;
        if unpacked > page_max {
            return Err(format!("page at {at} has {unpacked} bytes unpacked, more than the limit of {page_max}"));
        }
        let end = usize::try_from(packed).ok().and_then(|packed| reader.at.checked_add(packed));
        at = end.filter(|end| *end <= chunk.len()).ok_or_else(|| format!("page at {at} lies behind the column"))?;
    }
    Ok(())
}

/// The sizes of a page, unpacked and packed.
fn page(reader: &mut Compact<'_>) -> Option<(u64, u64)> {
    let (mut unpacked, mut packed) = (None, None);
    let mut id = 0;
    while let Some((next, kind)) = reader.field(id)? {
        id = next;
        match id {
            2 if kind == I32 => unpacked = u64::try_from(reader.number()?).ok(),
            3 if kind == I32 => packed = u64::try_from(reader.number()?).ok(),
            _ => reader.skip(kind, DEPTH)?,
        }
    }
    Some((unpacked?, packed?))
}

const TRUE: u8 = 1;
const FALSE: u8 = 2;
const BYTE: u8 = 3;
const I16: u8 = 4;
const I32: u8 = 5;
const I64: u8 = 6;
const DOUBLE: u8 = 7;
const BINARY: u8 = 8;
const LIST: u8 = 9;
const SET: u8 = 10;
const STRUCT: u8 = 12;

struct Compact<'a> {
    bytes: &'a [u8],
    at: usize,
}

impl Compact<'_> {
    fn byte(&mut self) -> Option<u8> {
        let byte = *self.bytes.get(self.at)?;
        self.at += 1;
        Some(byte)
    }

    fn varint(&mut self) -> Option<u64> {
        let mut value = 0;
        for shift in (0..64).step_by(7) {
            let byte = self.byte()?;
            value |= u64::from(byte & 0x7f) << shift;
            if byte < 0x80 {
                return Some(value);
            }
        }
        None
    }

    fn number(&mut self) -> Option<i64> {
        let zigzag = self.varint()?;
        Some((zigzag >> 1).cast_signed() ^ -((zigzag & 1).cast_signed()))
    }

    /// The id and type of the next field of a struct; `Some(None)` at its end.
    fn field(&mut self, before: i64) -> Option<Option<(i64, u8)>> {
        let byte = self.byte()?;
        if byte == 0 {
            return Some(None);
        }
        let id = match byte >> 4 {
            0 => self.number()?,
            more => before.checked_add(i64::from(more))?,
        };
        Some(Some((id, byte & 15)))
    }

    fn skip(&mut self, kind: u8, depth: usize) -> Option<()> {
        match kind {
            TRUE | FALSE => {}
            BYTE => drop(self.byte()?),
            I16 | I32 | I64 => drop(self.varint()?),
            DOUBLE => self.pass(8)?,
            BINARY => {
                let length = self.varint()?;
                self.pass(length)?;
            }
            LIST | SET => self.skip_list(depth.checked_sub(1)?)?,
            STRUCT => {
                let depth = depth.checked_sub(1)?;
                let mut id = 0;
                while let Some((next, kind)) = self.field(id)? {
                    id = next;
                    self.skip(kind, depth)?;
                }
            }
            _ => return None,
        }
        Some(())
    }

    fn skip_list(&mut self, depth: usize) -> Option<()> {
        let head = self.byte()?;
        let count = if head >> 4 == 15 { self.varint()? } else { u64::from(head >> 4) };
        for _ in 0..count {
            match head & 15 {
                TRUE | FALSE => self.pass(1)?,
                kind => self.skip(kind, depth)?,
            }
        }
        Some(())
    }

    fn pass(&mut self, length: u64) -> Option<()> {
        let end = self.at.checked_add(usize::try_from(length).ok()?)?;
        (end <= self.bytes.len()).then(|| self.at = end)
    }
}

#[cfg(test)]
mod tests {
    use super::check;

    #[test]
    fn pages_within_the_limit_pass() {
        let page = [&[0x15, 0, 0x15, 6, 0x15, 8, 0x2c, 0x15, 8, 0x15, 0, 0x15, 6, 0x15, 6, 0, 0][..], &[0; 4]].concat();
        let cases: [(&[u8], u64, Result<(), &str>); 6] = [
            (&[], 0, Ok(())),
            (&page, 3, Ok(())),
            (&[&page[..], &page[..]].concat(), 3, Ok(())),
            (&page, 2, Err("page at 0 has 3 bytes unpacked, more than the limit of 2")),
            (&page[..20], 3, Err("page at 0 lies behind the column")),
            (&page[..9], 3, Err("page header at 0 is malformed")),
        ];
        for (chunk, limit, expected) in cases {
            assert_eq!(check(chunk, limit), expected.map_err(str::to_owned), "{chunk:?}");
        }
    }

    #[test]
    fn structs_within_structs_without_end_are_refused() {
        assert_eq!(check(&[0x1c; 100_000], 1), Err("page header at 0 is malformed".to_owned()));
        assert_eq!(
            check(&[0x19, 0xf9, 0xff, 0xff, 0xff, 0xff, 0x0f], 1),
            Err("page header at 0 is malformed".to_owned())
        );
    }
}
