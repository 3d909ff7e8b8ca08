//! The contents of an index, and whether a file has those of a good one.

use super::decode::Part;
use super::head;
use crate::dwarf::Guides;
use crate::elf::{Segment, Symbols};
use crate::lookup::{Opened, with_opened};
use crate::{Image, Result, SymbolIndex};

/// Longest key, in bytes.
const KEY_BYTES_MAX: usize = 180;

/// The contents of an index.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Contents {
    /// Functions with code of their own.
    pub functions: u64,
    /// Whether there are source files and lines.
    pub has_lines: bool,
}

impl SymbolIndex {
    pub(crate) fn segments(&self) -> &[Segment] {
        &self.head.segments
    }

    /// Reads all parts and returns their contents. Errs if any is broken, so that such an index can be refused when it
    /// arrives.
    pub fn contents(&self) -> Result<Contents> {
        let mut contents = Contents::default();
        for entry in &self.head.parts {
            let bytes = entry.decompressed(&self.bytes)?;
            let part = Part::read(&bytes, entry.begin).map_err(|_| head::error("a malformed part"))?;
            contents.functions += part.record_count() as u64;
            contents.has_lines |= part.file_count() > 0;
        }
        Ok(contents)
    }

    /// The key to store it by: the build id in hexadecimal, or else `layout-KEY-NAME`.
    ///
    /// It consists of letters, digits, `.`, `_`, `+` and `-`, is at most 180 bytes long and begins with
    /// no dot, so it can be the name of a file.
    pub fn key(&self) -> String {
        let legal = |letter: char| if letter.is_ascii_alphanumeric() || "._+-".contains(letter) { letter } else { '_' };
        let text = match self.build_id() {
            Some(build_id) => build_id.to_string(),
            None => format!("layout-{}-{}", self.layout_key(), self.file_name()),
        };
        text.chars().map(legal).take(KEY_BYTES_MAX).collect()
    }
}

impl Image {
    /// Whether it, or its debug file, names all of its code: by debug information or a table of all symbols, not only
    /// the exported ones.
    pub fn has_symbols(&self) -> bool {
        with_opened(self, Some(&[]), Guides::default(), |opened| {
            opened.is_some_and(|Opened { files, info, .. }| info.is_some() || !Symbols::at(files, &[]).is_partial)
        })
    }
}
