//! Functions and inlined calls of one unit, in one walk over its entries.
//!
//! Code may be in any function, however deep: compilers nest it in other functions, in classes local to them, some in
//! types of any kind. Skipped, if the entry has its length: calls, inlined calls of functions that are not requested,
//! and in C and C++ types that are not local to a function and functions without code.

use gimli::{AttributeValue, DwLang, Section, UnitOffset};

use super::plan::{Kind, Plans};
use super::scopes::DEPTH_MAX;
use super::{Broken, Dwarf, Guide, Reader, Root};
use crate::ranges::{Span, Zone};

/// Most ranges that are read in a unit. Lists can be shared, so that a small file has very many.
const RANGES_MAX: usize = 1 << 24;

/// The functions of a unit.
#[derive(Debug, Default)]
pub(crate) struct Functions<'a> {
    /// The code of all functions; the value is which function, in the order of entries.
    pub(crate) code: Vec<Span<u32>>,
    /// The content of each function; `None` if it was not requested.
    pub(crate) trees: Vec<Option<Tree>>,
    /// The place of each function's description.
    pub(crate) entries: Vec<usize>,
    /// The inlined calls of each tree together, those inlined into one behind it.
    pub(crate) calls: Vec<Call<'a>>,
    /// Begin and end of code of calls.
    pub(crate) ranges: Vec<(u64, u64)>,
}

/// A requested function.
#[derive(Debug, Clone)]
pub(crate) struct Tree {
    /// The place of its description.
    pub(crate) entry: UnitOffset,
    /// The start of its first range.
    pub(crate) start: u64,
    /// The calls inlined into it.
    pub(crate) calls: std::ops::Range<u32>,
}

/// An inlined call.
#[derive(Debug, Clone)]
pub(crate) struct Call<'a> {
    /// The place of its description.
    pub(crate) entry: UnitOffset,
    /// The called function, if it is described elsewhere.
    pub(crate) origin: Option<AttributeValue<Reader<'a>>>,
    /// The number of the file it was called in; `None` if unknown.
    pub(crate) file: Option<u64>,
    /// The line it was called at; 0 if unknown.
    pub(crate) line: u32,
    /// The column it was called at; 0 if unknown.
    pub(crate) column: u32,
    /// Its code, in [`Functions::ranges`].
    pub(crate) ranges: std::ops::Range<u32>,
    /// The call behind those inlined into this one.
    pub(crate) behind: u32,
}

/// Finds the functions of a unit, and reads those with code in the zone.
///
/// `Err` contains what was found before the broken entry.
pub(crate) fn walk<'a>(dwarf: &Dwarf<'a>, root: &Root<'a>, zone: Zone<'_>) -> (Functions<'a>, Result<(), Broken>) {
    let mut walk = Walk { dwarf, root, zone, found: Functions::default(), ranges: Vec::new(), ranges_left: RANGES_MAX };
    let result = root.plans(dwarf).map_err(Broken::from).and_then(|plans| walk.entries(&plans));
    (walk.found, result)
}

/// As [`walk`], but only the entries of functions with code in the zone are read, which the guide lists.
pub(crate) fn walk_guided<'a>(
    dwarf: &Dwarf<'a>,
    root: &Root<'a>,
    zone: Zone<'_>,
    guide: &Guide,
) -> (Functions<'a>, Result<(), Broken>) {
    let mut walk = Walk { dwarf, root, zone, found: Functions::default(), ranges: Vec::new(), ranges_left: RANGES_MAX };
    let result = root.plans(dwarf).map_err(Broken::from).and_then(|plans| walk.entries_of(&plans, guide));
    (walk.found, result)
}

impl Functions<'_> {
    /// The place of the description of each function's code.
    pub(crate) fn described(&self) -> Vec<Span<usize>> {
        let entry =
            |span: &Span<u32>| Span { begin: span.begin, end: span.end, value: self.entries[span.value as usize] };
        self.code.iter().map(entry).collect()
    }
}

impl<'a> Root<'a> {
    /// The plans to step over the unit's entries.
    pub(super) fn plans<'u>(&'u self, dwarf: &Dwarf<'a>) -> gimli::Result<Plans<'u, 'a>> {
        let header = &self.unit.header;
        let start = header.offset().0;
        let bytes = dwarf.debug_info.reader().slice().get(start..start + header.length_including_self());
        let bytes = bytes.ok_or(gimli::Error::MissingUnitDie)?;
        let big_endian = gimli::Reader::endian(dwarf.debug_info.reader()) == gimli::RunTimeEndian::Big;
        Ok(Plans::new(header, &self.unit.abbreviations, bytes, big_endian))
    }
}

struct Walk<'u, 'a> {
    dwarf: &'u Dwarf<'a>,
    root: &'u Root<'a>,
    zone: Zone<'u>,
    found: Functions<'a>,
    /// The attributes of the current entry.
    ranges: Vec<(u64, u64)>,
    ranges_left: usize,
}

/// The effect of an open entry on those in it.
#[derive(Clone, Copy, Default)]
struct Level {
    in_function: bool,
    /// Whether inlined calls are read, since the enclosing function was requested.
    is_read: bool,
    opened: Opened,
}

/// The state that ends with an entry.
#[derive(Clone, Copy, Default)]
enum Opened {
    #[default]
    Nothing,
    Function(u32),
    Call(u32),
}

