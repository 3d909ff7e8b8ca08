//! Integers and strings as encoded in packets. All integers are little-endian.
//!
//! ```text
//! length-encoded integer   00..FA: itself   FC u16   FD u24   FE u64        (FB: NULL in a text row)
//! length-encoded string    length-encoded integer, that many bytes
//! ```

use super::error::{SqlError, SqlErrorKind};

/// Reads a packet's payload; never past its end.
#[derive(Clone, Copy)]
pub(super) struct PacketReader<'a> {
    left: &'a [u8],
    /// The kind of the packet, for errors.
    what: &'static str,
}

impl<'a> PacketReader<'a> {
    pub(super) fn new(payload: &'a [u8], what: &'static str) -> PacketReader<'a> {
        PacketReader { left: payload, what }
    }

    fn short(&self) -> SqlError {
        SqlError::new(SqlErrorKind::Malformed, format!("malformed packet: {} ends early", self.what))
    }

    pub(super) fn is_empty(&self) -> bool {
        self.left.is_empty()
    }

    /// All that is left.
    pub(super) fn rest(&mut self) -> &'a [u8] {
        std::mem::take(&mut self.left)
    }

    pub(super) fn bytes(&mut self, count: usize) -> Result<&'a [u8], SqlError> {
        let (taken, left) = self.left.split_at_checked(count).ok_or_else(|| self.short())?;
        self.left = left;
        Ok(taken)
    }

    fn array<const N: usize>(&mut self) -> Result<[u8; N], SqlError> {
        let mut array = [0; N];
        array.copy_from_slice(self.bytes(N)?);
        Ok(array)
    }

    pub(super) fn u8(&mut self) -> Result<u8, SqlError> {
        Ok(self.array::<1>()?[0])
    }

    pub(super) fn u16(&mut self) -> Result<u16, SqlError> {
        self.array().map(u16::from_le_bytes)
    }

    pub(super) fn u32(&mut self) -> Result<u32, SqlError> {
        self.array().map(u32::from_le_bytes)
    }

    pub(super) fn u64(&mut self) -> Result<u64, SqlError> {
        self.array().map(u64::from_le_bytes)
    }

    /// A length-encoded integer.
    pub(super) fn integer(&mut self) -> Result<u64, SqlError> {
        match self.u8()? {
            0xfc => self.u16().map(u64::from),
            0xfd => self.array::<3>().map(|[a, b, c]| u64::from(u32::from_le_bytes([a, b, c, 0]))),
            0xfe => self.u64(),
            small @ ..=0xfa => Ok(u64::from(small)),
            _ => Err(SqlError::new(
                SqlErrorKind::Malformed,
                format!("malformed packet: {} has no length where one belongs", self.what),
            )),
        }
    }

    /// A length-encoded string.
    pub(super) fn string(&mut self) -> Result<&'a [u8], SqlError> {
        let length = usize::try_from(self.integer()?).map_err(|_| self.short())?;
        self.bytes(length)
    }

    /// Bytes up to a NUL, which is skipped.
    pub(super) fn until_nul(&mut self) -> Result<&'a [u8], SqlError> {
        let end = self.left.iter().position(|byte| *byte == 0).ok_or_else(|| self.short())?;
        let text = self.bytes(end)?;
        self.bytes(1)?;
        Ok(text)
    }
}

/// Appends a length-encoded integer.
pub(super) fn put_integer(out: &mut Vec<u8>, value: u64) {
    match value {
        0..=0xfa => out.push(value as u8),
        0xfb..=0xffff => {
            out.push(0xfc);
            out.extend_from_slice(&(value as u16).to_le_bytes());
        }
        0x1_0000..=0xff_ffff => {
            out.push(0xfd);
            out.extend_from_slice(&value.to_le_bytes()[..3]);
        }
        _ => {
            out.push(0xfe);
            out.extend_from_slice(&value.to_le_bytes());
        }
    }
}

/// Appends a length-encoded string.
pub(super) fn put_string(out: &mut Vec<u8>, text: &[u8]) {
    put_integer(out, text.len() as u64);
    out.extend_from_slice(text);
}

/// Appends a text and a NUL.
pub(super) fn put_nul_string(out: &mut Vec<u8>, text: &[u8]) {
    out.extend_from_slice(text);
    out.push(0);
}
