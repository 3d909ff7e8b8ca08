//! The units, and those that cover an address.
//!
//! If the compiler or assembler made a table of a unit's addresses (`.debug_aranges`), it is used; otherwise the root
//! entry is read, and if it has no ranges either, the line program.

use std::sync::OnceLock;

use gimli::{AttributeValue, DebugInfoOffset, DebugLineOffset, DwLang, Section, UnitOffset, UnitType};

use super::address_tables::{AddressTables, Keep};
use super::root_ranges;
use super::rows::sequences;
use super::{Dwarf, Reader, Unit, UnitHeader, UnitRef};
use crate::workers;

/// The units of one file, by offset.
pub(crate) struct Units<'a> {
    entries: Vec<Entry<'a>>,
    ranges: Vec<UnitRange>,
    /// Whether a header is broken, so that units may be missing.
    pub(crate) damaged: bool,
}

struct Entry<'a> {
    header: UnitHeader<'a>,
    offset: usize,
    /// Read when first needed; `None` if it is broken.
    root: OnceLock<Option<Box<Root<'a>>>>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct UnitRange {
    begin: u64,
    end: u64,
    unit: u32,
    /// The least `begin` of this range and all behind.
    begin_from_here: u64,
}

impl UnitRange {
    fn new(range: gimli::Range, unit: u32) -> Self {
        Self { begin: range.begin, end: range.end, unit, begin_from_here: 0 }
    }
}

impl<'a> Units<'a> {
    /// The units that others refer to.
    pub(crate) fn without_ranges(dwarf: &Dwarf<'a>) -> Self {
        /// The least bytes of a unit on average, to reserve space; the table grows for more units.
        const UNIT_BYTES: usize = 64 << 10;
        let mut headers = dwarf.units();
        let mut entries = Vec::with_capacity(dwarf.debug_info.reader().slice().len() / UNIT_BYTES);
        let damaged = loop {
            match headers.next() {
                Ok(Some(header)) => {
                    if let Some(DebugInfoOffset(offset)) = header.debug_info_offset() {
                        entries.push(Entry { header, offset, root: OnceLock::new() });
                    }
                }
                Ok(None) => break false,
                Err(_) => break true,
            }
        };
        Self { entries, ranges: Vec::new(), damaged }
    }

    /// The units at some offsets, which ascend, with those addresses they cover that are `wanted`, which ascend, too.
    pub(crate) fn at_offsets(dwarf: &Dwarf<'a>, offsets: &[usize], wanted: &[u64], threads: usize) -> Self {
        let entry = |offset: &usize| {
            let header = dwarf.debug_info.header_from_offset(DebugInfoOffset(*offset)).ok()?;
            Some(Entry { header, offset: *offset, root: OnceLock::new() })
        };
        let entries: Vec<Entry<'a>> = offsets.iter().filter_map(entry).collect();
        let damaged = entries.len() < offsets.len();
        let keep = Keep::new(Some(wanted));
        Self { entries, ranges: Vec::new(), damaged }.ranged(dwarf, &AddressTables::read(dwarf, &keep), &keep, threads)
    }

