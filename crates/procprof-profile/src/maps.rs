//! The text of `/proc/PID/maps` and of its shortened forms at the end of profile files.
//!
//! ```text
//! 00400000-00fcb000 r-xp 00000000 fd:01 1234   /usr/bin/prog       as the kernel writes it
//!   00400000-00fcb000: /usr/bin/prog                               "cooked", behind `--- Memory map: ---`
//! 0x400000-0xfcb000 /usr/bin/prog (@1000) abc123                   with file offset and build id
//! build=/usr/bin                                                   replaces `$build` in later lines
//! ```
//! Log prefixes (`file.cc:12] `) before an entry are passed over, ` (deleted)` behind a path is taken off, other lines
//! are ignored. A `$name` is replaced only while the replaced text stays under four times the input and 64 KiB.
//!
//! [`attach`] does what pprof does with a legacy profile's map (`google/pprof`, `profile/legacy_profile.go`): only
//! executable ranges, adjacent ranges of one file joined, the main binary first, ranges whose first part is missing
//! widened to file offset 0.

use std::collections::BTreeSet;

use crate::text::{Cursor, Lines, OddLines, is_map_heading};
use crate::{Addr, Addresses, FileOffset, Mapping, MappingId, Profile, ProfileBuilder};

/// One line of a memory map.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct MapsEntry {
    /// First address.
    pub start: Addr,
    /// First address past the range; greater than `start`.
    pub limit: Addr,
    /// Whether the range may be executed; `None` when the text does not contain it.
    pub executable: Option<bool>,
    /// Offset in the file that `start` maps to; 0 when the text does not contain it.
    pub offset: FileOffset,
    /// Path or bracketed name; may be empty.
    pub path: String,
    /// Build id as hexadecimal digits; mostly empty.
    pub build_id: String,
}

/// Reads a memory map, in the order of the text; lines that are no entries are passed over.
pub fn parse(text: &[u8]) -> Vec<MapsEntry> {
    parse_counting(text, &mut OddLines::default())
}

/// The same; lines that are nothing known are counted.
pub(crate) fn parse_counting(text: &[u8], odd: &mut OddLines) -> Vec<MapsEntry> {
    let mut entries = Vec::new();
    let mut variables = Variables { values: Vec::new(), budget: text.len() * 4 + (64 << 10) };
    for whole in Lines::new(text) {
        let line = without_log_prefix(whole.text);
        let replaced = variables.replace(line);
        let line = replaced.as_deref().unwrap_or(line);
        match parse_entry(line) {
            Some(entry) => entries.push(entry),
            None if variables.define(line) || whole.is_blank_or_comment() || is_map_heading(line) => {}
            // A last line may be cut off.
            None if whole.is_cut => {}
            None => odd.note(&whole),
        }
    }
    entries
}

/// Reads one line of a memory map; `None` when it is something else.
pub fn parse_entry(line: &[u8]) -> Option<MapsEntry> {
    let mut cursor = Cursor::new(line.trim_ascii());
    let (start, limit) = range(&mut cursor)?;
    let mut entry = MapsEntry { start: Addr(start), limit: Addr(limit), ..MapsEntry::default() };
    let mut ahead = cursor;
    let permissions = ahead.word();
    if is_permissions(permissions) {
        entry.executable = Some(permissions.contains(&b'x'));
        cursor = ahead;
    }
    match kernel_rest(cursor) {
        Some((offset, path)) => {
            entry.offset = FileOffset(offset);
            entry.path = path_text(path);
        }
        None => brief_rest(cursor, &mut entry),
    }
    Some(entry)
}

