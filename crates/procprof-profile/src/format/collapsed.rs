//! Collapsed stacks: one line for each, root first, as the flame graph tools read and write them.
//!
//! ```text
//! main;work;hot_70 700
//! main;work;operator new(unsigned long) 12
//! ```
//! The number is what is behind the line's last blank; everything before it is the stack, divided by `;`. A stack may be empty (` 12`).
//!
//! In names, what would break a line is written with a backslash, as `\x3b` (`;`), `\x0a` and `\x0d` (line breaks); a backslash before an `x` is
//! `\x5c`, and an empty name `\x00`. Everything else, blanks too, stands as it is. So `decode(encode(p))` has the stacks and values of `p`, and other
//! tools see names with blanks unchanged.
//!
//! [`decode`] gives `samples`/`count`; bytes that are not UTF-8 become U+FFFD, with a warning. [`encode`] writes the default sample type, one line for
//! each sample in their order; a location without names is written as its address (`0x4005d0`).
//!
//! The format has no mark of its own, so [`detect`] is careful: every line of the first 64 KiB that is not empty must end in a blank and an integer,
//! and one of them must have a `;`. A text of single frames alone (`lock_it 500`) is recognised by nobody: `Error 404`, `timeout 600` and a page of
//! counters look the same, and a mistaken answer of a server must not become a profile.

use std::borrow::Cow;

use foldhash::HashMap;

use super::text::Line;
use super::{Detect, Format, Limits};
use crate::{Addr, Error, LocationId, Profile, ProfileBuilder, Result};

/// Name of the format.
pub const NAME: &str = "collapsed";

/// The row of the format table.
pub(super) const FORMAT: Format = Format { name: NAME, help: "collapsed stacks, `root;leaf 12`", detect, decode, encode: Some(encode) };

const ESCAPES: [(char, &str); 4] = [(';', "\\x3b"), ('\n', "\\x0a"), ('\r', "\\x0d"), ('\\', "\\x5c")];
const EMPTY_NAME: &str = "\\x00";

/// How many bytes at most are looked at to tell the format.
const DETECT_BYTES: usize = 64 << 10;

/// Whether the bytes look like collapsed stacks; of the first 64 KiB, an incomplete last line is let pass.
pub fn detect(bytes: &[u8]) -> Detect {
    let mut has_frames = false;
    for text in bytes[..bytes.len().min(DETECT_BYTES)].split_inclusive(|byte| *byte == b'\n') {
        let is_cut = !text.ends_with(b"\n");
        let text = without_line_break(text);
        match split(text) {
            Some((stack, _)) if !stack.contains(&0) => has_frames |= stack.contains(&b';'),
            None if text.is_empty() => {}
            _ if is_cut && !text.contains(&0) => break,
            _ => return Detect::No,
        }
    }
    if has_frames { Detect::Yes } else { Detect::NeedMore }
}

/// The stack and the number of a line.
fn split(text: &[u8]) -> Option<(&[u8], i64)> {
    let blank = memchr::memrchr2(b' ', b'\t', text)?;
    let number = std::str::from_utf8(&text[blank + 1..]).ok()?;
    let is_number = number.strip_prefix('-').unwrap_or(number).bytes().all(|byte| byte.is_ascii_digit());
    Some((&text[..blank], number.parse().ok().filter(|_| is_number)?))
}

fn without_line_break(text: &[u8]) -> &[u8] {
    let text = text.strip_suffix(b"\n").unwrap_or(text);
    text.strip_suffix(b"\r").unwrap_or(text)
}

