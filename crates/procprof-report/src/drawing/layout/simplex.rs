//! The network simplex method, on the side of flows.
//!
//! A problem is to find whole numbers `p`, one for each node, with the least sum of
//!
//! - `pull[v] * p[v]` over all nodes, where the pulls add up to 0, and
//! - `force * max(0, least - (p[to] - p[from]))` over all springs: the amount by which a distance is too short.
//!
//! A spring of unlimited force is a rule that is always kept. The dual is a flow of least cost in which a spring
//! carries at most its force, and its potentials are the numbers. A basis is a tree of springs that hangs from an extra
//! root; an entering spring closes a cycle, flow is sent round it, and the spring that is full or empty first leaves.
//! Ties in the leaving spring go to the last one on the way round from the cycle's top, which keeps all trees strongly
//! feasible, so that the method ends (Cunningham 1976).

use crate::{Budget, Result};

/// Force of a rule.
pub(super) const RULE: i64 = i64::MAX / 4;

/// Marks the absence of a node.
const NONE: u32 = u32::MAX;

/// The least distance.
#[derive(Clone, Copy, Debug)]
pub(super) struct Spring {
    pub(super) from: u32,
    pub(super) to: u32,
    /// Least of `p[to] - p[from]`.
    pub(super) least: i64,
    /// The cost of each unit below, or [`RULE`].
    pub(super) force: i64,
}

/// A problem to solve.
#[derive(Debug, Default)]
pub(super) struct Problem {
    pulls: Vec<i64>,
    springs: Vec<Spring>,
}

impl Problem {
    /// Nodes without pulls and springs.
    pub(super) fn new(nodes: usize) -> Problem {
        Problem { pulls: vec![0; nodes], springs: Vec::new() }
    }

    /// Keeps `p[to] - p[from]` at `least` or above.
    pub(super) fn keep_apart(&mut self, from: u32, to: u32, least: i64) {
        self.springs.push(Spring { from, to, least, force: RULE });
    }

    /// Adds `weight * (p[to] - p[from])` to the sum.
    pub(super) fn pull_together(&mut self, from: u32, to: u32, weight: i64) {
        self.pulls[to as usize] += weight;
        self.pulls[from as usize] -= weight;
    }

    /// Adds `weight * |p[to] - p[from]|` to the sum.
    pub(super) fn align(&mut self, from: u32, to: u32, weight: i64) {
        self.pull_together(from, to, weight);
        self.springs.push(Spring { from, to, least: 0, force: 2 * weight });
    }

