//! Stacks merged into a tree that is laid out in preorder at once.
//!
//! Samples whose stacks are alike so far are a group. A group is one node; parted by the next frame from the root, in the order of
//! siblings, it becomes the groups of the node's children. So no node is ever looked up, and most of a large profile, where stacks have
//! come apart, is walked stack by stack.

use procprof_profile::{LocationId, Profile, Sample};

use super::{Inlined, Node};
use crate::frame::{Frame, Frames};

/// Nodes for which there is room at first: so many for each sample, and at most so many.
const SAMPLE_NODES: usize = 32;
const ROOM_MAX: usize = 2 << 20;

/// A sample on its way from the root to its leaf.
struct Walker<'p> {
    /// What is left of its stack.
    stack: &'p [LocationId],
    /// What is left of the inlined frames of the location at hand.
    lines: &'p [Step],
    value: i64,
    /// Whether its last step was into an inlined frame.
    inlined: bool,
}

/// A frame, and whether it was inlined into the one before.
type Step = (u32, bool);

impl<'p> Walker<'p> {
    fn step(&mut self, frames: &'p Frames) -> Option<u32> {
        if self.lines.is_empty() {
            let (outermost, rest) = self.stack.split_last()?;
            self.stack = rest;
            self.lines = frames.of(*outermost);
        }
        let ((frame, inlined), rest) = self.lines.split_last()?;
        self.lines = rest;
        self.inlined = *inlined;
        Some(*frame)
    }
}

/// Samples, by their positions in [`Merging::order`], that have come to the same node.
struct Group {
    begin: usize,
    end: usize,
    frame: u32,
    depth: u32,
}

struct Merging<'p> {
    frames: &'p Frames,
    /// For each frame its place among siblings, and back.
    rank: Vec<u32>,
    by_rank: Vec<u32>,
    walkers: Vec<Walker<'p>>,
    /// Which walkers are in the groups; those of a group are together.
    order: Vec<u32>,
    waiting: Vec<Group>,
    laid: Vec<Node>,
    /// The nodes from the root to the last.
    open: Vec<usize>,
}

/// What is merged.
pub(super) struct Stacks<'p> {
    pub(super) profile: &'p Profile,
    pub(super) frames: &'p Frames,
    /// The frame of the root.
    pub(super) root: u32,
    /// What samples without a stack are in.
    pub(super) bare: [Step; 1],
    pub(super) sample_type: usize,
}

impl<'p> Stacks<'p> {
    /// The nodes that the samples make, and how many samples there are.
    pub(super) fn merged(&'p self, is_kept: impl Fn(&Sample<'_>) -> bool) -> (Vec<Node>, usize) {
        let walker = |sample: Sample<'p>| {
            let lines: &[Step] = if sample.stack.is_empty() { &self.bare } else { &[] };
            Walker { stack: sample.stack, lines, value: sample.values[self.sample_type], inlined: false }
        };
        let walkers: Vec<Walker<'p>> = self.profile.samples().filter(is_kept).map(walker).collect();
        let by_rank = by_name(&self.frames.frames);
        let mut rank = vec![0; by_rank.len()];
        by_rank.iter().zip(0..).for_each(|(frame, place)| rank[*frame as usize] = place);
        let samples = walkers.len();
        // A list of that many that grows is copied again and again; memory that is not written to is not taken.
        let room = samples.saturating_mul(SAMPLE_NODES).min(ROOM_MAX);
        let mut merging = Merging {
            frames: self.frames,
            rank,
            by_rank,
            walkers,
            order: (0..samples as u32).collect(),
            waiting: vec![Group { begin: 0, end: samples, frame: self.root, depth: 0 }],
            laid: Vec::with_capacity(room),
            open: Vec::new(),
        };
        merging.run();
        (merging.laid, samples)
    }
}

impl Merging<'_> {
    fn run(&mut self) {
        let mut steps: Vec<u64> = Vec::new();
        while let Some(group) = self.waiting.pop() {
            self.close(group.depth as usize);
            let inlined = self.inlined(&group);
            self.lay(group.frame, group.depth, inlined);
            if group.end - group.begin == 1 {
                self.walk_alone(self.order[group.begin] as usize);
            } else {
                self.part(&group, &mut steps);
            }
        }
        self.close(0);
    }

    fn inlined(&self, group: &Group) -> Inlined {
        let mut steps = self.order[group.begin..group.end].iter().map(|walker| self.walkers[*walker as usize].inlined);
        let first = steps.next().unwrap_or(false);
        match (first, steps.all(|inlined| inlined == first)) {
            (true, true) => Inlined::Fully,
            (false, true) => Inlined::No,
            (_, false) => Inlined::Partly,
        }
    }

    /// Adds a node to the last one.
    fn lay(&mut self, frame: u32, depth: u32, inlined: Inlined) {
        self.open.push(self.laid.len());
        self.laid.push(Node { frame, depth, end: 0, total: 0, flat: 0, inlined });
    }

    /// Adds the value of a sample to the last node, where it ends.
    fn charge(&mut self, walker: usize) {
        let value = self.walkers[walker].value;
        if let Some(node) = self.laid.last_mut() {
            node.flat = node.flat.saturating_add(value);
            node.total = node.flat;
        }
    }

    fn walk_alone(&mut self, walker: usize) {
        while let Some(frame) = self.walkers[walker].step(self.frames) {
            let inlined = if self.walkers[walker].inlined { Inlined::Fully } else { Inlined::No };
            self.lay(frame, self.open.len() as u32, inlined);
        }
        self.charge(walker);
    }

    /// Makes the groups of the children. `steps` is room for the group's next frames.
    fn part(&mut self, group: &Group, steps: &mut Vec<u64>) {
        steps.clear();
        for place in group.begin..group.end {
            let walker = self.order[place];
            match self.walkers[walker as usize].step(self.frames) {
                Some(frame) => steps.push(u64::from(self.rank[frame as usize]) << 32 | u64::from(walker)),
                None => self.charge(walker as usize),
            }
        }
        steps.sort_unstable();
        let first = self.waiting.len();
        let mut begin = group.begin;
        for child in steps.chunk_by(|one, other| one >> 32 == other >> 32) {
            let end = begin + child.len();
            self.order[begin..end].iter_mut().zip(child).for_each(|(walker, step)| *walker = *step as u32);
            let frame = self.by_rank[(child[0] >> 32) as usize];
            self.waiting.push(Group { begin, end, frame, depth: group.depth + 1 });
            begin = end;
        }
        // They are taken from the end.
        self.waiting[first..].reverse();
    }

    /// Ends the nodes from a depth on, and adds each to its parent.
    fn close(&mut self, depth: usize) {
        while self.open.len() > depth {
            let Some(done) = self.open.pop() else { return };
            self.laid[done].end = self.laid.len() as u32;
            if let Some(parent) = self.open.last() {
                self.laid[*parent].total = self.laid[*parent].total.saturating_add(self.laid[done].total);
            }
        }
    }
}

/// The frames in the order of siblings.
fn by_name(frames: &[Frame]) -> Vec<u32> {
    let mut order: Vec<u32> = (0..frames.len() as u32).collect();
    order.sort_by(|a, b| frames[*a as usize].cmp(&frames[*b as usize]));
    order
}
