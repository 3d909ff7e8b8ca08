//! Looking addresses up in the debug information.

use std::borrow::Cow;
use std::sync::atomic::{AtomicBool, Ordering};

use gimli::{AttributeValue, DebugInfoOffset, DwLang, UnitOffset};
use procprof_profile::SymbolAddr;

use super::find_function::SymbolFunctions;
use super::frames::Frames;
use super::kept::{Known, Learned};
use super::tables::Tables;
use super::{Answers, Detail, NmSymbol, nm};
use crate::dwarf::{self, Dwarf, Reader, Root, Unit};
use crate::elf::symbols::table;
use crate::elf::{Image, Needed, ParsedImage, Table, sections};
use crate::workers;

/// Symbols that are worth a thread.
const THREAD_SYMBOLS: usize = 10_000;
/// Bytes of debug information that are worth a thread to find the units in it.
const THREAD_INFO_BYTES: usize = 64 << 20;

/// Resolves addresses in the order given.
pub(super) fn resolve<'a>(
    image: &'a Image,
    parsed: &ParsedImage<'a>,
    addresses: &[SymbolAddr],
    detail: Detail,
) -> Answers<'a> {
    let main = &parsed.main;
    let file = parsed.with_dwarf().unwrap_or(main);
    let mut wanted: Vec<u64> = addresses.iter().map(|address| address.0).collect();
    wanted.sort_unstable();
    wanted.dedup();
    let needed = match detail {
        Detail::Names => Needed::FunctionsAt(&wanted),
        Detail::NamesAndPlaces => Needed::All,
    };
    let known = Known::from_image(image);
    let look_up_symbols = || Symbols::read(image, main, file, &known, addresses, &wanted);
    let (symbols, (frames, guides)) = std::thread::scope(|scope| {
        let is_large = table::count(file, Table::All) >= THREAD_SYMBOLS;
        let symbols = is_large.then(|| scope.spawn(look_up_symbols));
        with_units(image, parsed, file, &wanted, needed, |units| {
            let known_guides = known.guides();
            let tables = Tables::read(units, &wanted, detail, &known_guides);
            let symbols = symbols.map_or_else(look_up_symbols, |thread| thread.join().unwrap_or_default());
            let answer = |tables: Tables<'_, '_>| {
                let mut frames = Frames::default();
                for address in addresses {
                    tables.add_frames(&symbols.functions, address.0, &mut frames);
                    frames.next_address();
                }
                (frames, tables.guides)
            };
            if !units.is_lacking.load(Ordering::Relaxed) {
                let answers = answer(tables);
                return (symbols, answers);
            }
            // A name is in a unit that was not decompressed.
            let answers = with_units(image, parsed, file, &wanted, Needed::Functions, |units| {
                answer(Tables::read(units, &wanted, detail, &known_guides))
            });
            (symbols, answers)
        })
    });
    let (answers, names) = frames.finish(&known);
    known.add(image, Learned { guides, names, symbols: symbols.new_order });
    Answers { symbols: symbols.around, ..answers }
}

/// The information from symbols.
#[derive(Default)]
struct Symbols<'a> {
    functions: SymbolFunctions<'a>,
    around: Vec<NmSymbol<'a>>,
    /// The order of the table, if it is to be cached.
    new_order: Option<Vec<u8>>,
}

impl<'a> Symbols<'a> {
    fn read(
        image: &'a Image,
        main: &object::File<'a>,
        file: &object::File<'a>,
        known: &Known,
        addresses: &[SymbolAddr],
        wanted: &[u64],
    ) -> Self {
        let table = if table::count(file, Table::All) > 1 { Table::All } else { Table::Dynamic };
        let order = known.order(file, table);
        let functions = SymbolFunctions::at(file, table, &order, wanted);
        let is_one = std::ptr::eq(main, file) && table == Table::All;
        let around = if is_one { nm::around(image, main, &order, addresses) } else { nm::nm_around(image, addresses) };
        Self { functions, around, new_order: known.new_order(order, file, table) }
    }
}

fn with_units<T>(
    image: &Image,
    parsed: &ParsedImage<'_>,
    file: &object::File<'_>,
    wanted: &[u64],
    needed: Needed<'_>,
    read: impl FnOnce(&Units<'_>) -> T,
) -> T {
    let bytes_max = image.decompressed_bytes_max;
    let shared = parsed.shared.as_ref().and_then(|file| sections::load(file, bytes_max).ok());
    let loaded = sections::load_needed(file, bytes_max, needed).unwrap_or_default();
    let dwarf = dwarf::open(&loaded.sections, shared.as_ref(), parsed.endian());
    read(&Units::find(&dwarf, loaded.units.as_deref(), wanted))
}

/// The units of a file.
pub(super) struct Units<'a> {
    dwarf: &'a Dwarf<'a>,
    pub(super) index: dwarf::Units<'a>,
    /// Whether a reference led outside of all units.
    is_lacking: AtomicBool,
}

