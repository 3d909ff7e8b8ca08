//! A call graph to draw: boxes with lines of text, and the lines between them.
//!
//! | file | content |
//! |---|---|
//! | `of_graph.rs` | a graph in the shape of pprof's, with `names.rs` and `tags.rs` |
//! | `color.rs`, `font.rs` | colors and fonts |
//! | `placed.rs` | the places of all parts |
//!
//! `dot.rs`, `svg/` and `pdf/` write it.

mod color;
mod font;
mod names;
mod of_graph;
mod placed;
mod tags;

pub use color::Color;
pub use font::Font;
pub(crate) use font::code;
pub(crate) use of_graph::picture;
pub use placed::LINE_WIDTH_MIN;
pub(crate) use placed::{Placed, TRIPLE_GAP, arrow, baselines};

use crate::drawing::layout::Size;

/// Everything that is drawn.
#[derive(Clone, Debug, Default)]
pub struct Picture {
    /// Its subject; may be empty.
    pub title: String,
    /// The typeface of all texts.
    pub font: Font,
    /// Facts about the whole.
    pub legend: Legend,
    /// The boxes.
    pub nodes: Vec<Node>,
    /// Those to labels first, then the heaviest first.
    pub edges: Vec<Edge>,
    /// Size of texts at edges.
    pub edge_font_size: f64,
    /// The page that a picture is fitted to as long as it can be read, in points; without, the page has the size of the
    /// picture.
    pub page: Option<Size>,
}

/// Facts about the whole picture.
#[derive(Clone, Debug, Default)]
pub struct Legend {
    /// The text, line by line.
    pub lines: Vec<String>,
    /// Size of the text.
    pub font_size: f64,
    /// Whether a border is drawn around it.
    pub has_border: bool,
}

/// The outline of a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outline {
    /// One box.
    Box,
    /// A label's: with a corner cut off.
    Tag,
    /// Three boxes.
    Triple,
}

/// The side of its box that a line of text is aligned with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Align {
    /// Neither.
    Center,
    /// The right one.
    Right,
}

/// A box.
#[derive(Clone, Debug)]
pub struct Node {
    /// Its name among the nodes, as in DOT.
    pub id: String,
    /// Its outline.
    pub outline: Outline,
    /// The text, line by line.
    pub lines: Vec<(String, Align)>,
    /// Size of the text.
    pub font_size: f64,
    /// Color of the outline.
    pub stroke: Color,
    /// Color of the background.
    pub fill: Option<Color>,
    /// The whole name.
    pub name: String,
    /// The amount of the node with all it calls.
    pub amount: String,
    /// All amounts as a sentence.
    pub facts: String,
}

/// The style of a line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stroke {
    /// Without gaps.
    Solid,
    /// As dots.
    Dotted,
    /// As dashes.
    Dashed,
}

/// A line with an arrow between two nodes, by their positions.
#[derive(Clone, Debug)]
pub struct Edge {
    /// Position of the caller.
    pub from: usize,
    /// Position of the callee.
    pub to: usize,
    /// The text beside it, line by line.
    pub label: Vec<String>,
    /// Its weight in the layout; at least 1.
    pub weight: i64,
    /// Width of the line in points.
    pub width: f64,
    /// Its color; grey to labels and black to functions without.
    pub color: Option<Color>,
    /// The style of the line.
    pub stroke: Stroke,
    /// Least number of layers.
    pub length_min: i64,
    /// The text shown below a pointer.
    pub tooltip: String,
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
    pub fn with_lines(lines: Vec<String>) -> Node {
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
    pub fn between(from: usize, to: usize) -> Edge {
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
