//! The laws of layouts, on graphs of all kinds: cycles, loops, many edges between the same nodes, parts that are not
//! connected.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use proptest::prelude::*;

use super::curve::at;
use super::*;
use crate::Error;

/// Lengths are sums of roundings.
const SLACK: f64 = 0.1;

fn size(width: f64, height: f64) -> Size {
    Size { width, height }
}

fn edge(from: usize, to: usize) -> Edge {
    Edge { from, to, weight: 1, length_min: 1, width: 1.0, label: size(30.0, 15.0) }
}

fn graph(nodes: usize, edges: &[(usize, usize)]) -> Graph {
    Graph { nodes: vec![size(60.0, 30.0); nodes], edges: edges.iter().map(|(from, to)| edge(*from, *to)).collect() }
}

fn graphs() -> impl Strategy<Value = Graph> {
    let sizes = prop::collection::vec((10u16..260, 10u16..120), 1..28);
    sizes.prop_flat_map(|sizes| {
        let count = sizes.len();
        let edges = prop::collection::vec((0..count, 0..count, 1i64..200_000, 1i64..3, 0u16..70), 0..2 * count);
        edges.prop_map(move |edges| Graph {
            nodes: sizes.iter().map(|(width, height)| size(f64::from(*width), f64::from(*height))).collect(),
            edges: edges
                .into_iter()
                .map(|(from, to, weight, length_min, label)| {
                    let label = if label < 10 { Size::default() } else { size(f64::from(label), 15.0) };
                    Edge { from, to, weight, length_min, width: 1.0 + (weight % 6) as f64, label }
                })
                .collect(),
        })
    })
}

/// Left, right, top and bottom.
type Sides = [f64; 4];

fn sides(center: Point, size: Size) -> Sides {
    [
        center.x - size.width / 2.0,
        center.x + size.width / 2.0,
        center.y - size.height / 2.0,
        center.y + size.height / 2.0,
    ]
}

fn overlap(a: Sides, b: Sides) -> bool {
    a[0] < b[1] - SLACK && b[0] < a[1] - SLACK && a[2] < b[3] - SLACK && b[2] < a[3] - SLACK
}

/// Checks everything that holds for any graph.
fn check(graph: &Graph) -> std::result::Result<(), TestCaseError> {
    let drawing = graph.drawing(&Budget::default()).unwrap();
    prop_assert_eq!(&drawing, &graph.drawing(&Budget::default()).unwrap(), "the same graph gives the same drawing");
    prop_assert_eq!((drawing.nodes.len(), drawing.edges.len()), (graph.nodes.len(), graph.edges.len()));
    let nodes: Vec<Sides> =
        drawing.nodes.iter().zip(&graph.nodes).map(|(center, size)| sides(*center, *size)).collect();
    let labelled = graph.edges.iter().zip(&drawing.edges).filter(|(edge, _)| edge.label.width > 0.0);
    let boxes: Vec<Sides> =
        nodes.iter().copied().chain(labelled.map(|(edge, route)| sides(route.label, edge.label))).collect();
    for (index, one) in boxes.iter().enumerate() {
        let is_inside = one[0] > -SLACK
            && one[2] > -SLACK
            && one[1] < drawing.size.width + SLACK
            && one[3] < drawing.size.height + SLACK;
        prop_assert!(is_inside, "{one:?} in {:?}", drawing.size);
        for other in &boxes[..index] {
            prop_assert!(!overlap(*one, *other), "{one:?} and {other:?}");
        }
    }
    for (edge, route) in graph.edges.iter().zip(&drawing.edges) {
        check_route(edge, route, &nodes)?;
    }
    Ok(())
}

/// An edge begins and ends at the borders of its nodes, and passes no other node.
fn check_route(edge: &Edge, route: &Route, nodes: &[Sides]) -> std::result::Result<(), TestCaseError> {
    let curve = &route.curve;
    prop_assert!(curve.len() >= 4 && curve.len() % 3 == 1, "{curve:?}");
    for (node, end) in [(edge.from, curve[0]), (edge.to, curve[curve.len() - 1])] {
        let [left, right, top, bottom] = nodes[node];
        let at = |value: f64, border: f64| (value - border).abs() < SLACK;
        let is_at = at(end.y, top) || at(end.y, bottom) || at(end.x, right);
        let is_within = end.x > left - SLACK && end.x < right + SLACK && end.y > top - SLACK && end.y < bottom + SLACK;
        prop_assert!(is_at && is_within, "{end:?} at {:?}", nodes[node]);
    }
    for piece in curve.windows(4).step_by(3) {
        let piece = [piece[0], piece[1], piece[2], piece[3]];
        for step in 0..=16 {
            let Point { x, y } = at(&piece, f64::from(step) / 16.0);
            for [left, right, top, bottom] in nodes {
                let is_in = x > left + SLACK && x < right - SLACK && y > top + SLACK && y < bottom - SLACK;
                prop_assert!(!is_in, "{x} {y} in {left} {right} {top} {bottom}");
            }
        }
    }
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 96, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn any_graph_is_drawn_by_the_laws(graph in graphs()) {
        check(&graph)?;
    }

    #[test]
    fn calls_without_cycles_go_down(graph in graphs()) {
        let edges = graph.edges.iter().filter(|edge| edge.from < edge.to).copied().collect();
        let graph = Graph { edges, ..graph };
        let drawing = graph.drawing(&Budget::default()).unwrap();
        for edge in &graph.edges {
            prop_assert!(drawing.nodes[edge.from].y < drawing.nodes[edge.to].y);
        }
    }
}

