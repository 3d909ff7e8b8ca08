//! What threads had allocated before a recording, which the JDK counts into the first sample of each.
//!
//! The weight of a `jdk.ObjectAllocationSample` is what its thread has allocated since its last sample in any
//! recording: since its start, if it has none. What a thread has allocated between the baseline and the last
//! `jdk.ThreadAllocationStatistics` is the most that its samples can count; what they count beyond that is taken from
//! the first of them. Threads that the baseline lacks were started later.
//!
//! A virtual thread has no account: its samples count what the threads that carry it have allocated. All of them
//! together count at most what other threads have allocated since the baseline and have no samples of; what is beyond
//! that is taken from the largest.

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
    /// The bytes of the largest, and what it counts towards.
    largest: (u64, P),
}

/// Most samples of virtual threads that are remembered: each thread that carries some has one with its history.
const LARGEST_MAX: usize = 1000;

/// The allocations of each thread in a chunk, by its number.
#[derive(Debug, Default)]
pub(super) struct Allocations(HashMap<u64, Thread<Key>>);

impl Allocations {
    #[inline]
    pub(super) fn add(&mut self, key: Key, at: u64, weight: u64) {
        let new = Thread { at: u64::MAX, until: 0, first: key, weight: 0, total: 0, largest: (weight, key) };
        let thread = self.0.entry(key.1).or_insert(new);
        (thread.until, thread.total) = (thread.until.max(at), thread.total.saturating_add(weight));
        thread.largest = thread.largest.max((weight, key));
        if at < thread.at {
            (thread.at, thread.first, thread.weight) = (at, key, weight);
        }
    }

    /// Whether a thread's first or largest sample is of this key.
    pub(super) fn has_noted(&self, key: Key) -> bool {
        self.0.get(&key.1).is_some_and(|thread| thread.first == key || thread.largest.1 == key)
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
    /// Samples of virtual threads: the bytes and positions of the largest, the bytes of all, and the time of the last.
    largest: Vec<(u64, u32)>,
    total: u64,
    until: u64,
}

impl History {
    /// The baseline: for each thread when it was counted, and its bytes.
    pub(super) fn new(allocated: HashMap<u64, (u64, u64)>) -> History {
        let before = allocated.into_iter().map(|(thread, (_, bytes))| (thread, bytes)).collect();
        let (latest, sampled) = Default::default();
        History { before, latest, sampled, largest: Vec::new(), total: 0, until: 0 }
    }

    /// Adds the allocations of a chunk; `places` are the positions of first and largest samples.
    pub(super) fn add(
        &mut self,
        allocations: Allocations,
        places: &HashMap<Key, u32>,
        allocated: HashMap<u64, (u64, u64)>,
        is_virtual: impl Fn(u64) -> bool,
    ) {
        for (number, thread) in allocations.0 {
            let Thread { at, until, first, weight, total, largest: (bytes, largest) } = thread;
            let (Some(first), Some(place)) = (places.get(&first).copied(), places.get(&largest).copied()) else {
                continue;
            };
            if self.before.contains_key(&number) {
                let largest = (bytes, place);
                let new = Thread { at, until, first, weight, total: 0, largest };
                let known = self.sampled.entry(number).or_insert(new);
                (known.until, known.total) = (known.until.max(until), known.total.saturating_add(total));
            } else if !allocated.contains_key(&number) && is_virtual(number) {
                self.largest.push((bytes, place));
                (self.until, self.total) = (self.until.max(until), self.total.saturating_add(total));
            }
        }
        self.largest.sort_unstable_by(|a, b| b.cmp(a));
        self.largest.truncate(LARGEST_MAX);
        for (number, (at, bytes)) in allocated {
            let latest = self.latest.entry(number).or_default();
            *latest = (*latest).max((at, bytes));
        }
    }

    /// The positions of samples, and the bytes that they count but were allocated before.
    pub(super) fn excess(&self) -> impl Iterator<Item = (u32, u64)> {
        let of_threads = self.sampled.iter().map(|(number, thread)| {
            let before = self.before_of(*number);
            let excess = match self.latest.get(number) {
                Some((at, bytes)) if *at >= thread.until => thread.total.saturating_sub(bytes.saturating_sub(before)),
                // The thread has ended; its first sample has its history if it has all that was counted by then.
                latest if thread.weight >= latest.map_or(before, |(_, bytes)| *bytes) => before,
                _ => 0,
            };
            (thread.first, excess.min(thread.weight))
        });
        of_threads.chain(self.excess_of_virtual_threads())
    }

    fn before_of(&self, number: u64) -> u64 {
        self.before.get(&number).copied().unwrap_or(0)
    }

    fn excess_of_virtual_threads(&self) -> Vec<(u32, u64)> {
        // Without a later account of those that carry them, it is not known.
        if self.latest.values().all(|(at, _)| *at < self.until) {
            return Vec::new();
        }
        let without_samples = self.latest.iter().map(|(number, (_, bytes))| {
            let sampled = self.sampled.get(number).map_or(0, |thread| thread.total);
            bytes.saturating_sub(self.before_of(*number)).saturating_sub(sampled)
        });
        let most = without_samples.fold(0, u64::saturating_add);
        let mut excess = self.total.saturating_sub(most);
        let of_largest = self.largest.iter().map(|(bytes, place)| {
            let own = excess.min(*bytes);
            excess -= own;
            (*place, own)
        });
        of_largest.filter(|(_, bytes)| *bytes > 0).collect()
    }
}
