//! Collapsed stacks: one line for each, root first, as the flame graph tools read and write them.
//!
//! ```text
//! main;work;hot_70 700
//! main;work;operator new(unsigned long) 12
//! ```
//! The number is what is behind the line's last blank; everything before it is the stack, divided by `;`. A stack may
//! be empty (` 12`). Of a number with a fraction the whole part counts. Where every line ends in two numbers
//! (`main;work 10 20`, as `difffolded.pl` writes them) the first is of the profile before: the sample types are
//! `before` and `samples`. Lines that begin with `# ` are comments; those of Austin say what its numbers are
//! (`columns`). Single lines that are none of this are left out with a warning, as the flame graph tools do, while most
//! lines are stacks.
//!
//! In names, characters that would break a line are written with a backslash, as `\x3b` (`;`), `\x0a` and `\x0d` (line
//! breaks); a backslash before an `x` is `\x5c`, and an empty name `\x00`. A `#` that would begin a comment is `\x23`,
//! a blank before a number at the stack's end `\x20`. Everything else, blanks too, is unchanged. So `decode(encode(p))`
//! has the stacks and values of `p`, and other tools see names with blanks unchanged.
//!
//! [`decode`] gives `samples`/`count`; bytes that are not UTF-8 become U+FFFD, with a warning. [`encode`] writes the
//! default sample type, one line for each sample in their order; a location without names is written as its address
//! (`0x4005d0`).
//!
//! The format has no mark of its own, so [`detect`] is careful: every line of the first 64 KiB (of the first line, if
//! that is longer) that is not empty must end in a blank and a number, and one of them must have a `;`; or most of them
//! do both. A text of single frames alone (`lock_it 500`) is not recognised: `Error 404`, `timeout 600` and a page of
//! counters look the same, and a mistaken answer of a server must not become a profile.

mod columns;

use std::borrow::Cow;

use foldhash::HashMap;

use self::columns::Columns;
use super::{Detect, Format, Limits};
use crate::text::{Line, OddLines};
use crate::{Addr, Error, LocationId, Profile, ProfileBuilder, Result};

/// Name of the format.
pub const NAME: &str = "collapsed";

/// The row of the format table.
pub(super) const FORMAT: Format =
    Format { name: NAME, help: "collapsed stacks, `root;leaf 12`", detect, decode, events: None, encode: Some(encode) };

const ESCAPES: [(char, &str); 4] = [(';', "\\x3b"), ('\n', "\\x0a"), ('\r', "\\x0d"), ('\\', "\\x5c")];
/// Escaped only where a line would mean something else.
const COMMENT: (char, &str) = ('#', "\\x23");
const BLANK: (char, &str) = (' ', "\\x20");
const TAB: (char, &str) = ('\t', "\\x09");
const EMPTY_NAME: &str = "\\x00";

/// Most bytes that are read to detect the format.
const DETECT_BYTES: usize = 64 << 10;

/// Whether the bytes look like collapsed stacks; of the first 64 KiB, an incomplete last line is let pass.
pub fn detect(bytes: &[u8]) -> Detect {
    let mut end = bytes.len().min(DETECT_BYTES);
    if memchr::memchr(b'\n', &bytes[..end]).is_none() {
        // The first line counts however long it is.
        end = memchr::memchr(b'\n', &bytes[end..]).map_or(bytes.len(), |more| end + more + 1);
    }
    let bytes = &bytes[..end];
    let columns = Columns::from_comments(bytes);
    let (mut stacks, mut single, mut others) = (0, 0, 0);
    for text in bytes.split_inclusive(|byte| *byte == b'\n') {
        let is_cut = !text.ends_with(b"\n");
        let text = text.trim_ascii_end();
        match columns.split(text) {
            _ if text.contains(&0) => return Detect::No,
            _ if is_passed_over(text) => {}
            Some(split) if split.stack.contains(&b';') => stacks += 1,
            Some(_) => single += 1,
            None if is_cut => break,
            None => others += 1,
        }
    }
    match others {
        0 if stacks > 0 => Detect::Yes,
        0 => Detect::NeedMore,
        _ if stacks > single + others => Detect::Yes,
        _ => Detect::No,
    }
}

/// A line with its number.
struct Split<'t> {
    stack: &'t [u8],
    /// `None` if it is too large.
    value: Option<i64>,
    has_fraction: bool,
}

