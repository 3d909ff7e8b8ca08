//! Profiles of an old agent for Java programs: CPU in binary, heap and contention as text, each followed by a table
//! that names the frames.
//!
//! ```text
//! CPU         words 0, 3, 1, period in microseconds, 0; samples as in gperftools' profile; trailer
//! heap        --- heapz 1 ---
//!             format = java
//!             resolution = bytes
//!             16304    3 @ 0x00000003 0x00000004        bytes, objects, frame ids leaf first
//! contention  --- contentionz 1 ---                     with `sampling period` and `ms since reset`; resolution is the delay's unit
//! table        0x00000003 GC
//!              0x00000004 com.example.run (source.java:04)
//! ```
//! Format: google/pprof, `profile/legacy_java_profile.go`. Frame numbers are ids, not addresses: locations have address
//! 0 and the table's name. A frame that the table does not name stays without lines; a warning counts those. Heap
//! counts are sampled at 512 KiB ([`Sampling::Poisson`]), with the mean size as number label `bytes`; contentions and
//! delays are multiplied by the sampling period while decoding.

use foldhash::HashMap;

use super::detect::{any, begins};
use super::gperftools_cpu::read_samples;
use super::words::Words;
use super::{Detect, Format, Limits, legacy_frames};
use crate::text::{Cursor, Line, Lines, OddLines};
use crate::{
    Error, Function, Line as SourceLine, Location, LocationId, Nanos, Place, Profile, ProfileBuilder, Result, Sampling,
};

/// Name of the format.
pub const NAME: &str = "java";

/// The row of the format table.
pub(super) const FORMAT: Format = Format {
    name: NAME,
    help: "CPU, heap and contention profiles of a Java agent, before pprof",
    detect,
    decode,
    events: None,
    encode: None,
};

const HEAP: &[u8] = b"--- heapz 1 ---";
const CONTENTION: &[u8] = b"--- contentionz 1 ---";
const HEAP_RATE: i64 = 512 << 10;
const CPU_VERSION: u64 = 1;

/// Whether the bytes are a profile of the Java agent; `contentionz` is, when its attributes contain a format or a
/// resolution.
pub fn detect(bytes: &[u8]) -> Detect {
    let contention = match begins(bytes, CONTENTION) {
        Detect::Yes => detect_attributes(&bytes[CONTENTION.len()..]),
        answer => answer,
    };
    any([Words::detect(bytes, CPU_VERSION), begins(bytes, HEAP), contention])
}

fn detect_attributes(bytes: &[u8]) -> Detect {
    for line in Lines::new(bytes) {
        match attribute(line.text) {
            _ if line.is_cut => return Detect::NeedMore,
            Some((b"format" | b"resolution", _)) => return Detect::Yes,
            None if !line.text.is_empty() => return Detect::No,
            _ => {}
        }
    }
    Detect::NeedMore
}

/// Decodes a CPU, heap or contention profile.
///
/// # Errors
/// [`Error::Malformed`] or [`Error::Truncated`] with the place, [`Error::TooLarge`] past the depth limit.
pub fn decode(bytes: &[u8], limits: &Limits, warnings: &mut Vec<String>) -> Result<Profile> {
    if bytes.starts_with(b"-") { decode_text(bytes, limits, warnings) } else { decode_cpu(bytes, limits, warnings) }
}

fn decode_cpu(bytes: &[u8], limits: &Limits, warnings: &mut Vec<String>) -> Result<Profile> {
    let mut words = Words::open(NAME, bytes, 0, CPU_VERSION)?;
    let samples = read_samples(&mut words, limits, NAME)?;
    let period = words.period_nanos();
    let mut builder = ProfileBuilder::new(&[("samples", "count"), ("cpu", "nanoseconds")]);
    legacy_frames::PROFILER.set(&mut builder);
    builder.period("cpu", "nanoseconds", period);
    let mut frames = Frames::read(Lines::new(words.rest()), limits);
    for sample in &samples.list {
        frames.stack.clear();
        for id in sample.stack() {
            frames.push(&mut builder, id)?;
        }
        builder.sample(&frames.stack, &[sample.count, sample.count.saturating_mul(period)], &[]);
    }
    frames.warn(warnings);
    std::mem::take(&mut frames.odd).warn(NAME, warnings);
    builder.finish()
}

