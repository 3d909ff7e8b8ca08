//! Looking addresses up in the debug information.

use std::borrow::Cow;
use std::cell::OnceCell;

use gimli::{
    AbbreviationsCacheStrategy, AttributeValue, DebugInfoOffset, DebuggingInformationEntry, DwLang, EndianSlice, RunTimeEndian, Unit,
    UnitOffset,
};
use object::Object;
use procprof_profile::SymbolAddr;

use super::find_function::SymbolFunctions;
use super::functions::{Function, Functions, Name};
use super::line_table::{LineTable, file_name};
use super::{Frame, demangle};
use crate::image::{Image, parse_elf};
use crate::sections;

pub(super) type Reader<'a> = EndianSlice<'a, RunTimeEndian>;
pub(super) type Dwarf<'a> = gimli::Dwarf<Reader<'a>>;
pub(super) type Result<T> = std::result::Result<T, gimli::Error>;

/// Most frames of one address.
const FRAMES_MAX: usize = 256;

/// Resolves addresses in the order given; `file` has the debug information, if any.
pub(super) fn resolve(image: &Image, file: &object::File<'_>, addresses: &[SymbolAddr]) -> Vec<Vec<Frame>> {
    let bytes_max = image.decompressed_bytes_max;
    let shared = image.shared.as_ref().and_then(|shared| parse_elf(&shared.bytes, &shared.file).ok());
    let shared = shared.as_ref().and_then(|file| sections::load(file, bytes_max).ok());
    let endian = if file.is_little_endian() { RunTimeEndian::Little } else { RunTimeEndian::Big };
    let loaded = sections::load(file, bytes_max).unwrap_or_default();
    let mut dwarf: Dwarf<'_> = loaded.borrow(|section| EndianSlice::new(section, endian));
    if let Some(shared) = &shared {
        dwarf.set_sup(shared.borrow(|section| EndianSlice::new(section, endian)));
    }
    dwarf.populate_abbreviations_cache(AbbreviationsCacheStrategy::Duplicates);
    std::thread::scope(|scope| {
        let symbols = scope.spawn(|| SymbolFunctions::of(file));
        let units = Units::of(dwarf);
        let symbols = symbols.join().unwrap_or_default();
        addresses.iter().map(|address| units.frames(&symbols, address.0)).collect()
    })
}

/// The units of a file.
pub(super) struct Units<'a> {
    dwarf: Dwarf<'a>,
    /// By offset.
    all: Vec<UnitTables<'a>>,
    /// Start, end and unit, by start.
    ranges: Vec<(u64, u64, u32)>,
    /// Units that do not say what they cover.
    unranged: Vec<u32>,
    /// Whether `ranges` never overlap, so that one look is enough.
    longest: u64,
}

struct UnitTables<'a> {
    offset: usize,
    unit: Unit<Reader<'a>>,
    functions: OnceCell<Functions<'a>>,
    lines: OnceCell<LineTable>,
}

impl<'a> Units<'a> {
    fn of(dwarf: Dwarf<'a>) -> Self {
        let mut units = Self { dwarf, all: Vec::new(), ranges: Vec::new(), unranged: Vec::new(), longest: 0 };
        let mut headers = units.dwarf.units();
        // A damaged header ends the list: where the next begins is not known.
        while let Ok(Some(header)) = headers.next() {
            let Some(offset) = header.debug_info_offset() else { continue };
            let Ok(unit) = units.dwarf.unit(header) else { continue };
            units.add(offset.0, unit);
        }
        units.ranges.sort_unstable();
        units
    }

    fn add(&mut self, offset: usize, unit: Unit<Reader<'a>>) {
        let number = self.all.len() as u32;
        let before = self.ranges.len();
        if let Ok(mut ranges) = self.dwarf.unit_ranges(&unit) {
            while let Ok(Some(range)) = ranges.next() {
                if range.begin < range.end {
                    self.ranges.push((range.begin, range.end, number));
                    self.longest = self.longest.max(range.end - range.begin);
                }
            }
        }
        if before == self.ranges.len() {
            self.unranged.push(number);
        }
        self.all.push(UnitTables { offset, unit, functions: OnceCell::new(), lines: OnceCell::new() });
    }

