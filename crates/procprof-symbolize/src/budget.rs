//! How much memory looking up addresses may take.

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};

use crate::records::{Node, RawFrame, Record, Row};
use crate::spans::Span;
use crate::unit_batch::{UnitAnswer, UnitAnswers};
use crate::{Frame, Image, Resolved};

/// What one address takes in the tables of a batch, bytes: where it is asked, by which unit it is answered, the
/// symbol that covers it.
const ADDRESS_BYTES: u64 = 256;

/// What an abbreviation of a unit takes, bytes: mostly five attributes of 16.
const ABBREVIATION_BYTES: usize = 160;

/// A bound on the memory that looking up addresses allocates, shared by its clones and all images opened with them.
///
/// What is decompressed and what is kept of debug information until an answer is complete is counted as it is allocated, what reading a unit takes for a moment
/// is estimated from its size. Where too little is left, a unit is not read and its addresses are [left out](MemoryBudget::left_out): they have the name of a
/// symbol table or [`crate::Reason::OverMemory`]. Mapped files are not counted, nor is what a profile takes.
#[derive(Debug, Clone)]
pub struct MemoryBudget(Arc<Counts>);

#[derive(Debug)]
struct Counts {
    bytes: u64,
    /// Less than nothing where a unit took more than was estimated.
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
    /// A budget of so many bytes.
    pub fn of(bytes: u64) -> Self {
        let left = AtomicI64::new(i64::try_from(bytes).unwrap_or(i64::MAX));
        Self(Arc::new(Counts { bytes, left, left_out: AtomicU64::new(0) }))
    }

    /// Its size, bytes.
    pub fn bytes(&self) -> u64 {
        self.0.bytes
    }

    /// How many addresses were not looked up in debug information that is there, for want of memory.
    pub fn left_out(&self) -> u64 {
        self.0.left_out.load(Ordering::Relaxed)
    }

    /// What is left, bytes.
    pub(crate) fn left(&self) -> u64 {
        u64::try_from(self.0.left.load(Ordering::Relaxed)).unwrap_or(0)
    }

    /// How many of these addresses there is room for; it is taken.
    pub(crate) fn take_addresses(&self, count: usize) -> usize {
        let fitting = usize::try_from(self.left() / ADDRESS_BYTES).unwrap_or(usize::MAX).min(count);
        self.spend(fitting as u64 * ADDRESS_BYTES);
        fitting
    }

    /// Gives back what the tables of so many addresses took, but for the answers.
    pub(crate) fn give_back_addresses(&self, count: usize) {
        self.give_back(count as u64 * (ADDRESS_BYTES - size_of::<Resolved>() as u64));
    }

    /// Takes so much if it is left.
    pub(crate) fn take(&self, bytes: u64) -> bool {
        let amount = i64::try_from(bytes).unwrap_or(i64::MAX);
        let is_enough = self.0.left.fetch_sub(amount, Ordering::Relaxed) >= amount;
        if !is_enough {
            self.give_back(bytes);
        }
        is_enough
    }

    /// Counts what was allocated already.
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

/// What opening an image takes of the budget; it is given back when this is dropped.
pub(crate) struct Room<'m> {
    memory: Option<&'m MemoryBudget>,
    decompressed_bytes_max: u64,
    taken: u64,
}

impl<'m> Room<'m> {
    pub(crate) fn of(image: &'m Image) -> Self {
        Self { memory: image.memory.as_ref(), decompressed_bytes_max: image.decompressed_bytes_max, taken: 0 }
    }

    /// How much may be decompressed, bytes.
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

impl UnitAnswers<'_, '_> {
    /// What is kept of the units asked so far, bytes; the frames twice, as they are in the end.
    pub(crate) fn held_bytes(&self) -> u64 {
        let records = self.records.all.capacity() * size_of::<Record>()
            + self.records.nodes.capacity() * size_of::<Node>()
            + self.records.ranges.capacity() * size_of::<(u64, u64)>()
            + self.records.rows.capacity() * size_of::<Span<Row>>();
        let answers = self.answers.capacity() * size_of::<UnitAnswer>() + self.frames.capacity() * size_of::<RawFrame>();
        (records + answers + self.abbreviations * ABBREVIATION_BYTES) as u64 + self.answer_bytes()
    }

    /// What is left of them in the answers, bytes: frames, and the names of functions and files.
    pub(crate) fn answer_bytes(&self) -> u64 {
        (self.frames.len() * size_of::<Frame>() + self.names.held_bytes() + self.files.held_bytes()) as u64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_taken_is_bounded_and_what_was_allocated_counts_all_the_same() {
        let budget = MemoryBudget::of(1000);
        assert!(budget.take(600) && !budget.take(600) && budget.left() == 400);
        budget.spend(700);
        assert_eq!(budget.clone().left(), 0, "clones share it");
        assert!(!budget.take(1));
        budget.give_back(1000);
        assert_eq!(budget.left(), 700);
        assert_eq!((budget.take_addresses(1), budget.take_addresses(9), budget.take_addresses(9)), (1, 1, 0));
        budget.leave_out(8);
        assert_eq!((budget.left_out(), budget.bytes()), (8, 1000));
        assert!(budget == budget.clone() && budget != MemoryBudget::of(1000));
    }
}
