//! The sections of one module, and how to find the entries of an address range in them.
//!
//! `.eh_frame_hdr` holds a table sorted by address, so a region is found without reading the rest:
//!
//! ```text
//! version u8 (1), encoding of the .eh_frame pointer u8, of the count u8 (0x03: u32), of the table u8 (0x3b), pointer, count,
//! then count times: first address i32, address of the FDE i32, both relative to the start of this section
//! ```
//!
//! Without it (or with another encoding, which no linker writes) all of `.eh_frame` is read once to make such an index.
//! Source: Linux Standard Base Core 5.0, 10.6.2 "The .eh_frame_hdr section".

use crate::Architecture;
use crate::entry::{self, Cie, Fde};
use crate::instruction::Prepared;
use crate::pointer;
use crate::reader::Reader;

/// CIEs kept at once; a linked module has a handful, and their functions alternate.
const KEPT_CIES: usize = 8;

/// Bytes and the address they are loaded at, in the address space of the table: file addresses, or those of a running
/// process.
#[derive(Clone, Copy, Debug, Default)]
pub struct Section<'a> {
    /// The contents.
    pub bytes: &'a [u8],
    /// The address of the first byte.
    pub address: u64,
}

impl Section<'_> {
    /// The start of `.eh_frame`, if this is an `.eh_frame_hdr`: a running module's program headers name only the
    /// latter.
    pub fn eh_frame_address(&self) -> Option<u64> {
        Header::parse(*self).map(|header| header.eh_frame)
    }

    /// Whether this is an `.eh_frame_hdr` with a table by which [`Source`] finds functions.
    pub fn has_search_table(&self) -> bool {
        Header::parse(*self).and_then(|header| header.table()).is_some_and(|table| !table.is_empty())
    }

    /// The place of that table in this section: entries of eight bytes, sorted by address, each the distance of a
    /// function's first address and that of its entry's address from the start of this section. `None` if there is none.
    pub fn search_table_place(&self) -> Option<std::ops::Range<usize>> {
        let header = Header::parse(*self)?;
        let table = header.table().filter(|table| !table.is_empty())?;
        let start = self.bytes.len().checked_sub(header.rest.bytes().len())?;
        Some(start..start + size_of_val(table))
    }
}

/// The contents of an `.eh_frame_hdr` at an address, for an `.eh_frame` that has none: all its entries are read once,
/// so that no [`Source`] has to.
///
/// `None` if a function or an entry is too far away for 32 bits.
pub fn search_table(eh_frame: Section<'_>, address: u64) -> Option<Vec<u8>> {
    let relative = |to: u64, from: u64| i32::try_from(to.wrapping_sub(from).cast_signed()).ok();
    let entries = scan(eh_frame);
    let mut table = Vec::with_capacity(12 + 8 * entries.len());
    table.extend([1, pointer::RELATIVE_TO_PLACE | pointer::SIGNED_32, pointer::UNSIGNED_32, pointer::HEADER_TABLE]);
    table.extend(relative(eh_frame.address, address.wrapping_add(4))?.to_le_bytes());
    table.extend(u32::try_from(entries.len()).ok()?.to_le_bytes());
    for (start, offset) in entries {
        table.extend(relative(start, address)?.to_le_bytes());
        table.extend(relative(eh_frame.address.wrapping_add(offset.into()), address)?.to_le_bytes());
    }
    Some(table)
}

/// The source of compiled rules.
#[derive(Debug)]
pub struct Source<'a> {
    pub(crate) architecture: Architecture,
    eh_frame: Section<'a>,
    index: Index<'a>,
}

#[derive(Debug)]
enum Index<'a> {
    /// The table of `.eh_frame_hdr` and what it is relative to.
    Header { table: &'a [[u8; 8]], base: u64 },
    /// First address and offset in `.eh_frame`, sorted.
    Scanned(Vec<(u64, u32)>),
}

impl<'a> Source<'a> {
    /// A module's `.eh_frame`, which may go on past its end to that of its segment, and its `.eh_frame_hdr` (empty:
    /// none).
    ///
    /// With a search table this reads nothing; without one it reads all entries and takes up to twice the section's
    /// size.
    pub fn new(architecture: Architecture, eh_frame: Section<'a>, eh_frame_hdr: Section<'a>) -> Self {
        let table = Header::parse(eh_frame_hdr).and_then(|header| header.table());
        let index = match table {
            Some(table) if !table.is_empty() => Index::Header { table, base: eh_frame_hdr.address },
            _ => Index::Scanned(scan(eh_frame)),
        };
        Self { architecture, eh_frame, index }
    }

    /// The number of functions in the index.
    pub fn functions(&self) -> usize {
        match &self.index {
            Index::Header { table, .. } => table.len(),
            Index::Scanned(entries) => entries.len(),
        }
    }

    /// The first function's address and the last one's: addresses before or far behind have no rules.
    pub fn span(&self) -> Option<(u64, u64)> {
        let last = self.functions().checked_sub(1)?;
        Some((self.entry(0)?.0, self.entry(last)?.0))
    }

