//! The memory of slots, mapped for many at once.
//!
//! Mappings of each slot's own would take a process of many threads to the kernel's limit (`vm.max_map_count`, usually
//! 65,530), so that the program could make no thread any more. A slab is two mappings for up to [`MOST_UNITS`] slots:
//!
//! ```text
//! guard | cache, ring, stack | cache, ring, stack | …
//! ```
//!
//! A stack grows downwards, so one that overflows meets its own ring, which holds nothing but numbers that are checked
//! when they are read.

use super::own_stack::OwnStack;
use super::ring::Memory;
use procprof_unwind::Cache;
use std::ffi::c_void;

/// Slots in one slab, at most: 37 MiB, of which only the pages that samples reach become resident.
pub(crate) const MOST_UNITS: usize = 256;

/// Pages of any kernel we run on are of this size at most.
const GUARD_BYTES: usize = 64 << 10;

/// Bytes of a stack for handlers. Unoptimized, a walk takes about a tenth of it.
pub(crate) const STACK_BYTES: usize = 64 << 10;

const CACHE_BYTES: usize = size_of::<Cache>().next_multiple_of(4 << 10);
const RING_BYTES: usize = size_of::<Memory>().next_multiple_of(4 << 10);
const UNIT_BYTES: usize = CACHE_BYTES + RING_BYTES + STACK_BYTES;

/// A slab's place.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Slab {
    start: usize,
    units: usize,
}

/// The memory of one slot.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Unit {
    pub(crate) slab: Slab,
    start: usize,
}

impl Slab {
    /// Maps a slab of as many units, or of fewer where the kernel refuses; `None` where it refuses one.
    pub(crate) fn map(units: usize) -> Option<Self> {
        let mut units = units.clamp(1, MOST_UNITS);
        loop {
            if let Some(slab) = Self::map_all(units) {
                return Some(slab);
            }
            units = Some(units / 2).filter(|units| *units > 0)?;
        }
    }

    fn map_all(units: usize) -> Option<Self> {
        let (protection, flags) =
            (libc::PROT_READ | libc::PROT_WRITE, libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE);
        let slab = Self { start: 0, units };
        // SAFETY: a fresh private mapping that nothing else refers to.
        let memory = unsafe { libc::mmap(std::ptr::null_mut(), slab.bytes(), protection, flags, -1, 0) };
        if memory == libc::MAP_FAILED {
            return None;
        }
        let slab = Self { start: memory as usize, units };
        // SAFETY: the mapping just made; the advice, which an old kernel refuses, keeps a touched page from becoming 2
        // MiB.
        let is_guarded = unsafe {
            libc::madvise(memory, slab.bytes(), libc::MADV_NOHUGEPAGE);
            libc::mprotect(memory, GUARD_BYTES, libc::PROT_NONE) == 0
        };
        if !is_guarded {
            // SAFETY: as above.
            unsafe { slab.unmap() };
            return None;
        }
        Some(slab)
    }

    fn bytes(self) -> usize {
        GUARD_BYTES + self.units * UNIT_BYTES
    }

    /// How many slots it has memory for.
    pub(crate) fn len(self) -> usize {
        self.units
    }

    /// Its parts.
    pub(crate) fn units(self) -> impl Iterator<Item = Unit> {
        (0..self.units).map(move |index| Unit { slab: self, start: self.start + GUARD_BYTES + index * UNIT_BYTES })
    }

    /// Gives the memory back.
    ///
    /// # Safety
    /// No slot has a unit of it any more.
    pub(crate) unsafe fn unmap(self) {
        // SAFETY: the mapping was made by `map_all`, and by this function's contract is not in use.
        unsafe { libc::munmap(self.start as *mut c_void, self.bytes()) };
    }
}

impl Unit {
    /// Zeroed at first, which is an empty cache.
    pub(crate) fn cache(self) -> *mut Cache {
        self.start as *mut Cache
    }

    /// Of a ring; zeroed at first.
    pub(crate) fn ring(self) -> *mut Memory {
        (self.start + CACHE_BYTES) as *mut Memory
    }

    /// A stack.
    pub(crate) fn stack(self) -> OwnStack {
        OwnStack::below(self.start + UNIT_BYTES)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn units_lie_beside_each_other_behind_one_guard() {
        let slab = Slab::map(usize::MAX).unwrap();
        assert_eq!((slab.len(), slab.units().count()), (MOST_UNITS, MOST_UNITS));
        let maps = std::fs::read_to_string("/proc/self/maps").unwrap();
        let end = slab.start + slab.bytes();
        let within = |line: &&str| {
            let (first, last) = line.split(' ').next().unwrap().split_once('-').unwrap();
            let [first, last] = [first, last].map(|number| usize::from_str_radix(number, 16).unwrap());
            first < end && last > slab.start
        };
        assert!(maps.lines().filter(within).count() <= 2, "{maps}");
        for unit in slab.units() {
            // SAFETY: the slab's own memory, to which nothing else refers.
            unsafe {
                assert_eq!(unit.ring().cast::<u64>().read(), 0);
                unit.ring().cast::<u64>().write(1);
            }
        }
        // SAFETY: made above, and no slot has any of it.
        unsafe { slab.unmap() };
    }
}
