//! Flame graphs of async-profiler: HTML pages with the call tree as calls of a function, from versions 1.8 to 4.5.
//!
//! ```text
//! <h1>CPU profile</h1> …
//! const cpool = [      names; the first character of each but the first is 32 more than how much it shares with the one before
//! 'all',
//! ' java/lang/Thread.run',
//! '1Object.wait',
//! ];
//! unpack(cpool);
//! n(3,606)             a box beside the last: 8 times the name's position plus the kind of frame, width
//! u(787,9)             a box above the last; without a width, as wide
//! f(388,5,1,8)         a box at that level, so far right of the last, width
//! ```
//! Before 3.0 there is `f(0,0,606,3,'all')` for each box: level, left, width, kind, name. Widths are samples, bytes or
//! nanoseconds, according to the heading. Boxes come in the order of a walk through the tree, so that the part of a box
//! that is wider than those above it is its own. Stacks and names are those of async-profiler's collapsed output; the
//! root `all` is left out.
//!
//! Stacks that begin with the function that ran (`--reverse`) are turned around. Before 4.0 their graph hangs from the
//! top (`const inverted = true`). Since then `--inverted` turns the picture alone, and the page has one flag for both
//! (`let inverted`), so that the frames at both ends of the stacks decide.

use foldhash::HashMap;
use memchr::memmem;

use super::left_out::LeftOut;
use super::{Detect, Format, Limits};
use crate::{
    Error, Function, Line, Location, LocationId, Mapping, MappingId, Meta, Place, Profile, ProfileBuilder, ProfileType,
    Result,
};

mod direction;

use direction::{Direction, Directions};

/// Name of the format.
pub const NAME: &str = "async-profiler-html";

/// The row of the format table.
pub(super) const FORMAT: Format =
    Format { name: NAME, help: "flame graph of async-profiler, HTML", detect, decode, events: None, encode: None };

/// Most bytes of a page that are read to detect it: its style and legend precede the text by which it is recognized.
const DETECT_BYTES: usize = 32 << 10;
/// The text before the tree, and the authors' names, by the version.
const LEVELS: &[u8] = b"levels = Array(";
const WRITERS: [&[u8]; 2] = [b"async-profiler", b"Andrei Pangin"];
/// Bytes of stacks that are made, in times the page: it has each box once, and every sample below it repeats it.
const STACKS_MULTIPLE: usize = 32;
/// The same for names, which a page has without what each shares with the one before.
const NAMES_MULTIPLE: usize = 8;
/// The first colour of the palette since 2.6, which has seven kinds of frames; there were five before.
const SEVEN_KINDS: &str = "[0xb2e1b2,";
/// The largest difference of a page, below 0 where it shows none.
const DIFFERENCE: &str = "const maxdiff = /*maxdiff:*/";
/// Kinds of frames of the kernel and of Java, by whether there are seven.
const KERNEL: [u64; 2] = [2, 5];
const JAVA: [&[u64]; 2] = [&[0, 1], &[0, 1, 2, 6]];

/// Whether the bytes are such a page.
pub fn detect(bytes: &[u8]) -> Detect {
    let start = bytes.trim_ascii_start();
    let begins = |word: &[u8]| start.get(..word.len()).is_some_and(|head| head.eq_ignore_ascii_case(word));
    if !begins(b"<!doctype html") && !begins(b"<html") {
        return Detect::No;
    }
    let head = &bytes[..bytes.len().min(DETECT_BYTES)];
    let has = |word: &[u8]| memmem::find(head, word).is_some();
    match has(LEVELS) && WRITERS.iter().any(|writer| has(writer)) {
        true => Detect::Yes,
        false if bytes.len() < DETECT_BYTES => Detect::NeedMore,
        false => Detect::No,
    }
}

