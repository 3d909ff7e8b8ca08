//! Functions and inlined calls of one unit, and the one that holds an address.

use std::borrow::Cow;
use std::cell::Cell;

use gimli::{Attribute, AttributeValue, DwLang, Unit};

use super::dwarf::{Dwarf, Reader, Result, Units, text};

/// Longest chain of abstract origins and specifications that is followed.
const ORIGINS_MAX: usize = 100;

/// A function, or a call of one that was inlined.
#[derive(Default)]
pub(super) struct Function<'a> {
    pub(super) is_inlined: bool,
    /// The start of its first range.
    pub(super) start: u64,
    /// The function around an inlined call.
    pub(super) caller: Option<u32>,
    pub(super) call_file: u64,
    pub(super) call_line: u32,
    names: NameAttributes<'a>,
    /// What it was found to be called, mangled or not.
    pub(super) name: Cell<Option<Name<'a>>>,
}

/// A name, and whether it is the linker's.
#[derive(Debug, Clone, Default)]
pub(super) struct Name<'a> {
    pub(super) text: Option<Cow<'a, str>>,
    pub(super) is_linkage: bool,
}

/// The attributes a name comes from.
#[derive(Default, Clone, Copy)]
struct NameAttributes<'a> {
    origin: Option<AttributeValue<Reader<'a>>>,
    name: Option<AttributeValue<Reader<'a>>>,
    linkage: Option<AttributeValue<Reader<'a>>>,
}

/// The functions of a unit.
#[derive(Default)]
pub(super) struct Functions<'a> {
    pub(super) all: Vec<Function<'a>>,
    /// By start.
    ranges: Vec<Range>,
}

struct Range {
    start: u64,
    end: u64,
    /// The greatest end of this and all before.
    reach: u64,
    function: u32,
}

impl<'a> Functions<'a> {
    pub(super) fn of(dwarf: &Dwarf<'a>, unit: &Unit<Reader<'a>>) -> Result<Self> {
        let mut functions = Self::default();
        let mut around: Vec<(isize, u32)> = Vec::new();
        let mut entries = unit.entries_raw(None)?;
        let mut attributes = Vec::new();
        while !entries.is_empty() {
            let depth = entries.next_depth();
            let Some(abbreviation) = entries.read_abbreviation()? else { continue };
            around.truncate(around.partition_point(|(own, _)| *own < depth));
            let tag = abbreviation.tag();
            if !matches!(tag, gimli::DW_TAG_subprogram | gimli::DW_TAG_entry_point | gimli::DW_TAG_inlined_subroutine) {
                entries.skip_attributes(abbreviation.attributes())?;
                continue;
            }
            attributes.clear();
            for spec in abbreviation.attributes() {
                attributes.push(entries.read_attribute(*spec)?);
            }
            let caller = around.last().map(|(_, function)| *function);
            let number = functions.all.len() as u32;
            functions.add(dwarf, unit, &attributes, tag == gimli::DW_TAG_inlined_subroutine, caller)?;
            around.push((depth, number));
        }
        functions.order();
        Ok(functions)
    }

