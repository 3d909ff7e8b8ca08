//! Stacks of addresses with their values, as jeprof adds, subtracts and sums them.

mod table;

use std::hash::Hasher;

use foldhash::fast::FoldHasher;
use foldhash::{HashMap, SharedSeed};

use self::table::Table;

/// Position of an address in [`Pcs`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct PcId(pub(crate) u32);

impl PcId {
    pub(crate) fn index(self) -> usize {
        self.0 as usize
    }
}

/// Every address of the profiles that are read together, each once.
#[derive(Debug, Default)]
pub struct Pcs {
    addresses: Vec<u64>,
    ids: HashMap<u64, PcId>,
}

impl Pcs {
    /// The id of an address; a new one is added.
    pub(crate) fn id(&mut self, address: u64) -> PcId {
        *self.ids.entry(address).or_insert_with(|| {
            self.addresses.push(address);
            PcId(self.addresses.len() as u32 - 1)
        })
    }

    /// All addresses, in the order they were met.
    pub fn addresses(&self) -> &[u64] {
        &self.addresses
    }
}

/// Stacks, each once, leaf first, with the sum of its values; in the order they were met.
#[derive(Clone, Debug, Default)]
pub struct Stacks {
    /// Their frames back to back.
    frames: Vec<PcId>,
    /// The end of each in `frames`.
    ends: Vec<usize>,
    values: Vec<f64>,
    positions: Table,
}

impl Stacks {
    /// Adds to the value of a stack.
    pub(crate) fn add(&mut self, stack: &[PcId], value: f64) {
        self.add_frames(stack.iter().copied(), value);
    }

    /// Adds to the value of the stack of these frames.
    pub(crate) fn add_frames(&mut self, stack: impl Iterator<Item = PcId>, value: f64) {
        let start = self.frames.len();
        self.frames.extend(stack);
        let (known, new) = self.frames.split_at(start);
        let is_it = |position: usize| known[range(&self.ends, position)] == *new;
        match self.positions.find_or_insert(hash(new), self.ends.len(), is_it) {
            Some(position) => {
                self.values[position] += value;
                self.frames.truncate(start);
            }
            None => {
                self.ends.push(self.frames.len());
                self.values.push(value);
            }
        }
    }

    /// Makes room for more stacks with that many frames in all.
    pub(crate) fn reserve(&mut self, stacks: usize, frames: usize) {
        self.frames.reserve_exact(frames);
        self.ends.reserve_exact(stacks);
        self.values.reserve_exact(stacks);
    }

    /// Adds all stacks of another profile.
    pub fn add_all(&mut self, other: &Stacks) {
        for (stack, value) in other.iter() {
            self.add(stack, value);
        }
    }

    /// The difference to another profile. With `drop_negative` a difference below 0
    /// counts as 0, and stacks that only the other profile has are left out.
    pub fn without(&self, base: &Stacks, negative: Negative) -> Stacks {
        let mut left = Stacks::default();
        for (stack, value) in self.iter() {
            let difference = value - base.value(stack).unwrap_or(0.0);
            let difference = if negative == Negative::Drop && difference < 0.0 { 0.0 } else { difference };
            left.add(stack, difference);
        }
        if negative == Negative::Keep {
            for (stack, value) in base.iter().filter(|(stack, _)| self.value(stack).is_none()) {
                left.add(stack, 0.0 - value);
            }
        }
        left
    }

    /// The sum of all values.
    pub fn total(&self) -> f64 {
        self.values.iter().fold(0.0, |sum, value| sum + value)
    }

    /// The number of stacks.
    pub(crate) fn len(&self) -> usize {
        self.ends.len()
    }

    /// The frames of the stack at that position.
    #[inline]
    pub(crate) fn frames(&self, position: usize) -> &[PcId] {
        &self.frames[range(&self.ends, position)]
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = (&[PcId], f64)> {
        self.values.iter().enumerate().map(|(position, value)| (self.frames(position), *value))
    }

    fn value(&self, stack: &[PcId]) -> Option<f64> {
        self.positions
            .find(hash(stack), |position| self.frames(position) == stack)
            .map(|position| self.values[position])
    }
}

#[inline]
fn range(ends: &[usize], position: usize) -> std::ops::Range<usize> {
    position.checked_sub(1).map_or(0, |before| ends[before])..ends[position]
}

/// The hash of some frames, two at a time, another one in each process; its upper bits depend on all of them.
#[inline]
fn hash(stack: &[PcId]) -> u64 {
    let mut hasher = FoldHasher::with_seed(0, SharedSeed::global_random());
    let (pairs, last) = stack.as_chunks::<2>();
    for [first, second] in pairs {
        hasher.write_u64(u64::from(first.0) << 32 | u64::from(second.0));
    }
    for frame in last {
        hasher.write_u32(frame.0);
    }
    hasher.finish().wrapping_mul(0x9e37_79b9_7f4a_7c15)
}

/// A part of [`Stacks`]: some of them, each perhaps less its first frames, with values of their own.
#[derive(Debug, Default)]
pub(crate) struct Cuts {
    cuts: Vec<Cut>,
    values: Vec<f64>,
    positions: Table,
}

/// The rest of one stack.
#[derive(Clone, Copy, Debug)]
struct Cut {
    /// The position of the whole stack.
    stack: u32,
    /// The number of removed frames.
    skipped: u32,
}

impl Cut {
    fn frames(self, stacks: &Stacks) -> &[PcId] {
        &stacks.frames(self.stack as usize)[self.skipped as usize..]
    }
}

impl Cuts {
    /// Those for which `skipped` returns a number, without that many frames; equal ones are summed.
    pub(crate) fn new(stacks: &Stacks, skipped: impl Fn(&[PcId]) -> Option<usize>) -> Cuts {
        let mut cuts = Cuts::default();
        cuts.cuts.reserve_exact(stacks.len());
        cuts.values.reserve_exact(stacks.len());
        for (position, (stack, value)) in stacks.iter().enumerate() {
            if let Some(skipped) = skipped(stack) {
                cuts.add(Cut { stack: position as u32, skipped: skipped as u32 }, value, stacks);
            }
        }
        // It is no longer needed.
        cuts.positions = Table::default();
        cuts
    }

    fn add(&mut self, cut: Cut, value: f64, stacks: &Stacks) {
        let new = cut.frames(stacks);
        let is_it = |position: usize| self.cuts[position].frames(stacks) == new;
        match self.positions.find_or_insert(hash(new), self.cuts.len(), is_it) {
            Some(position) => self.values[position] += value,
            None => {
                self.cuts.push(cut);
                self.values.push(value);
            }
        }
    }

    /// The sum of all values.
    pub(crate) fn total(&self) -> f64 {
        self.values.iter().fold(0.0, |sum, value| sum + value)
    }

    /// The rest of `stacks`, to which they belong, in the order it was met.
    pub(crate) fn iter<'a>(&'a self, stacks: &'a Stacks) -> impl Iterator<Item = (&'a [PcId], f64)> {
        self.cuts.iter().map(|cut| cut.frames(stacks)).zip(self.values.iter().copied())
    }
}

/// The treatment of differences below 0.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Negative {
    /// They stay.
    Keep,
    /// They count as 0.
    Drop,
}

#[cfg(test)]
mod tests;
