//! Functions and lines of units at addresses, and the frames made of them.

use std::borrow::Cow;
use std::cell::OnceCell;

use foldhash::HashMap;
use gimli::IncompleteLineProgram;

use super::Detail;
use super::dwarf::Units;
use super::find_function::{self, SymbolFunctions};
use super::frames::Frames;
use super::functions::{Function, Functions, Name};
use super::line_table::{LineTable, Row, file_name};
use crate::dwarf::{self, Guide, Guides, Reader, Root, Unit};
use crate::ranges::Zone;
use crate::workers;

/// Most frames of one address.
const FRAMES_MAX: usize = 256;
/// Bytes of units that are worth a thread: stepping over their entries takes about a millisecond.
const THREAD_BYTES: usize = 1 << 20;

/// The information from the units that cover one of the requested addresses.
pub(super) struct Tables<'u, 'a> {
    units: &'u Units<'a>,
    /// By the number of the unit.
    read: HashMap<usize, UnitTables<'a>>,
    detail: Detail,
    /// Guides to units that had none, with the units' offsets.
    pub(super) guides: Vec<(usize, Guide)>,
}

struct UnitTables<'a> {
    /// Its number.
    unit: usize,
    functions: Functions<'a>,
    program: OnceCell<Option<IncompleteLineProgram<Reader<'a>>>>,
    lines: OnceCell<LineTable>,
}

/// The parts of units that one thread has read.
#[derive(Default)]
struct Read<'a> {
    functions: Vec<(usize, Functions<'a>)>,
    guides: Vec<(usize, Guide)>,
}

impl<'u, 'a> Tables<'u, 'a> {
    /// Reads units at addresses, which ascend; of units with a guide, only the part that it names.
    pub(super) fn read(units: &'u Units<'a>, wanted: &[u64], detail: Detail, guides: &Guides<'_>) -> Self {
        let zones = zones(units, wanted);
        let bytes = zones.iter().map(|(unit, _)| units.index.bytes(*unit)).sum();
        let threads = workers::threads_for(bytes, THREAD_BYTES);
        let found = workers::run(zones.len(), threads, Read::default, |read, job| {
            let (unit, zone) = &zones[job];
            read.add(units, *unit, Zone::new(zone), guides);
        });
        let (mut read, mut made) = (HashMap::default(), Vec::new());
        for found in found {
            made.extend(found.guides);
            let tables = |(unit, functions)| {
                (unit, UnitTables { unit, functions, program: OnceCell::new(), lines: OnceCell::new() })
            };
            read.extend(found.functions.into_iter().map(tables));
        }
        Self { units, read, detail, guides: made }
    }

    /// Adds the frames of an address.
    pub(super) fn add_frames(&self, symbols: &SymbolFunctions<'_>, address: u64, frames: &mut Frames) {
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

    /// The units that cover the address, by number.
    fn holding(&self, address: u64) -> impl Iterator<Item = &UnitTables<'a>> {
        let mut units: Vec<usize> = self.units.index.at(address).collect();
        units.sort_unstable();
        units.dedup();
        units.into_iter().filter_map(|unit| self.read.get(&unit))
    }
}

/// The addresses of each unit, the largest unit first.
fn zones(units: &Units<'_>, wanted: &[u64]) -> Vec<(usize, Vec<(u64, u64)>)> {
    let mut zones: HashMap<usize, Vec<(u64, u64)>> = HashMap::default();
    for address in wanted {
        for unit in units.index.at(*address) {
            let zone = zones.entry(unit).or_default();
            if zone.last().is_none_or(|(last, _)| last != address) {
                zone.push((*address, address.saturating_add(1)));
            }
        }
    }
    let mut zones: Vec<(usize, Vec<(u64, u64)>)> = zones.into_iter().collect();
    zones.sort_unstable_by_key(|(unit, _)| (std::cmp::Reverse(units.index.bytes(*unit)), *unit));
    zones
}

