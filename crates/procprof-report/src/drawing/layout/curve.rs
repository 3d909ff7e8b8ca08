//! The smooth path through a corridor of openings, from top to bottom.
//!
//! The shortest path is a line with corners at openings. The points where it passes the tops and bottoms of openings
//! are the knots of a monotone cubic interpolation (Fritsch and Carlson 1980) of x over y: between two knots a curve
//! stays between their places, so it never leaves an opening, and two curves in the same order at all knots hardly ever
//! cross.

use super::Point;

/// The slope at a node, as a share of the path's slope: curves meet nodes more steeply than straight lines would.
const SLOPE_AT_NODES: f64 = 0.55;

/// A bound of the path between two heights.
#[derive(Clone, Copy, Debug)]
pub(super) struct Opening {
    pub(super) top: f64,
    pub(super) bottom: f64,
    pub(super) left: f64,
    pub(super) right: f64,
}

/// Openings from top to bottom between two points, all of them at different heights.
pub(super) struct Corridor<'d> {
    pub(super) start: Point,
    pub(super) openings: &'d [Opening],
    pub(super) end: Point,
}

impl Corridor<'_> {
    /// The curve: its start, and two control points and the end of each piece.
    pub(super) fn curve(&self) -> Vec<Point> {
        let knots = self.knots(&self.way());
        let slopes = slopes(&knots);
        let mut curve = vec![knots[0]];
        for (pair, slopes) in knots.windows(2).zip(slopes.windows(2)) {
            let third = (pair[1].y - pair[0].y) / 3.0;
            curve.push(Point { x: pair[0].x + slopes[0] * third, y: pair[0].y + third });
            curve.push(Point { x: pair[1].x - slopes[1] * third, y: pair[1].y - third });
            curve.push(pair[1]);
        }
        curve
    }

    /// The shortest path: corners from top to bottom, both ends included.
    fn way(&self) -> Vec<Point> {
        let mut gates: Vec<(f64, f64, f64)> = Vec::with_capacity(2 * self.openings.len() + 1);
        for opening in self.openings {
            gates.push((opening.top, opening.left, opening.right));
            if opening.bottom > opening.top {
                gates.push((opening.bottom, opening.left, opening.right));
            }
        }
        gates.push((self.end.y, self.end.x, self.end.x));
        let mut way = vec![self.start];
        let mut next = 0;
        while let Some((gate, x)) = turn(way[way.len() - 1], &gates, next) {
            way.push(Point { x, y: gates[gate].0 });
            next = gate + 1;
        }
        way.push(self.end);
        way
    }

    /// The points where the path passes openings, and its ends.
    fn knots(&self, way: &[Point]) -> Vec<Point> {
        let mut knots = vec![self.start];
        let mut corner = 1;
        let heights = self.openings.iter().flat_map(|opening| [opening.top, opening.bottom]);
        for y in heights.chain([self.end.y]) {
            if y - knots[knots.len() - 1].y < 0.01 {
                continue;
            }
            while corner + 1 < way.len() && way[corner].y < y {
                corner += 1;
            }
            let (from, to) = (way[corner - 1], way[corner]);
            let share = ((y - from.y) / (to.y - from.y).max(0.01)).clamp(0.0, 1.0);
            knots.push(Point { x: from.x + (to.x - from.x) * share, y });
        }
        knots
    }
}

/// The next corner of the shortest path from a point through the gates from `next` on: its gate and place. A gate is a
/// height with the leftmost and rightmost place.
fn turn(from: Point, gates: &[(f64, f64, f64)], next: usize) -> Option<(usize, f64)> {
    // The range that is visible from the point: slopes to the left and right, and the gates that bound them.
    let (mut leftmost, mut rightmost) = ((f64::NEG_INFINITY, next), (f64::INFINITY, next));
    for (index, (y, left, right)) in gates.iter().enumerate().skip(next) {
        let depth = y - from.y;
        if depth <= 0.01 {
            continue;
        }
        let (left, right) = ((left - from.x) / depth, (right - from.x) / depth);
        if left > rightmost.0 + 1e-9 {
            return Some((rightmost.1, gates[rightmost.1].2));
        }
        if right < leftmost.0 - 1e-9 {
            return Some((leftmost.1, gates[leftmost.1].1));
        }
        if left >= leftmost.0 {
            leftmost = (left, index);
        }
        if right <= rightmost.0 {
            rightmost = (right, index);
        }
    }
    None
}

/// The slope of the curve to the right for each point down, at each knot.
fn slopes(knots: &[Point]) -> Vec<f64> {
    let pieces: Vec<(f64, f64)> = knots
        .windows(2)
        .map(|pair| (pair[1].y - pair[0].y, (pair[1].x - pair[0].x) / (pair[1].y - pair[0].y)))
        .collect();
    let (Some(first), Some(last)) = (pieces.first(), pieces.last()) else { return vec![0.0; knots.len()] };
    let mut slopes = vec![if pieces.len() == 1 { first.1 } else { first.1 * SLOPE_AT_NODES }];
    for pair in pieces.windows(2) {
        let [(above_height, above), (below_height, below)] = [pair[0], pair[1]];
        // The weighted harmonic mean; 0 where the path turns back.
        let (one, two) = (above_height + 2.0 * below_height, 2.0 * above_height + below_height);
        slopes.push(if above * below <= 0.0 { 0.0 } else { (one + two) / (one / below + two / above) });
    }
    slopes.push(if pieces.len() == 1 { last.1 } else { last.1 * SLOPE_AT_NODES });
    slopes
}

/// The place on a piece.
#[cfg(test)]
pub(super) fn at(piece: &[Point; 4], share: f64) -> Point {
    let rest = 1.0 - share;
    let parts = [rest * rest * rest, 3.0 * rest * rest * share, 3.0 * rest * share * share, share * share * share];
    let sum = |of: fn(&Point) -> f64| piece.iter().zip(parts).map(|(point, part)| of(point) * part).sum();
    Point { x: sum(|point| point.x), y: sum(|point| point.y) }
}
