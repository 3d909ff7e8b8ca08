//! The requested addresses of one unit, and their answers from its debug information.

use std::ops::Range;
use std::sync::Arc;

use foldhash::HashMap;

use super::records::{Node, RawFrame, Record, Records, Row};
use crate::dwarf::{self, Call, DebugInfo, Files, Functions, Guide, Home, Names, Origin, walk, walk_guided};
use crate::ranges::{Span, Zone, apart};
use crate::{Frame, MemoryBudget};

/// Most units that are queried for one address, one after the other.
pub(crate) const UNITS_MAX: usize = 32;

/// Bytes that an abbreviation of a unit takes: mostly five attributes of 16.
const ABBREVIATION_BYTES: usize = 160;

/// Addresses to be looked up in one unit.
pub(crate) struct UnitBatch {
    /// Its number in the index.
    pub(crate) unit: usize,
    /// The numbers of the requested addresses, ascending.
    pub(crate) indexes: Vec<u32>,
}

/// The answer to one address.
#[derive(Debug, Clone)]
pub(crate) struct UnitAnswer {
    /// The number of the requested address.
    pub(crate) index: u32,
    /// Its frames, innermost first.
    pub(crate) frames: Range<usize>,
    /// Whether the last of them is the outermost function.
    pub(crate) is_whole: bool,
    /// The number of the record they are from.
    pub(crate) record: usize,
}

/// The extent of a unit's records.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Extent {
    /// As far as the functions that the zone touches.
    Functions,
    /// No farther than the zone.
    Zone,
}

/// The answers of the units that one thread has queried.
pub(crate) struct UnitAnswers<'i, 'a> {
    info: &'i DebugInfo<'a>,
    pub(crate) names: Names<'i, 'a>,
    pub(crate) files: FileNames,
    pub(crate) records: Records,
    pub(crate) answers: Vec<UnitAnswer>,
    pub(crate) frames: Vec<RawFrame>,
    /// The addresses without an answer whose unit is broken.
    pub(crate) damaged: Vec<u32>,
    /// The addresses whose unit was not read for lack of memory.
    pub(crate) left_out: Vec<u32>,
    /// Abbreviations of the units that were read.
    pub(crate) abbreviations: usize,
    /// Whether any unit was split off, into files that may change or appear.
    pub(crate) is_split: bool,
    /// Guides to units that had none, with the units' offsets; `None` if they are not kept.
    pub(crate) guides: Option<Vec<(usize, Guide)>>,
}

/// The names of source files, each once.
#[derive(Debug, Default)]
pub(crate) struct FileNames {
    numbers: HashMap<Arc<str>, u32>,
    pub(crate) all: Vec<Arc<str>>,
    text_bytes: usize,
}

impl FileNames {
    pub(crate) fn add(&mut self, name: Arc<str>) -> u32 {
        *self.numbers.entry(name).or_insert_with_key(|name| {
            self.all.push(Arc::clone(name));
            self.text_bytes += name.len();
            self.all.len() as u32 - 1
        })
    }

    /// Bytes that they take.
    pub(crate) fn held_bytes(&self) -> usize {
        /// A number, two pointers to the text and its head.
        const NAME_BYTES: usize = 72;
        self.text_bytes + self.all.len() * NAME_BYTES
    }
}

impl<'i, 'a> UnitAnswers<'i, 'a> {
    /// Nothing yet; guides are made if `keeps_guides`.
    pub(crate) fn new(info: &'i DebugInfo<'a>, keeps_guides: bool) -> Self {
        Self {
            info,
            names: Names::new(info),
            files: FileNames::default(),
            records: Records::default(),
            answers: Vec::new(),
            frames: Vec::new(),
            damaged: Vec::new(),
            left_out: Vec::new(),
            abbreviations: 0,
            is_split: false,
            guides: keeps_guides.then(Vec::new),
        }
    }

    /// Looks up the addresses of one unit if the budget allows to read it.
    pub(crate) fn answer_within(&mut self, memory: Option<&MemoryBudget>, batch: &UnitBatch, wanted: &[u64]) {
        let Some(memory) = memory else {
            return self.answer(batch, wanted);
        };
        // Until they are sifted, functions and lines of a unit take about as much as its entries.
        let reading = self.info.units.bytes(batch.unit) as u64;
        if !memory.take(reading) {
            self.left_out.extend(&batch.indexes);
            return;
        }
        let before = self.held_bytes();
        self.answer(batch, wanted);
        memory.give_back(reading);
        memory.spend(self.held_bytes() - before);
    }

