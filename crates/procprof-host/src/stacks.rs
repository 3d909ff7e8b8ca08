//! The samples of a recording: stacks without repetition, and how often each was seen.
//!
//! An address is kept as that of the mapping in which its image was first seen, so that the code of a program that many
//! processes run is one location.

use std::sync::Arc;

use foldhash::{HashMap, HashMapExt};
use procprof_profile::perf_event::{CodeMappings, MappedCode};

use crate::membership::Membership;
use crate::waits::Amount;

/// Whose sample it is.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Owner {
    pub(crate) pid: u32,
    pub(crate) process: String,
    /// Id and name, where threads are told apart.
    pub(crate) thread: Option<(u32, String)>,
    pub(crate) membership: Arc<Membership>,
    /// Whether its thread runs or why not, where a profile has time of several kinds.
    pub(crate) state: Option<&'static str>,
    /// What it waits for, if that is known.
    pub(crate) reason: Option<&'static str>,
}

/// A frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) enum Frame {
    /// Code of a mapping.
    Code(u32, u64),
    /// Code of the kernel.
    Kernel(u64),
    /// An address in no code of the process.
    Nowhere(u64),
    /// A row that stands for what is not known.
    Note(&'static str),
}

/// The number of a stack.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct StackId(u32);

/// The collected samples.
#[derive(Debug, Default)]
pub(crate) struct Stacks {
    pub(crate) mappings: CodeMappings,
    frames: HashMap<Frame, u32>,
    pub(crate) all_frames: Vec<Frame>,
    stacks: HashMap<Box<[u32]>, StackId>,
    owners: HashMap<Owner, u32>,
    pub(crate) all_owners: Vec<Owner>,
    amounts: HashMap<(u32, StackId), Amount>,
    /// The numbers of the frames of the stack at hand.
    numbers: Vec<u32>,
}

impl Stacks {
    /// The frame at an address of mapped code.
    pub(crate) fn code_frame(&mut self, mapped: &MappedCode, address: u64) -> Frame {
        let (number, address) = self.mappings.place(mapped, address);
        Frame::Code(number, address)
    }

    /// The number of a stack, leaf first.
    pub(crate) fn stack(&mut self, stack: &[Frame]) -> StackId {
        self.numbers.clear();
        for frame in stack {
            let number = *self.frames.entry(*frame).or_insert_with(|| {
                self.all_frames.push(*frame);
                self.all_frames.len() as u32 - 1
            });
            self.numbers.push(number);
        }
        match self.stacks.get(&*self.numbers) {
            Some(stack) => *stack,
            None => {
                let number = StackId(self.stacks.len() as u32);
                self.stacks.insert(self.numbers.as_slice().into(), number);
                number
            }
        }
    }

    /// Adds what a stack was seen for.
    pub(crate) fn add(&mut self, owner: &Owner, stack: StackId, amount: Amount) {
        let owner = match self.owners.get(owner) {
            Some(owner) => *owner,
            None => {
                self.all_owners.push(owner.clone());
                let number = self.owners.len() as u32;
                self.owners.insert(owner.clone(), number);
                number
            }
        };
        self.amounts.entry((owner, stack)).or_default().add(amount);
    }

    /// Of the owners that `takes` chooses, owner, frames from leaf to root, and the amount; the longest time first.
    pub(crate) fn samples(&self, takes: impl Fn(&Owner) -> bool) -> Vec<(&Owner, &[u32], Amount)> {
        let taken: Vec<bool> = self.all_owners.iter().map(takes).collect();
        let by_number = self.by_number();
        let mut samples: Vec<_> = self
            .amounts
            .iter()
            .filter(|((owner, _), _)| taken[*owner as usize])
            .map(|((owner, stack), amount)| (&self.all_owners[*owner as usize], by_number[stack], *amount))
            .collect();
        let order = |amount: &Amount| std::cmp::Reverse((amount.nanos, amount.count));
        samples.sort_by(|a, b| order(&a.2).cmp(&order(&b.2)).then(a.0.pid.cmp(&b.0.pid)).then_with(|| a.1.cmp(b.1)));
        samples
    }

    /// Each owner with all that was seen of it.
    pub(crate) fn totals(&self) -> Vec<(&Owner, Amount)> {
        let mut totals = vec![Amount::default(); self.all_owners.len()];
        self.amounts.iter().for_each(|((owner, _), amount)| totals[*owner as usize].add(*amount));
        self.all_owners.iter().zip(totals).collect()
    }

    fn by_number(&self) -> HashMap<StackId, &[u32]> {
        let mut by_number: HashMap<StackId, &[u32]> = HashMap::with_capacity(self.stacks.len());
        by_number.extend(self.stacks.iter().map(|(frames, number)| (*number, &**frames)));
        by_number
    }

    /// Takes stacks over from `old`; returns their numbers here.
    pub(crate) fn carry(&mut self, old: &Self, ids: impl IntoIterator<Item = StackId>) -> HashMap<StackId, StackId> {
        let by_number = old.by_number();
        let mut carried = HashMap::default();
        for id in ids {
            let frames: Vec<Frame> =
                by_number[&id].iter().map(|number| self.carried_frame(old, old.all_frames[*number as usize])).collect();
            carried.insert(id, self.stack(&frames));
        }
        carried
    }

    fn carried_frame(&mut self, old: &Self, frame: Frame) -> Frame {
        let Frame::Code(mapping, address) = frame else { return frame };
        self.code_frame(&old.mappings.all()[mapping as usize], address)
    }
}
