//! Several trees, or parts of one, merged into one tree: equal paths become one node.
//!
//! Nodes with equal paths are a group, which becomes one node; their children by frame are the next groups. A group of
//! one node is copied with all below it. So the work is linear in the nodes, but for the order of siblings.

use std::cmp::Reverse;

use super::nodes::{Copied, Laying, Nodes, Values};
use crate::{Budget, Result};

/// A tree, and the role of its values.
pub(super) struct Side<'a> {
    pub(super) nodes: &'a Nodes,
    pub(super) copied: Copied,
}

/// A node of one of the sides.
#[derive(Clone, Copy)]
pub(super) struct Member {
    pub(super) side: u32,
    pub(super) node: u32,
}

/// Members with the same path: those from `begin` to the last that wait.
struct Group {
    begin: usize,
    depth: usize,
}

/// The tree whose root is all `roots` together.
pub(super) fn join(sides: &[Side<'_>], roots: &[Member], is_difference: bool, budget: &Budget) -> Result<Nodes> {
    let mut laying = Laying::new(is_difference, budget);
    let (mut meter, mut pace) = (budget.meter("the nodes to be joined"), budget.pace());
    let mut members = roots.to_vec();
    let mut waiting = vec![Group { begin: 0, depth: 0 }];
    let (mut group_members, mut children): (Vec<Member>, Vec<(u32, Member)>) = (Vec::new(), Vec::new());
    meter.take_values::<Member>(roots.len())?;
    while let Some(group) = waiting.pop() {
        group_members.clear();
        group_members.extend(members.drain(group.begin..));
        if let [only] = group_members.as_slice() {
            let side = &sides[only.side as usize];
            pace.steps((side.nodes.end(only.node) - only.node) as usize)?;
            laying.copy(side.nodes, only.node, group.depth, side.copied)?;
            continue;
        }
        pace.steps(group_members.len())?;
        lay(&mut laying, sides, &group_members, group.depth)?;
        children.clear();
        for member in &group_members {
            let nodes = sides[member.side as usize].nodes;
            let below = nodes.children(member.node).map(|node| (nodes.frame(node), Member { side: member.side, node }));
            children.extend(below);
        }
        pace.steps(children.len())?;
        // The last is taken first.
        children.sort_unstable_by_key(|(frame, member)| Reverse((*frame, member.side, member.node)));
        for group_of_frame in children.chunk_by(|one, other| one.0 == other.0) {
            waiting.push(Group { begin: members.len(), depth: group.depth + 1 });
            members.extend(group_of_frame.iter().map(|(_, member)| *member));
        }
    }
    Ok(laying.finish())
}

/// Appends the node of a group.
fn lay(laying: &mut Laying, sides: &[Side<'_>], group: &[Member], depth: usize) -> Result<()> {
    let mut values = Values::default();
    let mut inlined = None;
    for member in group {
        let side = &sides[member.side as usize];
        values.add(side.copied.values(side.nodes.values(member.node)));
        let this = side.nodes.inlined(member.node);
        inlined = Some(inlined.map_or(this, |known| if known == this { known } else { PARTLY }));
    }
    let frame = group.first().map_or(0, |member| sides[member.side as usize].nodes.frame(member.node));
    laying.open(frame, inlined.unwrap_or(0), depth, values)
}

/// The mark of nodes some of whose calls were inlined.
pub(super) const PARTLY: u32 = 1;
