//! The caller's side of reading files: its log, its cache, its allocator.

use procprof_symbolize::IndexFolder;

/// The caller's services for reading files.
#[derive(Clone, Debug)]
pub struct Environment {
    /// The folder that caches what was read from binaries.
    pub cache: Option<IndexFolder>,
    /// Takes a line for standard error.
    pub log: fn(&str),
    /// Called before a profile of that many bytes is read.
    pub expect_input: fn(u64),
}
