//! Austin's binary recordings (MOJO): what a sampler of Python saw, sample by sample.
//!
//! ```text
//! "MOJ" version   then events: a byte for its kind, and what it has; texts end with a zero
//! 1 metadata: name, value     2 sample: process, interpreter (from version 3 on), thread (text)
//! 11 text: number, text       3 frame: number, number of its file and of its name, line, end, column, end (the last three from version 2 on)
//! 5 frame of the sample, by its number, the outermost first     6 frame of the kernel: name     4 frame that could not be read
//! 13 the frames of the thread's last sample are callers of these     7 collecting garbage     8 idle
//! 9 microseconds     10 bytes     12 text that is used again: number
//! 14 task: number, number of its name, count of frames, which follow     15 task, task that waits for it     16 task that runs
//! ```
//! Numbers are variable in length: 6 bits of the first byte, then 7 of each, the lowest first; `0x40` of the first is
//! the sign, `0x80` of each announces another. Numbers of texts and frames are of their process. An example, with the
//! metadata `mode` and a sample of 5 ms without frames: `MOJ` `03` `01 "mode" 00 "wall" 00` `02 01 00 "1" 00`
//! `09 88 4e`.
//!
//! The metadata `mode` decides what is counted: `wall`, `cpu`, the memory that a process gained or lost (`space`), or
//! all of them (`full`). Tasks are left out: they repeat the time of their threads. Of a recording that was cut off,
//! the samples before are read. Format: <https://p403n1x87.github.io/austin/4.1/formats/mojo/>

use foldhash::HashMap;

use super::call_tree::{CallTree, Frame, NodeId, ROOT};
use super::detect::begins;
use super::{Detect, Format, Limits};
use crate::{Error, LocationId, Meta, Nanos, Place, Profile, Result};

/// Name of the format.
pub const NAME: &str = "mojo";

/// The row of the format table.
pub(super) const FORMAT: Format =
    Format { name: NAME, help: "binary recording of Austin (MOJO)", detect, decode, events: None, encode: None };

const MAGIC: &[u8] = b"MOJ";
const VERSION_MAX: i64 = 4;
/// The text of an unknown name, which no event introduces.
const UNKNOWN: i64 = 1;
/// The mapping of frames of the kernel.
const KERNEL: &str = "[kernel]";

/// Whether the bytes are a recording of Austin.
pub fn detect(bytes: &[u8]) -> Detect {
    begins(bytes, MAGIC)
}

/// Decodes a recording.
///
/// # Errors
/// [`Error::Malformed`] and [`Error::Truncated`] with the place, [`Error::TooLarge`] past the limits.
pub fn decode(bytes: &[u8], limits: &Limits, warnings: &mut Vec<String>) -> Result<Profile> {
    let mut cursor = Cursor { bytes, at: MAGIC.len().min(bytes.len()) };
    if detect(bytes) != Detect::Yes {
        return Err(cursor.malformed(0, "expected \"MOJ\""));
    }
    let version = cursor.number()?;
    if !(1..=VERSION_MAX).contains(&version) {
        return Err(cursor.malformed(MAGIC.len(), format!("version {version}; 1 to {VERSION_MAX} are read")));
    }
    let metadata = Metadata::read(&mut cursor)?;
    let mode = Mode::from_metadata(&metadata);
    let mut reader = Reader {
        tree: CallTree::new(NAME, mode.types(), bytes.len(), limits),
        mode,
        version,
        metadata,
        texts: HashMap::default(),
        frames: HashMap::default(),
        last: HashMap::default(),
        sample: None,
        task_frames: 0,
        samples: 0,
    };
    loop {
        let start = cursor.at;
        match reader.event(&mut cursor) {
            Ok(true) => {}
            Ok(false) => break,
            Err(Error::Truncated { .. }) if reader.samples > 0 => {
                warnings.push(format!("{NAME}: offset {start}: the recording was cut off in an event"));
                break;
            }
            Err(error) => return Err(error),
        }
    }
    reader.finish()
}

/// What a recording counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Mode {
    Wall,
    Cpu,
    Memory,
    Full,
}

impl Mode {
    fn from_metadata(metadata: &Metadata) -> Mode {
        match metadata.get("mode") {
            Some("cpu") => Mode::Cpu,
            Some("memory") => Mode::Memory,
            Some("full") => Mode::Full,
            _ => Mode::Wall,
        }
    }

    fn types(self) -> &'static [(&'static str, &'static str)] {
        match self {
            Mode::Wall => &[("samples", "count"), ("wall", "nanoseconds")],
            Mode::Cpu => &[("samples", "count"), ("cpu", "nanoseconds")],
            Mode::Memory => &[("samples", "count"), ("space", "bytes")],
            Mode::Full => &[("samples", "count"), ("wall", "nanoseconds"), ("cpu", "nanoseconds"), ("space", "bytes")],
        }
    }
}

/// What a recording says about itself, before its first sample and behind the last.
#[derive(Debug, Default)]
struct Metadata(Vec<(String, String)>);