    /// The units with the addresses they cover: all, or those with one of `wanted`, which ascend.
    pub(crate) fn with_ranges(dwarf: &Dwarf<'a>, wanted: Option<&[u64]>, threads: usize) -> Self {
        /// Bytes of tables that are worth a thread: reading them takes about a millisecond.
        const THREAD_BYTES: usize = 1 << 20;
        let keep = Keep::new(wanted);
        let is_alone = threads == 1 || dwarf.debug_aranges.reader().slice().len() < THREAD_BYTES;
        let (tables, units) = if is_alone {
            (AddressTables::read(dwarf, &keep), Self::without_ranges(dwarf))
        } else {
            std::thread::scope(|scope| {
                let tables = scope.spawn(|| AddressTables::read(dwarf, &keep));
                let units = Self::without_ranges(dwarf);
                (tables.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic)), units)
            })
        };
        units.ranged(dwarf, &tables, &keep, threads)
    }

    fn ranged(self, dwarf: &Dwarf<'a>, tables: &AddressTables, keep: &Keep<'_>, threads: usize) -> Self {
        /// Units a thread takes at a time.
        const CHUNK: usize = 64;
        /// Units that are worth a thread.
        const THREAD_UNITS: usize = 4096;
        let mut units = self;
        let entries = &units.entries;
        // Partial units are only referred to, and type units have no code.
        let number = |offset: &usize| {
            entries.binary_search_by_key(offset, |entry| entry.offset).ok().filter(|unit| entries[*unit].has_code())
        };
        let mut has_table = vec![false; entries.len()];
        tables.units.iter().filter_map(number).for_each(|unit| has_table[unit] = true);
        let in_tables =
            tables.ranges.iter().filter_map(|(range, offset)| Some(UnitRange::new(*range, number(offset)? as u32)));
        let mut ranges: Vec<UnitRange> = in_tables.collect();
        let without_table = has_table.iter().filter(|has_table| !**has_table).count();
        let threads = threads.min(1 + without_table / THREAD_UNITS);
        let found = workers::run(entries.len().div_ceil(CHUNK), threads, Vec::new, |ranges, chunk| {
            let first = chunk * CHUNK;
            for (index, entry) in entries.iter().enumerate().skip(first).take(CHUNK) {
                if !has_table[index] {
                    add_ranges(dwarf, entry, index as u32, keep, ranges);
                }
            }
        });
        ranges.extend(found.into_iter().flatten());
        ranges.sort_unstable_by_key(|range| (range.end, range.unit, range.begin));
        let mut least = u64::MAX;
        for range in ranges.iter_mut().rev() {
            least = least.min(range.begin);
            range.begin_from_here = least;
        }
        units.ranges = ranges;
        units
    }

    /// The units that cover the address, the one whose range ends first before the others.
    pub(crate) fn at(&self, address: u64) -> impl Iterator<Item = usize> {
        let first = self.ranges.partition_point(|range| range.end <= address);
        let reaching = self.ranges[first..].iter().take_while(move |range| range.begin_from_here <= address);
        reaching.filter(move |range| range.begin <= address).map(|range| range.unit as usize)
    }

    /// Whether one unit covers every address of `begin..end`, and no other any, as far as ranges are known.
    pub(crate) fn is_sole(&self, begin: u64, end: u64) -> bool {
        let first = self.ranges.partition_point(|range| range.end <= begin);
        let reaching = self.ranges[first..].iter().take_while(|range| range.begin_from_here < end);
        let mut overlapping = reaching.filter(|range| range.begin < end);
        let Some(one) = overlapping.clone().find(|range| range.begin <= begin && end <= range.end) else {
            return false;
        };
        overlapping.all(|range| range.unit == one.unit)
    }

    /// Pieces of the address space with the units that cover them, in the order in which these are queried. They
    /// ascend; addresses that no unit covers are left out.
    pub(crate) fn pieces(&self) -> Vec<(u64, u64, Vec<u32>)> {
        let mut edges: Vec<(u64, bool, usize)> = Vec::with_capacity(self.ranges.len() * 2);
        for (number, range) in self.ranges.iter().enumerate().filter(|(_, range)| range.begin < range.end) {
            edges.extend([(range.begin, true, number), (range.end, false, number)]);
        }
        edges.sort_unstable();
        let mut pieces: Vec<(u64, u64, Vec<u32>)> = Vec::new();
        // Ranges are numbered in the order in which they are queried.
        let mut open = std::collections::BTreeSet::new();
        let mut from = 0;
        for (address, opens, number) in edges {
            if !open.is_empty() && from < address {
                let mut units: Vec<u32> = open.iter().map(|range: &usize| self.ranges[*range].unit).collect();
                let mut seen = foldhash::HashSet::default();
                units.retain(|unit| seen.insert(*unit));
                match pieces.last_mut() {
                    Some((_, end, before)) if *end == from && *before == units => *end = address,
                    _ => pieces.push((from, address, units)),
                }
            }
            if opens {
                open.insert(number)
            } else {
                open.remove(&number)
            };
            from = address;
        }
        pieces
    }

    /// The number of units.
    pub(crate) fn len(&self) -> usize {
        self.entries.len()
    }

    /// Bytes that the list of them takes.
    pub(crate) fn held_bytes(&self) -> usize {
        self.entries.len() * size_of::<Entry<'_>>() + self.ranges.capacity() * size_of::<UnitRange>()
    }

    /// The unit with that number; `None` if its root entry is broken.
    pub(crate) fn root(&self, dwarf: &Dwarf<'a>, unit: usize) -> Option<&Root<'a>> {
        let entry = self.entries.get(unit)?;
        let root = entry.root.get_or_init(|| Root::read(dwarf, entry.header).ok().map(Box::new));
        root.as_deref()
    }

    /// The number of the unit that contains an offset, and the offset in it.
    pub(crate) fn holding(&self, offset: DebugInfoOffset) -> Option<(usize, UnitOffset)> {
        let after = self.entries.partition_point(|entry| entry.offset <= offset.0);
        let unit = after.checked_sub(1)?;
        Some((unit, offset.to_unit_offset(&self.entries[unit].header)?))
    }

    /// The length of the unit with that number, in bytes.
    pub(crate) fn bytes(&self, unit: usize) -> usize {
        self.entries[unit].header.length_including_self()
    }
}

impl Entry<'_> {
    fn has_code(&self) -> bool {
        matches!(self.header.type_(), UnitType::Compilation | UnitType::Skeleton(_))
    }
}

