//! The nodes of a call tree as columns, in preorder: 24 bytes a node, 40 in a difference.
//!
//! A node has no depth and no parent: both follow from where the nodes around it end.

use crate::output::budget::Meter;
use crate::stacks::stack_tree::merge::Sink;
use crate::stacks::stack_tree::{Inlined, inlined_digit};
use crate::{Budget, Error, Result};

/// The values of one node; those of the base are 0 where the tree is no difference.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Values {
    /// Of the node and all below it.
    pub(super) total: i64,
    /// Of the node alone.
    pub(super) own: i64,
    pub(super) base_total: i64,
    pub(super) base_own: i64,
}

impl Values {
    pub(super) fn add(&mut self, other: Values) {
        let pairs = [
            (&mut self.total, other.total),
            (&mut self.own, other.own),
            (&mut self.base_total, other.base_total),
            (&mut self.base_own, other.base_own),
        ];
        pairs.into_iter().for_each(|(sum, value)| *sum = sum.saturating_add(value));
    }
}

/// Two columns of values.
#[derive(Clone, Debug, Default)]
struct Columns {
    total: Vec<i64>,
    own: Vec<i64>,
}

/// All nodes; the first is the root.
#[derive(Clone, Debug, Default)]
pub(super) struct Nodes {
    /// The number of the frame, times four, plus how its calls were inlined.
    marked: Vec<u32>,
    /// The position past the last node below.
    end: Vec<u32>,
    values: Columns,
    /// The values of the base, in a difference.
    base: Option<Columns>,
}

impl Nodes {
    pub(super) fn new(is_difference: bool) -> Nodes {
        Nodes { base: is_difference.then(Columns::default), ..Nodes::default() }
    }

    pub(super) fn len(&self) -> u32 {
        self.marked.len() as u32
    }

    pub(super) fn is_difference(&self) -> bool {
        self.base.is_some()
    }

    pub(super) fn frame(&self, node: u32) -> u32 {
        self.marked[node as usize] >> 2
    }

    /// 0 for called, 1 for partly, 2 for fully inlined.
    pub(super) fn inlined(&self, node: u32) -> u32 {
        self.marked[node as usize] & 3
    }

    pub(super) fn end(&self, node: u32) -> u32 {
        self.end[node as usize]
    }

    pub(super) fn total(&self, node: u32) -> i64 {
        self.values.total[node as usize]
    }

    pub(super) fn base_total(&self, node: u32) -> i64 {
        self.base.as_ref().map_or(0, |base| base.total[node as usize])
    }

    pub(super) fn values(&self, node: u32) -> Values {
        let node = node as usize;
        let (base_total, base_own) = self.base.as_ref().map_or((0, 0), |base| (base.total[node], base.own[node]));
        Values { total: self.values.total[node], own: self.values.own[node], base_total, base_own }
    }

    /// The nodes directly below one, in order.
    pub(super) fn children(&self, node: u32) -> impl Iterator<Item = u32> + '_ {
        let end = self.end(node);
        let mut next = node + 1;
        std::iter::from_fn(move || {
            let child = next;
            (child < end).then(|| {
                next = self.end(child);
                child
            })
        })
    }

    /// Calls the function with each node below `root` and its distance from it; where that returns `false`, the nodes
    /// below are passed over.
    pub(super) fn walk(&self, root: u32, mut visit: impl FnMut(u32, u32) -> bool) {
        let end = self.end(root);
        let mut open: Vec<u32> = Vec::new();
        let mut next = root + 1;
        while next < end {
            while open.last().is_some_and(|end| *end <= next) {
                open.pop();
            }
            if visit(next, open.len() as u32 + 1) {
                open.push(self.end(next));
                next += 1;
            } else {
                next = self.end(next);
            }
        }
    }

    /// The largest distance of a node from the root.
    pub(super) fn depth(&self) -> u32 {
        let mut deepest = 0;
        self.walk(0, |_, depth| {
            deepest = deepest.max(depth);
            true
        });
        deepest
    }

    /// The nodes from the root to the parent of a node.
    pub(super) fn ancestors(&self, node: u32) -> Vec<u32> {
        let mut path = Vec::new();
        let mut at = 0;
        while at != node {
            path.push(at);
            let Some(next) = self.children(at).find(|child| node < self.end(*child)) else { break };
            at = next;
        }
        path
    }

    /// The parent of each node; the root's is itself.
    pub(super) fn parents(&self) -> Vec<u32> {
        let mut open: Vec<u32> = Vec::new();
        let parent = |node: u32| {
            while open.last().is_some_and(|last| self.end(*last) <= node) {
                open.pop();
            }
            let parent = open.last().copied().unwrap_or(0);
            open.push(node);
            parent
        };
        (0..self.len()).map(parent).collect()
    }

    /// Gives each node's frame its new number.
    pub(super) fn renumber(&mut self, numbers: &[u32]) {
        for marked in &mut self.marked {
            *marked = numbers[(*marked >> 2) as usize] << 2 | (*marked & 3);
        }
    }

    /// Only the last node of a path with those below it; the nodes of the path above have the same total.
    pub(super) fn below(&self, path: &[u32], budget: &Budget) -> Result<Nodes> {
        let Some((last, above)) = path.split_last() else { return Ok(self.clone()) };
        let mut laying = Laying::new(self.is_difference(), budget);
        let values = self.values(*last);
        let above_values = Values { own: 0, base_own: 0, ..values };
        for (depth, node) in above.iter().enumerate() {
            laying.open(self.frame(*node), self.inlined(*node), depth, above_values)?;
        }
        laying.open(self.frame(*last), self.inlined(*last), above.len(), values)?;
        let children = self.children(*last);
        for child in children {
            laying.copy(self, child, above.len() + 1, Copied::AsTheyAre)?;
        }
        Ok(laying.finish())
    }

    /// Bytes that the nodes take.
    pub(super) fn bytes(&self) -> u64 {
        self.marked.capacity() as u64 * node_bytes(self.is_difference())
    }

    fn push(&mut self, marked: u32, values: Values) {
        self.marked.push(marked);
        self.end.push(0);
        self.values.total.push(values.total);
        self.values.own.push(values.own);
        if let Some(base) = &mut self.base {
            base.total.push(values.base_total);
            base.own.push(values.base_own);
        }
    }

    fn shrink(&mut self) {
        self.marked.shrink_to_fit();
        self.end.shrink_to_fit();
        for columns in [Some(&mut self.values), self.base.as_mut()].into_iter().flatten() {
            columns.total.shrink_to_fit();
            columns.own.shrink_to_fit();
        }
    }
}