impl Metadata {
    /// Reads what comes before the first event of another kind.
    fn read(cursor: &mut Cursor<'_>) -> Result<Metadata> {
        let mut metadata = Metadata::default();
        while cursor.bytes.get(cursor.at) == Some(&1) {
            cursor.at += 1;
            metadata.add(cursor)?;
        }
        Ok(metadata)
    }

    fn add(&mut self, cursor: &mut Cursor<'_>) -> Result<()> {
        let (name, value) = (cursor.text()?, cursor.text()?);
        if ["austin", "python", "mode", "interval", "duration"].contains(&name.as_str()) {
            self.0.retain(|(known, _)| *known != name);
            self.0.push((name, value));
        }
        Ok(())
    }

    fn get(&self, name: &str) -> Option<&str> {
        self.0.iter().find(|(known, _)| known == name).map(|(_, value)| value.as_str())
    }

    /// A span that is given in microseconds.
    fn nanos(&self, name: &str) -> i64 {
        self.get(name)
            .and_then(|value| value.parse::<i64>().ok())
            .map_or(0, |micros| micros.saturating_mul(1000))
            .max(0)
    }
}

/// A frame with its place in the profile.
#[derive(Clone, Copy)]
struct Known {
    location: LocationId,
    /// Whether it is native, which samples with the callers of the last one replace.
    is_native: bool,
}

struct Sample {
    process: i64,
    interpreter: i64,
    thread: String,
    repeats: bool,
    frames: Vec<Known>,
    is_idle: bool,
    micros: i64,
    bytes: i64,
}

/// The stack of a thread's last sample.
#[derive(Clone, Copy)]
struct Last {
    stack: NodeId,
    /// The same without native frames at its top.
    base: NodeId,
}

struct Reader {
    tree: CallTree,
    mode: Mode,
    version: i64,
    metadata: Metadata,
    /// By process and number.
    texts: HashMap<(i64, i64), String>,
    frames: HashMap<(i64, i64), Known>,
    last: HashMap<(i64, String), Last>,
    sample: Option<Sample>,
    /// How many of the frames that follow are a task's.
    task_frames: i64,
    samples: u64,
}

impl Reader {
    /// Reads an event; `false` at the end.
    fn event(&mut self, cursor: &mut Cursor<'_>) -> Result<bool> {
        let start = cursor.at;
        let Some(kind) = cursor.bytes.get(start) else { return Ok(false) };
        cursor.at += 1;
        let process = self.sample.as_ref().map_or(0, |sample| sample.process);
        match kind {
            1 => self.metadata.add(cursor)?,
            2 => {
                let sample = Sample {
                    process: cursor.number()?,
                    interpreter: if self.version >= 3 { cursor.number()? } else { 0 },
                    thread: cursor.text()?,
                    repeats: false,
                    frames: Vec::new(),
                    is_idle: false,
                    micros: 0,
                    bytes: 0,
                };
                self.end_sample()?;
                self.sample = Some(sample);
            }
            3 => self.read_frame(process, cursor)?,
            11 => drop(self.texts.insert((process, cursor.number()?), cursor.text()?)),
            12 => drop(cursor.number()?),
            14 => {
                let [_, _, frames] = [cursor.number()?, cursor.number()?, cursor.number()?];
                self.task_frames = frames.max(0);
            }
            15 => drop([cursor.number()?, cursor.number()?]),
            16 => drop(cursor.number()?),
            4..=10 | 13 => self.read_part(*kind, start, cursor)?,
            other => return Err(cursor.malformed(start, format!("an event of the unknown kind {other}"))),
        }
        Ok(true)
    }

    fn read_frame(&mut self, process: i64, cursor: &mut Cursor<'_>) -> Result<()> {
        let start = cursor.at;
        let [number, file, name, line] = [cursor.number()?, cursor.number()?, cursor.number()?, cursor.number()?];
        let column = if self.version >= 2 { [cursor.number()?, cursor.number()?, cursor.number()?][1] } else { 0 };
        let text = |number: i64| match self.texts.get(&(process, number)) {
            Some(text) => Ok(text.as_str()),
            None if number == UNKNOWN => Ok("<unknown>"),
            None if number == 0 => Ok(""),
            None => Err(cursor.malformed(start, format!("a frame with the text {number}, which does not exist"))),
        };
        let (file, name) = (text(file)?, text(name)?);
        let is_native = !(file.ends_with(".py") || file.starts_with('<') && file.ends_with('>'));
        let location = self.tree.frame(&Frame { name, file, line, column, ..Frame::default() });
        self.frames.insert((process, number), Known { location, is_native });
        Ok(())
    }

