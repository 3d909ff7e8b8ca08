//! A picture with the places of all parts: the sizes of boxes from their texts, the layout, and the legend in a free
//! corner.

use super::{Node, Outline, Picture};
use crate::drawing::layout::{self, Graph, Point, Route, Size};
use crate::{Budget, Error, Result};

/// Height of a line of text, in sizes of the font.
const LINE: f64 = 1.2;
/// Between the text of a box and its border, at the sides.
const PADDING_X: f64 = 7.0;
/// And above and below.
const PADDING_Y: f64 = 4.0;
/// Least size of a box.
const BOX_MIN: Size = Size { width: 34.0, height: 20.0 };
/// Around everything.
const MARGIN: f64 = 12.0;
/// Least room of a line: if it is drawn thinner, everything stays in its place.
pub const LINE_WIDTH_MIN: f64 = 1.0;
/// Between the legend and what is beside it.
const LEGEND_GAP: f64 = 24.0;

/// The places of all parts, in points from the top left.
pub(crate) struct Placed {
    pub(crate) size: Size,
    /// Centre and size of each node.
    pub(crate) nodes: Vec<(Point, Size)>,
    pub(crate) edges: Vec<Route>,
    /// The room of each edge's label.
    pub(crate) labels: Vec<Size>,
    /// Centre and size of the legend, where it has lines.
    pub(crate) legend: Option<(Point, Size)>,
}

impl Picture {
    /// Lays the picture out.
    ///
    /// # Errors
    /// [`Error::GraphTooLarge`] beyond what is laid out, and [`Error::Stopped`].
    pub(crate) fn placed(&self, budget: &Budget) -> Result<Placed> {
        let sizes: Vec<Size> = self.nodes.iter().map(|node| self.box_size(node)).collect();
        let labels: Vec<Size> = self.edges.iter().map(|edge| self.label_size(&edge.label)).collect();
        let edges = self.edges.iter().zip(&labels).map(|(edge, label)| layout::Edge {
            from: edge.from,
            to: edge.to,
            weight: edge.weight,
            length_min: edge.length_min,
            width: edge.width.max(LINE_WIDTH_MIN),
            label: *label,
        });
        let drawing = Graph { nodes: sizes.clone(), edges: edges.collect() }.drawing(budget)?;
        let legend = self.legend_size();
        let mut placed = Placed {
            size: drawing.size,
            nodes: drawing.nodes.into_iter().zip(sizes).collect(),
            edges: drawing.edges,
            labels,
            legend: None,
        };
        placed.add_legend(legend);
        Ok(placed)
    }

    fn box_size(&self, node: &Node) -> Size {
        let width = node.lines.iter().map(|(line, _)| self.font.width(line, node.font_size)).fold(0.0, f64::max);
        let border = if node.outline == Outline::Triple { 2.0 * TRIPLE_GAP } else { 0.0 };
        let height = node.lines.len() as f64 * node.font_size * LINE;
        let fit = |inner: f64, padding: f64, least: f64| (inner + 2.0 * (padding + border)).max(least).ceil();
        Size { width: fit(width, PADDING_X, BOX_MIN.width), height: fit(height, PADDING_Y, BOX_MIN.height) }
    }

    fn label_size(&self, lines: &[String]) -> Size {
        let width = lines.iter().map(|line| self.font.width(line, self.edge_font_size)).fold(0.0, f64::max);
        Size { width: width.ceil(), height: (lines.len() as f64 * self.edge_font_size * LINE).ceil() }
    }

    fn legend_size(&self) -> Size {
        let legend = &self.legend;
        let width = legend.lines.iter().map(|line| self.font.width(line, legend.font_size)).fold(0.0, f64::max);
        let height = legend.lines.len() as f64 * legend.font_size * LINE;
        if legend.lines.is_empty() {
            Size::default()
        } else {
            Size { width: width + 2.0 * PADDING_X, height: height + 2.0 * PADDING_Y }
        }
    }
}

/// Between the borders of a node that has several.
pub(crate) const TRIPLE_GAP: f64 = 4.0;

/// A place for the legend.
struct Corner {
    /// Of the picture with it.
    size: Size,
    /// The extent of the graph to the right and down.
    shift: Point,
    /// From the left to the middle of the legend.
    center: f64,
}

impl Corner {
    fn area(&self) -> f64 {
        self.size.width * self.size.height
    }
}

impl From<layout::TooLarge> for Error {
    fn from(found: layout::TooLarge) -> Error {
        Error::GraphTooLarge { nodes: found.nodes, edges: found.edges, vertices: found.vertices }
    }
}

