//! `--disasm` and the common part of `--list`: disassembled functions, each instruction with its values.
//!
//! An instruction has the samples at any of its bytes. Its line is the last one without a discriminator, as jeprof
//! reads it from objdump.

use std::fmt::Write;

use foldhash::{HashMap, HashSet};

use crate::view::View;
use crate::view::number::percent;

/// Longest file name that is written in full, and the part shown of a longer one.
const FILE_MAX: usize = 58;
const FILE_LEFT: usize = 55;

/// One function of a file that was profiled.
#[derive(Clone, Debug)]
pub struct Procedure {
    /// The name, perhaps with the address behind it in `<>`.
    pub name: String,
    /// Its instructions, in order.
    pub instructions: Vec<Instruction>,
}

/// One instruction.
#[derive(Clone, Debug)]
pub struct Instruction {
    /// Its address in the process.
    pub address: u64,
    /// Its address in the file.
    pub own: u64,
    /// Its bytes.
    pub size: u64,
    /// Its text.
    pub text: String,
    /// The source of its innermost function: `FILE:LINE`, or the tool's replacement.
    pub place: String,
    /// The source of its outermost function.
    pub outer_place: String,
}

/// The flat and cumulative values of each address.
pub(super) struct Uses {
    by_address: HashMap<u64, (f64, f64)>,
    pub(super) total: f64,
}

impl Uses {
    /// The values of one instruction.
    pub(super) fn sum(&self, instruction: &Instruction) -> (f64, f64) {
        let bytes = (0..instruction.size).map(|byte| instruction.address.wrapping_add(byte));
        bytes
            .filter_map(|address| self.by_address.get(&address))
            .fold((0.0, 0.0), |sum, one| (sum.0 + one.0, sum.1 + one.1))
    }
}

/// File and line, if known.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Line {
    pub(super) file: String,
    pub(super) number: i64,
}

impl Line {
    /// `FILE:LINE` without anything behind it.
    pub(super) fn parse(place: &str) -> Option<Line> {
        let (file, number) = place.rsplit_once(':')?;
        let number = number.parse().ok().filter(|_| !number.is_empty() && !number.starts_with('+'))?;
        Some(Line { file: file.to_owned(), number })
    }
}

/// The line of each instruction, as objdump's output is read: one with more behind it, or with blanks or colons in the
/// file's name, is skipped.
pub(super) fn lines_of(procedure: &Procedure) -> Vec<Line> {
    let mut line = Line { file: String::new(), number: -1 };
    let mut lines = Vec::with_capacity(procedure.instructions.len());
    for instruction in &procedure.instructions {
        let parsed = Line::parse(&instruction.place).filter(|parsed| !parsed.file.contains([':', ' ', '\t']));
        line = parsed.unwrap_or(line);
        lines.push(line.clone());
    }
    lines
}