fn decode_text(bytes: &[u8], limits: &Limits, warnings: &mut Vec<String>) -> Result<Profile> {
    let is_heap = bytes.starts_with(HEAP);
    let mut lines = Lines::new(bytes);
    lines.next();
    let attributes = Attributes::read(&mut lines)?;
    let resolution = String::from_utf8_lossy(attributes.resolution);
    let names = if is_heap { ["inuse_objects", "inuse_space"] } else { ["contentions", "delay"] };
    let mut builder = ProfileBuilder::new(&[(names[0], "count"), (names[1], &resolution)]);
    let uninteresting = if is_heap { legacy_frames::HEAP } else { legacy_frames::CONTENTION };
    uninteresting.set(&mut builder);
    if is_heap {
        builder.parts_mut().sampling = Sampling::Poisson(HEAP_RATE);
    } else if let Some(period) = attributes.period {
        builder.period("contentions", "count", period);
    }
    builder.time(Nanos(0), Nanos(attributes.millis_since_reset.saturating_mul(1_000_000)));
    let mut frames = Frames::read(lines.filter(|line| !is_sample(line)), limits);
    let scale = attributes.period.filter(|period| *period != 0 && !is_heap).unwrap_or(1);
    for line in lines.filter(is_sample) {
        let read = read_sample(&line, &mut frames, &mut builder, is_heap, scale);
        frames.odd.keep(&line, read)?;
    }
    frames.warn(warnings);
    std::mem::take(&mut frames.odd).end(NAME, builder.parts_mut().stack_ends.is_empty(), warnings)?;
    builder.finish()
}

/// The attributes before the samples of a text.
#[derive(Default)]
struct Attributes<'a> {
    resolution: &'a [u8],
    period: Option<i64>,
    millis_since_reset: i64,
}

impl<'a> Attributes<'a> {
    /// Reads attributes, and leaves the lines at the first that is none.
    fn read(lines: &mut Lines<'a>) -> Result<Attributes<'a>> {
        let mut attributes = Attributes::default();
        let is_attribute = |line: &Line<'_>| line.text.is_empty() || attribute(line.text).is_some();
        for line in (*lines).take_while(is_attribute).filter(|line| !line.text.is_empty()) {
            let number = |value: &[u8]| {
                let mut cursor = Cursor::new(value);
                let number = cursor.integer().filter(|_| cursor.is_done() && !line.is_cut);
                number.ok_or_else(|| line.error(NAME, "NAME = NUMBER"))
            };
            match attribute(line.text) {
                _ if line.is_cut => return Err(line.error(NAME, "an attribute")),
                Some((b"format", b"java")) => {}
                Some((b"resolution", value)) => attributes.resolution = value,
                Some((b"sampling period", value)) => attributes.period = Some(number(value)?),
                Some((b"ms since reset", value)) => attributes.millis_since_reset = number(value)?,
                _ => return Err(line.error(NAME, "format = java, resolution, sampling period or ms since reset")),
            }
        }
        *lines = skip(*lines, is_attribute);
        match attributes.resolution {
            [] => Err(Error::Malformed {
                format: NAME,
                place: Place::Line(1),
                what: "no attribute `resolution`".to_owned(),
            }),
            _ => Ok(attributes),
        }
    }
}

/// The lines behind those at the beginning for which `passes`.
fn skip<'a>(lines: Lines<'a>, passes: impl Fn(&Line<'_>) -> bool) -> Lines<'a> {
    let (mut behind, mut ahead) = (lines, lines);
    while ahead.next().is_some_and(|line| passes(&line)) {
        behind = ahead;
    }
    behind
}

fn attribute(line: &[u8]) -> Option<(&[u8], &[u8])> {
    let equals = memchr::memchr(b'=', line)?;
    let (name, value) = (line[..equals].trim_ascii(), line[equals + 1..].trim_ascii());
    let is_word = |text: &[u8]| {
        !text.is_empty() && text.iter().all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b' '))
    };
    (is_word(name) && is_word(value)).then_some((name, value))
}

fn is_sample(line: &Line<'_>) -> bool {
    sample_counts(&mut Cursor::new(line.text)).is_some()
}

/// `AMOUNT COUNT @`.
fn sample_counts(cursor: &mut Cursor<'_>) -> Option<(i64, i64)> {
    let amount = cursor.integer()?;
    cursor.skip_blanks();
    let count = cursor.integer()?;
    cursor.skip_blanks();
    cursor.eat(b'@')?;
    Some((amount, count))
}

fn read_sample(
    line: &Line<'_>,
    frames: &mut Frames<'_>,
    builder: &mut ProfileBuilder,
    is_heap: bool,
    scale: i64,
) -> Result<()> {
    let expected = || line.error(NAME, "AMOUNT COUNT @ 0x…");
    let mut cursor = Cursor::new(line.text);
    let (amount, count) = sample_counts(&mut cursor).filter(|_| !line.is_cut).ok_or_else(expected)?;
    frames.stack.clear();
    cursor.skip_blanks();
    while !cursor.is_done() {
        frames.push(builder, cursor.address().ok_or_else(expected)?)?;
        cursor.skip_blanks();
    }
    let values = [count.saturating_mul(scale), amount.saturating_mul(scale)];
    if !is_heap {
        builder.sample(&frames.stack, &values, &[]);
        return Ok(());
    }
    let mean = amount.checked_div(count).ok_or_else(|| line.error(NAME, "a count other than 0"))?;
    let label = builder.number_label("bytes", mean, "");
    builder.sample(&frames.stack, &values, &[label]);
    Ok(())
}

