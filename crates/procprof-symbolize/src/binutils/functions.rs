//! Functions and inlined calls of one unit, and the one that holds an address.

use std::borrow::Cow;
use std::cell::RefCell;

use gimli::{Attribute, AttributeValue, DebuggingInformationEntry, DwLang, RangeListsOffset, Unit, UnitOffset};

use super::dwarf::{Dwarf, Reader, Result, Units, text};

/// Longest chain of abstract origins and specifications that is followed.
const ORIGINS_MAX: usize = 100;

/// A function, or a call of one that was inlined. There are many, and few are asked for, so what
/// more is known of it is read then.
pub(super) struct Function<'a> {
    /// Where in the unit it is described.
    entry: UnitOffset,
    pub(super) is_inlined: bool,
    /// The start of its first range.
    pub(super) start: u64,
    /// The function around an inlined call.
    pub(super) caller: Option<u32>,
    /// What it was found to be called, mangled or not.
    pub(super) name: RefCell<Option<Box<Name<'a>>>>,
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
        while !entries.is_empty() {
            let (depth, entry) = (entries.next_depth(), entries.next_offset());
            let Some(abbreviation) = entries.read_abbreviation()? else { continue };
            around.truncate(around.partition_point(|(own, _)| *own < depth));
            let tag = abbreviation.tag();
            if !matches!(tag, gimli::DW_TAG_subprogram | gimli::DW_TAG_entry_point | gimli::DW_TAG_inlined_subroutine) {
                entries.skip_attributes(abbreviation.attributes())?;
                continue;
            }
            let mut extent = Extent::default();
            for spec in abbreviation.attributes() {
                match spec.name() {
                    gimli::DW_AT_low_pc | gimli::DW_AT_high_pc | gimli::DW_AT_ranges => {
                        extent.add(dwarf, unit, &entries.read_attribute(*spec)?)?;
                    }
                    _ => entries.skip_attributes(std::slice::from_ref(spec))?,
                }
            }
            let is_inlined = tag == gimli::DW_TAG_inlined_subroutine;
            let caller = around.last().map(|(_, function)| *function).filter(|_| is_inlined);
            let number = functions.all.len() as u32;
            let start = functions.add_ranges(dwarf, unit, &extent, number)?;
            functions.all.push(Function { entry, is_inlined, start, caller, name: RefCell::default() });
            around.push((depth, number));
        }
        functions.order();
        Ok(functions)
    }

    /// Adds what the function covers and gives the first start.
    fn add_ranges(&mut self, dwarf: &Dwarf<'a>, unit: &Unit<Reader<'a>>, extent: &Extent, function: u32) -> Result<u64> {
        let first = self.ranges.len();
        let mut push = |start: u64, end: u64| {
            if start < end {
                self.ranges.push(Range { start, end, reach: 0, function });
            }
        };
        if let Some(low) = extent.low {
            push(low, extent.high.or(extent.size.and_then(|size| low.checked_add(size))).unwrap_or(low));
        }
        if let Some(offset) = extent.ranges {
            let mut ranges = dwarf.ranges(unit, offset)?;
            while let Some(range) = ranges.next()? {
                push(range.begin, range.end);
            }
        }
        Ok(self.ranges.get(first).map_or(u64::MAX, |range| range.start))
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

/// The attributes that tell what a function covers.
#[derive(Default)]
struct Extent {
    low: Option<u64>,
    high: Option<u64>,
    size: Option<u64>,
    ranges: Option<RangeListsOffset>,
}

impl Extent {
    fn add<'a>(&mut self, dwarf: &Dwarf<'a>, unit: &Unit<Reader<'a>>, attribute: &Attribute<Reader<'a>>) -> Result<()> {
        let value = attribute.value();
        match attribute.name() {
            gimli::DW_AT_low_pc => self.low = dwarf.attr_address(unit, value)?,
            gimli::DW_AT_high_pc => match dwarf.attr_address(unit, value)? {
                Some(address) => self.high = Some(address),
                None => self.size = attribute.udata_value(),
            },
            _ => self.ranges = dwarf.attr_ranges_offset(unit, value)?,
        }
        Ok(())
    }
}

impl<'a> Function<'a> {
    /// The name as it is known so far.
    pub(super) fn name(&self, units: &Units<'a>, unit: &Unit<Reader<'a>>) -> Name<'a> {
        if let Some(name) = &*self.name.borrow() {
            return Name::clone(name);
        }
        let attributes = unit.entry(self.entry).map(|entry| NameAttributes::of(&entry)).unwrap_or_default();
        let name = attributes.resolve(units, unit, units.dwarf(), 0);
        self.set_name(name.clone());
        name
    }

    pub(super) fn set_name(&self, name: Name<'a>) {
        *self.name.borrow_mut() = Some(Box::new(name));
    }

    /// File and line of the call, if it was inlined; 0 where not known.
    pub(super) fn call_site(&self, unit: &Unit<Reader<'a>>) -> (u64, u32) {
        let Ok(entry) = unit.entry(self.entry) else { return (0, 0) };
        let file = match entry.attr_value(gimli::DW_AT_call_file) {
            Some(AttributeValue::FileIndex(index)) => index,
            Some(other) => other.udata_value().unwrap_or(0),
            None => 0,
        };
        let line = entry.attr(gimli::DW_AT_call_line).and_then(Attribute::udata_value);
        (file, line.and_then(|line| u32::try_from(line).ok()).unwrap_or(0))
    }
}

impl<'a> NameAttributes<'a> {
    fn of(entry: &DebuggingInformationEntry<Reader<'a>>) -> Self {
        let value = |attribute| entry.attr_value(attribute);
        Self {
            origin: value(gimli::DW_AT_abstract_origin).or_else(|| value(gimli::DW_AT_specification)),
            name: value(gimli::DW_AT_name),
            linkage: value(gimli::DW_AT_linkage_name).or_else(|| value(gimli::DW_AT_MIPS_linkage_name)),
        }
    }

    fn resolve(&self, units: &Units<'a>, unit: &Unit<Reader<'a>>, dwarf: &Dwarf<'a>, depth: usize) -> Name<'a> {
        let mut name = Name::default();
        if let Some(origin) = self.origin.filter(|_| depth < ORIGINS_MAX) {
            name = units.follow(unit, dwarf, origin, |unit, dwarf, entry| NameAttributes::of(entry).resolve(units, unit, dwarf, depth + 1));
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