    /// Looks up the addresses of one unit.
    fn answer(&mut self, batch: &UnitBatch, wanted: &[u64]) {
        let addresses = batch.indexes.iter().map(|index| wanted[*index as usize]);
        let zone: Vec<(u64, u64)> = addresses.map(|address| (address, address.saturating_add(1))).collect();
        let (found, is_damaged) = self.read(batch.unit, Zone::new(&zone), Extent::Functions);
        for index in &batch.indexes {
            let address = wanted[*index as usize];
            let records = &self.records.all[found.clone()];
            let after = records.partition_point(|record| record.begin <= address);
            let number = after.checked_sub(1).filter(|last| address < records[*last].end);
            let Some(number) = number else {
                if is_damaged {
                    self.damaged.push(*index);
                }
                continue;
            };
            let first = self.frames.len();
            let is_whole = self.records.add_frames(&records[number], address, &mut self.frames);
            let record = found.start + number;
            self.answers.push(UnitAnswer { index: *index, frames: first..self.frames.len(), is_whole, record });
        }
    }

    /// Adds the records of a unit in the zone: which they are, by ascending address, and whether the
    /// unit is damaged, so that some may be missing.
    pub(crate) fn read(&mut self, unit: usize, zone: Zone<'_>, extent: Extent) -> (Range<usize>, bool) {
        let info = self.info;
        let first = self.records.all.len();
        let Some(root) = info.units.root(&info.dwarf, unit) else {
            return (first..first, true);
        };
        self.abbreviations += (1..).take_while(|code| root.unit.abbreviations.get(*code).is_some()).count();
        let split = info.split_off(root, unit);
        self.is_split |= root.unit.dwo_id.is_some();
        let home = match &split {
            Some(split) => Home { origin: Origin::Split(unit), dwarf: &split.dwarf, root: &split.root },
            None => Home { origin: Origin::Main, dwarf: &info.dwarf, root },
        };
        let offset = root.unit.header.offset().0;
        let guide = Some(&info.guides).filter(|_| split.is_none()).and_then(|guides| guides.get(offset));
        let (mut functions, walked) = match &guide {
            Some(guide) => walk_guided(home.dwarf, home.root, zone, guide),
            None => walk(home.dwarf, home.root, zone),
        };
        let described = self.guides.is_some().then(|| functions.described());
        let pieces = pieces(&mut functions, zone, extent);
        let line_zone: Vec<(u64, u64)> = joined(&pieces);
        // Lines are never in split off units.
        let lines = dwarf::rows(root.unit_ref(&info.dwarf), root.lines, Zone::new(&line_zone), guide.as_ref());
        let is_damaged = walked.is_err() || lines.is_err();
        let (rows, files, sequences) = lines
            .map_or_else(|_| (Vec::new(), None, Vec::new()), |lines| (lines.rows, Some(lines.files), lines.sequences));
        // Without sequences nothing would be known of lines.
        let is_guide =
            guide.is_none() && split.is_none() && !is_damaged && extent == Extent::Functions && !sequences.is_empty();
        if let (true, Some(guides), Some(functions)) = (is_guide, &mut self.guides, described) {
            guides.push((offset, Guide { functions, sequences }));
        }
        let mut adding = Adding {
            home,
            records: &mut self.records,
            names: &mut self.names,
            file_names: &mut self.files,
            files,
            numbers: HashMap::default(),
        };
        adding.add(&functions, &pieces, &rows);
        (first..self.records.all.len(), is_damaged)
    }

    /// Bytes kept of the units queried so far; frames count twice, as in the end.
    pub(crate) fn held_bytes(&self) -> u64 {
        let records = self.records.all.capacity() * size_of::<Record>()
            + self.records.nodes.capacity() * size_of::<Node>()
            + self.records.ranges.capacity() * size_of::<(u64, u64)>()
            + self.records.rows.capacity() * size_of::<Span<Row>>();
        let answers =
            self.answers.capacity() * size_of::<UnitAnswer>() + self.frames.capacity() * size_of::<RawFrame>();
        (records + answers + self.abbreviations * ABBREVIATION_BYTES) as u64 + self.answer_bytes()
    }

    /// Bytes of them that stay in the answers: frames, and the names of functions and files.
    pub(crate) fn answer_bytes(&self) -> u64 {
        (self.frames.len() * size_of::<Frame>() + self.names.held_bytes() + self.files.held_bytes()) as u64
    }
}

/// The pieces that records are made of: each belongs to one function, or to none.
fn pieces(functions: &mut Functions<'_>, zone: Zone<'_>, extent: Extent) -> Vec<Span<Option<u32>>> {
    let code = std::mem::take(&mut functions.code);
    let code = apart(code, |span| (span.end - span.begin, span.value));
    let mut pieces = Vec::new();
    let mut next = 0;
    for (begin, end) in zone.spans() {
        let mut at = *begin;
        next += code[next..].partition_point(|span| span.end <= at);
        for span in code[next..].iter().take_while(|span| span.begin < *end) {
            if at < span.begin {
                pieces.push(Span { begin: at, end: span.begin, value: None });
            }
            let piece = Span { begin: span.begin, end: span.end, value: Some(span.value) };
            match extent {
                Extent::Zone => pieces.extend(piece.clipped(*begin, *end)),
                // The zone may touch a function in several places.
                Extent::Functions if pieces.last() != Some(&piece) => pieces.push(piece),
                Extent::Functions => {}
            }
            at = span.end;
        }
        if at < *end {
            pieces.push(Span { begin: at, end: *end, value: None });
        }
    }
    pieces
}

