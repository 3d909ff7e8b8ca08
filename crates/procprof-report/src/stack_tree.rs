//! The merged call tree of a profile: equal paths from the root are one node.
//!
//! Nodes lie in preorder, siblings ordered by name, so the same profile always gives the same tree whatever the order of its samples.
//! Nothing here recurses: a stack may be as deep as the formats allow. The sum of all flat values is the total of the samples shown.

use procprof_profile::Profile;
use rustc_hash::FxHashMap;

use crate::frame::{Frame, Frames};
use crate::place::Detail;
use crate::selection::Selection;
use crate::{Error, Options, Result};

/// How the calls that make a node were compiled.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Inlined {
    /// Real calls.
    No,
    /// Some real, some inlined.
    Partly,
    /// All inlined into the parent.
    Fully,
}

/// One node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Node {
    /// Position in [`StackTree::frames`].
    pub frame: u32,
    /// Distance from the root, whose depth is 0.
    pub depth: u32,
    /// Position past the last node below this one.
    pub end: u32,
    /// Value of this node and all below it, in the unit of the sample type.
    pub total: i64,
    /// Value of this node alone.
    pub flat: i64,
    /// Whether it was inlined into its parent.
    pub inlined: Inlined,
}

/// A call tree for one sample type.
#[derive(Clone, Debug)]
pub struct StackTree {
    /// All frames; a node names one by its position.
    pub frames: Vec<Frame>,
    /// All nodes in preorder; the first is the root, which stands for all stacks.
    pub nodes: Vec<Node>,
    /// Index of the sample type.
    pub sample_type: usize,
    /// Total of the profile, before filters and `root`.
    pub profile_total: i64,
    /// Samples that are in the tree.
    pub samples: usize,
}

struct Building {
    frame: u32,
    parent: u32,
    flat: i64,
    called: bool,
    inlined: bool,
}

/// A tree that stacks are added to, frame by frame from the root.
struct Growing {
    nodes: Vec<Building>,
    /// Node by parent and frame.
    children: FxHashMap<(u32, u32), u32>,
    /// The nodes of the last stack: the next one often begins alike, and then needs no look-up.
    path: Vec<u32>,
    depth: usize,
}

impl Growing {
    fn new(root_frame: u32) -> Growing {
        let root = Building { frame: root_frame, parent: 0, flat: 0, called: true, inlined: false };
        Growing { nodes: vec![root], children: FxHashMap::default(), path: vec![0], depth: 0 }
    }

    /// Goes back to the root.
    fn restart(&mut self) {
        self.path.truncate(self.depth + 1);
        self.depth = 0;
    }

    /// Goes to the child with that frame, which may be new.
    fn step(&mut self, frame: u32, inlined: bool) {
        let parent = self.path[self.depth];
        self.depth += 1;
        let as_before = self.path.get(self.depth).copied().filter(|node| self.nodes[*node as usize].frame == frame);
        let node = as_before.unwrap_or_else(|| {
            self.path.truncate(self.depth);
            let nodes = &mut self.nodes;
            let node = *self.children.entry((parent, frame)).or_insert_with(|| {
                nodes.push(Building { frame, parent, flat: 0, called: false, inlined: false });
                nodes.len() as u32 - 1
            });
            self.path.push(node);
            node
        });
        let reached = &mut self.nodes[node as usize];
        reached.called |= !inlined;
        reached.inlined |= inlined;
    }

    /// Adds a value to the node reached.
    fn charge(&mut self, value: i64) {
        let flat = &mut self.nodes[self.path[self.depth] as usize].flat;
        *flat = flat.saturating_add(value);
    }
}

/// The name of the root node's frame.
const ROOT: &str = "all";
/// The frame that samples without a stack are charged to.
const NO_STACK: &str = "[no stack]";

impl StackTree {
    /// Merges the stacks that the filters leave, and keeps what is below the path `root`.
    ///
    /// # Errors
    /// [`Error::Value`] when the profile has no such sample type or no such path, or means are asked for.
    pub fn new(profile: &Profile, options: &Options) -> Result<StackTree> {
        let sample_type = options.sample_type(profile)?;
        if options.mean {
            return Err(Error::value(
                "mean",
                "true",
                "a call tree holds sums; top, tree, peek, list, traces, dot and callgrind show means",
            ));
        }
        let profile_total = options.divided(profile.total(sample_type));
        let selection = Selection::new(profile, options)?.divided(options)?;
        let profile = selection.profile();
        let mut frames = Frames::new(profile, Detail::asked(options));
        let root_frame = frames.remark(ROOT);
        let mut growing = Growing::new(root_frame);
        let mut samples = 0;
        let is_dropped = |value: i64| options.drop_negative && value < 0;
        for sample in profile.samples().filter(|sample| !is_dropped(sample.values[sample_type])) {
            samples += 1;
            growing.restart();
            for location in sample.stack.iter().rev() {
                frames.of(*location).iter().rev().for_each(|(frame, inlined)| growing.step(*frame, *inlined));
            }
            if sample.stack.is_empty() {
                growing.step(frames.remark(NO_STACK), false);
            }
            growing.charge(sample.values[sample_type]);
        }
        let nodes = preorder(&growing.nodes, &frames.frames);
        let tree = StackTree { frames: frames.frames, nodes, sample_type, profile_total, samples };
        tree.below(&options.root)
    }

