//! The readable, writable and executable ranges of this process, as a snapshot that a signal handler can search.
//!
//! The engine builds a snapshot from `/proc/self/maps` outside the handler, after it has seen a new thread and before
//! it arms that thread's timer; so the thread's stack is in it. A handler searches it without locks.

use super::tables::Tables;
use procprof_unwind::Space;
use std::ops::Range;
use std::sync::Arc;

/// Sorted, disjoint address ranges; neighbours are joined.
#[derive(Debug, Default)]
pub(crate) struct Ranges(Vec<Range<u64>>);

impl Ranges {
    /// The range that holds `address`.
    pub(crate) fn find(&self, address: u64) -> Option<Range<u64>> {
        let after = self.0.partition_point(|range| range.start <= address);
        let range = self.0.get(after.checked_sub(1)?)?;
        (address < range.end).then(|| range.clone())
    }

    fn push(&mut self, range: Range<u64>) {
        match self.0.last_mut() {
            Some(last) if last.end == range.start => last.end = range.end,
            _ => self.0.push(range),
        }
    }
}

/// The memory that a handler may read, and that a return address may point to.
#[derive(Debug, Default)]
pub(crate) struct Regions {
    /// Readable and writable: stacks are here.
    pub(crate) stacks: Ranges,
    /// The main thread's stack.
    pub(crate) main_stack: Range<u64>,
    /// Executable and readable, for its instructions are looked at: return addresses point here.
    pub(crate) code: Ranges,
    /// The same code with its unwind tables.
    pub(crate) space: Arc<Space>,
}

impl Regions {
    /// Reads the text of `/proc/self/maps`; a line that is not understood is left out.
    ///
    /// The main thread's stack grows downwards after the snapshot: its range is extended to the stack limit or the
    /// mapping below, because a walk only ever reads upwards from a live stack pointer.
    pub(crate) fn parse(maps: &str, stack_limit: u64) -> Self {
        let mut regions = Self::default();
        let mut below = 0;
        for line in maps.lines() {
            let Some((mut range, permissions)) = range_of(line) else { continue };
            if line.ends_with("[stack]") {
                range.start = below.max(range.end.saturating_sub(stack_limit)).min(range.start);
                regions.main_stack = range.clone();
            }
            below = range.end;
            let permissions = permissions.as_bytes();
            if permissions.starts_with(b"r") && permissions.get(2) == Some(&b'x') {
                regions.code.push(range.clone());
            }
            if permissions.starts_with(b"rw") {
                regions.stacks.push(range);
            }
        }
        regions
    }

    /// The regions of this process now; empty where `/proc` can't be read, and then only leaves are recorded.
    pub(crate) fn of_this_process(tables: &mut Tables) -> Self {
        let maps = std::fs::read("/proc/self/maps").unwrap_or_default();
        let mut regions = Self::parse(&String::from_utf8_lossy(&maps), stack_limit());
        regions.space = tables.space(&regions.code.0);
        regions
    }
}

/// `55d0c000-55d0e000 r-xp …` to its range and permissions.
fn range_of(line: &str) -> Option<(Range<u64>, &str)> {
    let (range, rest) = line.split_once(' ')?;
    let (start, end) = range.split_once('-')?;
    let start = u64::from_str_radix(start, 16).ok()?;
    let end = u64::from_str_radix(end, 16).ok()?;
    (start < end).then_some((start..end, rest.get(..4)?))
}

/// How far the main thread's stack may grow; 8 MiB where the limit is unlimited or unknown.
fn stack_limit() -> u64 {
    const USUAL: u64 = 8 << 20;
    let mut limit = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
    // SAFETY: `limit` is a valid place to write to.
    let known = unsafe { libc::getrlimit(libc::RLIMIT_STACK, &mut limit) } == 0;
    if known && limit.rlim_cur != libc::RLIM_INFINITY { limit.rlim_cur } else { USUAL }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MAPS: &str = "\
1000-2000 r--p 00000000 fe:00 1 /bin/a
2000-5000 r-xp 00001000 fe:00 1 /bin/a
5000-6000 rw-p 00004000 fe:00 1 /bin/a
6000-7000 rw-p 00000000 00:00 0 
7000-8000 ---p 00000000 00:00 0 
8000-9000 rwxp 00000000 00:00 0 
9000-a000 --xp 00000000 00:00 0 
7ffe0000-7fff0000 rw-p 00000000 00:00 0                          [stack]
not a line
";

    #[test]
    fn ranges_are_found_and_joined() {
        let regions = Regions::parse(MAPS, 0x20000);
        assert_eq!(regions.code.find(0x2000), Some(0x2000..0x5000));
        assert_eq!(regions.code.find(0x5000), None);
        assert_eq!(regions.code.find(0x1fff), None);
        assert_eq!(regions.stacks.find(0x6fff), Some(0x5000..0x7000));
        assert_eq!(regions.stacks.find(0x7000), None);
        assert_eq!(
            (regions.code.find(0x8000), regions.stacks.find(0x8000)),
            (Some(0x8000..0x9000), Some(0x8000..0x9000))
        );
        assert_eq!(regions.code.find(0x9000), None, "instructions that can't be read are not looked at");
        assert_eq!(regions.stacks.find(0x7ffd_0000), Some(0x7ffd_0000..0x7fff_0000));
        assert_eq!(regions.main_stack, 0x7ffd_0000..0x7fff_0000);
    }

    #[test]
    fn a_local_variable_lies_in_a_stack_and_a_function_in_code() {
        let regions = Regions::of_this_process(&mut Tables::default());
        let local = 0_u8;
        assert!(regions.stacks.find(&raw const local as u64).is_some());
        assert!(regions.code.find(stack_limit as *const () as u64).is_some());
    }
}