/// Adds the executable ranges as mappings and gives every location with an address, and no mapping yet, the one it lies
/// in.
///
/// The builder's [`Addresses`] decide whether a location is looked up at its address or, being a return address, one
/// byte before it.
pub fn attach(entries: &[MapsEntry], builder: &mut ProfileBuilder) {
    let first = builder.parts_mut().mappings.len();
    for mapping in main_first(joined(executable(entries))) {
        let filename = builder.intern(&mapping.path);
        let build_id = builder.intern(&mapping.build_id);
        let (start, limit, file_offset) = (mapping.start, mapping.limit, mapping.offset);
        builder.mapping(Mapping { start, limit, file_offset, filename, build_id, ..Mapping::default() });
    }
    let parts = builder.parts_mut();
    let addresses = parts.addresses;
    let mut ranges = Ranges::new(&mut parts.mappings[first..]);
    for location in
        parts.locations.iter_mut().filter(|location| location.mapping.is_none() && location.address != Addr(0))
    {
        let found = probes(location.address, addresses).into_iter().flatten().find_map(|probe| ranges.find(probe));
        location.mapping = found.map(|index| MappingId((first + index) as u32));
    }
}

/// The mappings of a profile as text in the kernel's form: everything executable, device and inode 0.
pub fn render(profile: &Profile) -> String {
    let mut text = String::new();
    for mapping in profile.mappings().iter().filter(|mapping| mapping.start < mapping.limit) {
        let path = profile.string(mapping.filename).replace(['\n', '\r'], " ");
        let line = format!("{:08x}-{:08x} r-xp {:08x} 00:00 0 ", mapping.start, mapping.limit, mapping.file_offset);
        text.push_str(&format!("{line:<73}{path}"));
        text.truncate(text.trim_end().len());
        text.push('\n');
    }
    text
}

fn range(cursor: &mut Cursor<'_>) -> Option<(u64, u64)> {
    let hex = |cursor: &mut Cursor<'_>| cursor.address().or_else(|| cursor.hex());
    let start = hex(cursor)?;
    let dashed = cursor.eat(b'-').is_some();
    let before = cursor.rest.len();
    cursor.skip_blanks();
    if !dashed && before == cursor.rest.len() {
        return None;
    }
    let limit = hex(cursor)?;
    let colon = cursor.eat(b':').is_some();
    let before = cursor.rest.len();
    cursor.skip_blanks();
    let ends = colon || cursor.is_done() || before != cursor.rest.len();
    (ends && start < limit).then_some((start, limit))
}

fn is_permissions(word: &[u8]) -> bool {
    word.len() >= 3 && word.len() <= 5 && word.iter().all(|byte| b"-rwxps".contains(byte))
}

/// Offset and path of `OFFSET MAJOR:MINOR INODE [PATH]`.
fn kernel_rest(mut cursor: Cursor<'_>) -> Option<(u64, &[u8])> {
    let offset = cursor.hex()?;
    cursor.skip_blanks();
    cursor.hex()?;
    cursor.eat(b':')?;
    cursor.hex()?;
    cursor.skip_blanks();
    cursor.unsigned()?;
    match cursor.rest.first() {
        None | Some(b' ' | b'\t') => Some((offset, cursor.rest.trim_ascii())),
        Some(_) => None,
    }
}

/// `[PATH] [(@OFFSET)] [BUILD_ID]`.
fn brief_rest(mut cursor: Cursor<'_>, entry: &mut MapsEntry) {
    if !cursor.rest.starts_with(b"(@") {
        entry.path = path_text(cursor.word());
    }
    let mut ahead = cursor;
    if ahead.eat_text(b"(@").is_some()
        && let Some(offset) = ahead.hex()
        && ahead.eat(b')').is_some()
    {
        entry.offset = FileOffset(offset);
        ahead.skip_blanks();
        cursor = ahead;
    }
    let build_id = cursor.word();
    if !build_id.is_empty() && build_id.iter().all(u8::is_ascii_hexdigit) {
        entry.build_id = String::from_utf8_lossy(build_id).to_ascii_lowercase();
    }
}

fn path_text(path: &[u8]) -> String {
    String::from_utf8_lossy(path.strip_suffix(b"(deleted)").unwrap_or(path).trim_ascii_end()).into_owned()
}

