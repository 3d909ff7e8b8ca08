//! Makes the complete index of a file.
//!
//! Units are read as for a batch of all addresses: each piece of the address space is looked up in the first unit that
//! covers it, unknown parts in the next, and the parts unknown to all units in the symbols.

use std::borrow::Cow;

use foldhash::HashMap;

use super::encode::{FunctionNames, PartWriter, Piece, RawPart};
use super::head::{Head, StoredPart};
use crate::dwarf::{DebugInfo, Function, Guides, needs_linker_name};
use crate::elf::Symbols;
use crate::lookup::{Extent, Opened, Record, Records, UNITS_MAX, UnitAnswers, with_opened};
use crate::ranges::{Span, Zone};
use crate::{Error, Image, Result, workers};

/// Bytes of debug information that make one job, and so one part or more.
const JOB_BYTES: usize = 8 << 20;

pub(super) fn complete(image: &Image) -> Result<Vec<u8>> {
    let parts = with_opened(image, None, Guides::default(), parts_of);
    if parts.is_empty() {
        return Err(Error::NothingToIndex { path: image.path().to_owned() });
    }
    let stored = compressed(&parts)?;
    Ok(head(image, true).write(&stored))
}

pub(super) fn head(image: &Image, is_complete: bool) -> Head {
    Head {
        is_complete,
        build_id: image.build_id().cloned(),
        layout_key: image.layout_key(),
        file_name: image.path().file_name().unwrap_or_default().to_string_lossy().into_owned(),
        segments: image.segments().to_vec(),
        parts: Vec::new(),
    }
}

fn compressed(parts: &[RawPart]) -> Result<Vec<StoredPart<'_>>> {
    let compressed = workers::run(parts.len(), workers::threads(), Vec::new, |done, number| {
        done.push((number, StoredPart::compressed(&parts[number])));
    });
    let mut compressed: Vec<_> = compressed.into_iter().flatten().collect();
    compressed.sort_by_key(|(number, _)| *number);
    compressed.into_iter().map(|(_, part)| part).collect()
}

fn parts_of(opened: Option<Opened<'_, '_, '_>>) -> Vec<RawPart> {
    let Some(opened) = opened else {
        return Vec::new();
    };
    let symbols = Symbols::all(opened.files);
    let mut covered: Vec<(u64, u64)> = Vec::new();
    let mut parts = Vec::new();
    if let Some(info) = opened.info {
        for job in of_units(info, &symbols) {
            covered.extend(job.covered);
            parts.extend(job.parts);
        }
    }
    covered.sort_unstable();
    parts.extend(of_symbols(&symbols, &covered));
    parts.sort_by_key(|part| part.begin);
    parts
}

/// The records of the symbols for addresses where nothing else is known.
fn of_symbols(symbols: &[Span<&[u8]>], covered: &[(u64, u64)]) -> Vec<RawPart> {
    let names: Vec<_> = symbols.iter().map(|symbol| String::from_utf8_lossy(symbol.value)).collect();
    let mut writer = PartWriter::default();
    let records = Records::default();
    for (symbol, name) in symbols.iter().zip(&names) {
        let function = Some(FunctionNames { system_name: name, name: None, start_line: 0 });
        for (begin, end) in without(symbol.begin, symbol.end, covered) {
            writer.add(&records, &Piece { begin, end, function, nodes: 0..0, rows: 0..0 }, |_| None, |_| "");
        }
    }
    writer.finish()
}

/// The parts of `begin..end` that are not in `covered`, which ascends.
fn without(begin: u64, end: u64, covered: &[(u64, u64)]) -> Vec<(u64, u64)> {
    let mut left = Vec::new();
    let mut at = begin;
    for (own_begin, own_end) in &covered[covered.partition_point(|(_, own_end)| *own_end <= begin)..] {
        if *own_begin >= end {
            break;
        }
        if at < *own_begin {
            left.push((at, *own_begin));
        }
        at = at.max(*own_end);
    }
    if at < end {
        left.push((at, end));
    }
    left
}

/// The result of one job.
#[derive(Default)]
struct Done {
    parts: Vec<RawPart>,
    covered: Vec<(u64, u64)>,
    /// Requested spans that a unit does not cover, by the number of its piece.
    unknown: Vec<(usize, u64, u64)>,
}

/// A request to a unit: spans of addresses, each with the number of its piece.
struct UnitZone {
    unit: usize,
    spans: Vec<(u64, u64, usize)>,
}

fn of_units(info: &DebugInfo<'_>, symbols: &[Span<&[u8]>]) -> Vec<Done> {
    let pieces = info.units.pieces();
    let mut pending: Vec<(usize, u64, u64)> =
        pieces.iter().enumerate().map(|(number, (begin, end, _))| (number, *begin, *end)).collect();
    let mut all = Vec::new();
    for round in 0..UNITS_MAX {
        let mut zones: HashMap<usize, UnitZone> = HashMap::default();
        for (piece, begin, end) in &pending {
            if let Some(unit) = pieces[*piece].2.get(round).map(|unit| *unit as usize) {
                zones
                    .entry(unit)
                    .or_insert_with(|| UnitZone { unit, spans: Vec::new() })
                    .spans
                    .push((*begin, *end, *piece));
            }
        }
        if zones.is_empty() {
            break;
        }
        let jobs = jobs(info, zones.into_values().collect());
        let done = workers::run(jobs.len(), workers::threads(), Vec::new, |done, job| {
            done.push(work(info, symbols, &jobs[job]))
        });
        pending.clear();
        for mut done in done.into_iter().flatten() {
            pending.append(&mut done.unknown);
            all.push(done);
        }
        pending.sort_unstable_by_key(|(_, begin, _)| *begin);
    }
    all
}