    fn add(
        &mut self,
        dwarf: &Dwarf<'a>,
        unit: &Unit<Reader<'a>>,
        attributes: &[Attribute<Reader<'a>>],
        is_inlined: bool,
        caller: Option<u32>,
    ) -> Result<()> {
        let number = self.all.len() as u32;
        let mut function = Function { is_inlined, caller: caller.filter(|_| is_inlined), ..Function::default() };
        let (mut low, mut high, mut size, mut ranges) = (None, None, None, None);
        for attribute in attributes {
            let value = attribute.value();
            match attribute.name() {
                gimli::DW_AT_low_pc => low = dwarf.attr_address(unit, value)?,
                gimli::DW_AT_high_pc => match dwarf.attr_address(unit, value)? {
                    Some(address) => high = Some(address),
                    None => size = attribute.udata_value(),
                },
                gimli::DW_AT_ranges => ranges = dwarf.attr_ranges_offset(unit, value)?,
                gimli::DW_AT_call_file => {
                    function.call_file = match value {
                        AttributeValue::FileIndex(index) => index,
                        other => other.udata_value().unwrap_or(0),
                    }
                }
                gimli::DW_AT_call_line => {
                    function.call_line = attribute.udata_value().and_then(|line| u32::try_from(line).ok()).unwrap_or(0)
                }
                gimli::DW_AT_abstract_origin | gimli::DW_AT_specification => function.names.origin = Some(value),
                gimli::DW_AT_name => function.names.name = Some(value),
                gimli::DW_AT_linkage_name | gimli::DW_AT_MIPS_linkage_name => function.names.linkage = Some(value),
                _ => {}
            }
        }
        let first = self.ranges.len();
        let mut push = |start: u64, end: u64| {
            if start < end {
                self.ranges.push(Range { start, end, reach: 0, function: number });
            }
        };
        if let Some(low) = low {
            push(low, high.or(size.and_then(|size| low.checked_add(size))).unwrap_or(low));
        }
        if let Some(offset) = ranges {
            let mut ranges = dwarf.ranges(unit, offset)?;
            while let Some(range) = ranges.next()? {
                push(range.begin, range.end);
            }
        }
        function.start = self.ranges.get(first).map_or(u64::MAX, |range| range.start);
        self.all.push(function);
        Ok(())
    }

    fn order(&mut self) {
        self.ranges.sort_by_key(|range| range.start);
        let mut reach = 0;
        for range in &mut self.ranges {
            reach = range.end.max(reach);
            range.reach = reach;
        }
    }

    /// The function whose range around the address is the shortest; of equal ones the last.
    pub(super) fn find(&self, address: u64) -> Option<&Function<'a>> {
        let after = self.ranges.partition_point(|range| range.start <= address);
        let reaching = self.ranges[..after].iter().rev().take_while(|range| range.reach > address);
        let holding = reaching.filter(|range| address < range.end);
        let best = holding.min_by_key(|range| (range.end - range.start, u32::MAX - range.function))?;
        self.all.get(best.function as usize)
    }
}

impl<'a> Function<'a> {
    /// The name as it is known so far.
    pub(super) fn name(&self, units: &Units<'a>, unit: &Unit<Reader<'a>>) -> Name<'a> {
        let known = self.name.take();
        let name = known.unwrap_or_else(|| self.names.resolve(units, unit, units.dwarf(), 0));
        self.name.set(Some(name.clone()));
        name
    }
}

impl<'a> NameAttributes<'a> {
    fn resolve(&self, units: &Units<'a>, unit: &Unit<Reader<'a>>, dwarf: &Dwarf<'a>, depth: usize) -> Name<'a> {
        let mut name = Name::default();
        if let Some(origin) = self.origin.filter(|_| depth < ORIGINS_MAX) {
            name = units.follow(unit, dwarf, origin, |unit, dwarf, entry| {
                let value = |attribute| entry.attr_value(attribute);
                let names = NameAttributes {
                    origin: value(gimli::DW_AT_abstract_origin).or_else(|| value(gimli::DW_AT_specification)),
                    name: value(gimli::DW_AT_name),
                    linkage: value(gimli::DW_AT_linkage_name).or_else(|| value(gimli::DW_AT_MIPS_linkage_name)),
                };
                names.resolve(units, unit, dwarf, depth + 1)
            });
        }
        if let (None, Some(own)) = (&name.text, self.name) {
            name.text = text(dwarf, unit, own);
            name.is_linkage |= !units.language(unit).is_some_and(mangles);
        }
        if let Some(linkage) = self.linkage {
            name = Name { text: text(dwarf, unit, linkage), is_linkage: true };
        }
        name
    }
}

/// Whether the names of a language's functions are not the linker's.
fn mangles(language: DwLang) -> bool {
    !matches!(
        language,
        gimli::DW_LANG_C89
            | gimli::DW_LANG_C
            | gimli::DW_LANG_C99
            | gimli::DW_LANG_C11
            | gimli::DW_LANG_Ada83
            | gimli::DW_LANG_Ada95
            | gimli::DW_LANG_Cobol74
            | gimli::DW_LANG_Cobol85
            | gimli::DW_LANG_Fortran77
            | gimli::DW_LANG_Fortran90
            | gimli::DW_LANG_Fortran95
            | gimli::DW_LANG_Fortran03
            | gimli::DW_LANG_Fortran08
            | gimli::DW_LANG_Pascal83
            | gimli::DW_LANG_Modula2
            | gimli::DW_LANG_PLI
            | gimli::DW_LANG_UPC
            | gimli::DW_LANG_Mips_Assembler
    )
}