/// Decodes a page.
///
/// # Errors
/// [`Error::Malformed`] with the line, [`Error::Truncated`] when the page ends before its tree does,
/// [`Error::TooLarge`] past the depth limit, and where names or stacks would be far larger than the page.
pub fn decode(bytes: &[u8], limits: &Limits, warnings: &mut Vec<String>) -> Result<Profile> {
    let text = String::from_utf8_lossy(bytes);
    let mut lines = text.lines().enumerate();
    let (mut page, mut left_out) = (Page::default(), LeftOut::default());
    let mut tree = Tree::new(bytes.len(), limits);
    let mut names_left = bytes.len().saturating_mul(NAMES_MULTIPLE);
    while let Some((index, line)) = lines.next() {
        if line.starts_with("const cpool = [") {
            page.read_names(&mut lines, &mut names_left)?;
        } else if tree.boxes > 0 && line.trim_start().starts_with("</script") {
            for (index, line) in lines.filter(|(_, line)| !line.trim().is_empty() && !line.trim().starts_with('<')) {
                let what = format!("text behind the page: {:?}", line.chars().take(60).collect::<String>());
                left_out.add(1, Error::Malformed { format: NAME, place: Place::Line(index + 1), what });
            }
            let profile = tree.finish(&page, warnings)?;
            left_out.end(NAME, profile.sample_count() == 0, warnings)?;
            return Ok(profile);
        } else if is_box(line) {
            let added = match Call::read(line) {
                Some(call) => tree.add(&call, &page)?,
                None => None,
            };
            if added.is_none() {
                let what = "expected a box of the tree".to_owned();
                left_out.add(1, Error::Malformed { format: NAME, place: Place::Line(index + 1), what });
            }
        } else if tree.boxes == 0 {
            page.read_head(line);
            if line.trim().strip_prefix(DIFFERENCE).is_some_and(|rest| !rest.starts_with('-')) {
                let what = "a differential flame graph, whose differences are not read".to_owned();
                return Err(Error::Malformed { format: NAME, place: Place::Line(index + 1), what });
            }
        }
    }
    Err(Error::Truncated { format: NAME, place: Place::Offset(bytes.len()), what: "the tree" })
}

/// Whether a line is a call for a box: those begin at the margin, the functions' own code does not.
fn is_box(line: &str) -> bool {
    matches!(line.as_bytes(), [b'f' | b'u' | b'n', b'(', digit, ..] if digit.is_ascii_digit())
}

/// The facts of a page besides its tree.
#[derive(Default)]
struct Page {
    heading: String,
    /// Whether the graph hangs from the top.
    is_inverted: bool,
    /// Whether stacks of such a page are reversed for certain.
    has_one_direction: bool,
    names: Vec<String>,
    has_seven_kinds: bool,
}

impl Page {
    fn read_head(&mut self, line: &str) {
        let line = line.trim();
        if let Some(heading) = line.strip_prefix("<h1>").and_then(|rest| rest.split("</h1>").next()) {
            self.heading = heading.chars().take(100).collect();
        }
        self.is_inverted |= line == "let inverted = true;" || line == "const inverted = true;";
        self.has_one_direction |= line.starts_with("const inverted = ");
        self.has_seven_kinds |= line.starts_with(SEVEN_KINDS);
    }

    fn read_names<'t>(&mut self, lines: &mut impl Iterator<Item = (usize, &'t str)>, left: &mut usize) -> Result<()> {
        for (index, line) in lines {
            if line.starts_with("];") {
                return Ok(());
            }
            let malformed = || Error::Malformed {
                format: NAME,
                place: Place::Line(index + 1),
                what: "expected a name in quotes".to_owned(),
            };
            let written = quoted(line.trim_end_matches(',')).ok_or_else(malformed)?;
            let name = match self.names.last() {
                Some(before) => unpacked(before, &written).ok_or_else(malformed)?,
                None => written,
            };
            let limit = || Error::TooLarge {
                format: NAME,
                what: "the size of names, in times the page's,",
                limit: NAMES_MULTIPLE as u64,
            };
            *left = left.checked_sub(name.len()).ok_or_else(limit)?;
            self.names.push(name);
        }
        Ok(())
    }

    /// The counted quantity, its unit, and the type of the profile.
    fn value_type(&self) -> (&'static str, &'static str, Option<ProfileType>) {
        let is = |word: &str| self.heading.contains(word);
        let kinds = [
            ("CPU", ProfileType::Cpu),
            ("Allocation", ProfileType::Alloc),
            ("Lock", ProfileType::Contention),
            ("Wall", ProfileType::Wall),
        ];
        let kind = kinds.into_iter().find(|(word, _)| is(word)).map(|(_, kind)| kind);
        let (name, unit) = match &kind {
            Some(ProfileType::Alloc) if is("bytes") => ("alloc_space", "bytes"),
            Some(ProfileType::Contention) if is("(ns)") => ("delay", "nanoseconds"),
            Some(ProfileType::Contention) => ("contentions", "count"),
            Some(kind) if is("(ns)") => (if *kind == ProfileType::Wall { "wall" } else { "cpu" }, "nanoseconds"),
            _ => ("samples", "count"),
        };
        (name, unit, kind)
    }
}

