//! The layout of a drawn graph: layers from callers down to callees.
//!
//! | file | step |
//! |---|---|
//! | `acyclic.rs` | the edges that are reversed, so that the graph has no cycles |
//! | `rank.rs` | the layer of each node: heavy calls are short |
//! | `layers.rs` | long edges and their labels as vertices of the layers between |
//! | `order.rs`, `crossings.rs` | the order within the layers: few crossings |
//! | `place.rs` | distances from the left: heavy calls are straight, nothing overlaps |
//! | `route.rs`, `ports.rs`, `curve.rs` | edges as curves that avoid nodes and labels |
//! | `simplex.rs` | the network simplex method, for ranks and places |
//!
//! The steps are those of Gansner, Koutsofios, North and Vo, *A Technique for Drawing Directed Graphs* (1993). Lengths
//! are in points, y grows downwards. The same graph gives the same drawing.

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

use crate::error::{EDGES_MAX, NODES_MAX, VERTICES_MAX};
use crate::{Budget, Result};

/// A width and a height.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Size {
    /// From left to right.
    pub width: f64,
    /// From top to bottom.
    pub height: f64,
}

/// A place in the drawing.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct Point {
    pub(crate) x: f64,
    pub(crate) y: f64,
}

/// The input of a layout.
#[derive(Clone, Debug, Default)]
pub(crate) struct Graph {
    /// The box of each node.
    pub(crate) nodes: Vec<Size>,
    /// Heavier edges first, if known: ties go to the first.
    pub(crate) edges: Vec<Edge>,
}

/// An edge between nodes, by their positions.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Edge {
    pub(crate) from: usize,
    pub(crate) to: usize,
    /// The weight of keeping the edge short and straight; at least 1.
    pub(crate) weight: i64,
    /// Least number of layers from its start to its end; at least 1.
    pub(crate) length_min: i64,
    /// Width of the line.
    pub(crate) width: f64,
    /// The size of its label; may be empty.
    pub(crate) label: Size,
}

/// The places of all parts.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Drawing {
    /// The size of the whole, from (0, 0).
    pub(crate) size: Size,
    /// The centre of each node.
    pub(crate) nodes: Vec<Point>,
    /// Each edge.
    pub(crate) edges: Vec<Route>,
}

/// An edge in the drawing.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Route {
    /// A start, and for each piece of the curve two control points and its end; from the border of one node to that of
    /// the other.
    pub(crate) curve: Vec<Point>,
    /// The centre of the label.
    pub(crate) label: Point,
}

/// Why a graph is not laid out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct TooLarge {
    pub(crate) nodes: usize,
    pub(crate) edges: usize,
    /// Vertices, or 0 if they were not counted.
    pub(crate) vertices: usize,
}

impl Graph {
    /// Lays the graph out, which takes seconds for one of thousands of edges.
    ///
    /// # Errors
    /// [`TooLarge`] beyond [`NODES_MAX`], [`EDGES_MAX`] and [`VERTICES_MAX`], and [`crate::Error::Stopped`].
    pub(crate) fn drawing(&self, budget: &Budget) -> Result<Drawing> {
        let too_large = |vertices| TooLarge { nodes: self.nodes.len(), edges: self.edges.len(), vertices };
        if self.nodes.len() > NODES_MAX || self.edges.len() > EDGES_MAX {
            return Err(too_large(0).into());
        }
        if self.nodes.is_empty() {
            return Ok(Drawing::default());
        }
        let turned = acyclic::turned(self);
        let ranks = rank::ranks(self, &turned, budget)?;
        let vertices = layers::vertices(self, &ranks);
        if vertices > VERTICES_MAX {
            return Err(too_large(vertices).into());
        }
        let mut layers = Layers::new(self, &ranks);
        order::order(&mut layers, budget)?;
        let places = place::places(&layers, budget)?;
        route::drawing(self, &layers, &places, budget)
    }
}
