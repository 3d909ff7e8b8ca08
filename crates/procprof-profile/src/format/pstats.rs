//! Profiles of Python's `cProfile`, as `python -m cProfile -o FILE` and `pstats` save them: a marshalled dictionary.
//!
//! ```text
//! {(file, line, name): (primitive calls, calls, own seconds, seconds with callees,
//!                       {(file, line, name of a caller): (calls, primitive calls, own seconds, seconds)})}
//! ```
//! There are no stacks: as of Callgrind's files, a function's own time is divided among its callers by what their calls
//! took. `wall` is time by itself, `calls` the calls. The module `profile`, which is written in Python, has numbers of
//! calls in place of a caller's times; its calls take their part of the function's time.
//!
//! A value is a byte for its kind, whose highest bit has it remembered for later references, then what the kind has:
//! a size in 1 or 4 bytes, little-endian, or a number. Source: `Python/marshal.c` and `Lib/cProfile.py` of CPython.

use std::rc::Rc;

use super::callgrind::Graph;
use super::left_out::LeftOut;
use super::{Detect, Format, Limits};
use crate::{Error, Place, Profile, Result};

/// Name of the format.
pub const NAME: &str = "pstats";

/// The row of the format table.
pub(super) const FORMAT: Format =
    Format { name: NAME, help: "profiles of Python's cProfile", detect, decode, events: None, encode: None };

/// Sample types; the first is what is divided among callers.
const TYPES: &[(&str, &str)] = &[("wall", "nanoseconds"), ("calls", "count")];
/// The bit of a kind whose value is remembered.
const REMEMBERED: u8 = 0x80;
/// Deepest nesting of values: a dictionary of tuples, of dictionaries of tuples, of tuples.
const DEPTH_MAX: usize = 8;

/// Whether the bytes are a dictionary whose first key is a tuple of three.
pub fn detect(bytes: &[u8]) -> Detect {
    let kind = |at: usize| bytes.get(at).map(|byte| byte & !REMEMBERED);
    match (kind(0), kind(1), bytes.get(2..)) {
        (Some(b'{'), Some(b')'), Some([3, ..])) | (Some(b'{'), Some(b'('), Some([3, 0, 0, 0, ..])) => Detect::Yes,
        (None, ..) | (Some(b'{'), None, _) | (Some(b'{'), Some(b'(' | b')'), Some([])) => Detect::NeedMore,
        (Some(b'{'), Some(b'('), Some([3] | [3, 0] | [3, 0, 0])) => Detect::NeedMore,
        _ => Detect::No,
    }
}

/// Decodes a profile.
///
/// # Errors
/// [`Error::Malformed`] and [`Error::Truncated`] with the place.
pub fn decode(bytes: &[u8], limits: &Limits, warnings: &mut Vec<String>) -> Result<Profile> {
    let mut reader = Reader { bytes, at: 0, remembered: Vec::new() };
    let Some(Value::Dictionary(functions)) = reader.value(0)? else {
        return Err(reader.malformed("expected a dictionary"));
    };
    let (mut graph, mut left_out) = (Graph::default(), LeftOut::default());
    for (key, value) in functions.iter() {
        let read = add(&mut graph, key, value).map_err(|what| reader.malformed(what));
        left_out.keep(read)?;
    }
    left_out.end(NAME, graph.is_empty(), warnings)?;
    graph.build_as(NAME, TYPES, bytes.len(), limits)
}

/// Why an entry of the dictionary cannot be read.
type Entry<T> = std::result::Result<T, &'static str>;

/// Adds a function with its callers.
fn add(graph: &mut Graph, key: &Value, value: &Value) -> Entry<()> {
    let Value::Tuple(parts) = value else { return Err("expected what a function took") };
    let [_, calls, own, whole, callers] = &**parts else { return Err("expected five numbers of a function") };
    let function = function(graph, key)?;
    let (calls, whole) = (calls.number()?, nanos(whole)?);
    graph.add(function, &[nanos(own)?, calls as i64]);
    let Value::Dictionary(callers) = callers else { return Err("expected the callers of a function") };
    for (caller, value) in callers.iter() {
        let took = match value {
            Value::Tuple(parts) => nanos(parts.get(3).ok_or("expected four numbers of a caller")?)?,
            count => (whole as f64 * (count.number()? / calls.max(1.0)).min(1.0)) as i64,
        };
        let caller = self::function(graph, caller)?;
        graph.add_call(caller, function, &[took]);
    }
    Ok(())
}