    /// First address and offset in `.eh_frame` of the entry at `position`.
    fn entry(&self, position: usize) -> Option<(u64, usize)> {
        match &self.index {
            Index::Header { table, base } => {
                let [a, b, c, d, e, f, g, h] = *table.get(position)?;
                let relative = |bytes| base.wrapping_add(i64::from(i32::from_le_bytes(bytes)) as u64);
                let offset = relative([e, f, g, h]).wrapping_sub(self.eh_frame.address);
                Some((relative([a, b, c, d]), usize::try_from(offset).ok()?))
            }
            Index::Scanned(entries) => entries.get(position).map(|(address, offset)| (*address, *offset as usize)),
        }
    }

    /// The function whose entry is at `offset` of the section, and its CIE.
    pub(crate) fn entry_at(&self, offset: usize) -> Option<(Fde<'a>, Cie<'a>)> {
        let Section { bytes, address } = self.eh_frame;
        let mut body = entry::body(bytes, address, offset)?;
        let cie = Cie::parse(bytes, address, entry::cie_of(&mut body)??)?;
        Some((cie.fde(body.reader)?, cie))
    }

    /// Entries by address, from the last one that begins at or before `address` on.
    pub(crate) fn entries_from(&self, address: u64) -> impl Iterator<Item = (u64, usize)> + '_ {
        let (mut low, mut high) = (0, self.functions());
        while low < high {
            let middle = low + (high - low) / 2;
            match self.entry(middle) {
                Some((start, _)) if start <= address => low = middle + 1,
                _ => high = middle,
            }
        }
        (low.saturating_sub(1)..self.functions()).filter_map(|position| self.entry(position))
    }
}

/// Reads entries of a source, keeping the CIEs it has seen.
pub(crate) struct EntryReader<'s, 'a> {
    source: &'s Source<'a>,
    kept: Vec<(usize, Prepared<'a>)>,
    oldest: usize,
    recent: usize,
}

impl<'s, 'a> EntryReader<'s, 'a> {
    pub(crate) fn new(source: &'s Source<'a>) -> Self {
        Self { source, kept: Vec::with_capacity(KEPT_CIES), oldest: 0, recent: 0 }
    }

    /// The function whose entry is at `offset`, and its CIE.
    pub(crate) fn read(&mut self, offset: usize) -> Option<(Fde<'a>, &Prepared<'a>)> {
        let Section { bytes, address } = self.source.eh_frame;
        let mut body = entry::body(bytes, address, offset)?;
        let cie = entry::cie_of(&mut body)??;
        self.recent = self.place(cie)?;
        let (_, prepared) = self.kept.get(self.recent)?;
        let fde = prepared.cie.fde(body.reader)?;
        Some((fde, prepared))
    }

    /// The slot of the CIE at an offset.
    fn place(&mut self, offset: usize) -> Option<usize> {
        if self.kept.get(self.recent).is_some_and(|(kept, _)| *kept == offset) {
            return Some(self.recent);
        }
        if let Some(place) = self.kept.iter().position(|(kept, _)| *kept == offset) {
            return Some(place);
        }
        let Section { bytes, address } = self.source.eh_frame;
        let prepared = Prepared::new(Cie::parse(bytes, address, offset)?, self.source.architecture)?;
        if self.kept.len() < KEPT_CIES {
            self.kept.push((offset, prepared));
            return Some(self.kept.len() - 1);
        }
        self.oldest = (self.oldest + 1) % KEPT_CIES;
        *self.kept.get_mut(self.oldest)? = (offset, prepared);
        Some(self.oldest)
    }
}

struct Header<'a> {
    eh_frame: u64,
    count: u64,
    table_encoding: u8,
    rest: Reader<'a>,
}

impl<'a> Header<'a> {
    fn parse(section: Section<'a>) -> Option<Self> {
        let mut reader = Reader::new(section.bytes, section.address);
        if reader.u8()? != 1 {
            return None;
        }
        let (pointer_encoding, count_encoding, table_encoding) = (reader.u8()?, reader.u8()?, reader.u8()?);
        let eh_frame = pointer::read(&mut reader, pointer_encoding, Some(section.address))?;
        let count = if count_encoding == pointer::OMIT { 0 } else { pointer::raw(&mut reader, count_encoding)? };
        Some(Self { eh_frame, count, table_encoding, rest: reader })
    }

    fn table(&self) -> Option<&'a [[u8; 8]]> {
        if self.table_encoding != pointer::HEADER_TABLE {
            return None;
        }
        self.rest.bytes().as_chunks().0.get(..usize::try_from(self.count).ok()?)
    }
}

/// All functions of an `.eh_frame`, up to its terminator or the first entry cut short.
fn scan(section: Section<'_>) -> Vec<(u64, u32)> {
    let mut entries = Vec::new();
    let mut cie: Option<(usize, Cie<'_>)> = None;
    let mut offset = 0;
    while let Some(mut body) = entry::body(section.bytes, section.address, offset) {
        let at = u32::try_from(offset);
        offset = body.next;
        let (Some(Some(cie_at)), Ok(at)) = (entry::cie_of(&mut body), at) else { continue };
        if cie.is_none_or(|(kept, _)| kept != cie_at) {
            cie = Cie::parse(section.bytes, section.address, cie_at).map(|cie| (cie_at, cie));
        }
        entries.extend(cie.and_then(|(_, cie)| cie.fde(body.reader)).map(|fde| (fde.range.start, at)));
    }
    entries.sort_unstable();
    // Of two entries for a function the first counts.
    entries.dedup_by_key(|(start, _)| *start);
    entries
}
