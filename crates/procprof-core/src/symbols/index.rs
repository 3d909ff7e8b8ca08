//! The metadata of an index: read before it is kept, and again when the server starts.

use std::path::Path;

use procprof_symbolize::{Contents, SymbolIndex};

use super::SymbolKey;
use super::record::{Detail, IndexFacts};

/// Longest name of a file, in bytes.
const NAME_MAX: usize = 255;

/// Checks an index from end to end: form, version, checksums, sizes.
///
/// # Errors
/// In words, what is wrong with it.
pub(crate) fn check(path: &Path) -> Result<IndexFacts, String> {
    let index = SymbolIndex::open(path, u64::MAX).map_err(|error| error.to_string())?;
    if !index.is_complete() {
        return Err("it knows only some of the file's addresses".to_owned());
    }
    let name = index.file_name();
    if name.is_empty() || name.len() > NAME_MAX || name.contains('/') || !crate::is_plain(name) {
        return Err("its file has no proper name".to_owned());
    }
    let Contents { functions, has_lines } = index.contents().map_err(|error| error.to_string())?;
    let detail = if has_lines { Detail::Lines } else { Detail::Functions };
    Ok(IndexFacts { key: key(&index)?, name: name.to_owned(), functions, detail })
}

/// The key of an index that was checked when it was stored.
///
/// # Errors
/// It cannot be opened.
pub(crate) fn key_of(path: &Path) -> Result<SymbolKey, String> {
    key(&SymbolIndex::open(path, u64::MAX).map_err(|error| error.to_string())?)
}

fn key(index: &SymbolIndex) -> Result<SymbolKey, String> {
    index.key().parse().map_err(|error: super::key::ParseKeyError| error.to_string())
}
