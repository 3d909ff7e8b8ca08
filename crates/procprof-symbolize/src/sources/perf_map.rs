//! Names of code that was generated at run time, as compilers write them for `perf`:
//!
//! ```text
//! 7f2a1c0042e0 1a0 LazyCompile:*fib /app/main.js:3
//! ```
//!
//! Start and size in hexadecimal, then the name, up to the end of the line. If code was replaced, the later line is
//! used. See `tools/perf/Documentation/jit-interface.txt` of Linux. A live process has its map in `/tmp/perf-PID.map`,
//! in its own mount namespace with the pid it has in its own; it is read only if its owner is the process's user or
//! root, since all users may write to `/tmp`. Its lines are read one by one: of whatever size it is, memory is taken for
//! the names that are asked for alone, each of at most 4 KiB.

use std::fs::File;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::PathBuf;
use std::sync::Arc;

use procprof_process::open_regular;
use procprof_profile::Addr;

use super::Sources;
use super::inquiry::{Inquiries, Inquiry, Memory};
use super::live::Live;
use super::text_symbols::{for_each_line, hexadecimal};
use crate::outcome::{Proof, Source, UsedFile};
use crate::{Frame, Resolved, demangle};

/// Longest name, in bytes; a longer one ends in `…`.
const NAME_BYTES_MAX: usize = 4096;

/// Looks up addresses in memory without a file.
pub(super) fn ask(inquiries: &mut Inquiries<'_>, sources: &mut Sources<'_>) {
    let is_asked = |inquiry: &Inquiry<'_>| matches!(inquiry.memory, Memory::Anonymous | Memory::NoMapping);
    if !inquiries.all.iter().any(is_asked) {
        return;
    }
    let named = sources.perf_maps.iter().map(|path| (path.clone(), Proof::Unverified, open_regular(path)));
    let live = inquiries.live.as_ref().map(of_process).unwrap_or_default();
    let maps: Vec<(PathBuf, Proof, io::Result<File>)> = named.chain(live).collect();
    for (path, proof, file) in maps {
        let asked = inquiries.all.iter_mut().filter(|inquiry| is_asked(inquiry));
        let mut asked: Vec<Lookup<'_, '_>> = asked.map(Lookup::new).collect();
        let is_read = file.and_then(|file| {
            for_each_line(file, &path, |text| {
                if let Some((start, end, name)) = line(text) {
                    asked.iter_mut().for_each(|lookup| lookup.name(start, end, name));
                }
            })
        });
        for mut lookup in asked {
            if lookup.answer() > 0 {
                lookup.inquiry.used.push(UsedFile {
                    source: Source::PerfMap,
                    path: path.clone(),
                    build_id: None,
                    debug_file: None,
                    proof,
                });
            }
        }
        // What was read before stays.
        if let Err(error) = is_read {
            inquiries.fail(Source::PerfMap, format!("{}: {error}", path.display()));
        }
    }
}

/// The maps of a live process, if any. Those of other owners are skipped.
fn of_process(live: &Live) -> Vec<(PathBuf, Proof, io::Result<File>)> {
    let Some(user) = live.user() else {
        return Vec::new();
    };
    let open = |path: PathBuf| {
        let file = open_regular(&path).ok()?;
        let (opened, there) = (file.metadata().ok()?, path.symlink_metadata().ok()?);
        // A symbolic link could lead to a file that the process may not read itself.
        let is_no_link = (there.dev(), there.ino()) == (opened.dev(), opened.ino());
        let is_its_own = opened.uid() == user || opened.uid() == 0;
        (is_no_link && is_its_own && live.is_same()).then_some((path, Proof::Verified, Ok(file)))
    };
    live.perf_maps().into_iter().filter_map(open).collect()
}

/// The addresses of an inquiry that have no name yet, with those that a map gives.
struct Lookup<'a, 'b> {
    inquiry: &'a mut Inquiry<'b>,
    /// By address.
    unknown: Vec<(usize, Addr)>,
    names: Vec<Option<Box<str>>>,
}

impl<'a, 'b> Lookup<'a, 'b> {
    fn new(inquiry: &'a mut Inquiry<'b>) -> Self {
        let mut unknown = inquiry.unknown();
        unknown.sort_unstable_by_key(|(_, address)| *address);
        let names = vec![None; unknown.len()];
        Self { inquiry, unknown, names }
    }

    /// The map has a name for a range of addresses.
    fn name(&mut self, start: u64, end: u64, name: &str) {
        let first = self.unknown.partition_point(|(_, address)| address.0 < start);
        for place in (first..self.unknown.len()).take_while(|place| self.unknown[*place].1.0 < end) {
            self.names[place] = Some(shortened(name));
        }
    }

    /// Answers the locations that the map contains; returns their number.
    fn answer(&mut self) -> usize {
        let mut count = 0;
        for ((position, _), name) in self.unknown.drain(..).zip(self.names.drain(..)) {
            if let Some(name) = name {
                self.inquiry.answer(position, Source::PerfMap, Resolved::Frames(vec![frame(&name)]));
                count += 1;
            }
        }
        count
    }
}

fn shortened(name: &str) -> Box<str> {
    if name.len() <= NAME_BYTES_MAX {
        return name.into();
    }
    format!("{}…", &name[..name.floor_char_boundary(NAME_BYTES_MAX)]).into()
}

fn line(line: &str) -> Option<(u64, u64, &str)> {
    let (start, rest) = line.split_once(' ')?;
    let (size, name) = rest.split_once(' ')?;
    let (start, size, name) = (hexadecimal(start)?, hexadecimal(size)?, name.trim());
    (!name.is_empty()).then(|| (start, start.saturating_add(size), name))
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
        assert_eq!(&*shortened("a"), "a");
        let long = "é".repeat(NAME_BYTES_MAX);
        assert_eq!(&*shortened(&long), format!("{}…", &long[..NAME_BYTES_MAX]));
    }

    #[test]
    fn lines_of_a_map() {
        assert_eq!(line("7f10 20 a b c"), Some((0x7f10, 0x7f30, "a b c")));
        assert_eq!(line("0x7f10 0x20 f\r"), Some((0x7f10, 0x7f30, "f")));
        for wrong in ["", "7f10", "7f10 20", "7f10 20 ", "x 20 f", "7f10 y f"] {
            assert_eq!(line(wrong), None, "{wrong}");
        }
    }
}
