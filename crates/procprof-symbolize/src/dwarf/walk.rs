//! Functions and inlined calls at the addresses of one unit, in one walk over its entries.
//!
//! Code may be in any function, however deep: compilers nest it in other functions, in classes
//! local to them, some in types of any kind. What is left out, where the entry tells how far it
//! goes: inlined calls without a wanted address, calls, and in C and C++ types that are not local to
//! a function and functions without code.

use gimli::{AttributeValue, DwLang, Section, UnitOffset};

use super::names::{Home, Names};
use super::plan::{Kind, Plans};
use super::scopes::DEPTH_MAX;
use super::{Broken, Dwarf, Reader, Root};

/// Most ranges that are read in a unit. Lists can be shared, so that a small file has very many.
const RANGES_MAX: usize = 1 << 24;

/// A function at an address, and where the one inside it was called.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Call {
    /// Its number in [`Names`].
    pub(crate) function: u32,
    /// The number of the file it was called in; `None` for the outermost or if unknown.
    pub(crate) file: Option<u64>,
    /// The line it was called at; 0 for the outermost or if unknown.
    pub(crate) line: u32,
    /// The column it was called at; 0 for the outermost or if unknown.
    pub(crate) column: u32,
}

/// The functions at one address, outermost first.
#[derive(Debug, Default)]
pub(crate) struct Chain {
    pub(crate) calls: Vec<Call>,
    /// The entry of the innermost.
    entry: usize,
    /// How many bytes the function's range has.
    bytes: u64,
}

/// Finds the functions at `addresses`, which ascend.
///
/// Where functions overlap, the one with the shortest range counts. `Err` comes with what was
/// found before the entry that is broken.
pub(crate) fn walk<'i: 'u, 'u, 'a>(home: Home<'u, 'a>, names: &mut Names<'i, 'a>, addresses: &[u64]) -> (Vec<Chain>, Result<(), Broken>) {
    let chains = addresses.iter().map(|_| Chain::default()).collect();
    let mut walk = Walk { home, names, addresses, chains, ranges: Vec::new(), ranges_left: RANGES_MAX };
    let result = home.root.plans(home.dwarf).map_err(Broken::from).and_then(|plans| walk.entries(&plans));
    (walk.chains, result)
}

impl<'a> Root<'a> {
    /// The plans to step over the unit's entries.
    pub(super) fn plans<'u>(&'u self, dwarf: &Dwarf<'a>) -> gimli::Result<Plans<'u, 'a>> {
        let header = &self.unit.header;
        let start = header.offset().0;
        let bytes = dwarf.debug_info.reader().slice().get(start..start + header.length_including_self());
        let bytes = bytes.ok_or(gimli::Error::MissingUnitDie)?;
        let big_endian = gimli::Reader::endian(dwarf.debug_info.reader()) == gimli::RunTimeEndian::Big;
        Ok(Plans::of(header, &self.unit.abbreviations, bytes, big_endian))
    }
}

struct Walk<'n, 'i, 'u, 'a> {
    home: Home<'u, 'a>,
    names: &'n mut Names<'i, 'a>,
    addresses: &'n [u64],
    chains: Vec<Chain>,
    /// Those of the entry at hand.
    ranges: Vec<(u64, u64)>,
    ranges_left: usize,
}

/// What an open entry means for those in it.
#[derive(Clone, Copy, Default)]
struct Level {
    in_function: bool,
    /// The innermost function or inlined call around, if a wanted address is in it.
    around: Option<usize>,
}

impl<'i: 'u, 'u, 'a> Walk<'_, 'i, 'u, 'a> {
    fn entries(&mut self, plans: &Plans<'_, 'a>) -> Result<(), Broken> {
        let is_c = self.home.root.language.is_some_and(is_c);
        let mut levels: Vec<Level> = Vec::new();
        let mut at = plans.start();
        while at < plans.end() {
            let entry = at;
            let (plan, behind) = plans.plan(at)?;
            let Some(plan) = plan else {
                levels.pop();
                if levels.is_empty() {
                    break;
                }
                at = behind;
                continue;
            };
            let outer = levels.last().copied().unwrap_or_default();
            let mut inner = outer;
            let (next, sibling) = plans.skip(&plan, behind)?;
            at = next;
            let passable = match plan.kind {
                Kind::Code => {
                    let may_hold = match plan.code {
                        Some(place) => self.holds(plans.code_range(place, behind)?),
                        None => true,
                    };
                    let found = may_hold && self.function(UnitOffset(entry))?;
                    inner = Level { in_function: true, around: found.then_some(entry) };
                    false
                }
                Kind::Declaration => {
                    inner = Level { in_function: true, around: None };
                    is_c
                }
                Kind::Inlined => {
                    inner.around = match outer.around {
                        Some(around) => self.inlined(UnitOffset(entry), around)?.then_some(entry),
                        None => None,
                    };
                    inner.around.is_none()
                }
                Kind::CallSite => true,
                Kind::Type => is_c && !outer.in_function,
                Kind::Namespace | Kind::Other => false,
            };
            if plan.has_children {
                match sibling.filter(|_| passable) {
                    Some(sibling) => at = sibling,
                    None if levels.len() == DEPTH_MAX => return Err(Broken),
                    None => levels.push(inner),
                }
            } else if levels.is_empty() {
                break;
            }
        }
        Ok(())
    }

