//! The bytes of a section of a file, read as look-ups need them.
//!
//! A section may have hundreds of megabytes, most of which no look-up needs, and a file states its size as it likes. So
//! memory of that size is reserved, and blocks of the file are read into it on demand. The file is not mapped: one that
//! is cut short while it is mapped would end the reader by a signal.

use std::fs::File;
use std::ops::{Deref, Range};
use std::os::unix::fs::FileExt;

use crate::kernel::ReservedMemory;

/// Bytes that are read at once.
const BLOCK_BYTES: usize = 16 << 10;
/// Bytes read of a section from which on it begins anew.
const READ_BYTES_MAX: usize = 16 << 20;

/// A section in memory.
#[derive(Debug)]
pub(super) enum SectionBytes {
    /// All of it.
    Whole(Vec<u8>),
    /// As far as it was needed.
    Partial(PartialSection),
}

/// A section of which blocks are read on demand; the others are zeros.
#[derive(Debug)]
pub(super) struct PartialSection {
    memory: ReservedMemory,
    /// Its place in the file, and its size.
    offset: u64,
    size: usize,
    is_read: Vec<bool>,
    read_bytes: usize,
}

impl Default for SectionBytes {
    fn default() -> Self {
        Self::Whole(Vec::new())
    }
}

impl Deref for SectionBytes {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        match self {
            Self::Whole(bytes) => bytes,
            Self::Partial(section) => section.memory.get(..section.size).unwrap_or_default(),
        }
    }
}

impl SectionBytes {
    /// Bytes of memory that it takes.
    pub(super) fn memory(&self) -> usize {
        match self {
            Self::Whole(bytes) => bytes.len(),
            Self::Partial(section) => section.read_bytes,
        }
    }

    /// The bytes of a range, read from the file if they were not; `None` outside the section, and beyond what may be
    /// read for one look-up.
    pub(super) fn require(&mut self, file: Option<&File>, range: Range<usize>) -> Option<&[u8]> {
        if let (Self::Partial(section), Some(file)) = (&mut *self, file) {
            section.read(file, range.clone())?;
        }
        self.get(range)
    }

    /// Reads the first bytes, at most so many.
    pub(super) fn require_start(&mut self, file: Option<&File>, length: usize) {
        let length = length.min(self.len());
        let _ = self.require(file, 0..length);
    }

    /// Begins anew if much was read, so that the next look-up may read as much.
    pub(super) fn begin_look_up(&mut self) {
        if let Self::Partial(section) = self
            && section.read_bytes >= READ_BYTES_MAX
            && let Ok(empty) = PartialSection::new(section.offset, section.size)
        {
            *section = empty;
        }
    }
}

impl PartialSection {
    /// A section at a place in a file; nothing of it is read.
    pub(super) fn new(offset: u64, size: usize) -> std::io::Result<Self> {
        let memory = ReservedMemory::new(size)?;
        Ok(Self { memory, offset, size, is_read: vec![false; size.div_ceil(BLOCK_BYTES)], read_bytes: 0 })
    }

    fn read(&mut self, file: &File, range: Range<usize>) -> Option<()> {
        if range.is_empty() || range.end > self.size {
            return None;
        }
        for block in range.start / BLOCK_BYTES..=(range.end - 1) / BLOCK_BYTES {
            let is_read = self.is_read.get_mut(block)?;
            if *is_read {
                continue;
            }
            if self.read_bytes >= 2 * READ_BYTES_MAX {
                return None;
            }
            let start = block * BLOCK_BYTES;
            let bytes = self.memory.get_mut(start..(start + BLOCK_BYTES).min(self.size))?;
            // What can't be read stays zeros, which are no entries.
            let _ = file.read_exact_at(bytes, self.offset.checked_add(start as u64)?);
            *is_read = true;
            self.read_bytes += bytes.len();
        }
        Some(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn blocks_are_read_as_they_are_needed() {
        let file = tempfile::tempfile().unwrap();
        let size = 250 << 20;
        file.set_len(size as u64 + 100).unwrap();
        for offset in [100, 5_000_000, 200_000_000] {
            file.write_all_at(b"bytes", offset).unwrap();
        }
        let mut section = SectionBytes::Partial(PartialSection::new(100, size).unwrap());
        assert_eq!(section.require(Some(&file), 0..5), Some(&b"bytes"[..]));
        assert_eq!(section.require(Some(&file), 199_999_900..199_999_905), Some(&b"bytes"[..]));
        assert_eq!(section.memory(), 2 * BLOCK_BYTES);
        assert_eq!(section.get(4_999_900..4_999_905), Some(&[0; 5][..]), "not asked for");
        assert_eq!(section.require(Some(&file), size - 1..size + 1), None);
        let mut short = SectionBytes::Partial(PartialSection::new(100, 20).unwrap());
        short.require_start(Some(&file), 32);
        assert_eq!(short.get(..5), Some(&b"bytes"[..]));
        // A table may lead anywhere.
        let read = (0..size).step_by(BLOCK_BYTES).take_while(|at| section.require(Some(&file), *at..at + 1).is_some());
        assert!(read.count() < 3 * READ_BYTES_MAX / BLOCK_BYTES && section.memory() <= 2 * READ_BYTES_MAX);
        section.begin_look_up();
        assert_eq!(section.memory(), 0);
        assert_eq!(section.require(Some(&file), 0..5), Some(&b"bytes"[..]));
    }
}
