//! Reading profile files as jeprof does: by the first line, and passing over what is not understood.
//!
//! ```text
//! heap_v2/524288                                              jemalloc: `@ STACK` and `t*: N: S [N: S]` lines
//! heap profile: 3: 786432 [3: 786432] @ heap_v2/524288        tcmalloc: `N: S [N: S] @ STACK` lines
//! --- contention                                              `CYCLES COUNT @ STACK` lines
//! --- symbol                                                  names first, then one of the others
//! ```
//! Anything else is a profile of the CPU profiler, which is binary. These are not the decoders of
//! `procprof-profile`: those refuse what they cannot read, and round estimates to whole numbers.

use std::collections::BTreeMap;

use super::stacks::{PcId, Pcs, Stacks};
use super::symbols::{Symbol, short_function_name};
use super::{Delay, Index, Kind, Settings, cpu};

/// Why a profile can't be read.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ReadError {
    /// There is no line in it.
    #[error("profile is empty")]
    Empty,
    /// The first line promises a profile of threads, and has no rate.
    #[error("threaded heap profiles require v2 sampling with a sample rate")]
    NoRate,
    /// Names are followed by something that is no profile.
    #[error("cannot recognize profile section after symbols")]
    NoSection,
    /// It is not a profile of the CPU profiler either.
    #[error("not a profile file, or old format profile file")]
    NotAProfile,
    /// A stack is deeper than any can be.
    #[error("stack of {depth} frames at word {word}, at most {} are read", cpu::DEPTH_MAX)]
    TooDeep {
        /// Its depth.
        depth: u64,
        /// Where its depth stands, in words.
        word: usize,
    },
}

/// A profile as it was read.
#[derive(Clone, Debug)]
pub struct Reading {
    /// What it is of.
    pub kind: Kind,
    /// Its stacks.
    pub stacks: Stacks,
    /// The stacks of each thread; `None` if the format has no threads.
    pub threads: Option<BTreeMap<u64, Stacks>>,
    /// The memory map, as text.
    pub map: String,
    /// Names that came with it, by address without leading zeros.
    pub names: Option<Names>,
    /// What is to be told on standard error.
    pub messages: Vec<String>,
}

/// Names that a profile brings along.
#[derive(Clone, Debug, Default)]
pub struct Names {
    /// The program's path.
    pub binary: Option<String>,
    by_address: BTreeMap<u64, String>,
}

impl Names {
    /// Names by address; functions that were inlined follow the one they were inlined into, after `--`.
    pub fn new(binary: Option<String>, by_address: impl IntoIterator<Item = (u64, String)>) -> Names {
        Names { binary, by_address: by_address.into_iter().collect() }
    }

    /// The functions at an address, outermost first: those it was given, else the address.
    pub fn symbols(&self, address: u64) -> Vec<Symbol> {
        let unknown = format!("0x{address:016x}");
        let names = self.by_address.get(&address).unwrap_or(&unknown);
        let symbol = |full: &str| Symbol { short: short_function_name(full).into(), place: "?".into(), full: full.into() };
        names.split("--").filter(|name| !name.is_empty()).map(symbol).collect()
    }

    /// Adds the names of another profile, which win.
    pub fn add(&mut self, other: Names) {
        self.binary = other.binary.or(self.binary.take());
        self.by_address.extend(other.by_address);
    }
}

/// Whether the file begins with names, so that no program is needed.
pub fn symbolized_header(bytes: &[u8]) -> bool {
    let mut source = Source { rest: bytes, messages: Vec::new() };
    source.header().is_some_and(|line| is_section(&line, "symbol"))
}

/// Reads a profile; its addresses are added to `pcs`.
///
/// # Errors
/// [`ReadError`] when it is no profile at all.
pub fn read(bytes: &[u8], settings: &Settings, pcs: &mut Pcs) -> Result<Reading, ReadError> {
    let mut source = Source { rest: bytes, messages: Vec::new() };
    let mut header = source.header().ok_or(ReadError::Empty)?;
    let mut names = None;
    if is_section(&header, "symbol") {
        names = Some(source.names());
        header = source.header().unwrap_or_default();
    }
    if is_section(&header, "heap") || is_section(&header, "growth") {
        header = source.header().unwrap_or_default();
    }
    let mut reading = if header.starts_with("heap profile:") {
        heap(source, &header, settings, pcs)
    } else if header.starts_with("heap") {
        threaded_heap(source, &header, settings, pcs)?
    } else if is_section(&header, "contention") {
        contention(source, settings, pcs)
    } else if header.starts_with("---") && header.trim_start_matches('-').trim_start_matches(' ').starts_with("Stacks:") {
        let note = "Old format contention profile: mistakenly reports condition variable signals as lock contentions.";
        source.messages.push(note.into());
        contention(source, settings, pcs)
    } else if is_section(&header, "profile") {
        cpu_profile(source.rest, source.messages, pcs)?
    } else if names.is_some() {
        return Err(ReadError::NoSection);
    } else {
        cpu_profile(bytes, source.messages, pcs)?
    };
    reading.names = names;
    Ok(reading)
}

