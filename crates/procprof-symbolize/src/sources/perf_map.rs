//! Names of code that was generated at run time, as compilers write them for `perf`:
//!
//! ```text
//! 7f2a1c0042e0 1a0 LazyCompile:*fib /app/main.js:3
//! ```
//!
//! Start and size in hexadecimal, then the name, up to the end of the line. If code was replaced, the later line is
//! used. See `tools/perf/Documentation/jit-interface.txt` of Linux. A live process has its map in `/tmp/perf-PID.map`,
//! in its own mount namespace with the pid it has in its own; it is read only if its owner is the process's user or
//! root, since all users may write to `/tmp`.
//!
//! A map is read once, from its last line to its first, so that the first name found for an address is the one that
//! counts, and each address is named once: the time follows the size of the map and the number of addresses, not their
//! product. Memory is taken for the names that are used alone, each of at most 4 KiB.

use std::fs::File;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use procprof_process::{open_regular, thread_cpu_time};
use procprof_profile::Addr;

use super::Sources;
use super::inquiry::{Inquiries, Inquiry, Memory};
use super::live::Live;
use super::text_symbols::{for_each_line_backwards, hexadecimal};
use crate::outcome::{Proof, Source, UsedFile};
use crate::{Frame, Resolved, demangle};

/// Longest name, in bytes; a longer one ends in `…`.
const NAME_BYTES_MAX: usize = 4096;

/// Largest perf map of a live process that is read, in bytes.
pub const LIVE_PERF_MAP_BYTES_MAX: u64 = 64 << 20;

/// The limits on perf maps.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PerfMapLimits {
    /// Largest map that is read, in bytes; of a live process's own at most [`LIVE_PERF_MAP_BYTES_MAX`].
    pub bytes_max: u64,
    /// CPU time after which no more of the maps is read; unlimited if `None`.
    pub cpu_max: Option<Duration>,
}

impl Default for PerfMapLimits {
    /// 512 MiB, without a limit of CPU time.
    fn default() -> Self {
        Self { bytes_max: 512 << 20, cpu_max: None }
    }
}

/// Looks up addresses in memory without a file.
pub(super) fn ask(inquiries: &mut Inquiries<'_>, sources: &mut Sources<'_>) {
    let is_asked = |inquiry: &Inquiry<'_>| matches!(inquiry.memory, Memory::Anonymous | Memory::NoMapping);
    if !inquiries.all.iter().any(is_asked) {
        return;
    }
    let PerfMapLimits { bytes_max, cpu_max } = sources.perf_map_limits;
    let named = sources.perf_maps.iter().map(|path| (path.clone(), Proof::Unverified, open_regular(path), bytes_max));
    let live = inquiries.live.as_ref().map(of_process).unwrap_or_default().into_iter();
    let live = live.map(|(path, file)| (path, Proof::Verified, Ok(file), bytes_max.min(LIVE_PERF_MAP_BYTES_MAX)));
    let maps: Vec<(PathBuf, Proof, io::Result<File>, u64)> = named.chain(live).collect();
    let begun = thread_cpu_time();
    let may_go_on = || match cpu_max {
        Some(longest) if thread_cpu_time().saturating_sub(begun) > longest => {
            Err(io::Error::other(format!("it takes more than {} ms of CPU time to read", longest.as_millis())))
        }
        _ => Ok(()),
    };
    for (path, proof, file, bytes_max) in maps {
        let mut lookup = Lookup::new(
            inquiries.all.iter().map(|inquiry| if is_asked(inquiry) { inquiry.unknown() } else { Vec::new() }),
        );
        let is_read = file.and_then(|file| {
            may_go_on()?;
            for_each_line_backwards(&file, bytes_max, |line| lookup.add(line), may_go_on)
        });
        for (inquiry, answers) in inquiries.all.iter_mut().zip(lookup.finish()) {
            let is_used = !answers.is_empty();
            for (position, name) in answers {
                inquiry.answer(position, Source::PerfMap, Resolved::Frames(vec![frame(&name)]));
            }
            if is_used {
                inquiry.used.push(UsedFile {
                    source: Source::PerfMap,
                    path: path.clone(),
                    build_id: None,
                    debug_file: None,
                    proof,
                });
            }
        }
        // What was read before stays: it is the later part.
        if let Err(error) = is_read {
            inquiries.fail(Source::PerfMap, format!("{}: {error}", path.display()));
        }
    }
}

