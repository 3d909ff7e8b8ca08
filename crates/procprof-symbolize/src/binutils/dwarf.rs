//! Looking addresses up in the debug information.

use std::borrow::Cow;
use std::cell::{Cell, OnceCell};

use gimli::{
    AttributeValue, DebugInfoOffset, DebuggingInformationEntry, DwLang, EndianSlice, IncompleteLineProgram, RunTimeEndian, UnitOffset,
};
use object::Object;
use procprof_profile::SymbolAddr;
use rustc_hash::FxHashMap;

use super::find_function::SymbolFunctions;
use super::frames::Frames;
use super::functions::{Function, Functions, Name};
use super::line_table::{LineTable, file_name};
use super::symbol_table::{self, Table};
use super::{Detail, Frame};
use crate::dwarf::{self, Dwarf, Reader, Root, Unit};
use crate::image::{Image, parse_elf};
use crate::sections::{self, Needed};
use crate::workers;
use crate::zone::Zone;

pub(super) type Result<T> = std::result::Result<T, gimli::Error>;

/// Most frames of one address.
const FRAMES_MAX: usize = 256;
/// Symbols that are worth a thread.
const THREAD_SYMBOLS: usize = 100_000;
/// Bytes of debug information that are worth a thread to find the units in it.
const THREAD_INFO_BYTES: usize = 64 << 20;
/// Bytes of units that are worth a thread: stepping over their entries takes about a millisecond.
const THREAD_BYTES: usize = 1 << 20;

/// Resolves addresses in the order given; `file` has the debug information, if any.
pub(super) fn resolve(image: &Image, file: &object::File<'_>, addresses: &[SymbolAddr], detail: Detail) -> Vec<Vec<Frame>> {
    let mut wanted: Vec<u64> = addresses.iter().map(|address| address.0).collect();
    wanted.sort_unstable();
    wanted.dedup();
    let needed = match detail {
        Detail::Names => Needed::FunctionsAt(&wanted),
        Detail::NamesAndPlaces => Needed::All,
    };
    std::thread::scope(|scope| {
        let is_large = symbol_table::count(file, Table::All) >= THREAD_SYMBOLS;
        let symbols = is_large.then(|| scope.spawn(|| SymbolFunctions::at(file, &wanted)));
        with_units(image, file, &wanted, detail, needed, |units| {
            let symbols = symbols.map_or_else(|| SymbolFunctions::at(file, &wanted), |thread| thread.join().unwrap_or_default());
            let answer = |units: &Units<'_>| {
                let mut frames = Frames::default();
                for address in addresses {
                    units.add_frames(&symbols, address.0, &mut frames);
                    frames.next_address();
                }
                frames
            };
            let answers = answer(units);
            if !units.is_lacking.get() {
                return answers.finish();
            }
            // A name is in a unit that was not decompressed.
            with_units(image, file, &wanted, detail, Needed::Functions, answer).finish()
        })
    })
}

fn with_units<T>(
    image: &Image,
    file: &object::File<'_>,
    wanted: &[u64],
    detail: Detail,
    needed: Needed<'_>,
    read: impl FnOnce(&Units<'_>) -> T,
) -> T {
    let bytes_max = image.decompressed_bytes_max;
    let endian = if file.is_little_endian() { RunTimeEndian::Little } else { RunTimeEndian::Big };
    let shared = image.shared.as_ref().and_then(|shared| parse_elf(&shared.bytes, &shared.file).ok());
    let shared = shared.as_ref().and_then(|file| sections::load(file, bytes_max).ok());
    let loaded = sections::load_needed(file, bytes_max, needed).unwrap_or_default();
    let mut dwarf: Dwarf<'_> = loaded.sections.borrow(|section| EndianSlice::new(section, endian));
    if let Some(shared) = &shared {
        dwarf.set_sup(shared.borrow(|section| EndianSlice::new(section, endian)));
    }
    read(&Units::of(&dwarf, loaded.units.as_deref(), wanted, detail))
}

/// The units of a file with one of the addresses asked for.
pub(super) struct Units<'a> {
    dwarf: &'a Dwarf<'a>,
    index: dwarf::Units<'a>,
    /// By the number of the unit.
    read: FxHashMap<usize, UnitTables<'a>>,
    detail: Detail,
    /// Whether a reference led to where no unit is.
    is_lacking: Cell<bool>,
}

struct UnitTables<'a> {
    /// Its number.
    unit: usize,
    functions: Functions<'a>,
    program: OnceCell<Option<IncompleteLineProgram<Reader<'a>>>>,
    lines: OnceCell<LineTable>,
}