impl<'a> Walk<'_, 'a> {
    fn entries(&mut self, plans: &Plans<'_, 'a>) -> Result<(), Broken> {
        self.entries_from(plans, plans.start()).map(|_| ())
    }

    fn entries_of(&mut self, plans: &Plans<'_, 'a>, guide: &Guide) -> Result<(), Broken> {
        self.found.code.reserve(guide.functions.len());
        self.found.trees.reserve(guide.functions.len());
        self.found.entries.reserve(guide.functions.len());
        // Functions in a function that is read are read with it.
        let mut read_until = 0;
        for ranges in guide.functions.chunk_by(|a, b| a.value == b.value) {
            let Some(entry) = ranges.first().map(|range| range.value).filter(|entry| *entry >= read_until) else {
                continue;
            };
            if ranges.iter().any(|range| self.zone.touches(range.begin, range.end)) {
                read_until = self.entries_from(plans, entry)?;
                continue;
            }
            // It may contain or be inside one that is read.
            let number = self.found.trees.len() as u32;
            self.found.code.extend(ranges.iter().map(|range| Span {
                begin: range.begin,
                end: range.end,
                value: number,
            }));
            self.found.trees.push(None);
            self.found.entries.push(entry);
        }
        Ok(())
    }

    /// Reads an entry and all in it; returns the offset behind.
    fn entries_from(&mut self, plans: &Plans<'_, 'a>, entry: usize) -> Result<usize, Broken> {
        let mut levels: Vec<Level> = Vec::new();
        let result = self.entries_in(plans, entry, &mut levels);
        // Entries that a broken one left open.
        while let Some(level) = levels.pop() {
            self.close(level);
        }
        result
    }

    fn entries_in(&mut self, plans: &Plans<'_, 'a>, first: usize, levels: &mut Vec<Level>) -> Result<usize, Broken> {
        let is_c = self.root.language.is_some_and(is_c);
        let mut at = first;
        while at < plans.end() {
            let entry = at;
            let (plan, behind) = plans.plan(at)?;
            let Some(plan) = plan else {
                if let Some(level) = levels.pop() {
                    self.close(level);
                }
                at = behind;
                if levels.is_empty() {
                    break;
                }
                continue;
            };
            let outer = levels.last().copied().unwrap_or_default();
            let mut inner = Level { opened: Opened::Nothing, ..outer };
            let (next, sibling) = plans.skip(&plan, behind)?;
            at = next;
            let passable = match plan.kind {
                Kind::Code => {
                    let range = plan.code.map(|place| plans.code_range(place, behind)).transpose()?;
                    inner = self.function(UnitOffset(entry), range)?;
                    false
                }
                Kind::Declaration => {
                    inner = Level { in_function: true, is_read: false, opened: Opened::Nothing };
                    is_c
                }
                Kind::Inlined => {
                    if outer.is_read {
                        inner.opened = self.inlined(UnitOffset(entry))?;
                    }
                    inner.is_read = matches!(inner.opened, Opened::Call(_));
                    !inner.is_read
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
            } else {
                self.close(inner);
                if levels.is_empty() {
                    break;
                }
            }
        }
        Ok(at)
    }

    /// Notes where the calls in an entry end.
    fn close(&mut self, level: Level) {
        let end = self.found.calls.len() as u32;
        match level.opened {
            Opened::Nothing => {}
            Opened::Function(function) => {
                if let Some(Some(tree)) = self.found.trees.get_mut(function as usize) {
                    tree.calls.end = end;
                }
            }
            Opened::Call(call) => self.found.calls[call as usize].behind = end,
        }
    }

    /// Adds a function; `range` is its code if that is known already.
    fn function(&mut self, entry: UnitOffset, range: Option<(u64, u64)>) -> Result<Level, Broken> {
        match range {
            Some(range) => {
                self.ranges.clear();
                self.ranges.push(range);
            }
            None => {
                self.read(entry)?;
            }
        }
        let number = self.found.trees.len() as u32;
        let is_read = self.ranges.iter().any(|(begin, end)| self.zone.touches(*begin, *end));
        let first = self.found.code.len();
        let spans = self.ranges.iter().filter(|(begin, end)| begin < end);
        self.found.code.extend(spans.map(|(begin, end)| Span { begin: *begin, end: *end, value: number }));
        let calls = self.found.calls.len() as u32;
        let start = self.found.code.get(first).map_or(u64::MAX, |span| span.begin);
        let tree = is_read.then_some(Tree { entry, start, calls: calls..calls });
        self.found.trees.push(tree);
        self.found.entries.push(entry.0);
        let opened = if is_read { Opened::Function(number) } else { Opened::Nothing };
        Ok(Level { in_function: true, is_read, opened })
    }

    /// Adds an inlined call; nothing if it has no code.
    fn inlined(&mut self, entry: UnitOffset) -> Result<Opened, Broken> {
        let call = self.read(entry)?;
        let first = self.found.ranges.len() as u32;
        self.found.ranges.extend(self.ranges.iter().filter(|(begin, end)| begin < end));
        let ranges = first..self.found.ranges.len() as u32;
        if ranges.is_empty() {
            return Ok(Opened::Nothing);
        }
        let number = self.found.calls.len() as u32;
        let CallPlace { origin, file, line, column } = call;
        self.found.calls.push(Call { entry, origin, file, line, column, ranges, behind: number + 1 });
        Ok(Opened::Call(number))
    }

    /// Reads the ranges of an entry, and where it was called.
    fn read(&mut self, entry: UnitOffset) -> Result<CallPlace<'a>, Broken> {
        let unit = self.root.unit_ref(self.dwarf);
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
                self.ranges.push((range.begin, range.end));
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

/// The place of an inlined call, and the called function.
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