impl<'a> Read<'a> {
    /// Reads the functions of a unit in the zone, and their names.
    fn add(&mut self, units: &Units<'a>, unit: usize, zone: Zone<'_>, guides: &Guides<'_>) {
        let Some(root) = units.root(unit) else {
            return self.functions.push((unit, Functions::default()));
        };
        let offset = root.unit.header.offset().0;
        let guided = guides.get(offset).map(|guide| dwarf::walk_guided(units.dwarf(), root, zone, &guide));
        // A guide that leads astray is ignored.
        let found = match guided {
            Some((found, Ok(()))) => found,
            _ => {
                // The results before a broken entry are used.
                let (found, walked) = dwarf::walk(units.dwarf(), root, zone);
                if walked.is_ok() {
                    self.guides.push((offset, Guide { functions: found.described(), sequences: Vec::new() }));
                }
                found
            }
        };
        let functions = Functions::select(&found);
        functions.read_names(units, &root.unit, zone.spans().iter().map(|(begin, _)| *begin));
        self.functions.push((unit, functions));
    }
}

impl<'a> UnitTables<'a> {
    fn root<'u>(&self, tables: &Tables<'u, 'a>) -> Option<&'u Root<'a>> {
        tables.units.root(self.unit)
    }

    /// The line program, if places are requested.
    fn program(&self, tables: &Tables<'_, 'a>) -> Option<&IncompleteLineProgram<Reader<'a>>> {
        let read = || {
            let Root { unit, lines, .. } = self.root(tables)?;
            let lines = lines.filter(|_| tables.detail == Detail::NamesAndPlaces)?;
            tables.units.dwarf().debug_line.program(lines, unit.header.address_size(), unit.comp_dir, unit.name).ok()
        };
        self.program.get_or_init(read).as_ref()
    }

    fn lines(&self, tables: &Tables<'_, 'a>) -> &LineTable {
        let read = |program: &IncompleteLineProgram<Reader<'a>>| LineTable::read(program.header()).unwrap_or_default();
        self.lines.get_or_init(|| self.program(tables).map(read).unwrap_or_default())
    }

    fn look_up<'t>(&'t self, tables: &Tables<'_, 'a>, address: u64) -> Option<Found<'t, 'a>> {
        let function = self.functions.find(address);
        let row = self.lines(tables).find(address);
        (function.is_some() || row.is_some()).then_some(Found { function, row })
    }

    fn file_name(&self, tables: &Tables<'_, 'a>, file: u64) -> Option<String> {
        file_name(tables.units, &self.root(tables)?.unit, self.program(tables)?.header(), file)
    }
}

/// The answer of one unit for an address.
struct Found<'t, 'a> {
    function: Option<&'t Function<'a>>,
    row: Option<Row>,
}

impl<'a> Found<'_, 'a> {
    fn add_frames(
        &self,
        tables: &Tables<'_, 'a>,
        unit: &UnitTables<'a>,
        symbol: Option<&find_function::Function<'_>>,
        frames: &mut Frames,
    ) {
        let Some(root) = unit.root(tables) else { return frames.push_unknown() };
        let units = tables.units;
        let name = self.innermost_name(units, &root.unit, symbol);
        let file = self.row.and_then(|row| unit.file_name(tables, row.file));
        let symbol_file =
            symbol.filter(|_| file.is_none() && !self.has_linkage(units, &root.unit)).and_then(|symbol| symbol.file);
        let line = self.row.map_or(0, |row| row.line);
        let discriminator = self.row.map_or(0, |row| row.discriminator);
        frames.push(name.as_deref(), file.as_deref().or(symbol_file), line, discriminator);
        let mut callee = self.function.filter(|function| function.is_inlined);
        while let Some(function) = callee.filter(|_| frames.depth() < FRAMES_MAX) {
            let Some(caller) = function.caller.and_then(|caller| unit.functions.all.get(caller as usize)) else {
                break;
            };
            let name = caller.name(units, &root.unit).text;
            let (file, line) = function.call_site;
            frames.push(name.as_deref(), unit.file_name(tables, file).as_deref(), line, discriminator);
            callee = Some(caller).filter(|caller| caller.is_inlined);
        }
    }

    fn has_linkage(&self, units: &Units<'a>, unit: &Unit<'a>) -> bool {
        self.function.is_some_and(|function| function.name(units, unit).is_linkage)
    }

    /// The function's linker name; otherwise the symbol's, which becomes the function's if both begin at the same
    /// address, and is used for this call only if not.
    fn innermost_name<'s>(
        &self,
        units: &Units<'a>,
        unit: &Unit<'a>,
        symbol: Option<&'s find_function::Function<'_>>,
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
