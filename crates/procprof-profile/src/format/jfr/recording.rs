//! What all chunks of a recording say, with names in place of their numbers.

use std::hash::BuildHasher;

use foldhash::HashMap;

use super::NAME;
use super::history::History;
use crate::waits::Wait;
use crate::{Error, Result, StringId, StringIndex, StringTable};

/// Bytes of names that are made, in times the input: each method's has its class's name in it, so that a file of one
/// long name and many methods would take the square of its size.
const NAME_MULTIPLE: usize = 12;
/// The same for names that are made anew in each chunk.
const MADE_MULTIPLE: usize = 32;
const NAMES_FREE: usize = 8 << 10;

/// What is sampled. Several of them make one profile, where a recording has the same thing by two ways.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Measure {
    CpuTime,
    Execution,
    Wall,
    AllocationSample,
    AllocationBuffer,
    LiveObject,
    Lock,
    NativeLock,
    NativeMemory,
    NativeMethod,
    MethodTrace,
}

/// How many measures there are.
pub(super) const MEASURES: usize = 11;

/// A frame: its name, where it is from, its line or 0.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct Frame {
    pub(super) name: StringId,
    pub(super) mapping: StringId,
    pub(super) line: u32,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct Thread {
    pub(super) name: StringId,
    pub(super) tid: u32,
}

/// What a sample is of: positions of its stack, its thread, and of the frame that stands for its class.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct Key {
    pub(super) stack: u32,
    pub(super) thread: u32,
    /// [`NO_CLASS`] for none.
    pub(super) class: u32,
    /// The kind of wait of a [`Measure::Lock`].
    pub(super) wait: Option<Wait>,
}

pub(super) const NO_CLASS: u32 = u32::MAX;

/// The samples of a measure.
#[derive(Debug, Default)]
pub(super) struct Samples {
    places: HashMap<Key, u32>,
    pub(super) all: Vec<(Key, [u64; 2])>,
    /// How many of the counted have a stack that was cut at the recorder's limit.
    pub(super) cut: u64,
    /// How many of the counted have no stack.
    pub(super) bare: u64,
}

/// A table in which equal entries are one.
#[derive(Debug)]
pub(super) struct Interned<T> {
    places: HashMap<T, u32>,
    pub(super) all: Vec<T>,
}

impl<T> Default for Interned<T> {
    fn default() -> Self {
        Interned { places: HashMap::default(), all: Vec::new() }
    }
}

impl<T: Copy + Eq + std::hash::Hash> Interned<T> {
    pub(super) fn place(&mut self, entry: T) -> u32 {
        *self.places.entry(entry).or_insert_with(|| {
            self.all.push(entry);
            self.all.len() as u32 - 1
        })
    }
}

/// Stacks back to back, leaf first, each made of positions of frames.
#[derive(Debug)]
pub(super) struct Stacks {
    frames: Vec<u32>,
    ends: Vec<u32>,
    /// The stack of each hash; another one of the same hash, which a keyed hash all but excludes, stands there twice.
    places: HashMap<u64, u32>,
}

impl Default for Stacks {
    /// With the empty stack at 0.
    fn default() -> Self {
        Stacks { frames: Vec::new(), ends: vec![0], places: HashMap::default() }
    }
}

impl Stacks {
    pub(super) fn get(&self, place: u32) -> &[u32] {
        let place = place as usize;
        let start = if place == 0 { 0 } else { self.ends[place - 1] as usize };
        &self.frames[start..self.ends[place] as usize]
    }

    /// The place of a stack.
    ///
    /// # Errors
    /// [`Error::TooLarge`] past 2^32 frames.
    pub(super) fn place(&mut self, stack: &[u32]) -> Result<u32> {
        let hash = self.places.hasher().hash_one(stack);
        if let Some(place) = self.places.get(&hash).copied().filter(|place| self.get(*place) == stack) {
            return Ok(place);
        }
        self.frames.extend_from_slice(stack);
        let end = u32::try_from(self.frames.len());
        self.ends.push(end.map_err(|_| Error::TooLarge {
            format: NAME,
            what: "frames",
            limit: u64::from(u32::MAX),
        })?);
        let place = self.ends.len() as u32 - 1;
        self.places.insert(hash, place);
        Ok(place)
    }
}

