//! Lines at the addresses of a unit: its line program is run once, and no row is kept that covers
//! none of them.

use std::sync::Arc;

use gimli::{DebugLineOffset, IncompleteLineProgram, LineProgramHeader};
use rustc_hash::FxHashMap;

use super::line_program::{LineProgram, LineRow};
use super::{Broken, Reader, UnitRef};

/// A place in the source.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Row {
    /// The number of the file in [`Files`].
    pub(crate) file: u64,
    /// From 1; 0 if unknown.
    pub(crate) line: u32,
    /// From 1; 0 if unknown.
    pub(crate) column: u32,
}

/// Finds the rows at `addresses`, which ascend. With the names of the unit's files.
pub(crate) fn rows<'u, 'a>(
    unit: UnitRef<'u, 'a>,
    lines: Option<DebugLineOffset>,
    addresses: &[u64],
) -> Result<(Vec<Option<Row>>, Files<'u, 'a>), Broken> {
    let mut found = vec![None; addresses.len()];
    let mut files = Files { unit, program: None, names: FxHashMap::default() };
    let Some(lines) = lines else {
        return Ok((found, files));
    };
    let program = unit.dwarf.debug_line.program(lines, unit.header.address_size(), unit.comp_dir, unit.name)?;
    let mut run = LineProgram::new(program.header())?;
    files.program = Some(program);
    // The row before, and the first of the addresses that are not before it.
    let mut open: Option<(u64, Row, usize)> = None;
    // A program that breaks off is good up to there.
    while let Ok(Some(LineRow { address, place })) = run.next() {
        let mut first = None;
        if let Some((start, before, mut index)) = open {
            while start < address && addresses.get(index).is_some_and(|wanted| *wanted < address) {
                found[index].get_or_insert(before);
                index += 1;
            }
            first = Some(index).filter(|_| start <= address);
        }
        open = place.map(|place| {
            let first = first.unwrap_or_else(|| addresses.partition_point(|wanted| *wanted < address));
            (address, place, first)
        });
    }
    Ok((found, files))
}

/// The ranges of the sequences of a line program.
pub(crate) fn sequences(unit: UnitRef<'_, '_>, lines: Option<DebugLineOffset>) -> Result<Vec<gimli::Range>, Broken> {
    let Some(lines) = lines else {
        return Ok(Vec::new());
    };
    let program = unit.dwarf.debug_line.program(lines, unit.header.address_size(), unit.comp_dir, unit.name)?;
    let mut program = LineProgram::new(program.header())?;
    let mut found = Vec::new();
    let mut start = None;
    while let Some(row) = program.next()? {
        let begin = *start.get_or_insert(row.address);
        if row.place.is_none() {
            start = None;
            if begin < row.address {
                found.push(gimli::Range { begin, end: row.address });
            }
        }
    }
    Ok(found)
}

/// The names of the files of a unit, each put together when it is first asked for.
pub(crate) struct Files<'u, 'a> {
    unit: UnitRef<'u, 'a>,
    program: Option<IncompleteLineProgram<Reader<'a>>>,
    names: FxHashMap<u64, Option<Arc<str>>>,
}

impl Files<'_, '_> {
    /// The name of a file, made absolute by the folder the unit was compiled in.
    pub(crate) fn name(&mut self, number: u64) -> Option<Arc<str>> {
        if let Some(name) = self.names.get(&number) {
            return name.clone();
        }
        let name = self.program.as_ref().and_then(|program| render(self.unit, program.header(), number)).map(Arc::from);
        self.names.insert(number, name.clone());
        name
    }
}

fn render<'a>(unit: UnitRef<'_, 'a>, header: &LineProgramHeader<Reader<'a>>, number: u64) -> Option<String> {
    let file = header.file(number)?;
    let mut path = unit.comp_dir.map(|folder| folder.to_string_lossy().into_owned()).unwrap_or_default();
    // Folder 0 is the one the unit was compiled in.
    if file.directory_index() != 0
        && let Some(folder) = file.directory(header)
    {
        push(&mut path, &unit.attr_string(folder).ok()?.to_string_lossy());
    }
    push(&mut path, &unit.attr_string(file.path_name()).ok()?.to_string_lossy());
    Some(path)
}

fn push(path: &mut String, part: &str) {
    if part.starts_with('/') {
        path.clear();
    } else if !path.is_empty() && !path.ends_with('/') {
        path.push('/');
    }
    path.push_str(part);
}