/// The maps of a live process, if any. Those of other owners are skipped.
fn of_process(live: &Live) -> Vec<(PathBuf, File)> {
    let Some(user) = live.user() else {
        return Vec::new();
    };
    let open = |path: PathBuf| {
        let file = open_regular(&path).ok()?;
        let (opened, there) = (file.metadata().ok()?, path.symlink_metadata().ok()?);
        // A symbolic link could lead to a file that the process may not read itself.
        let is_no_link = (there.dev(), there.ino()) == (opened.dev(), opened.ino());
        let is_its_own = opened.uid() == user || opened.uid() == 0;
        (is_no_link && is_its_own && live.is_same()).then_some((path, file))
    };
    live.perf_maps().into_iter().filter_map(open).collect()
}

/// The addresses that have no name yet, by address, while a map is read from its end.
struct Lookup {
    unknown: Vec<Unknown>,
    /// For each of them, the place of the next one at or behind it that has no name.
    next: Vec<u32>,
    inquiries: usize,
}

/// An address without a name.
struct Unknown {
    address: u64,
    /// The inquiry, and the position in it.
    inquiry: usize,
    position: usize,
    name: Option<Arc<str>>,
}

impl Lookup {
    /// The unknown addresses of each inquiry.
    fn new(inquiries: impl ExactSizeIterator<Item = Vec<(usize, Addr)>>) -> Self {
        let count = inquiries.len();
        let of_inquiry = |(inquiry, unknown): (usize, Vec<(usize, Addr)>)| {
            let unknown = unknown.into_iter();
            unknown.map(move |(position, address)| Unknown { address: address.0, inquiry, position, name: None })
        };
        let mut unknown: Vec<Unknown> = inquiries.enumerate().flat_map(of_inquiry).collect();
        unknown.sort_unstable_by_key(|unknown| unknown.address);
        let next = (0..=unknown.len() as u32).collect();
        Self { unknown, next, inquiries: count }
    }

    /// Takes in a line of the map, which comes before those that were added.
    fn add(&mut self, text: &[u8]) {
        let Some((start, end, name)) = line(text) else { return };
        let is_within = |first: &Unknown, last: &Unknown| start <= last.address && first.address < end;
        if !self.unknown.first().zip(self.unknown.last()).is_some_and(|(first, last)| is_within(first, last)) {
            return;
        }
        let mut shared = None;
        let mut place = self.next_unnamed(self.unknown.partition_point(|unknown| unknown.address < start));
        while let Some(unknown) = self.unknown.get_mut(place).filter(|unknown| unknown.address < end) {
            unknown.name = Some(Arc::clone(shared.get_or_insert_with(|| shortened(name))));
            if let Some(next) = self.next.get_mut(place) {
                *next += 1;
            }
            place = self.next_unnamed(place + 1);
        }
    }

    /// The place of the first address without a name, at or behind a place.
    fn next_unnamed(&mut self, mut place: usize) -> usize {
        while let Some(next) = self.next.get(place).map(|next| *next as usize).filter(|next| *next != place) {
            // Paths are halved on the way, so that none is followed often.
            let behind = self.next.get(next).copied().unwrap_or(next as u32);
            if let Some(shorter) = self.next.get_mut(place) {
                *shorter = behind;
            }
            place = next;
        }
        place
    }

    /// The positions with names, of each inquiry.
    fn finish(self) -> Vec<Vec<(usize, Arc<str>)>> {
        let mut found = vec![Vec::new(); self.inquiries];
        for Unknown { inquiry, position, name, .. } in self.unknown {
            if let Some((answers, name)) = found.get_mut(inquiry).zip(name) {
                answers.push((position, name));
            }
        }
        found
    }
}

fn shortened(name: &[u8]) -> Arc<str> {
    let name = String::from_utf8_lossy(name.get(..NAME_BYTES_MAX + 4).unwrap_or(name));
    if name.len() <= NAME_BYTES_MAX {
        return name.into();
    }
    format!("{}…", &name[..name.floor_char_boundary(NAME_BYTES_MAX)]).into()
}