    pub(super) fn dwarf(&self) -> &Dwarf<'a> {
        &self.dwarf
    }

    pub(super) fn language(&self, unit: &Unit<Reader<'a>>) -> Option<DwLang> {
        let root = unit.entry(unit.header.root_offset()).ok()?;
        match root.attr_value(gimli::DW_AT_language)? {
            AttributeValue::Language(language) => Some(language),
            _ => None,
        }
    }

    /// Hands the entry that `reference` leads to over, with its unit; the default if it leads nowhere.
    pub(super) fn follow<T: Default>(
        &self,
        unit: &Unit<Reader<'a>>,
        dwarf: &Dwarf<'a>,
        reference: AttributeValue<Reader<'a>>,
        read: impl FnOnce(&Unit<Reader<'a>>, &Dwarf<'a>, &DebuggingInformationEntry<Reader<'a>>) -> T,
    ) -> T {
        match reference {
            AttributeValue::UnitRef(offset) => unit.entry(offset).map(|entry| read(unit, dwarf, &entry)).unwrap_or_default(),
            AttributeValue::DebugInfoRef(offset) if !dwarf_is_sup(&self.dwarf, dwarf) => {
                let Some((unit, offset)) = self.unit_at(offset) else { return T::default() };
                unit.entry(offset).map(|entry| read(unit, &self.dwarf, &entry)).unwrap_or_default()
            }
            AttributeValue::DebugInfoRef(offset) => sup_entry(dwarf, offset, read),
            AttributeValue::DebugInfoRefSup(offset) => self.dwarf.sup().map(|sup| sup_entry(sup, offset, read)).unwrap_or_default(),
            _ => T::default(),
        }
    }

    fn unit_at(&self, offset: DebugInfoOffset) -> Option<(&Unit<Reader<'a>>, UnitOffset)> {
        let after = self.all.partition_point(|unit| unit.offset <= offset.0);
        let unit = &self.all.get(after.checked_sub(1)?)?;
        Some((&unit.unit, UnitOffset(offset.0 - unit.offset)))
    }

    fn frames(&self, symbols: &SymbolFunctions<'_>, address: u64) -> Vec<Frame> {
        for section in symbols.sections(address) {
            let found = self.holding(address).find_map(|unit| unit.look_up(self, address).map(|found| (unit, found)));
            let symbol = symbols.find(section, address);
            match found {
                Some((unit, found)) => return found.frames(self, unit, symbol),
                None => {
                    let Some(symbol) = symbol else { continue };
                    let place = format!("{}:?", symbol.file.unwrap_or("??"));
                    return vec![Frame { name: demangle(symbol.name), place }];
                }
            }
        }
        vec![Frame::unknown()]
    }

    /// The units that may hold the address: first those that say so.
    fn holding(&self, address: u64) -> impl Iterator<Item = &UnitTables<'a>> {
        let after = self.ranges.partition_point(|(start, ..)| *start <= address);
        let from = self.ranges.partition_point(|(start, ..)| start.saturating_add(self.longest) <= address);
        let mut said: Vec<u32> =
            self.ranges[from.min(after)..after].iter().filter(|(_, end, _)| address < *end).map(|(.., unit)| *unit).collect();
        said.sort_unstable();
        said.dedup();
        let unranged = self.unranged.iter().copied().filter(move |unit| self.all[*unit as usize].may_hold(&self.dwarf, address));
        said.into_iter().chain(unranged).map(|unit| &self.all[unit as usize])
    }
}

fn dwarf_is_sup(main: &Dwarf<'_>, dwarf: &Dwarf<'_>) -> bool {
    !std::ptr::eq(main, dwarf)
}

fn sup_entry<'a, T: Default>(
    sup: &Dwarf<'a>,
    offset: DebugInfoOffset,
    read: impl FnOnce(&Unit<Reader<'a>>, &Dwarf<'a>, &DebuggingInformationEntry<Reader<'a>>) -> T,
) -> T {
    let mut headers = sup.units();
    while let Ok(Some(header)) = headers.next() {
        let Some(within) = offset.to_unit_offset(&header) else { continue };
        let Ok(unit) = sup.unit(header) else { break };
        return unit.entry(within).map(|entry| read(&unit, sup, &entry)).unwrap_or_default();
    }
    T::default()
}

