//! Distances from the left: heavy edges straight, all edges short, nothing overlapping, the whole narrow.

use super::layers::{Content, Layers};
use super::simplex::Problem;
use crate::{Budget, Result};

/// Vertices and segments that may be visited, a hundred times as many as graphs of a thousand functions need; beyond,
/// everything is placed to the left.
const EFFORT: usize = 500_000_000;
/// The largest effective weight: heavier edges are as straight as these.
const WEIGHT_MAX: i64 = 100_000;

/// The distance of each vertex from the left, measured at the point where edges meet it.
///
/// # Errors
/// [`crate::Error::Stopped`].
pub(super) fn places(layers: &Layers, budget: &Budget) -> Result<Vec<f64>> {
    let mut problem = Problem::new(layers.vertices.len() + 2);
    let (left, right) = (layers.vertices.len() as u32, layers.vertices.len() as u32 + 1);
    for order in &layers.order {
        for pair in order.windows(2) {
            problem.keep_apart(pair[0], pair[1], layers.distance(pair[0], pair[1]).ceil() as i64);
            problem.pull_together(pair[0], pair[1], 1);
        }
        if let (Some(first), Some(last)) = (order.first(), order.last()) {
            problem.keep_apart(left, *first, layers.vertex(*first).left.ceil() as i64);
            problem.keep_apart(*last, right, layers.vertex(*last).right.ceil() as i64);
        }
    }
    problem.pull_together(left, right, 2);
    for segment in &layers.segments {
        let is_bend = |id: u32| i64::from(!matches!(layers.vertex(id).content, Content::Node(_)));
        // A bend in the middle looks worse than one at a node.
        let stiffness = [1, 2, 8][(is_bend(segment.upper) + is_bend(segment.lower)) as usize];
        let weight = stiffness * segment.weight.min(WEIGHT_MAX);
        problem.align(segment.upper, segment.lower, weight);
    }
    Ok(match problem.solve(EFFORT, budget)? {
        Some(found) => {
            let origin = found[left as usize];
            found[..layers.vertices.len()].iter().map(|place| (place - origin) as f64).collect()
        }
        None => leftmost(layers),
    })
}

/// Everything as far to the left as possible.
fn leftmost(layers: &Layers) -> Vec<f64> {
    let mut places = vec![0.0; layers.vertices.len()];
    for order in &layers.order {
        let mut before: Option<u32> = None;
        for vertex in order {
            places[*vertex as usize] = match before {
                None => layers.vertex(*vertex).left,
                Some(before) => places[before as usize] + layers.distance(before, *vertex).ceil(),
            };
            before = Some(*vertex);
        }
    }
    places
}
