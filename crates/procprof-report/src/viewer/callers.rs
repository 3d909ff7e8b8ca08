//! The callers of some nodes as a tree: the root stands for these nodes, and below each node are those it is called
//! from.
//!
//! Each of the nodes walks to the root of the tree, with its values. Those that came the same way are a group, which is
//! one node; those of a group that are at the same node go on as one.

use super::join::PARTLY;
use super::nodes::{Laying, Nodes, Values};
use crate::{Budget, Result};

/// A node on the way to the root, and the values that it carries.
#[derive(Clone, Copy)]
struct Climber {
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
    meter.take_values::<Climber>(callees.len())?;
    let parents = nodes.parents();
    let climber = |node: &u32| Climber { node: *node, total: nodes.total(*node), base_total: nodes.base_total(*node) };
    let mut climbers: Vec<Climber> = callees.iter().map(climber).collect();
    let mut laying = Laying::new(nodes.is_difference(), budget);
    let mut pace = budget.pace();
    let mut waiting = vec![Group { begin: 0, depth: 0 }];
    let mut next: Vec<Climber> = Vec::new();
    while let Some(group) = waiting.pop() {
        pace.steps(climbers.len() - group.begin + 1)?;
        next.clear();
        let (mut values, mut inlined) = (Values::default(), None);
        let frame = climbers.get(group.begin).map_or(0, |climber| nodes.frame(climber.node));
        for climber in climbers.drain(group.begin..) {
            let this = nodes.inlined(climber.node);
            inlined = Some(inlined.map_or(this, |known| if known == this { known } else { PARTLY }));
            let at_top = parents[climber.node as usize] == 0;
            let carried = Values { total: climber.total, base_total: climber.base_total, ..Values::default() };
            values.add(if at_top {
                Values { own: climber.total, base_own: climber.base_total, ..carried }
            } else {
                carried
            });
            if !at_top {
                next.push(Climber { node: parents[climber.node as usize], ..climber });
            }
        }
        laying.open(frame, inlined.unwrap_or(0), group.depth, values)?;
        // The last group is taken first.
        next.sort_unstable_by_key(|climber| std::cmp::Reverse((nodes.frame(climber.node), climber.node)));
        for group_of_frame in next.chunk_by(|one, other| nodes.frame(one.node) == nodes.frame(other.node)) {
            waiting.push(Group { begin: climbers.len(), depth: group.depth + 1 });
            climbers.extend(group_of_frame.chunk_by(|one, other| one.node == other.node).map(united));
        }
    }
    Ok(laying.finish())
}

/// Climbers at one node as one.
fn united(climbers: &[Climber]) -> Climber {
    let sum = |one: Climber, other: &Climber| Climber {
        node: other.node,
        total: one.total.saturating_add(other.total),
        base_total: one.base_total.saturating_add(other.base_total),
    };
    climbers.iter().fold(Climber { node: 0, total: 0, base_total: 0 }, sum)
}