impl<'a> UnitTables<'a> {
    fn functions(&self, dwarf: &Dwarf<'a>) -> &Functions<'a> {
        self.functions.get_or_init(|| Functions::of(dwarf, &self.unit).unwrap_or_default())
    }

    fn lines(&self) -> &LineTable {
        self.lines.get_or_init(|| LineTable::of(&self.unit).unwrap_or_default())
    }

    /// Whether a unit that names no ranges has lines for the address.
    fn may_hold(&self, _dwarf: &Dwarf<'a>, address: u64) -> bool {
        let root = self.unit.entry(self.unit.header.root_offset());
        let is_partial = root.is_ok_and(|root| root.tag() == gimli::DW_TAG_partial_unit);
        !is_partial && self.lines().ranges().any(|(start, end)| start <= address && address < end)
    }

    fn look_up<'u>(&'u self, units: &Units<'a>, address: u64) -> Option<Found<'u, 'a>> {
        let function = self.functions(&units.dwarf).find(address);
        let row = self.lines().find(address);
        (function.is_some() || row.is_some()).then_some(Found { function, row })
    }
}

/// What one unit says of an address.
struct Found<'u, 'a> {
    function: Option<&'u Function<'a>>,
    row: Option<super::line_table::Row>,
}

impl<'a> Found<'_, 'a> {
    fn frames(&self, units: &Units<'a>, unit: &UnitTables<'a>, symbol: Option<&super::find_function::Function<'_>>) -> Vec<Frame> {
        let name = self.innermost_name(units, unit, symbol);
        let file = match self.row {
            Some(row) => file_name(units, &unit.unit, row.file),
            None => None,
        };
        let file = file.or_else(|| symbol.filter(|_| !self.has_linkage(units, unit)).and_then(|symbol| symbol.file.map(str::to_owned)));
        let line = self.row.map_or(0, |row| row.line);
        let discriminator = self.row.map_or(0, |row| row.discriminator);
        let mut frames = vec![frame(name.as_deref(), file, line, discriminator)];
        let mut callee = self.function.filter(|function| function.is_inlined);
        while let Some(function) = callee.filter(|_| frames.len() < FRAMES_MAX) {
            let Some(caller) = function.caller.and_then(|caller| unit.functions(&units.dwarf).all.get(caller as usize)) else { break };
            let name = caller.name(units, &unit.unit).text;
            let (file, line) = function.call_site(&unit.unit);
            frames.push(frame(name.as_deref(), file_name(units, &unit.unit, file), line, discriminator));
            callee = Some(caller).filter(|caller| caller.is_inlined);
        }
        frames
    }

    fn has_linkage(&self, units: &Units<'a>, unit: &UnitTables<'a>) -> bool {
        self.function.is_some_and(|function| function.name(units, &unit.unit).is_linkage)
    }

    /// The function's linker name; else the symbol's, which becomes the function's where both begin
    /// at the same address, and else is used this time only.
    fn innermost_name<'s>(
        &self,
        units: &Units<'a>,
        unit: &UnitTables<'a>,
        symbol: Option<&'s super::find_function::Function<'_>>,
    ) -> Option<Cow<'s, str>>
    where
        'a: 's,
    {
        let symbol_name = symbol.map(|symbol| Cow::Borrowed(symbol.name));
        let Some(function) = self.function else {
            return symbol_name;
        };
        let name = function.name(units, &unit.unit);
        if name.is_linkage {
            return name.text;
        }
        let kept = match symbol {
            Some(symbol) if symbol.start == function.start => Some(Cow::Owned(symbol.name.to_string())),
            _ => name.text.clone(),
        };
        function.set_name(Name { text: kept, is_linkage: true });
        symbol_name.or(name.text)
    }
}

fn frame(name: Option<&str>, file: Option<String>, line: u32, discriminator: u64) -> Frame {
    let name = name.filter(|name| !name.is_empty()).map_or_else(|| "??".to_owned(), demangle);
    let file = file.unwrap_or_else(|| "??".into());
    let place = match (line, discriminator) {
        (0, _) => format!("{file}:?"),
        (line, 0) => format!("{file}:{line}"),
        (line, discriminator) => format!("{file}:{line} (discriminator {discriminator})"),
    };
    Frame { name, place }
}

/// The text of a string attribute of an entry of that unit.
pub(super) fn text<'a>(dwarf: &Dwarf<'a>, unit: &Unit<Reader<'a>>, value: AttributeValue<Reader<'a>>) -> Option<Cow<'a, str>> {
    dwarf.attr_string(unit, value).ok().map(|text| text.to_string_lossy())
}
