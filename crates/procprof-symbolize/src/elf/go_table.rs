//! Go's own table of functions and lines (`.gopclntab`), which stays in a stripped binary, since the run-time needs it
//! for stack traces.
//!
//! Layout (`internal/abi/symtab.go` and `debug/gosym/pclntab.go` of Go), in the file's byte order:
//!
//! ```text
//! u32 magic    0xfffffffa (1.16), 0xfffffff0 (1.18), 0xfffffff1 (1.20 and later)
//! u8  0, 0, smallest instruction, bytes of a word
//! words        functions, files, [start of the text, from 1.18; from 1.26 0: it is in the module data], then places of:
//!              names, units' file numbers, file names, value tables, functions
//! functions    pairs of (start, place of its record), one more for the end; words in 1.16, then u32
//! record       start, name, args, deferreturn, sp table, file table, line table, tables, unit,
//!              [first line, from 1.20]; all u32 but the start in 1.16, a word
//! value table  pairs of varints (zigzag difference of the value, bytes of code it holds for)
//! ```
//!
//! Module data (`.go.module`, from 1.26): words, the first of which is the address of the table, and the 23rd the start
//! of the text. In files that are loaded anywhere, addresses are 0 until they are relocated.
//!
//! Lines are those of the innermost inlined function, and the function is the outermost: inlined calls are in another
//! table, whose place only the symbols contain. `go tool addr2line` prints the same.

mod functions;

use object::{File, Object, ObjectSection, ReadRef, RelocationTarget};

pub use self::functions::GoFunction;
use crate::Frame;

/// Most entries of one table of values that are read.
const VALUES_MAX: usize = 1 << 20;

/// Words of the table before the start of the text, and of the module data.
const TEXT_START: u64 = 2;
const MODULE_TEXT_START: u64 = 22;

/// Go's own table of functions and lines, with the places of its parts.
#[derive(Debug)]
pub struct GoTable<'a> {
    bytes: &'a [u8],
    big_endian: bool,
    version: Version,
    word: usize,
    instruction: u64,
    functions: usize,
    text: u64,
    names: usize,
    units: usize,
    files: usize,
    values: usize,
    records: usize,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Version {
    Go116,
    Go118,
    Go120,
}