/// Whether a line is `--- NAME`.
fn is_section(line: &str, name: &str) -> bool {
    line.strip_prefix("---").is_some_and(|rest| rest.trim_start_matches(' ').starts_with(name))
}

/// What is left to read of a file, and what was odd about it.
struct Source<'a> {
    rest: &'a [u8],
    messages: Vec<String>,
}

impl<'a> Source<'a> {
    /// The next line, without its end.
    fn line(&mut self) -> Option<&'a [u8]> {
        if self.rest.is_empty() {
            return None;
        }
        let end = memchr::memchr(b'\n', self.rest);
        let (line, rest) = end.map_or((self.rest, &[][..]), |end| (&self.rest[..end], &self.rest[end + 1..]));
        self.rest = rest;
        Some(line.strip_suffix(b"\r").unwrap_or(line))
    }

    /// The first line that is no command; empty if the file is binary.
    fn header(&mut self) -> Option<String> {
        let first = *self.rest.first()?;
        if !(first.is_ascii_graphic() || first == b' ') {
            return Some(String::new());
        }
        while let Some(line) = self.line() {
            let line = String::from_utf8_lossy(line).into_owned();
            if !line.starts_with('%') {
                return Some(line);
            }
            self.messages.push(match line.strip_prefix("%warn") {
                Some(warning) => format!("WARNING: {}", warning.trim_start()),
                None => format!("Ignoring unknown command from profile header: {line}"),
            });
        }
        None
    }

    fn names(&mut self) -> Names {
        let mut names = Names::default();
        while let Some(line) = self.line() {
            let line = String::from_utf8_lossy(line);
            if line.starts_with("---") {
                break;
            }
            let entry = line.strip_prefix("0x").and_then(|rest| rest.split_once(char::is_whitespace));
            if let Some((digits, name)) = entry {
                if let Ok(address) = u64::from_str_radix(digits, 16) {
                    names.by_address.insert(address, name.trim_start().to_owned());
                }
            } else if let Some(binary) = line.strip_prefix("binary=") {
                names.binary = Some(binary.trim().to_owned());
            }
        }
        names
    }

    /// The rest as text, if `line` announces the memory map.
    fn map_behind(&mut self, line: &[u8]) -> Option<String> {
        let announced = line.starts_with(b"MAPPED_LIBRARIES:") || line.starts_with(b"--- Memory map:");
        announced.then(|| String::from_utf8_lossy(std::mem::take(&mut self.rest)).replace('\r', ""))
    }
}

impl Reading {
    fn new(kind: Kind, messages: Vec<String>) -> Reading {
        Reading { kind, stacks: Stacks::default(), threads: None, map: String::new(), names: None, messages }
    }
}

fn cpu_profile(bytes: &[u8], messages: Vec<String>, pcs: &mut Pcs) -> Result<Reading, ReadError> {
    let mut reading = Reading::new(Kind::Cpu, messages);
    reading.map = cpu::read(bytes, &mut reading.stacks, pcs)?;
    Ok(reading)
}

/// How counts of sampled allocations become estimates.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Sampling {
    Exact,
    /// The older rule, with the mean distance of samples in bytes.
    Linear(f64),
    /// With the rate in bytes.
    Poisson(f64),
}

/// Objects and bytes, in use and allocated.
type Counts = [f64; 4];

impl Sampling {
    fn estimate(self, counts: Counts, index: Index) -> f64 {
        let [objects, bytes, allocated_objects, allocated_bytes] = counts;
        match index {
            Index::InuseObjects => objects * self.factor(objects, bytes),
            Index::InuseSpace => bytes * self.factor(objects, bytes),
            Index::AllocObjects => allocated_objects * self.factor(allocated_objects, allocated_bytes),
            Index::AllocSpace => allocated_bytes * self.factor(allocated_objects, allocated_bytes),
        }
    }

    fn factor(self, objects: f64, bytes: f64) -> f64 {
        if objects == 0.0 || bytes == 0.0 {
            return 1.0;
        }
        match self {
            Sampling::Exact => 1.0,
            Sampling::Poisson(rate) => 1.0 / (1.0 - (-(bytes / objects / rate)).exp()),
            Sampling::Linear(distance) => 1.0 / (bytes / objects / distance).min(1.0),
        }
    }
}