impl<'a> Units<'a> {
    /// Finds the units that cover one of `wanted`; `offsets` are those of all units there are, where that is known.
    fn find(dwarf: &'a Dwarf<'a>, offsets: Option<&[usize]>, wanted: &[u64]) -> Self {
        let info_bytes = gimli::Section::reader(&dwarf.debug_info).slice().len();
        let threads = workers::threads_for(info_bytes, THREAD_INFO_BYTES);
        let index = match offsets {
            Some(offsets) => dwarf::Units::at_offsets(dwarf, offsets, wanted, threads),
            None => dwarf::Units::with_ranges(dwarf, Some(wanted), threads),
        };
        Self { dwarf, index, is_lacking: AtomicBool::new(false) }
    }

    /// The unit with that number; `None` if its root entry is broken.
    pub(super) fn root(&self, unit: usize) -> Option<&Root<'a>> {
        self.index.root(self.dwarf, unit)
    }

    pub(super) fn dwarf(&self) -> &Dwarf<'a> {
        self.dwarf
    }

    /// The language of a unit.
    pub(super) fn language(&self, unit: &Unit<'a>, dwarf: &Dwarf<'a>) -> Option<DwLang> {
        if !dwarf_is_sup(self.dwarf, dwarf) {
            let (root, _) = self.unit_at(unit.header.root_offset().to_debug_info_offset(&unit.header)?)?;
            return root.language;
        }
        let root = unit.entry(unit.header.root_offset()).ok()?;
        match root.attr_value(gimli::DW_AT_language)? {
            AttributeValue::Language(language) => Some(language),
            _ => None,
        }
    }

    /// Calls the function with the place of the entry that `reference` leads to, and its unit; returns the default if
    /// it leads nowhere.
    pub(super) fn follow<T: Default>(
        &self,
        unit: &Unit<'a>,
        dwarf: &Dwarf<'a>,
        reference: AttributeValue<Reader<'a>>,
        read: impl FnOnce(&Unit<'a>, &Dwarf<'a>, UnitOffset) -> T,
    ) -> T {
        match reference {
            AttributeValue::UnitRef(offset) => read(unit, dwarf, offset),
            AttributeValue::DebugInfoRef(offset) if !dwarf_is_sup(self.dwarf, dwarf) => {
                let Some((root, offset)) = self.unit_at(offset) else {
                    self.is_lacking.store(true, Ordering::Relaxed);
                    return T::default();
                };
                read(&root.unit, self.dwarf, offset)
            }
            AttributeValue::DebugInfoRef(offset) => sup_entry(dwarf, offset, read),
            AttributeValue::DebugInfoRefSup(offset) => {
                self.dwarf.sup().map(|sup| sup_entry(sup, offset, read)).unwrap_or_default()
            }
            _ => T::default(),
        }
    }

    fn unit_at(&self, offset: DebugInfoOffset) -> Option<(&Root<'a>, UnitOffset)> {
        let (unit, offset) = self.index.holding(offset)?;
        Some((self.root(unit)?, offset))
    }
}

fn dwarf_is_sup(main: &Dwarf<'_>, dwarf: &Dwarf<'_>) -> bool {
    !std::ptr::eq(main, dwarf)
}

fn sup_entry<'a, T: Default>(
    sup: &Dwarf<'a>,
    offset: DebugInfoOffset,
    read: impl FnOnce(&Unit<'a>, &Dwarf<'a>, UnitOffset) -> T,
) -> T {
    let mut headers = sup.units();
    while let Ok(Some(header)) = headers.next() {
        let Some(within) = offset.to_unit_offset(&header) else { continue };
        let Ok(unit) = sup.unit(header) else { break };
        return read(&unit, sup, within);
    }
    T::default()
}

/// The text of a string attribute of an entry of that unit.
pub(super) fn text<'a>(dwarf: &Dwarf<'a>, unit: &Unit<'a>, value: AttributeValue<Reader<'a>>) -> Option<Cow<'a, str>> {
    dwarf.attr_string(unit, value).ok().map(|text| text.to_string_lossy())
}
