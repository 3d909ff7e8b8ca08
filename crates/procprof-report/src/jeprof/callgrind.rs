//! `--callgrind`: calls between places in the source, for KCachegrind.

use std::fmt::Write;

use rustc_hash::FxHashMap;

use super::number::integer;
use super::stacks::PcId;
use super::view::View;

/// A function's place.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
struct Place {
    file: String,
    line: u64,
    function: String,
}

/// A function, or a call from one to another.
type Call = (Place, Option<Place>);

impl View<'_> {
    /// A block for each function that was a leaf and for each call, by file, line and names.
    ///
    /// A line that is not known is 0.
    pub fn callgrind(&self) -> String {
        let mut calls: FxHashMap<Call, f64> = FxHashMap::default();
        for (stack, value) in self.stacks.iter() {
            let mut callee: Option<Place> = None;
            for pc in stack {
                let place = self.place(*pc);
                *calls.entry((place.clone(), callee)).or_default() += value;
                callee = Some(place);
            }
        }
        let mut calls: Vec<(Call, f64)> = calls.into_iter().collect();
        calls.sort_by(|a, b| a.0.cmp(&b.0));
        let (mut files, mut functions) = (Compressed::default(), Compressed::default());
        let mut text = String::from("events: Hits\n\n");
        for ((place, callee), value) in calls {
            let count = integer(value);
            files.write(&mut text, "fl", &place.file);
            functions.write(&mut text, "fn", &place.function);
            if let Some(callee) = callee {
                files.write(&mut text, "cfl", &callee.file);
                functions.write(&mut text, "cfn", &callee.function);
                // Writing to a string cannot fail, here and below.
                let _ = writeln!(text, "calls={count} {}", callee.line);
            }
            let _ = write!(text, "{} {count}\n\n", place.line);
        }
        text
    }

    fn place(&self, pc: PcId) -> Place {
        let Some(symbol) = self.symbols.outermost(pc) else {
            return Place { file: "??".into(), line: 0, function: "unknown".into() };
        };
        let place = symbol.place.split(" (discriminator").next().unwrap_or_default();
        let (file, line) = place.rsplit_once(':').unwrap_or((place, ""));
        let file = if matches!(file, "" | "?") { "??" } else { file };
        Place { file: file.to_owned(), line: line.parse().unwrap_or(0), function: symbol.short.to_string() }
    }
}

/// Names that are written once and then by number.
#[derive(Default)]
struct Compressed {
    numbers: FxHashMap<String, usize>,
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
