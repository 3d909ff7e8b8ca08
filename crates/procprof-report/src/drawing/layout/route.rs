//! Edges as curves between the nodes, and the size of the drawing.
//!
//! An edge has a corridor: in each layer that it passes, the space up to its neighbours; between the layers,
//! everything. The shortest path through the corridor is rounded as far as the corridor allows.

use super::crossings::positions;
use super::curve::{Corridor, Opening};
use super::layers::{Content, LOOP_REACH, Layers};
use super::ports::ports;
use super::{Drawing, Edge, Graph, Point, Route, Size};
use crate::{Budget, Result};

/// Least gap between two layers.
const LAYER_GAP_MIN: f64 = 13.0;
/// Largest gap: if edges go far sideways or lie above each other, layers are farther apart.
const LAYER_GAP_MAX: f64 = 52.0;
/// Sideways distance of an edge for each point that is added.
const SIDEWAYS: f64 = 36.0;
/// Points that are added for each edge that goes sideways above the same place.
const TRACK: f64 = 0.8;
/// Least distance of an edge that goes sideways.
const TRACK_MIN: f64 = 80.0;
/// Gap between an edge and the parts that it passes.
const CLEARANCE: f64 = 4.0;
/// Largest distance of an edge from its label.
const LABEL_SLACK: f64 = 5.0;

/// The drawing for distances from the left.
///
/// # Errors
/// [`crate::Error::Stopped`].
pub(super) fn drawing(graph: &Graph, layers: &Layers, places: &[f64], budget: &Budget) -> Result<Drawing> {
    let (bands, height) = bands(layers, places);
    let right = |vertex: &u32| places[*vertex as usize] + layers.vertex(*vertex).right;
    let width = layers.order.iter().filter_map(|order| order.last().map(right)).fold(0.0, f64::max);
    let center = |node: usize| {
        let band = bands[layers.vertices[node].layer];
        Point { x: places[node], y: (band.top + band.bottom) / 2.0 }
    };
    let nodes: Vec<Point> = (0..graph.nodes.len()).map(center).collect();
    let size = Size { width, height };
    let slots = positions(layers);
    let middles: Vec<f64> = bands.iter().map(|band| (band.top + band.bottom) / 2.0).collect();
    let ports = ports(graph, layers, places, &slots, &nodes, &middles);
    let router = Router { graph, layers, places, bands, nodes: &nodes, size, slots, ports };
    let mut loops = vec![0.0; graph.nodes.len()];
    let mut edges = Vec::with_capacity(graph.edges.len());
    for (index, edge) in graph.edges.iter().enumerate() {
        budget.go_on()?;
        edges.push(match edge.from == edge.to {
            true => router.round(edge, &mut loops[edge.from]),
            false => router.route(index, edge),
        });
    }
    Ok(Drawing { size, edges, nodes: nodes.clone() })
}

/// The place of a layer.
#[derive(Clone, Copy, Debug)]
struct Band {
    top: f64,
    bottom: f64,
}

/// The layers one below the other, and the height of them all.
fn bands(layers: &Layers, places: &[f64]) -> (Vec<Band>, f64) {
    let mut spans: Vec<Vec<(f64, f64)>> = vec![Vec::new(); layers.order.len()];
    for segment in &layers.segments {
        let (upper, lower) = (places[segment.upper as usize], places[segment.lower as usize]);
        spans[layers.vertex(segment.upper).layer].push((upper.min(lower), upper.max(lower)));
    }
    let mut top = 0.0;
    let mut bands = Vec::with_capacity(layers.order.len());
    for (order, spans) in layers.order.iter().zip(&spans) {
        let height = order.iter().map(|vertex| layers.vertex(*vertex).height).fold(0.0, f64::max);
        bands.push(Band { top, bottom: top + height });
        top += height + gap(spans);
    }
    let height = bands.last().map_or(0.0, |band| band.bottom);
    (bands, height)
}

/// The distance of two layers for the edges between them, which reach from one place to another.
fn gap(spans: &[(f64, f64)]) -> f64 {
    let farthest = spans.iter().map(|(left, right)| right - left).fold(0.0, f64::max);
    let sideways = spans.iter().filter(|(left, right)| right - left > TRACK_MIN);
    let mut ends: Vec<(f64, i32)> = sideways.flat_map(|(left, right)| [(*left, 1), (*right, -1)]).collect();
    ends.sort_by(|a, b| a.0.total_cmp(&b.0).then(a.1.cmp(&b.1)));
    let (mut open, mut tracks) = (0, 0);
    for (_, change) in ends {
        open += change;
        tracks = tracks.max(open);
    }
    (LAYER_GAP_MIN + farthest / SIDEWAYS + TRACK * f64::from(tracks)).min(LAYER_GAP_MAX)
}