    fn holds(&self, (begin, end): (u64, u64)) -> bool {
        let first = self.addresses.partition_point(|address| *address < begin);
        self.addresses.get(first).is_some_and(|address| *address < end)
    }

    /// Reads a function; whether it has a wanted address.
    fn function(&mut self, entry: UnitOffset) -> Result<bool, Broken> {
        self.read(entry)?;
        let mut number = None;
        for (begin, end) in std::mem::take(&mut self.ranges) {
            let first = self.addresses.partition_point(|address| *address < begin);
            let wanted = self.addresses[first..].iter().take_while(|address| **address < end).count();
            for chain in first..first + wanted {
                let chain = &mut self.chains[chain];
                let bytes = end - begin;
                if !chain.calls.is_empty() && chain.bytes <= bytes {
                    continue;
                }
                let function = *number.get_or_insert_with(|| self.names.function(self.home, entry));
                chain.calls.clear();
                chain.calls.push(Call { function, file: None, line: 0, column: 0 });
                (chain.entry, chain.bytes) = (entry.0, bytes);
            }
        }
        Ok(number.is_some())
    }

    /// Reads an inlined call that is directly in the entry `around`; whether it has an address that
    /// is also in that one.
    fn inlined(&mut self, entry: UnitOffset, around: usize) -> Result<bool, Broken> {
        let call = self.read(entry)?;
        let mut function = None;
        for (begin, end) in std::mem::take(&mut self.ranges) {
            let first = self.addresses.partition_point(|address| *address < begin);
            let wanted = self.addresses[first..].iter().take_while(|address| **address < end).count();
            for chain in first..first + wanted {
                let chain = &mut self.chains[chain];
                if chain.entry != around || chain.calls.is_empty() {
                    continue;
                }
                let number = *function.get_or_insert_with(|| {
                    let referred = call.origin.and_then(|origin| self.names.referred(self.home, origin));
                    referred.unwrap_or_else(|| self.names.function(self.home, entry))
                });
                chain.calls.push(Call { function: number, file: call.file, line: call.line, column: call.column });
                chain.entry = entry.0;
            }
        }
        Ok(function.is_some())
    }

    /// Reads the ranges of an entry, and where it was called.
    fn read(&mut self, entry: UnitOffset) -> Result<CallPlace<'a>, Broken> {
        let unit = self.home.root.unit_ref(self.home.dwarf);
        let mut entries = unit.entries_raw(Some(entry))?;
        let abbreviation = entries.read_abbreviation()?.ok_or(Broken)?;
        let (mut low, mut high, mut size, mut list) = (None, None, None, None);
        let mut call = CallPlace::default();
        for attribute in abbreviation.attributes() {
            let attribute = entries.read_attribute(*attribute)?;
            match (attribute.name(), attribute.value()) {
                (gimli::DW_AT_low_pc, value) => low = unit.attr_address(value)?,
                (gimli::DW_AT_high_pc, AttributeValue::Udata(value)) => size = Some(value),
                (gimli::DW_AT_high_pc, value) => high = unit.attr_address(value)?,
                (gimli::DW_AT_ranges, value) => list = unit.attr_ranges_offset(value)?,
                (gimli::DW_AT_abstract_origin, value) => call.origin = Some(value),
                // Before version 5, number 0 was no file.
                (gimli::DW_AT_call_file, AttributeValue::FileIndex(file)) if file > 0 || unit.header.version() >= 5 => {
                    call.file = Some(file);
                }
                (gimli::DW_AT_call_line, _) => call.line = number(&attribute),
                (gimli::DW_AT_call_column, _) => call.column = number(&attribute),
                _ => {}
            }
        }
        self.ranges.clear();
        if let Some(list) = list {
            let mut ranges = unit.ranges(list)?;
            while let Some(range) = ranges.next()? {
                self.ranges_left = self.ranges_left.checked_sub(1).ok_or(Broken)?;
                if range.begin < range.end && self.holds((range.begin, range.end)) {
                    self.ranges.push((range.begin, range.end));
                }
            }
        } else if let Some(low) = low {
            let end = size.map(|size| low.saturating_add(size)).or(high).unwrap_or(low);
            if low < end {
                self.ranges.push((low, end));
            }
        }
        Ok(call)
    }
}

/// Where an inlined call is, and of what.
#[derive(Default)]
struct CallPlace<'a> {
    origin: Option<AttributeValue<Reader<'a>>>,
    file: Option<u64>,
    line: u32,
    column: u32,
}

fn number(attribute: &gimli::Attribute<Reader<'_>>) -> u32 {
    attribute.udata_value().and_then(|value| u32::try_from(value).ok()).unwrap_or(0)
}

fn is_c(language: DwLang) -> bool {
    matches!(
        language,
        gimli::DW_LANG_C
            | gimli::DW_LANG_C89
            | gimli::DW_LANG_C99
            | gimli::DW_LANG_C11
            | gimli::DW_LANG_C17
            | gimli::DW_LANG_C_plus_plus
            | gimli::DW_LANG_C_plus_plus_03
            | gimli::DW_LANG_C_plus_plus_11
            | gimli::DW_LANG_C_plus_plus_14
            | gimli::DW_LANG_C_plus_plus_17
            | gimli::DW_LANG_C_plus_plus_20
    )
}