/// The table of frames, and the stack being read.
struct Frames<'a> {
    named: HashMap<u64, &'a [u8]>,
    known: HashMap<u64, LocationId>,
    stack: Vec<LocationId>,
    depth: usize,
    unnamed: usize,
    odd: OddLines,
    /// The last line, when the input ends in it.
    cut: Option<usize>,
}

impl<'a> Frames<'a> {
    /// Reads the table; lines that are no entries are counted, of equal ids the last counts.
    fn read(lines: impl Iterator<Item = Line<'a>>, limits: &Limits) -> Frames<'a> {
        let (named, known) = (HashMap::default(), HashMap::default());
        let mut frames = Frames {
            named,
            known,
            stack: Vec::new(),
            depth: limits.depth,
            unnamed: 0,
            odd: OddLines::default(),
            cut: None,
        };
        for line in lines {
            let mut cursor = Cursor::new(line.text);
            if let Some(id) = cursor.address().filter(|_| matches!(cursor.rest.first(), Some(b' ' | b'\t'))) {
                frames.named.insert(id, cursor.rest.trim_ascii());
                frames.cut = line.is_cut.then_some(line.number);
            } else if !line.is_blank_or_comment() && !line.is_cut {
                frames.odd.note(&line);
            }
        }
        frames
    }

    fn push(&mut self, builder: &mut ProfileBuilder, id: u64) -> Result<()> {
        if self.stack.len() == self.depth {
            return Err(Error::TooLarge { format: NAME, what: "frames of a stack", limit: self.depth as u64 });
        }
        let location = match self.known.get(&id) {
            Some(location) => *location,
            None => {
                let location = self.location(builder, id);
                self.known.insert(id, location);
                location
            }
        };
        self.stack.push(location);
        Ok(())
    }

    fn location(&mut self, builder: &mut ProfileBuilder, id: u64) -> LocationId {
        let Some(text) = self.named.get(&id) else {
            self.unnamed += 1;
            return builder.location(Location::default(), &[]);
        };
        let text = String::from_utf8_lossy(text);
        let frame = Frame::parse(&text);
        let (name, filename) = (builder.intern(frame.function), builder.intern(frame.file));
        let function = builder.function(Function { name, system_name: name, filename, start_line: 0 });
        builder.location(Location::default(), &[SourceLine { function, line: frame.line, column: 0 }])
    }

    fn warn(&self, warnings: &mut Vec<String>) {
        if self.unnamed > 0 {
            warnings.push(format!("{NAME}: the table names {} frames too few; those stay unknown", self.unnamed));
        }
        if let Some(line) = self.cut {
            warnings.push(format!(
                "{NAME}: line {line} of the table ends the input without a line break; its name may be cut"
            ));
        }
    }
}

/// The entry of a frame in the table.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Frame<'a> {
    pub(super) function: &'a str,
    pub(super) file: &'a str,
    pub(super) line: i64,
}

impl<'a> Frame<'a> {
    /// Reads `FUNCTION(FILE.EXTENSION:LINE)`, as Java prints an element of a stack trace.
    pub(super) fn of_stack_trace(text: &'a str) -> Option<Frame<'a>> {
        let (function, place) = text.strip_suffix(')')?.rsplit_once('(')?;
        let (file, line) = place.rsplit_once(':')?;
        let is_file = file.contains('.') && !file.contains([' ', ':', '<']);
        let line: i64 = line.parse().ok()?;
        (is_file && !function.is_empty()).then_some(Frame { function: function.trim_end(), file, line: line.max(0) })
    }

    /// Reads `FUNCTION (FILE:LINE)`, `FUNCTION (PATH)` (the file's last name is kept), a generated stub, or a bare
    /// name.
    fn parse(text: &'a str) -> Frame<'a> {
        let inside = text.strip_suffix(')').and_then(|text| text.rsplit_once('('));
        let inside = inside.filter(|(function, _)| function.ends_with([' ', '\t']));
        match inside {
            Some((function, place)) => match place
                .rsplit_once(':')
                .and_then(|(file, line)| Some((file, line.parse().ok()?)))
            {
                Some((file, line)) if !file.is_empty() => {
                    Frame { function: function.trim_end(), file, line: i64::max(line, 0) }
                }
                _ => Frame { function: function.trim_end(), file: place.rsplit('/').next().unwrap_or(place), line: 0 },
            },
            None if text.contains("generated stub/JIT") => Frame { function: "STUB", file: "", line: 0 },
            None => Frame { function: text, file: "", line: 0 },
        }
    }
}

#[cfg(test)]
mod tests;