/// What recorders say about themselves and the JVM.
#[derive(Debug, Default)]
pub(super) struct Facts {
    pub(super) is_async_profiler: bool,
    pub(super) profiler_version: String,
    pub(super) jvm: String,
    pub(super) jvm_version: String,
    /// Nanoseconds between samples of running threads.
    pub(super) execution_period: u64,
    pub(super) wall_period: u64,
    /// Bytes between samples of allocations.
    pub(super) allocation_period: u64,
    /// What the samples of running threads are taken by, if it is not time: an event of the processor or kernel, or a
    /// method.
    pub(super) counter: String,
    /// Whether samples had no period said.
    pub(super) guesses_period: bool,
    pub(super) lost: u64,
    /// Bytes that samples counted, but were allocated before.
    pub(super) allocated_before: u64,
}

/// All chunks together.
#[derive(Debug)]
pub(super) struct Recording {
    pub(super) strings: StringTable,
    index: StringIndex,
    pub(super) frames: Interned<Frame>,
    pub(super) stacks: Stacks,
    pub(super) threads: Interned<Thread>,
    pub(super) samples: [Samples; MEASURES],
    /// Blocks that nothing has freed: the sample that counts each, and its size.
    pub(super) blocks: HashMap<u64, (u32, u64)>,
    /// When chunks began and ended.
    pub(super) times: Vec<(i64, i64)>,
    pub(super) facts: Facts,
    /// What threads had allocated before, if the recording has a baseline.
    pub(super) history: Option<History>,
    names_left: usize,
    made_left: usize,
}

impl Recording {
    /// Nothing yet, of a file with so many bytes.
    pub(super) fn new(bytes: usize) -> Recording {
        let left = |multiple: usize| bytes.saturating_mul(multiple).saturating_add(NAMES_FREE);
        Recording {
            strings: StringTable::default(),
            index: StringIndex::default(),
            frames: Interned::default(),
            stacks: Stacks::default(),
            threads: Interned::default(),
            samples: Default::default(),
            blocks: HashMap::default(),
            times: Vec::new(),
            facts: Facts::default(),
            history: None,
            names_left: left(NAME_MULTIPLE),
            made_left: left(MADE_MULTIPLE),
        }
    }

    /// The id of a name.
    ///
    /// # Errors
    /// [`Error::TooLarge`] when the names are larger than a recording of that size can have.
    pub(super) fn intern(&mut self, name: &str) -> Result<StringId> {
        let too_large = || Error::TooLarge {
            format: NAME,
            what: "the size of names, in times the recording's,",
            limit: NAME_MULTIPLE as u64,
        };
        self.made_left = self.made_left.checked_sub(name.len()).ok_or_else(too_large)?;
        let known = self.strings.len();
        let id = self.index.intern(&mut self.strings, name).ok_or_else(too_large)?;
        if self.strings.len() > known {
            self.names_left = self.names_left.checked_sub(name.len()).ok_or_else(too_large)?;
        }
        Ok(id)
    }

    /// Adds to a sample, and gives its position among the measure's.
    pub(super) fn add(&mut self, measure: Measure, key: Key, values: [u64; 2]) -> u32 {
        let samples = &mut self.samples[measure as usize];
        let place = *samples.places.entry(key).or_insert_with(|| {
            samples.all.push((key, [0; 2]));
            samples.all.len() as u32 - 1
        });
        let sums = &mut samples.all[place as usize].1;
        *sums = [sums[0].saturating_add(values[0]), sums[1].saturating_add(values[1])];
        place
    }

    /// Takes from the samples of allocations what the baseline shows to have been allocated before.
    pub(super) fn leave_out_history(&mut self) {
        for (place, bytes) in self.history.take().iter().flat_map(History::excess) {
            let sum = &mut self.samples[Measure::AllocationSample as usize].all[place as usize].1[1];
            let bytes = bytes.min(*sum);
            *sum -= bytes;
            self.facts.allocated_before = self.facts.allocated_before.saturating_add(bytes);
        }
    }

    /// When the first chunk began, and for how long something was recorded: times that two chunks share count once,
    /// gaps do not.
    pub(super) fn window(&self) -> (i64, i64) {
        let mut times = self.times.clone();
        times.sort_unstable();
        let (mut duration, mut until) = (0i64, i64::MIN);
        for (start, end) in &times {
            duration = duration.saturating_add(end.saturating_sub(until.max(*start)).max(0));
            until = until.max(*end);
        }
        (times.first().map_or(0, |(start, _)| *start), duration)
    }
}
