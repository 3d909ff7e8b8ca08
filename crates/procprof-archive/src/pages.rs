//! The headers of a column's pages, which tell how much memory their content takes before it is unpacked.
//!
//! A page is a Thrift struct in the compact protocol, followed by its content
//! (<https://github.com/apache/parquet-format/blob/master/src/main/thrift/parquet.thrift>):
//!
//! ```text
//! PageHeader  1 type i32  2 uncompressed_page_size i32  3 compressed_page_size i32  4 crc i32
//!             5 data_page_header  7 dictionary_page_header  8 data_page_header_v2: of each  1 num_values i32
//! ```
//! The compact protocol writes a field as a byte (difference of the ids << 4 | type) and its value, numbers as zigzag
//! varints, and ends a struct by 0. For example, a data page of 24 bytes, 28 when compressed:
//!
//! ```text
//! 15 00  15 30  15 38  2c 15 08 15 00 15 06 15 06 00 00
//! ```

/// Structs within structs, at most; a page header has three.
const DEPTH: usize = 8;

/// Most that a column may take.
#[derive(Clone, Copy, Debug)]
pub(crate) struct PageLimits {
    /// Bytes of a page, unpacked.
    pub(crate) bytes: u64,
    /// Values of all its pages together: a few bytes can repeat one without end.
    pub(crate) values: u64,
}

/// Checks that the pages of a column are within limits.
pub(crate) fn check(chunk: &[u8], most: PageLimits) -> Result<(), String> {
    let (mut at, mut all) = (0, 0_u64);
    while at < chunk.len() {
        let mut reader = Compact { bytes: chunk, at };
        let Page { unpacked, packed, values } =
            page(&mut reader).ok_or_else(|| format!("page header at {at} is malformed"))?;
        if unpacked > most.bytes {
            return Err(format!("page at {at} has {unpacked} bytes unpacked, more than the limit of {}", most.bytes));
        }
        all = all.saturating_add(values);
        if all > most.values {
            return Err(format!("has {all} values up to the page at {at}, more than the limit of {}", most.values));
        }
        let end = usize::try_from(packed).ok().and_then(|packed| reader.at.checked_add(packed));
        at = end.filter(|end| *end <= chunk.len()).ok_or_else(|| format!("page at {at} lies behind the column"))?;
    }
    Ok(())
}

/// The header of a page.
struct Page {
    unpacked: u64,
    packed: u64,
    /// Values of a data page; none of a dictionary, whose bytes bound them.
    values: u64,
}

fn page(reader: &mut Compact<'_>) -> Option<Page> {
    let (mut unpacked, mut packed, mut values) = (None, None, 0);
    let mut id = 0;
    while let Some((next, kind)) = reader.field(id)? {
        id = next;
        match id {
            2 if kind == I32 => unpacked = u64::try_from(reader.number()?).ok(),
            3 if kind == I32 => packed = u64::try_from(reader.number()?).ok(),
            5 | 8 if kind == STRUCT => values = reader.count_of_values()?,
            _ => reader.skip(kind, DEPTH)?,
        }
    }
    Some(Page { unpacked: unpacked?, packed: packed?, values })
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

    /// The number of values in the header of a data page.
    fn count_of_values(&mut self) -> Option<u64> {
        let (mut values, mut id) = (None, 0);
        while let Some((next, kind)) = self.field(id)? {
            id = next;
            match id {
                1 if kind == I32 => values = u64::try_from(self.number()?).ok(),
                _ => self.skip(kind, DEPTH - 1)?,
            }
        }
        values
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
    use super::{PageLimits, check};

    #[test]
    fn pages_within_the_limit_pass() {
        let page = [&[0x15, 0, 0x15, 6, 0x15, 8, 0x2c, 0x15, 8, 0x15, 0, 0x15, 6, 0x15, 6, 0, 0][..], &[0; 4]].concat();
        let two = [&page[..], &page[..]].concat();
        let dictionary =
            [&[0x15, 4, 0x15, 6, 0x15, 8, 0x4c, 0x15, 0xfe, 0xff, 0xff, 0xff, 0x0f, 0, 0][..], &[0; 4]].concat();
        type Case<'a> = (&'a [u8], (u64, u64), Result<(), &'a str>);
        let cases: [Case<'_>; 9] = [
            (&[], (0, 0), Ok(())),
            (&page, (3, 4), Ok(())),
            (&two, (3, 8), Ok(())),
            (&dictionary, (3, 0), Ok(())),
            (&page, (2, 4), Err("page at 0 has 3 bytes unpacked, more than the limit of 2")),
            (&two, (3, 7), Err("has 8 values up to the page at 21, more than the limit of 7")),
            (&page, (3, 3), Err("has 4 values up to the page at 0, more than the limit of 3")),
            (&page[..20], (3, 4), Err("page at 0 lies behind the column")),
            (&page[..9], (3, 4), Err("page header at 0 is malformed")),
        ];
        for (chunk, (bytes, values), expected) in cases {
            assert_eq!(check(chunk, PageLimits { bytes, values }), expected.map_err(str::to_owned), "{chunk:?}");
        }
    }

    #[test]
    fn structs_within_structs_without_end_are_refused() {
        let most = PageLimits { bytes: 1, values: 1 };
        assert_eq!(check(&[0x1c; 100_000], most), Err("page header at 0 is malformed".to_owned()));
        assert_eq!(
            check(&[0x19, 0xf9, 0xff, 0xff, 0xff, 0xff, 0x0f], most),
            Err("page header at 0 is malformed".to_owned())
        );
    }
}