fn line(line: &[u8]) -> Option<(u64, u64, &[u8])> {
    let mut fields = line.splitn(3, |byte| *byte == b' ');
    let (start, size) = (number(fields.next()?)?, number(fields.next()?)?);
    let name = fields.next()?.trim_ascii();
    (!name.is_empty()).then(|| (start, start.saturating_add(size), name))
}

fn number(digits: &[u8]) -> Option<u64> {
    hexadecimal(std::str::from_utf8(digits).ok()?)
}

fn frame(name: &str) -> Frame {
    let system_name: Arc<str> = name.into();
    Frame { name: demangle(name).into(), system_name, start_line: None, file: None, line: None, column: None }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_have_a_limit() {
        assert_eq!(&*shortened(b"a"), "a");
        let long = "é".repeat(NAME_BYTES_MAX);
        assert_eq!(&*shortened(long.as_bytes()), format!("{}…", &long[..NAME_BYTES_MAX]));
    }

    #[test]
    fn lines_of_a_map() {
        assert_eq!(line(b"7f10 20 a b c"), Some((0x7f10, 0x7f30, &b"a b c"[..])));
        assert_eq!(line(b"0x7f10 0x20 f\r"), Some((0x7f10, 0x7f30, &b"f"[..])));
        for wrong in ["", "7f10", "7f10 20", "7f10 20 ", "x 20 f", "7f10 y f"] {
            assert_eq!(line(wrong.as_bytes()), None, "{wrong}");
        }
    }

    /// The names of addresses by a map whose lines are read from the last to the first.
    fn names(addresses: &[u64], map: &[&str]) -> Vec<Option<String>> {
        let unknown = addresses.iter().enumerate().map(|(position, address)| (position, Addr(*address))).collect();
        let mut lookup = Lookup::new([unknown].into_iter());
        map.iter().rev().for_each(|line| lookup.add(line.as_bytes()));
        let mut names = vec![None; addresses.len()];
        for (position, name) in lookup.finish().remove(0) {
            names[position] = Some(name.to_string());
        }
        names
    }

    #[test]
    fn the_latest_line_with_an_address_names_it() {
        let map = ["10 10 old", "0 100 all", "14 4 new", "18 0 empty", "40 8 other", "40 4 newer"];
        let addresses = [0x18, 0x14, 0x17, 0x13, 0x40, 0x44, 0xff, 0x100, 0x14];
        let expected = ["all", "new", "new", "all", "newer", "other", "all", "", "new"];
        let names = names(&addresses, &map);
        assert_eq!(names.into_iter().map(Option::unwrap_or_default).collect::<Vec<_>>(), expected);
    }

    #[test]
    fn random_maps_name_addresses_as_line_by_line() {
        let mut state = 7_u64;
        let mut next = |below: u64| {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (state >> 33) % below
        };
        for _ in 0..200 {
            let addresses: Vec<u64> = (0..next(40)).map(|_| next(256)).collect();
            let ranges: Vec<(u64, u64)> = (0..next(60)).map(|_| (next(256), next(64))).collect();
            let lines: Vec<String> =
                ranges.iter().enumerate().map(|(name, (start, size))| format!("{start:x} {size:x} {name}")).collect();
            let covers =
                |address: u64| ranges.iter().rposition(|(start, size)| (*start..start + size).contains(&address));
            let expected: Vec<Option<String>> =
                addresses.iter().map(|address| covers(*address).map(|name| name.to_string())).collect();
            assert_eq!(names(&addresses, &lines.iter().map(String::as_str).collect::<Vec<_>>()), expected);
        }
    }

    #[test]
    fn lines_that_cover_all_addresses_cost_no_more_than_others() {
        let addresses: Vec<u64> = (0..200_000).map(|number| number * 64).collect();
        let unknown = addresses.iter().enumerate().map(|(position, address)| (position, Addr(*address))).collect();
        let mut lookup = Lookup::new([unknown].into_iter());
        // Each of them compared with each address would take hours.
        (0..2_000_000).for_each(|_| lookup.add(b"0 ffffffffffffff a"));
        assert_eq!(lookup.finish().remove(0).len(), addresses.len());
    }
}
