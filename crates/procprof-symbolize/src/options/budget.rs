//! The memory that looking up addresses may take.

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};

use crate::Resolved;

/// Bytes that one address takes in the tables of a batch: its place, the unit that answers it, the symbol that covers
/// it.
const ADDRESS_BYTES: u64 = 256;

/// A limit of the memory that looking up addresses allocates, shared by its clones and all images opened with them.
///
/// Decompressed sections, and debug information that is kept until an answer is complete, are counted as they are
/// allocated; the memory for reading a unit is estimated from its size. If too little is left, a unit is not read and
/// its addresses are [left out](MemoryBudget::left_out): they have the name of a symbol table or
/// [`crate::Reason::OverMemory`]. Mapped files and the profile itself are not counted.
#[derive(Debug, Clone)]
pub struct MemoryBudget(Arc<Counts>);

#[derive(Debug)]
struct Counts {
    bytes: u64,
    /// Negative if a unit took more than was estimated.
    left: AtomicI64,
    left_out: AtomicU64,
}

impl PartialEq for MemoryBudget {
    /// Whether both are the same budget.
    fn eq(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }
}

impl Eq for MemoryBudget {}

impl MemoryBudget {
    /// A budget of that many bytes.
    pub fn new(bytes: u64) -> Self {
        let left = AtomicI64::new(i64::try_from(bytes).unwrap_or(i64::MAX));
        Self(Arc::new(Counts { bytes, left, left_out: AtomicU64::new(0) }))
    }

    /// Its size, bytes.
    pub fn bytes(&self) -> u64 {
        self.0.bytes
    }

    /// The number of addresses that were not looked up in existing debug information for lack of memory.
    pub fn left_out(&self) -> u64 {
        self.0.left_out.load(Ordering::Relaxed)
    }

    /// The remaining bytes.
    pub(crate) fn left(&self) -> u64 {
        u64::try_from(self.0.left.load(Ordering::Relaxed)).unwrap_or(0)
    }

    /// Reserves memory for the tables of these addresses; returns how many fit.
    pub(crate) fn take_addresses(&self, count: usize) -> usize {
        let fitting = usize::try_from(self.left() / ADDRESS_BYTES).unwrap_or(usize::MAX).min(count);
        self.spend(fitting as u64 * ADDRESS_BYTES);
        fitting
    }

    /// Frees the memory for the tables of that many addresses, except for the answers.
    pub(crate) fn give_back_addresses(&self, count: usize) {
        self.give_back(count as u64 * (ADDRESS_BYTES - size_of::<Resolved>() as u64));
    }

    /// Takes that much if it is left.
    pub(crate) fn take(&self, bytes: u64) -> bool {
        let amount = i64::try_from(bytes).unwrap_or(i64::MAX);
        let is_enough = self.0.left.fetch_sub(amount, Ordering::Relaxed) >= amount;
        if !is_enough {
            self.give_back(bytes);
        }
        is_enough
    }

    /// Counts memory that is already allocated.
    pub(crate) fn spend(&self, bytes: u64) {
        self.0.left.fetch_sub(i64::try_from(bytes).unwrap_or(i64::MAX), Ordering::Relaxed);
    }

    pub(crate) fn give_back(&self, bytes: u64) {
        self.0.left.fetch_add(i64::try_from(bytes).unwrap_or(i64::MAX), Ordering::Relaxed);
    }

    pub(crate) fn leave_out(&self, addresses: usize) {
        self.0.left_out.fetch_add(addresses as u64, Ordering::Relaxed);
    }
}

/// The memory that opening an image takes of the budget, freed on drop.
pub(crate) struct Room<'m> {
    memory: Option<&'m MemoryBudget>,
    decompressed_bytes_max: u64,
    taken: u64,
}

impl<'m> Room<'m> {
    /// Takes nothing yet; at most `decompressed_bytes_max` may be decompressed, whatever the budget.
    pub(crate) fn new(memory: Option<&'m MemoryBudget>, decompressed_bytes_max: u64) -> Self {
        Self { memory, decompressed_bytes_max, taken: 0 }
    }

    /// The bytes that may be decompressed.
    pub(crate) fn left(&self) -> u64 {
        self.memory.map_or(u64::MAX, MemoryBudget::left).min(self.decompressed_bytes_max)
    }

    /// Counts what was allocated.
    pub(crate) fn add(&mut self, bytes: usize) {
        self.taken += bytes as u64;
        self.memory.iter().for_each(|memory| memory.spend(bytes as u64));
    }
}

impl Drop for Room<'_> {
    fn drop(&mut self) {
        self.memory.iter().for_each(|memory| memory.give_back(self.taken));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_taken_is_bounded_and_what_was_allocated_counts_all_the_same() {
        let budget = MemoryBudget::new(1000);
        assert!(budget.take(600) && !budget.take(600) && budget.left() == 400);
        budget.spend(700);
        assert_eq!(budget.clone().left(), 0, "clones share it");
        assert!(!budget.take(1));
        budget.give_back(1000);
        assert_eq!(budget.left(), 700);
        assert_eq!((budget.take_addresses(1), budget.take_addresses(9), budget.take_addresses(9)), (1, 1, 0));
        budget.leave_out(8);
        assert_eq!((budget.left_out(), budget.bytes()), (8, 1000));
        assert!(budget == budget.clone() && budget != MemoryBudget::new(1000));
    }
}
