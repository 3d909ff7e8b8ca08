//! Names and places as GNU binutils print them: [`nm`]'s list of symbols, [`addr2line`]'s frames.
//!
//! jeprof takes its names from these two tools, so its rows can be separated or merged only by their rules. They differ
//! from those of [`Image::resolve`], which is more accurate; only the jeprof-compatible grammar should use this module:
//!
//! - where the debug information has a bare name only, the innermost frame takes the name of the
//!   symbol around the address, the first time that call is looked up;
//! - a symbol covers everything up to the next one, regardless of its size;
//! - of the functions that contain an address, the one with the shortest range is chosen;
//! - a place may end in ` (discriminator N)`, that of the innermost frame for all frames.
//!
//! With [`ImageOptions::cache`](crate::ImageOptions::cache) a file beside the index, of the same layout, caches where
//! the functions of each unit are described, demangled names, and the symbols by address: see [`crate::index`]. The
//! results are the same with and without it.
//!
//! Behaviour: binutils 2.40, found by comparison.

mod around;
mod dwarf;
mod find_function;
mod frames;
mod functions;
mod kept;
mod line_table;
mod names;
mod nm;
mod tables;

use std::borrow::Cow;
use std::sync::Arc;

use foldhash::HashMap;
use object::{Object, ObjectSection};
use procprof_profile::SymbolAddr;

use crate::Image;
use crate::elf::parse_elf;

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

/// The place of a file's code.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TextSection {
    /// Its address in the image.
    pub address: u64,
    /// Its place in the file.
    pub offset: u64,
    /// Its size in bytes.
    pub size: u64,
}

/// The place of `.text` in a file; `None` if it has none.
pub fn text_section(image: &Image) -> Option<TextSection> {
    let object = parse_elf(&image.bytes, image.path()).ok()?;
    let text = object.section_by_name(".text")?;
    let (offset, _) = text.file_range()?;
    Some(TextSection { address: text.address(), offset, size: text.size() })
}

/// The detail that is requested for addresses.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Detail {
    /// Names only. Lines are not read, which takes half the time.
    Names,
    /// Names, files and lines.
    #[default]
    NamesAndPlaces,
}

/// The result of looking up addresses.
#[derive(Debug, Default)]
pub struct Answers<'a> {
    /// The frames of each address, innermost first, in the order of addresses; each has at least one.
    pub frames: Vec<Vec<Frame>>,
    /// The names in them.
    pub demangled: Demangled,
    /// As [`nm_around`].
    pub symbols: Vec<NmSymbol<'a>>,
}

/// Demangled names by linker names, for those that were met.
#[derive(Debug, Default)]
pub struct Demangled(HashMap<Arc<str>, Arc<str>>);

impl Demangled {
    /// As [`demangle`], without repeating it for a name that was met.
    pub fn name(&self, mangled: &str) -> Cow<'_, str> {
        match self.0.get(mangled) {
            Some(name) => Cow::Borrowed(name),
            None => Cow::Owned(demangle(mangled)),
        }
    }
}

/// Looks the addresses up one after the other, in their order; frames come innermost first, and
/// there is always at least one.
pub fn addr2line(image: &Image, addresses: &[SymbolAddr]) -> Vec<Vec<Frame>> {
    look_up(image, addresses, Detail::NamesAndPlaces).frames
}

/// As [`addr2line`] and [`nm_around`], with that detail only: without places these are `??:0` or similar.
pub fn look_up<'a>(image: &'a Image, addresses: &[SymbolAddr], detail: Detail) -> Answers<'a> {
    match image.parsed() {
        Ok(parsed) => dwarf::resolve(image, &parsed, addresses, detail),
        Err(_) => Answers { frames: vec![vec![Frame::unknown()]; addresses.len()], ..Answers::default() },
    }
}