/// Distributes units, neighbours together.
fn jobs(info: &DebugInfo<'_>, mut zones: Vec<UnitZone>) -> Vec<Vec<UnitZone>> {
    zones.sort_unstable_by_key(|zone| (zone.spans.first().map_or(0, |(begin, ..)| *begin), zone.unit));
    let mut jobs: Vec<Vec<UnitZone>> = Vec::new();
    let mut bytes = usize::MAX;
    for zone in zones {
        if bytes >= JOB_BYTES {
            jobs.push(Vec::new());
            bytes = 0;
        }
        bytes += info.units.bytes(zone.unit);
        if let Some(job) = jobs.last_mut() {
            job.push(zone);
        }
    }
    jobs
}

fn work(info: &DebugInfo<'_>, symbols: &[Span<&[u8]>], zones: &[UnitZone]) -> Done {
    let mut done = Done::default();
    let mut gathered = UnitAnswers::new(info, false);
    for zone in zones {
        let spans: Vec<(u64, u64)> = zone.spans.iter().map(|(begin, end, _)| (*begin, *end)).collect();
        let (found, _) = gathered.read(zone.unit, Zone::new(&joined(&spans)), Extent::Zone);
        let own: Vec<(u64, u64)> =
            gathered.records.all[found].iter().map(|record| (record.begin, record.end)).collect();
        for (begin, end, piece) in &zone.spans {
            done.unknown.extend(without(*begin, *end, &own).into_iter().map(|(begin, end)| (*piece, begin, end)));
        }
        done.covered.extend(joined(&own));
    }
    done.parts = encode(&gathered, symbols);
    done
}

fn joined(spans: &[(u64, u64)]) -> Vec<(u64, u64)> {
    let mut joined: Vec<(u64, u64)> = Vec::new();
    for (begin, end) in spans {
        match joined.last_mut() {
            Some((_, last)) if last == begin => *last = *end,
            _ => joined.push((*begin, *end)),
        }
    }
    joined
}

/// Linker names and readable names as they are written, by the number of the function.
pub(super) fn function_names<'f>(functions: &'f [Function<'_>]) -> Vec<(Cow<'f, str>, Option<String>)> {
    functions.iter().map(Function::written).collect()
}

/// Writes all records, with the linker's names if they are requested.
fn encode(gathered: &UnitAnswers<'_, '_>, symbols: &[Span<&[u8]>]) -> Vec<RawPart> {
    let functions = &gathered.names.functions;
    let names = function_names(functions);
    let written = |function: u32| {
        let (system_name, name) = &names[function as usize];
        let start_line = functions[function as usize].line;
        // One without a name keeps its place: what is inlined into it may have one.
        Some(FunctionNames { system_name, name: name.as_deref(), start_line })
    };
    let mut order: Vec<&Record> = gathered.records.all.iter().collect();
    order.sort_unstable_by_key(|record| record.begin);
    let mut pieces: Vec<(&Record, u64, u64, Option<usize>)> = Vec::with_capacity(order.len());
    for record in order {
        let function = record.function.map(|function| &functions[function as usize]);
        let mut at = record.begin;
        for (number, symbol) in
            symbols.iter().enumerate().skip(symbols.partition_point(|symbol| symbol.end <= record.begin))
        {
            if symbol.begin >= record.end
                || function.is_some_and(|function| !function.name.is_empty() && !function.has_bare_name())
            {
                break;
            }
            if !needs_linker_name(function, symbol.value) {
                continue;
            }
            let (begin, end) = (symbol.begin.max(record.begin), symbol.end.min(record.end));
            if at < begin {
                pieces.push((record, at, begin, None));
            }
            pieces.push((record, begin, end, Some(number)));
            at = end;
        }
        if at < record.end {
            pieces.push((record, at, record.end, None));
        }
    }
    let linker_names: Vec<_> =
        pieces.iter().map(|(.., symbol)| symbol.map(|symbol| String::from_utf8_lossy(symbols[symbol].value))).collect();
    let mut writer = PartWriter::default();
    for ((record, begin, end, _), linker_name) in pieces.iter().zip(&linker_names) {
        let function = match linker_name {
            Some(name) => {
                let start_line = record.function.map_or(0, |function| functions[function as usize].line);
                Some(FunctionNames { system_name: name, name: None, start_line })
            }
            None => record.function.and_then(written),
        };
        let piece =
            Piece { begin: *begin, end: *end, function, nodes: record.nodes.clone(), rows: record.rows.clone() };
        writer.add(&gathered.records, &piece, written, |file| &*gathered.files.all[file as usize]);
    }
    writer.finish()
}
