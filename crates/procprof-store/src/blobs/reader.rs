//! [`BlobReader`]: reads a blob from its beginning to its end, range by range.

use std::io::{self, Read};

use super::{BlobName, Blobs};
use crate::error::with_source;

/// Bytes requested at a time.
const PIECE: u64 = 256 << 10;

/// Reads a blob as a stream.
#[derive(Debug)]
pub(crate) struct BlobReader<'a> {
    blobs: &'a dyn Blobs,
    blob: BlobName<'a>,
    /// The current piece, and the bytes read of it.
    piece: Vec<u8>,
    read: usize,
    /// The start of the next piece.
    next: u64,
}

impl<'a> BlobReader<'a> {
    pub(crate) fn new(blobs: &'a dyn Blobs, blob: BlobName<'a>) -> BlobReader<'a> {
        BlobReader { blobs, blob, piece: Vec::new(), read: 0, next: 0 }
    }
}

impl Read for BlobReader<'_> {
    fn read(&mut self, bytes: &mut [u8]) -> io::Result<usize> {
        if self.read == self.piece.len() {
            let piece = self.blobs.get(self.blob, self.next..self.next.saturating_add(PIECE));
            let piece = piece.map_err(|error| io::Error::other(with_source(&error)))?;
            self.piece = piece.ok_or_else(|| io::Error::from(io::ErrorKind::NotFound))?.bytes;
            self.next += self.piece.len() as u64;
            self.read = 0;
        }
        let count = bytes.len().min(self.piece.len() - self.read);
        bytes[..count].copy_from_slice(&self.piece[self.read..self.read + count]);
        self.read += count;
        Ok(count)
    }
}
