//! A call graph as it is drawn: boxes with lines of text, and the lines between them.
//!
//! | file | what it does |
//! |---|---|
//! | `of_graph.rs` | a graph in the shape of pprof's, with `names.rs` and `tags.rs` |
//! | `color.rs`, `font.rs` | what it looks like |
//! | `placed.rs` | where everything goes |
//!
//! `dot.rs`, `svg/` and `pdf/` write it.

mod color;
mod font;
mod names;
mod of_graph;
mod placed;
mod tags;

pub(crate) use color::Color;
pub(crate) use font::{Font, code};
pub(crate) use of_graph::picture;
pub(crate) use placed::{LINE_WIDTH_MIN, Placed, TRIPLE_GAP, arrow, baselines};

use crate::layout::Size;

/// Everything that is drawn.
#[derive(Clone, Debug, Default)]
pub(crate) struct Picture {
    /// What it is of; may be empty.
    pub(crate) title: String,
    pub(crate) font: Font,
    /// Facts about the whole.
    pub(crate) legend: Legend,
    pub(crate) nodes: Vec<Node>,
    /// Those to labels first, then the heaviest first.
    pub(crate) edges: Vec<Edge>,
    /// Size of texts at edges.
    pub(crate) edge_font_size: f64,
    /// The page that a printed picture is to fit on while it can be read there, in points; as large as it takes without.
    pub(crate) page: Option<Size>,
}

/// Facts about the whole picture.
#[derive(Clone, Debug, Default)]
pub(crate) struct Legend {
    pub(crate) lines: Vec<String>,
    pub(crate) font_size: f64,
    pub(crate) has_border: bool,
}

/// What is around a node's text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Outline {
    Box,
    /// A label's: with a corner cut off.
    Tag,
    /// Three boxes.
    Triple,
}

/// Where a line stands in its box.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Align {
    Center,
    Right,
}

/// A box.
#[derive(Clone, Debug)]
pub(crate) struct Node {
    /// Its name among the nodes, as in DOT.
    pub(crate) id: String,
    pub(crate) outline: Outline,
    pub(crate) lines: Vec<(String, Align)>,
    pub(crate) font_size: f64,
    pub(crate) stroke: Color,
    pub(crate) fill: Option<Color>,
    /// The whole name.
    pub(crate) name: String,
    /// What it counts with all it calls.
    pub(crate) amount: String,
    /// All amounts as a sentence.
    pub(crate) facts: String,
}

/// How a line is drawn.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Stroke {
    Solid,
    Dotted,
    Dashed,
}

/// A line with an arrow between two nodes, by their positions.
#[derive(Clone, Debug)]
pub(crate) struct Edge {
    pub(crate) from: usize,
    pub(crate) to: usize,
    pub(crate) label: Vec<String>,
    /// How much it matters for the layout; at least 1.
    pub(crate) weight: i64,
    /// Width of the line in points.
    pub(crate) width: f64,
    pub(crate) color: Option<Color>,
    pub(crate) stroke: Stroke,
    /// Least number of layers.
    pub(crate) length_min: i64,
    pub(crate) tooltip: String,
}

impl Picture {
    /// The color that an edge is drawn in.
    pub(crate) fn color(&self, edge: usize) -> Color {
        let edge = &self.edges[edge];
        let otherwise = if self.nodes[edge.to].outline == Outline::Tag { Color::GREY } else { Color::BLACK };
        edge.color.unwrap_or(otherwise)
    }
}

impl Node {
    /// A box in black and white with centered lines.
    pub(crate) fn of_lines(lines: Vec<String>) -> Node {
        Node {
            id: String::new(),
            outline: Outline::Box,
            lines: lines.into_iter().map(|line| (line, Align::Center)).collect(),
            font_size: 8.0,
            stroke: Color::BLACK,
            fill: None,
            name: String::new(),
            amount: String::new(),
            facts: String::new(),
        }
    }
}

impl Edge {
    /// A light line without a label.
    pub(crate) fn between(from: usize, to: usize) -> Edge {
        Edge {
            from,
            to,
            label: Vec::new(),
            weight: 1,
            width: 1.0,
            color: None,
            stroke: Stroke::Solid,
            length_min: 1,
            tooltip: String::new(),
        }
    }
}
