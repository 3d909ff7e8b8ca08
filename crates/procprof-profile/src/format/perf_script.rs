//! The text that `perf script` prints: a line for each sample, then its stack, leaf first, then an empty line.
//!
//! ```text
//! # cmdline : /usr/bin/perf record -F 199 -g ./work         lines of `--header`
//! work  6586/6590 [001] 38340.698097:    5025125 cpu-clock:u:
//!                 1199 cold+0xd (/tmp/work)                 a tab or blanks, address, name and offset, program or library
//!   work.c:8                                                the line, with `-F +srcline`
//!                 1199 inner (inlined)
//!                2724a __libc_start_call_main+0x7a (/usr/lib/x86_64-linux-gnu/libc.so.6)
//! ```
//! Of a sample's line only the command's name and the thread's number are required; `pid/`, the CPU, the time, the
//! period and the event depend on `-F` and on how it was recorded. Without a stack, the place follows in the same line
//! (`-G`). Text of tracepoints and other fields are skipped, and so are lines of other records (`PERF_RECORD_MMAP2 …`);
//! the count of `PERF_RECORD_LOST` becomes a warning.
//!
//! A file has a profile for each event. Its samples count 1 each (`samples`), and the period where there is one: of
//! `cpu-clock` and `task-clock` as `cpu` in nanoseconds, of others under the event's name. Labels are `thread`, `tid`
//! and `pid`. Frames keep names, lines and files; addresses mean nothing without the process. A frame without a name is
//! named after its file, `[libc.so.6]`.
//!
//! Source: `tools/perf/builtin-script.c` of Linux.

use foldhash::HashMap;

use super::call_tree::{CallTree, Frame};
use super::{Detect, Event, Format, Limits, call_tree, events};
use crate::text::OddLines;
use crate::{Error, LocationId, Nanos, Profile, Result};

mod header;

use header::Header;

/// Name of the format.
pub const NAME: &str = "perf-script";

/// The row of the format table.
pub(super) const FORMAT: Format =
    Format { name: NAME, help: "the text of `perf script`", detect, decode, events: Some(decode_events), encode: None };

/// Most lines that are read to detect the format.
const DETECT_LINES: usize = 500;
/// Most lines among them that may be odd: errors and warnings of perf.
const ODD_MAX: usize = 20;

/// Whether the bytes are samples of `perf script`: the first has to be understood, with its stack; or two without one
/// that only `perf script` writes.
pub fn detect(bytes: &[u8]) -> Detect {
    let (mut has_sample, mut sure, mut odd) = (false, 0, 0);
    for text in bytes.split_inclusive(|byte| *byte == b'\n').take(DETECT_LINES) {
        let is_cut = !text.ends_with(b"\n");
        let Ok(line) = std::str::from_utf8(text.trim_ascii_end()) else { return Detect::No };
        if line.is_empty() || line.starts_with('#') {
            continue;
        }
        if is_cut {
            return Detect::NeedMore;
        }
        if has_sample && is_frame(line) {
            return Detect::Yes;
        }
        match Header::parse(line).filter(|header| odd == 0 || header.time.is_some()) {
            Some(header) if header.is_record() => {}
            Some(header) if header.place().is_some() => return Detect::Yes,
            Some(header) => {
                has_sample = true;
                sure += usize::from(header.is_sure());
                if sure > 1 {
                    return Detect::Yes;
                }
            }
            None if has_sample && odd == 0 && sure == 0 => return Detect::No,
            None => odd += 1,
        }
        if odd > ODD_MAX {
            return Detect::No;
        }
    }
    if sure > 0 && odd == 0 { Detect::Yes } else { Detect::NeedMore }
}

/// Whether a line is one of a stack: it begins with a tab; or with blanks, as copied text and perf 3.2 have it, and an
/// address.
fn is_frame(line: &str) -> bool {
    if line.starts_with('\t') {
        return parse_frame(line).is_some();
    }
    let first = line.split_whitespace().next().unwrap_or_default();
    line.starts_with(' ')
        && first.bytes().all(|byte| byte.is_ascii_hexdigit())
        && match Header::parse(line) {
            Some(header) => header.time.is_none() && line.ends_with(')'),
            None => parse_frame(line).is_some(),
        }
}

/// Decodes the profile of the first event.
///
/// # Errors
/// As [`decode_events`].
pub fn decode(bytes: &[u8], limits: &Limits, warnings: &mut Vec<String>) -> Result<Profile> {
    let events = decode_events(bytes, limits, warnings)?;
    events::first(NAME, events, warnings)
}

