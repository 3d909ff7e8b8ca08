//! The merged call tree of a profile: equal paths from the root are one node.
//!
//! Nodes lie in preorder, siblings ordered by name, so the same profile always gives the same tree whatever the order
//! of its samples. Nothing here recurses: a stack may be as deep as the formats allow. The sum of all flat values is
//! the total of the samples shown.

pub(crate) mod merge;

use procprof_profile::{Profile, Sample};

use crate::display::frame::{Frame, Frames};
use crate::display::place::Detail;
use crate::selection::Selection;
use crate::{Error, Options, Result};
use merge::{Laid, Sink, Stacks};

/// The kind of calls that make a node.
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
    /// All nodes in preorder; the first is the root, which represents all stacks.
    pub nodes: Vec<Node>,
    /// Index of the sample type.
    pub sample_type: usize,
    /// Total of the profile, before filters and `root`.
    pub profile_total: i64,
    /// Samples that are in the tree.
    pub samples: usize,
}

/// The name of the root node's frame.
const ROOT: &str = "all";
/// The frame that samples without a stack are charged to.
const NO_STACK: &str = "[no stack]";

/// The filtered stacks and their frames, of which a call tree is made.
pub(crate) struct Shown<'a> {
    selection: Selection<'a>,
    pub(crate) frames: Frames,
    pub(crate) sample_type: usize,
    /// Frames of the root, and of samples without a stack.
    pub(crate) root: u32,
    bare: u32,
    options: &'a Options,
}

impl<'a> Shown<'a> {
    /// Takes the filtered profile.
    ///
    /// # Errors
    /// As [`StackTree::new`].
    pub(crate) fn new(profile: &'a Profile, options: &'a Options) -> Result<Shown<'a>> {
        let sample_type = options.sample_type(profile)?;
        if options.mean {
            return Err(Error::value(
                "mean",
                "true",
                "a call tree holds sums; top, tree, peek, list, traces, dot and callgrind show means",
            ));
        }
        let selection = Selection::new(profile, options)?.divided(options)?;
        let mut frames = Frames::new(selection.profile(), Detail::from_options(options), &options.budget)?;
        let root = frames.remark(ROOT);
        let is_bare = |sample: &Sample<'_>| sample.stack.is_empty() && is_kept(options, sample_type, sample);
        let bare =
            if selection.profile().samples().any(|sample| is_bare(&sample)) { frames.remark(NO_STACK) } else { root };
        Ok(Shown { selection, frames, sample_type, root, bare, options })
    }

    /// Passes all nodes to the sink; returns the number of samples in them.
    pub(crate) fn merge(&self, sink: &mut impl Sink) -> Result<usize> {
        let Shown { selection, frames, sample_type, root, bare, options } = self;
        let stacks = Stacks {
            profile: selection.profile(),
            frames,
            root: *root,
            bare: [(*bare, false)],
            sample_type: *sample_type,
            is_inverted: options.invert,
            collapses: options.collapse_recursion,
        };
        stacks.merge(|sample| is_kept(options, *sample_type, sample), &options.budget, sink)
    }
}

fn is_kept(options: &Options, sample_type: usize, sample: &Sample<'_>) -> bool {
    !options.drop_negative || sample.values[sample_type] >= 0
}

/// 0 for called, 1 for partly, 2 for fully inlined.
pub(crate) fn inlined_digit(inlined: Inlined) -> u8 {
    match inlined {
        Inlined::No => 0,
        Inlined::Partly => 1,
        Inlined::Fully => 2,
    }
}

impl StackTree {
    /// Merges the filtered stacks, and keeps the part below the path `root`.
    ///
    /// # Errors
    /// [`Error::Value`] when the profile has no such sample type or no such path, or means are requested.
    pub fn new(profile: &Profile, options: &Options) -> Result<StackTree> {
        let profile_total = options.divided(profile.total(options.sample_type(profile)?));
        let shown = Shown::new(profile, options)?;
        let mut laid = Laid::new(shown.selection.profile().sample_count(), &options.budget);
        let samples = shown.merge(&mut laid)?;
        let tree = StackTree {
            frames: shown.frames.frames,
            nodes: laid.nodes,
            sample_type: shown.sample_type,
            profile_total,
            samples,
        };
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

    /// Only the node at the end of the path with those below it; the path itself stays as single nodes above.
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

#[cfg(test)]
mod tests;
