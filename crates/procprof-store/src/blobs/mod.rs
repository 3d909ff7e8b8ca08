//! The storage of profiles: [`Blobs`], named byte strings that exist whole or not at all.
//!
//! [`BlobFolder`] stores them in a folder. Another backend implements this trait and is passed to
//! [`Store::open_on`](crate::Store::open_on); the tests in `tests/laws` run over every backend.

mod folder;
mod reader;

use std::fmt;
use std::ops::Range;

pub use folder::BlobFolder;
pub(crate) use reader::BlobReader;

use crate::{Error, Result};

/// The place of a blob: a folder and a name in it.
///
/// Names consist of visible ASCII characters other than `/`, and do not begin with a dot; a folder is one such name or
/// several with `/` between.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct BlobName<'a> {
    folder: &'a str,
    name: &'a str,
}

/// Longest name, in bytes, and longest folder.
const NAME_MAX: usize = 255;
const FOLDER_MAX: usize = 1024;

impl<'a> BlobName<'a> {
    /// A name in a folder.
    ///
    /// # Errors [`Error::Argument`] if one of them is invalid.
    pub fn new(folder: &'a str, name: &'a str) -> Result<BlobName<'a>> {
        check_folder(folder)?;
        if !is_name(name) {
            return Err(wrong("name of a blob", name));
        }
        Ok(BlobName { folder, name })
    }

    /// The folder.
    pub fn folder(self) -> &'a str {
        self.folder
    }

    /// The name in it.
    pub fn name(self) -> &'a str {
        self.name
    }
}

impl fmt::Display for BlobName<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.folder, self.name)
    }
}

/// Checks the name of a folder.
pub(crate) fn check_folder(folder: &str) -> Result<()> {
    let is_folder = folder.len() <= FOLDER_MAX && folder.split('/').all(is_name);
    if is_folder { Ok(()) } else { Err(wrong("folder of blobs", folder)) }
}

fn is_name(name: &str) -> bool {
    let is_legal = |byte: u8| byte.is_ascii_graphic() && byte != b'/';
    !name.is_empty() && name.len() <= NAME_MAX && !name.starts_with('.') && name.bytes().all(is_legal)
}

fn wrong(what: &'static str, text: &str) -> Error {
    Error::Argument {
        what,
        text: text.chars().take(64).collect(),
        why: "must be visible ASCII without '/' and a dot in front",
    }
}

/// A number that stands for the content of a blob: one that was written to, or another one of the same name, has
/// another stamp. The same content may get another stamp, for example when it is restored from a backup.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Stamp(pub u64);

/// A part of a blob.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Piece {
    /// The bytes of the requested range, up to the end of the blob.
    pub bytes: Vec<u8>,
    /// Size of the whole blob.
    pub size: u64,
    /// Stamp of the whole blob.
    pub stamp: Stamp,
}

/// The contents of one folder of blobs.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Listing {
    /// Folders in it, in no order.
    pub folders: Vec<String>,
    /// Blobs in it, in no order.
    pub blobs: Vec<(String, Stamp)>,
    /// Entries that are not blobs: links, pipes, invalid names.
    pub odd: Vec<String>,
    /// Half-written blobs that were discarded.
    pub discarded: u64,
}

/// The treatment of half-written blobs in a listing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unfinished {
    /// They may be of this process.
    Keep,
    /// They are of a process that has ended.
    Discard,
}

/// Named byte strings. All methods block and may be called from many threads.
pub trait Blobs: fmt::Debug + Send + Sync {
    /// Writes a blob under the first of the names that is free in a folder, which is created if needed; returns that
    /// name with the blob's stamp, or `None` if all are taken. `names` may be long; only the needed ones are evaluated.
    ///
    /// If this returns a name, the blob survives a power cut; if it returns an error, nothing of it is left. Nothing is
    /// replaced.
    fn put(
        &self,
        folder: &str,
        names: &mut dyn Iterator<Item = String>,
        chunks: &[&[u8]],
    ) -> Result<Option<(String, Stamp)>>;

    /// Replaces the content of a blob, and returns its new stamp. Readers see the old or the new one, whole, also after
    /// a power cut.
    fn replace(&self, blob: BlobName<'_>, chunks: &[&[u8]]) -> Result<Stamp>;

    /// The bytes of a range, which may reach beyond the end; `None` if there is no such blob.
    fn get(&self, blob: BlobName<'_>, range: Range<u64>) -> Result<Option<Piece>>;

    /// The contents of a folder; `""` is the one that contains all others. A missing folder is empty.
    fn list(&self, folder: &str, unfinished: Unfinished) -> Result<Listing>;

    /// Deletes a blob; a missing one is no error.
    fn delete(&self, blob: BlobName<'_>) -> Result<()>;

    /// Bytes that can still be written; [`u64::MAX`] if there is no known limit.
    fn free_bytes(&self) -> Result<u64>;
}

/// Reads a whole blob of at most `bytes_max` bytes; `None` when there is no such blob.
pub(crate) fn read(blobs: &dyn Blobs, blob: BlobName<'_>, bytes_max: u64) -> Result<Option<Piece>> {
    let Some(piece) = blobs.get(blob, 0..bytes_max)? else { return Ok(None) };
    check_size(blob, piece.size, bytes_max)?;
    Ok(Some(piece))
}

/// Refuses a blob that is too large.
pub(crate) fn check_size(blob: BlobName<'_>, bytes: u64, limit: u64) -> Result<()> {
    if bytes > limit { Err(Error::TooLarge { what: blob.to_string(), bytes, limit }) } else { Ok(()) }
}

#[cfg(test)]
mod tests {
    use super::BlobName;

    #[test]
    fn a_name_cannot_leave_its_folder() {
        for (folder, name) in [("10001", "cpu-profile.gz"), ("date=2026-11-23/hour=07", "a.parquet")] {
            assert_eq!(BlobName::new(folder, name).unwrap().to_string(), format!("{folder}/{name}"));
        }
        let long = "x".repeat(256);
        for (folder, name) in [
            ("", "x"),
            ("a", ""),
            ("..", "x"),
            ("a/../b", "x"),
            ("/a", "x"),
            ("a//b", "x"),
            ("a", ".x"),
            ("a", "b/c"),
            ("a", "é"),
            ("a", &long),
        ] {
            assert!(BlobName::new(folder, name).is_err(), "{folder} {name}");
        }
    }
}
