//! Numbers and texts in the bytes of an index: LEB128, small numbers in one byte.

/// The bytes are not those of an index.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Malformed;

/// Appends to bytes.
pub(crate) trait Write {
    fn number(&mut self, number: u64);
    fn signed(&mut self, number: i64);
    fn bytes(&mut self, bytes: &[u8]);
}

impl Write for Vec<u8> {
    #[inline]
    fn number(&mut self, mut number: u64) {
        while number >= 0x80 {
            self.push(number as u8 | 0x80);
            number >>= 7;
        }
        self.push(number as u8);
    }

    /// Zigzag: small numbers of either sign are short.
    #[inline]
    fn signed(&mut self, number: i64) {
        self.number(((number << 1) ^ (number >> 63)) as u64);
    }

    /// The length, then the bytes.
    fn bytes(&mut self, bytes: &[u8]) {
        self.number(bytes.len() as u64);
        self.extend_from_slice(bytes);
    }
}

/// Reads from bytes.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Read<'a>(pub(crate) &'a [u8]);

impl<'a> Read<'a> {
    #[inline]
    pub(crate) fn number(&mut self) -> Result<u64, Malformed> {
        let (mut number, mut shift) = (0, 0);
        loop {
            let (byte, rest) = self.0.split_first().ok_or(Malformed)?;
            self.0 = rest;
            if shift > 63 {
                return Err(Malformed);
            }
            number |= u64::from(byte & 0x7f) << shift;
            if byte & 0x80 == 0 {
                return Ok(number);
            }
            shift += 7;
        }
    }

    #[inline]
    pub(crate) fn small(&mut self) -> Result<u32, Malformed> {
        u32::try_from(self.number()?).map_err(|_| Malformed)
    }

    #[inline]
    pub(crate) fn signed(&mut self) -> Result<i64, Malformed> {
        let number = self.number()?;
        Ok((number >> 1) as i64 ^ -((number & 1) as i64))
    }

    /// A count of things of at least one byte each.
    pub(crate) fn count(&mut self) -> Result<usize, Malformed> {
        let count = usize::try_from(self.number()?).map_err(|_| Malformed)?;
        if count > self.0.len() { Err(Malformed) } else { Ok(count) }
    }

    pub(crate) fn take(&mut self, length: usize) -> Result<&'a [u8], Malformed> {
        let (taken, rest) = self.0.split_at_checked(length).ok_or(Malformed)?;
        self.0 = rest;
        Ok(taken)
    }

    pub(crate) fn bytes(&mut self) -> Result<&'a [u8], Malformed> {
        let length = self.count()?;
        self.take(length)
    }

    pub(crate) fn array<const N: usize>(&mut self) -> Result<[u8; N], Malformed> {
        self.take(N)?.try_into().map_err(|_| Malformed)
    }
}