impl View<'_> {
    /// Whether a sample is in a range of addresses, the end not in it.
    pub fn has_samples(&self, start: u64, end: u64) -> bool {
        self.stacks().any(|(stack, _)| stack.iter().any(|pc| (start..end).contains(&self.pcs.addresses()[pc.index()])))
    }

    pub(super) fn uses(&self) -> Uses {
        let mut uses = Uses { by_address: HashMap::default(), total: 0.0 };
        let mut seen = HashSet::default();
        for (stack, value) in self.stacks() {
            seen.clear();
            for (depth, pc) in stack.iter().enumerate().filter(|(_, pc)| seen.insert(**pc)).collect::<Vec<_>>() {
                let entry = uses.by_address.entry(self.pcs.addresses()[pc.index()]).or_default();
                entry.1 += value;
                if depth == 0 {
                    entry.0 += value;
                    uses.total += value;
                }
            }
        }
        uses
    }

    /// Machine code with its source lines; `source` returns the text of a file.
    pub fn disassembly(&self, procedures: &[Procedure], source: &dyn Fn(&str) -> Option<String>) -> String {
        let uses = self.uses();
        let mut out = String::new();
        for procedure in procedures {
            self.write_procedure(&mut out, procedure, &uses, source);
        }
        out
    }

    fn write_procedure(
        &self,
        out: &mut String,
        procedure: &Procedure,
        uses: &Uses,
        source: &dyn Fn(&str) -> Option<String>,
    ) {
        let counts: Vec<(f64, f64)> = procedure.instructions.iter().map(|instruction| uses.sum(instruction)).collect();
        let (flat, cumulative) = counts.iter().fold((0.0, 0.0), |sum, one| (sum.0 + one.0, sum.1 + one.1));
        // Writing to a string cannot fail, here and below.
        let _ = writeln!(
            out,
            "ROUTINE ====================== {}\n{:>6} {:>6} {} (flat, cumulative) {} of total",
            crate::symbols::short_function_name(&procedure.name),
            self.unit.print(flat),
            self.unit.print(cumulative),
            self.unit.name(),
            percent(cumulative, uses.total)
        );
        let lines = lines_of(procedure);
        let mut rows = procedure.instructions.iter().zip(lines).zip(counts).peekable();
        let (mut file, mut text) = (String::new(), None);
        while let Some(((_, line), _)) = rows.peek() {
            let line = line.clone();
            if line.file != file {
                file.clone_from(&line.file);
                text = source(&file);
                let _ = writeln!(out, "-------------------- {}", shortened(&file));
            }
            // A run has one line, whatever its file.
            let run: Vec<_> =
                std::iter::from_fn(|| rows.next_if(|((_, other), _)| other.number == line.number)).collect();
            let (flat, cumulative) = run.iter().fold((0.0, 0.0), |sum, (_, one)| (sum.0 + one.0, sum.1 + one.1));
            if let Some(written) = text.as_deref().and_then(|text| nth(text, line.number)) {
                let written = written.trim_start();
                let _ = writeln!(
                    out,
                    "{:>6} {:>6} {:>5}: {written}",
                    self.or_dot(flat),
                    self.or_dot(cumulative),
                    line.number
                );
            }
            for ((instruction, _), (flat, cumulative)) in run {
                let _ = writeln!(
                    out,
                    "{:>6} {:>6}    {:>8x}: {:>6}",
                    self.or_dot(flat),
                    self.or_dot(cumulative),
                    instruction.own,
                    cleaned(&instruction.text)
                );
            }
        }
    }

    pub(super) fn or_dot(&self, value: f64) -> String {
        if value == 0.0 { ".".to_owned() } else { self.unit.print(value) }
    }
}

/// The line of that number, from 1.
fn nth(text: &str, number: i64) -> Option<&str> {
    text.lines().nth(usize::try_from(number).ok()?.checked_sub(1)?)
}

fn shortened(file: &str) -> String {
    let file = file.strip_prefix("./").unwrap_or(file);
    let length = file.chars().count();
    if length < FILE_MAX {
        file.to_owned()
    } else {
        format!("...{}", file.chars().skip(length - FILE_LEFT).collect::<String>())
    }
}

/// Instructions without the arguments and template arguments of the functions they name.
fn cleaned(text: &str) -> String {
    let mut text = text.to_owned();
    while let Some((open, close)) =
        innermost(&text, '(', ')').filter(|(open, close)| !text[*open..*close].contains('%'))
    {
        let behind = text[close + 1..].trim_start();
        let rest = behind.strip_prefix("const").unwrap_or(&text[close + 1..]).to_owned();
        text = format!("{}{rest}", &text[..open]);
    }
    while let Some((open, close)) = template(&text) {
        text.replace_range(open..=close, "");
    }
    text
}

fn innermost(text: &str, open: char, close: char) -> Option<(usize, usize)> {
    let end = text.find(close)?;
    Some((text[..end].rfind(open)?, end))
}

/// A pair of `<>` right behind a word, with none in it.
fn template(text: &str) -> Option<(usize, usize)> {
    let is_word = |letter: char| letter.is_ascii_alphanumeric() || letter == '_';
    text.match_indices('>').find_map(|(end, _)| {
        let start = text[..end].rfind('<')?;
        let is_plain = !text[start + 1..end].contains('>') && text[..start].ends_with(is_word);
        is_plain.then_some((start, end))
    })
}
