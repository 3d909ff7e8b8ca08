//! Code of files that programs have moved to memory without a file, so that it lies in huge pages: PHP
//! (`opcache.huge_code_pages`), Node.js (`--use-largepages`), and others that copy their text in place.
//!
//! The file that was there is known by its neighbours, mappings of the same file on both sides, from which the offsets in
//! between follow; and it is proven by content: pages of the process's memory are those of the file.

use std::sync::Arc;
use std::time::{Duration, Instant};

use foldhash::HashMap;
use procprof_process::{MappedRange, Pid, Process};
use procprof_profile::perf_event::{AddressSpace, FileIdentity, MappedCode};

use crate::images::Images;
use crate::live_memory::ProcessMemory;

/// Pages that are compared, evenly spread from the first to the last.
const PAGES_MAX: u64 = 64;
const PAGE: usize = 4096;
/// Programs move whole pages of this size.
const HUGE_PAGE: u64 = 2 << 20;
/// How often a range is looked at, since a program may still copy its text to it.
const LOOKS: u8 = 4;
/// Shortest time between two looks at a process.
const INTERVAL: Duration = Duration::from_secs(1);

/// What is known of a process's code in memory without a file.
#[derive(Debug, Default)]
pub(crate) struct MovedText {
    /// How often a range was looked at without a result.
    looks: HashMap<(u64, u64), u8>,
    looked: Option<Instant>,
    is_settled: bool,
}

impl MovedText {
    /// The code of the process has changed.
    pub(crate) fn code_changed(&mut self) {
        self.is_settled = false;
    }

    /// Whether it is time to look.
    pub(crate) fn is_due(&self) -> bool {
        !self.is_settled && self.looked.is_none_or(|looked| looked.elapsed() >= INTERVAL)
    }

    /// Gives ranges of the process back to the files that were there; whether there were any.
    pub(crate) fn recognize(
        &mut self,
        pid: u32,
        space: &mut Arc<AddressSpace>,
        images: &mut Images,
        memory: &mut ProcessMemory,
    ) -> bool {
        let candidates = self.candidates(space, images);
        self.is_settled = candidates.is_empty();
        if self.is_settled {
            return false;
        }
        self.looked = Some(Instant::now());
        let maps = Process::open(Pid(pid)).and_then(|process| process.maps()).unwrap_or_default();
        let mut is_any = false;
        for candidate in candidates {
            let found = guesses(&candidate, &maps).into_iter().find_map(|(neighbour, file_offset)| {
                let identity = FileIdentity::Inode { device: neighbour.device, inode: neighbour.inode };
                let image = images.mapped(pid, neighbour.start.0, identity, &neighbour.path);
                let code = MappedCode { range: candidate.range.clone(), file_offset, image };
                has_content(pid, &code, images, memory).then_some(code)
            });
            match found {
                Some(code) => is_any |= Arc::make_mut(space).insert(code),
                None => *self.looks.entry((candidate.range.start, candidate.range.end)).or_default() += 1,
            }
        }
        is_any
    }

    /// The ranges without a file that touch code of a file, or are huge pages, and were not looked at often enough.
    fn candidates(&self, space: &AddressSpace, images: &Images) -> Vec<MappedCode> {
        let code = space.code();
        let has_file = |place: usize| code.get(place).is_some_and(|code| !images.is_anonymous(code.image));
        let is_candidate = |place: usize| {
            let range = &code[place].range;
            let before = place.checked_sub(1).filter(|before| code[*before].range.end == range.start);
            let behind =
                Some(place + 1).filter(|behind| code.get(*behind).is_some_and(|it| it.range.start == range.end));
            let is_huge = range.start.is_multiple_of(HUGE_PAGE) && range.end.is_multiple_of(HUGE_PAGE);
            !has_file(place)
                && (is_huge || before.is_some_and(has_file) || behind.is_some_and(has_file))
                && self.looks.get(&(range.start, range.end)).is_none_or(|looks| *looks < LOOKS)
        };
        (0..code.len()).filter(|place| is_candidate(*place)).map(|place| code[place].clone()).collect()
    }
}

