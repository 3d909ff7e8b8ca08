//! The storage of an archive: named byte strings that exist whole or not at all.

mod bucket;
mod folder;
mod place;

use std::fmt::Debug;

use bytes::Bytes;

pub use bucket::{Bucket, BucketLimits, Environment};
pub use folder::ObjectFolder;
pub use place::{BucketPlace, Place, Provider};

use crate::Result;

/// An object as a listing has it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Object {
    /// Its path, steps separated by `/`.
    pub path: String,
    /// Its size.
    pub bytes: u64,
}

/// A storage of objects. Paths have steps separated by `/`, none of which is empty or begins with a dot.
pub trait Objects: Debug + Send + Sync {
    /// Writes an object as a whole; replaces one of that path. It survives a power cut when this returns.
    ///
    /// # Errors
    /// The storage's; the old content stays then, or, where a network is between, the new one may be there.
    fn put(&self, path: &str, content: &[u8]) -> Result<()>;

    /// Writes an object as a whole unless there is one of that path; whether it was written. Of several that try at the
    /// same time, one succeeds; their contents must differ.
    ///
    /// # Errors
    /// The storage's; the object may have been written nonetheless.
    fn create(&self, path: &str, content: &[u8]) -> Result<bool>;

    /// The size of an object.
    ///
    /// # Errors
    /// Also when there is none.
    fn size(&self, path: &str) -> Result<u64>;

    /// A range of an object.
    ///
    /// # Errors
    /// Also when the object ends before the range.
    fn read(&self, path: &str, start: u64, length: usize) -> Result<Vec<u8>>;

    /// Several ranges of an object, in their order: where a network is between, with fewer requests than ranges.
    ///
    /// # Errors
    /// Also when the object ends before a range.
    fn read_ranges(&self, path: &str, ranges: &[(u64, usize)]) -> Result<Vec<Bytes>> {
        ranges.iter().map(|(start, length)| Ok(self.read(path, *start, *length)?.into())).collect()
    }

    /// All objects below a path, in the order of their paths.
    ///
    /// # Errors
    /// The storage's; a path without objects has none.
    fn list(&self, below: &str) -> Result<Vec<Object>>;

    /// Removes an object; one that is not there is none.
    ///
    /// # Errors
    /// The storage's.
    fn delete(&self, path: &str) -> Result<()>;

    /// Ends what waits for a network, now and later, with [`Error::Stopped`](crate::Error::Stopped): the process ends.
    fn stop(&self) {}
}

fn steps(path: &str) -> impl Iterator<Item = &str> {
    path.split('/').filter(|step| !step.is_empty())
}

/// Whether a name can be a step of a path: not empty, hidden or a way out, and printable.
fn is_step(name: &str) -> bool {
    !name.is_empty() && !name.starts_with('.') && !name.chars().any(char::is_control)
}
