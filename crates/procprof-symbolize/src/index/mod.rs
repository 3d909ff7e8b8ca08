//! The symbol index of a file: all that is needed to name its addresses without the file.
//!
//! [`SymbolIndex::build`] makes one of all the contents of an [`Image`]: functions, inlined calls, lines, names of
//! source files, symbols. It is a small part of the debug information's size and can be sent elsewhere. [`IndexFolder`]
//! keeps indexes by build id.
//!
//! An index may come from an untrusted source: a broken one errs or leaves addresses unknown, but never panics. Looking
//! up takes, for each processor, at most one part, which has at most 64 MiB and at most 256 times its stored bytes, and
//! about ten times that for the current record.
//!
//! # Layout, version 1
//!
//! Numbers in the first line are little endian; all others are LEB128, those marked ± zigzag.
//!
//! ```text
//! file      "procsyms", u32 version, u32 bytes of the head, u32 CRC-32 of the head, head, stored parts
//! head      flags (1: complete), build id (length, bytes), layout key (16 bytes), file name (length, bytes),
//!           segments (count, then: place in the file, bytes there, address, bytes in memory, 1 if executable),
//!           parts (count, then: begin, bytes covered, kind, stored bytes, bytes, CRC-32 of what is stored)
//!           and whatever room was left for parts that did not come
//! kind      0: records; 1: records, compressed with zstd
//! records   strings (count, bytes of all lengths, lengths), files (count, bytes, strings),
//!           functions (count, bytes, then: system name, 1 + name or 0, first line),
//!           directory (count, bytes, then: gap before, bytes covered, bytes of its body),
//!           bytes of all strings, strings, bodies
//! body      function, inlined calls (count, then: function, how many of the calls behind are inlined into it,
//!           1 + file or 0, line, column, ranges (count, then: ± gap before, bytes)), rows (count, then: bytes
//!           << 2 | gap << 1 | new file, [gap before], [1 + file or 0], ± lines further, column)
//! ```
//!
//! Parts may overlap; the earlier one is used.
//!
//! An index that is not complete has the functions that were requested so far: see `cache.rs`. Of its parts that cover
//! no address those that begin at 1 are names: of each the mangled and the readable one (length, bytes); one that
//! begins at 2 has the symbols by address: see `elf/symbols/order.rs`. Those that begin at 3 are guides to the debug
//! information: for each unit its offset, the bytes of the rest, then functions and sequences of lines (each: count,
//! then: offset further, ± gap before, bytes covered).
//!
//! [`binutils`](crate::binutils) has an index of its own, since its names follow other rules: guides
//! without sequences, names and symbols.

mod build;
pub(crate) mod cache;
mod contents;
mod decode;
mod encode;
mod head;
mod kept;
mod resolve;
mod stored;

use std::fs::File;
use std::path::Path;

use procprof_process::{BuildId, open_regular};
use procprof_profile::{FileOffset, SymbolAddr};

pub use self::contents::Contents;
use self::head::{Head, PartEntry};
pub(crate) use self::kept::{Kept, KeptFunctions};
pub use crate::elf::LayoutKey;
use crate::elf::{FileBytes, Segment};
pub use crate::options::IndexFolder;
use crate::{Error, Image, Resolved, Result};

/// The symbol index of one file.
#[derive(Debug)]
pub struct SymbolIndex {
    bytes: Bytes,
    head: Head,
}

/// The source of an index.
#[derive(Debug)]
enum Bytes {
    Mapped(FileBytes),
    Owned(Vec<u8>),
}

impl std::ops::Deref for Bytes {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        match self {
            Self::Mapped(bytes) => bytes,
            Self::Owned(bytes) => bytes,
        }
    }
}

impl SymbolIndex {
    /// Makes the complete index of a file: every function, inlined call, line and symbol.
    ///
    /// Works on as many threads as there are processors, up to 16. Errs if the file has nothing to index
    /// ([`Error::NothingToIndex`]).
    pub fn build(image: &Image) -> Result<Vec<u8>> {
        build::complete(image)
    }

    /// Opens an index file of at most `bytes_max` bytes, and checks its head; the parts are checked when
    /// they are used.
    pub fn open(path: &Path, bytes_max: u64) -> Result<Self> {
        let file = open_regular(path).map_err(|source| Error::Io { path: path.to_owned(), source })?;
        Self::from_file(&file, path, bytes_max)
    }

    /// As [`SymbolIndex::open`], for a file that is open already; `path` is for errors only.
    pub fn from_file(file: &File, path: &Path, bytes_max: u64) -> Result<Self> {
        Self::new(Bytes::Mapped(FileBytes::map(file, path, bytes_max)?))
    }

    /// Opens an index that is in memory.
    pub fn from_bytes(bytes: Vec<u8>) -> Result<Self> {
        Self::new(Bytes::Owned(bytes))
    }

    fn new(bytes: Bytes) -> Result<Self> {
        let head = Head::read(&bytes)?;
        Ok(Self { bytes, head })
    }

    /// Checks the sums of all parts, and reads those that cover no address, so that a broken index can be refused when
    /// it arrives.
    pub fn verify(&self) -> Result<()> {
        self.head.parts.iter().try_for_each(|part| cache::check(part, &part.decompressed(&self.bytes)?))
    }

    /// The build id of the file; `None` if it has none.
    pub fn build_id(&self) -> Option<&BuildId> {
        self.head.build_id.as_ref()
    }

    /// Distinguishes the file from others without a build id.
    pub fn layout_key(&self) -> LayoutKey {
        self.head.layout_key
    }

    /// The name of the file, without its folder.
    pub fn file_name(&self) -> &str {
        &self.head.file_name
    }

    /// Whether it has all that is known of the file.
    pub fn is_complete(&self) -> bool {
        self.head.is_complete
    }

    /// Its size in bytes.
    pub fn bytes(&self) -> u64 {
        self.bytes.len() as u64
    }

    /// As [`Image::symbol_addr`].
    pub fn symbol_addr(&self, offset: FileOffset) -> Option<SymbolAddr> {
        Segment::symbol_addr(&self.head.segments, offset)
    }

    /// As [`Image::symbol_addr_in`].
    pub fn symbol_addr_in(&self, start: FileOffset, distance: u64) -> Option<SymbolAddr> {
        Segment::symbol_addr_in(&self.head.segments, start, distance)
    }

    /// As [`SymbolIndex::resolve`], for addresses that ascend.
    pub(crate) fn resolve_sorted(&self, wanted: &[u64]) -> Vec<Resolved> {
        resolve::resolve_sorted(self, wanted)
    }

    /// Looks up a batch of addresses; the answers are in the order of the addresses, and those of a
    /// complete index are those of [`Image::resolve`].
    pub fn resolve(&self, addresses: &[SymbolAddr]) -> Vec<Resolved> {
        resolve::resolve(self, addresses)
    }
}
