//! Stacks of addresses with their values, as jeprof adds, subtracts and sums them.

use std::rc::Rc;

use rustc_hash::FxHashMap;

/// Position of an address in [`Pcs`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct PcId(pub(super) u32);

impl PcId {
    pub(super) fn index(self) -> usize {
        self.0 as usize
    }
}

/// Every address of the profiles that are read together, each once.
#[derive(Debug, Default)]
pub struct Pcs {
    addresses: Vec<u64>,
    ids: FxHashMap<u64, PcId>,
}

impl Pcs {
    /// The id of an address; a new one is added.
    pub(super) fn id(&mut self, address: u64) -> PcId {
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
    entries: Vec<(Rc<[PcId]>, f64)>,
    positions: FxHashMap<Rc<[PcId]>, usize>,
}

impl Stacks {
    /// Adds to the value of a stack.
    pub(super) fn add(&mut self, stack: &[PcId], value: f64) {
        match self.positions.get(stack) {
            Some(position) => self.entries[*position].1 += value,
            None => {
                let stack: Rc<[PcId]> = stack.into();
                self.positions.insert(stack.clone(), self.entries.len());
                self.entries.push((stack, value));
            }
        }
    }

    /// Adds all stacks of another profile.
    pub fn add_all(&mut self, other: &Stacks) {
        for (stack, value) in other.iter() {
            self.add(stack, value);
        }
    }

    /// What is left when another profile is taken away. With `drop_negative` a difference below 0
    /// counts as 0, and stacks of the other profile alone are left out.
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
        self.entries.iter().fold(0.0, |sum, (_, value)| sum + value)
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = (&[PcId], f64)> {
        self.entries.iter().map(|(stack, value)| (&**stack, *value))
    }

    fn value(&self, stack: &[PcId]) -> Option<f64> {
        self.positions.get(stack).map(|position| self.entries[*position].1)
    }
}

/// What becomes of differences below 0.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Negative {
    /// They stay.
    Keep,
    /// They count as 0.
    Drop,
}