impl<'a> Units<'a> {
    /// Reads what the units say of addresses; `offsets` are those of all units there are, where that is known.
    fn of(dwarf: &'a Dwarf<'a>, offsets: Option<&[usize]>, wanted: &[u64], detail: Detail) -> Self {
        let info_bytes = gimli::Section::reader(&dwarf.debug_info).slice().len();
        let threads = workers::threads_for(info_bytes, THREAD_INFO_BYTES);
        let index = match offsets {
            Some(offsets) => dwarf::Units::at_offsets(dwarf, offsets, wanted, threads),
            None => dwarf::Units::with_ranges(dwarf, Some(wanted), threads),
        };
        let mut zones: FxHashMap<usize, Vec<(u64, u64)>> = FxHashMap::default();
        for address in wanted {
            for unit in index.at(*address) {
                let zone = zones.entry(unit).or_default();
                if zone.last().is_none_or(|(last, _)| last != address) {
                    zone.push((*address, address.saturating_add(1)));
                }
            }
        }
        let mut zones: Vec<(usize, Vec<(u64, u64)>)> = zones.into_iter().collect();
        zones.sort_unstable_by_key(|(unit, _)| (std::cmp::Reverse(index.bytes(*unit)), *unit));
        let bytes = zones.iter().map(|(unit, _)| index.bytes(*unit)).sum();
        let threads = workers::threads_for(bytes, THREAD_BYTES);
        let found = workers::run(zones.len(), threads, Vec::new, |found, job| {
            let (unit, zone) = &zones[job];
            // What was found before an entry that is broken counts.
            let functions = index.root(dwarf, *unit).map(|root| dwarf::walk(dwarf, root, Zone::new(zone)).0);
            found.push((*unit, functions.unwrap_or_default()));
        });
        let read = found.into_iter().flatten().map(|(unit, functions)| {
            (unit, UnitTables { unit, functions: Functions::of(&functions), program: OnceCell::new(), lines: OnceCell::new() })
        });
        let read = read.collect();
        Self { dwarf, index, read, detail, is_lacking: Cell::new(false) }
    }

    pub(super) fn dwarf(&self) -> &Dwarf<'a> {
        self.dwarf
    }

    pub(super) fn language(&self, unit: &Unit<'a>) -> Option<DwLang> {
        let root = unit.entry(unit.header.root_offset()).ok()?;
        match root.attr_value(gimli::DW_AT_language)? {
            AttributeValue::Language(language) => Some(language),
            _ => None,
        }
    }

    /// Hands the entry that `reference` leads to over, with its unit; the default if it leads nowhere.
    pub(super) fn follow<T: Default>(
        &self,
        unit: &Unit<'a>,
        dwarf: &Dwarf<'a>,
        reference: AttributeValue<Reader<'a>>,
        read: impl FnOnce(&Unit<'a>, &Dwarf<'a>, &DebuggingInformationEntry<Reader<'a>>) -> T,
    ) -> T {
        match reference {
            AttributeValue::UnitRef(offset) => unit.entry(offset).map(|entry| read(unit, dwarf, &entry)).unwrap_or_default(),
            AttributeValue::DebugInfoRef(offset) if !dwarf_is_sup(self.dwarf, dwarf) => {
                let Some((root, offset)) = self.unit_at(offset) else {
                    self.is_lacking.set(true);
                    return T::default();
                };
                root.unit.entry(offset).map(|entry| read(&root.unit, self.dwarf, &entry)).unwrap_or_default()
            }
            AttributeValue::DebugInfoRef(offset) => sup_entry(dwarf, offset, read),
            AttributeValue::DebugInfoRefSup(offset) => self.dwarf.sup().map(|sup| sup_entry(sup, offset, read)).unwrap_or_default(),
            _ => T::default(),
        }
    }

    fn unit_at(&self, offset: DebugInfoOffset) -> Option<(&Root<'a>, UnitOffset)> {
        let (unit, offset) = self.index.holding(offset)?;
        Some((self.index.root(self.dwarf, unit)?, offset))
    }

    fn add_frames(&self, symbols: &SymbolFunctions<'_>, address: u64, frames: &mut Frames) {
        for section in symbols.sections(address) {
            let found = self.holding(address).find_map(|unit| unit.look_up(self, address).map(|found| (unit, found)));
            let symbol = symbols.find(section, address);
            match found {
                Some((unit, found)) => return found.add_frames(self, unit, symbol, frames),
                None => {
                    let Some(symbol) = symbol else { continue };
                    return frames.push(Some(symbol.name), symbol.file, 0, 0);
                }
            }
        }
        frames.push_unknown();
    }

    /// The units that hold the address, by number.
    fn holding(&self, address: u64) -> impl Iterator<Item = &UnitTables<'a>> {
        let mut units: Vec<usize> = self.index.at(address).collect();
        units.sort_unstable();
        units.dedup();
        units.into_iter().filter_map(|unit| self.read.get(&unit))
    }
}

