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

use std::fs::File;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::PathBuf;
use std::sync::Arc;

use procprof_process::open_regular;

use super::Sources;
use super::inquiry::{Inquiries, Inquiry, Memory};
use super::live::Live;
use super::text_symbols::{hexadecimal, read};
use crate::outcome::{Proof, Source, UsedFile};
use crate::{Frame, Resolved, demangle};

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
        let text = match file.and_then(|file| read(file, &path)) {
            Ok(text) => text,
            Err(error) => {
                inquiries.fail(Source::PerfMap, format!("{}: {error}", path.display()));
                continue;
            }
        };
        for inquiry in inquiries.all.iter_mut().filter(|inquiry| is_asked(inquiry)) {
            if answer(inquiry, &text) > 0 {
                inquiry.used.push(UsedFile {
                    source: Source::PerfMap,
                    path: path.clone(),
                    build_id: None,
                    debug_file: None,
                    proof,
                });
            }
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

/// Answers the locations that a map contains; returns their number.
fn answer(inquiry: &mut Inquiry<'_>, map: &str) -> usize {
    let mut unknown = inquiry.unknown();
    unknown.sort_unstable_by_key(|(_, address)| *address);
    let mut names: Vec<Option<&str>> = vec![None; unknown.len()];
    for (start, end, name) in map.lines().filter_map(line) {
        let first = unknown.partition_point(|(_, address)| address.0 < start);
        for place in (first..unknown.len()).take_while(|place| unknown[*place].1.0 < end) {
            names[place] = Some(name);
        }
    }
    let mut count = 0;
    for ((position, _), name) in unknown.into_iter().zip(names) {
        if let Some(name) = name {
            inquiry.answer(position, Source::PerfMap, Resolved::Frames(vec![frame(name)]));
            count += 1;
        }
    }
    count
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
    fn lines_of_a_map() {
        assert_eq!(line("7f10 20 a b c"), Some((0x7f10, 0x7f30, "a b c")));
        assert_eq!(line("0x7f10 0x20 f\r"), Some((0x7f10, 0x7f30, "f")));
        for wrong in ["", "7f10", "7f10 20", "7f10 20 ", "x 20 f", "7f10 y f"] {
            assert_eq!(line(wrong), None, "{wrong}");
        }
    }
}
