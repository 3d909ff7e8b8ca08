//! The nodes that each location adds to a path, found once and not for each sample.

use std::ops::Range;

use foldhash::HashMap;

use super::Places;

/// No edge yet.
const NONE: u32 = u32::MAX;

/// The kept nodes of all locations.
pub(super) struct Steps {
    steps: Vec<Step>,
    /// For each location, which steps, and whether left-out nodes follow the last of them.
    of_location: Vec<(Range<u32>, bool)>,
    edges: HashMap<(u32, u32), u32>,
}

/// A node that a path reaches.
#[derive(Clone, Copy)]
pub(super) struct Step {
    pub(super) node: u32,
    /// Whether nodes of the same location were left out right before.
    pub(super) residual: bool,
    /// Whether it was inlined into the one before.
    pub(super) inlined: bool,
    /// The node and edge from which it was reached last.
    source: u32,
    edge: u32,
}

impl Steps {
    /// The steps of each location from the root on, of those nodes that are kept.
    pub(super) fn from_places(places: &Places<'_>, is_kept: impl Fn(u32) -> bool) -> Steps {
        let mut steps = Vec::new();
        let mut of_location = Vec::with_capacity(places.of_location.len());
        for range in &places.of_location {
            let first = steps.len() as u32;
            let mut residual = false;
            for position in range.clone().rev() {
                let node = places.of_lines[position as usize];
                if is_kept(node) {
                    steps.push(Step { node, residual, inlined: position + 1 != range.end, source: NONE, edge: NONE });
                }
                residual = !is_kept(node);
            }
            of_location.push((first..steps.len() as u32, residual));
        }
        Steps { steps, of_location, edges: HashMap::default() }
    }

    /// The steps of a location, and whether omitted nodes follow the last of them.
    #[inline]
    pub(super) fn of_location(&self, location: usize) -> (Range<u32>, bool) {
        self.of_location[location].clone()
    }

    #[inline]
    pub(super) fn step(&self, step: u32) -> Step {
        self.steps[step as usize]
    }

    /// The edge by which a step is reached from a node, if it was last reached from that node: most steps have one
    /// caller.
    #[inline]
    pub(super) fn last_edge(&self, step: u32, source: u32) -> Option<u32> {
        let step = &self.steps[step as usize];
        (step.source == source && step.edge != NONE).then_some(step.edge)
    }

    /// The edge by which a step is reached from a node; `new` makes one.
    #[inline(never)]
    pub(super) fn edge(&mut self, step: u32, source: u32, new: impl FnOnce() -> u32) -> u32 {
        let step = &mut self.steps[step as usize];
        step.edge = *self.edges.entry((source, step.node)).or_insert_with(new);
        step.source = source;
        step.edge
    }
}
