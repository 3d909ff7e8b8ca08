//! Stacks merged into a tree whose nodes come in preorder.
//!
//! Samples whose stacks are alike so far are a group. A group is one node; split by the next frame from the root, in
//! the order of siblings, it becomes the groups of the node's children. So no node is ever looked up, and most of a
//! large profile, where stacks have diverged, is walked stack by stack. A [`Sink`] receives the nodes: it makes a list
//! of all of them ([`Laid`]), or lines of text, for which none is kept.

use procprof_profile::{LocationId, Profile, Sample};

use super::{Inlined, Node};
use crate::display::frame::{Frame, Frames};
use crate::output::budget::{Meter, Pace};
use crate::{Budget, Result};

/// The initial capacity for nodes: for each sample, and at most.
const SAMPLE_NODES: usize = 32;
const ROOM_MAX: usize = 2 << 20;

/// A sample on its way from the root to its leaf, or from the leaf to the root.
#[derive(Clone)]
struct Walker<'p> {
    /// The rest of its stack.
    stack: &'p [LocationId],
    /// The rest of the inlined frames of the current location.
    lines: &'p [Step],
    value: i64,
    /// Whether its last step was into an inlined frame.
    inlined: bool,
}

/// A frame, and whether it was inlined into the one before.
type Step = (u32, bool);

impl<'p> Walker<'p> {
    fn step(&mut self, frames: &'p Frames, is_inverted: bool) -> Option<u32> {
        if self.lines.is_empty() {
            let (next, rest) = if is_inverted { self.stack.split_first()? } else { self.stack.split_last()? };
            self.stack = rest;
            self.lines = frames.of_location(*next);
        }
        let next = if is_inverted { self.lines.split_first() } else { self.lines.split_last() };
        let ((frame, inlined), rest) = next?;
        self.lines = rest;
        self.inlined = *inlined;
        Some(*frame)
    }
}

/// Samples, by their positions in [`Merging::order`], that have reached the same node.
struct Group {
    begin: usize,
    end: usize,
    frame: u32,
    depth: u32,
}

/// Receives the nodes in preorder.
pub(crate) trait Sink {
    /// A node begins, below the one that began last at the depth before.
    fn open(&mut self, frame: u32, depth: u32, inlined: Inlined) -> Result<()>;
    /// A sample ends at the node that began last; before any node below it begins.
    fn charge(&mut self, value: i64);
    /// The nodes from a depth on end.
    fn close(&mut self, depth: usize) -> Result<()>;
}

struct Merging<'p, S> {
    frames: &'p Frames,
    /// For each frame its place among siblings, and back.
    rank: Vec<u32>,
    by_rank: Vec<u32>,
    walkers: Vec<Walker<'p>>,
    /// The walkers in the groups; those of a group are together.
    order: Vec<u32>,
    waiting: Vec<Group>,
    is_inverted: bool,
    /// The last frames of each walker, if repeated calls are collapsed; else empty.
    recent: Vec<Recent>,
    sink: &'p mut S,
    pace: Pace<'p>,
}

/// The input.
pub(crate) struct Stacks<'p> {
    pub(crate) profile: &'p Profile,
    pub(crate) frames: &'p Frames,
    /// The frame of the root.
    pub(crate) root: u32,
    /// The frame of samples without a stack.
    pub(crate) bare: [Step; 1],
    pub(crate) sample_type: usize,
    /// Whether stacks are walked from their leaf.
    pub(crate) is_inverted: bool,
    /// Whether calls that repeat the calls just before are left out.
    pub(crate) collapses: bool,
}

impl<'p> Stacks<'p> {
    /// Passes the nodes of the samples to the sink; returns the number of samples.
    pub(crate) fn merge<S: Sink>(
        &'p self,
        is_kept: impl Fn(&Sample<'_>) -> bool,
        budget: &'p Budget,
        sink: &'p mut S,
    ) -> Result<usize> {
        let walker = |sample: Sample<'p>| {
            let lines: &[Step] = if sample.stack.is_empty() { &self.bare } else { &[] };
            Walker { stack: sample.stack, lines, value: sample.values[self.sample_type], inlined: false }
        };
        let walkers: Vec<Walker<'p>> = self.profile.samples().filter(is_kept).map(walker).collect();
        let by_rank = by_name(&self.frames.frames);
        let mut rank = vec![0; by_rank.len()];
        by_rank.iter().zip(0..).for_each(|(frame, place)| rank[*frame as usize] = place);
        let samples = walkers.len();
        let mut merging = Merging {
            frames: self.frames,
            rank,
            by_rank,
            walkers,
            order: (0..samples as u32).collect(),
            waiting: vec![Group { begin: 0, end: samples, frame: self.root, depth: 0 }],
            is_inverted: self.is_inverted,
            recent: if self.collapses { vec![Recent::default(); samples] } else { Vec::new() },
            sink,
            pace: budget.pace(),
        };
        merging.run()?;
        Ok(samples)
    }
}

