//! The visible part of a tree: the nodes below one that have at least a share of its width, in a number of rows.
//!
//! If these are too many, the narrowest are left out; of equally narrow ones, as in a tree whose stacks are all
//! different, the deepest.

use super::nodes::Nodes;
use crate::output::budget::Meter;
use crate::{Budget, Result};

/// The part of a screen that is still a box: one of so many, a quarter of a pixel of the widest screens.
pub const WIDE: u32 = 15_360;
/// Most nodes of a slice.
pub const SLICE_NODES_MAX: usize = 100_000;

/// The nodes of a slice, besides the path to its root.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Extent {
    /// They have at least one part in so many of the root's width.
    pub wide: u32,
    /// Most rows below the root.
    pub rows: u32,
    /// Most nodes.
    pub nodes: usize,
}

impl Default for Extent {
    /// All that a screen can show.
    fn default() -> Extent {
        Extent { wide: WIDE, rows: u32::MAX, nodes: SLICE_NODES_MAX }
    }
}

/// The width of nodes: their total, in a difference that of both profiles, so that functions that are only in the base have a width.
pub(super) struct Widths<'a> {
    pub(super) nodes: &'a Nodes,
    /// The factor of the base.
    pub(super) base_scale: f64,
}

impl Widths<'_> {
    pub(super) fn width(&self, node: u32) -> f64 {
        self.nodes.total(node).max(0) as f64 + self.base_scale * self.nodes.base_total(node).max(0) as f64
    }
}

/// The nodes below `root`, without it, with their distance from it, in preorder.
pub(super) fn visible(widths: &Widths<'_>, root: u32, extent: &Extent, budget: &Budget) -> Result<Vec<(u32, u32)>> {
    let Extent { wide, rows, nodes: most } = *extent;
    let least = widths.width(root) / f64::from(wide.max(1));
    let is_inside = |width: f64, depth: u32| width > 0.0 && width >= least && depth <= rows;
    let mut found = Vec::new();
    widths.nodes.walk(root, |node, depth| {
        let is_kept = found.len() <= most && is_inside(widths.width(node), depth);
        if is_kept {
            found.push((node, depth));
        }
        is_kept
    });
    if found.len() <= most {
        return Ok(found);
    }
    drop(found);
    widest(widths, root, is_inside, most, budget.meter("the widths of nodes"))
}

fn widest(
    widths: &Widths<'_>,
    root: u32,
    is_inside: impl Fn(f64, u32) -> bool,
    most: usize,
    mut meter: Meter,
) -> Result<Vec<(u32, u32)>> {
    let mut all: Vec<f64> = Vec::new();
    let mut overflow = Ok(());
    widths.nodes.walk(root, |node, depth| {
        let width = widths.width(node);
        let is_kept = overflow.is_ok() && is_inside(width, depth);
        if is_kept {
            overflow = meter.take_values::<f64>(1);
            all.push(width);
        }
        is_kept
    });
    overflow?;
    if most == 0 {
        return Ok(Vec::new());
    }
    let place = (most - 1).min(all.len().saturating_sub(1));
    let narrowest = *all.select_nth_unstable_by(place, |one, other| other.total_cmp(one)).1;
    let wider = all.iter().filter(|width| **width > narrowest).count();
    drop(all);
    let mut ties = Ties::new(widths, root, narrowest, most - wider.min(most));
    let mut found = Vec::with_capacity(most);
    widths.nodes.walk(root, |node, depth| {
        let width = widths.width(node);
        let is_kept = is_inside(width, depth) && (width > narrowest || (width == narrowest && ties.take(depth)));
        if is_kept {
            found.push((node, depth));
        }
        is_kept
    });
    found.truncate(most);
    Ok(found)
}

/// The nodes of the narrowest width that are kept: all above a depth, and some at it.
struct Ties {
    depth: u32,
    left_at_depth: usize,
}

impl Ties {
    fn new(widths: &Widths<'_>, root: u32, narrowest: f64, mut left: usize) -> Ties {
        let mut by_depth: Vec<usize> = Vec::new();
        widths.nodes.walk(root, |node, depth| {
            let width = widths.width(node);
            if width == narrowest {
                by_depth.resize(by_depth.len().max(depth as usize + 1), 0);
                by_depth[depth as usize] += 1;
            }
            width >= narrowest
        });
        for (depth, count) in by_depth.iter().enumerate() {
            if *count > left {
                return Ties { depth: depth as u32, left_at_depth: left };
            }
            left -= count;
        }
        Ties { depth: u32::MAX, left_at_depth: 0 }
    }

    fn take(&mut self, depth: u32) -> bool {
        if depth == self.depth && self.left_at_depth > 0 {
            self.left_at_depth -= 1;
            return true;
        }
        depth < self.depth
    }
}
