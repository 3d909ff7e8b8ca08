//! Reads of a file by a parser that believes what the file states of its own sizes, within a limit.

use std::cell::Cell;
use std::fs::File;
use std::ops::Range;

use object::{ReadCache, ReadRef};

/// The parts of a file that are read, so many bytes of them together.
#[derive(Clone, Copy, Debug)]
pub(super) struct LimitedReads<'a> {
    cache: &'a ReadCache<&'a File>,
    left: &'a Cell<u64>,
}

impl<'a> LimitedReads<'a> {
    /// Reads through a cache, until no bytes are left.
    pub(super) fn new(cache: &'a ReadCache<&'a File>, left: &'a Cell<u64>) -> Self {
        Self { cache, left }
    }

    fn take(self, bytes: u64) -> Result<(), ()> {
        self.left.set(self.left.get().checked_sub(bytes).ok_or(())?);
        Ok(())
    }
}

impl<'a> ReadRef<'a> for LimitedReads<'a> {
    fn len(self) -> Result<u64, ()> {
        self.cache.len()
    }

    fn read_bytes_at(self, offset: u64, size: u64) -> Result<&'a [u8], ()> {
        self.take(size)?;
        self.cache.read_bytes_at(offset, size)
    }

    fn read_bytes_at_until(self, range: Range<u64>, delimiter: u8) -> Result<&'a [u8], ()> {
        let bytes = self.cache.read_bytes_at_until(range, delimiter)?;
        self.take(bytes.len() as u64 + 1)?;
        Ok(bytes)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_that_states_large_sizes_is_read_up_to_the_limit() {
        let file = tempfile::tempfile().unwrap();
        file.set_len(1 << 40).unwrap();
        let (cache, left) = (ReadCache::new(&file), Cell::new(1000));
        let reads = LimitedReads::new(&cache, &left);
        assert_eq!(reads.read_bytes_at(1 << 30, 1 << 39), Err(()));
        assert_eq!(reads.read_bytes_at(1 << 30, 900).map(<[u8]>::len), Ok(900));
        assert_eq!(reads.read_bytes_at(0, 101), Err(()));
        assert_eq!(reads.read_bytes_at_until(0..100, 0), Ok(&[][..]));
    }
}
