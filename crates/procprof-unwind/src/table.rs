//! A module's rules, compiled region by region on request.
//!
//! A signal handler looks rules up; it never compiles. If a region is not compiled yet, it sets a request bit and
//! continues without; another thread sees the bit and compiles the region, which becomes visible to handlers by one
//! atomic store. Nothing that was published is changed or freed while the table lives. So the cost of a table depends
//! on the requests: an idle one takes six bytes per MiB of code.

use crate::region::{REGION_SHIFT, Region, RegionBuilder};
use crate::rule::Packed;
use crate::source::{EntryReader, Source};
use std::ops::Range;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

/// Instruction bytes read for one region; honest ones need some ten thousand. Code behind it has no rules.
const MAX_INSTRUCTION_BYTES: usize = 16 << 20;

/// Entries read for one region; in order and without repetition there can be one per byte.
const MAX_ENTRIES: usize = 1 << 17;

/// Bytes of code a table may cover; beyond them nothing is known.
pub const MAX_CODE_BYTES: u64 = 4 << 30;

/// Regions of a group: a word of request bits.
const GROUP_REGIONS: usize = 64;

/// Neighbouring regions.
type Group = Box<[OnceLock<Region>; GROUP_REGIONS]>;

/// The rules of one module's code.
#[derive(Debug)]
pub struct Table {
    range: Range<u64>,
    /// Regions by number, in groups that are made with their first region: a file may state gigabytes of code.
    groups: Box<[OnceLock<Group>]>,
    regions: usize,
    wanted: Box<[AtomicU64]>,
    any_wanted: AtomicBool,
}

/// The result of a compilation.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Compiled {
    /// Regions compiled.
    pub regions: usize,
    /// Functions read.
    pub functions: usize,
    /// Rows after joining equal neighbours.
    pub rows: usize,
    /// Bytes they take.
    pub bytes: usize,
    /// Functions whose entry is broken; from the broken place on they have no rule.
    pub broken: usize,
    /// Regions given up at a limit: 16 MiB of instructions, 131,072 entries.
    pub cut: usize,
}

impl Table {
    /// An empty table for the executable addresses of a module, at most [`MAX_CODE_BYTES`] of them; `range.start` is
    /// rounded down to 64 KiB.
    pub fn new(range: Range<u64>) -> Self {
        let start = range.start >> REGION_SHIFT << REGION_SHIFT;
        let end = range.end.clamp(start, start.saturating_add(MAX_CODE_BYTES));
        let regions = (end - start).div_ceil(1 << REGION_SHIFT) as usize;
        Self {
            range: start..end,
            groups: (0..regions.div_ceil(GROUP_REGIONS)).map(|_| OnceLock::new()).collect(),
            regions,
            wanted: (0..regions.div_ceil(GROUP_REGIONS)).map(|_| AtomicU64::new(0)).collect(),
            any_wanted: AtomicBool::new(false),
        }
    }

    /// The rule at an address; [`Rule::Pending`](crate::Rule::Pending) and a set request bit if the region is not
    /// compiled.
    ///
    /// Async-signal-safe: no locks, no allocation, bounded.
    #[inline]
    pub fn rule(&self, address: u64) -> Packed {
        let offset = address.wrapping_sub(self.range.start);
        let number = (offset >> REGION_SHIFT) as usize;
        match self.region(number) {
            Some(region) => region.rule(offset as u16),
            None if number < self.regions => self.want(number),
            None => Packed::UNKNOWN,
        }
    }

    #[inline]
    fn region(&self, number: usize) -> Option<&Region> {
        self.groups.get(number / GROUP_REGIONS)?.get()?.get(number % GROUP_REGIONS)?.get()
    }

    #[cold]
    fn want(&self, number: usize) -> Packed {
        if let Some(wanted) = self.wanted.get(number / GROUP_REGIONS) {
            wanted.fetch_or(1 << (number % GROUP_REGIONS), Ordering::Relaxed);
            self.any_wanted.store(true, Ordering::Release);
        }
        Packed::PENDING
    }

    /// Whether a look-up has met a region that was not compiled.
    pub fn is_wanted(&self) -> bool {
        self.any_wanted.load(Ordering::Acquire)
    }

    /// Compiles regions that look-ups have requested, at most that many; the rest stays requested.
    pub fn compile_wanted(&self, source: &Source<'_>, most: usize) -> Compiled {
        self.any_wanted.store(false, Ordering::Release);
        let mut compiler = Compiler::new(source);
        for (word, wanted) in self.wanted.iter().enumerate() {
            let mut bits = wanted.load(Ordering::Acquire);
            while bits != 0 {
                if compiler.compiled.regions >= most {
                    self.any_wanted.store(true, Ordering::Release);
                    return compiler.compiled;
                }
                let bit = bits.trailing_zeros();
                self.compile_region(word * GROUP_REGIONS + bit as usize, &mut compiler);
                wanted.fetch_and(!(1 << bit), Ordering::Relaxed);
                bits &= bits - 1;
            }
        }
        compiler.compiled
    }

