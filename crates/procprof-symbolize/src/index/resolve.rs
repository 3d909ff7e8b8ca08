//! Looking up a batch of addresses in an index.

use std::sync::Arc;

use procprof_profile::SymbolAddr;

use super::decode::{Function, Part};
use super::{PartEntry, SymbolIndex};
use crate::lookup::{NameId, NameTable, Names, RawFrame};
use crate::{Frame, Reason, Resolved, workers};

/// Resolves addresses, and answers in the order they are given.
pub(super) fn resolve(index: &SymbolIndex, addresses: &[SymbolAddr]) -> Vec<Resolved> {
    let mut wanted: Vec<u64> = addresses.iter().map(|address| address.0).collect();
    wanted.sort_unstable();
    wanted.dedup();
    let answers = resolve_sorted(index, &wanted);
    let answer = |address: &SymbolAddr| match wanted.binary_search(&address.0) {
        Ok(place) => answers[place].clone(),
        Err(_) => Resolved::Unknown(Reason::NotCovered),
    };
    addresses.iter().map(answer).collect()
}

/// As [`resolve`], for addresses that ascend.
pub(super) fn resolve_sorted(index: &SymbolIndex, wanted: &[u64]) -> Vec<Resolved> {
    let threads = workers::threads();
    let parts = &index.head.parts;
    let found = workers::run(parts.len(), threads, Vec::new, |found, number| {
        let part = &parts[number];
        let first = wanted.partition_point(|address| *address < part.begin);
        let own = &wanted[first..];
        let own = &own[..own.partition_point(|address| *address < part.end)];
        if !own.is_empty() {
            found.push((number, answers(&index.bytes, part, own, first)));
        }
    });
    let mut found: Vec<(usize, PartAnswers)> = found.into_iter().flatten().collect();
    found.sort_by_key(|(number, _)| *number);
    let mut answers = vec![Resolved::Unknown(reason(index)); wanted.len()];
    assemble(&found, &mut answers, threads);
    answers
}

fn reason(index: &SymbolIndex) -> Reason {
    if index.head.parts.is_empty() { Reason::NoSymbols } else { Reason::NotCovered }
}

/// The answers of a part.
#[derive(Default)]
struct PartAnswers {
    /// The functions and files in the frames, by number.
    functions: Vec<Option<Function>>,
    files: Vec<Option<Arc<str>>>,
    frames: Vec<RawFrame>,
    /// The number of the requested address, and the end of its frames.
    answers: Vec<(usize, usize)>,
    /// The requested addresses that it covers and can't answer.
    damaged: Vec<usize>,
}

fn answers(file: &[u8], entry: &PartEntry, addresses: &[u64], first: usize) -> PartAnswers {
    let mut found = PartAnswers::default();
    let bytes = entry.decompressed(file);
    let part = bytes.as_ref().ok().and_then(|bytes| Part::read(bytes, entry.begin).ok());
    let Some(part) = part else {
        found.damaged.extend(first..first + addresses.len());
        return found;
    };
    found.functions.resize(part.function_count(), None);
    found.files.resize(part.file_count(), None);
    let looked_up = part.look_up(addresses, |position, frames| {
        for frame in frames {
            if let Some(function) = frame.function {
                found.functions[function as usize].get_or_insert_with(|| part.function(function));
            }
            if let Some(file) = frame.place.file {
                found.files[file as usize].get_or_insert_with(|| part.file(file));
            }
        }
        found.frames.extend_from_slice(frames);
        found.answers.push((first + position, found.frames.len()));
    });
    if looked_up.is_err() {
        let answered: Vec<usize> = found.answers.iter().map(|(place, _)| *place).collect();
        found.damaged.extend((first..first + addresses.len()).filter(|place| answered.binary_search(place).is_err()));
    }
    found
}

/// Combines the frames; the answer of an earlier part is used.
fn assemble(found: &[(usize, PartAnswers)], answers: &mut [Resolved], threads: usize) {
    let mut table = NameTable::default();
    let mut names: Vec<Vec<Option<NameId>>> = Vec::new();
    for (_, part) in found {
        let mut ids = Vec::with_capacity(part.functions.len());
        for function in &part.functions {
            let to_demangle = function.as_ref().filter(|function| function.name.is_none());
            ids.push(to_demangle.map(|function| table.add(function.system_name.as_bytes(), "")));
        }
        names.push(ids);
    }
    let demangled = table.finish(threads);
    for ((_, part), names) in found.iter().zip(&names) {
        let mut first = 0;
        for (place, end) in &part.answers {
            let raw = &part.frames[std::mem::replace(&mut first, *end)..*end];
            if matches!(answers[*place], Resolved::Unknown(_)) {
                let frames: Vec<Frame> = raw.iter().filter_map(|raw| frame(part, names, &demangled, raw)).collect();
                if !frames.is_empty() {
                    answers[*place] = Resolved::Frames(frames);
                }
            }
        }
        for place in &part.damaged {
            if matches!(answers[*place], Resolved::Unknown(_)) {
                answers[*place] = Resolved::Unknown(Reason::Damaged);
            }
        }
    }
}

fn frame(part: &PartAnswers, names: &[Option<NameId>], demangled: &Names, raw: &RawFrame) -> Option<Frame> {
    let number = raw.function? as usize;
    let function = part.functions[number].as_ref()?;
    let (name, system_name) = match (&function.name, names[number]) {
        (Some(name), _) => (Arc::clone(name), Arc::clone(&function.system_name)),
        (None, Some(id)) => demangled.get(id),
        (None, None) => return None,
    };
    if system_name.is_empty() {
        return None;
    }
    let file = raw.place.file.and_then(|file| part.files[file as usize].clone());
    let known = |number: u32| Some(number).filter(|number| *number != 0);
    let (line, column) = (known(raw.place.line), known(raw.place.column));
    Some(Frame { name, system_name, start_line: known(function.start_line), file, line, column })
}
