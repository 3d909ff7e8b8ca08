//! Go's counted stacks as text: `goroutine`, `threadcreate` and user-defined profiles with `debug=1`.
//!
//! ```text
//! goroutine profile: total 7
//! 3 @ 0x43bc10 0x40780f 0x71e911               count, return addresses leaf first
//! # labels: {"tenant":"a b"}                     labels of these goroutines, if they have any
//! # 0x71e910 main.wait+0x30 /src/main.go:21      a comment
//! ```
//! The one sample type has the profile's name and the unit `count`. `---` ends the samples; a memory map may follow.
//! Comments have the names of the addresses above, which pprof does not read, nor labels. Address 0, with which
//! `threadcreate` fills up its stacks, is left out (pprof makes 0xffffffffffffffff of it); a stack of nothing else is
//! the frame `[no stack]`, so that reports have a row for its count. Format: google/pprof, `profile/legacy_profile.go`;
//! Go, `runtime/pprof`.

use super::detect::begins;
use super::go_labels::labels_in;
use super::raw_stacks::RawStacks;
use super::{Detect, Format, Limits, legacy_frames};
use crate::text::{Cursor, Line, Lines, is_map_heading};
use crate::{Addresses, Error, Label, Profile, Result};

/// Name of the format.
pub const NAME: &str = "go-count";

/// The row of the format table.
pub(super) const FORMAT: Format = Format {
    name: NAME,
    help: "goroutine, threadcreate and other counts of Go, with debug=1",
    detect,
    decode,
    events: None,
    encode: None,
};

const BEHIND_NAME: &[u8] = b" profile: total ";
const LABELS: &[u8] = b"# labels:";
const NAME_BYTES_MAX: usize = 128;
/// The frame of a thread whose stack Go did not note.
const NO_STACK: &str = "[no stack]";

/// Whether the bytes are a Go count profile.
pub fn detect(bytes: &[u8]) -> Detect {
    let Some(line) = Lines::new(bytes).find(|line| !line.is_blank_or_comment() || line.is_cut) else {
        return Detect::NeedMore;
    };
    if line.is_cut {
        return detect_cut(line.text);
    }
    if name(line.text).is_some() { Detect::Yes } else { Detect::No }
}

fn detect_cut(line: &[u8]) -> Detect {
    if line.is_empty() || line[0] == b'#' {
        return Detect::NeedMore;
    }
    match memchr::memchr(b' ', line) {
        Some(end) if begins(&line[end..], BEHIND_NAME) == Detect::No => Detect::No,
        Some(end) if end + BEHIND_NAME.len() < line.len() && name(line).is_none() => Detect::No,
        Some(_) => Detect::NeedMore,
        None if line.len() <= NAME_BYTES_MAX && line.iter().all(u8::is_ascii_graphic) => Detect::NeedMore,
        None => Detect::No,
    }
}

/// The profile's name from `NAME profile: total N`.
fn name(line: &[u8]) -> Option<&[u8]> {
    let end = memchr::memchr(b' ', line).filter(|end| (1..=NAME_BYTES_MAX).contains(end))?;
    let mut cursor = Cursor::new(&line[end..]);
    cursor.eat_text(BEHIND_NAME)?;
    cursor.unsigned()?;
    cursor.is_done().then_some(&line[..end])
}

/// Decodes a count profile.
///
/// # Errors
/// [`Error::Malformed`] or [`Error::Truncated`] with the line, [`Error::TooLarge`] past the depth limit.
pub fn decode(bytes: &[u8], limits: &Limits, warnings: &mut Vec<String>) -> Result<Profile> {
    let mut lines = Lines::new(bytes);
    let first = lines.find(|line| !line.is_blank_or_comment()).ok_or(Error::Empty)?;
    let name = name(first.text).filter(|_| !first.is_cut).ok_or_else(|| first.error(NAME, "NAME profile: total N"))?;
    let name = String::from_utf8_lossy(name);
    let mut stacks = RawStacks::new(NAME, &[(&name, "count")], Addresses::RawReturn, &legacy_frames::PROFILER, limits);
    stacks.builder.period(&name, "count", 1);
    // The count of the current stack, whose labels follow it.
    let (mut count, mut labels) = (None, Vec::new());
    let mut map = (&[][..], 0);
    for line in lines.by_ref() {
        if line.text.starts_with(b"---") || is_map_heading(line.text) {
            map = (lines.behind_map_heading(&line), lines.number());
            break;
        }
        if let Some(text) = line.text.strip_prefix(LABELS) {
            let read = read_labels(&mut stacks, text, &line);
            labels.extend(stacks.odd.keep(&line, read)?.unwrap_or_default());
        } else if line.is_blank_or_comment() {
            stacks.read_comment(&line);
        } else {
            end_sample(&mut stacks, &mut count, &mut labels);
            let read = read_sample(&mut stacks, &line);
            count = stacks.odd.keep(&line, read)?;
        }
    }
    end_sample(&mut stacks, &mut count, &mut labels);
    let (map, line) = map;
    stacks.finish(map, line, warnings)
}

/// Adds the sample of the current stack, if there is one.
fn end_sample(stacks: &mut RawStacks, count: &mut Option<i64>, labels: &mut Vec<Label>) {
    if let Some(count) = count.take() {
        stacks.sample(&[count], labels);
    }
    labels.clear();
}

fn read_labels(stacks: &mut RawStacks, text: &[u8], line: &Line<'_>) -> Result<Vec<Label>> {
    let text = String::from_utf8_lossy(text);
    let labels = labels_in(text.trim()).ok_or_else(|| line.error(NAME, "# labels: {…}"))?;
    Ok(labels.iter().map(|(key, value)| stacks.builder.text_label(key, value)).collect())
}

/// Makes the stack of a line the current one, and gives its count.
fn read_sample(stacks: &mut RawStacks, line: &Line<'_>) -> Result<i64> {
    let mut cursor = Cursor::new(line.text);
    let count = cursor.integer().filter(|_| cursor.eat_text(b" @").is_some());
    let count = count.ok_or_else(|| line.error(NAME, "COUNT @ 0x…"))?;
    while let Some(shorter) = cursor.rest.strip_suffix(b" 0x0") {
        cursor.rest = shorter;
    }
    let has_zeros = cursor.rest.len() < line.text.len() && line.text.ends_with(b" 0x0");
    stacks.read_stack(cursor, line)?;
    if has_zeros && stacks.is_bare() {
        let none = stacks.builder.frame(NO_STACK);
        stacks.set(std::iter::once(none));
    }
    Ok(count)
}

#[cfg(test)]
mod tests;