    /// The numbers; `None` if more nodes and springs would have to be visited than `effort`, or if the rules contradict
    /// each other.
    ///
    /// # Errors
    /// [`crate::Error::Stopped`].
    pub(super) fn solve(&self, effort: usize, budget: &Budget) -> Result<Option<Vec<i64>>> {
        let mut tree = Tree::new(self);
        let mut pace = budget.pace();
        while tree.effort < effort {
            let before = tree.effort;
            let Some(entering) = tree.entering() else { return Ok(tree.potentials(self.pulls.len())) };
            if !tree.pivot(entering) {
                return Ok(None);
            }
            pace.steps(tree.effort - before)?;
        }
        Ok(None)
    }
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum State {
    Empty,
    Full,
    InTree,
}

/// A basis. Flow runs from `from` to `to`, against the growth of potentials.
struct Tree {
    springs: Vec<Spring>,
    flows: Vec<i64>,
    states: Vec<State>,
    /// By node; the root is last.
    potentials: Vec<i64>,
    parents: Vec<u32>,
    /// The spring to the parent.
    by: Vec<u32>,
    depths: Vec<u32>,
    first_children: Vec<u32>,
    next_siblings: Vec<u32>,
    previous_siblings: Vec<u32>,
    /// The place where the search for an entering spring continues.
    next: usize,
    block: usize,
    /// Nodes to visit; kept for its capacity.
    stack: Vec<u32>,
    /// Nodes and springs visited so far.
    effort: usize,
}

impl Tree {
    /// All nodes hang from the root, by springs that do not belong to the problem: they cost so much that no flow is
    /// left in them.
    fn new(problem: &Problem) -> Tree {
        let count = problem.pulls.len();
        let root = count as u32;
        let longest = problem.springs.iter().map(|spring| spring.least.abs()).max().unwrap_or(0);
        let dear = (longest + 1) * (count as i64 + 1);
        let mut springs = problem.springs.clone();
        let mut flows = vec![0; springs.len()];
        let mut states = vec![State::Empty; springs.len()];
        let mut tree_springs = Vec::with_capacity(count + 1);
        let mut potentials = vec![0; count + 1];
        for (node, pull) in problem.pulls.iter().enumerate() {
            tree_springs.push(springs.len() as u32);
            let node = node as u32;
            // The inflow minus the outflow is the pull.
            let (from, to) = if *pull > 0 { (root, node) } else { (node, root) };
            let least = if *pull > 0 { -dear } else { 0 };
            potentials[node as usize] = if *pull > 0 { -dear } else { 0 };
            springs.push(Spring { from, to, least, force: RULE });
            flows.push(pull.abs());
            states.push(State::InTree);
        }
        tree_springs.push(NONE);
        let mut parents = vec![root; count];
        parents.push(NONE);
        let nodes = 0..=root;
        let next_siblings = nodes.clone().map(|node| if node + 1 < root { node + 1 } else { NONE }).collect();
        let previous_siblings = nodes.map(|node| if node == 0 || node == root { NONE } else { node - 1 }).collect();
        let mut first_children = vec![NONE; count];
        first_children.push(if count == 0 { NONE } else { 0 });
        let mut depths = vec![1; count];
        depths.push(0);
        let block = ((springs.len() as f64).sqrt() as usize).max(16);
        let (by, stack) = (tree_springs, Vec::new());
        Tree {
            springs,
            flows,
            states,
            potentials,
            parents,
            by,
            depths,
            first_children,
            next_siblings,
            previous_siblings,
            next: 0,
            block,
            stack,
            effort: 0,
        }
    }

    /// The gain of a unit of flow through a spring.
    fn gain(&self, spring: usize) -> i64 {
        let Spring { from, to, least, .. } = self.springs[spring];
        let short = least - (self.potentials[to as usize] - self.potentials[from as usize]);
        match self.states[spring] {
            State::Empty => short,
            State::Full => -short,
            State::InTree => 0,
        }
    }

    /// The best spring of the next block that has one with a gain.
    fn entering(&mut self) -> Option<usize> {
        let count = self.springs.len();
        let mut best = None;
        let mut best_gain = 0;
        for step in 1..=count {
            self.effort += 1;
            let spring = self.next;
            self.next = if spring + 1 == count { 0 } else { spring + 1 };
            let gain = self.gain(spring);
            if gain > best_gain {
                (best, best_gain) = (Some(spring), gain);
            }
            if best.is_some() && step % self.block == 0 {
                break;
            }
        }
        best
    }

    /// Adds a spring to the tree; returns whether that is possible.
    fn pivot(&mut self, entering: usize) -> bool {
        let Spring { from, to, force, .. } = self.springs[entering];
        let fills = self.states[entering] == State::Empty;
        // Flow enters the cycle's branches at `end` and comes back from `start`.
        let (start, end) = if fills { (from, to) } else { (to, from) };
        let top = self.meeting(from, to);
        let mut most = force;
        let mut leaving = None;
        // Down from the top to the start: the last to be full is chosen, that is the one nearest to the start, so only
        // a smaller one replaces it.
        let mut node = start;
        while node != top {
            let room = self.room(node, true);
            if room < most {
                (most, leaving) = (room, Some((node, start)));
            }
            node = self.parents[node as usize];
        }
        // Up from the end to the top: the nearest to the top is chosen.
        node = end;
        while node != top {
            let room = self.room(node, false);
            if room <= most {
                (most, leaving) = (room, Some((node, end)));
            }
            node = self.parents[node as usize];
        }
        if most >= RULE {
            return false;
        }
        self.send(start, end, top, most);
        self.flows[entering] += if fills { most } else { -most };
        match leaving {
            None => self.states[entering] = if fills { State::Full } else { State::Empty },
            Some((cut, side)) => self.exchange(entering, cut, side),
        }
        true
    }

