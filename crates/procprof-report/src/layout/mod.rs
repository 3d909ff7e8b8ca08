//! Where the nodes and edges of a drawn graph go: layers from callers down to callees.
//!
//! | file | step |
//! |---|---|
//! | `acyclic.rs` | which edges are turned round, so that the rest has no cycles |
//! | `rank.rs` | the layer of each node: heavy calls are short |
//! | `layers.rs` | long edges and their labels as vertices of the layers between |
//! | `order.rs`, `crossings.rs` | the order within the layers: few crossings |
//! | `place.rs` | distances from the left: heavy calls are straight, nothing overlaps |
//! | `route.rs`, `ports.rs`, `curve.rs` | edges as curves that keep clear of nodes and labels |
//! | `simplex.rs` | the network simplex method, for ranks and places |
//!
//! The steps are those of Gansner, Koutsofios, North and Vo, *A Technique for Drawing Directed Graphs* (1993). Lengths are in points, y grows
//! downwards. The same graph gives the same drawing.

mod acyclic;
mod crossings;
mod curve;
mod layers;
mod order;
mod place;
mod ports;
mod rank;
mod route;
mod simplex;
#[cfg(test)]
mod tests;

use layers::Layers;

/// Most nodes that are laid out.
pub(crate) const NODES_MAX: usize = 4_096;
/// Most edges that are laid out.
pub(crate) const EDGES_MAX: usize = 16_384;
/// Most vertices that nodes and edges take in all layers together: a long edge is one in each layer that it passes.
pub(crate) const VERTICES_MAX: usize = 200_000;

/// A width and a height.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct Size {
    pub(crate) width: f64,
    pub(crate) height: f64,
}

/// A place in the drawing.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct Point {
    pub(crate) x: f64,
    pub(crate) y: f64,
}

/// What is to be laid out.
#[derive(Clone, Debug, Default)]
pub(crate) struct Graph {
    /// The box of each node.
    pub(crate) nodes: Vec<Size>,
    /// Heavier edges first, where that is known: ties go to the first.
    pub(crate) edges: Vec<Edge>,
}

/// An edge between nodes, by their positions.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Edge {
    pub(crate) from: usize,
    pub(crate) to: usize,
    /// How much it matters that the edge is short and straight; at least 1.
    pub(crate) weight: i64,
    /// Least number of layers from its start to its end; at least 1.
    pub(crate) length_min: i64,
    /// Width of the line.
    pub(crate) width: f64,
    /// Room for its label; nothing if empty.
    pub(crate) label: Size,
}

/// Where everything is.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Drawing {
    /// The whole, from (0, 0).
    pub(crate) size: Size,
    /// The centre of each node.
    pub(crate) nodes: Vec<Point>,
    /// Each edge.
    pub(crate) edges: Vec<Route>,
}

/// An edge in the drawing.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Route {
    /// A start, and for each piece of the curve two control points and its end; from the border of one node to that of the other.
    pub(crate) curve: Vec<Point>,
    /// The centre of the label.
    pub(crate) label: Point,
}

/// Why a graph is not laid out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct TooLarge {
    pub(crate) nodes: usize,
    pub(crate) edges: usize,
    /// Vertices, or 0 where it did not come to that.
    pub(crate) vertices: usize,
}

impl Graph {
    /// Lays the graph out.
    ///
    /// # Errors
    /// [`TooLarge`] beyond [`NODES_MAX`], [`EDGES_MAX`] and [`VERTICES_MAX`].
    pub(crate) fn drawing(&self) -> Result<Drawing, TooLarge> {
        let too_large = |vertices| TooLarge { nodes: self.nodes.len(), edges: self.edges.len(), vertices };
        if self.nodes.len() > NODES_MAX || self.edges.len() > EDGES_MAX {
            return Err(too_large(0));
        }
        if self.nodes.is_empty() {
            return Ok(Drawing::default());
        }
        let turned = acyclic::turned(self);
        let ranks = rank::ranks(self, &turned);
        let vertices = layers::vertices(self, &ranks);
        if vertices > VERTICES_MAX {
            return Err(too_large(vertices));
        }
        let mut layers = Layers::new(self, &ranks);
        order::order(&mut layers);
        let places = place::places(&layers);
        Ok(route::drawing(self, &layers, &places))
    }
}
