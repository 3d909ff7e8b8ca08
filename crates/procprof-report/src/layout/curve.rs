//! The smooth way through a corridor of doors, from top to bottom.

use super::Point;

/// Steps between points that are tested.
const STEP: f64 = 5.0;
/// How far a curve may leave its corridor, in points.
const TOLERANCE: f64 = 0.6;

/// Where the way is bounded: between two heights.
#[derive(Clone, Copy, Debug)]
pub(super) struct Door {
    pub(super) top: f64,
    pub(super) bottom: f64,
    pub(super) left: f64,
    pub(super) right: f64,
}

/// Doors from top to bottom between two points. The first and the last door are the borders of the nodes whose centres the points are.
pub(super) struct Corridor<'d> {
    pub(super) start: Point,
    pub(super) doors: &'d [Door],
    pub(super) end: Point,
}

impl Corridor<'_> {
    /// The curve from the first door to the last.
    pub(super) fn curve(&self) -> Vec<Point> {
        let way = self.way();
        let mut curve = vec![way[0]];
        self.fit(&way, direction(way[0], way[1]), direction(way[way.len() - 2], way[way.len() - 1]), &mut curve);
        self.cut(curve)
    }

    /// The shortest way: corners from top to bottom, both ends included.
    fn way(&self) -> Vec<Point> {
        let mut gates: Vec<(f64, f64, f64)> = Vec::with_capacity(2 * self.doors.len());
        for door in self.doors {
            gates.push((door.top, door.left, door.right));
            if door.bottom > door.top {
                gates.push((door.bottom, door.left, door.right));
            }
        }
        gates.push((self.end.y, self.end.x, self.end.x));
        let mut way = vec![self.start];
        let mut next = 0;
        while next < gates.len() {
            let corner = way[way.len() - 1];
            // What can be seen from the corner: slopes to the left and right, and the gates that bound them.
            let (mut left, mut right) = ((f64::NEG_INFINITY, next), (f64::INFINITY, next));
            let mut turn = None;
            for (index, (y, from, to)) in gates.iter().enumerate().skip(next) {
                let depth = y - corner.y;
                if depth <= 0.01 {
                    continue;
                }
                let (from, to) = ((from - corner.x) / depth, (to - corner.x) / depth);
                if from > right.0 + 1e-9 {
                    turn = Some((right.1, gates[right.1].2));
                    break;
                }
                if to < left.0 - 1e-9 {
                    turn = Some((left.1, gates[left.1].1));
                    break;
                }
                if from >= left.0 {
                    left = (from, index);
                }
                if to <= right.0 {
                    right = (to, index);
                }
            }
            let Some((gate, x)) = turn else { break };
            way.push(Point { x, y: gates[gate].0 });
            next = gate + 1;
        }
        way.push(self.end);
        way
    }

    /// Appends a curve along the way with these directions at its ends.
    fn fit(&self, way: &[Point], start: Point, end: Point, curve: &mut Vec<Point>) {
        let (first, last) = (way[0], way[way.len() - 1]);
        let length: f64 = way.windows(2).map(|pair| distance(pair[0], pair[1])).sum();
        let shares: &[f64] = if way.len() == 2 { &[0.35, 0.2, 0.1] } else { &[0.36, 0.25] };
        for share in shares {
            let reach = length * share;
            let piece = [first, shifted(first, start, reach), shifted(last, end, -reach), last];
            if self.holds(&piece) {
                curve.extend_from_slice(&piece[1..]);
                return;
            }
        }
        if way.len() == 2 {
            let straight = direction(first, last);
            curve.extend([shifted(first, straight, length / 3.0), shifted(last, straight, -length / 3.0), last]);
            return;
        }
        // The corner that is farthest from the straight line.
        let away = |index: &usize| offset(first, last, way[*index]);
        let corner = (1..way.len() - 1).max_by(|a, b| away(a).total_cmp(&away(b))).unwrap_or(1);
        let (before, after) = (direction(way[corner - 1], way[corner]), direction(way[corner], way[corner + 1]));
        let middle = direction(Point::default(), Point { x: before.x + after.x, y: before.y + after.y });
        self.fit(&way[..=corner], start, middle, curve);
        self.fit(&way[corner..], middle, end, curve);
    }

    /// Whether a piece stays in the corridor.
    fn holds(&self, piece: &[Point; 4]) -> bool {
        let steps = (distance(piece[0], piece[3]) / STEP).clamp(8.0, 400.0) as usize;
        let points = (1..steps).map(|step| at(piece, step as f64 / steps as f64));
        let mut door = 0;
        for point in points {
            while door < self.doors.len() && self.doors[door].bottom + TOLERANCE < point.y {
                door += 1;
            }
            let Some(own) = self.doors.get(door) else { continue };
            let is_inside = own.top - TOLERANCE <= point.y;
            if is_inside && (point.x < own.left - TOLERANCE || point.x > own.right + TOLERANCE) {
                return false;
            }
        }
        self.passes_borders(piece)
    }

    /// Whether a piece crosses the borders of both nodes where it should.
    fn passes_borders(&self, piece: &[Point; 4]) -> bool {
        let ends = [self.doors.first(), self.doors.last()];
        ends.into_iter().flatten().all(|door| {
            let is_crossed = piece[0].y < door.top && door.top < piece[3].y;
            let x = at(piece, height(piece, door.top)).x;
            !is_crossed || (door.left - TOLERANCE..=door.right + TOLERANCE).contains(&x)
        })
    }

    /// Cuts off what is inside of the nodes.
    fn cut(&self, mut curve: Vec<Point>) -> Vec<Point> {
        let [first, .., last] = self.doors else { return curve };
        while curve.len() > 4 && curve[3].y <= first.top {
            curve.drain(..3);
        }
        let piece = [curve[0], curve[1], curve[2], curve[3]];
        let (_, lower) = split(&piece, height(&piece, first.top));
        curve[..4].copy_from_slice(&lower);
        while curve.len() > 4 && curve[curve.len() - 4].y >= last.top {
            curve.truncate(curve.len() - 3);
        }
        let count = curve.len();
        let piece = [curve[count - 4], curve[count - 3], curve[count - 2], curve[count - 1]];
        let (upper, _) = split(&piece, height(&piece, last.top));
        curve[count - 4..].copy_from_slice(&upper);
        curve
    }
}

