//! Which nodes of the tree become boxes.
//!
//! A box below a share of the total, or below the deepest row, is not left out: all such children of one parent become one merged box,
//! the last among its siblings, which says how many frames and how much it stands for. When more boxes would be needed than allowed,
//! the share is raised just so far that they fit. Nodes with values below zero (in differences) have no width: they are counted.

use crate::stack_tree::{Inlined, StackTree};

/// What a box stands for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Content {
    /// One node of the tree.
    Frame { frame: u32, inlined: Inlined },
    /// This many nodes that are not shown one by one.
    Merged(u32),
}

/// One box; its width is its total.
#[derive(Clone, Debug)]
pub(super) struct Box {
    pub(super) content: Content,
    pub(super) depth: u32,
    /// Distance from the left edge, in the unit of the sample type.
    pub(super) left: i64,
    pub(super) total: i64,
    pub(super) flat: i64,
    /// Total of the box it stands on.
    pub(super) parent_total: i64,
}

/// All boxes in preorder, and what was merged.
#[derive(Clone, Debug)]
pub(super) struct Boxes {
    pub(super) boxes: Vec<Box>,
    /// The share below which boxes were merged.
    pub(super) fraction: f64,
    /// Nodes in merged boxes because they are narrow or deep.
    pub(super) merged_frames: u64,
    /// Value of the merged boxes.
    pub(super) merged_total: i64,
    /// Whether the deepest row was reached.
    pub(super) too_deep: bool,
    /// Nodes without width, and their sum.
    pub(super) negative: (u64, i64),
    /// Rows, the root's included.
    pub(super) rows: u32,
}

impl Boxes {
    /// Boxes of at least `fraction` of the total, at most `most` of them, in at most `rows` rows and one of merged boxes.
    pub(super) fn new(tree: &StackTree, fraction: f64, most: usize, rows: u32) -> Boxes {
        let asked = (tree.total().max(0) as f64 * fraction).ceil() as i64;
        let least = asked.max(least_total(tree, most)).max(1);
        let mut found = Boxes {
            boxes: Vec::new(),
            fraction: if least > 1 { least as f64 / tree.total().max(1) as f64 } else { 0.0 },
            merged_frames: 0,
            merged_total: 0,
            too_deep: false,
            negative: (0, 0),
            rows: 1,
        };
        found.fill(tree, least, rows);
        found
    }

    fn fill(&mut self, tree: &StackTree, least: i64, rows: u32) {
        // For each open ancestor: position of its box, next free place, and what is merged so far (frames, total).
        let mut open: Vec<Open> = Vec::new();
        let mut next = 0;
        while let Some(node) = tree.nodes.get(next) {
            self.close(&mut open, node.depth as usize);
            let parent = open.last_mut();
            let wide = parent.is_none() || (node.total >= least && node.depth < rows);
            if wide {
                let (left, parent_total) = parent.map_or((0, node.total), |parent| (parent.take(node.total), parent.total));
                let content = Content::Frame { frame: node.frame, inlined: node.inlined };
                self.push(Box { content, depth: node.depth, left, total: node.total, flat: node.flat, parent_total });
                open.push(Open { depth: node.depth, left, total: node.total, merged: 0, merged_total: 0 });
                next += 1;
                continue;
            }
            let frames = node.end - next as u32;
            if node.total <= 0 {
                self.negative.0 += u64::from(frames);
                self.negative.1 = self.negative.1.saturating_add(node.total);
            } else if let Some(parent) = parent {
                self.too_deep |= node.depth >= rows;
                parent.merged += frames;
                parent.merged_total = parent.merged_total.saturating_add(node.total);
            }
            next = node.end as usize;
        }
        self.close(&mut open, 0);
    }

    fn close(&mut self, open: &mut Vec<Open>, depth: usize) {
        while open.len() > depth {
            let Some(mut done) = open.pop() else { return };
            if done.merged > 0 {
                self.merged_frames += u64::from(done.merged);
                self.merged_total = self.merged_total.saturating_add(done.merged_total);
                let (total, parent_total) = (done.merged_total, done.total);
                let left = done.take(total);
                self.push(Box { content: Content::Merged(done.merged), depth: done.depth + 1, left, total, flat: 0, parent_total });
            }
        }
    }

    fn push(&mut self, this: Box) {
        self.rows = self.rows.max(this.depth + 1);
        self.boxes.push(this);
    }
}

struct Open {
    depth: u32,
    /// Where the next child begins.
    left: i64,
    total: i64,
    merged: u32,
    merged_total: i64,
}

impl Open {
    /// Where a child of that width begins.
    fn take(&mut self, width: i64) -> i64 {
        let left = self.left;
        self.left = left.saturating_add(width.max(0));
        left
    }
}

/// The smallest total a box may have so that there are at most `most`, merged ones included.
fn least_total(tree: &StackTree, most: usize) -> i64 {
    if tree.nodes.len() <= most {
        return 0;
    }
    // For each parent the narrowest child: it has a merged box from the total above that up to its own.
    let mut narrowest: Vec<Option<i64>> = vec![None; tree.nodes.len()];
    let mut open: Vec<usize> = Vec::new();
    for (position, node) in tree.nodes.iter().enumerate() {
        open.truncate(node.depth as usize);
        if let Some(parent) = open.last() {
            let slot = &mut narrowest[*parent];
            *slot = Some(slot.map_or(node.total, |before| before.min(node.total)));
        }
        open.push(position);
    }
    let mut totals: Vec<i64> = tree.nodes.iter().map(|node| node.total).collect();
    let mut parents: Vec<i64> =
        tree.nodes.iter().zip(&narrowest).filter(|(_, child)| child.is_some()).map(|(node, _)| node.total).collect();
    let mut children: Vec<i64> = narrowest.into_iter().flatten().collect();
    totals.sort_unstable();
    parents.sort_unstable();
    children.sort_unstable();
    let below = |sorted: &[i64], least: i64| sorted.partition_point(|total| *total < least);
    let boxes = |least: i64| {
        let merged = below(&children, least).saturating_sub(below(&parents, least));
        totals.len() - below(&totals, least) + merged
    };
    // A node that falls below the limit takes its own box away and adds at most one merged box, so the number never grows with the limit.
    let (mut low, mut high) = (0, totals.len());
    while low < high {
        let middle = low + (high - low) / 2;
        if boxes(totals[middle].saturating_add(1)) <= most { high = middle } else { low = middle + 1 }
    }
    totals.get(low).map_or(i64::MAX, |total| total.saturating_add(1))
}