/// Decodes a profile for each event: those of the processor's work, then others, in the order they come.
///
/// # Errors
/// [`Error::Malformed`] without any sample, [`Error::TooLarge`] past the depth limit or for too many events.
pub fn decode_events(bytes: &[u8], limits: &Limits, warnings: &mut Vec<String>) -> Result<Vec<Event>> {
    let mut reader = Reader { limits: *limits, bytes: bytes.len(), ..Reader::default() };
    for (index, text) in bytes.split_inclusive(|byte| *byte == b'\n').enumerate() {
        let line = String::from_utf8_lossy(text.trim_ascii_end());
        reader.read(&line, index + 1)?;
    }
    reader.end_sample()?;
    if reader.events.is_empty() {
        return Err(Error::Malformed { format: NAME, place: crate::Place::Line(1), what: "no sample".to_owned() });
    }
    if reader.lost > 0 {
        warnings.push(format!("{NAME}: perf lost {} samples", reader.lost));
    }
    reader.odd.warn(NAME, warnings);
    // Stable, so that others stay in their order.
    reader.events.sort_by_key(|event| !event.is_work());
    reader.events.into_iter().map(EventTree::finish).collect()
}

/// The profile of one event under construction.
struct EventTree {
    name: String,
    has_period: bool,
    tree: CallTree,
    /// The locations of frames as they are written, with the line of their source.
    frames: HashMap<Box<str>, LocationId>,
    first: f64,
    last: f64,
}

impl EventTree {
    /// Whether it counts what a processor worked.
    fn is_work(&self) -> bool {
        let word =
            |word: &str| ["cpu-clock", "task-clock", "cycles", "cpu-cycles", "cpu_core", "cpu_atom"].contains(&word);
        self.name.split([':', '/']).take(2).any(word)
    }

    fn finish(mut self) -> Result<Event> {
        if self.last > self.first {
            self.tree.builder.time(Nanos(0), Nanos(((self.last - self.first) * 1e9).round() as i64));
        }
        Ok(Event { name: self.name, profile: self.tree.finish()? })
    }
}

#[derive(Default)]
struct Reader {
    limits: Limits,
    bytes: usize,
    events: Vec<EventTree>,
    header: Option<String>,
    /// The frames of the stack, leaf first, each perhaps with the line of its source behind a line break.
    stack: String,
    /// The end of each.
    ends: Vec<usize>,
    lost: u64,
    odd: OddLines,
    /// Whether the stack is left out, up to the next empty line or sample.
    is_broken: bool,
}

impl Reader {
    fn read(&mut self, line: &str, number: usize) -> Result<()> {
        if line.is_empty() {
            return self.end_sample();
        }
        if line.starts_with('#') {
            return Ok(());
        }
        if is_frame(line) {
            if self.is_broken {
                return Ok(());
            }
            if self.ends.len() >= self.limits.depth {
                return Err(Error::TooLarge {
                    format: NAME,
                    what: "frames of a stack",
                    limit: self.limits.depth as u64,
                });
            }
            self.push(line.trim());
            return Ok(());
        }
        if let (true, Some(end)) = (is_source_line(line), self.ends.last_mut()) {
            self.stack.push('\n');
            self.stack.push_str(line.trim());
            *end = self.stack.len();
            return Ok(());
        }
        match Header::parse(line) {
            Some(header) if header.is_record() => self.lost += header.lost(),
            Some(_) => {
                self.end_sample()?;
                self.header = Some(line.to_owned());
            }
            None => {
                self.odd.add(number, line.chars().take(60).collect());
                // What follows may be the stack of a sample whose line is broken.
                self.is_broken |= self.header.is_none() && self.ends.is_empty();
            }
        }
        Ok(())
    }

    fn push(&mut self, frame: &str) {
        self.stack.push_str(frame);
        self.ends.push(self.stack.len());
    }

    fn end_sample(&mut self) -> Result<()> {
        self.is_broken = false;
        let text = self.header.take();
        if text.is_none() && self.ends.is_empty() {
            return Ok(());
        }
        let header = text.as_deref().and_then(Header::parse).unwrap_or_default();
        if let (true, Some(place)) = (self.ends.is_empty(), header.place()) {
            self.push(place);
        }
        let (mut stack, mut ends) = (std::mem::take(&mut self.stack), std::mem::take(&mut self.ends));
        let event = self.event(&header)?;
        let mut node = call_tree::ROOT;
        for index in (0..ends.len()).rev() {
            let start = if index == 0 { 0 } else { ends[index - 1] };
            let location = event.location(&stack[start..ends[index]]);
            node = event.tree.child(node, location)?;
        }
        let labels = header.labels(&mut event.tree);
        let values = [1, header.period.unwrap_or(0)];
        event.tree.add(node, labels, if event.has_period { &values } else { &values[..1] });
        if let Some(time) = header.time {
            event.first = event.first.min(time);
            event.last = event.last.max(time);
        }
        stack.clear();
        ends.clear();
        (self.stack, self.ends) = (stack, ends);
        Ok(())
    }

