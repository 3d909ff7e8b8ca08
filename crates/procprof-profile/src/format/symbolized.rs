//! A raw profile with the names of its addresses in front, as `jeprof --raw` and gperftools' `pprof --raw` write it.
//!
//! ```text
//! --- symbol
//! binary=/usr/bin/prog
//! 0x000000000040be31 work(int)--inlined(int)--inlined_deeper      function, then what is inlined into it, outermost first
//! ---
//! --- profile                       or heap, growth, contention, cpu, …, or nothing: then the profile in its own format
//! ```
//! Format: jeprof, `PrintSymbolizedProfile` and `ReadSymbols`. Each location takes the name of its own address, which
//! writers that number functions 1, 2, 3 name; else of the address before, since jeprof names the addresses that it
//! looks up, one less than a captured return address. A name such as `A.run(A.java:12)` is that of a frame of Java, with
//! its file and line.
//! Mappings whose every location is named are marked as such. The path of the binary becomes the comment `binary=PATH`.
//! Errors of the profile inside have its own format's name, and places in the whole input.

use foldhash::HashMap;

use super::detect::{any, begins};
use super::{Detect, FORMATS, Format, Limits, contention, java};
use crate::parts::narrow;
use crate::text::{Cursor, Line, Lines, OddLines};
use crate::{Error, Function, FunctionId, Line as SourceLine, Parts, Place, Profile, Result};

/// Name of the format.
pub const NAME: &str = "symbolized";

/// The row of the format table.
pub(super) const FORMAT: Format = Format {
    name: NAME,
    help: "a raw profile with a table of symbols in front (jeprof --raw)",
    detect,
    decode,
    events: None,
    encode: None,
};

const HEADINGS: [&[u8]; 2] = [b"--- symbol", b"---symbol"];

/// Whether the bytes are a symbolized profile.
pub fn detect(bytes: &[u8]) -> Detect {
    any(HEADINGS.map(|heading| begins(bytes, heading)))
}

/// Decodes the profile inside, and gives its locations their names.
///
/// # Errors
/// Those of the profile inside; [`Error::Malformed`] when it is of no known format, [`Error::Truncated`] when the input
/// ends before it.
pub fn decode(bytes: &[u8], limits: &Limits, warnings: &mut Vec<String>) -> Result<Profile> {
    let mut lines = Lines::new(bytes);
    lines.next();
    let symbols = Symbols::read(&mut lines, warnings)?;
    let profile = decode_inside(bytes, lines, limits, warnings)?;
    let mut parts = profile.into_parts();
    symbols.name(&mut parts)?;
    parts.finish()
}

fn decode_inside(bytes: &[u8], mut lines: Lines<'_>, limits: &Limits, warnings: &mut Vec<String>) -> Result<Profile> {
    let at_marker = lines.rest();
    let marker = lines.next().filter(|marker| !lines.rest().is_empty() || !marker.is_cut);
    let marker = marker.ok_or(Error::Truncated {
        format: NAME,
        place: Place::Offset(bytes.len()),
        what: "the profile behind the symbols",
    })?;
    let is_marked = marker.text.starts_with(b"---");
    let inside = if is_marked { lines.rest() } else { at_marker };
    let known = FORMATS.iter().find(|format| format.name != NAME && (format.detect)(inside) == Detect::Yes);
    let is_contention = contention::detect(at_marker) == Detect::Yes;
    let (decode, inside): (Decode, _) = match known {
        Some(format) => (format.decode, inside),
        None if is_contention => (contention::decode, at_marker),
        None if !is_marked => return Err(marker.error(NAME, "a line such as `--- heap`")),
        None if lines.rest().is_empty() => {
            return Err(Error::Truncated {
                format: NAME,
                place: Place::Offset(bytes.len()),
                what: "the profile behind the symbols",
            });
        }
        None => {
            let what = format!("no known profile format behind {:?}", marker.excerpt());
            return Err(Error::Malformed { format: NAME, place: marker.place(), what });
        }
    };
    let offset = bytes.len() - inside.len();
    let lines_before = bytes[..offset].iter().filter(|byte| **byte == b'\n').count();
    decode(inside, limits, warnings).map_err(|error| error.shifted(lines_before, offset))
}

type Decode = fn(&[u8], &Limits, &mut Vec<String>) -> Result<Profile>;

/// The table of symbols.
struct Symbols<'a> {
    names: HashMap<u64, &'a [u8]>,
    binary: Option<&'a [u8]>,
}

