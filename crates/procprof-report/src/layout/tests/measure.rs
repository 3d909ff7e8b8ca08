//! What makes a drawing readable, as numbers.

use super::super::curve::at;
use super::super::{Drawing, Graph, Point};

/// Numbers of one drawing; lengths in points.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Measures {
    pub(super) crossings: usize,
    /// Crossings, each times both weights' logarithms.
    pub(super) length: f64,
    /// Length of edges times their weight.
    pub(super) heavy_length: f64,
    pub(super) width: f64,
    pub(super) height: f64,
    /// Pieces of edges inside of boxes that are not theirs, in points.
    pub(super) through_nodes: f64,
}

/// Measures a drawing of a graph.
pub(super) fn measures(graph: &Graph, drawing: &Drawing) -> Measures {
    let lines: Vec<Vec<Point>> = drawing.edges.iter().map(|route| flattened(&route.curve)).collect();
    let length = |line: &[Point]| line.windows(2).map(|pair| (pair[0].x - pair[1].x).hypot(pair[0].y - pair[1].y)).sum::<f64>();
    let mut found = Measures { width: drawing.size.width, height: drawing.size.height, ..Measures::default() };
    for (index, line) in lines.iter().enumerate() {
        let edge = &graph.edges[index];
        found.length += length(line);
        found.heavy_length += length(line) * edge.weight as f64;
        for (node, size) in graph.nodes.iter().enumerate().filter(|(node, _)| ![edge.from, edge.to].contains(node)) {
            let center = drawing.nodes[node];
            let is_inside = |p: Point| (p.x - center.x).abs() < size.width / 2.0 - 1.0 && (p.y - center.y).abs() < size.height / 2.0 - 1.0;
            found.through_nodes += length(line) * line.iter().filter(|p| is_inside(**p)).count() as f64 / line.len() as f64;
        }
    }
    found.crossings = crossings(graph, &lines);
    found
}

fn crossings(graph: &Graph, lines: &[Vec<Point>]) -> usize {
    let boxes: Vec<[f64; 4]> = lines
        .iter()
        .map(|line| {
            let fold = |of: fn(&Point) -> f64, by: fn(f64, f64) -> f64, start: f64| line.iter().map(of).fold(start, by);
            [
                fold(|p| p.x, f64::min, f64::INFINITY),
                fold(|p| p.x, f64::max, f64::NEG_INFINITY),
                fold(|p| p.y, f64::min, f64::INFINITY),
                fold(|p| p.y, f64::max, f64::NEG_INFINITY),
            ]
        })
        .collect();
    let mut count = 0;
    for a in 0..lines.len() {
        for b in a + 1..lines.len() {
            let apart = boxes[a][0] > boxes[b][1] || boxes[b][0] > boxes[a][1] || boxes[a][2] > boxes[b][3] || boxes[b][2] > boxes[a][3];
            if apart || graph.edges[a].from == graph.edges[a].to || graph.edges[b].from == graph.edges[b].to {
                continue;
            }
            for first in lines[a].windows(2) {
                let n = lines[b].windows(2).filter(|second| cross(first, second)).count();
                if n > 0 && std::env::var("WHERE").is_ok() {
                    println!(
                        "   {}->{} x {}->{} at {:?}",
                        graph.edges[a].from, graph.edges[a].to, graph.edges[b].from, graph.edges[b].to, first[0]
                    );
                }
                count += n;
            }
        }
    }
    count
}

fn cross(a: &[Point], b: &[Point]) -> bool {
    let side = |p: Point, q: Point, r: Point| (q.x - p.x) * (r.y - p.y) - (q.y - p.y) * (r.x - p.x);
    side(a[0], a[1], b[0]) * side(a[0], a[1], b[1]) < 0.0 && side(b[0], b[1], a[0]) * side(b[0], b[1], a[1]) < 0.0
}

/// The curve as short straight lines.
pub(super) fn flattened(curve: &[Point]) -> Vec<Point> {
    let mut line = vec![curve[0]];
    for piece in curve[1..].chunks_exact(3) {
        let piece = [line[line.len() - 1], piece[0], piece[1], piece[2]];
        line.extend((1..=12).map(|step| at(&piece, f64::from(step) / 12.0)));
    }
    line
}