    fn event(&mut self, header: &Header<'_>) -> Result<&mut EventTree> {
        let position = self.events.iter().position(|event| event.name == header.event);
        if let Some(position) = position {
            return Ok(&mut self.events[position]);
        }
        if self.events.len() == events::EVENTS_MAX {
            return Err(Error::TooLarge {
                format: NAME,
                what: "the number of events",
                limit: events::EVENTS_MAX as u64,
            });
        }
        let has_period = header.period.is_some();
        let (kind, unit) = header.measure();
        let types = [("samples", "count"), (kind, unit)];
        let types = if has_period { &types[..] } else { &types[..1] };
        let mut tree = CallTree::new(NAME, types, self.bytes, &self.limits);
        if has_period {
            tree.builder.period(kind, unit, header.period.unwrap_or(0));
        }
        let (first, last) = (f64::INFINITY, f64::NEG_INFINITY);
        self.events.push(EventTree {
            name: header.event.to_owned(),
            has_period,
            tree,
            frames: HashMap::default(),
            first,
            last,
        });
        let last = self.events.len() - 1;
        Ok(&mut self.events[last])
    }
}

impl EventTree {
    fn location(&mut self, text: &str) -> LocationId {
        if let Some(id) = self.frames.get(text) {
            return *id;
        }
        let (frame, source) = text.split_once('\n').unwrap_or((text, ""));
        let (name, module) = parse_frame(frame).unwrap_or((frame, ""));
        let unnamed = format!("[{}]", module.rsplit('/').next().unwrap_or_default().trim_matches(['[', ']']));
        let name = if name == "[unknown]" && !module.is_empty() { &unnamed } else { name };
        let source =
            source.rsplit_once(':').and_then(|(file, line)| Some((file, line.parse().ok().filter(|line| *line > 0)?)));
        let (file, line) = source.unwrap_or(("", 0));
        let id = self.tree.frame(&Frame { name, file, line, module, ..Frame::default() });
        self.frames.insert(text.into(), id);
        id
    }
}

/// Whether a line behind a frame is its source line: `  work.c:8`, `  libc.so.6[2724a]` where it is not known.
fn is_source_line(line: &str) -> bool {
    line.strip_prefix("  ").is_some_and(|source| source.starts_with(|first: char| !first.is_whitespace()))
}

/// Name and file of `1199 cold+0xd (/tmp/work)`; the file is empty where it is not known.
fn parse_frame(line: &str) -> Option<(&str, &str)> {
    let text = line.trim();
    let (address, rest) = text.split_once(' ').unwrap_or((text, ""));
    let is_address = !address.is_empty() && address.bytes().all(|byte| byte.is_ascii_hexdigit());
    // Without `-F ip` there is no address.
    let rest = if is_address { rest.trim_start() } else { text };
    let rest = rest.strip_suffix(" (inlined)").unwrap_or(rest);
    let (symbol, module) = match rest.strip_suffix(')') {
        Some(open) => match open.strip_suffix(" (deleted)").unwrap_or(open).rsplit_once('(') {
            Some((symbol, module)) if is_module(symbol, module) => (symbol.trim_end(), module),
            _ => (rest, ""),
        },
        None => (rest, ""),
    };
    let module = if module == "[unknown]" { "" } else { module };
    match (without_offset(symbol), is_address) {
        ("", true) => Some(("[unknown]", module)),
        ("", false) => None,
        (name, _) => Some((name, module)),
    }
}

/// Whether the text in brackets behind a symbol is a file, not the end of a C++ name.
fn is_module(symbol: &str, module: &str) -> bool {
    (symbol.is_empty() || symbol.ends_with(' ')) && (module.starts_with(['/', '[']) || !module.contains([',', ' ']))
}

fn without_offset(symbol: &str) -> &str {
    match symbol.rsplit_once("+0x") {
        Some((name, offset)) if !offset.is_empty() && offset.bytes().all(|byte| byte.is_ascii_hexdigit()) => name,
        _ => symbol,
    }
}

#[cfg(test)]
mod tests;
