//! What threads had allocated before a recording, which the JDK counts into the first sample of each.
//!
//! The weight of a `jdk.ObjectAllocationSample` is what its thread has allocated since its last sample in any
//! recording: since its start, if it has none. What a thread has allocated between the baseline and the last
//! `jdk.ThreadAllocationStatistics` is the most that its samples can count; what they count beyond that is taken from
//! the first of them. Threads that the baseline lacks were started later.

use foldhash::HashMap;

use super::BASELINE;
use super::chunk::Chunk;
use super::constants::Constants;
use super::counts::Key;
use super::plan::SLOTS;
use super::schema::{Kind, Schema};

/// The allocations of one thread.
#[derive(Clone, Copy, Debug)]
struct Thread<P> {
    /// When the first and the last were sampled, in ticks.
    at: u64,
    until: u64,
    /// What it counts towards.
    first: P,
    /// Its bytes, and those of all.
    weight: u64,
    total: u64,
}

/// The allocations of each thread in a chunk, by its number.
#[derive(Debug, Default)]
pub(super) struct Allocations(HashMap<u64, Thread<Key>>);

impl Allocations {
    #[inline]
    pub(super) fn add(&mut self, key: Key, at: u64, weight: u64) {
        let thread = self.0.entry(key.1).or_insert(Thread { at: u64::MAX, until: 0, first: key, weight: 0, total: 0 });
        (thread.until, thread.total) = (thread.until.max(at), thread.total.saturating_add(weight));
        if at < thread.at {
            (thread.at, thread.first, thread.weight) = (at, key, weight);
        }
    }

    /// Whether a thread's first sample is of this key.
    pub(super) fn begins(&self, key: Key) -> bool {
        self.0.get(&key.1).is_some_and(|thread| thread.first == key)
    }
}

/// Whether a chunk with these settings and the like is a baseline.
pub(super) fn is_baseline(
    chunk: &Chunk<'_>,
    schema: &Schema,
    constants: &Constants,
    notes: &[(usize, [u64; SLOTS])],
) -> bool {
    let mut names = notes.iter().filter(|(index, _)| schema.events[*index].kind == Kind::Name);
    names.any(|(_, slots)| constants.text(chunk, schema, slots[1]).is_some_and(|name| name.ends_with(BASELINE)))
}

/// What threads have allocated by their own account, and what samples count of it.
#[derive(Debug)]
pub(super) struct History {
    /// Bytes at the baseline.
    before: HashMap<u64, u64>,
    /// The same behind it, with the time.
    latest: HashMap<u64, (u64, u64)>,
    sampled: HashMap<u64, Thread<u32>>,
}

impl History {
    /// The baseline: for each thread when it was counted, and its bytes.
    pub(super) fn new(allocated: HashMap<u64, (u64, u64)>) -> History {
        let before = allocated.into_iter().map(|(thread, (_, bytes))| (thread, bytes)).collect();
        History { before, latest: HashMap::default(), sampled: HashMap::default() }
    }

    /// Adds the allocations of a chunk; `places` are the positions of first samples.
    pub(super) fn add(
        &mut self,
        allocations: Allocations,
        places: &HashMap<Key, u32>,
        allocated: HashMap<u64, (u64, u64)>,
    ) {
        for (number, thread) in allocations.0 {
            let Some(first) = places.get(&thread.first).copied().filter(|_| self.before.contains_key(&number)) else {
                continue;
            };
            let Thread { at, until, weight, total, .. } = thread;
            let known = self.sampled.entry(number).or_insert(Thread { at, until, first, weight, total: 0 });
            (known.until, known.total) = (known.until.max(until), known.total.saturating_add(total));
        }
        for (number, (at, bytes)) in allocated {
            let latest = self.latest.entry(number).or_default();
            *latest = (*latest).max((at, bytes));
        }
    }

    /// The positions of samples, and the bytes that they count but were allocated before.
    pub(super) fn excess(&self) -> impl Iterator<Item = (u32, u64)> {
        self.sampled.iter().map(|(number, thread)| {
            let before = self.before.get(number).copied().unwrap_or(0);
            let excess = match self.latest.get(number) {
                Some((at, bytes)) if *at >= thread.until => thread.total.saturating_sub(bytes.saturating_sub(before)),
                // The thread has ended; its first sample has its history if it has all that was counted by then.
                latest if thread.weight >= latest.map_or(before, |(_, bytes)| *bytes) => before,
                _ => 0,
            };
            (thread.first, excess.min(thread.weight))
        })
    }
}
