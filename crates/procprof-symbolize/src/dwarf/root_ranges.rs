//! The addresses that a unit covers according to its root entry, read without the rest of the root entry.
//!
//! Of thousands of units a few are needed, but to find them, the ranges of all must be read. The usual forms are
//! decoded here with minimal work; for any other form, the root entry is read in full.

use gimli::{AttributeSpecification, DebugLineOffset, DwAt, DwForm, RangeListsOffset, RunTimeEndian, Section};

use super::{Broken, Dwarf, UnitHeader};

/// Calls the function with the ranges of a unit, and returns where its line program is; `None` if its root entry has a
/// form that is not decoded here.
pub(super) fn read(dwarf: &Dwarf<'_>, header: &UnitHeader<'_>, mut each: impl FnMut(gimli::Range)) -> Option<Lines> {
    let little = gimli::Reader::endian(dwarf.debug_info.reader()) == RunTimeEndian::Little;
    if !little || header.address_size() != 8 {
        return None;
    }
    let root = Root::read(dwarf, header).ok()?;
    match (root.list, root.low, root.size) {
        (Some(list), low, _) if header.version() < 5 => pairs(dwarf, list, low.unwrap_or(0), each).ok()?,
        (Some(list), low, _) => {
            let (list, low) = (RangeListsOffset(list), low.unwrap_or(0));
            let mut ranges =
                dwarf.ranges.ranges(list, header.encoding(), low, &dwarf.debug_addr, root.addresses?).ok()?;
            while let Some(range) = ranges.next().ok()? {
                each(range);
            }
        }
        (None, Some(low), Some(size)) => each(gimli::Range { begin: low, end: low.checked_add(size)? }),
        _ => {}
    }
    Some(Lines(root.lines.map(DebugLineOffset)))
}

/// The place of a unit's line program.
pub(super) struct Lines(pub(super) Option<DebugLineOffset>);

/// The attributes of the root entry that concern code.
#[derive(Default)]
struct Root {
    low: Option<u64>,
    size: Option<u64>,
    /// The place of its list of ranges.
    list: Option<usize>,
    addresses: Option<gimli::DebugAddrBase>,
    /// The place of its line program.
    lines: Option<usize>,
}

impl Root {
    fn read(dwarf: &Dwarf<'_>, header: &UnitHeader<'_>) -> Result<Self, Broken> {
        let start = header.offset().0;
        let entries =
            dwarf.debug_info.reader().slice().get(start..).and_then(|rest| rest.get(..header.length_including_self()));
        let mut entry = Bytes(entries.and_then(|unit| unit.get(header.header_size()..)).ok_or(Broken)?);
        let mut abbreviation =
            Bytes(dwarf.debug_abbrev.reader().slice().get(header.debug_abbrev_offset().0..).ok_or(Broken)?);
        let code = entry.leb()?;
        // Mostly the first; where units share their abbreviations it is behind those of others.
        loop {
            match abbreviation.leb()? {
                // The end of the table.
                0 => return Err(Broken),
                own if own == code => break,
                _ => abbreviation.skip_declaration()?,
            }
        }
        abbreviation.leb()?;
        abbreviation.take(1)?;
        let mut root = Self { addresses: Some(gimli::DebugAddrBase(0)), ..Self::default() };
        loop {
            let (name, form) = (abbreviation.leb()?, abbreviation.leb()?);
            if name == 0 && form == 0 {
                return Ok(root);
            }
            let name = DwAt(u16::try_from(name).map_err(|_| Broken)?);
            let form = DwForm(u16::try_from(form).map_err(|_| Broken)?);
            let size = if form == gimli::DW_FORM_implicit_const {
                abbreviation.leb()?;
                0
            } else {
                entry.size_of(header, form)?
            };
            root.attribute(name, form, entry.take(size)?)?;
        }
    }