/// The line behind a log prefix such as `I0101 main.cc:12] `.
fn without_log_prefix(line: &[u8]) -> &[u8] {
    let Some(end) = line.iter().position(|byte| matches!(byte, b'[' | b']')) else { return line };
    let digits = line[..end].iter().rev().take_while(|byte| byte.is_ascii_digit()).count();
    let colon = end.checked_sub(digits + 1).filter(|colon| *colon > 0 && digits > 0 && line[*colon] == b':');
    match (colon, &line[end..]) {
        (Some(_), [b']', blank, rest @ ..]) if blank.is_ascii_whitespace() => rest,
        _ => line,
    }
}

/// Values of `name=value` lines.
struct Variables {
    values: Vec<(Vec<u8>, Vec<u8>)>,
    budget: usize,
}

impl Variables {
    const MOST: usize = 16;

    /// Takes `name=value`; `false` for another line.
    fn define(&mut self, line: &[u8]) -> bool {
        let Some(equals) = line.iter().position(|byte| *byte == b'=') else { return false };
        let name = line[..equals].trim_ascii();
        let plain = !name.is_empty()
            && name.len() <= 64
            && name.iter().all(|byte| byte.is_ascii_alphanumeric() || *byte == b'_');
        if plain && self.values.len() < Self::MOST {
            self.values.push((name.to_vec(), line[equals + 1..].trim_ascii().to_vec()));
        }
        plain
    }

    /// The line with every `$name` replaced, the first definition winning; `None` when nothing is to be replaced or the
    /// budget is used up.
    fn replace(&mut self, line: &[u8]) -> Option<Vec<u8>> {
        if self.values.is_empty() || memchr::memchr(b'$', line).is_none() {
            return None;
        }
        let mut replaced = Vec::with_capacity(line.len());
        let mut rest = line;
        while let Some((first, after)) = rest.split_first() {
            let known = self.values.iter().find(|(name, _)| *first == b'$' && after.starts_with(name));
            match known {
                Some((name, value)) => {
                    self.budget = self.budget.checked_sub(value.len())?;
                    replaced.extend_from_slice(value);
                    rest = &after[name.len()..];
                }
                None => {
                    replaced.push(*first);
                    rest = after;
                }
            }
        }
        Some(replaced)
    }
}

fn executable(entries: &[MapsEntry]) -> Vec<MapsEntry> {
    entries.iter().filter(|entry| entry.executable != Some(false)).cloned().collect()
}

fn joined(entries: Vec<MapsEntry>) -> Vec<MapsEntry> {
    let mut joined: Vec<MapsEntry> = Vec::with_capacity(entries.len());
    for entry in entries {
        match joined.last_mut() {
            Some(last) if is_continued(last, &entry) => {
                last.limit = entry.limit;
                if !entry.path.is_empty() {
                    last.path = entry.path;
                }
                if !entry.build_id.is_empty() {
                    last.build_id = entry.build_id;
                }
            }
            _ => joined.push(entry),
        }
    }
    joined
}

fn is_continued(last: &MapsEntry, next: &MapsEntry) -> bool {
    let agree = |a: &str, b: &str| a.is_empty() || b.is_empty() || a == b;
    let offsets_known = last.offset.0 != 0 && next.offset.0 != 0;
    let follows = last.offset.0.wrapping_add(last.limit.0 - last.start.0) == next.offset.0;
    agree(&last.path, &next.path)
        && agree(&last.build_id, &next.build_id)
        && last.limit == next.start
        && (!offsets_known || follows)
}

