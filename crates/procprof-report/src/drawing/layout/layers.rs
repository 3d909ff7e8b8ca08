//! The graph with a vertex in every layer that an edge passes: nodes are in the even layers, labels of edges in the odd
//! ones.

use super::{Edge, Graph, Size};

/// Gap between the boxes of two nodes.
const NODE_GAP: f64 = 16.0;
/// Gap between a label or an edge and its neighbours.
const EDGE_GAP: f64 = 9.0;
/// Gap between an edge and its label.
const LABEL_GAP: f64 = 3.0;
/// The distance of a loop from its node.
pub(super) const LOOP_REACH: f64 = 22.0;

/// The kind of a vertex.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Content {
    /// A node.
    Node(usize),
    /// An edge with its label to the right.
    Label(usize),
    /// A place that an edge passes.
    Bend,
}

/// A vertex of a layer.
#[derive(Clone, Copy, Debug)]
pub(super) struct Vertex {
    pub(super) content: Content,
    pub(super) layer: usize,
    /// Width to the left of the point where edges meet it.
    pub(super) left: f64,
    /// Width to the right.
    pub(super) right: f64,
    pub(super) height: f64,
}

/// The piece of an edge between vertices of neighbouring layers.
#[derive(Clone, Copy, Debug)]
pub(super) struct Segment {
    pub(super) upper: u32,
    pub(super) lower: u32,
    pub(super) weight: i64,
}

/// All layers.
#[derive(Clone, Debug, Default)]
pub(super) struct Layers {
    /// Nodes first, in their order.
    pub(super) vertices: Vec<Vertex>,
    /// Vertices of each layer from left to right.
    pub(super) order: Vec<Vec<u32>>,
    pub(super) segments: Vec<Segment>,
    /// For each vertex its neighbours in the layer above and in the layer below.
    pub(super) above: Vec<Vec<u32>>,
    pub(super) below: Vec<Vec<u32>>,
    /// For each edge its vertices from the upper node to the lower; empty for an edge from a node to itself.
    pub(super) chains: Vec<Vec<u32>>,
}

/// The number of vertices.
pub(super) fn vertices(graph: &Graph, ranks: &[usize]) -> usize {
    let passed = graph.edges.iter().map(|edge| (2 * ranks[edge.from].abs_diff(ranks[edge.to])).saturating_sub(1));
    passed.fold(graph.nodes.len(), usize::saturating_add)
}

impl Layers {
    /// The layers for ranks in which the ends of every edge except loops differ; the order within is not optimized yet.
    pub(super) fn new(graph: &Graph, ranks: &[usize]) -> Layers {
        let mut layers = Layers::default();
        let loops = loop_rooms(graph);
        for (index, size) in graph.nodes.iter().enumerate() {
            let half = size.width / 2.0;
            let vertex = Vertex {
                content: Content::Node(index),
                layer: 2 * ranks[index],
                left: half,
                right: half + loops[index].width,
                height: size.height.max(loops[index].height),
            };
            layers.push(vertex);
        }
        for (index, edge) in graph.edges.iter().enumerate() {
            let chain = if edge.from == edge.to { Vec::new() } else { layers.chain(index, edge, ranks) };
            layers.chains.push(chain);
        }
        layers
    }

    fn push(&mut self, vertex: Vertex) -> u32 {
        let id = self.vertices.len() as u32;
        if self.order.len() <= vertex.layer {
            self.order.resize(vertex.layer + 1, Vec::new());
        }
        self.order[vertex.layer].push(id);
        self.vertices.push(vertex);
        self.above.push(Vec::new());
        self.below.push(Vec::new());
        id
    }

    fn chain(&mut self, index: usize, edge: &Edge, ranks: &[usize]) -> Vec<u32> {
        let (upper, lower) =
            if ranks[edge.from] < ranks[edge.to] { (edge.from, edge.to) } else { (edge.to, edge.from) };
        let (first, last) = (2 * ranks[upper], 2 * ranks[lower]);
        // The label of a long edge is in the odd layer nearest to the middle.
        let labelled = if edge.label.width > 0.0 { Some((first + last) / 2 / 2 * 2 + 1) } else { None };
        let labelled = labelled.map(|layer| if layer >= last { layer - 2 } else { layer });
        let mut chain = vec![upper as u32];
        for layer in first + 1..last {
            let half = edge.width / 2.0;
            let (content, right, height) = match labelled {
                Some(own) if own == layer => {
                    (Content::Label(index), half + LABEL_GAP + edge.label.width, edge.label.height)
                }
                _ => (Content::Bend, half, 0.0),
            };
            let vertex = self.push(Vertex { content, layer, left: half, right, height });
            self.connect(chain[chain.len() - 1], vertex, edge.weight.max(1));
            chain.push(vertex);
        }
        self.connect(chain[chain.len() - 1], lower as u32, edge.weight.max(1));
        chain.push(lower as u32);
        chain
    }

    fn connect(&mut self, upper: u32, lower: u32, weight: i64) {
        self.segments.push(Segment { upper, lower, weight });
        self.below[upper as usize].push(lower);
        self.above[lower as usize].push(upper);
    }

    pub(super) fn vertex(&self, id: u32) -> &Vertex {
        &self.vertices[id as usize]
    }

    /// Least distance between two neighbours of a layer, from where edges meet the left one to where they meet the
    /// right one.
    pub(super) fn distance(&self, left: u32, right: u32) -> f64 {
        let (left, right) = (self.vertex(left), self.vertex(right));
        let are_nodes = matches!((left.content, right.content), (Content::Node(_), Content::Node(_)));
        left.right + right.left + if are_nodes { NODE_GAP } else { EDGE_GAP }
    }
}

/// Width to the right of each node for its loops and their labels, and their height.
fn loop_rooms(graph: &Graph) -> Vec<Size> {
    let mut rooms = vec![Size::default(); graph.nodes.len()];
    for edge in graph.edges.iter().filter(|edge| edge.from == edge.to) {
        let room = &mut rooms[edge.from];
        room.width += LOOP_REACH + edge.label.width;
        room.height = room.height.max(edge.label.height);
    }
    rooms
}
