//! Maps of bpftrace that are keyed by stacks.
//!
//! ```text
//! Attaching 1 probe...
//!
//! @[
//!     do_nanosleep+1
//!     main+20 (/usr/bin/work)
//! , work]: 12
//! ```
//! A stack is leaf first; of several in one key (`@[kstack, ustack]`) the first is the innermost. Other parts of a key,
//! such as the command's name, are frames at the root, as `stackcollapse-bpftrace.pl` has them. Maps of several names
//! are events named after them; maps without stacks are passed over and counted.
//!
//! Source: `src/output.cpp` of bpftrace.

use super::call_tree::{self, CallTree, Frame, UNLABELLED};
use super::{Detect, Event, Format, Limits, events};
use crate::text::{Line, Lines, OddLines};
use crate::{Error, Place, Profile, Result};

/// Name of the format.
pub const NAME: &str = "bpftrace";

/// The row of the format table.
pub(super) const FORMAT: Format = Format {
    name: NAME,
    help: "stacks counted by bpftrace",
    detect,
    decode,
    events: Some(decode_events),
    encode: None,
};

/// Whether the bytes are such maps, by the first.
pub fn detect(bytes: &[u8]) -> Detect {
    let mut is_open = false;
    for text in bytes.split_inclusive(|byte| *byte == b'\n').take(100) {
        let line = text.trim_ascii_end();
        match line {
            _ if !text.ends_with(b"\n") => return Detect::NeedMore,
            [b' ' | b'\t', ..] if is_open => return Detect::Yes,
            _ if is_open => return Detect::No,
            [b'@', name @ .., b'['] if is_name(name) => is_open = true,
            _ if is_without_stack(line) => {}
            _ => return Detect::No,
        }
    }
    Detect::NeedMore
}

fn is_name(name: &[u8]) -> bool {
    name.iter().all(|byte| byte.is_ascii_alphanumeric() || *byte == b'_')
}

/// Whether bpftrace may print the line beside maps with stacks.
fn is_without_stack(line: &[u8]) -> bool {
    line.is_empty() || line.starts_with(b"Attach") || line == b"^C"
}

/// Decodes the first map.
///
/// # Errors
/// As [`decode_events`].
pub fn decode(bytes: &[u8], limits: &Limits, warnings: &mut Vec<String>) -> Result<Profile> {
    let events = decode_events(bytes, limits, warnings)?;
    events::first(NAME, events, warnings)
}

/// Decodes a profile for each map.
///
/// # Errors
/// [`Error::Malformed`] without any stack, [`Error::TooLarge`] past the depth limit or for too many maps.
pub fn decode_events(bytes: &[u8], limits: &Limits, warnings: &mut Vec<String>) -> Result<Vec<Event>> {
    let mut reader = Reader { limits: *limits, bytes: bytes.len(), maps: Vec::new(), open: None };
    let mut odd = OddLines::default();
    for line in Lines::new(bytes) {
        let read = reader.read(&line);
        odd.keep(&line, read)?;
    }
    odd.end(NAME, reader.maps.is_empty(), warnings)?;
    if reader.maps.is_empty() {
        return Err(Error::Malformed { format: NAME, place: Place::Line(1), what: "no map with stacks".to_owned() });
    }
    reader
        .maps
        .into_iter()
        .map(|(name, tree)| {
            let name = if name.is_empty() { "samples".to_owned() } else { name };
            Ok(Event { name, profile: tree.finish()? })
        })
        .collect()
}

struct Reader {
    limits: Limits,
    bytes: usize,
    maps: Vec<(String, CallTree)>,
    /// The name of the map whose stack is read, and its frames, leaf first.
    open: Option<(String, Vec<String>)>,
}

