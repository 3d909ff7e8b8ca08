//! Reading the fields of a record one after the other.

/// The rest of a record.
#[derive(Clone, Copy, Debug)]
pub(super) struct Bytes<'a>(pub(super) &'a [u8]);

impl<'a> Bytes<'a> {
    pub(super) fn take(&mut self, length: usize) -> Option<&'a [u8]> {
        let (taken, rest) = self.0.split_at_checked(length)?;
        self.0 = rest;
        Some(taken)
    }

    pub(super) fn u64(&mut self) -> Option<u64> {
        let (word, rest) = self.0.split_first_chunk()?;
        self.0 = rest;
        Some(u64::from_le_bytes(*word))
    }

    /// Two halves of a word.
    pub(super) fn pair(&mut self) -> Option<(u32, u32)> {
        let word = self.u64()?;
        Some((word as u32, (word >> 32) as u32))
    }

    /// So many words.
    pub(super) fn words(&mut self, count: u64) -> Option<&'a [[u8; 8]]> {
        let length = usize::try_from(count).ok()?.checked_mul(8)?;
        Some(self.take(length)?.as_chunks().0)
    }

    /// A name that ends with a zero byte, or with the record.
    pub(super) fn name(&self) -> &'a [u8] {
        let end = self.0.iter().position(|byte| *byte == 0).unwrap_or(self.0.len());
        &self.0[..end]
    }
}