impl<'a> Symbols<'a> {
    /// Reads up to the closing `---`.
    fn read(lines: &mut Lines<'a>, warnings: &mut Vec<String>) -> Result<Symbols<'a>> {
        let mut symbols = Symbols { names: HashMap::default(), binary: None };
        let mut odd = OddLines::default();
        let mut last = 1;
        for line in lines.by_ref() {
            last = line.number;
            if line.is_cut {
                return Err(line.error(NAME, "the table of symbols"));
            }
            if line.text.starts_with(b"---") {
                odd.warn(NAME, warnings);
                return Ok(symbols);
            }
            symbols.read_line(&line, &mut odd);
        }
        Err(Error::Truncated { format: NAME, place: Place::Line(last), what: "the table of symbols" })
    }

    fn read_line(&mut self, line: &Line<'a>, odd: &mut OddLines) {
        let mut cursor = Cursor::new(line.text);
        match cursor.address() {
            Some(address) if matches!(cursor.rest.first(), Some(b' ' | b'\t')) => {
                let name = cursor.rest.trim_ascii();
                if !is_address(name) {
                    self.names.insert(address, name);
                }
            }
            _ if line.text.is_empty() => {}
            _ => match line.text.strip_prefix(b"binary=") {
                Some(path) => self.binary = Some(path.trim_ascii()),
                None => odd.note(line),
            },
        }
    }

    /// Gives names to all locations that have none.
    fn name(&self, parts: &mut Parts) -> Result<()> {
        let mut functions = HashMap::default();
        let mut lines = Vec::new();
        let mut unnamed = vec![parts.locations.is_empty(); parts.mappings.len()];
        let mut inlined = vec![false; parts.mappings.len()];
        for index in 0..parts.locations.len() {
            let location = parts.locations[index];
            let mapping = location.mapping.map(|id| id.index());
            let address = location.address.0;
            let names = self.names.get(&address).or_else(|| self.names.get(&address.wrapping_sub(1)));
            let Some(names) = names.filter(|_| location.lines_start == location.lines_end) else {
                mapping.into_iter().for_each(|mapping| unnamed[mapping] = true);
                continue;
            };
            lines.clear();
            for name in pieces(names) {
                let (function, line) = function(parts, &mut functions, name)?;
                lines.push(SourceLine { function, line, column: 0 });
            }
            lines.reverse();
            set_lines(parts, index, &lines)?;
            mapping.into_iter().filter(|_| lines.len() > 1).for_each(|mapping| inlined[mapping] = true);
        }
        for (index, mapping) in parts.mappings.iter_mut().enumerate() {
            mapping.has_functions = !unnamed[index];
            mapping.has_inline_frames = inlined[index];
        }
        if let Some(binary) = self.binary {
            let comment = string(parts, &format!("binary={}", String::from_utf8_lossy(binary)))?;
            parts.comments.push(comment);
        }
        Ok(())
    }
}

/// Whether a name is only an address again, as is written for what has no symbol.
fn is_address(name: &[u8]) -> bool {
    let mut cursor = Cursor::new(name);
    cursor.address().is_some() && cursor.is_done()
}

/// The names between `--`, the outermost first.
fn pieces(names: &[u8]) -> impl Iterator<Item = &[u8]> {
    let mut rest = Some(names);
    std::iter::from_fn(move || {
        let names = rest?;
        let end = memchr::memmem::find(names, b"--").filter(|end| *end > 0);
        rest = end.map(|end| &names[end + 2..]).filter(|rest| !rest.is_empty());
        Some(&names[..end.unwrap_or(names.len())])
    })
}

/// The function of a name, and its line where the name is a frame of Java's with its place.
fn function(
    parts: &mut Parts,
    known: &mut HashMap<(String, String), FunctionId>,
    name: &[u8],
) -> Result<(FunctionId, i64)> {
    let name = String::from_utf8_lossy(name);
    let frame = java::Frame::of_stack_trace(&name);
    let java::Frame { function, file, line } = frame.unwrap_or(java::Frame { function: &name, file: "", line: 0 });
    let key = (function.to_owned(), file.to_owned());
    if let Some(id) = known.get(&key) {
        return Ok((*id, line));
    }
    let (name, filename) = (string(parts, function)?, string(parts, file)?);
    parts.functions.push(Function { name, system_name: name, filename, start_line: 0 });
    let id = FunctionId(parts.functions.len() as u32 - 1);
    known.insert(key, id);
    Ok((id, line))
}

fn set_lines(parts: &mut Parts, location: usize, lines: &[SourceLine]) -> Result<()> {
    let start = narrow(parts.lines.len(), "lines")?;
    parts.lines.extend_from_slice(lines);
    let end = narrow(parts.lines.len(), "lines")?;
    (parts.locations[location].lines_start, parts.locations[location].lines_end) = (start, end);
    Ok(())
}

fn string(parts: &mut Parts, text: &str) -> Result<crate::StringId> {
    parts.strings.push(text).ok_or_else(|| Error::invalid("more than 4 GiB of strings"))
}

#[cfg(test)]
mod tests;