    /// The addresses of the regions that look-ups have requested, which are requested no longer.
    pub fn take_wanted(&self) -> Vec<Range<u64>> {
        self.any_wanted.store(false, Ordering::Release);
        let mut ranges = Vec::new();
        for (word, wanted) in self.wanted.iter().enumerate() {
            let mut bits = wanted.swap(0, Ordering::AcqRel);
            while bits != 0 {
                let number = word * GROUP_REGIONS + bits.trailing_zeros() as usize;
                let start = self.range.start + ((number as u64) << REGION_SHIFT);
                ranges.push(start..start.saturating_add(1 << REGION_SHIFT));
                bits &= bits - 1;
            }
        }
        ranges
    }

    /// Compiles all regions that touch a range of addresses.
    pub fn compile(&self, source: &Source<'_>, range: Range<u64>) -> Compiled {
        let first = range.start.saturating_sub(self.range.start) >> REGION_SHIFT;
        let last = range.end.saturating_sub(self.range.start).div_ceil(1 << REGION_SHIFT);
        let mut compiler = Compiler::new(source);
        for number in first as usize..self.regions.min(last as usize) {
            self.compile_region(number, &mut compiler);
        }
        compiler.compiled
    }

    fn compile_region(&self, number: usize, compiler: &mut Compiler<'_, '_>) {
        let Some(group) = self.groups.get(number / GROUP_REGIONS).filter(|_| number < self.regions) else { return };
        let group = group.get_or_init(|| Box::new([const { OnceLock::new() }; GROUP_REGIONS]));
        let Some(place) = group.get(number % GROUP_REGIONS) else { return };
        let start = self.range.start + ((number as u64) << REGION_SHIFT);
        place.get_or_init(|| compiler.region(start));
    }

    /// The addresses it has or may get rules for.
    pub fn range(&self) -> Range<u64> {
        self.range.clone()
    }

    /// Bytes of memory it takes now.
    pub fn memory(&self) -> usize {
        let of_group = |group: &Group| {
            size_of_val(&**group) + group.iter().filter_map(OnceLock::get).map(Region::size).sum::<usize>()
        };
        let groups: usize = self.groups.iter().filter_map(OnceLock::get).map(of_group).sum();
        size_of::<Self>() + size_of_val(&*self.groups) + size_of_val(&*self.wanted) + groups
    }
}

struct Compiler<'s, 'a> {
    source: &'s Source<'a>,
    entries: EntryReader<'s, 'a>,
    builder: RegionBuilder,
    compiled: Compiled,
}

impl<'s, 'a> Compiler<'s, 'a> {
    fn new(source: &'s Source<'a>) -> Self {
        let (entries, builder) = (EntryReader::new(source), RegionBuilder::default());
        Self { source, entries, builder, compiled: Compiled::default() }
    }

    fn region(&mut self, start: u64) -> Region {
        let end = start.saturating_add(1 << REGION_SHIFT);
        self.builder.clear();
        let mut read = 0;
        let mut next = 0;
        for (seen, (address, offset)) in self.source.entries_from(start).enumerate() {
            if address >= end {
                break;
            }
            if read > MAX_INSTRUCTION_BYTES || seen > MAX_ENTRIES {
                self.compiled.cut += 1;
                break;
            }
            // Not rising: an unsorted table, or a second entry for the same function.
            if address < next {
                continue;
            }
            next = address.saturating_add(1);
            read += self.function(address, offset, start..end);
        }
        let region = self.builder.finish();
        self.compiled.regions += 1;
        self.compiled.rows += region.rows();
        self.compiled.bytes += region.size();
        region
    }

    /// Adds a function's rows inside a region; returns how many instruction bytes it has.
    fn function(&mut self, address: u64, offset: usize, region: Range<u64>) -> usize {
        self.compiled.functions += 1;
        let read = self.entries.read(offset).filter(|(fde, _)| fde.range.start == address);
        let within = |address: u64| (address.max(region.start) - region.start) as u16;
        let Some((fde, prepared)) = read else {
            self.compiled.broken += 1;
            self.builder.begin(within(address));
            self.builder.row(within(address), Packed::UNSUPPORTED);
            self.builder.end(u32::from(within(address)) + 1);
            return 0;
        };
        if fde.range.end <= region.start {
            return 0;
        }
        self.builder.begin(within(fde.range.start));
        let builder = &mut self.builder;
        let whole = prepared.rows(&fde, |at, rule| {
            if at < region.end {
                builder.row(within(at), rule);
            }
        });
        self.compiled.broken += usize::from(!whole);
        self.builder.end((fde.range.end.min(region.end) - region.start) as u32);
        fde.instructions.bytes().len()
    }
}
