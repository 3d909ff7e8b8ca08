//! Which nodes of the tree become boxes.
//!
//! A box below a share of the total, or below the deepest row, is not left out: all such children of one parent become one merged box,
//! the last among its siblings, which says how many frames and how much it stands for. When more boxes would be needed than allowed,
//! the share is raised just so far that they fit, or, where that would take too many at once, the rows are cut. Nodes with values below
//! zero (in differences) have no width: they are counted.

use crate::stack_tree::{Inlined, Node, StackTree};

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
    /// The last row whose boxes were not merged, where there is more above it.
    pub(super) last_row: Option<u32>,
    /// Nodes without width, and their sum.
    pub(super) negative: (u64, i64),
    /// Rows, the root's included.
    pub(super) rows: u32,
}

impl Boxes {
    /// Boxes of at least `fraction` of the total, at most `most` of them, in at most `rows` rows and one of merged boxes.
    pub(super) fn new(tree: &StackTree, fraction: f64, most: usize, rows: u32) -> Boxes {
        let asked = (tree.total().max(0) as f64 * fraction).ceil() as i64;
        let (least, rows) = limits(tree, asked.max(1), most, rows);
        let mut found = Boxes {
            boxes: Vec::new(),
            fraction: if least > 1 { least as f64 / tree.total().max(1) as f64 } else { 0.0 },
            merged_frames: 0,
            merged_total: 0,
            last_row: None,
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
                if node.depth >= rows {
                    self.last_row = Some(rows - 1);
                }
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

/// The smallest total a box may have, at least `asked`, and the rows, so that there are at most `most` boxes, merged ones included.
///
/// Where many nodes have the same total, all of them may have to go; then the lower rows are kept instead, if that shows more.
fn limits(tree: &StackTree, asked: i64, most: usize, rows: u32) -> (i64, u32) {
    let counts = Counts::new(tree, asked, most, rows);
    if counts.boxes(asked) <= most {
        return (asked, rows);
    }
    // A node that falls below the limit takes its own box away and adds at most one merged box, so the number never grows with the limit.
    let (mut low, mut high) = (0, counts.totals.len());
    while low < high {
        let middle = low + (high - low) / 2;
        if counts.boxes(counts.totals[middle].saturating_add(1)) <= most { high = middle } else { low = middle + 1 }
    }
    let tied = counts.totals.get(low).copied().unwrap_or(i64::MAX);
    let least = tied.saturating_add(1);
    let (kept, lower_rows) = lower_rows(tree, tied, most, rows);
    if kept > 2 * counts.boxes(least) { (tied, lower_rows) } else { (least, rows) }
}

/// How many nodes of at least that total lie in as many rows as leave room for a merged box on each, and those rows.
fn lower_rows(tree: &StackTree, least: i64, most: usize, rows: u32) -> (usize, u32) {
    let mut by_depth: Vec<usize> = Vec::new();
    for node in tree.nodes.iter().filter(|node| node.total >= least && node.depth < rows) {
        by_depth.resize(by_depth.len().max(node.depth as usize + 1), 0);
        by_depth[node.depth as usize] += 1;
    }
    let mut kept = 0;
    for (depth, nodes) in by_depth.iter().enumerate() {
        if kept + nodes > most / 2 {
            return (kept, depth as u32);
        }
        kept += nodes;
    }
    (kept, rows)
}

/// Sorted totals from which the number of boxes follows for any least total, as far as that is not more than `most`.
struct Counts {
    /// Of all nodes that may be boxes.
    totals: Vec<i64>,
    /// Of those with something on top.
    parents: Vec<i64>,
    /// The narrowest thing on top of each of those; 0 where it may be no box, so that it is always merged.
    children: Vec<i64>,
}

impl Counts {
    fn new(tree: &StackTree, asked: i64, most: usize, rows: u32) -> Counts {
        let may_be_box = |node: &Node| node.total >= asked && node.depth < rows;
        let mut narrowest: Vec<Option<i64>> = vec![None; tree.nodes.len()];
        let mut open: Vec<usize> = Vec::new();
        let mut position = 0;
        while let Some(node) = tree.nodes.get(position) {
            open.truncate(node.depth as usize);
            let is_box = may_be_box(node);
            if let Some(parent) = open.last() {
                let total = if is_box { node.total } else { 0 };
                let slot = &mut narrowest[*parent];
                *slot = Some(slot.map_or(total, |before| before.min(total)));
            }
            if is_box || position == 0 {
                open.push(position);
                position += 1;
            } else {
                position = node.end as usize;
            }
        }
        // What is passed over above has no narrowest child, and no box: with values below zero a child may be wider than its parent.
        let boxes = || tree.nodes.iter().zip(&narrowest).filter(|(node, _)| may_be_box(node));
        let mut totals: Vec<i64> = boxes().map(|(node, _)| node.total).collect();
        // More than `most` nodes are at least as wide as this, so a limit is above it, and what is narrower need not be told apart.
        let narrow = totals.len().checked_sub(most + 1).map_or(0, |at| *totals.select_nth_unstable(at).1);
        let sorted = |mut totals: Vec<i64>| {
            totals.iter_mut().for_each(|total| *total = (*total).max(narrow));
            totals.sort_unstable();
            totals
        };
        Counts {
            totals: sorted(totals),
            parents: sorted(boxes().filter(|(_, child)| child.is_some()).map(|(node, _)| node.total).collect()),
            children: sorted(boxes().filter_map(|(_, child)| *child).collect()),
        }
    }

    fn boxes(&self, least: i64) -> usize {
        let below = |sorted: &[i64]| sorted.partition_point(|total| *total < least);
        self.totals.len() - below(&self.totals) + below(&self.children).saturating_sub(below(&self.parents))
    }
}
