//! Files that exist whole or not at all, folders that are read without following links, and caches of files within
//! limits; versions of formats on disk.
//!
//! Everything procprof keeps on disk is written here: a [`NewFile`] gets its content under a temporary name, is synced,
//! renamed, and its folder synced, so that a reader sees the old content or the new one, also after a power cut. Files
//! that may be lost, such as a cache, are written without syncing.
//!
//! What is kept says its version ([`DiskFormat`]), so that a program that is older refuses it and changes nothing.
//!
//! The caller passes the file, its mode, and what must not be lost ([`Durability`]). Errors name the step and the path.
//!
//! Not for: files that are appended to, databases, other systems than Linux.
//!
//! ```
//! # fn main() -> procprof_files::Result<()> {
//! # let folder = tempfile::tempdir().expect("a temporary folder");
//! let path = folder.path().join("nodes.json");
//! procprof_files::replace(&path, b"{}", 0o640)?;
//! procprof_files::replace(&path, b"{\"next\":20001}", 0o640)?;
//! assert_eq!(std::fs::read(&path).expect("it is there"), b"{\"next\":20001}");
//! # Ok(())
//! # }
//! ```

mod cache;
mod error;
mod folder;
mod new_file;
mod output;
mod read;
mod version;

pub use cache::{Bounds, CachedFile, FileCache, Layout, surplus};
pub use error::{Error, Result};
pub use folder::{EntryKind, FileState, Folder};
pub use new_file::{Durability, NewFile, create, remove, replace};
pub use output::{write_over, write_over_by};
pub use read::read;
pub use version::DiskFormat;