/// The places of a file that may have been at a range, each with a mapping of that file: by the mappings that touch it on
/// both sides.
fn guesses<'m>(candidate: &MappedCode, maps: &'m [MappedRange]) -> Vec<(&'m MappedRange, u64)> {
    let range = &candidate.range;
    let is_without_file =
        |mapped: &MappedRange| !mapped.path.is_absolute() || mapped.path.starts_with("/anon_hugepage");
    let within = maps.iter().filter(|mapped| mapped.start.0 < range.end && mapped.limit.0 > range.start);
    if !within.clone().all(|mapped| mapped.executable && is_without_file(mapped)) || within.count() == 0 {
        return Vec::new();
    }
    let has_file = |mapped: &&MappedRange| mapped.inode != 0 && !is_without_file(mapped);
    let before = maps.iter().find(|mapped| mapped.limit.0 == range.start).filter(has_file);
    let behind = maps.iter().find(|mapped| mapped.start.0 == range.end).filter(has_file);
    let (Some(before), Some(behind)) = (before, behind) else { return Vec::new() };
    if !before.is_same_file(behind) {
        return Vec::new();
    }
    let mut offsets: Vec<u64> = [
        before.file_offset.0.checked_add(range.start - before.start.0),
        behind.file_offset.0.checked_sub(behind.start.0 - range.start),
    ]
    .into_iter()
    .flatten()
    .collect();
    offsets.dedup();
    offsets.into_iter().map(|offset| (before, offset)).collect()
}

/// Whether pages of a process are those of a file, and not all of them zeros.
fn has_content(pid: u32, code: &MappedCode, images: &mut Images, memory: &mut ProcessMemory) -> bool {
    let pages = (code.range.end - code.range.start) / PAGE as u64;
    let count = pages.min(PAGES_MAX);
    let mut is_text = false;
    for number in 0..count {
        let page = if count > 1 { number * (pages - 1) / (count - 1) } else { 0 };
        let address = code.range.start + page * PAGE as u64;
        let (mut in_file, mut in_memory) = ([0; PAGE], [0; PAGE]);
        let is_equal = images.read_code(code, address, &mut in_file) == Some(PAGE)
            && memory.read(pid, &[(address, PAGE)], &mut in_memory) == Ok(PAGE)
            && in_file == in_memory;
        if !is_equal {
            return false;
        }
        is_text |= in_file.iter().any(|byte| *byte != 0);
    }
    is_text
}

#[cfg(test)]
mod tests {
    use procprof_process::MappedRange;
    use procprof_profile::perf_event::ImageId;
    use procprof_profile::{Addr, FileOffset};

    use super::*;

    fn mapped(start: u64, limit: u64, offset: u64, path: &str) -> MappedRange {
        MappedRange {
            start: Addr(start),
            limit: Addr(limit),
            readable: true,
            writable: false,
            executable: true,
            file_offset: FileOffset(offset),
            device: (8, 1),
            inode: if path.is_empty() { 0 } else { 7 },
            path: std::path::Path::new(path).into(),
            deleted: false,
        }
    }

    #[test]
    fn neighbours_tell_the_file_and_the_place_in_it() {
        let candidate = MappedCode { range: 0x2000..0x4000, file_offset: 0, image: ImageId(0) };
        let places = |maps: &[MappedRange]| -> Vec<u64> {
            guesses(&candidate, maps).into_iter().map(|(_, offset)| offset).collect()
        };
        let (before, behind) = (mapped(0x1000, 0x2000, 0x500, "/bin/x"), mapped(0x4000, 0x5000, 0x3500, "/bin/x"));
        let moved = mapped(0x2000, 0x4000, 0, "");
        assert_eq!(places(&[before.clone(), moved.clone(), behind.clone()]), [0x1500]);
        // The text and the data behind it are shifted against each other.
        let shifted = mapped(0x4000, 0x5000, 0x2500, "/bin/x");
        assert_eq!(places(&[before.clone(), moved.clone(), shifted]), [0x1500, 0x500]);
        for maps in [
            vec![before.clone(), moved.clone()],
            vec![before.clone(), moved.clone(), mapped(0x4000, 0x5000, 0x3500, "/bin/y")],
            vec![mapped(0x1000, 0x1800, 0x500, "/bin/x"), moved.clone(), behind.clone()],
            vec![before.clone(), mapped(0x2000, 0x4000, 0x1500, "/bin/z"), behind.clone()],
            vec![before, MappedRange { executable: false, ..moved }, behind],
            vec![],
        ] {
            assert_eq!(places(&maps), [0; 0], "{maps:?}");
        }
    }
}