fn function(graph: &mut Graph, key: &Value) -> Entry<u32> {
    let Value::Tuple(parts) = key else { return Err("expected a function") };
    let [Value::Text(file), line, Value::Text(name)] = &**parts else { return Err("expected file, line and name") };
    let line = line.number()? as i64;
    // What is built in has no file.
    let file = if &**file == "~" { "" } else { file };
    let full = "more than 4 GiB of strings";
    let (file, name) = (graph.text(file).map_err(|_| full)?, graph.text(name).map_err(|_| full)?);
    graph.function_at([name, file, crate::StringId::default()], line).map_err(|_| full)
}

fn nanos(value: &Value) -> Entry<i64> {
    Ok((value.number()? * 1e9).round() as i64)
}

/// A value, as far as profiles have any.
#[derive(Clone)]
enum Value {
    /// `None`, and what profiles do not have.
    Other,
    Number(f64),
    Text(Rc<str>),
    Tuple(Rc<[Value]>),
    Dictionary(Rc<[(Value, Value)]>),
}

impl Value {
    fn number(&self) -> Entry<f64> {
        match self {
            Value::Number(number) if number.is_finite() => Ok(*number),
            _ => Err("expected a number"),
        }
    }
}

struct Reader<'a> {
    bytes: &'a [u8],
    at: usize,
    /// Values that references mean; `None` while one is read.
    remembered: Vec<Option<Value>>,
}

impl<'a> Reader<'a> {
    /// Reads a value; `None` is the end of a dictionary.
    fn value(&mut self, depth: usize) -> Result<Option<Value>> {
        if depth > DEPTH_MAX {
            return Err(Error::TooLarge { format: NAME, what: "the nesting", limit: DEPTH_MAX as u64 });
        }
        let [kind] = self.take()?;
        let place = (kind & REMEMBERED != 0).then_some(self.remembered.len());
        if place.is_some() {
            self.remembered.push(None);
        }
        let value = match kind & !REMEMBERED {
            b'0' => return Ok(None),
            b'N' | b'.' => Value::Other,
            b'F' => Value::Number(0.0),
            b'T' => Value::Number(1.0),
            b'i' => Value::Number(i32::from_le_bytes(self.take()?).into()),
            b'I' => Value::Number(i64::from_le_bytes(self.take()?) as f64),
            b'g' => Value::Number(f64::from_le_bytes(self.take()?)),
            b'l' => self.long()?,
            b's' | b't' | b'u' | b'a' | b'A' => {
                let len = self.size()?;
                self.text(len)?
            }
            b'z' | b'Z' => {
                let [len] = self.take()?;
                self.text(len.into())?
            }
            b')' => {
                let [len] = self.take()?;
                self.tuple(len.into(), depth)?
            }
            b'(' | b'[' => {
                let len = self.size()?;
                self.tuple(len, depth)?
            }
            b'{' => {
                let mut entries = Vec::new();
                while let Some(key) = self.value(depth + 1)? {
                    entries.push((key, self.value(depth + 1)?.unwrap_or(Value::Other)));
                }
                Value::Dictionary(entries.into())
            }
            b'r' => {
                let index = self.size()?;
                let known = self.remembered.get(index).cloned().flatten();
                known.ok_or_else(|| self.malformed("a reference to no value"))?
            }
            _ => return Err(self.malformed("a kind of value that profiles do not have")),
        };
        if let Some(place) = place {
            self.remembered[place] = Some(value.clone());
        }
        Ok(Some(value))
    }

    /// Digits of 15 bits, the lowest first; a negative count of them is of a negative number.
    fn long(&mut self) -> Result<Value> {
        let count = i32::from_le_bytes(self.take()?);
        let (mut number, mut factor) = (0.0, 1.0);
        for _ in 0..count.unsigned_abs() {
            number += f64::from(u16::from_le_bytes(self.take()?)) * factor;
            factor *= 32768.0;
        }
        Ok(Value::Number(if count < 0 { -number } else { number }))
    }

    fn tuple(&mut self, len: usize, depth: usize) -> Result<Value> {
        let mut parts = Vec::new();
        for _ in 0..len {
            parts.push(self.value(depth + 1)?.unwrap_or(Value::Other));
        }
        Ok(Value::Tuple(parts.into()))
    }

    fn text(&mut self, len: usize) -> Result<Value> {
        let text = self.bytes.get(self.at..).and_then(|rest| rest.get(..len)).ok_or_else(|| self.cut())?;
        self.at += len;
        Ok(Value::Text(String::from_utf8_lossy(text).into()))
    }

