//! The headers of an image and of the files that belong to it: the start of every look-up.

use gimli::RunTimeEndian;
use object::{File, Object};

use super::header::{has_dwarf, parse_elf};
use super::image::Image;
use crate::Result;

/// An image with the headers of its files parsed. Broken ones beside the image itself count as missing.
pub(crate) struct ParsedImage<'data> {
    pub(crate) main: File<'data>,
    /// Its separate debug file.
    pub(crate) debug: Option<File<'data>>,
    /// The file that the debug information shares parts with.
    pub(crate) shared: Option<File<'data>>,
    /// The package of units that were split off.
    pub(crate) package: Option<File<'data>>,
}

impl Image {
    /// Parses the headers.
    ///
    /// # Errors
    /// The image's own are broken.
    pub(crate) fn parsed(&self) -> Result<ParsedImage<'_>> {
        let debug = self.debug.as_ref().and_then(|debug| parse_elf(&debug.bytes, &debug.file.path).ok());
        let shared = self.shared.as_ref().and_then(|shared| parse_elf(&shared.bytes, &shared.file).ok());
        let package = self.package.as_ref().and_then(|package| parse_elf(&package.bytes, &package.file).ok());
        Ok(ParsedImage { main: parse_elf(&self.bytes, self.path())?, debug, shared, package })
    }
}

impl<'data> ParsedImage<'data> {
    /// The file with the debug information: the separate one, else the image itself.
    pub(crate) fn with_dwarf(&self) -> Option<&File<'data>> {
        self.debug.as_ref().filter(|debug| has_dwarf(debug)).or(has_dwarf(&self.main).then_some(&self.main))
    }

    pub(crate) fn endian(&self) -> RunTimeEndian {
        if self.main.is_little_endian() { RunTimeEndian::Little } else { RunTimeEndian::Big }
    }
}
