//! Functions and inlined calls of one unit, and the one that contains an address.

use std::borrow::Cow;
use std::cell::RefCell;

use gimli::{AttributeValue, DwLang, UnitOffset};

use super::dwarf::{Units, text};
use crate::dwarf;
use crate::dwarf::{Call, Dwarf, Reader, Unit};
use crate::ranges::spans::Span;

/// Longest chain of abstract origins and specifications that is followed.
const ORIGINS_MAX: usize = 100;

/// A function, or a call of one that was inlined. Its other properties are read when they are requested.
pub(super) struct Function<'a> {
    /// The place of its description in the unit.
    entry: UnitOffset,
    pub(super) is_inlined: bool,
    /// The start of its first range.
    pub(super) start: u64,
    /// The function around an inlined call.
    pub(super) caller: Option<u32>,
    /// File and line of the call, if it was inlined; 0 where not known.
    pub(super) call_site: (u64, u32),
    /// Its name, mangled or not.
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
    /// The requested functions among those found in a unit, in the order in which they are described.
    pub(super) fn select(found: &dwarf::Functions<'a>) -> Self {
        let mut functions = Self::default();
        for item in items(found) {
            let number = functions.all.len() as u32;
            let mut push = |(start, end): &(u64, u64)| {
                functions.ranges.push(Range { start: *start, end: *end, reach: 0, function: number })
            };
            match item {
                Item::Function(tree) => {
                    let Some(tree_entry) = found.trees[tree as usize].as_ref() else { continue };
                    // They are in the order of functions.
                    let own = &found.code[found.code.partition_point(|span| span.value < tree)..];
                    let own = own.iter().take_while(|span| span.value == tree);
                    own.for_each(|Span { begin, end, .. }| push(&(*begin, *end)));
                    functions.push(tree_entry.entry, tree_entry.start, None, (0, 0));
                }
                Item::Call { call, caller } => {
                    let Call { entry, file, line, ranges, .. } = &found.calls[call as usize];
                    let own = &found.ranges[ranges.start as usize..ranges.end as usize];
                    own.iter().for_each(&mut push);
                    let start = own.first().map_or(u64::MAX, |(begin, _)| *begin);
                    functions.push(*entry, start, Some(caller), (file.unwrap_or(0), *line));
                }
            }
        }
        functions.order();
        functions
    }

    fn push(&mut self, entry: UnitOffset, start: u64, caller: Option<u32>, call_site: (u64, u32)) {
        self.all.push(Function {
            entry,
            is_inlined: caller.is_some(),
            start,
            caller,
            call_site,
            name: RefCell::default(),
        });
    }

    fn order(&mut self) {
        self.ranges.sort_by_key(|range| range.start);
        let mut reach = 0;
        for range in &mut self.ranges {
            reach = range.end.max(reach);
            range.reach = reach;
        }
    }

    /// Reads the names of the functions and calls around addresses.
    pub(super) fn read_names(&self, units: &Units<'a>, unit: &Unit<'a>, addresses: impl Iterator<Item = u64>) {
        for address in addresses {
            let mut next = self.find(address);
            // If one has its name, those around it also have theirs.
            while let Some(function) = next.filter(|function| function.name.borrow().is_none()) {
                function.name(units, unit);
                next = function.caller.filter(|_| function.is_inlined).and_then(|caller| self.all.get(caller as usize));
            }
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

/// A function or a call of a unit.
enum Item {
    Function(u32),
    Call {
        call: u32,
        /// The number of the item around.
        caller: u32,
    },
}

/// Requested functions and their calls, as they are described: each after the one it is in.
fn items(found: &dwarf::Functions<'_>) -> Vec<Item> {
    let mut items: Vec<Item> = Vec::new();
    // The calls done, and those still open of functions around: the end of each, with its number here.
    let mut done = 0;
    let mut open: Vec<(u32, u32)> = Vec::new();
    let trees =
        found.trees.iter().enumerate().filter_map(|(number, tree)| Some((number as u32, tree.as_ref()?.calls.clone())));
    let mut trees = trees.peekable();
    while let Some((number, calls)) = trees.next() {
        add_calls(found, &mut items, &mut open, &mut done, calls.start);
        open.push((calls.end, items.len() as u32));
        items.push(Item::Function(number));
        let until = trees.peek().map_or(u32::MAX, |(_, next)| next.start).min(calls.end);
        add_calls(found, &mut items, &mut open, &mut done, until);
    }
    add_calls(found, &mut items, &mut open, &mut done, found.calls.len() as u32);
    items
}

/// Adds the calls before `until`.
fn add_calls(
    found: &dwarf::Functions<'_>,
    items: &mut Vec<Item>,
    open: &mut Vec<(u32, u32)>,
    done: &mut u32,
    until: u32,
) {
    while *done < until {
        while open.last().is_some_and(|(end, _)| end <= done) {
            open.pop();
        }
        if let Some((_, caller)) = open.last().copied() {
            open.push((found.calls[*done as usize].behind, items.len() as u32));
            items.push(Item::Call { call: *done, caller });
        }
        *done += 1;
    }
    while open.last().is_some_and(|(end, _)| end <= done) {
        open.pop();
    }
}

impl<'a> Function<'a> {
    /// The name as it is known so far.
    pub(super) fn name(&self, units: &Units<'a>, unit: &Unit<'a>) -> Name<'a> {
        if let Some(name) = &*self.name.borrow() {
            return Name::clone(name);
        }
        let name = NameAttributes::read(unit, self.entry).unwrap_or_default().resolve(units, unit, units.dwarf(), 0);
        self.set_name(name.clone());
        name
    }

    pub(super) fn set_name(&self, name: Name<'a>) {
        *self.name.borrow_mut() = Some(Box::new(name));
    }
}

impl<'a> NameAttributes<'a> {
    /// The attributes of an entry; the first of equal ones is used.
    fn read(unit: &Unit<'a>, entry: UnitOffset) -> gimli::Result<Self> {
        let (mut origin, mut specification, mut name, mut linkage, mut old_linkage) = (None, None, None, None, None);
        let mut entries = unit.entries_raw(Some(entry))?;
        let abbreviation = entries.read_abbreviation()?.ok_or(gimli::Error::NoEntryAtGivenOffset(entry.0 as u64))?;
        for attribute in abbreviation.attributes() {
            let attribute = entries.read_attribute(*attribute)?;
            let place = match attribute.name() {
                gimli::DW_AT_abstract_origin => &mut origin,
                gimli::DW_AT_specification => &mut specification,
                gimli::DW_AT_name => &mut name,
                gimli::DW_AT_linkage_name => &mut linkage,
                gimli::DW_AT_MIPS_linkage_name => &mut old_linkage,
                _ => continue,
            };
            place.get_or_insert_with(|| attribute.value());
        }
        Ok(Self { origin: origin.or(specification), name, linkage: linkage.or(old_linkage) })
    }

    fn resolve(&self, units: &Units<'a>, unit: &Unit<'a>, dwarf: &Dwarf<'a>, depth: usize) -> Name<'a> {
        if let Some(linkage) = self.linkage {
            return Name { text: text(dwarf, unit, linkage), is_linkage: true };
        }
        let mut name = Name::default();
        if let Some(origin) = self.origin.filter(|_| depth < ORIGINS_MAX) {
            name = units.follow(unit, dwarf, origin, |unit, dwarf, entry| {
                NameAttributes::read(unit, entry).unwrap_or_default().resolve(units, unit, dwarf, depth + 1)
            });
        }
        if let (None, Some(own)) = (&name.text, self.name) {
            name.text = text(dwarf, unit, own);
            name.is_linkage |= !units.language(unit, dwarf).is_some_and(mangles);
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