const fn node_bytes(is_difference: bool) -> u64 {
    if is_difference { 40 } else { 24 }
}

/// The role of values that are copied.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Copied {
    AsTheyAre,
    /// Those of a plain tree become the values of the base.
    AsBase,
}

impl Copied {
    pub(super) fn values(self, values: Values) -> Values {
        match self {
            Copied::AsTheyAre => values,
            Copied::AsBase => Values { total: 0, own: 0, base_total: values.total, base_own: values.own },
        }
    }
}

/// Nodes that are appended in preorder.
pub(super) struct Laying {
    nodes: Nodes,
    /// The nodes from the root to the last.
    open: Vec<u32>,
    meter: Meter,
    table: &'static str,
    node_bytes: usize,
}

impl Laying {
    pub(super) fn new(is_difference: bool, budget: &Budget) -> Laying {
        let table = "the call tree";
        let node_bytes = node_bytes(is_difference) as usize;
        Laying { nodes: Nodes::new(is_difference), open: Vec::new(), meter: budget.meter(table), table, node_bytes }
    }

    /// Appends a node at a depth, which ends those open there and below.
    pub(super) fn open(&mut self, frame: u32, inlined: u32, depth: usize, values: Values) -> Result<()> {
        self.meter.take(self.node_bytes)?;
        self.close(depth);
        self.check(1)?;
        self.open.push(self.nodes.len());
        self.nodes.push(frame << 2 | inlined, values);
        Ok(())
    }

    /// Appends a node of other nodes with all below it.
    pub(super) fn copy(&mut self, from: &Nodes, node: u32, depth: usize, copied: Copied) -> Result<()> {
        let count = from.end(node) - node;
        self.meter.take(self.node_bytes.saturating_mul(count as usize))?;
        self.close(depth);
        self.check(count)?;
        let first = self.nodes.len();
        for place in node..from.end(node) {
            self.nodes.push(from.marked[place as usize], copied.values(from.values(place)));
        }
        for (end, old) in self.nodes.end[first as usize..].iter_mut().zip(&from.end[node as usize..]) {
            *end = old - node + first;
        }
        Ok(())
    }

    /// Ends the nodes from a depth on.
    pub(super) fn close(&mut self, depth: usize) {
        while self.open.len() > depth {
            self.close_last();
        }
    }

    pub(super) fn finish(mut self) -> Nodes {
        self.close(0);
        self.nodes.shrink();
        self.nodes
    }

    fn close_last(&mut self) -> Option<u32> {
        let done = self.open.pop()?;
        self.nodes.end[done as usize] = self.nodes.len();
        Some(done)
    }

    /// Errs when positions would no longer fit.
    fn check(&self, more: u32) -> Result<()> {
        let most = u64::from(u32::MAX) * self.node_bytes as u64;
        self.nodes.len().checked_add(more).map(drop).ok_or(Error::MemoryLimit { table: self.table, most })
    }
}

/// The sink of merged stacks: adds each node to its parent when it ends.
pub(super) struct Summing(Laying);

impl Summing {
    pub(super) fn new(budget: &Budget) -> Summing {
        Summing(Laying::new(false, budget))
    }

    pub(super) fn finish(self) -> Nodes {
        self.0.finish()
    }
}

impl Sink for Summing {
    fn open(&mut self, frame: u32, depth: u32, inlined: Inlined) -> Result<()> {
        self.0.open(frame, u32::from(inlined_digit(inlined)), depth as usize, Values::default())
    }

    fn charge(&mut self, value: i64) {
        let Columns { total, own } = &mut self.0.nodes.values;
        if let (Some(total), Some(own)) = (total.last_mut(), own.last_mut()) {
            *own = own.saturating_add(value);
            *total = *own;
        }
    }

    fn close(&mut self, depth: usize) -> Result<()> {
        while self.0.open.len() > depth {
            let Some(done) = self.0.close_last() else { break };
            if let Some(parent) = self.0.open.last() {
                let totals = &mut self.0.nodes.values.total;
                totals[*parent as usize] = totals[*parent as usize].saturating_add(totals[done as usize]);
            }
        }
        Ok(())
    }
}
