//! Names and places as GNU binutils print them: [`nm`]'s list of symbols, [`addr2line`]'s frames.
//!
//! jeprof takes its names from these two tools, so its rows can be told apart or equal only by
//! their rules. They differ from [`Image::resolve`]'s where that one knows better, and only the
//! compatible grammar should ask here:
//!
//! - where the debug information has a bare name only, the innermost frame takes the name of the
//!   symbol around the address, the first time that very call is looked up;
//! - a symbol covers everything up to the next one, whatever its size says;
//! - of the functions that hold an address the one with the shortest range counts;
//! - a place may end in ` (discriminator N)`, the innermost one's for all frames.
//!
//! Behaviour: binutils 2.40, found by comparison.

mod around;
mod dwarf;
mod find_function;
mod frames;
mod functions;
mod ladder;
mod line_table;
mod names;
mod nm;
mod symbol_table;

use std::sync::Arc;

use object::{Object, ObjectSection};
use procprof_profile::SymbolAddr;

use crate::Image;
use crate::image::{has_dwarf, parse_elf};

pub use names::demangle;
pub use nm::{NmSymbol, nm, nm_around};

/// One line pair of `addr2line -f -C -i`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Frame {
    /// Demangled name; `??` if there is none.
    pub name: Arc<str>,
    /// `FILE:LINE`, `FILE:?`, `??:?` or `??:0`, perhaps with ` (discriminator N)`.
    pub place: Arc<str>,
}

impl Frame {
    fn unknown() -> Self {
        Self { name: "??".into(), place: "??:0".into() }
    }
}

/// Where the code of a file is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TextSection {
    /// Its address in the image.
    pub address: u64,
    /// Its place in the file.
    pub offset: u64,
    /// Its size in bytes.
    pub size: u64,
}

/// Where `.text` of a file is; `None` if it has none.
pub fn text_section(image: &Image) -> Option<TextSection> {
    let object = parse_elf(&image.bytes, image.path()).ok()?;
    let text = object.section_by_name(".text")?;
    let (offset, _) = text.file_range()?;
    Some(TextSection { address: text.address(), offset, size: text.size() })
}

/// What is asked for of addresses.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Detail {
    /// Names only; places are of no use. Lines are not read then, which takes half the time.
    Names,
    /// Names, files and lines.
    #[default]
    NamesAndPlaces,
}

/// Looks the addresses up one after the other, in their order; frames come innermost first, and
/// there is always at least one.
pub fn addr2line(image: &Image, addresses: &[SymbolAddr]) -> Vec<Vec<Frame>> {
    addr2line_in(image, addresses, Detail::NamesAndPlaces)
}

/// As [`addr2line`], with no more than that detail: places of names alone are `??:0` or the like.
pub fn addr2line_in(image: &Image, addresses: &[SymbolAddr], detail: Detail) -> Vec<Vec<Frame>> {
    let Ok(main) = parse_elf(&image.bytes, image.path()) else {
        return vec![vec![Frame::unknown()]; addresses.len()];
    };
    let debug = image.debug.as_ref().and_then(|debug| parse_elf(&debug.bytes, &debug.file.path).ok());
    let debug = debug.filter(has_dwarf);
    dwarf::resolve(image, debug.as_ref().unwrap_or(&main), addresses, detail)
}
