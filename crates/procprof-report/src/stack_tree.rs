//! The merged call tree of a profile: equal paths from the root are one node.
//!
//! Nodes lie in preorder, siblings ordered by name, so the same profile always gives the same tree whatever the order of its samples.
//! Nothing here recurses: a stack may be as deep as the formats allow. The sum of all flat values is the total of the samples shown.

mod merge;

use procprof_profile::{Profile, Sample};

use crate::frame::{Frame, Frames};
use crate::place::Detail;
use crate::selection::Selection;
use crate::{Error, Options, Result};
use merge::Stacks;

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
        let is_kept = |sample: &Sample<'_>| !options.drop_negative || sample.values[sample_type] >= 0;
        let root = frames.remark(ROOT);
        let has_bare = profile.samples().any(|sample| sample.stack.is_empty() && is_kept(&sample));
        let bare = if has_bare { frames.remark(NO_STACK) } else { root };
        let (nodes, samples) = Stacks { profile, frames: &frames, root, bare: [(bare, false)], sample_type }.merged(is_kept);
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

#[cfg(test)]
mod tests;