struct Router<'a> {
    graph: &'a Graph,
    layers: &'a Layers,
    places: &'a [f64],
    bands: Vec<Band>,
    nodes: &'a [Point],
    size: Size,
    /// Position of each vertex in its layer.
    slots: Vec<u32>,
    ports: Vec<(f64, f64)>,
}

impl Router<'_> {
    fn route(&self, index: usize, edge: &Edge) -> Route {
        let chain = &self.layers.chains[index];
        let [upper, .., lower] = chain.as_slice() else { return Route::default() };
        let (from, to) = self.ports[index];
        let start = Point { x: from, y: self.border(*upper as usize, 1.0) };
        let end = Point { x: to, y: self.border(*lower as usize, -1.0) };
        let mut openings = Vec::with_capacity(chain.len());
        let mut label = Point::default();
        for vertex in chain {
            let band = self.bands[self.layers.vertex(*vertex).layer];
            let (left, right) = self.room(*vertex);
            let (top, bottom) = match vertex {
                _ if vertex == upper => (start.y, band.bottom),
                _ if vertex == lower => (band.top, end.y),
                _ => (band.top, band.bottom),
            };
            openings.push(Opening { top, bottom, left, right });
            if let Content::Label(_) = self.layers.vertex(*vertex).content {
                let right = self.places[*vertex as usize] + self.layers.vertex(*vertex).right;
                label = Point { x: right - edge.label.width / 2.0, y: (band.top + band.bottom) / 2.0 };
            }
        }
        let mut curve = Corridor { start, openings: &openings, end }.curve();
        if *upper as usize != edge.from {
            curve.reverse();
        }
        Route { curve, label }
    }

    /// The height of the lower (1) or upper (-1) border of a node.
    fn border(&self, node: usize, side: f64) -> f64 {
        self.nodes[node].y + side * self.graph.nodes[node].height / 2.0
    }

    /// The space of an edge at a vertex of its own.
    fn room(&self, vertex: u32) -> (f64, f64) {
        let order = &self.layers.order[self.layers.vertex(vertex).layer];
        let slot = self.slots[vertex as usize] as usize;
        let place = self.places[vertex as usize];
        let own = self.layers.vertex(vertex);
        let is_node = matches!(own.content, Content::Node(_));
        let (least, most) = if is_node { (place - own.left, place + own.right) } else { (place, place) };
        let left = slot.checked_sub(1).map(|slot| order[slot]).map_or(0.0, |other| {
            let free = self.places[other as usize] + self.layers.vertex(other).right;
            if self.is_bend(other) && !is_node { (free + place) / 2.0 } else { free + CLEARANCE }
        });
        let right = order.get(slot + 1).copied().map_or(self.size.width, |other| {
            let free = self.places[other as usize] - self.layers.vertex(other).left;
            if !matches!(self.layers.vertex(other).content, Content::Node(_)) && !is_node {
                (free + place) / 2.0
            } else {
                free - CLEARANCE
            }
        });
        let (left, right) = (left.min(least), right.max(most));
        if let Content::Label(_) = own.content { (left.max(place - LABEL_SLACK), place) } else { (left, right) }
    }

    fn is_bend(&self, vertex: u32) -> bool {
        self.layers.vertex(vertex).content == Content::Bend
    }

    /// A loop to the right of its node; `used` is the width of other loops there.
    fn round(&self, edge: &Edge, used: &mut f64) -> Route {
        let (center, size) = (self.nodes[edge.from], self.graph.nodes[edge.from]);
        let (border, reach) = (center.x + size.width / 2.0, *used + LOOP_REACH);
        let spread = (size.height / 4.0).min(14.0);
        let at = |x: f64, y: f64| Point { x: border + x, y: center.y + y };
        let out = reach * 1.2;
        let curve = vec![at(0.0, -spread), at(out, -spread * 1.6), at(out, spread * 1.6), at(0.0, spread)];
        let label = at(reach + edge.label.width / 2.0, 0.0);
        *used += LOOP_REACH + edge.label.width;
        Route { curve, label }
    }
}
