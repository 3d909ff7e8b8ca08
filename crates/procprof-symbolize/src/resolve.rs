//! Looking up a batch of addresses in one image: DWARF first, then the symbol tables; without DWARF
//! Go's own table, then the symbol tables.
//!
//! The requested addresses are sorted and assigned to the units that cover them. All processors work on the units, the
//! largest first; they share one index. Addresses without a name in a unit are looked up in the next one that covers
//! them. Each name is demangled once.

use std::sync::Arc;

use foldhash::HashMap;
use procprof_profile::SymbolAddr;

use crate::dwarf::{DebugInfo, Function, Guides, needs_linker_name};
use crate::elf::{GoTable, Image, Symbols};
use crate::index::{Kept, KeptFunctions, cache};
use crate::lookup::{NameId, NameTable, Names, Opened, RawFrame, UNITS_MAX, UnitAnswers, UnitBatch, with_opened};
use crate::{Frame, MemoryBudget, Reason, Resolved, workers};

impl Image {
    /// Looks up a batch of addresses; the answers are in the order of the addresses.
    ///
    /// The debug information is indexed anew on each call, so pass all addresses at once. Works on
    /// as many threads as there are processors, up to 16.
    pub fn resolve(&self, addresses: &[SymbolAddr]) -> Vec<Resolved> {
        resolve(self, addresses)
    }
}

/// Resolves addresses, and answers in the order they are given.
fn resolve(image: &Image, addresses: &[SymbolAddr]) -> Vec<Resolved> {
    if addresses.is_empty() {
        return Vec::new();
    }
    let mut wanted: Vec<u64> = addresses.iter().map(|address| address.0).collect();
    wanted.sort_unstable();
    wanted.dedup();
    let mut answers = resolve_within(image, &wanted);
    let is_each_once = wanted.len() == addresses.len();
    let answer = |address: &SymbolAddr| match wanted.binary_search(&address.0) {
        Ok(place) if is_each_once => std::mem::replace(&mut answers[place], Resolved::Unknown(Reason::NotCovered)),
        Ok(place) => answers[place].clone(),
        Err(_) => Resolved::Unknown(Reason::NotCovered),
    };
    addresses.iter().map(answer).collect()
}

/// Resolves as many addresses as the budget permits, the lower ones first.
fn resolve_within(image: &Image, wanted: &[u64]) -> Vec<Resolved> {
    let Some(memory) = &image.memory else {
        return resolve_sorted(image, wanted);
    };
    let fitting = memory.take_addresses(wanted.len());
    let mut answers = resolve_sorted(image, &wanted[..fitting]);
    memory.give_back_addresses(fitting);
    memory.leave_out(wanted.len() - fitting);
    answers.resize(wanted.len(), Resolved::Unknown(Reason::OverMemory));
    answers
}

/// Resolves from the cache, then from the files, and caches their answers.
fn resolve_sorted(image: &Image, wanted: &[u64]) -> Vec<Resolved> {
    let Some(cache) = &image.cache else {
        return from_files(image, wanted, Keep::Nothing, Guides::default()).0;
    };
    let known = cache.open(image);
    let mut answers = match &known {
        Some(known) => known.resolve_sorted(wanted),
        None => vec![Resolved::Unknown(Reason::NotCovered); wanted.len()],
    };
    let is_unknown = |answer: &Resolved| matches!(answer, Resolved::Unknown(_));
    let places: Vec<usize> = (0..wanted.len()).filter(|place| is_unknown(&answers[*place])).collect();
    if places.is_empty() {
        return answers;
    }
    let left: Vec<u64> = places.iter().map(|place| wanted[*place]).collect();
    let guides = known.as_ref().map(cache::guides).unwrap_or_default();
    let (found, kept) = from_files(image, &left, Keep::Functions, guides);
    cache.add(image, known, kept);
    for (place, answer) in places.into_iter().zip(found) {
        answers[place] = answer;
    }
    answers
}

/// Results of reading besides answers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Keep {
    Nothing,
    /// The part for an index.
    Functions,
}

fn from_files(image: &Image, wanted: &[u64], keep: Keep, guides: Guides<'_>) -> (Vec<Resolved>, Kept) {
    with_opened(image, Some(wanted), guides, |opened| match opened {
        None => (vec![Resolved::Unknown(Reason::Damaged); wanted.len()], Kept::default()),
        Some(Opened { files, info: Some(info), .. }) => {
            look_up(info, files, wanted, keep, image.memory.as_ref(), workers::threads())
        }
        Some(Opened { main, files, unread, .. }) => {
            let left_out = if unread == Some(Reason::OverMemory) { wanted.len() } else { 0 };
            image.memory.iter().for_each(|memory| memory.leave_out(left_out));
            let mut answers = symbols_only(&Symbols::at(files, wanted), unread);
            if let Some(table) = GoTable::read(main) {
                for (answer, address) in answers.iter_mut().zip(wanted) {
                    if let Some(frame) = table.find(*address) {
                        *answer = Resolved::Frames(vec![frame]);
                    }
                }
            }
            let known =
                wanted.iter().zip(&answers).filter_map(|(address, answer)| Some((*address, frames_of(answer)?)));
            let points = if keep == Keep::Functions { cache::points(known) } else { Vec::new() };
            (answers, Kept { points, ..Kept::default() })
        }
    })
}