    fn attribute(&mut self, name: DwAt, form: DwForm, value: &[u8]) -> Result<(), Broken> {
        let number = || value.iter().rev().fold(0, |number, byte| number << 8 | u64::from(*byte));
        match (name, form) {
            (gimli::DW_AT_low_pc, gimli::DW_FORM_addr) => self.low = Some(number()),
            (
                gimli::DW_AT_high_pc,
                gimli::DW_FORM_data1 | gimli::DW_FORM_data2 | gimli::DW_FORM_data4 | gimli::DW_FORM_data8,
            ) => {
                self.size = Some(number());
            }
            (gimli::DW_AT_ranges, gimli::DW_FORM_sec_offset) => self.list = usize::try_from(number()).ok(),
            (gimli::DW_AT_stmt_list, gimli::DW_FORM_sec_offset) => self.lines = usize::try_from(number()).ok(),
            (gimli::DW_AT_addr_base, gimli::DW_FORM_sec_offset) => {
                self.addresses = Some(gimli::DebugAddrBase(usize::try_from(number()).map_err(|_| Broken)?));
            }
            (
                gimli::DW_AT_stmt_list
                | gimli::DW_AT_low_pc
                | gimli::DW_AT_high_pc
                | gimli::DW_AT_ranges
                | gimli::DW_AT_addr_base
                | gimli::DW_AT_GNU_addr_base
                | gimli::DW_AT_GNU_ranges_base,
                _,
            ) => return Err(Broken),
            _ => {}
        }
        Ok(())
    }
}

/// Pairs of 8 bytes until two zeros; one that begins with all ones is a new base.
fn pairs(dwarf: &Dwarf<'_>, list: usize, mut base: u64, mut each: impl FnMut(gimli::Range)) -> Result<(), Broken> {
    let mut left = dwarf.ranges.debug_ranges().reader().slice().get(list..).ok_or(Broken)?.chunks_exact(16);
    loop {
        let pair = left.next().ok_or(Broken)?;
        let number = |bytes: &[u8]| bytes.iter().rev().fold(0, |number, byte| number << 8 | u64::from(*byte));
        match (number(&pair[..8]), number(&pair[8..])) {
            (0, 0) => return Ok(()),
            (u64::MAX, new) => base = new,
            (begin, end) if begin < end => {
                each(gimli::Range { begin: base.wrapping_add(begin), end: base.wrapping_add(end) })
            }
            _ => {}
        }
    }
}

struct Bytes<'a>(&'a [u8]);

impl<'a> Bytes<'a> {
    fn take(&mut self, length: usize) -> Result<&'a [u8], Broken> {
        let (taken, rest) = self.0.split_at_checked(length).ok_or(Broken)?;
        self.0 = rest;
        Ok(taken)
    }

    /// Steps over an abbreviation, less its code.
    fn skip_declaration(&mut self) -> Result<(), Broken> {
        self.leb()?;
        self.take(1)?;
        loop {
            match (self.leb()?, self.leb()?) {
                (0, 0) => return Ok(()),
                (_, form) if form == u64::from(gimli::DW_FORM_implicit_const.0) => {
                    self.leb()?;
                }
                _ => {}
            }
        }
    }

    fn leb(&mut self) -> Result<u64, Broken> {
        let (mut number, mut shift) = (0, 0);
        loop {
            let byte = self.take(1)?[0];
            if shift < 64 {
                number |= u64::from(byte & 0x7f) << shift;
            }
            if byte & 0x80 == 0 {
                return Ok(number);
            }
            shift += 7;
        }
    }

    /// The length of the current value.
    fn size_of(&self, header: &UnitHeader<'_>, form: DwForm) -> Result<usize, Broken> {
        if let Some(size) = AttributeSpecification::new(gimli::DW_AT_name, form, None).size(header) {
            return Ok(size);
        }
        let ends =
            |is_end: fn(u8) -> bool| self.0.iter().position(|byte| is_end(*byte)).map(|place| place + 1).ok_or(Broken);
        match form {
            gimli::DW_FORM_string => ends(|byte| byte == 0),
            gimli::DW_FORM_udata | gimli::DW_FORM_sdata | gimli::DW_FORM_strx | gimli::DW_FORM_GNU_str_index => {
                ends(|byte| byte & 0x80 == 0)
            }
            _ => Err(Broken),
        }
    }
}