impl<S: Sink> Merging<'_, S> {
    fn run(&mut self) -> Result<()> {
        let mut steps: Vec<u64> = Vec::new();
        while let Some(group) = self.waiting.pop() {
            self.sink.close(group.depth as usize)?;
            self.sink.open(group.frame, group.depth, self.inlined(&group))?;
            self.pace.steps(group.end - group.begin)?;
            if group.end - group.begin == 1 {
                self.walk_alone(self.order[group.begin] as usize, group.depth)?;
            } else {
                self.part(&group, &mut steps)?;
            }
        }
        self.sink.close(0)
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

    fn walk_alone(&mut self, walker: usize, depth: u32) -> Result<()> {
        let mut depth = depth;
        while let Some(frame) = self.next(walker)? {
            let inlined = if self.walkers[walker].inlined { Inlined::Fully } else { Inlined::No };
            depth += 1;
            self.sink.open(frame, depth, inlined)?;
            self.pace.steps(1)?;
        }
        self.sink.charge(self.walkers[walker].value);
        Ok(())
    }

    /// Makes the groups of the children. `steps` is a buffer for the group's next frames.
    fn part(&mut self, group: &Group, steps: &mut Vec<u64>) -> Result<()> {
        steps.clear();
        for place in group.begin..group.end {
            let walker = self.order[place];
            match self.next(walker as usize)? {
                Some(frame) => steps.push(u64::from(self.rank[frame as usize]) << 32 | u64::from(walker)),
                None => self.sink.charge(self.walkers[walker as usize].value),
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
        Ok(())
    }

    /// The next frame of a walker.
    #[inline]
    fn next(&mut self, walker: usize) -> Result<Option<u32>> {
        let Some(recent) = self.recent.get_mut(walker) else {
            return Ok(self.walkers[walker].step(self.frames, self.is_inverted));
        };
        let ahead = &mut self.walkers[walker];
        while let Some(repeated) =
            (1..=PERIOD_MAX).find(|period| recent.is_repeated(*period, ahead.clone(), self.frames, self.is_inverted))
        {
            for _ in 0..repeated {
                ahead.step(self.frames, self.is_inverted);
            }
            self.pace.steps(repeated)?;
        }
        let frame = ahead.step(self.frames, self.is_inverted);
        frame.into_iter().for_each(|frame| recent.push(frame));
        Ok(frame)
    }
}

/// Most calls of which a repetition is recognized: `a`, `b` and `c` that call each other in this order are three.
const PERIOD_MAX: usize = 8;

/// The last frames of a walker.
#[derive(Clone, Default)]
struct Recent {
    frames: [u32; PERIOD_MAX],
    count: usize,
}

impl Recent {
    fn push(&mut self, frame: u32) {
        self.frames[self.count % PERIOD_MAX] = frame;
        self.count += 1;
    }

    /// Whether the next frames of the walker are the last `period` ones again.
    fn is_repeated<'p>(&self, period: usize, mut ahead: Walker<'p>, frames: &'p Frames, is_inverted: bool) -> bool {
        let Some(first) = self.count.checked_sub(period) else { return false };
        (first..self.count).all(|place| ahead.step(frames, is_inverted) == Some(self.frames[place % PERIOD_MAX]))
    }
}

/// All nodes in a list.
pub(super) struct Laid {
    pub(super) nodes: Vec<Node>,
    /// The nodes from the root to the last.
    open: Vec<usize>,
    meter: Meter,
}

impl Laid {
    /// For the nodes of about that many samples.
    pub(super) fn new(samples: usize, budget: &Budget) -> Laid {
        // A growing list of that many would be copied repeatedly; memory that is not written is not allocated by the
        // kernel.
        let room = samples.saturating_mul(SAMPLE_NODES).min(ROOM_MAX);
        Laid { nodes: Vec::with_capacity(room), open: Vec::new(), meter: budget.meter("the call tree") }
    }
}

impl Sink for Laid {
    fn open(&mut self, frame: u32, depth: u32, inlined: Inlined) -> Result<()> {
        self.meter.take_values::<Node>(1)?;
        self.open.push(self.nodes.len());
        self.nodes.push(Node { frame, depth, end: 0, total: 0, flat: 0, inlined });
        Ok(())
    }

    fn charge(&mut self, value: i64) {
        if let Some(node) = self.nodes.last_mut() {
            node.flat = node.flat.saturating_add(value);
            node.total = node.flat;
        }
    }

    /// Adds each node to its parent.
    fn close(&mut self, depth: usize) -> Result<()> {
        while self.open.len() > depth {
            let Some(done) = self.open.pop() else { break };
            self.nodes[done].end = self.nodes.len() as u32;
            if let Some(parent) = self.open.last() {
                self.nodes[*parent].total = self.nodes[*parent].total.saturating_add(self.nodes[done].total);
            }
        }
        Ok(())
    }
}

/// The frames in the order of siblings.
fn by_name(frames: &[Frame]) -> Vec<u32> {
    let mut order: Vec<u32> = (0..frames.len() as u32).collect();
    order.sort_by(|a, b| frames[*a as usize].cmp(&frames[*b as usize]));
    order
}