fn frames_of(answer: &Resolved) -> Option<&[Frame]> {
    match answer {
        Resolved::Frames(frames) => Some(frames),
        Resolved::Unknown(_) => None,
    }
}

fn symbols_only(symbols: &Symbols<'_>, unread: Option<Reason>) -> Vec<Resolved> {
    let mut table = NameTable::default();
    let ids: Vec<Option<NameId>> = symbols.names.iter().map(|name| name.map(|name| table.add(name, ""))).collect();
    let names = table.finish(workers::threads());
    let reason = unread.unwrap_or(if symbols.is_partial { Reason::NoSymbols } else { Reason::NotCovered });
    let resolved = ids.iter().map(|id| match id {
        Some(id) => Resolved::Frames(vec![symbol_frame(*id, &names)]),
        None => Resolved::Unknown(reason),
    });
    resolved.collect()
}

/// The results of one thread.
struct Gathered<'i, 'a, 'data> {
    units: UnitAnswers<'i, 'a>,
    symbols: Option<Symbols<'data>>,
}

/// The place of the answer to an address: the thread, and the number among its answers.
#[derive(Clone, Copy)]
struct Place {
    thread: usize,
    answer: usize,
}

fn look_up<'data>(
    info: &DebugInfo<'_>,
    files: &[&object::File<'data>],
    wanted: &[u64],
    keep: Keep,
    memory: Option<&MemoryBudget>,
    threads: usize,
) -> (Vec<Resolved>, Kept) {
    let mut places: Vec<Option<Place>> = vec![None; wanted.len()];
    let mut unknown = vec![if info.units.damaged { Reason::Damaged } else { Reason::NotCovered }; wanted.len()];
    let mut gathered: Vec<Gathered<'_, '_, 'data>> = Vec::new();
    let mut pending: Vec<u32> = (0..wanted.len() as u32).collect();
    for round in 0..UNITS_MAX {
        let batches = batches(info, wanted, &pending, round);
        if batches.is_empty() && round > 0 {
            break;
        }
        // The symbol tables are one more job in the first round.
        let symbol_jobs = usize::from(round == 0);
        let start = || Gathered { units: UnitAnswers::new(info, keep == Keep::Functions), symbols: None };
        let found = workers::run(batches.len() + symbol_jobs, threads, start, |gathered, job| {
            match job.checked_sub(symbol_jobs) {
                None => gathered.symbols = Some(Symbols::at(files, wanted)),
                Some(batch) => gathered.units.answer_within(memory, &batches[batch], wanted),
            }
        });
        for found in found {
            let thread = gathered.len();
            for (number, answer) in found.units.answers.iter().enumerate() {
                places[answer.index as usize] = Some(Place { thread, answer: number });
            }
            for index in &found.units.damaged {
                unknown[*index as usize] = Reason::Damaged;
            }
            for index in &found.units.left_out {
                unknown[*index as usize] = Reason::OverMemory;
            }
            gathered.push(found);
        }
        pending = batches
            .iter()
            .flat_map(|batch| &batch.indexes)
            .copied()
            .filter(|index| places[*index as usize].is_none())
            .collect();
        pending.sort_unstable();
        if pending.is_empty() {
            break;
        }
    }
    let (answers, names, ids) = assemble(&mut gathered, &places, &unknown, threads);
    let left_out =
        places.iter().zip(&unknown).filter(|(place, reason)| place.is_none() && **reason == Reason::OverMemory).count();
    if let Some(memory) = memory {
        memory.leave_out(left_out);
        let sifted = gathered.iter().map(|gathered| gathered.units.held_bytes() - gathered.units.answer_bytes());
        memory.give_back(sifted.sum());
    }
    if keep == Keep::Nothing || left_out > 0 || gathered.iter().any(|gathered| gathered.units.is_split) {
        return (answers, Kept::default());
    }
    let is_kept = |place: &Option<Place>| {
        place.is_some_and(|place| {
            let units = &gathered[place.thread].units;
            cache::is_kept(info, units, &units.records.all[units.answers[place.answer].record])
        })
    };
    let others = wanted.iter().zip(&answers).zip(&places).filter(|(_, place)| !is_kept(place));
    let others = others.filter_map(|((address, answer), _)| Some((*address, frames_of(answer)?)));
    let points = cache::points(others);
    let threads = gathered.into_iter().zip(ids);
    let functions = threads.map(|(gathered, ids)| {
        KeptFunctions::new(info, gathered.units, ids.into_iter().map(|id| Some(names.get(id?))))
    });
    (answers, Kept { functions: functions.collect(), points, ..Kept::default() })
}

