//! `--list`: the source lines of functions with their values.
//!
//! The file is that of the function's first instruction, the lines those from its first line to its last, and on to the
//! end of the indentation. Values of an instruction of another place are charged to the next one of this.

use std::collections::BTreeMap;
use std::fmt::Write;

use super::disassembly::{Line, Procedure, Uses, lines_of};
use crate::view::View;

/// Lines shown before and behind.
const MARGIN: i64 = 5;

impl View<'_> {
    /// Source lines; `source` returns the text of a file. The messages name what could not be shown.
    pub fn listing(&self, procedures: &[Procedure], source: &dyn Fn(&str) -> Option<String>) -> (String, Vec<String>) {
        let uses = self.uses();
        let (mut out, mut messages) = (String::new(), Vec::new());
        for procedure in procedures {
            match self.list(procedure, &uses, source) {
                Ok(text) => out.push_str(&text),
                Err(message) => messages.push(message),
            }
        }
        (out, messages)
    }

    fn list(
        &self,
        procedure: &Procedure,
        uses: &Uses,
        source: &dyn Fn(&str) -> Option<String>,
    ) -> Result<String, String> {
        let inner = lines_of(procedure);
        let outer = |(inner, instruction): (Line, &super::disassembly::Instruction)| {
            Line::parse(&instruction.outer_place).unwrap_or(inner)
        };
        let lines: Vec<Line> = inner.into_iter().zip(&procedure.instructions).map(outer).collect();
        let first = lines
            .iter()
            .find(|line| line.number >= 0)
            .ok_or_else(|| format!("no filename found in {}", procedure.name))?;
        let file = first.file.clone();
        let text = source(&file).ok_or_else(|| format!("{file}: No such file or directory"))?;
        let own = || lines.iter().filter(|line| line.file == file).map(|line| line.number);
        let first = own().next().unwrap_or(1);
        let coded = own().max().unwrap_or(0).max(0);
        let last = end_of_block(&text, first, coded);
        let mut sums: BTreeMap<i64, (f64, f64)> = BTreeMap::new();
        let (mut open, mut total) = ((0.0, 0.0), (0.0, 0.0));
        for (instruction, line) in procedure.instructions.iter().zip(&lines) {
            let one = uses.sum(instruction);
            open = (open.0 + one.0, open.1 + one.1);
            total = (total.0 + one.0, total.1 + one.1);
            if line.file == file && (first..=last).contains(&line.number) {
                add(&mut sums, line.number, std::mem::take(&mut open));
            }
        }
        add(&mut sums, last, open);
        let mut out = String::new();
        // Writing to a string cannot fail, here and below.
        let _ = writeln!(
            out,
            "ROUTINE ====================== {} in {}\n{:>6} {:>6} Total {} (flat / cumulative)",
            crate::symbols::short_function_name(&procedure.name),
            file.strip_prefix("/proc/self/cwd/").or_else(|| file.strip_prefix("./")).unwrap_or(&file),
            self.unit.print(total.0),
            self.unit.print(total.1),
            self.unit.name()
        );
        for (written, number) in text.lines().zip(1i64..) {
            if number < first - MARGIN || (number > coded + MARGIN && number > last) {
                continue;
            }
            let (flat, cumulative) = sums.get(&number).copied().unwrap_or_default();
            let before = if number == first { "---\n" } else { "" };
            let behind = if number == last { "---\n" } else { "" };
            let _ = write!(
                out,
                "{before}{:>6} {:>6} {number:>4}: {written}\n{behind}",
                self.or_dot(flat),
                self.or_dot(cumulative)
            );
        }
        Ok(out)
    }
}

fn add(sums: &mut BTreeMap<i64, (f64, f64)>, number: i64, one: (f64, f64)) {
    let sum = sums.entry(number).or_default();
    *sum = (sum.0 + one.0, sum.1 + one.1);
}

/// The line up to which a function reaches: from the last with code on as long as lines are indented as its first.
fn end_of_block(text: &str, first: i64, last: i64) -> i64 {
    let (mut last, mut wanted) = (last, None);
    for (line, number) in text.lines().zip(1i64..) {
        let Some(indentation) = line.find(|letter: char| !letter.is_whitespace()) else { continue };
        if number >= first && wanted.is_none() {
            wanted = Some(indentation);
            if indentation == 0 {
                return last;
            }
        }
        if number >= last {
            match wanted {
                Some(wanted) if indentation >= wanted => last = number + 1,
                // Before the first line there is nothing to compare with, so that lines count as indented.
                None => last = number + 1,
                Some(_) => return last,
            }
        }
    }
    last
}