    fn size(&mut self) -> Result<usize> {
        Ok(u32::from_le_bytes(self.take()?) as usize)
    }

    fn take<const N: usize>(&mut self) -> Result<[u8; N]> {
        let bytes = self.bytes.get(self.at..).and_then(|rest| rest.first_chunk()).ok_or_else(|| self.cut())?;
        self.at += N;
        Ok(*bytes)
    }

    fn cut(&self) -> Error {
        Error::Truncated { format: NAME, place: Place::Offset(self.at), what: "a value" }
    }

    fn malformed(&self, what: &str) -> Error {
        Error::Malformed { format: NAME, place: Place::Offset(self.at), what: what.to_owned() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::format::fixtures::{check, check_hostile, complaint, decoded};

    fn text(text: &str) -> Vec<u8> {
        [&[b'z', text.len() as u8], text.as_bytes()].concat()
    }

    fn number(number: i32) -> Vec<u8> {
        [&b"i"[..], &number.to_le_bytes()].concat()
    }

    fn seconds(seconds: f64) -> Vec<u8> {
        [&b"g"[..], &seconds.to_le_bytes()].concat()
    }

    fn tuple(parts: &[Vec<u8>]) -> Vec<u8> {
        [&[b')', parts.len() as u8], parts.concat().as_slice()].concat()
    }

    fn function(line: i32, name: &str) -> Vec<u8> {
        tuple(&[text("a.py"), number(line), text(name)])
    }

    fn entry(key: &[u8], own: f64, whole: f64, callers: &[u8]) -> Vec<u8> {
        let callers = [b"{", callers, b"0"].concat();
        [key, &tuple(&[number(1), number(2), seconds(own), seconds(whole), callers])].concat()
    }

    fn file(entries: &[Vec<u8>]) -> Vec<u8> {
        [b"{", entries.concat().as_slice(), b"0"].concat()
    }

    fn stacks(profile: &Profile) -> Vec<(String, i64)> {
        let name = |id: &crate::LocationId| {
            let function = profile.function(profile.lines(*id)[0].function);
            format!("{}:{}", profile.string(function.name), function.start_line)
        };
        let mut stacks: Vec<_> = profile
            .samples()
            .map(|sample| (sample.stack.iter().rev().map(name).collect::<Vec<_>>().join(";"), sample.values[0]))
            .collect();
        stacks.sort();
        stacks
    }

    #[test]
    fn own_time_is_divided_among_callers() {
        let callers = |caller: &[u8]| [caller, &tuple(&[number(2), number(2), seconds(2.0), seconds(2.0)])].concat();
        let main = function(1, "main");
        let whole = file(&[entry(&main, 1.0, 3.0, b""), entry(&function(5, "f"), 2.0, 2.0, &callers(&main))]);
        let expected = [("main:1".to_owned(), 1_000_000_000), ("main:1;f:5".to_owned(), 2_000_000_000)];
        assert_eq!(stacks(&decoded(&whole).profile), expected);
        // As the module `profile` has it.
        let count = [main.clone(), number(2)].concat();
        let counts = file(&[entry(&main, 1.0, 3.0, b""), entry(&function(5, "f"), 2.0, 2.0, &count)]);
        assert_eq!(stacks(&decoded(&counts).profile), expected);
        check_hostile(&whole);
    }

    #[test]
    fn broken_entries_are_left_out() {
        let broken = [function(7, "g"), number(3)].concat();
        let told = complaint(&file(&[entry(&function(1, "main"), 1.0, 1.0, b""), broken]));
        assert!(told.starts_with("pstats: left out 1 record that cannot be read, the first: offset "), "{told}");
    }

    #[test]
    fn what_cprofile_wrote_is_read() {
        let profile = check("pstats/calls.pstats", NAME).profile;
        let total: i64 =
            profile.samples().filter(|sample| !sample.stack.is_empty()).map(|sample| sample.values[0]).sum();
        assert_eq!(total, profile.total(0));
        // `sort_stats("tottime")` has `inner` first, called by `hot` and `cold` alone.
        let of_inner = stacks(&profile).into_iter().filter(|(stack, _)| stack.contains(";inner:"));
        let (names, values): (Vec<String>, Vec<i64>) = of_inner.unzip();
        assert!(names.iter().all(|name| name.contains(";hot:") || name.contains(";cold:")), "{names:?}");
        assert!(values.iter().sum::<i64>() * 2 > total, "{values:?} of {total}");
    }
}