/// Decodes collapsed stacks.
///
/// # Errors
/// [`Error::Malformed`] with the line for one without number, [`Error::Truncated`] when the input ends in it, [`Error::TooLarge`] past the depth limit.
pub fn decode(bytes: &[u8], limits: &Limits, warnings: &mut Vec<String>) -> Result<Profile> {
    let mut builder = ProfileBuilder::new(&[("samples", "count")]);
    let mut frames: HashMap<&[u8], LocationId> = HashMap::default();
    let mut stack: Vec<LocationId> = Vec::new();
    let mut not_utf8 = None;
    for (index, text) in bytes.split_inclusive(|byte| *byte == b'\n').enumerate() {
        let line = Line { text: without_line_break(text), number: index + 1, is_cut: !text.ends_with(b"\n") };
        if line.text.is_empty() {
            continue;
        }
        let (names, value) = split(line.text).ok_or_else(|| line.error(NAME, "a stack, a blank and an integer"))?;
        stack.clear();
        for name in names.split(|byte| *byte == b';').filter(|_| !names.is_empty()) {
            if stack.len() == limits.depth {
                return Err(Error::TooLarge { format: NAME, what: "frames of a stack", limit: limits.depth as u64 });
            }
            let frame = frames.entry(name).or_insert_with(|| {
                let text = String::from_utf8_lossy(name);
                if matches!(text, Cow::Owned(_)) {
                    not_utf8.get_or_insert(line.number);
                }
                builder.frame(&unescaped(&text))
            });
            stack.push(*frame);
        }
        stack.reverse();
        builder.sample(&stack, &[value], &[]);
    }
    if let Some(line) = not_utf8 {
        warnings.push(format!("{NAME}: line {line} and perhaps others are not UTF-8; what could not be read is U+FFFD"));
    }
    builder.finish()
}

/// Encodes the default sample type.
///
/// # Errors
/// None.
pub fn encode(profile: &Profile) -> Result<Vec<u8>> {
    Ok(encode_type(profile, profile.default_sample_type()))
}

/// Encodes one sample type.
///
/// # Panics
/// When `sample_type` is not below the number of sample types.
pub fn encode_type(profile: &Profile, sample_type: usize) -> Vec<u8> {
    let mut text = String::new();
    for sample in profile.samples() {
        let start = text.len();
        for id in sample.stack.iter().rev() {
            push_location(&mut text, start, profile, *id);
        }
        text.push_str(&format!(" {}\n", sample.values[sample_type]));
    }
    text.into_bytes()
}

fn push_location(text: &mut String, start: usize, profile: &Profile, id: LocationId) {
    let lines = profile.lines(id);
    if lines.is_empty() {
        let Addr(address) = profile.location(id).address;
        push_name(text, start, &format!("{address:#x}"));
    }
    for line in lines.iter().rev() {
        push_name(text, start, profile.string(profile.function(line.function).name));
    }
}

fn push_name(text: &mut String, start: usize, name: &str) {
    if text.len() > start {
        text.push(';');
    }
    if name.is_empty() {
        text.push_str(EMPTY_NAME);
    }
    let mut rest = name;
    while let Some(at) = rest.find([';', '\n', '\r', '\\']) {
        let (before, special) = rest.split_at(at);
        let mut characters = special.chars();
        let special = characters.next().unwrap_or_default();
        rest = characters.as_str();
        text.push_str(before);
        match ESCAPES.iter().find(|(character, _)| *character == special) {
            Some((_, escape)) if special != '\\' || rest.starts_with('x') => text.push_str(escape),
            _ => text.push(special),
        }
    }
    text.push_str(rest);
}

fn unescaped(name: &str) -> Cow<'_, str> {
    if name == EMPTY_NAME {
        return Cow::Borrowed("");
    }
    if !name.contains("\\x") {
        return Cow::Borrowed(name);
    }
    let mut plain = String::with_capacity(name.len());
    let mut rest = name;
    while let Some(at) = rest.find("\\x") {
        plain.push_str(&rest[..at]);
        rest = &rest[at..];
        match ESCAPES.iter().find(|(_, escape)| rest.starts_with(escape)) {
            Some((character, escape)) => {
                plain.push(*character);
                rest = &rest[escape.len()..];
            }
            None => {
                plain.push_str("\\x");
                rest = &rest[2..];
            }
        }
    }
    plain.push_str(rest);
    Cow::Owned(plain)
}

#[cfg(test)]
mod tests;