fn add_ranges(dwarf: &Dwarf<'_>, entry: &Entry<'_>, unit: u32, keep: &Keep<'_>, ranges: &mut Vec<UnitRange>) {
    if !entry.has_code() {
        return;
    }
    let before = ranges.len();
    let mut any = false;
    let mut add = |ranges: &mut Vec<UnitRange>, range: gimli::Range| {
        any |= range.begin < range.end;
        if keep.has(range) {
            ranges.push(UnitRange::new(range, unit));
        }
    };
    let lines = match root_ranges::read(dwarf, &entry.header, |range| add(ranges, range)) {
        Some(root_ranges::Lines(lines)) => lines,
        None => {
            ranges.truncate(before);
            let Ok(root) = Root::read(dwarf, entry.header) else {
                return;
            };
            let mut own = dwarf.unit_ranges(&root.unit).ok();
            while let Some(Ok(Some(range))) = own.as_mut().map(gimli::RangeIter::next) {
                add(ranges, range);
            }
            root.lines
        }
    };
    if !any {
        for range in sequences(dwarf, lines, entry.header.address_size()).unwrap_or_default() {
            if keep.has(range) {
                ranges.push(UnitRange::new(range, unit));
            }
        }
    }
}

/// The attributes of a unit's root entry. The header of its line program is not read.
pub(crate) struct Root<'a> {
    /// Has no line program.
    pub(crate) unit: Unit<'a>,
    pub(crate) lines: Option<DebugLineOffset>,
    pub(crate) language: Option<DwLang>,
    /// The file that most of the unit was split off into.
    pub(crate) dwo_name: Option<Reader<'a>>,
}

impl<'a> Root<'a> {
    pub(crate) fn read(dwarf: &Dwarf<'a>, header: UnitHeader<'a>) -> gimli::Result<Self> {
        let abbreviations = dwarf.abbreviations(&header)?;
        let (encoding, file_type) = (header.encoding(), dwarf.file_type);
        let dwo_id = match header.type_() {
            UnitType::Skeleton(id) | UnitType::SplitCompilation(id) => Some(id),
            _ => None,
        };
        let unit = Unit {
            header,
            abbreviations,
            name: None,
            comp_dir: None,
            low_pc: 0,
            str_offsets_base: gimli::DebugStrOffsetsBase::default_for_encoding_and_file(encoding, file_type),
            addr_base: gimli::DebugAddrBase(0),
            loclists_base: gimli::DebugLocListsBase::default_for_encoding_and_file(encoding, file_type),
            rnglists_base: gimli::DebugRngListsBase::default_for_encoding_and_file(encoding, file_type),
            line_program: None,
            dwo_id,
        };
        let mut root = Self { unit, lines: None, language: None, dwo_name: None };
        root.read_attributes(dwarf)?;
        Ok(root)
    }

    fn read_attributes(&mut self, dwarf: &Dwarf<'a>) -> gimli::Result<()> {
        let (mut name, mut folder, mut low, mut dwo_name) = (None, None, None, None);
        let abbreviations = self.unit.abbreviations.clone();
        let mut entries = self.unit.header.entries_raw(&abbreviations, None)?;
        let abbreviation = entries.read_abbreviation()?.ok_or(gimli::Error::MissingUnitDie)?;
        for attribute in abbreviation.attributes() {
            let attribute = entries.read_attribute(*attribute)?;
            match (attribute.name(), attribute.value()) {
                (gimli::DW_AT_name, value) => name = Some(value),
                (gimli::DW_AT_comp_dir, value) => folder = Some(value),
                (gimli::DW_AT_dwo_name | gimli::DW_AT_GNU_dwo_name, value) => dwo_name = Some(value),
                (gimli::DW_AT_low_pc, value) => low = Some(value),
                (gimli::DW_AT_stmt_list, AttributeValue::DebugLineRef(offset)) => self.lines = Some(offset),
                (gimli::DW_AT_language, AttributeValue::Language(language)) => self.language = Some(language),
                (gimli::DW_AT_str_offsets_base, AttributeValue::DebugStrOffsetsBase(base)) => {
                    self.unit.str_offsets_base = base
                }
                (gimli::DW_AT_addr_base | gimli::DW_AT_GNU_addr_base, AttributeValue::DebugAddrBase(base)) => {
                    self.unit.addr_base = base
                }
                (
                    gimli::DW_AT_rnglists_base | gimli::DW_AT_GNU_ranges_base,
                    AttributeValue::DebugRngListsBase(base),
                ) => {
                    self.unit.rnglists_base = base;
                }
                (gimli::DW_AT_GNU_dwo_id, AttributeValue::DwoId(id)) => {
                    self.unit.dwo_id.get_or_insert(id);
                }
                _ => {}
            }
        }
        // The attributes below need the bases above.
        self.unit.name = name.and_then(|value| dwarf.attr_string(&self.unit, value).ok());
        self.unit.comp_dir = folder.and_then(|value| dwarf.attr_string(&self.unit, value).ok());
        self.dwo_name = dwo_name.and_then(|value| dwarf.attr_string(&self.unit, value).ok());
        if let Some(value) = low {
            self.unit.low_pc = dwarf.attr_address(&self.unit, value)?.unwrap_or(0);
        }
        Ok(())
    }

    pub(crate) fn unit_ref<'u>(&'u self, dwarf: &'u Dwarf<'a>) -> UnitRef<'u, 'a> {
        UnitRef::new(dwarf, &self.unit)
    }
}