impl Placed {
    /// Puts the legend beside the graph's top or above it, where that makes the picture least larger, and a margin
    /// around all.
    fn add_legend(&mut self, legend: Size) {
        let mut origin = Point { x: MARGIN, y: MARGIN };
        if legend.width > 0.0 {
            let corner = self.corner(legend);
            self.size = corner.size;
            self.legend = Some((Point { x: corner.center + MARGIN, y: legend.height / 2.0 + MARGIN }, legend));
            origin = Point { x: corner.shift.x + MARGIN, y: corner.shift.y + MARGIN };
        }
        self.shift(origin);
        self.size =
            Size { width: (self.size.width + 2.0 * MARGIN).ceil(), height: (self.size.height + 2.0 * MARGIN).ceil() };
    }

    /// The best corner for a legend.
    fn corner(&self, legend: Size) -> Corner {
        let Size { width, height } = self.size;
        let (left, right) = self.free_beside(legend.height + LEGEND_GAP);
        let (at_left, at_right) = ((legend.width - left).max(0.0), (legend.width - right).max(0.0));
        let (wide, above) = (width.max(legend.width), legend.height + LEGEND_GAP);
        let half = legend.width / 2.0;
        let corner = |width: f64, shift: Point, center: f64| {
            let height = (height + shift.y).max(legend.height);
            Corner { size: Size { width, height }, shift, center }
        };
        let corners = [
            corner(width + at_left, Point { x: at_left, y: 0.0 }, half),
            corner(width + at_right, Point { x: 0.0, y: 0.0 }, width + at_right - half),
            corner(wide, Point { x: (wide - width) / 2.0, y: above }, half),
        ];
        let [first, others @ ..] = corners;
        others.into_iter().fold(first, |best, other| if other.area() < best.area() { other } else { best })
    }

    /// The free width at the left and right of everything down to a height.
    fn free_beside(&self, height: f64) -> (f64, f64) {
        let nodes = self.nodes.iter().map(|(center, size)| {
            (center.y - size.height / 2.0, center.x - size.width / 2.0, center.x + size.width / 2.0)
        });
        let curves = self.edges.iter().flat_map(|edge| &edge.curve).map(|point| (point.y, point.x, point.x));
        let labels = self.edges.iter().zip(&self.labels).filter(|(_, size)| size.width > 0.0).map(|(edge, size)| {
            let half = size.width / 2.0;
            (edge.label.y - size.height / 2.0, edge.label.x - half, edge.label.x + half)
        });
        let (mut left, mut right) = (self.size.width, 0.0_f64);
        for (_, from, to) in nodes.chain(curves).chain(labels).filter(|(top, ..)| *top < height) {
            left = left.min(from);
            right = right.max(to);
        }
        (left - LEGEND_GAP, self.size.width - right - LEGEND_GAP)
    }

    fn shift(&mut self, by: Point) {
        let shift = |point: &mut Point| *point = Point { x: point.x + by.x, y: point.y + by.y };
        self.nodes.iter_mut().for_each(|(center, _)| shift(center));
        for edge in &mut self.edges {
            edge.curve.iter_mut().for_each(shift);
            shift(&mut edge.label);
        }
    }
}

/// Heights of the baselines of lines in a box around a centre.
pub(crate) fn baselines(center: f64, lines: usize, font_size: f64) -> impl Iterator<Item = f64> {
    let first = center - lines as f64 * font_size * LINE / 2.0;
    (0..lines).map(move |line| first + (line as f64 + 0.5) * font_size * LINE + font_size * 0.34)
}

/// The head of an arrow at the end of a curve: its point and both corners. The curve then ends between the corners.
pub(crate) fn arrow(curve: &mut [Point], width: f64) -> Option<[Point; 3]> {
    let [.., from, tip] = curve else { return None };
    let (length, half) = (7.0 + 1.5 * width, 2.6 + 0.9 * width);
    let mut along = Point { x: tip.x - from.x, y: tip.y - from.y };
    // Not `hypot`, for which a program built on a new system needs glibc 2.35 or later.
    let distance = (along.x * along.x + along.y * along.y).sqrt();
    if distance < 1e-6 {
        along = Point { x: 0.0, y: 1.0 };
    } else {
        along = Point { x: along.x / distance, y: along.y / distance };
    }
    let point = *tip;
    let base = Point { x: point.x - along.x * length, y: point.y - along.y * length };
    let corner = |side: f64| Point { x: base.x - along.y * half * side, y: base.y + along.x * half * side };
    // The last control point goes back, too, so that the curve keeps its direction.
    let back = (distance - length).max(0.5);
    *tip = base;
    *from = Point {
        x: point.x - along.x * (length + back.min(distance)),
        y: point.y - along.y * (length + back.min(distance)),
    };
    Some([point, corner(1.0), corner(-1.0)])
}
