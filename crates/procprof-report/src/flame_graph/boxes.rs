//! Chooses the nodes of the tree that become boxes.
//!
//! A box below a share of the total, or below the deepest row, is not left out: all such children of one parent become
//! one merged box, the last among its siblings, which shows the number of frames and their value. If there would be
//! more boxes than allowed, the share is raised just until they fit, or, if that would remove too many at once, the
//! rows are cut. Nodes with values below zero (in differences) have no width: they are counted.

use crate::stacks::stack_tree::{Inlined, Node, StackTree};

/// The content of a box.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Content {
    /// One node of the tree.
    Frame { frame: u32, inlined: Inlined },
    /// That many nodes that are not shown one by one.
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
    /// Total of the box below it.
    pub(super) parent_total: i64,
}

/// All boxes in preorder, and the merged nodes.
#[derive(Clone, Debug)]
pub(super) struct Boxes {
    pub(super) boxes: Vec<Box>,
    /// The share below which boxes were merged.
    pub(super) fraction: f64,
    /// Nodes in merged boxes because they are narrow or deep.
    pub(super) merged_frames: u64,
    /// Value of the merged boxes.
    pub(super) merged_total: i64,
    /// The last row whose boxes were not merged, if there are more above it.
    pub(super) last_row: Option<u32>,
    /// Nodes without width, and their sum.
    pub(super) negative: (u64, i64),
    /// Rows, the root's included.
    pub(super) rows: u32,
}

impl Boxes {
    /// Boxes of at least `fraction` of the total, at most `most` of them, in at most `rows` rows and one of merged
    /// boxes.
    pub(super) fn new(tree: &StackTree, fraction: f64, most: usize, rows: u32) -> Boxes {
        let least_total = (tree.total().max(0) as f64 * fraction).ceil() as i64;
        let (least, rows) = limits(tree, least_total.max(1), most, rows);
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
                let (left, parent_total) =
                    parent.map_or((0, node.total), |parent| (parent.take(node.total), parent.total));
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
                self.push(Box {
                    content: Content::Merged(done.merged),
                    depth: done.depth + 1,
                    left,
                    total,
                    flat: 0,
                    parent_total,
                });
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
    /// The start of the next child.
    left: i64,
    total: i64,
    merged: u32,
    merged_total: i64,
}

impl Open {
    /// The start of a child of that width.
    fn take(&mut self, width: i64) -> i64 {
        let left = self.left;
        self.left = left.saturating_add(width.max(0));
        left
    }
}

/// The smallest total a box may have, at least `asked`, and the rows, so that there are at most `most` boxes, merged
/// ones included.
///
/// If many nodes have the same total, all of them may have to be merged; then the lower rows are kept instead, if that
/// shows more.
fn limits(tree: &StackTree, least_total: i64, most: usize, rows: u32) -> (i64, u32) {
    let counts = Counts::new(tree, least_total, most, rows);
    if counts.boxes(least_total) <= most {
        return (least_total, rows);
    }
    // A node that falls below the limit takes its own box away and adds at most one merged box, so the number never
    // grows with the limit.
    let (mut low, mut high) = (0, counts.totals.len());
    while low < high {
        let middle = low + (high - low) / 2;
        let total = counts.totals.at(middle).unwrap_or(i64::MAX);
        if counts.boxes(total.saturating_add(1)) <= most { high = middle } else { low = middle + 1 }
    }
    let tied = counts.totals.at(low).unwrap_or(i64::MAX);
    let least = tied.saturating_add(1);
    let (kept, lower_rows) = lower_rows(tree, tied, most, rows);
    if kept > 2 * counts.boxes(least) { (tied, lower_rows) } else { (least, rows) }
}

/// The number of nodes of at least that total in as many rows as leave room for a merged box on each, and those rows.
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

/// Totals from which the number of boxes follows for any least total, as far as that is not more than `most`.
struct Counts {
    /// Of all nodes that may be boxes.
    totals: Totals,
    /// Of those with something on top.
    parents: Totals,
    /// The narrowest thing on top of each of those; 0 where it may be no box, so that it is always merged.
    children: Totals,
}

impl Counts {
    fn new(tree: &StackTree, least_total: i64, most: usize, rows: u32) -> Counts {
        let may_be_box = |node: &Node| node.total >= least_total && node.depth < rows;
        // More than `most` nodes are at least as wide as this, so a limit is above it, and narrower ones need not be
        // distinguished.
        let mut widest = Widest { most: most.saturating_add(1), totals: Vec::new() };
        visit(tree, may_be_box, |node, _| widest.add(node.total));
        let narrow = widest.least().unwrap_or(0);
        let totals = || Totals { narrow, narrow_count: 0, wider: Vec::new() };
        let mut counts = Counts { totals: totals(), parents: totals(), children: totals() };
        visit(tree, may_be_box, |node, narrowest| {
            counts.totals.add(node.total);
            if let Some(narrowest) = narrowest {
                counts.parents.add(node.total);
                counts.children.add(narrowest);
            }
        });
        [&mut counts.totals, &mut counts.parents, &mut counts.children]
            .into_iter()
            .for_each(|totals| totals.wider.sort_unstable());
        counts
    }