/// `heap profile: N: S [N: S] @ TYPE/RATE`, then `N: S [N: S] @ STACK`.
fn heap(mut source: Source<'_>, header: &str, settings: &Settings, pcs: &mut Pcs) -> Reading {
    let kind = if header.contains("growth") { Kind::Growth } else { Kind::Heap };
    let sampling = heap_sampling(header, &mut source.messages);
    let mut reading = Reading::new(kind, Vec::new());
    let mut stack = Vec::new();
    while let Some(line) = source.line() {
        if let Some(map) = source.map_behind(line) {
            reading.map = map;
            break;
        }
        let Some((counts, at)) = memchr::memchr(b'@', line).map(|at| (&line[..at], &line[at + 1..])) else { continue };
        let Some(counts) = counts_of(counts) else { continue };
        read_stack(at, pcs, &mut stack);
        reading.stacks.add(&stack, sampling.estimate(counts, settings.index));
    }
    reading.messages = source.messages;
    reading
}

fn heap_sampling(header: &str, messages: &mut Vec<String>) -> Sampling {
    const DISTANCE: f64 = 131_072.0;
    let (counts, source) = header.split_once('@').unwrap_or((header, ""));
    let Some(counts) = counts.strip_prefix("heap profile:").and_then(|counts| counts_of(counts.as_bytes())) else {
        return Sampling::Exact;
    };
    let source = source.trim();
    let (name, rate) = source.split_once('/').unwrap_or((source, ""));
    let digits = rate.len() - rate.trim_start_matches(|digit: char| digit.is_ascii_digit()).len();
    let rate = rate[..digits].parse().unwrap_or(0.0);
    let is_poisson = name.contains("_v2");
    let is_sampled = match name {
        "" => counts[0] == counts[2] && counts[1] == counts[3],
        name => name != "heapprofile" && name.contains("heap"),
    };
    if !is_sampled {
        return Sampling::Exact;
    }
    let distance = if is_poisson { rate } else { rate / 2.0 };
    if distance == 0.0 {
        messages.push("Adjusting heap profiles for 1-in-128KB sampling rate".into());
    } else {
        messages.push(format!("Adjusting heap profiles for 1-in-{distance:.0} sampling rate"));
    }
    if is_poisson {
        messages.push("Heap version 2".into());
    }
    let distance = if distance == 0.0 { DISTANCE } else { distance };
    if is_poisson { Sampling::Poisson(distance) } else { Sampling::Linear(distance) }
}

/// `heap_v2/RATE`, then `@ STACK`, each with `t*: N: S [N: S]` and a line for each thread.
fn threaded_heap(mut source: Source<'_>, header: &str, settings: &Settings, pcs: &mut Pcs) -> Result<Reading, ReadError> {
    let digits = header.strip_prefix("heap_v2/").ok_or(ReadError::NoRate)?;
    let digits = &digits[..digits.len() - digits.trim_start_matches(|digit: char| digit.is_ascii_digit()).len()];
    let rate: f64 = digits.parse().map_err(|_| ReadError::NoRate)?;
    let sampling = if rate == 0.0 { Sampling::Exact } else { Sampling::Poisson(rate) };
    let mut reading = Reading::new(Kind::Heap, Vec::new());
    let mut threads: BTreeMap<u64, Stacks> = BTreeMap::new();
    let (mut stack, mut in_header) = (Vec::new(), true);
    while let Some(line) = source.line() {
        if let Some(map) = source.map_behind(line) {
            reading.map = map;
            break;
        }
        let line = line.trim_ascii();
        if let Some(addresses) = line.strip_prefix(b"@") {
            read_stack(addresses, pcs, &mut stack);
            in_header = false;
        } else if let Some((thread, counts)) = thread_counts(line).filter(|_| !in_header) {
            let value = sampling.estimate(counts, settings.index);
            match thread {
                None => reading.stacks.add(&stack, value),
                Some(thread) => threads.entry(thread).or_default().add(&stack, value),
            }
        }
    }
    reading.threads = Some(threads);
    reading.messages = source.messages;
    Ok(reading)
}

/// Reads `t*: …` or `tN: …`.
fn thread_counts(line: &[u8]) -> Option<(Option<u64>, Counts)> {
    let rest = line.strip_prefix(b"t")?;
    let colon = memchr::memchr(b':', rest)?;
    let thread = match &rest[..colon] {
        b"*" => None,
        digits => Some(std::str::from_utf8(digits).ok()?.parse().ok()?),
    };
    Some((thread, counts_of(&rest[colon + 1..])?))
}

