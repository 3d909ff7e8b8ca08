//! Machine code of functions, found by the same rules as names.

use std::collections::BTreeMap;

use procprof_profile::SymbolAddr;
use procprof_report::code::{Architecture, Syntax, disassemble};
use procprof_symbolize::binutils::{self, Demangled};
use procprof_symbolize::{Image, Machine};
use regex::Regex;

use super::{Binaries, Part, Procedures, bias, debug_copy};
use crate::formats::{Instruction, Procedure};
use crate::read::libraries::Library;
use crate::symbols::short_function_name;
use crate::view::View;

/// Most bytes of one function that are disassembled.
const FUNCTION_BYTES_MAX: u64 = 1 << 20;

/// The functions of all files that have samples and whose whole names match: file by file, by their short names.
pub(crate) fn disassemble_matching(
    libraries: &[Library],
    binaries: &Binaries<'_>,
    view: &View<'_>,
    pattern: &Regex,
) -> Vec<Procedure> {
    let mut found = Vec::new();
    for part in binaries.parts(libraries, 0) {
        found.extend(in_file(&part, binaries, view, pattern).unwrap_or_default());
    }
    found
}

fn in_file(part: &Part, binaries: &Binaries<'_>, view: &View<'_>, pattern: &Regex) -> Option<Vec<Procedure>> {
    let copy = debug_copy(&part.path, binaries.request.copies);
    let named = binaries.open(copy.as_deref().unwrap_or(&part.path))?;
    let image = if copy.is_some() { binaries.open_once(&part.path)? } else { binaries.open(named.path())? };
    let architecture = architecture(&image)?;
    let bias = bias(part, &named, copy.is_some());
    let symbols = binutils::nm(&named);
    let demangled = Demangled::default();
    let all = Procedures::new(&symbols, &demangled).all;
    let mut chosen: Vec<(String, u64, u64)> =
        all.iter().map(|one| (one.full_name(&demangled), one.start, one.end)).collect();
    chosen.retain(|(name, start, end)| {
        pattern.is_match(name) && view.has_samples(start.wrapping_add(bias), end.wrapping_add(bias))
    });
    chosen.sort_by_key(|(name, start, _)| (short_function_name(name), *start));
    let targets: BTreeMap<u64, String> = all.iter().map(|one| (one.start, binutils::demangle(one.name))).collect();
    let taken_apart = |(name, start, end): (String, u64, u64)| {
        let end = end.min(start.saturating_add(FUNCTION_BYTES_MAX));
        let bytes = image.code(SymbolAddr(start), SymbolAddr(end)).unwrap_or_default();
        let instructions = disassemble(architecture, start, bytes, Syntax::Att, &targets);
        let instruction = |one: procprof_report::code::Instruction| Instruction {
            address: one.address.0.wrapping_add(bias),
            own: one.address.0,
            size: one.size as u64,
            text: one.text,
            place: String::new(),
            outer_place: String::new(),
        };
        Procedure { name, instructions: instructions.into_iter().map(instruction).collect() }
    };
    let mut procedures: Vec<Procedure> = chosen.into_iter().map(taken_apart).collect();
    place(&named, &mut procedures);
    Some(procedures)
}

/// Finds the lines of all instructions at once.
fn place(image: &Image, procedures: &mut [Procedure]) {
    let instructions = || procedures.iter().flat_map(|procedure| &procedure.instructions);
    let addresses: Vec<SymbolAddr> = instructions().map(|one| SymbolAddr(one.own)).collect();
    let mut answers = binutils::addr2line(image, &addresses).into_iter();
    for instruction in procedures.iter_mut().flat_map(|procedure| &mut procedure.instructions) {
        let frames = answers.next().unwrap_or_default();
        let place = |frame: Option<&binutils::Frame>| frame.map(|frame| frame.place.to_string()).unwrap_or_default();
        (instruction.place, instruction.outer_place) = (place(frames.first()), place(frames.last()));
    }
}

fn architecture(image: &Image) -> Option<Architecture> {
    Some(match image.machine()? {
        Machine::X86_64 => Architecture::X86_64,
        Machine::X86 => Architecture::X86,
        Machine::Aarch64 => Architecture::Aarch64,
    })
}
