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
use super::functions::{Function, Functions, Name};
use super::line_table::{LineTable, file_name};
use super::{Detail, Frame, demangle};
use crate::dwarf::{self, Dwarf, Reader, Root, Unit};
use crate::image::{Image, parse_elf};
use crate::sections::{self, Needed};
use crate::workers;
use crate::zone::Zone;

pub(super) type Result<T> = std::result::Result<T, gimli::Error>;

/// Most frames of one address.
const FRAMES_MAX: usize = 256;

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
        let symbols = scope.spawn(|| SymbolFunctions::at(file, &wanted));
        with_units(image, file, &wanted, detail, needed, |units| {
            let symbols = symbols.join().unwrap_or_default();
            let answer = |units: &Units<'_>| addresses.iter().map(|address| units.frames(&symbols, address.0)).collect();
            let answers = answer(units);
            if !units.is_lacking.get() {
                return answers;
            }
            // A name is in a unit that was not decompressed.
            with_units(image, file, &wanted, detail, Needed::Functions, answer)
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
    let mut dwarf: Dwarf<'_> = loaded.borrow(|section| EndianSlice::new(section, endian));
    if let Some(shared) = &shared {
        dwarf.set_sup(shared.borrow(|section| EndianSlice::new(section, endian)));
    }
    read(&Units::of(&dwarf, wanted, detail))
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
    fn of(dwarf: &'a Dwarf<'a>, wanted: &[u64], detail: Detail) -> Self {
        let threads = workers::threads();
        let index = dwarf::Units::with_ranges(dwarf, Some(wanted), threads);
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
    fn frames(&self, units: &Units<'a>, unit: &UnitTables<'a>, symbol: Option<&super::find_function::Function<'_>>) -> Vec<Frame> {
        let Some(root) = unit.root(units) else { return vec![Frame::unknown()] };
        let name = self.innermost_name(units, &root.unit, symbol);
        let file = self.row.and_then(|row| unit.file_name(units, row.file));
        let file =
            file.or_else(|| symbol.filter(|_| !self.has_linkage(units, &root.unit)).and_then(|symbol| symbol.file.map(str::to_owned)));
        let line = self.row.map_or(0, |row| row.line);
        let discriminator = self.row.map_or(0, |row| row.discriminator);
        let mut frames = vec![frame(name.as_deref(), file, line, discriminator)];
        let mut callee = self.function.filter(|function| function.is_inlined);
        while let Some(function) = callee.filter(|_| frames.len() < FRAMES_MAX) {
            let Some(caller) = function.caller.and_then(|caller| unit.functions.all.get(caller as usize)) else { break };
            let name = caller.name(units, &root.unit).text;
            let (file, line) = function.call_site;
            frames.push(frame(name.as_deref(), unit.file_name(units, file), line, discriminator));
            callee = Some(caller).filter(|caller| caller.is_inlined);
        }
        frames
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
pub(super) fn text<'a>(dwarf: &Dwarf<'a>, unit: &Unit<'a>, value: AttributeValue<Reader<'a>>) -> Option<Cow<'a, str>> {
    dwarf.attr_string(unit, value).ok().map(|text| text.to_string_lossy())
}