/// Moves what is guessed to be the main binary to the front, without the huge page in front of it, and at its usual
/// start.
fn main_first(mut mappings: Vec<MapsEntry>) -> Vec<MapsEntry> {
    const USUAL_START: u64 = 0x40_0000;
    let main = mappings
        .iter()
        .position(|mapping| !mapping.path.is_empty() && !mapping.path.starts_with('[') && !is_library(&mapping.path));
    if let Some(main) = main {
        mappings.swap(0, main);
    }
    if let [first, second, ..] = &mappings[..]
        && first.path.starts_with("/anon_hugepage")
        && first.limit == second.start
    {
        mappings.remove(0);
    }
    if let Some(first) = mappings.first_mut()
        && first.start.0.wrapping_sub(first.offset.0) == USUAL_START
    {
        first.start = Addr(USUAL_START);
        first.offset = FileOffset(0);
    }
    mappings
}

/// Whether a path is that of a library: `.so` at its end, or before a version as in `.so.6` and `.so_1`.
fn is_library(path: &str) -> bool {
    let versioned = |rest: &[u8]| matches!(rest, [b'.' | b'_', digit, ..] if digit.is_ascii_digit());
    path.match_indices(".so").any(|(at, so)| {
        let rest = &path.as_bytes()[at + so.len()..];
        rest.is_empty() || versioned(rest)
    })
}

/// The addresses at which a location is looked up, the first choice first.
fn probes(address: Addr, addresses: Addresses) -> [Option<Addr>; 2] {
    let before = Addr(address.0.wrapping_sub(1));
    match addresses {
        Addresses::CallSite => [Some(address), None],
        Addresses::RawReturn => [Some(before), None],
        Addresses::RawCpu => [Some(address), Some(before)],
    }
}

/// Finds the mapping of an address; mappings listed earlier win where ranges overlap.
struct Ranges<'a> {
    mappings: &'a mut [Mapping],
    inside: Segments,
    /// The parts between file offset 0 and the mapping's start, which some sources leave out.
    before: Segments,
}

impl Ranges<'_> {
    fn new(mappings: &mut [Mapping]) -> Ranges<'_> {
        let inside = Segments::new(mappings.iter().map(|mapping| (mapping.start.0, mapping.limit.0)));
        let before =
            Segments::new(mappings.iter().map(|mapping| match mapping.start.0.checked_sub(mapping.file_offset.0) {
                Some(start) => (start, mapping.start.0),
                None => (0, 0),
            }));
        Ranges { mappings, inside, before }
    }

    fn find(&mut self, address: Addr) -> Option<usize> {
        if let Some(index) = self.inside.find(address.0) {
            return Some(index);
        }
        let index = self.before.find(address.0)?;
        let mapping = &mut self.mappings[index];
        mapping.start = Addr(mapping.start.0 - mapping.file_offset.0);
        mapping.file_offset = FileOffset(0);
        Some(index)
    }
}

/// Ranges cut into disjoint pieces, each with the lowest index that covers it.
struct Segments {
    /// Start of a piece, and who owns it up to the next start.
    pieces: Vec<(u64, Option<usize>)>,
}

impl Segments {
    fn new(ranges: impl Iterator<Item = (u64, u64)>) -> Segments {
        let mut edges: Vec<(u64, bool, usize)> = Vec::new();
        for (index, (start, limit)) in ranges.enumerate().filter(|(_, (start, limit))| start < limit) {
            edges.push((start, true, index));
            edges.push((limit, false, index));
        }
        edges.sort_unstable();
        let mut active = BTreeSet::new();
        let mut pieces: Vec<(u64, Option<usize>)> = Vec::new();
        for (at, opens, index) in edges {
            if opens {
                active.insert(index);
            } else {
                active.remove(&index);
            }
            let owner = active.first().copied();
            match pieces.last_mut() {
                Some(last) if last.0 == at => last.1 = owner,
                _ => pieces.push((at, owner)),
            }
        }
        Segments { pieces }
    }

    fn find(&self, address: u64) -> Option<usize> {
        let after = self.pieces.partition_point(|(start, _)| *start <= address);
        self.pieces[after.checked_sub(1)?].1
    }
}

#[cfg(test)]
mod tests;