fn dwarf_is_sup(main: &Dwarf<'_>, dwarf: &Dwarf<'_>) -> bool {
    !std::ptr::eq(main, dwarf)
}

fn sup_entry<'a, T: Default>(
    sup: &Dwarf<'a>,
    offset: DebugInfoOffset,
    read: impl FnOnce(&Unit<'a>, &Dwarf<'a>, &DebuggingInformationEntry<Reader<'a>>) -> T,
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
    fn root<'u>(&self, units: &'u Units<'a>) -> Option<&'u Root<'a>> {
        units.index.root(units.dwarf, self.unit)
    }

    /// The line program, if places are asked for.
    fn program(&self, units: &Units<'a>) -> Option<&IncompleteLineProgram<Reader<'a>>> {
        let read = || {
            let Root { unit, lines, .. } = self.root(units)?;
            let lines = lines.filter(|_| units.detail == Detail::NamesAndPlaces)?;
            units.dwarf.debug_line.program(lines, unit.header.address_size(), unit.comp_dir, unit.name).ok()
        };
        self.program.get_or_init(read).as_ref()
    }

    fn lines(&self, units: &Units<'a>) -> &LineTable {
        self.lines.get_or_init(|| self.program(units).map(|program| LineTable::of(program).unwrap_or_default()).unwrap_or_default())
    }

    fn look_up<'u>(&'u self, units: &Units<'a>, address: u64) -> Option<Found<'u, 'a>> {
        let function = self.functions.find(address);
        let row = self.lines(units).find(address);
        (function.is_some() || row.is_some()).then_some(Found { function, row })
    }

    fn file_name(&self, units: &Units<'a>, file: u64) -> Option<String> {
        file_name(units, &self.root(units)?.unit, self.program(units)?.header(), file)
    }
}

/// What one unit says of an address.
struct Found<'u, 'a> {
    function: Option<&'u Function<'a>>,
    row: Option<super::line_table::Row>,
}

impl<'a> Found<'_, 'a> {
    fn add_frames(
        &self,
        units: &Units<'a>,
        unit: &UnitTables<'a>,
        symbol: Option<&super::find_function::Function<'_>>,
        frames: &mut Frames,
    ) {
        let Some(root) = unit.root(units) else { return frames.push_unknown() };
        let name = self.innermost_name(units, &root.unit, symbol);
        let file = self.row.and_then(|row| unit.file_name(units, row.file));
        let symbol_file = symbol.filter(|_| file.is_none() && !self.has_linkage(units, &root.unit)).and_then(|symbol| symbol.file);
        let line = self.row.map_or(0, |row| row.line);
        let discriminator = self.row.map_or(0, |row| row.discriminator);
        frames.push(name.as_deref(), file.as_deref().or(symbol_file), line, discriminator);
        let mut callee = self.function.filter(|function| function.is_inlined);
        while let Some(function) = callee.filter(|_| frames.depth() < FRAMES_MAX) {
            let Some(caller) = function.caller.and_then(|caller| unit.functions.all.get(caller as usize)) else { break };
            let name = caller.name(units, &root.unit).text;
            let (file, line) = function.call_site;
            frames.push(name.as_deref(), unit.file_name(units, file).as_deref(), line, discriminator);
            callee = Some(caller).filter(|caller| caller.is_inlined);
        }
    }

    fn has_linkage(&self, units: &Units<'a>, unit: &Unit<'a>) -> bool {
        self.function.is_some_and(|function| function.name(units, unit).is_linkage)
    }

    /// The function's linker name; else the symbol's, which becomes the function's where both begin
    /// at the same address, and else is used this time only.
    fn innermost_name<'s>(
        &self,
        units: &Units<'a>,
        unit: &Unit<'a>,
        symbol: Option<&'s super::find_function::Function<'_>>,
    ) -> Option<Cow<'s, str>>
    where
        'a: 's,
    {
        let symbol_name = symbol.map(|symbol| Cow::Borrowed(symbol.name));
        let Some(function) = self.function else {
            return symbol_name;
        };
        let name = function.name(units, unit);
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

/// The text of a string attribute of an entry of that unit.
pub(super) fn text<'a>(dwarf: &Dwarf<'a>, unit: &Unit<'a>, value: AttributeValue<Reader<'a>>) -> Option<Cow<'a, str>> {
    dwarf.attr_string(unit, value).ok().map(|text| text.to_string_lossy())
}
