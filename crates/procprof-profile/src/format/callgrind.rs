//! Costs of functions and calls, as Callgrind, Cachegrind's relatives and other tools write them for KCachegrind.
//!
//! ```text
//! events: Ir Dr                          the costs of a line, in this order
//! positions: instr line                  how many positions precede the costs; `line` by default
//! ob=(1) /usr/bin/work                   a name has its number at its first use, and is that number after that
//! fl=(1) work.c
//! fn=(2) main
//! 16 4 2                                 line 16: what the function used itself
//! cfn=(3) hot
//! calls=2 7                              the next line is what the calls used with all below
//! 17 2800 900
//! ```
//! The file has no stacks, but what each function used itself and what it passed on to each function that it called.
//! Stacks are made of that as KCachegrind draws its graph: what a function used is divided among its callers by the
//! cost of their calls. What each function used itself is kept exactly; what it used by whom is an estimate where it
//! has several callers. Calls worth less than a millionth of the whole, and those of a function that is in the stack
//! already, are not followed: what is only below them has no callers. One sample type for each event, in the unit that
//! its name states (`Time_(10ns)`) or that a line `event: sysTime : sysTime (elapsed ns)` does.
//!
//! The file of a function and of a callee without `cfi` or `cfl` is the current one, which `fl`, `fi` and `fe` set.
//!
//! Format: <https://valgrind.org/docs/manual/cl-format.html>

use foldhash::HashMap;

use super::stated_unit::StatedUnit;
use super::{Detect, Format, Limits};
use crate::text::{Cursor, Line, Lines, OddLines};
use crate::{Error, Profile, Result, StringId};

mod graph;

pub(super) use graph::Graph;

/// Name of the format.
pub const NAME: &str = "callgrind";

/// The row of the format table.
pub(super) const FORMAT: Format =
    Format { name: NAME, help: "what Callgrind writes for KCachegrind", detect, decode, events: None, encode: None };

/// Most events that a file may have; Callgrind itself writes up to 21.
const EVENTS_MAX: usize = 64;
/// The starts of lines before the costs.
const HEADERS: [&[u8]; 14] = [
    b"version:",
    b"creator:",
    b"pid:",
    b"cmd:",
    b"part:",
    b"desc:",
    b"positions:",
    b"events:",
    b"event:",
    b"summary:",
    b"totals:",
    b"thread:",
    b"target:",
    b"# callgrind format",
];

/// Lines of the header that other writers have: GProf's and Xdebug's converters.
const PASSED_OVER: [&[u8]; 4] = [b"totals", b"rcalls", b"ident:", b"cfg:"];

/// Whether the bytes are a file for KCachegrind: only lines of its header, until one names the events.
pub fn detect(bytes: &[u8]) -> Detect {
    for line in Lines::new(bytes) {
        match HEADERS.iter().find(|header| line.text.starts_with(header)) {
            Some(header) if **header == b"events:"[..] && !line.is_cut => return Detect::Yes,
            Some(_) => {}
            None if line.is_blank_or_comment() => {}
            None if line.is_cut && HEADERS.iter().any(|header| header.starts_with(line.text)) => {
                return Detect::NeedMore;
            }
            None => return Detect::No,
        }
    }
    Detect::NeedMore
}

/// Decodes costs of functions and calls.
///
/// # Errors
/// [`Error::Malformed`] and [`Error::Truncated`] with the line, [`Error::TooLarge`] for too many events.
pub fn decode(bytes: &[u8], limits: &Limits, warnings: &mut Vec<String>) -> Result<Profile> {
    let (mut reader, mut odd) = (Reader::default(), OddLines::default());
    for line in Lines::new(bytes) {
        let read = reader.read(&line);
        odd.keep(&line, read)?;
    }
    odd.end(NAME, reader.graph.is_empty(), warnings)?;
    if let Some((number, line)) = reader.unnamed.first {
        let count = reader.unnamed.count;
        warnings
            .push(format!("{NAME}: line {line}: numbers without a name are used {count} times, the first ({number})"));
    }
    if reader.events.is_empty() {
        return Err(Error::Malformed {
            format: NAME,
            place: crate::Place::Line(1),
            what: "no line \"events:\"".to_owned(),
        });
    }
    reader.state_units();
    reader.graph.build(&reader.events, bytes.len(), limits)
}