impl<'a> GoTable<'a> {
    /// The table of a file; `None` if there is none that can be read.
    pub fn read<R: ReadRef<'a>>(object: &File<'a, R>) -> Option<Self> {
        let big_endian = !object.is_little_endian();
        let section = [".gopclntab", ".data.rel.ro.gopclntab"].iter().find_map(|name| object.section_by_name(name));
        let (mut table, address) = match section {
            Some(section) => (Self::parse(section.data().ok()?, big_endian)?, section.address()),
            None => Self::find_table(object)?,
        };
        if table.version > Version::Go116 && table.text == 0 {
            table.text = table.relocated_start(object, address).filter(|start| *start != 0)?;
        }
        Some(table)
    }

    /// The table in a section of much else, and its address: up to 1.25, a C linker leaves no other section for it in
    /// files that are loaded anywhere.
    fn find_table<R: ReadRef<'a>>(object: &File<'a, R>) -> Option<(Self, u64)> {
        object.section_by_name(".go.buildinfo")?;
        let section = object.section_by_name(".data.rel.ro")?;
        let bytes = section.data().ok()?;
        (0..bytes.len()).step_by(8).find_map(|offset| {
            let rest = bytes.get(offset..).filter(|rest| rest.get(4..6) == Some(&[0, 0]))?;
            let table = Self::parse(rest, !object.is_little_endian())?;
            Some((table, section.address().checked_add(offset as u64)?))
        })
    }

    /// The start of the text where the table in the file does not contain it: by a relocation of the table, or in the
    /// module data.
    fn relocated_start<R: ReadRef<'a>>(&self, object: &File<'a, R>, address: u64) -> Option<u64> {
        let word = self.word as u64;
        let in_table = address.checked_add(8 + TEXT_START * word)?;
        let module = object.section_by_name(".go.module");
        let module_at = module.as_ref().map(ObjectSection::address);
        let in_module = |index: u64| {
            let offset = usize::try_from(index * word).ok()?;
            let bytes = module.as_ref()?.data().ok()?.get(offset..offset + self.word)?;
            Some(number_of(bytes, self.big_endian)).filter(|number| *number != 0)
        };
        let (mut start, mut table) = (in_module(MODULE_TEXT_START), in_module(0));
        let (mut is_in_table, relocations) = (None, object.dynamic_relocations());
        for (place, relocation) in relocations.into_iter().flatten() {
            // Relative to where the file is loaded.
            if relocation.target() != RelocationTarget::Absolute {
                continue;
            }
            let value = relocation.addend().cast_unsigned();
            let offset = module_at.and_then(|module| place.checked_sub(module));
            if place == in_table {
                is_in_table = Some(value);
            } else if offset == Some(0) {
                table = Some(value);
            } else if offset == Some(MODULE_TEXT_START * word) {
                start = Some(value);
            }
        }
        is_in_table.or(start.filter(|_| table == Some(address)))
    }

    fn parse(bytes: &'a [u8], big_endian: bool) -> Option<Self> {
        let mut table = Self {
            bytes,
            big_endian,
            version: Version::Go116,
            word: usize::from(*bytes.get(7)?),
            instruction: u64::from(*bytes.get(6)?),
            functions: 0,
            text: 0,
            names: 0,
            units: 0,
            files: 0,
            values: 0,
            records: 0,
        };
        table.version = match table.number(0, 4)? {
            0xffff_fffa => Version::Go116,
            0xffff_fff0 => Version::Go118,
            0xffff_fff1 => Version::Go120,
            _ => return None,
        };
        if !matches!(table.word, 4 | 8) {
            return None;
        }
        let word = |index: usize| usize::try_from(table.number(8 + index * table.word, table.word)?).ok();
        let functions = word(0)?;
        let first = match table.version {
            Version::Go116 => 2,
            _ => 3,
        };
        let places = [word(first)?, word(first + 1)?, word(first + 2)?, word(first + 3)?, word(first + 4)?];
        if table.version > Version::Go116 {
            table.text = word(2)? as u64;
        }
        [table.names, table.units, table.files, table.values, table.records] = places;
        // Each function has at least a pair; this bounds every search.
        table.functions = functions;
        let end =
            table.records.checked_add(functions.checked_mul(2)?.checked_add(1)?.checked_mul(table.pair_bytes())?)?;
        (end <= bytes.len()).then_some(table)
    }

    /// The function, file and line at an address.
    pub(crate) fn find(&self, address: u64) -> Option<Frame> {
        let after = self.functions_until(address)?;
        let index = after.checked_sub(1).filter(|index| *index < self.functions)?;
        let start = self.function_start(index)?;
        let record = self.records.checked_add(self.pair(index, 1)? as usize)?;
        // Behind the start: the fields are all of 4 bytes.
        let fields = record.checked_add(self.pair_bytes())?;
        let field = |index: usize| self.number(fields.checked_add(index * 4)?, 4);
        let name = self.text_at(self.names.checked_add(field(0)? as usize)?)?;
        let line = self.value(field(5)? as usize, start, address).and_then(|line| u32::try_from(line).ok());
        let file = self.value(field(4)? as usize, start, address).and_then(|file| self.file(field(7)?, file));
        let first_line = if self.version >= Version::Go120 { field(8) } else { None };
        let name: std::sync::Arc<str> = String::from_utf8_lossy(name).into();
        Some(Frame {
            system_name: name.clone(),
            name,
            start_line: first_line.and_then(|line| u32::try_from(line).ok()).filter(|line| *line != 0),
            file: file.map(|file| String::from_utf8_lossy(file).into()),
            line: line.filter(|line| *line != 0),
            column: None,
        })
    }

    /// The number of functions that start at or before the address; the end of the last counts as one.
    fn functions_until(&self, address: u64) -> Option<usize> {
        let (mut low, mut high) = (0, self.functions + 1);
        while low < high {
            let middle = low.midpoint(high);
            if self.function_start(middle)? <= address {
                low = middle + 1;
            } else {
                high = middle;
            }
        }
        Some(low)
    }

    fn function_start(&self, index: usize) -> Option<u64> {
        Some(self.text.wrapping_add(self.pair(index, 0)?))
    }

    fn pair_bytes(&self) -> usize {
        if self.version == Version::Go116 { self.word } else { 4 }
    }

    fn pair(&self, index: usize, half: usize) -> Option<u64> {
        let bytes = self.pair_bytes();
        self.number(self.records.checked_add((index * 2 + half) * bytes)?, bytes)
    }

    /// The value of a table for an address of the function that begins at `start`.
    fn value(&self, table: usize, start: u64, address: u64) -> Option<i64> {
        let mut at = self.values.checked_add(table)?;
        let (mut value, mut end) = (-1i64, start);
        for _ in 0..VALUES_MAX {
            let difference = self.varint(&mut at)?;
            // A zero ends the table, but for the first, which may leave the value at -1.
            if difference == 0 && end != start {
                return None;
            }
            let signed = (difference >> 1) as i64 ^ -((difference & 1) as i64);
            value = value.wrapping_add(signed);
            end = end.wrapping_add(self.varint(&mut at)?.wrapping_mul(self.instruction));
            if address < end {
                return Some(value);
            }
        }
        None
    }

    fn file(&self, unit: u64, file: i64) -> Option<&'a [u8]> {
        let number = unit.checked_add(u64::try_from(file).ok()?)?;
        let place = self.units.checked_add(usize::try_from(number.checked_mul(4)?).ok()?)?;
        let offset = self.number(place, 4).filter(|offset| *offset != 0xffff_ffff)?;
        self.text_at(self.files.checked_add(offset as usize)?)
    }

    fn text_at(&self, at: usize) -> Option<&'a [u8]> {
        let rest = self.bytes.get(at..)?;
        rest.get(..rest.iter().position(|byte| *byte == 0)?)
    }

    fn varint(&self, at: &mut usize) -> Option<u64> {
        let (mut number, mut shift) = (0u64, 0);
        loop {
            let byte = *self.bytes.get(*at)?;
            *at += 1;
            if shift < 64 {
                number |= u64::from(byte & 0x7f) << shift;
            }
            if byte & 0x80 == 0 {
                return Some(number);
            }
            shift += 7;
        }
    }

    fn number(&self, at: usize, bytes: usize) -> Option<u64> {
        Some(number_of(self.bytes.get(at..at.checked_add(bytes)?)?, self.big_endian))
    }
}

fn number_of(bytes: &[u8], big_endian: bool) -> u64 {
    let add = |number: u64, byte: &u8| number << 8 | u64::from(*byte);
    if big_endian { bytes.iter().fold(0, add) } else { bytes.iter().rev().fold(0, add) }
}
