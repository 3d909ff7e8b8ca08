//! `--svg` and `--pdf`: the graph of `--dot`, drawn.

use procprof_report::drawing::{
    Align, Color, Edge as Line, Font, LINE_WIDTH_MIN, Legend, Node, Outline, Picture, Size, Stroke, draw_pdf, draw_svg,
};
use procprof_report::{Budget, Result};

use super::dot::{Edge, Shown, name_lines};
use crate::settings::Settings;
use crate::view::{Row, View};

/// Size of texts at edges: that of Graphviz.
const EDGE_FONT_SIZE: f64 = 14.0;
/// The page of `--pdf`, 8 by 11 inches.
const PAGE: Size = Size { width: 576.0, height: 792.0 };
/// Grey of nodes that leak.
const GREY: Color = Color([0xc0; 3]);

/// A drawn call graph, and a message about it for standard error.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Drawn {
    /// The file.
    pub bytes: Vec<u8>,
    /// The omitted parts.
    pub message: Option<String>,
}

impl View<'_> {
    /// The call graph as SVG; `None` if no node is heavy enough.
    ///
    /// # Errors
    /// [`procprof_report::Error::GraphTooLarge`] beyond what is laid out.
    pub fn svg(&self) -> Result<Option<Drawn>> {
        let Some(shown) = self.shown() else { return Ok(None) };
        let mut picture = self.picture(&shown);
        // Thin lines are hard to see and to hit with a pointer.
        picture.edges.iter_mut().for_each(|edge| edge.width = edge.width.max(LINE_WIDTH_MIN));
        Ok(Some(Drawn { bytes: draw_svg(&picture)?, message: self.dropping(&shown.limits) }))
    }

    /// The call graph as PDF; `None` if no node is heavy enough.
    ///
    /// # Errors
    /// [`procprof_report::Error::GraphTooLarge`] beyond what is laid out.
    pub fn pdf(&self) -> Result<Option<Drawn>> {
        let Some(shown) = self.shown() else { return Ok(None) };
        let picture = Picture { page: Some(PAGE), ..self.picture(&shown) };
        Ok(Some(Drawn { bytes: draw_pdf(&picture, &Budget::default())?, message: self.dropping(&shown.limits) }))
    }

    fn picture(&self, shown: &Shown) -> Picture {
        let total = shown.limits.total;
        Picture {
            title: self.settings.program.clone(),
            font: Font::Serif,
            legend: Legend { lines: self.legend(&shown.limits), font_size: 24.0, has_border: false },
            nodes: shown.nodes.iter().enumerate().map(|(index, row)| self.node(index, row, total)).collect(),
            edges: shown.edges.iter().map(|edge| self.line(edge, &shown.nodes)).collect(),
            edge_font_size: EDGE_FONT_SIZE,
            page: None,
        }
    }

    fn node(&self, index: usize, row: &Row, total: f64) -> Node {
        let name = self.name(row.name);
        let amounts = self.amounts(row, total);
        let (outline, fill) = marks(self.settings, row.flat);
        let unit = self.unit.name();
        let mut node = Node {
            id: format!("N{}", index + 1),
            outline,
            font_size: Self::font_size(row, total),
            fill,
            name: name.to_owned(),
            amount: self.unit.print(row.cumulative),
            facts: format!("{unit}: {}", amounts.join(" ")),
            ..Node::with_lines(name_lines(name))
        };
        node.lines.extend(amounts.into_iter().map(|line| (line, Align::Right)));
        node
    }

    fn line(&self, edge: &Edge, nodes: &[Row]) -> Line {
        let value = self.unit.print(edge.value);
        let name = |position: usize| self.name(nodes[position].name);
        Line {
            tooltip: format!("{} -> {} ({value})", name(edge.from), name(edge.to)),
            label: vec![value],
            weight: edge.weight as i64,
            width: edge.width,
            stroke: if edge.inlined { Stroke::Dashed } else { Stroke::Solid },
            ..Line::between(edge.from, edge.to)
        }
    }
}

/// The highlighting of nodes that leak.
fn marks(settings: &Settings, flat: f64) -> (Outline, Option<Color>) {
    match flat {
        flat if settings.heap_check && flat > 0.0 => (Outline::Box, Some(GREY)),
        flat if settings.heap_check && flat < 0.0 => (Outline::Triple, None),
        _ => (Outline::Box, None),
    }
}
