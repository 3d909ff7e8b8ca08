//! Lines of one unit by address, by the rules of binutils.

use gimli::{AttributeValue, LineProgramHeader};

use super::dwarf::{Units, text};
use crate::dwarf::{Broken, LineProgram, LineRow, Reader, Unit};

/// The row of the line table that covers an address.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Row {
    address: u64,
    pub(super) file: u64,
    /// 0 if unknown.
    pub(super) line: u32,
    pub(super) discriminator: u64,
}

/// Rows without gaps from its start to its end.
struct Sequence {
    start: u64,
    end: u64,
    rows: Vec<Row>,
}

/// The rows of a unit.
#[derive(Default)]
pub(super) struct LineTable {
    /// By start, not overlapping.
    sequences: Vec<Sequence>,
}

impl LineTable {
    pub(super) fn read(header: &LineProgramHeader<Reader<'_>>) -> Result<Self, Broken> {
        let mut program = LineProgram::new(header)?;
        let (mut sequences, mut current) = (Vec::new(), Vec::<Row>::new());
        while let Some(LineRow { address, place }) = program.next()? {
            let Some(place) = place else {
                sequences.extend(sequence(std::mem::take(&mut current), address));
                continue;
            };
            // Since version 5, a file that is not set means the unit's own.
            let file = if program.is_file_set() { place.file } else { 0 };
            let line = u32::try_from(program.line()).unwrap_or(u32::MAX);
            let row = Row { address, file, line, discriminator: program.discriminator() };
            match current.last_mut() {
                // Of rows with the same address, the last is used.
                Some(last) if last.address == address => *last = row,
                _ => current.push(row),
            }
        }
        Ok(Self { sequences: apart(sequences) })
    }

    pub(super) fn find(&self, address: u64) -> Option<Row> {
        let after = self.sequences.partition_point(|sequence| sequence.start <= address);
        let sequence = self.sequences.get(after.checked_sub(1)?).filter(|sequence| address < sequence.end)?;
        let after = sequence.rows.partition_point(|row| row.address <= address);
        sequence.rows.get(after.checked_sub(1)?).copied()
    }
}

fn sequence(mut rows: Vec<Row>, end: u64) -> Option<Sequence> {
    rows.sort_by_key(|row| row.address);
    let start = rows.first()?.address;
    (start < end).then_some(Sequence { start, end, rows })
}

/// Removes sequences within another one, and truncates those that overlap the one before.
fn apart(mut sequences: Vec<Sequence>) -> Vec<Sequence> {
    sequences.sort_by_key(|sequence| (sequence.start, u64::MAX - sequence.end));
    let mut end = 0;
    sequences.retain_mut(|sequence| {
        if sequence.end <= end {
            return false;
        }
        sequence.start = sequence.start.max(end);
        end = sequence.end;
        true
    });
    sequences
}

/// The name of a file of the line table: its folders and the unit's before it, unless it is absolute.
pub(super) fn file_name<'a>(
    units: &Units<'a>,
    unit: &Unit<'a>,
    header: &LineProgramHeader<Reader<'a>>,
    index: u64,
) -> Option<String> {
    let entry = header.file(index)?;
    let name = text(units.dwarf(), unit, entry.path_name())?;
    if name.starts_with('/') {
        return Some(name.into_owned());
    }
    let folder = folder(header, entry.directory_index()).and_then(|value| text(units.dwarf(), unit, value));
    let unit_folder = unit.comp_dir.map(|folder| folder.to_string_lossy());
    Some(match (folder, unit_folder) {
        (Some(folder), Some(_)) if folder.starts_with('/') => format!("{folder}/{name}"),
        (Some(folder), Some(unit_folder)) => format!("{unit_folder}/{folder}/{name}"),
        (Some(folder), None) | (None, Some(folder)) => format!("{folder}/{name}"),
        (None, None) => name.into_owned(),
    })
}

/// In versions before 5 folder 0 is the unit's own and not in the table.
fn folder<'a>(header: &LineProgramHeader<Reader<'a>>, index: u64) -> Option<AttributeValue<Reader<'a>>> {
    if header.version() < 5 && index == 0 { None } else { header.directory(index) }
}