/// The zone of the pieces; those that touch are one.
fn joined(pieces: &[Span<Option<u32>>]) -> Vec<(u64, u64)> {
    let mut joined: Vec<(u64, u64)> = Vec::with_capacity(pieces.len());
    for piece in pieces {
        match joined.last_mut() {
            Some((_, end)) if *end == piece.begin => *end = piece.end,
            _ => joined.push((piece.begin, piece.end)),
        }
    }
    joined
}

/// Converts what was read of a unit into records.
struct Adding<'r, 'i, 'u, 'a> {
    home: Home<'u, 'a>,
    records: &'r mut Records,
    names: &'r mut Names<'i, 'a>,
    file_names: &'r mut FileNames,
    files: Option<Files<'u, 'a>>,
    /// The files of the unit that have a number in `names`.
    numbers: HashMap<u64, Option<u32>>,
}

impl<'i: 'u, 'u, 'a> Adding<'_, 'i, 'u, 'a> {
    fn add(&mut self, functions: &Functions<'a>, pieces: &[Span<Option<u32>>], rows: &[Span<dwarf::Row>]) {
        let mut next = 0;
        for piece in pieces {
            next += rows[next..].partition_point(|row| row.end <= piece.begin);
            let own = &rows[next..];
            let own = &own[..own.partition_point(|row| row.begin < piece.end)];
            match piece.value {
                Some(function) => self.function(functions, function, piece, own),
                None => self.lines_only(piece, own),
            }
        }
    }

    fn function(
        &mut self,
        functions: &Functions<'a>,
        number: u32,
        piece: &Span<Option<u32>>,
        rows: &[Span<dwarf::Row>],
    ) {
        let Some(Some(tree)) = functions.trees.get(number as usize) else {
            return;
        };
        let rows = self.rows(piece, rows);
        let first = self.records.nodes.len() as u32;
        let moved = |call: u32| first + (call - tree.calls.start);
        for call in &functions.calls[tree.calls.start as usize..tree.calls.end as usize] {
            let own = &functions.ranges[call.ranges.start as usize..call.ranges.end as usize];
            let ranges = self.records.ranges.len() as u32;
            self.records.ranges.extend(own.iter().filter(|(begin, end)| *begin < piece.end && piece.begin < *end));
            let ranges = ranges..self.records.ranges.len() as u32;
            let call_place = dwarf::Row { file: call.file.unwrap_or(u64::MAX), line: call.line, column: call.column };
            let place = self.place(call_place);
            let behind = moved(call.behind);
            let function = self.called(call);
            self.records.nodes.push(Node { function, call: place, ranges, behind });
        }
        let nodes = first..self.records.nodes.len() as u32;
        let function = self.names.function(self.home, tree.entry);
        self.records.all.push(Record { begin: piece.begin, end: piece.end, function: Some(function), nodes, rows });
    }

    /// The number of the function that was inlined.
    fn called(&mut self, call: &Call<'a>) -> u32 {
        let referred = call.origin.and_then(|origin| self.names.referred(self.home, origin));
        referred.unwrap_or_else(|| self.names.function(self.home, call.entry))
    }

    /// Adds a record for each stretch with lines.
    fn lines_only(&mut self, piece: &Span<Option<u32>>, rows: &[Span<dwarf::Row>]) {
        for stretch in rows.chunk_by(|a, b| a.end == b.begin) {
            let (Some(first), Some(last)) = (stretch.first(), stretch.last()) else { continue };
            let (begin, end) = (first.begin.max(piece.begin), last.end.min(piece.end));
            let rows = self.rows(piece, stretch);
            let nodes = self.records.nodes.len() as u32;
            self.records.all.push(Record { begin, end, function: None, nodes: nodes..nodes, rows });
        }
    }

    fn rows(&mut self, piece: &Span<Option<u32>>, rows: &[Span<dwarf::Row>]) -> Range<u32> {
        let first = self.records.rows.len() as u32;
        for row in rows {
            if let Some(row) = row.clipped(piece.begin, piece.end) {
                let value = self.place(row.value);
                self.records.rows.push(Span { begin: row.begin, end: row.end, value });
            }
        }
        first..self.records.rows.len() as u32
    }

    fn place(&mut self, place: dwarf::Row) -> Row {
        let file = *self.numbers.entry(place.file).or_insert_with(|| {
            let name = self.files.as_mut().filter(|_| place.file != u64::MAX)?.name(place.file)?;
            Some(self.file_names.add(name))
        });
        Row { file, line: place.line, column: place.column }
    }
}
