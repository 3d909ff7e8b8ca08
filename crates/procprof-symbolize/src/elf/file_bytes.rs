//! The bytes of a file, mapped into memory. The only `unsafe` code of this crate.

#![allow(unsafe_code)]

use std::fs::File;
use std::ops::Deref;
use std::path::Path;

use memmap2::Mmap;

use crate::{Error, Result};

/// The bytes of a file, read-only.
#[derive(Debug)]
pub(crate) struct FileBytes(Mmap);

impl FileBytes {
    /// Maps a file of at most `limit` bytes.
    pub(crate) fn map(file: &File, path: &Path, limit: u64) -> Result<Self> {
        let io = |source| Error::Io { path: path.to_owned(), source };
        let bytes = file.metadata().map_err(io)?.len();
        if bytes == 0 {
            return Err(Error::NotElf { path: path.to_owned() });
        }
        if bytes > limit {
            return Err(Error::TooLarge { path: path.to_owned(), bytes, limit });
        }
        // SAFETY: the mapping is private and read-only, and lives as long as `self`. Rust can't rule out that another
        // process writes to the file meanwhile. Linkers, package managers and compilers replace binaries instead of
        // rewriting them (the kernel refuses to write to a running one), and every reader here checks bounds on each
        // access and keeps no invariant between two reads of a byte, so that a changed byte gives a wrong name at
        // worst. A file that is cut short raises SIGBUS on access: foreign files are therefore opened in a child
        // process only (see the crate's documentation).
        let map = unsafe { Mmap::map(file) };
        map.map(Self).map_err(io)
    }
}

impl Deref for FileBytes {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        &self.0
    }
}
