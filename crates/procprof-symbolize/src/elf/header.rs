//! The headers of an ELF file.

use std::path::Path;

use object::Object;

use super::file_bytes::FileBytes;
use crate::{Error, Result};

/// Parses the headers of an ELF file.
pub(crate) fn parse_elf<'data>(bytes: &'data FileBytes, path: &Path) -> Result<object::File<'data>> {
    if !bytes.starts_with(b"\x7fELF") {
        return Err(Error::NotElf { path: path.to_owned() });
    }
    object::File::parse(&**bytes).map_err(|error| Error::Damaged { path: path.to_owned(), what: error.to_string() })
}

/// Whether the file has debug information of its own.
pub(crate) fn has_dwarf(object: &object::File<'_>) -> bool {
    object.section_by_name(".debug_info").is_some()
}