/// Numbers that nothing has named.
#[derive(Default)]
struct UnnamedReferences {
    count: usize,
    /// The first, and its line.
    first: Option<(u64, usize)>,
}

/// An event: a sample type, and what its costs are multiplied by.
struct Event {
    name: String,
    unit: &'static str,
    factor: i64,
}

impl Event {
    fn new(name: &str) -> Event {
        let stated = StatedUnit::read(name).unwrap_or(StatedUnit { name, unit: "count", factor: 1 });
        Event { name: stated.name.to_owned(), unit: stated.unit, factor: stated.factor }
    }
}

/// Names by their numbers.
#[derive(Default)]
struct Names {
    known: HashMap<u64, StringId>,
}

impl Names {
    /// The name in `(1) /usr/bin/work`, `(1)` or `/usr/bin/work`; a number without a name is its own.
    fn read(
        &mut self,
        text: &[u8],
        line: &Line<'_>,
        graph: &mut Graph,
        unnamed: &mut UnnamedReferences,
    ) -> Result<StringId> {
        let mut cursor = Cursor::new(text);
        let number = cursor.eat(b'(').and_then(|()| cursor.unsigned()).filter(|_| cursor.eat(b')').is_some());
        let Some(number) = number else { return graph.text(&String::from_utf8_lossy(text)) };
        cursor.skip_blanks();
        if !cursor.is_done() {
            let name = graph.text(&String::from_utf8_lossy(cursor.rest))?;
            self.known.insert(number, name);
            return Ok(name);
        }
        match self.known.get(&number) {
            Some(name) => Ok(*name),
            None => {
                unnamed.count += 1;
                unnamed.first.get_or_insert((number, line.number));
                graph.text(&format!("({number})"))
            }
        }
    }
}

#[derive(Default)]
struct Reader {
    events: Vec<Event>,
    /// Long names of events, which may state a unit.
    long_names: HashMap<String, String>,
    /// How many positions precede the costs; 0 for one.
    positions: usize,
    objects: Names,
    files: Names,
    functions: Names,
    object: StringId,
    file: StringId,
    /// The function whose costs follow.
    function: Option<u32>,
    /// Names of the next callee, as far as given.
    called: [Option<StringId>; 3],
    /// Whether the next costs are those of a call, and of which function.
    callee: Option<u32>,
    /// Whether the next line belongs to a jump.
    is_jump: bool,
    costs: Vec<i64>,
    graph: Graph,
    unnamed: UnnamedReferences,
}