    /// Reads what belongs to the sample that goes on.
    fn read_part(&mut self, kind: u8, start: usize, cursor: &mut Cursor<'_>) -> Result<()> {
        let Some(sample) = &mut self.sample else {
            return Err(cursor.malformed(start, format!("an event of the kind {kind} before the first sample")));
        };
        let mut special = |name: &str, module: &str, is_native: bool| {
            let location = self.tree.frame(&Frame { name, module, ..Frame::default() });
            sample.frames.push(Known { location, is_native });
        };
        match kind {
            4 => special("INVALID", "", false),
            5 => {
                let number = cursor.number()?;
                let Some(frame) = self.frames.get(&(sample.process, number)) else {
                    return Err(cursor.malformed(start, format!("the frame {number}, which does not exist")));
                };
                if self.task_frames > 0 {
                    self.task_frames -= 1;
                } else {
                    sample.frames.push(*frame);
                }
            }
            6 => special(&cursor.text()?, KERNEL, true),
            7 => special("GC", "", true),
            8 => sample.is_idle = true,
            9 => sample.micros = cursor.number()?,
            10 => sample.bytes = cursor.number()?,
            _ => sample.repeats = true,
        }
        Ok(())
    }

    /// Adds the sample that goes on to the profile.
    fn end_sample(&mut self) -> Result<()> {
        let Some(sample) = self.sample.take() else { return Ok(()) };
        self.task_frames = 0;
        self.samples += 1;
        let tree = &mut self.tree;
        let mut labels = vec![
            tree.builder.number_label("pid", sample.process, ""),
            tree.builder.text_label("thread", &sample.thread),
        ];
        if sample.interpreter != 0 {
            labels.push(tree.builder.number_label("interpreter", sample.interpreter, ""));
        }
        let labels = tree.labels(&labels);
        let key = (sample.process, sample.thread);
        let mut last = Last { stack: ROOT, base: ROOT };
        if let Some(known) = self.last.get(&key).filter(|_| sample.repeats) {
            last = Last { stack: known.base, base: known.base };
        }
        for frame in &sample.frames {
            last.stack = tree.child(last.stack, frame.location)?;
            if !frame.is_native {
                last.base = last.stack;
            }
        }
        self.last.insert(key, last);
        let nanos = sample.micros.saturating_mul(1000);
        let cpu = if sample.is_idle { 0 } else { nanos };
        match self.mode {
            Mode::Wall | Mode::Cpu => tree.add(last.stack, labels, &[1, nanos]),
            Mode::Memory => tree.add(last.stack, labels, &[1, sample.bytes]),
            Mode::Full => tree.add(last.stack, labels, &[1, nanos, cpu, sample.bytes]),
        }
        Ok(())
    }

    fn finish(mut self) -> Result<Profile> {
        self.end_sample()?;
        let builder = &mut self.tree.builder;
        builder.time(Nanos(0), Nanos(self.metadata.nanos("duration")));
        let interval = self.metadata.nanos("interval");
        let kind = self.mode.types()[1].0;
        if self.mode != Mode::Memory && interval > 0 {
            builder.period(kind, "nanoseconds", interval);
        }
        builder.default_sample_type(kind);
        let version = self.metadata.get("austin").map_or_else(String::new, |version| format!(" {version}"));
        let meta = Meta {
            engine: format!("Austin{version}"),
            instance_version: self
                .metadata
                .get("python")
                .map_or_else(String::new, |version| format!("Python {version}")),
            ..Meta::default()
        };
        for fact in meta.to_comments() {
            builder.comment(&fact);
        }
        self.tree.finish()
    }
}

/// A place in a recording.
struct Cursor<'a> {
    bytes: &'a [u8],
    at: usize,
}

impl Cursor<'_> {
    fn byte(&mut self) -> Result<u8> {
        let byte = self.bytes.get(self.at).copied();
        self.at += 1;
        byte.ok_or(Error::Truncated { format: NAME, place: Place::Offset(self.bytes.len()), what: "an event" })
    }

    fn number(&mut self) -> Result<i64> {
        let start = self.at;
        let first = self.byte()?;
        let (mut number, mut shift, mut byte) = (i64::from(first & 0x3f), 6, first);
        while byte & 0x80 != 0 {
            byte = self.byte()?;
            let bits = i64::from(byte & 0x7f);
            if shift > 56 && bits >> (63u32.saturating_sub(shift)) != 0 {
                return Err(self.malformed(start, "a number of more than 63 bits"));
            }
            // What is too long without need has only zeros there.
            number |= bits.checked_shl(shift).unwrap_or(0);
            shift = shift.saturating_add(7);
        }
        Ok(if first & 0x40 == 0 { number } else { -number })
    }

    /// A text, its end passed over; bytes that are not UTF-8 become U+FFFD.
    fn text(&mut self) -> Result<String> {
        let rest = self.bytes.get(self.at..).unwrap_or_default();
        let end = memchr::memchr(0, rest);
        let end =
            end.ok_or(Error::Truncated { format: NAME, place: Place::Offset(self.bytes.len()), what: "a text" })?;
        self.at += end + 1;
        Ok(String::from_utf8_lossy(&rest[..end]).into_owned())
    }

    fn malformed(&self, at: usize, what: impl Into<String>) -> Error {
        Error::Malformed { format: NAME, place: Place::Offset(at), what: what.into() }
    }
}

#[cfg(test)]
mod tests;