#[test]
fn small_graphs_are_drawn_by_the_laws() {
    assert_eq!(Graph::default().drawing(&Budget::default()).unwrap(), Drawing::default());
    let cases: &[(usize, &[(usize, usize)])] = &[
        (1, &[]),
        (1, &[(0, 0)]),
        (1, &[(0, 0), (0, 0)]),
        (2, &[(0, 1), (1, 0)]),
        (2, &[(0, 1), (0, 1), (0, 1)]),
        (3, &[(0, 1), (1, 2), (2, 0)]),
        (5, &[(3, 4)]),
        (4, &[(0, 1), (1, 2), (2, 3), (0, 3), (3, 3)]),
    ];
    for (nodes, edges) in cases {
        check(&graph(*nodes, edges)).unwrap();
    }
}

#[test]
fn a_heavy_path_is_straight_and_a_tree_has_no_crossings() {
    let mut path = graph(6, &[(0, 1), (1, 2), (2, 3), (0, 4), (1, 5), (0, 3)]);
    path.edges[..3].iter_mut().for_each(|edge| edge.weight = 50);
    let drawing = path.drawing(&Budget::default()).unwrap();
    for route in &drawing.edges[..3] {
        assert!(route.curve.iter().all(|point| (point.x - drawing.nodes[0].x).abs() < 1.0), "{route:?}");
    }
    let edges: Vec<(usize, usize)> = (1..40).map(|node| ((node - 1) / 3, node)).collect();
    let tree = graph(40, &edges);
    let turned = acyclic::turned(&tree);
    let mut layers = Layers::new(&tree, &rank::ranks(&tree, &turned, &Budget::default()).unwrap());
    order::order(&mut layers, &Budget::default()).unwrap();
    assert_eq!(crossings::Counter::default().all(&layers, &crossings::positions(&layers)), 0);
}

#[test]
fn what_is_too_large_is_refused() {
    let error = graph(NODES_MAX + 1, &[]).drawing(&Budget::default()).unwrap_err();
    assert_eq!(error, TooLarge { nodes: NODES_MAX + 1, edges: 0, vertices: 0 }.into());
    let error = graph(2, &vec![(0, 1); EDGES_MAX + 1]).drawing(&Budget::default()).unwrap_err();
    assert_eq!(error, TooLarge { nodes: 2, edges: EDGES_MAX + 1, vertices: 0 }.into());
    // A chain, and edges from its start to everywhere.
    let edges: Vec<(usize, usize)> = (1..900).flat_map(|node| [(node - 1, node), (0, node)]).collect();
    let error = graph(900, &edges).drawing(&Budget::default()).unwrap_err();
    assert!(matches!(error, Error::GraphTooLarge { vertices: VERTICES_MAX.., .. }), "{error:?}");
}

#[test]
fn springs_and_rules_have_the_least_sum() {
    // Two that pull at a third from both sides, with distances to keep.
    let mut problem = simplex::Problem::new(3);
    problem.keep_apart(0, 1, 10);
    problem.keep_apart(1, 2, 7);
    problem.align(0, 2, 3);
    problem.align(0, 1, 1);
    let found = problem.solve(1_000, &Budget::default()).unwrap().unwrap();
    assert_eq!((found[1] - found[0], found[2] - found[1]), (10, 7));
    let mut impossible = simplex::Problem::new(2);
    impossible.keep_apart(0, 1, 5);
    impossible.keep_apart(1, 0, 5);
    assert_eq!(impossible.solve(1_000, &Budget::default()).unwrap(), None);
}

/// Lays a graph out and stops at the check after `looks`; returns the number of checks.
fn stopped_after(graph: &Graph, looks: usize) -> (Result<Drawing>, usize) {
    let seen = Arc::new(AtomicUsize::new(0));
    let looked = Arc::clone(&seen);
    let drawing = graph.drawing(&Budget::default().until(move || looked.fetch_add(1, Ordering::Relaxed) >= looks));
    (drawing, seen.load(Ordering::Relaxed))
}

#[test]
fn a_layout_that_is_no_longer_wanted_ends_in_every_step() {
    // Everything calls five others, near and far.
    let edges: Vec<(usize, usize)> = (0..120)
        .flat_map(|from| (1..6).map(move |step| (from, (from * step + 7 * step) % 120)))
        .filter(|(from, to)| from < to)
        .collect();
    let graph = graph(120, &edges);
    let (whole, looks) = stopped_after(&graph, usize::MAX);
    assert!(whole.is_ok());
    // Each edge is checked when it is drawn, and there is more work before.
    assert!(looks > 2 * edges.len(), "{looks} looks for {} edges", edges.len());
    for after in [0, 1, looks / 4, looks / 2, looks - edges.len(), looks - 1] {
        assert_eq!(stopped_after(&graph, after), (Err(Error::Stopped), after + 1), "of {looks}");
    }
}
