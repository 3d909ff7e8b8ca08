//! `--callgrind`: calls between places in the source, for KCachegrind.

use std::fmt::Write;

use foldhash::HashMap;
use regex::{Captures, Regex};

use crate::stacks::PcId;
use crate::view::View;
use crate::view::number::integer;

/// The expressions for a place, and the place it calls, in `FILE:LINE:NAME -> FILE:LINE:NAME`. A place without a line
/// is not found, and the next one may be used instead, as in jeprof.
const CALL: &str = r"([^:]+):([0-9]+):([^ ]+)( -> ([^:]+):([0-9]+):(.+))?";

impl View<'_> {
    /// A block for each function that was a leaf and for each call, by file and line, then by text.
    pub fn callgrind(&self) -> String {
        let pattern = Regex::new(CALL).expect("the pattern is tested");
        let calls: Vec<(String, f64)> = self.calls().into_iter().collect();
        let mut calls: Vec<(Option<Captures<'_>>, &str, f64)> =
            calls.iter().map(|(call, value)| (pattern.captures(call), call.as_str(), *value)).collect();
        calls.sort_by(|a, b| sort_key(&a.0).cmp(&sort_key(&b.0)).then_with(|| a.1.cmp(b.1)));
        let (mut files, mut functions) = (Compressed::default(), Compressed::default());
        let mut text = String::from("events: Hits\n\n");
        for (found, _, value) in calls {
            let count = integer(value);
            let group = |index| found.as_ref().and_then(|found| found.get(index)).map(|group| group.as_str());
            files.write(&mut text, "fl", group(1).unwrap_or_default());
            functions.write(&mut text, "fn", group(3).unwrap_or_default());
            if let (Some(file), Some(line), Some(function)) = (group(5), group(6), group(7)) {
                files.write(&mut text, "cfl", file);
                functions.write(&mut text, "cfn", function);
                // Writing to a string cannot fail, here and below.
                let _ = writeln!(text, "calls={count} {line}");
            }
            let _ = write!(text, "{} {count}\n\n", group(2).unwrap_or_default());
        }
        text
    }

    /// Leaves and calls as text, with the sums of their values.
    fn calls(&self) -> HashMap<String, f64> {
        let mut calls: HashMap<String, f64> = HashMap::default();
        for (stack, value) in self.stacks() {
            let mut callee: Option<String> = None;
            for pc in stack {
                let place = self.place(*pc);
                let call = callee.as_ref().map_or_else(|| place.clone(), |callee| format!("{place} -> {callee}"));
                *calls.entry(call).or_default() += value;
                callee = Some(place);
            }
        }
        calls
    }

    fn place(&self, pc: PcId) -> String {
        match self.symbols.outermost(pc) {
            Some(symbol) if &*symbol.place == "?" => format!("??:0:{}", symbol.short),
            Some(symbol) => format!("{}:{}", symbol.place, symbol.short),
            None => "??:0:unknown".to_owned(),
        }
    }
}

/// File and line.
fn sort_key<'t>(found: &Option<Captures<'t>>) -> (&'t str, u64) {
    let group = |index| found.as_ref().and_then(|found| found.get(index)).map_or("", |group| group.as_str());
    (group(1), group(2).parse().unwrap_or(0))
}

/// Names that are written once and then by number.
#[derive(Default)]
struct Compressed {
    numbers: HashMap<String, usize>,
}

impl Compressed {
    fn write(&mut self, text: &mut String, key: &str, name: &str) {
        const SHORT: usize = 3;
        let next = self.numbers.len() + 1;
        let _ = match self.numbers.get(name) {
            _ if name.len() <= SHORT => writeln!(text, "{key}={name}"),
            Some(number) => writeln!(text, "{key}=({number})"),
            None => {
                self.numbers.insert(name.to_owned(), next);
                writeln!(text, "{key}=({next}) {name}")
            }
        };
    }
}
