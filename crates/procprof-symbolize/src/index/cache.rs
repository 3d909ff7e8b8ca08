//! The cache of one file: an index of the functions that were requested so far.
//!
//! A batch is looked up in the cache first, and the rest in the debug information. The whole functions that were read
//! are added at the end of the batch, while the answers are already used, so that other addresses of the same functions
//! are known the next time. Addresses without a function (symbols, lines of assembly) are added one by one. Nothing is
//! added for files without a build id, and nothing of units that were split off.
//!
//! A guide to each unit that was read is also added: where in the debug information its functions and lines are, so
//! that another function of the unit can be read without reading the unit.
//!
//! A cache belongs to one set of files: its name contains the build id and the sizes of the binary and its debug files,
//! so that a debug file that was installed later is not missed.

use std::borrow::Cow;

use super::SymbolIndex;
use super::build::head;
use super::encode::{FunctionNames, PartWriter, Piece, RawPart};
use super::head::{Head, IndexWriter, PartEntry, StoredPart, error};
use super::kept::Kept;

use crate::dwarf::{DebugInfo, Guide, Guides};
use crate::elf::ImageCache;
use crate::elf::symbols::order;
use crate::leb::Read;
use crate::lookup::{Node, Record, Records, Row, UnitAnswers};
use crate::ranges::Span;
use crate::{Frame, Image, Result};

/// Number of parts from which on a cache starts anew, since each batch adds some, and all are read.
const PARTS_MAX: usize = 256;
/// Most parts that a batch adds, of 2 MiB and more where functions do not overlap; the rest is read from the files
/// again.
const NEW_PARTS_MAX: usize = 512;

/// The start of a part that covers no address is its kind: names.
pub(super) const NAMES: u64 = 1;
/// As [`NAMES`]: symbols.
pub(super) const SYMBOLS: u64 = 2;
/// As [`NAMES`]: guides.
pub(super) const GUIDES: u64 = 3;

impl ImageCache {
    /// The cache; `None` if there is none, or none that can be read.
    pub(crate) fn open(&self, image: &Image) -> Option<SymbolIndex> {
        self.folder.open(&self.name).filter(|index| index.build_id() == image.build_id())
    }

    /// Adds to the cache in a thread of its own. A cache that can't be written is as good as none, so errors are not
    /// reported.
    pub(crate) fn add(&self, image: &Image, known: Option<SymbolIndex>, kept: Kept) {
        if kept.is_empty() {
            return;
        }
        let head: Head = head(image, false);
        self.folder.write_behind(&self.name, move |file| {
            let known = known.filter(|known| known.head.parts.len() < PARTS_MAX);
            let mut index = IndexWriter::new(file, head, PARTS_MAX + NEW_PARTS_MAX)?;
            let mut former = 0;
            for part in known.iter().flat_map(|known| known.head.stored(&known.bytes)) {
                former += usize::from(index.add(&part)?);
            }
            kept.each_part(|part| index.add(&StoredPart::raw(&part)).map(drop))?;
            Ok(index.finish()? > former)
        });
    }
}

/// The cached guides.
pub(crate) fn guides(index: &SymbolIndex) -> Guides<'_> {
    Guides::from_parts(parts_of(index, GUIDES).collect())
}

/// The parts with names.
pub(crate) fn name_parts(index: &SymbolIndex) -> Vec<Cow<'_, [u8]>> {
    parts_of(index, NAMES).collect()
}

/// The part with symbols.
pub(crate) fn symbol_part(index: &SymbolIndex) -> Option<Cow<'_, [u8]>> {
    parts_of(index, SYMBOLS).last()
}

/// Calls the function with the names in a part, mangled and readable. Of a broken part, those before the damage are
/// used.
pub(crate) fn each_name<'p>(part: &'p [u8], mut add: impl FnMut(&'p str, &'p str)) {
    let mut read = Read(part);
    while let (Ok(mangled), Ok(name)) = (read.bytes(), read.bytes()) {
        if let (Ok(mangled), Ok(name)) = (std::str::from_utf8(mangled), std::str::from_utf8(name)) {
            add(mangled, name);
        }
    }
}

/// Checks a part that covers no address; the others are checked when they are used.
pub(super) fn check(part: &PartEntry, bytes: &[u8]) -> Result<()> {
    let malformed = |_| error("a malformed part");
    let mut read = Read(bytes);
    let next = match (part.begin, part.end) {
        (SYMBOLS, SYMBOLS) => return order::check(bytes).map_err(malformed),
        (GUIDES, GUIDES) => {
            |read: &mut Read<'_>| Guide::read_next(read).and_then(|(_, bytes)| Guide::read(bytes)).map(drop)
        }
        (NAMES, NAMES) => |read: &mut Read<'_>| read.bytes().and_then(|_| read.bytes()).map(drop),
        _ => return Ok(()),
    };
    while !read.0.is_empty() {
        next(&mut read).map_err(malformed)?;
    }
    Ok(())
}

/// The parts of a kind that covers no address.
fn parts_of(index: &SymbolIndex, kind: u64) -> impl Iterator<Item = Cow<'_, [u8]>> {
    let own = index.head.parts.iter().filter(move |part| (part.begin, part.end) == (kind, kind));
    own.filter_map(|part| part.decompressed(&index.bytes).ok())
}

/// Whether a record is cached: its names do not depend on symbols, nor its extent on other units.
pub(crate) fn is_kept(info: &DebugInfo<'_>, found: &UnitAnswers<'_, '_>, record: &Record) -> bool {
    let function = record.function.map(|function| &found.names.functions[function as usize]);
    let is_named = function.is_some_and(|function| !function.name.is_empty() && !function.has_bare_name());
    is_named && info.units.is_sole(record.begin, record.end)
}

/// The answers of single addresses, which ascend.
pub(crate) fn points<'f>(answers: impl Iterator<Item = (u64, &'f [Frame])>) -> Vec<RawPart> {
    let mut writer = PartWriter::default();
    for (address, frames) in answers {
        let Some((outermost, inlined)) = frames.split_last().filter(|_| address < u64::MAX) else { continue };
        let names = |frame: &'f Frame| FunctionNames {
            system_name: &frame.system_name,
            name: Some(&frame.name),
            start_line: frame.start_line.unwrap_or(0),
        };
        // Numbers of functions and files are those of the frames.
        let row = |number: usize| {
            let frame = &frames[number];
            let (line, column) = (frame.line.unwrap_or(0), frame.column.unwrap_or(0));
            Row { file: frame.file.as_ref().map(|_| number as u32), line, column }
        };
        let count = inlined.len();
        let node = |depth: usize| {
            let function = (count - 1 - depth) as u32;
            Node { function, call: row(count - depth), ranges: 0..1, behind: count as u32 }
        };
        let records = Records {
            nodes: (0..count).map(node).collect(),
            ranges: vec![(address, address + 1)],
            rows: vec![Span { begin: address, end: address + 1, value: row(0) }],
            all: Vec::new(),
        };
        let piece = Piece {
            begin: address,
            end: address + 1,
            function: Some(names(outermost)),
            nodes: 0..count as u32,
            rows: 0..1,
        };
        writer.forget_numbers();
        let file = |number: u32| frames[number as usize].file.as_deref().unwrap_or_default();
        writer.add(&records, &piece, |number| Some(names(&frames[number as usize])), file);
    }
    writer.finish()
}