/// The place on a piece.
pub(super) fn at(piece: &[Point; 4], share: f64) -> Point {
    let rest = 1.0 - share;
    let parts = [rest * rest * rest, 3.0 * rest * rest * share, 3.0 * rest * share * share, share * share * share];
    let sum = |of: fn(&Point) -> f64| piece.iter().zip(parts).map(|(point, part)| of(point) * part).sum();
    Point { x: sum(|point| point.x), y: sum(|point| point.y) }
}

/// Where a piece that goes down reaches a height.
fn height(piece: &[Point; 4], y: f64) -> f64 {
    let (mut low, mut high) = (0.0, 1.0);
    for _ in 0..40 {
        let middle = (low + high) / 2.0;
        if at(piece, middle).y < y { low = middle } else { high = middle }
    }
    (low + high) / 2.0
}

/// Both parts of a piece.
fn split(piece: &[Point; 4], share: f64) -> ([Point; 4], [Point; 4]) {
    let between = |a: Point, b: Point| Point { x: a.x + (b.x - a.x) * share, y: a.y + (b.y - a.y) * share };
    let [a, b, c, d] = *piece;
    let (ab, bc, cd) = (between(a, b), between(b, c), between(c, d));
    let (abc, bcd) = (between(ab, bc), between(bc, cd));
    let middle = between(abc, bcd);
    ([a, ab, abc, middle], [middle, bcd, cd, d])
}

fn distance(a: Point, b: Point) -> f64 {
    (a.x - b.x).hypot(a.y - b.y)
}

/// From one point to another, of length 1; straight down where they are the same.
fn direction(from: Point, to: Point) -> Point {
    let length = distance(from, to);
    if length < 1e-9 { Point { x: 0.0, y: 1.0 } } else { Point { x: (to.x - from.x) / length, y: (to.y - from.y) / length } }
}

fn shifted(point: Point, along: Point, length: f64) -> Point {
    Point { x: point.x + along.x * length, y: point.y + along.y * length }
}

/// Distance from the line through two points.
fn offset(first: Point, last: Point, point: Point) -> f64 {
    let along = direction(first, last);
    ((point.x - first.x) * along.y - (point.y - first.y) * along.x).abs()
}