impl Reader {
    fn read(&mut self, line: &Line<'_>) -> Result<()> {
        let text = line.text;
        if line.is_blank_or_comment() {
            return Ok(());
        }
        let is_jump = std::mem::take(&mut self.is_jump);
        if matches!(text[0], b'0'..=b'9' | b'+' | b'-' | b'*') {
            return if is_jump { Ok(()) } else { self.read_costs(line) };
        }
        if let Some(events) = text.strip_prefix(b"events:") {
            return self.read_events(&String::from_utf8_lossy(events));
        }
        if let Some(event) = text.strip_prefix(b"event:") {
            self.read_long_name(&String::from_utf8_lossy(event));
            return Ok(());
        }
        if let Some(positions) = text.strip_prefix(b"positions:") {
            self.positions = String::from_utf8_lossy(positions).split_whitespace().count();
            return Ok(());
        }
        let Some(at) = memchr::memchr(b'=', text) else {
            return if HEADERS.iter().chain(&PASSED_OVER).any(|header| text.starts_with(header)) {
                Ok(())
            } else {
                Err(line.error(NAME, "costs, a name, or a line of the header"))
            };
        };
        let value = &text[at + 1..];
        match &text[..at] {
            b"ob" => self.object = self.objects.read(value, line, &mut self.graph, &mut self.unnamed)?,
            // `fi` and `fe` are for inlined code, whose costs are the function's all the same.
            b"fl" | b"fi" | b"fe" => self.file = self.files.read(value, line, &mut self.graph, &mut self.unnamed)?,
            b"fn" => {
                let name = self.functions.read(value, line, &mut self.graph, &mut self.unnamed)?;
                self.function = Some(self.graph.function([name, self.file, self.object])?);
            }
            b"cob" => self.called[0] = Some(self.objects.read(value, line, &mut self.graph, &mut self.unnamed)?),
            b"cfi" | b"cfl" => {
                self.called[1] = Some(self.files.read(value, line, &mut self.graph, &mut self.unnamed)?)
            }
            b"cfn" => self.called[2] = Some(self.functions.read(value, line, &mut self.graph, &mut self.unnamed)?),
            b"calls" => {
                let [object, file, name] = std::mem::take(&mut self.called);
                let name = name.ok_or_else(|| line.error(NAME, "\"cfn=\" before \"calls=\""))?;
                let names = [name, file.unwrap_or(self.file), object.unwrap_or(self.object)];
                self.callee = Some(self.graph.function(names)?);
            }
            b"jump" | b"jcnd" => self.is_jump = true,
            // Jumps are left out, but the names that they give to numbers stand for the whole file.
            b"jfi" => drop(self.files.read(value, line, &mut self.graph, &mut self.unnamed)?),
            b"jfn" | b"frfn" => drop(self.functions.read(value, line, &mut self.graph, &mut self.unnamed)?),
            b"rec" | b"rcalls" => {}
            key if HEADERS.iter().any(|header| key.starts_with(header)) => {}
            _ => return Err(line.error(NAME, "costs, a name, or a line of the header")),
        }
        Ok(())
    }

    fn read_events(&mut self, names: &str) -> Result<()> {
        self.events = names.split_whitespace().map(Event::new).collect();
        if self.events.len() > EVENTS_MAX {
            return Err(Error::TooLarge { format: NAME, what: "the number of events", limit: EVENTS_MAX as u64 });
        }
        Ok(())
    }

    /// Reads `sysTime : sysTime (elapsed ns)`; the formula of a derived event stands between.
    fn read_long_name(&mut self, text: &str) {
        if let Some((name, long)) = text.split_once(':') {
            let name = name.split('=').next().unwrap_or_default().trim();
            self.long_names.insert(name.to_owned(), long.trim().to_owned());
        }
    }

    /// Gives events the units that their long names state.
    fn state_units(&mut self) {
        for event in &mut self.events {
            if let Some(stated) = self.long_names.get(&event.name).and_then(|long| StatedUnit::read(long)) {
                (event.unit, event.factor) = (stated.unit, stated.factor);
            }
        }
    }

    fn read_costs(&mut self, line: &Line<'_>) -> Result<()> {
        let words = line.text.split(u8::is_ascii_whitespace).filter(|word| !word.is_empty());
        self.costs.clear();
        for word in words.skip(self.positions.max(1)) {
            let mut cursor = Cursor::new(word);
            let cost = cursor.integer().filter(|_| cursor.is_done() && self.costs.len() < self.events.len());
            self.costs.push(cost.ok_or_else(|| line.error(NAME, "positions and as many costs as events"))?);
        }
        self.costs.resize(self.events.len(), 0);
        let function = self.function.ok_or_else(|| line.error(NAME, "\"fn=\" before costs"))?;
        match self.callee.take() {
            Some(callee) => self.graph.add_call(function, callee, &self.costs),
            None => self.graph.add(function, &self.costs),
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests;