/// The text between single quotes, as scripts write it.
fn quoted(text: &str) -> Option<String> {
    let inside = text.trim().strip_prefix('\'')?.strip_suffix('\'')?;
    let mut plain = String::with_capacity(inside.len());
    let mut characters = inside.chars();
    while let Some(character) = characters.next() {
        plain.push(if character == '\\' { characters.next()? } else { character });
    }
    Some(plain)
}

/// A name with what it shares with the one before.
fn unpacked(before: &str, written: &str) -> Option<String> {
    let first = written.chars().next()?;
    let shared = (u32::from(first) as usize).checked_sub(32)?;
    // Scripts count UTF-16 units; a half of a character is none that is shared.
    let mut units = 0;
    let end = before.char_indices().find(|(_, character)| {
        let is_past = units >= shared;
        units += character.len_utf16();
        is_past
    });
    let kept = end.map_or(before, |(end, _)| &before[..end]);
    Some(format!("{kept}{}", &written[first.len_utf8()..]))
}

/// A call: its function, its numbers, and the name in it.
struct Call {
    function: u8,
    numbers: [Option<u64>; 4],
    name: Option<String>,
}

impl Call {
    fn read(line: &str) -> Option<Call> {
        let arguments = line.get(2..)?.trim_end().trim_end_matches(';').strip_suffix(')')?;
        let (numbers, name) = match arguments.split_once('\'') {
            // Details may follow the name.
            Some((numbers, rest)) => {
                (numbers.trim_end_matches(','), Some(quoted(&format!("'{}'", &rest[..rest.rfind('\'')?]))?))
            }
            None => (arguments, None),
        };
        let mut all = [None; 4];
        for (place, number) in all.iter_mut().zip(numbers.split(',')) {
            *place = if number.is_empty() || number == "U" { None } else { Some(number.trim().parse().ok()?) };
        }
        Some(Call { function: line.as_bytes()[0], numbers: all, name })
    }
}

/// A box that may get further boxes above it.
struct Open {
    frame: LocationId,
    width: u64,
    /// How much of the width is below others.
    covered: u64,
}

/// The part of the tree that is open, and the profile of what is behind it.
struct Tree {
    builder: ProfileBuilder,
    open: Vec<Open>,
    boxes: usize,
    level: usize,
    width: u64,
    frames: HashMap<(String, u64), LocationId>,
    mappings: [Option<MappingId>; 2],
    room: usize,
    depth: usize,
    directions: Directions,
}

impl Tree {
    fn new(bytes: usize, limits: &Limits) -> Tree {
        Tree {
            builder: ProfileBuilder::new(&[("samples", "count")]),
            open: Vec::new(),
            boxes: 0,
            level: 0,
            width: 0,
            frames: HashMap::default(),
            mappings: [None; 2],
            room: bytes.saturating_mul(STACKS_MULTIPLE),
            depth: limits.depth,
            directions: Directions::default(),
        }
    }

    /// Adds a box; `None` for one without a box below it, or without a name.
    fn add(&mut self, call: &Call, page: &Page) -> Result<Option<()>> {
        let [first, second, third, fourth] = call.numbers;
        let (level, width, kind, name) = match (call.function, &call.name) {
            (b'f', Some(name)) => (first, third, fourth, Some(name)),
            (function, _) => {
                let (level, width) = match function {
                    b'f' => (second, fourth),
                    b'u' => (Some(self.level as u64 + 1), second),
                    _ => (Some(self.level as u64), second),
                };
                let name = first.and_then(|key| page.names.get(usize::try_from(key >> 3).ok()?));
                (level, width.filter(|width| *width > 0).or(Some(self.width)), first.map(|key| key & 7), name)
            }
        };
        let (Some(level), Some(width), Some(kind), Some(name)) = (level, width, kind, name) else { return Ok(None) };
        let Some(level) = usize::try_from(level).ok().filter(|level| *level <= self.open.len()) else {
            return Ok(None);
        };
        if level > self.depth {
            return Err(Error::TooLarge { format: NAME, what: "frames of a stack", limit: self.depth as u64 });
        }
        self.close(level)?;
        if let Some(below) = self.open.last_mut() {
            below.covered = below.covered.saturating_add(width);
        }
        let frame = self.frame(name, kind, page);
        self.open.push(Open { frame, width, covered: 0 });
        (self.level, self.width, self.boxes) = (level, width, self.boxes + 1);
        Ok(Some(()))
    }

