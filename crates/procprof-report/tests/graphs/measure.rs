//! Measures of the readability of a drawing.

/// A place, from the top left, in points.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Point {
    pub(super) x: f64,
    pub(super) y: f64,
}

/// A box by its centre.
#[derive(Clone, Copy, Debug)]
pub(super) struct Box {
    pub(super) center: Point,
    pub(super) width: f64,
    pub(super) height: f64,
}

/// An edge between nodes, by their positions.
#[derive(Clone, Debug)]
pub(super) struct Edge {
    pub(super) from: usize,
    pub(super) to: usize,
    /// A start, and two control points and an end for each piece.
    pub(super) curve: Vec<Point>,
}

/// A drawing.
#[derive(Clone, Debug, Default)]
pub(super) struct Graph {
    pub(super) width: f64,
    pub(super) height: f64,
    pub(super) nodes: Vec<Box>,
    pub(super) edges: Vec<Edge>,
}

/// Numbers of a drawing; lengths in points.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Measures {
    pub(super) crossings: usize,
    pub(super) length: f64,
    pub(super) width: f64,
    pub(super) height: f64,
    /// Points of edges inside of boxes that are not theirs.
    pub(super) through_nodes: usize,
}

impl Measures {
    pub(super) fn area(&self) -> f64 {
        self.width * self.height
    }

    /// Adds another drawing: lengths and crossings; the larger sides.
    pub(super) fn add(&mut self, other: Measures) {
        self.crossings += other.crossings;
        self.length += other.length;
        self.width += other.width;
        self.height += other.height;
        self.through_nodes += other.through_nodes;
    }
}

impl Graph {
    pub(super) fn measures(&self) -> Measures {
        let lines: Vec<Vec<Point>> = self.edges.iter().map(|edge| flattened(&edge.curve)).collect();
        let length = |line: &Vec<Point>| {
            line.windows(2).map(|pair| (pair[0].x - pair[1].x).hypot(pair[0].y - pair[1].y)).sum::<f64>()
        };
        let through = |(edge, line): (&Edge, &Vec<Point>)| {
            let others = self.nodes.iter().enumerate().filter(|(node, _)| ![edge.from, edge.to].contains(node));
            others.map(|(_, node)| line.iter().filter(|point| holds(node, point)).count()).sum::<usize>()
        };
        Measures {
            crossings: self.crossings(&lines),
            length: lines.iter().map(length).sum(),
            width: self.width,
            height: self.height,
            through_nodes: self.edges.iter().zip(&lines).map(through).sum(),
        }
    }

    fn crossings(&self, lines: &[Vec<Point>]) -> usize {
        let boxes: Vec<[f64; 4]> = lines.iter().map(|line| bounds(line)).collect();
        let mut count = 0;
        for a in 0..lines.len() {
            for b in a + 1..lines.len() {
                let (one, other) = (boxes[a], boxes[b]);
                let apart = one[0] > other[1] || other[0] > one[1] || one[2] > other[3] || other[2] > one[3];
                let is_loop = [a, b].iter().any(|index| self.edges[*index].from == self.edges[*index].to);
                if apart || is_loop {
                    continue;
                }
                count += lines[a]
                    .windows(2)
                    .map(|first| lines[b].windows(2).filter(|second| cross(first, second)).count())
                    .sum::<usize>();
            }
        }
        count
    }
}

fn holds(node: &Box, point: &Point) -> bool {
    (point.x - node.center.x).abs() < node.width / 2.0 - 1.0
        && (point.y - node.center.y).abs() < node.height / 2.0 - 1.0
}

/// Left, right, top and bottom.
fn bounds(line: &[Point]) -> [f64; 4] {
    let start = [f64::INFINITY, f64::NEG_INFINITY, f64::INFINITY, f64::NEG_INFINITY];
    line.iter()
        .fold(start, |[left, right, top, bottom], p| [left.min(p.x), right.max(p.x), top.min(p.y), bottom.max(p.y)])
}

fn cross(a: &[Point], b: &[Point]) -> bool {
    let side = |p: Point, q: Point, r: Point| (q.x - p.x) * (r.y - p.y) - (q.y - p.y) * (r.x - p.x);
    side(a[0], a[1], b[0]) * side(a[0], a[1], b[1]) < 0.0 && side(b[0], b[1], a[0]) * side(b[0], b[1], a[1]) < 0.0
}

/// The curve as short straight lines.
fn flattened(curve: &[Point]) -> Vec<Point> {
    let mut line = vec![curve[0]];
    for piece in curve[1..].chunks_exact(3) {
        let start = line[line.len() - 1];
        for step in 1..=12 {
            let share = f64::from(step) / 12.0;
            let rest = 1.0 - share;
            let at = |of: fn(&Point) -> f64| {
                let [a, b, c, d] = [&start, &piece[0], &piece[1], &piece[2]].map(of);
                rest * rest * rest * a
                    + 3.0 * rest * rest * share * b
                    + 3.0 * rest * share * share * c
                    + share * share * share * d
            };
            line.push(Point { x: at(|p| p.x), y: at(|p| p.y) });
        }
    }
    line
}