    /// Value of all samples in the tree.
    pub fn total(&self) -> i64 {
        self.nodes[0].total
    }

    /// The frame of a node.
    pub fn frame(&self, node: &Node) -> &Frame {
        &self.frames[node.frame as usize]
    }

    /// Only the node at the end of the path with what is below it; the path itself stays as single nodes above.
    fn below(mut self, path: &[String]) -> Result<StackTree> {
        let mut kept = vec![self.nodes[0].clone()];
        let mut at = 0usize;
        for name in path {
            let found = self.children(at).find(|child| self.frame(&self.nodes[*child]).name == *name);
            at = found.ok_or_else(|| Error::value("root", name, "no such frame at this step of the path"))?;
            kept.push(self.nodes[at].clone());
        }
        if path.is_empty() {
            return Ok(self);
        }
        let (total, end) = (self.nodes[at].total, self.nodes[at].end as usize);
        let length = (end - at - 1 + kept.len()) as u32;
        let shift = (at + 1) as u32 - kept.len() as u32;
        let last = kept.len() - 1;
        for node in &mut kept {
            (node.total, node.end) = (total, length);
        }
        kept[..last].iter_mut().for_each(|node| node.flat = 0);
        kept.extend(self.nodes[at + 1..end].iter().map(|node| Node { end: node.end - shift, ..node.clone() }));
        self.nodes = kept;
        Ok(self)
    }

    /// Positions of the nodes directly below one, in order.
    pub fn children(&self, node: usize) -> impl Iterator<Item = usize> + '_ {
        let end = self.nodes[node].end as usize;
        let mut next = node + 1;
        std::iter::from_fn(move || {
            let child = next;
            (child < end).then(|| {
                next = self.nodes[child].end as usize;
                child
            })
        })
    }
}

/// Orders siblings by name, lays the nodes out and sums totals from the leaves up.
fn preorder(nodes: &[Building], frames: &[Frame]) -> Vec<Node> {
    let rank = ranks(frames);
    let mut first = vec![0usize; nodes.len() + 1];
    nodes[1..].iter().for_each(|node| first[node.parent as usize + 1] += 1);
    (1..first.len()).for_each(|index| first[index] += first[index - 1]);
    let mut free = first.clone();
    let mut children = vec![0u32; nodes.len() - 1];
    for (child, node) in nodes.iter().enumerate().skip(1) {
        let place = &mut free[node.parent as usize];
        children[*place] = child as u32;
        *place += 1;
    }
    // Last sibling first: they are taken from the top of a stack.
    let rank_of = |child: &u32| std::cmp::Reverse(rank[nodes[*child as usize].frame as usize]);
    first.windows(2).for_each(|range| children[range[0]..range[1]].sort_unstable_by_key(rank_of));

    let mut laid: Vec<Node> = Vec::with_capacity(nodes.len());
    let mut waiting = vec![(0u32, 0u32)];
    let mut open: Vec<usize> = Vec::new();
    while let Some((node, depth)) = waiting.pop() {
        close(&mut laid, &mut open, depth as usize);
        let Building { frame, flat, called, inlined, .. } = nodes[node as usize];
        let inlined = match (called, inlined) {
            (false, true) => Inlined::Fully,
            (true, true) => Inlined::Partly,
            (_, false) => Inlined::No,
        };
        open.push(laid.len());
        laid.push(Node { frame, depth, end: 0, total: flat, flat, inlined });
        let below = &children[first[node as usize]..first[node as usize + 1]];
        waiting.extend(below.iter().map(|child| (*child, depth + 1)));
    }
    close(&mut laid, &mut open, 0);
    laid
}

/// Ends the nodes that are open below a depth and adds each to its parent.
fn close(laid: &mut [Node], open: &mut Vec<usize>, depth: usize) {
    while open.len() > depth {
        let Some(done) = open.pop() else { return };
        laid[done].end = laid.len() as u32;
        if let Some(parent) = open.last() {
            laid[*parent].total = laid[*parent].total.saturating_add(laid[done].total);
        }
    }
}

/// For each frame its place in the order by name.
fn ranks(frames: &[Frame]) -> Vec<u32> {
    let mut order: Vec<u32> = (0..frames.len() as u32).collect();
    order.sort_by(|a, b| frames[*a as usize].cmp(&frames[*b as usize]));
    let mut ranks = vec![0; frames.len()];
    order.iter().enumerate().for_each(|(rank, frame)| ranks[*frame as usize] = rank as u32);
    ranks
}

#[cfg(test)]
mod tests;