/// The next unit for each pending address, the largest first.
fn batches(info: &DebugInfo<'_>, wanted: &[u64], pending: &[u32], round: usize) -> Vec<UnitBatch> {
    let mut by_unit: HashMap<usize, Vec<u32>> = HashMap::default();
    for index in pending {
        let mut units: Vec<usize> = Vec::new();
        // A unit with several ranges here is queried once.
        for unit in info.units.at(wanted[*index as usize]) {
            if !units.contains(&unit) {
                units.push(unit);
            }
            if units.len() > round {
                by_unit.entry(unit).or_default().push(*index);
                break;
            }
        }
    }
    let mut batches: Vec<UnitBatch> = by_unit.into_iter().map(|(unit, indexes)| UnitBatch { unit, indexes }).collect();
    batches.sort_unstable_by_key(|batch| (std::cmp::Reverse(info.units.bytes(batch.unit)), batch.unit));
    batches
}

/// Combines the frames of all threads. Also returns the names in answers, by thread and number of the function.
fn assemble(
    gathered: &mut [Gathered<'_, '_, '_>],
    places: &[Option<Place>],
    unknown: &[Reason],
    threads: usize,
) -> (Vec<Resolved>, Names, Vec<Vec<Option<NameId>>>) {
    let symbols = gathered.iter_mut().find_map(|gathered| gathered.symbols.take()).unwrap_or_default();
    let found: Vec<&UnitAnswers<'_, '_>> = gathered.iter().map(|gathered| &gathered.units).collect();
    let mut table = NameTable::default();
    let functions: Vec<Vec<Option<NameId>>> = found.iter().map(|found| function_names(found, &mut table)).collect();
    let linker_names: Vec<Option<NameId>> = places
        .iter()
        .zip(&symbols.names)
        .map(|(place, name)| {
            let name = (*name)?;
            let needs = place.is_none_or(|place| answer_needs(found[place.thread], place.answer, name));
            needs.then(|| table.add(name, ""))
        })
        .collect();
    let names = table.finish(threads);
    let resolved = places.iter().enumerate().map(|(index, place)| {
        let frames = match place {
            Some(place) => {
                frames(found[place.thread], &functions[place.thread], place.answer, linker_names[index], &names)
            }
            None => linker_names[index].map(|id| symbol_frame(id, &names)).into_iter().collect(),
        };
        if frames.is_empty() { Resolved::Unknown(unknown[index]) } else { Resolved::Frames(frames) }
    });
    let resolved = resolved.collect();
    (resolved, names, functions)
}

/// The names of the functions in answers, by their numbers.
fn function_names<'n>(found: &'n UnitAnswers<'_, '_>, table: &mut NameTable<'n>) -> Vec<Option<NameId>> {
    let functions = &found.names.functions;
    let mut names = vec![None; functions.len()];
    for function in found.frames.iter().filter_map(|frame| frame.function) {
        let Function { name, scope, .. } = &functions[function as usize];
        if names[function as usize].is_none() && !name.is_empty() {
            names[function as usize] = Some(table.add(name, scope));
        }
    }
    names
}

fn answer_needs(found: &UnitAnswers<'_, '_>, answer: usize, linker_name: &[u8]) -> bool {
    let answer = &found.answers[answer];
    let outermost = found.frames[answer.frames.clone()].last().and_then(|frame| frame.function);
    let function = outermost.map(|function| &found.names.functions[function as usize]);
    answer.is_whole && needs_linker_name(function, linker_name)
}

fn frames(
    found: &UnitAnswers<'_, '_>,
    functions: &[Option<NameId>],
    answer: usize,
    linker_name: Option<NameId>,
    names: &Names,
) -> Vec<Frame> {
    let raw = &found.frames[found.answers[answer].frames.clone()];
    let count = raw.len();
    let frame = |(position, raw): (usize, &RawFrame)| {
        let linker_name = linker_name.filter(|_| position + 1 == count);
        let own = raw.function.and_then(|function| functions[function as usize]);
        let (name, system_name) = names.get(linker_name.or(own)?);
        let start = raw.function.map_or(0, |function| found.names.functions[function as usize].line);
        let file = raw.place.file.map(|file| Arc::clone(&found.files.all[file as usize]));
        let (line, column) = (known(raw.place.line), known(raw.place.column));
        Some(Frame { name, system_name, start_line: known(start), file, line, column })
    };
    raw.iter().enumerate().filter_map(frame).collect()
}

fn symbol_frame(id: NameId, names: &Names) -> Frame {
    let (name, system_name) = names.get(id);
    Frame { name, system_name, start_line: None, file: None, line: None, column: None }
}

/// The number; `None` for 0.
fn known(number: u32) -> Option<u32> {
    Some(number).filter(|number| *number != 0)
}