/// Reads `N: S [N: S]`.
fn counts_of(text: &[u8]) -> Option<Counts> {
    let mut numbers = Numbers { rest: text };
    let objects = numbers.number()?;
    numbers.eat(b':')?;
    let bytes = numbers.number()?;
    numbers.eat(b'[')?;
    let allocated_objects = numbers.number()?;
    numbers.eat(b':')?;
    let allocated_bytes = numbers.number()?;
    numbers.eat(b']')?;
    Some([objects, bytes, allocated_objects, allocated_bytes])
}

/// Numbers and marks between blanks.
struct Numbers<'a> {
    rest: &'a [u8],
}

impl Numbers<'_> {
    fn eat(&mut self, mark: u8) -> Option<()> {
        self.rest = self.rest.trim_ascii_start().strip_prefix(&[mark])?;
        Some(())
    }

    fn number(&mut self) -> Option<f64> {
        self.rest = self.rest.trim_ascii_start();
        let digits = self.rest.iter().take_while(|digit| digit.is_ascii_digit()).count();
        let (number, rest) = self.rest.split_at(digits);
        self.rest = rest;
        let add = |sum: u64, digit: &u8| sum.checked_mul(10)?.checked_add(u64::from(digit - b'0'));
        let number = number.iter().try_fold(0, add)?;
        (digits > 0).then_some(number as f64)
    }
}

/// Reads the addresses of a stack, leaf first; callers are taken back by one, into their calls.
fn read_stack(text: &[u8], pcs: &mut Pcs, stack: &mut Vec<PcId>) {
    stack.clear();
    let words = text.split(u8::is_ascii_whitespace).filter(|word| !word.is_empty());
    for (position, word) in words.enumerate() {
        let digits = word.strip_prefix(b"0x").unwrap_or(word);
        let add = |sum: u64, digit: &u8| Some(sum << 4 | u64::from((*digit as char).to_digit(16)?));
        let Some(address) = digits.iter().try_fold(0u64, add) else { continue };
        let address = if position == 0 { address } else { address.wrapping_sub(1) };
        stack.push(pcs.id(address));
    }
}

/// `NAME = VALUE` lines, then `CYCLES COUNT @ STACK`; everything else may be the memory map.
fn contention(mut source: Source<'_>, settings: &Settings, pcs: &mut Pcs) -> Reading {
    const GUESSED_GIGAHERTZ: f64 = 2.8;
    let mut reading = Reading::new(Kind::Contention, Vec::new());
    let (mut gigahertz, mut period, mut stack) = (None, 1.0, Vec::new());
    while let Some(line) = source.line() {
        if let Some((cycles, count, addresses)) = delay(line) {
            let nanos = cycles / gigahertz.unwrap_or(GUESSED_GIGAHERTZ) * period;
            read_stack(addresses, pcs, &mut stack);
            let value = match (settings.delay, count.map(|count| count * period)) {
                (Delay::Total, _) | (_, None) => nanos,
                (Delay::Contentions, Some(count)) => count,
                (Delay::Mean, Some(0.0)) => 0.0,
                (Delay::Mean, Some(count)) => nanos / count,
            };
            reading.stacks.add(&stack, value);
            continue;
        }
        let text = String::from_utf8_lossy(line);
        match text.split_once('=').filter(|_| text.starts_with(|letter: char| letter.is_ascii_lowercase())) {
            Some((name, value)) => match (name.trim(), value.trim()) {
                ("cycles/second", value) => gigahertz = value.parse::<f64>().ok().map(|hertz| hertz / 1e9).filter(|rate| *rate > 0.0),
                ("sampling period", value) => period = value.parse().unwrap_or(1.0),
                ("ms since reset" | "discarded samples", _) => {}
                (name, value) => {
                    source.messages.push(format!("Ignoring unnknown variable in /contention output: '{name}' = '{value}'"));
                }
            },
            None => {
                reading.map.push_str(&text);
                reading.map.push('\n');
            }
        }
    }
    if gigahertz.is_none() {
        source.messages.push(format!("No cycles/second entry in profile; Guessing {GUESSED_GIGAHERTZ:.1} GHz"));
    }
    reading.messages = source.messages;
    reading
}

/// Reads `CYCLES COUNT @ STACK` or the older `CYCLES @ STACK`.
fn delay(line: &[u8]) -> Option<(f64, Option<f64>, &[u8])> {
    let at = memchr::memchr(b'@', line)?;
    let mut numbers = Numbers { rest: &line[..at] };
    let cycles = numbers.number()?;
    let count = numbers.number();
    numbers.rest.trim_ascii().is_empty().then_some((cycles, count, &line[at + 1..]))
}
