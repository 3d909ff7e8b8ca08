//! The points where edges meet the borders of nodes: in their order, towards their other ends, and separate from each
//! other.

use super::layers::Layers;
use super::{Graph, Point};

/// Gap between two edges at a border.
const PORT_GAP: f64 = 9.0;
/// Gap at a corner.
const CORNER: f64 = 4.0;

/// For each edge the places at the lower border of its upper node, and at the upper border of its lower node.
pub(super) fn ports(
    graph: &Graph,
    layers: &Layers,
    places: &[f64],
    slots: &[u32],
    nodes: &[Point],
    middles: &[f64],
) -> Vec<(f64, f64)> {
    let mut below: Vec<Vec<usize>> = vec![Vec::new(); graph.nodes.len()];
    let mut above: Vec<Vec<usize>> = vec![Vec::new(); graph.nodes.len()];
    for (index, chain) in layers.chains.iter().enumerate() {
        if let (Some(upper), Some(lower)) = (chain.first(), chain.last()) {
            below[*upper as usize].push(index);
            above[*lower as usize].push(index);
        }
    }
    let mut ports = vec![(0.0, 0.0); graph.edges.len()];
    for (node, center) in nodes.iter().enumerate() {
        let side = Side { center: *center, width: graph.nodes[node].width, half: graph.nodes[node].height / 2.0 };
        for (edges, is_below) in [(&mut below[node], true), (&mut above[node], false)] {
            let neighbour = |edge: &usize| {
                let chain = &layers.chains[*edge];
                if is_below { chain[1] } else { chain[chain.len() - 2] }
            };
            edges.sort_by_key(|edge| slots[neighbour(edge) as usize]);
            let towards = |edge: &usize| {
                let vertex = neighbour(edge);
                Point { x: places[vertex as usize], y: middles[layers.vertex(vertex).layer] }
            };
            let wanted: Vec<(f64, f64)> = edges
                .iter()
                .map(|edge| (side.wanted(towards(edge)), graph.edges[*edge].weight.max(1) as f64))
                .collect();
            for (edge, place) in edges.iter().zip(side.spread(&wanted)) {
                *(if is_below { &mut ports[*edge].0 } else { &mut ports[*edge].1 }) = place;
            }
        }
    }
    ports
}

/// The upper or lower border of a node.
struct Side {
    center: Point,
    width: f64,
    /// Half the height.
    half: f64,
}

impl Side {
    /// The point where the straight line from the centre to a point leaves the node.
    fn wanted(&self, towards: Point) -> f64 {
        let depth = (towards.y - self.center.y).abs().max(1.0);
        self.center.x + (towards.x - self.center.x) * (self.half / depth).min(1.0)
    }

    /// The places nearest to the ideal ones, from left to right with a gap between: least squares, weighted, by
    /// pooling neighbours that are too close.
    fn spread(&self, wanted: &[(f64, f64)]) -> Vec<f64> {
        let room = (self.width - 2.0 * CORNER).max(0.0);
        let gap = PORT_GAP.min(room / wanted.len().max(2) as f64);
        // Pools of neighbours with the sum of weights, the weighted sum, and their number.
        let mut pools: Vec<(f64, f64, usize)> = Vec::with_capacity(wanted.len());
        for (index, (place, weight)) in wanted.iter().enumerate() {
            let mut pool = (*weight, weight * (place - gap * index as f64), 1);
            while let Some(last) = pools.pop_if(|last| last.1 / last.0 >= pool.1 / pool.0) {
                pool = (pool.0 + last.0, pool.1 + last.1, pool.2 + last.2);
            }
            pools.push(pool);
        }
        let levels = pools.iter().flat_map(|(weight, sum, count)| std::iter::repeat_n(sum / weight, *count));
        let (left, count) = (self.center.x - room / 2.0, wanted.len());
        let fit = |(index, level): (usize, f64)| {
            let (before, after) = (gap * index as f64, gap * (count - 1 - index) as f64);
            (level + before).clamp(left + before, (left + room - after).max(left + before))
        };
        levels.enumerate().map(fit).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ports_keep_order_distance_and_the_heavy_in_place() {
        let side = Side { center: Point { x: 50.0, y: 0.0 }, width: 100.0, half: 10.0 };
        assert_eq!(side.spread(&[(50.0, 1.0)]), [50.0]);
        assert_eq!(side.spread(&[(50.0, 1.0), (50.0, 1.0)]), [45.5, 54.5]);
        assert_eq!(side.spread(&[(-900.0, 1.0), (50.0, 1.0), (900.0, 1.0)]), [4.0, 50.0, 96.0]);
        let placed = side.spread(&[(50.0, 99.0), (50.0, 1.0)]);
        assert!((placed[0] - 49.91).abs() < 0.01 && (placed[1] - placed[0] - PORT_GAP).abs() < 1e-9, "{placed:?}");
        let many = side.spread(&[(50.0, 1.0); 40]);
        assert!(
            many.windows(2).all(|pair| pair[0] < pair[1]) && many[0] >= CORNER && many[39] <= 100.0 - CORNER,
            "{many:?}"
        );
    }
}