    /// Closes boxes from that level on, with a sample of each that is wider than the boxes above it.
    fn close(&mut self, level: usize) -> Result<()> {
        while self.open.len() > level {
            let own = self.open.last().map_or(0, |open| open.width.saturating_sub(open.covered));
            // The first is the root of all.
            if own > 0 && self.open.len() > 1 {
                let stack: Vec<LocationId> = self.open[1..].iter().rev().map(|open| open.frame).collect();
                let limit = || Error::TooLarge {
                    format: NAME,
                    what: "the size of stacks, in times the page's,",
                    limit: STACKS_MULTIPLE as u64,
                };
                self.room = self.room.checked_sub(size_of_val(stack.as_slice())).ok_or_else(limit)?;
                self.directions.add_stack(stack[stack.len() - 1], stack[0], own);
                self.builder.sample(&stack, &[i64::try_from(own).unwrap_or(i64::MAX)], &[]);
            }
            self.open.pop();
        }
        Ok(())
    }

    fn frame(&mut self, name: &str, kind: u64, page: &Page) -> LocationId {
        if let Some(frame) = self.frames.get(&(name.to_owned(), kind)) {
            return *frame;
        }
        let era = usize::from(page.has_seven_kinds);
        let mapping = match () {
            () if kind == KERNEL[era] || name.ends_with("_[k]") => Some(self.mapping(1, "[kernel]")),
            () if JAVA[era].contains(&kind) => Some(self.mapping(0, "[jvm]")),
            () => None,
        };
        let text = self.builder.intern(name);
        let function = self.builder.function(Function { name: text, system_name: text, ..Function::default() });
        let line = Line { function, ..Line::default() };
        let frame = self.builder.location(Location { mapping, ..Location::default() }, &[line]);
        self.frames.insert((name.to_owned(), kind), frame);
        self.directions.add_location(name, mapping.is_some() && mapping == self.mappings[1]);
        frame
    }

    fn mapping(&mut self, place: usize, name: &str) -> MappingId {
        if let Some(mapping) = self.mappings[place] {
            return mapping;
        }
        let filename = self.builder.intern(name);
        let mapping = self.builder.mapping(Mapping { filename, has_functions: true, ..Mapping::default() });
        self.mappings[place] = Some(mapping);
        mapping
    }

    /// Whether the stacks begin with the function that ran.
    fn is_reversed(&self, page: &Page, warnings: &mut Vec<String>) -> bool {
        match self.directions.decide() {
            _ if page.has_one_direction => page.is_inverted,
            Direction::RootFirst => false,
            Direction::LeafFirst => true,
            Direction::Unknown => {
                if page.is_inverted {
                    warnings.push(format!(
                        "{NAME}: the graph hangs from the top, and no frame tells whether its stacks are reversed; \
                         they are taken to be"
                    ));
                }
                page.is_inverted
            }
        }
    }

    fn finish(mut self, page: &Page, warnings: &mut Vec<String>) -> Result<Profile> {
        self.close(0)?;
        let is_reversed = self.is_reversed(page, warnings);
        let (name, unit, profile_type) = page.value_type();
        let value_type = self.builder.value_type(name, unit);
        self.builder.parts_mut().sample_types = vec![value_type];
        let meta = Meta { profile_type, engine: "async-profiler".to_owned(), ..Meta::default() };
        for fact in meta.to_comments() {
            self.builder.comment(&fact);
        }
        direction::finish(self.builder, is_reversed)
    }
}

#[cfg(test)]
mod tests;
