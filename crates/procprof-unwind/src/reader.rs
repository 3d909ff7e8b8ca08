//! A cursor over little-endian bytes that tracks the address at which each byte is loaded.
//!
//! Every read is bounds-checked and returns `None` at the end, so hostile input can't lead out of its section.

/// Bytes not read yet, and the address of the first of them.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Reader<'a> {
    rest: &'a [u8],
    address: u64,
}

impl<'a> Reader<'a> {
    pub(crate) fn new(bytes: &'a [u8], address: u64) -> Self {
        Self { rest: bytes, address }
    }

    /// The address of the next byte.
    pub(crate) fn address(&self) -> u64 {
        self.address
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.rest.is_empty()
    }

    pub(crate) fn bytes(&self) -> &'a [u8] {
        self.rest
    }

    /// The next `length` bytes, which are skipped here.
    #[inline]
    pub(crate) fn take(&mut self, length: usize) -> Option<Reader<'a>> {
        let (taken, rest) = self.rest.split_at_checked(length)?;
        let reader = Reader { rest: taken, address: self.address };
        self.rest = rest;
        self.address = self.address.wrapping_add(length as u64);
        Some(reader)
    }

    /// A block of bytes preceded by its length as ULEB128.
    pub(crate) fn block(&mut self) -> Option<&'a [u8]> {
        let length = self.unsigned()?;
        Some(self.take(usize::try_from(length).ok()?)?.rest)
    }

    #[inline]
    fn array<const N: usize>(&mut self) -> Option<[u8; N]> {
        let (bytes, rest) = self.rest.split_first_chunk()?;
        self.rest = rest;
        self.address = self.address.wrapping_add(N as u64);
        Some(*bytes)
    }

    #[inline]
    pub(crate) fn u8(&mut self) -> Option<u8> {
        self.array().map(u8::from_le_bytes)
    }

    pub(crate) fn u16(&mut self) -> Option<u16> {
        self.array().map(u16::from_le_bytes)
    }

    #[inline]
    pub(crate) fn u32(&mut self) -> Option<u32> {
        self.array().map(u32::from_le_bytes)
    }

    pub(crate) fn u64(&mut self) -> Option<u64> {
        self.array().map(u64::from_le_bytes)
    }

    /// An ULEB128; `None` when it does not fit into 64 bits.
    #[inline]
    pub(crate) fn unsigned(&mut self) -> Option<u64> {
        let (mut value, mut shift) = (0_u64, 0);
        loop {
            let byte = self.u8()?;
            let bits = u64::from(byte & 0x7f);
            if shift == 63 && bits > 1 {
                return None;
            }
            value |= bits << shift;
            if byte & 0x80 == 0 {
                return Some(value);
            }
            shift += 7;
            if shift > 63 {
                return None;
            }
        }
    }

    /// An SLEB128; `None` when it does not fit into 64 bits.
    #[inline]
    pub(crate) fn signed(&mut self) -> Option<i64> {
        let (mut value, mut shift) = (0_i64, 0);
        loop {
            let byte = self.u8()?;
            if shift == 63 && byte != 0 && byte != 0x7f {
                return None;
            }
            value |= i64::from(byte & 0x7f) << shift;
            shift += 7;
            if byte & 0x80 == 0 {
                let is_negative = byte & 0x40 != 0;
                return Some(if is_negative && shift < 64 { value | (-1_i64 << shift) } else { value });
            }
            if shift > 63 {
                return None;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn leb128_numbers_are_read_to_their_limits() {
        let unsigned = |bytes: &[u8]| Reader::new(bytes, 0).unsigned();
        let signed = |bytes: &[u8]| Reader::new(bytes, 0).signed();
        assert_eq!(unsigned(&[0xe5, 0x8e, 0x26]), Some(624_485));
        assert_eq!(signed(&[0x80, 0x7f]), Some(-128));
        assert_eq!(signed(&[0x78]), Some(-8));
        let most = [0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x01];
        assert_eq!(unsigned(&most), Some(u64::MAX));
        let least = [0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x7f];
        assert_eq!(signed(&least), Some(i64::MIN));
        for too_long in [&[0xff; 11][..], &[0x80; 9], &[]] {
            assert_eq!((unsigned(too_long), signed(too_long)), (None, None));
        }
    }

    #[test]
    fn a_reader_tracks_its_place_and_stops_at_the_end() {
        let mut reader = Reader::new(&[1, 0, 2, 0, 0, 0, 1, 9], 100);
        assert_eq!((reader.u16(), reader.u32(), reader.address()), (Some(1), Some(2), 106));
        assert_eq!(reader.block(), Some(&[9][..]));
        assert!(reader.is_empty() && reader.u8().is_none() && reader.take(1).is_none());
    }
}