impl Reader {
    fn read(&mut self, line: &Line<'_>) -> Result<()> {
        let odd = || line.error(NAME, "a stack and its count");
        match (line.text, &mut self.open) {
            ([b'@', name @ .., b'['], open) if is_name(name) => {
                let is_unfinished = open.is_some();
                *open = Some((String::from_utf8_lossy(name).into_owned(), Vec::new()));
                if is_unfinished { Err(odd()) } else { Ok(()) }
            }
            (text, None) => {
                if is_without_stack(text) {
                    Ok(())
                } else {
                    Err(odd())
                }
            }
            (text, Some((_, frames))) => {
                let text = String::from_utf8_lossy(text);
                let Some((key, count)) = text.rsplit_once("]: ") else {
                    let frame = text.trim_matches([',', ' ']);
                    if !frame.is_empty() {
                        frames.push(frame.to_owned());
                    }
                    return Ok(());
                };
                let Some((name, mut frames)) = self.open.take() else { return Ok(()) };
                let count = count.parse().map_err(|_| odd())?;
                frames.extend(key.split(',').map(str::trim).filter(|part| !part.is_empty()).map(str::to_owned));
                self.add(name, &frames, count)
            }
        }
    }

    fn add(&mut self, name: String, frames: &[String], count: i64) -> Result<()> {
        let place = match self.maps.iter().position(|(known, _)| *known == name) {
            Some(place) => place,
            None if self.maps.len() == events::EVENTS_MAX => {
                let limit = events::EVENTS_MAX as u64;
                return Err(Error::TooLarge { format: NAME, what: "the number of maps", limit });
            }
            None => {
                let tree = CallTree::new(NAME, &[("samples", "count")], self.bytes, &self.limits);
                self.maps.push((name, tree));
                self.maps.len() - 1
            }
        };
        let tree = &mut self.maps[place].1;
        let mut node = call_tree::ROOT;
        for text in frames.iter().rev() {
            let (symbol, module) = match text.strip_suffix(')').and_then(|text| text.rsplit_once(" (")) {
                Some((symbol, module)) if module.starts_with(['/', '[']) => (symbol, module),
                _ => (text.as_str(), ""),
            };
            let frame = tree.frame(&Frame { name: without_offset(symbol), module, ..Frame::default() });
            node = tree.child(node, frame)?;
        }
        tree.add(node, UNLABELLED, &[count]);
        Ok(())
    }
}

/// `do_nanosleep+1` without its offset.
fn without_offset(symbol: &str) -> &str {
    match symbol.rsplit_once('+') {
        Some((name, offset)) if !name.is_empty() && !offset.is_empty() => {
            let digits = offset.strip_prefix("0x").unwrap_or(offset);
            if digits.bytes().all(|byte| byte.is_ascii_hexdigit()) { name } else { symbol }
        }
        _ => symbol,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::format::decode_events as decode_all;
    use crate::format::fixtures::check_hostile;

    #[test]
    fn maps_with_stacks_are_read() {
        let text = "Attaching 1 probe...\n^C\n\n@[\n    do_nanosleep+1\n    main+0x14 (/bin/work)\n, work]: 12\n@[\n    a\n    ,\n    b+2\n]: 3\n@start[7]: 5\n@other[\n    c\n]: 2\n";
        let all = decode_all(text.as_bytes(), &Limits::default()).unwrap();
        let names = |profile: &Profile, index: usize| {
            let name = |id: &crate::LocationId| {
                profile.string(profile.function(profile.lines(*id)[0].function).name).to_owned()
            };
            profile.sample(index).stack.iter().map(name).collect::<Vec<_>>().join(" ")
        };
        assert_eq!(
            all.iter().map(|one| (one.event.as_str(), one.profile.total(0))).collect::<Vec<_>>(),
            [("samples", 15), ("other", 2)]
        );
        assert_eq!(names(&all[0].profile, 0), "do_nanosleep main work");
        assert_eq!(names(&all[0].profile, 1), "a b");
        assert_eq!(
            all[0].warnings,
            ["bpftrace: line 13: passed over 1 line not understood, the first \"@start[7]: 5\""]
        );
        check_hostile(text.as_bytes());
    }
}