    /// The lowest node above both.
    fn meeting(&self, mut a: u32, mut b: u32) -> u32 {
        while a != b {
            if self.depths[a as usize] >= self.depths[b as usize] {
                a = self.parents[a as usize]
            } else {
                b = self.parents[b as usize]
            }
        }
        a
    }

    /// The remaining capacity of the spring above a node, downwards or upwards.
    fn room(&self, node: u32, downwards: bool) -> i64 {
        let spring = self.by[node as usize] as usize;
        let is_down = self.springs[spring].to == node;
        if is_down != downwards {
            return self.flows[spring];
        }
        let force = self.springs[spring].force;
        if force == RULE { RULE } else { force - self.flows[spring] }
    }

    fn send(&mut self, start: u32, end: u32, top: u32, amount: i64) {
        if amount == 0 {
            return;
        }
        for (branch, downwards) in [(start, true), (end, false)] {
            let mut node = branch;
            while node != top {
                let spring = self.by[node as usize] as usize;
                let is_down = self.springs[spring].to == node;
                self.flows[spring] += if is_down == downwards { amount } else { -amount };
                node = self.parents[node as usize];
            }
        }
    }

    /// Cuts the tree above `cut` and hangs that part by the entering spring's end `side`, which is in it.
    fn exchange(&mut self, entering: usize, cut: u32, side: u32) {
        let leaving = self.by[cut as usize] as usize;
        self.states[leaving] = if self.flows[leaving] == 0 { State::Empty } else { State::Full };
        self.states[entering] = State::InTree;
        let Spring { from, to, .. } = self.springs[entering];
        let (mut parent, mut spring) = (if side == from { to } else { from }, entering as u32);
        let mut node = side;
        loop {
            let (above, before) = (self.parents[node as usize], self.by[node as usize]);
            self.unhang(node);
            self.hang(node, parent, spring);
            if node == cut {
                break;
            }
            (parent, spring, node) = (node, before, above);
        }
        self.shift(side);
    }

    fn unhang(&mut self, node: u32) {
        let (previous, next) = (self.previous_siblings[node as usize], self.next_siblings[node as usize]);
        match previous {
            NONE => self.first_children[self.parents[node as usize] as usize] = next,
            previous => self.next_siblings[previous as usize] = next,
        }
        if next != NONE {
            self.previous_siblings[next as usize] = previous;
        }
    }

    fn hang(&mut self, node: u32, parent: u32, spring: u32) {
        let next = self.first_children[parent as usize];
        self.parents[node as usize] = parent;
        self.by[node as usize] = spring;
        self.previous_siblings[node as usize] = NONE;
        self.next_siblings[node as usize] = next;
        if next != NONE {
            self.previous_siblings[next as usize] = node;
        }
        self.first_children[parent as usize] = node;
    }

    /// Sets depths and potentials of a part that was hung elsewhere.
    fn shift(&mut self, top: u32) {
        let spring = self.springs[self.by[top as usize] as usize];
        let parent = self.potentials[self.parents[top as usize] as usize];
        let potential = if spring.to == top { parent + spring.least } else { parent - spring.least };
        let shift = potential - self.potentials[top as usize];
        self.stack.push(top);
        while let Some(node) = self.stack.pop() {
            self.effort += 1;
            let index = node as usize;
            self.potentials[index] += shift;
            self.depths[index] = self.depths[self.parents[index] as usize] + 1;
            let mut child = self.first_children[index];
            while child != NONE {
                self.stack.push(child);
                child = self.next_siblings[child as usize];
            }
        }
    }

    /// The numbers, if the problem's own springs carry all flow.
    fn potentials(mut self, count: usize) -> Option<Vec<i64>> {
        let own = self.springs.len() - count;
        let is_solved = self.flows[own..].iter().all(|flow| *flow == 0);
        self.potentials.truncate(count);
        is_solved.then_some(self.potentials)
    }
}