    fn boxes(&self, least: i64) -> usize {
        self.totals.len() - self.totals.below(least)
            + self.children.below(least).saturating_sub(self.parents.below(least))
    }
}

/// Calls the function with the nodes that may be boxes, each after all on top of it, with the narrowest thing on top: 0
/// for one that may be no box.
fn visit(tree: &StackTree, may_be_box: impl Fn(&Node) -> bool, mut done: impl FnMut(&Node, Option<i64>)) {
    let mut close = |open: &mut Vec<(usize, Option<i64>)>, depth: usize| {
        for (position, narrowest) in open.drain(depth.min(open.len())..).rev() {
            let node = &tree.nodes[position];
            if may_be_box(node) {
                done(node, narrowest);
            }
        }
    };
    let mut open: Vec<(usize, Option<i64>)> = Vec::new();
    let mut position = 0;
    while let Some(node) = tree.nodes.get(position) {
        close(&mut open, node.depth as usize);
        let is_box = may_be_box(node);
        if let Some((_, narrowest)) = open.last_mut() {
            let total = if is_box { node.total } else { 0 };
            *narrowest = Some(narrowest.map_or(total, |before| before.min(total)));
        }
        if is_box || position == 0 {
            open.push((position, None));
            position += 1;
        } else {
            position = node.end as usize;
        }
    }
    close(&mut open, 0);
}

/// The largest totals of many.
struct Widest {
    /// The requested number of them.
    most: usize,
    /// They and at most as many others.
    totals: Vec<i64>,
}

impl Widest {
    fn add(&mut self, total: i64) {
        if self.totals.len() == self.most.saturating_mul(2) {
            self.totals.select_nth_unstable_by_key(self.most - 1, |total| std::cmp::Reverse(*total));
            self.totals.truncate(self.most);
        }
        self.totals.push(total);
    }

    /// The least of those requested; `None` if there are not that many.
    fn least(mut self) -> Option<i64> {
        let last = self.most - 1;
        (last < self.totals.len())
            .then(|| *self.totals.select_nth_unstable_by_key(last, |total| std::cmp::Reverse(*total)).1)
    }
}

/// Totals in ascending order, the narrow ones as a number of one width.
struct Totals {
    narrow: i64,
    narrow_count: usize,
    wider: Vec<i64>,
}

impl Totals {
    fn add(&mut self, total: i64) {
        if total > self.narrow { self.wider.push(total) } else { self.narrow_count += 1 }
    }

    fn len(&self) -> usize {
        self.narrow_count + self.wider.len()
    }

    fn at(&self, position: usize) -> Option<i64> {
        match position.checked_sub(self.narrow_count) {
            None => Some(self.narrow),
            Some(position) => self.wider.get(position).copied(),
        }
    }

    /// The number of lesser ones.
    fn below(&self, least: i64) -> usize {
        if least > self.narrow { self.narrow_count + self.wider.partition_point(|total| *total < least) } else { 0 }
    }
}
