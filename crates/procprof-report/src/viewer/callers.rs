//! The callers of some nodes as a tree: the root stands for these nodes, and below each node are those it is called
//! from.
//!
//! The paths from each of the nodes to the root are followed step by step. Paths with equal frames so far form a group,
//! which becomes one node; those of a group that reach the same node are merged.

use super::join::PARTLY;
use super::nodes::{Laying, Nodes, Values};
use crate::{Budget, Result};

/// A path to the root: the node that it has reached, and the values of the callee where it began.
#[derive(Clone, Copy)]
struct Path {
    node: u32,
    total: i64,
    base_total: i64,
}

struct Group {
    begin: usize,
    depth: usize,
}

/// The tree of callers of `callees`, of which none is below another.
pub(super) fn callers(nodes: &Nodes, callees: &[u32], budget: &Budget) -> Result<Nodes> {
    let mut meter = budget.meter("the callers");
    meter.take_values::<u32>(nodes.len() as usize)?;
    meter.take_values::<Path>(callees.len())?;
    let parents = nodes.parents();
    let path = |node: &u32| Path { node: *node, total: nodes.total(*node), base_total: nodes.base_total(*node) };
    let mut paths: Vec<Path> = callees.iter().map(path).collect();
    let mut laying = Laying::new(nodes.is_difference(), budget);
    let mut pace = budget.pace();
    let mut waiting = vec![Group { begin: 0, depth: 0 }];
    let mut next: Vec<Path> = Vec::new();
    while let Some(group) = waiting.pop() {
        pace.steps(paths.len() - group.begin + 1)?;
        next.clear();
        let (mut values, mut inlined) = (Values::default(), None);
        let frame = paths.get(group.begin).map_or(0, |path| nodes.frame(path.node));
        for path in paths.drain(group.begin..) {
            let this = nodes.inlined(path.node);
            inlined = Some(inlined.map_or(this, |known| if known == this { known } else { PARTLY }));
            let at_top = parents[path.node as usize] == 0;
            let carried = Values { total: path.total, base_total: path.base_total, ..Values::default() };
            values.add(if at_top { Values { own: path.total, base_own: path.base_total, ..carried } } else { carried });
            if !at_top {
                next.push(Path { node: parents[path.node as usize], ..path });
            }
        }
        laying.open(frame, inlined.unwrap_or(0), group.depth, values)?;
        // The last group is taken first.
        next.sort_unstable_by_key(|path| std::cmp::Reverse((nodes.frame(path.node), path.node)));
        for group_of_frame in next.chunk_by(|one, other| nodes.frame(one.node) == nodes.frame(other.node)) {
            waiting.push(Group { begin: paths.len(), depth: group.depth + 1 });
            paths.extend(group_of_frame.chunk_by(|one, other| one.node == other.node).map(united));
        }
    }
    Ok(laying.finish())
}

/// Merges the paths that have reached the same node.
fn united(paths: &[Path]) -> Path {
    let sum = |one: Path, other: &Path| Path {
        node: other.node,
        total: one.total.saturating_add(other.total),
        base_total: one.base_total.saturating_add(other.base_total),
    };
    paths.iter().fold(Path { node: 0, total: 0, base_total: 0 }, sum)
}
