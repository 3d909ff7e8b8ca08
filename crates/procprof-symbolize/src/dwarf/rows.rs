//! Lines of a unit: its line program is run once, and requested rows are kept.

use std::sync::Arc;

use foldhash::HashMap;
use gimli::{DebugLineOffset, IncompleteLineProgram, LineProgramHeader};

use super::line_program::{LineProgram, LineRow};
use super::{Broken, Dwarf, Guide, Reader, UnitRef};
use crate::ranges::{Span, Zone, apart};

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

/// A row that has no end yet: where it begins, and what of the zone does not end before.
type OpenRow<'z> = (u64, Row, &'z [(u64, u64)]);

/// The rows of a unit, and the other results of its line program.
pub(crate) struct Lines<'u, 'a> {
    /// Ascending, not overlapping.
    pub(crate) rows: Vec<Span<Row>>,
    pub(crate) files: Files<'u, 'a>,
    /// The sequences, and where they begin in the program; none if a guide was followed, or if the
    /// program breaks off.
    pub(crate) sequences: Vec<Span<usize>>,
}

/// Finds the rows in the zone; a guide names the sequences that have any.
pub(crate) fn rows<'u, 'a>(
    unit: UnitRef<'u, 'a>,
    lines: Option<DebugLineOffset>,
    zone: Zone<'_>,
    guide: Option<&Guide>,
) -> Result<Lines<'u, 'a>, Broken> {
    let mut files = Files { unit, program: None, names: HashMap::default() };
    let Some(lines) = lines else {
        return Ok(Lines { rows: Vec::new(), files, sequences: Vec::new() });
    };
    let program = unit.dwarf.debug_line.program(lines, unit.header.address_size(), unit.comp_dir, unit.name)?;
    let mut run = LineProgram::new(program.header())?;
    files.program = Some(program);
    let mut found: Vec<Span<Row>> = Vec::new();
    let mut sequences = Vec::new();
    // A truncated program is used up to its end.
    match guide {
        Some(guide) => {
            for place in guide.sequences_in(zone) {
                run.go_to(place);
                let _ = sequence(&mut run, zone, &mut found);
            }
        }
        None => loop {
            let place = run.place();
            match sequence(&mut run, zone, &mut found) {
                Ok(Some((begin, end))) => sequences.push(Span { begin, end, value: place }),
                Ok(None) => break,
                Err(Broken) => {
                    sequences.clear();
                    break;
                }
            }
        },
    }
    let ordered = |found: Vec<Span<Row>>| {
        let numbered = found.iter().enumerate();
        let numbers = numbered.map(|(number, row)| Span { begin: row.begin, end: row.end, value: number }).collect();
        let apart = apart(numbers, |span| span.value);
        apart
            .into_iter()
            .map(|span| Span { begin: span.begin, end: span.end, value: found[span.value].value })
            .collect()
    };
    let is_ordered = found.is_sorted_by(|a, b| a.end <= b.begin);
    let rows = if is_ordered { found } else { ordered(found) };
    Ok(Lines { rows, files, sequences })
}

/// Runs one sequence; returns its first and last address, `None` at the end of the program.
fn sequence(
    run: &mut LineProgram<'_>,
    zone: Zone<'_>,
    found: &mut Vec<Span<Row>>,
) -> Result<Option<(u64, u64)>, Broken> {
    let mut first = None;
    let mut open: Option<OpenRow<'_>> = None;
    while let Some(LineRow { address, place }) = run.next()? {
        first.get_or_insert(address);
        let mut left = None;
        if let Some((begin, row, mut spans)) = open.filter(|(begin, ..)| *begin <= address) {
            while let Some((zone_begin, zone_end)) = spans.first() {
                if *zone_begin >= address {
                    break;
                }
                push(found, Span { begin, end: address, value: row }.clipped(*zone_begin, *zone_end));
                if *zone_end > address {
                    break;
                }
                spans = &spans[1..];
            }
            left = Some(spans);
        }
        let Some(place) = place else {
            let first = first.unwrap_or(address);
            return Ok(Some((first, address.max(first))));
        };
        open = Some((address, place, left.unwrap_or_else(|| zone.from(address))));
    }
    // A sequence without an end has no known extent.
    if first.is_some() { Err(Broken) } else { Ok(None) }
}

/// Adds a row, or extends the one before if they are equal.
fn push(found: &mut Vec<Span<Row>>, row: Option<Span<Row>>) {
    let Some(row) = row else { return };
    match found.last_mut() {
        Some(last) if last.end == row.begin && last.value == row.value => last.end = row.end,
        _ => found.push(row),
    }
}

/// The ranges of the sequences of a line program.
pub(crate) fn sequences(
    dwarf: &Dwarf<'_>,
    lines: Option<DebugLineOffset>,
    address_size: u8,
) -> Result<Vec<gimli::Range>, Broken> {
    let Some(lines) = lines else {
        return Ok(Vec::new());
    };
    let program = dwarf.debug_line.program(lines, address_size, None, None)?;
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

/// The names of the files of a unit, each composed when it is first requested.
pub(crate) struct Files<'u, 'a> {
    unit: UnitRef<'u, 'a>,
    program: Option<IncompleteLineProgram<Reader<'a>>>,
    names: HashMap<u64, Option<Arc<str>>>,
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
        push_part(&mut path, &unit.attr_string(folder).ok()?.to_string_lossy());
    }
    push_part(&mut path, &unit.attr_string(file.path_name()).ok()?.to_string_lossy());
    Some(path)
}

fn push_part(path: &mut String, part: &str) {
    if part.starts_with('/') {
        path.clear();
    } else if !path.is_empty() && !path.ends_with('/') {
        path.push('/');
    }
    path.push_str(part);
}