/// The stack and the number of a line.
fn split(text: &[u8]) -> Option<Split<'_>> {
    let blank = memchr::memrchr2(b' ', b'\t', text)?;
    let number = std::str::from_utf8(&text[blank + 1..]).ok()?;
    let (whole, fraction) = number.split_once('.').map_or((number, None), |(whole, fraction)| (whole, Some(fraction)));
    let is_number = |digits: &str| !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit());
    let fits = is_number(whole.strip_prefix('-').unwrap_or(whole)) && fraction.is_none_or(is_number);
    fits.then(|| Split { stack: &text[..blank], value: whole.parse().ok(), has_fraction: fraction.is_some() })
}

/// Whether a line is empty or a comment.
fn is_passed_over(text: &[u8]) -> bool {
    text.is_empty() || text == b"#" || text.starts_with(b"# ")
}

/// The lines that are not empty and no comments.
fn lines(bytes: &[u8]) -> impl Iterator<Item = Line<'_>> {
    let all = bytes.split_inclusive(|byte| *byte == b'\n').enumerate().map(|(index, text)| Line {
        text: text.trim_ascii_end(),
        number: index + 1,
        is_cut: !text.ends_with(b"\n"),
    });
    all.filter(|line| !is_passed_over(line.text))
}

/// The form of the lines, found before any is read.
struct Survey {
    columns: Columns,
    /// Lines with a stack, and others.
    stacks: usize,
    others: usize,
}

impl Survey {
    fn take(bytes: &[u8]) -> Survey {
        let columns = Columns::from_comments(bytes);
        let (mut stacks, mut others, mut pairs) = (0, 0, 0);
        for line in lines(bytes) {
            match columns.split(line.text) {
                Some(one) => {
                    stacks += 1;
                    pairs += usize::from(split(one.stack).is_some());
                }
                None => others += 1,
            }
        }
        let is_pair = columns == Columns::Count && stacks > 0 && pairs == stacks;
        Survey { columns: if is_pair { Columns::Pair } else { columns }, stacks, others }
    }
}

/// Decodes collapsed stacks.
///
/// # Errors
/// [`Error::Malformed`] with the line for one without number where most are, or with one that is too large,
/// [`Error::Truncated`] when the input ends in it, [`Error::TooLarge`] past the depth limit.
pub fn decode(bytes: &[u8], limits: &Limits, warnings: &mut Vec<String>) -> Result<Profile> {
    let survey = Survey::take(bytes);
    let columns = survey.columns;
    let mut builder = ProfileBuilder::new(columns.sample_types());
    if columns.sample_types().len() > 1 {
        builder.default_sample_type(columns.default_sample_type());
    }
    let mut frames: HashMap<&[u8], LocationId> = HashMap::default();
    let mut stack: Vec<LocationId> = Vec::new();
    let (mut not_utf8, mut odd, mut fraction) = (None, OddLines::default(), None);
    for line in lines(bytes) {
        let Some(one) = columns.split(line.text) else {
            if line.is_cut || survey.others >= survey.stacks {
                return Err(line.error(NAME, "a stack, a blank and a number"));
            }
            odd.note(&line);
            continue;
        };
        let values = columns.values(line.text, &one);
        let values = values.ok_or_else(|| line.error(NAME, "a number below 9223372036854775808"));
        let Some(values) = odd.keep(&line, values)? else { continue };
        let before = if columns == Columns::Pair { split(one.stack) } else { None };
        let names = before.as_ref().unwrap_or(&one).stack;
        if one.has_fraction {
            fraction.get_or_insert(line.number);
        }
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
        builder.sample(&stack, &values, &[]);
    }
    let mut warn = |line: Option<usize>, what: &str| {
        if let Some(line) = line {
            warnings.push(format!("{NAME}: line {line} and perhaps others {what}"));
        }
    };
    warn(not_utf8, "are not UTF-8; what could not be read is U+FFFD");
    warn(fraction, "have numbers with fractions, which are cut off");
    odd.end(NAME, builder.parts_mut().stack_ends.is_empty(), warnings)?;
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
        escape_ends(&mut text, start);
        text.push_str(&format!(" {}\n", sample.values[sample_type]));
    }
    text.into_bytes()
}

/// Escapes what would make a comment of a stack, or a second number of its end.
fn escape_ends(text: &mut String, start: usize) {
    if text[start..].starts_with('#') {
        text.replace_range(start..=start, COMMENT.1);
    }
    if split(&text.as_bytes()[start..]).is_some()
        && let Some(blank) = text.rfind([' ', '\t'])
    {
        let escape = if text[blank..].starts_with(' ') { BLANK.1 } else { TAB.1 };
        text.replace_range(blank..=blank, escape);
    }
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
        match ESCAPES.iter().chain(&[COMMENT, BLANK, TAB]).find(|(_, escape)| rest.starts_with(escape)) {
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
