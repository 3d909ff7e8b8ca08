//! A graph as a picture in the shape of `go tool pprof`'s.
//!
//! Up to 80 nodes, chosen by weight and by how much their calls fork. Calls over omitted nodes are dotted. Labels are
//! small boxes at their node.

use super::names::ShortNames;
use super::{Color, Edge, Font, Legend, Node, Picture, Stroke, tags};
use crate::display::measure::percentage;
use crate::display::place::base_name;
use crate::graph::{self, Graph};
use crate::header::headline;
use crate::header::subject::{Drawing, Subject};
use crate::selection::view::View;
use crate::{Options, Result};

/// The picture of a profile.
pub(crate) fn picture(view: &View<'_>, options: &Options) -> Result<Picture> {
    let subject = Subject::new(view, options)?;
    let granularity = options.granularity;
    let shown = subject.graph(Drawing {
        granularity,
        trims: true,
        nodes: 80,
        picture: true,
        call_tree: true,
        objects: false,
    })?;
    let to = subject.output_unit(&shown.graph, false);
    let title =
        subject.whole.mappings().first().map_or("", |mapping| base_name(subject.whole.string(mapping.filename)));
    let legend = Legend { lines: headline::legend(&subject, &shown, to), font_size: 16.0, has_border: true };
    let mut painter = Painter {
        subject: &subject,
        graph: &shown.graph,
        to,
        picture: Picture {
            title: title.to_owned(),
            font: Font::Sans,
            legend,
            edge_font_size: 12.0,
            ..Picture::default()
        },
        positions: vec![None; shown.graph.nodes.len()],
    };
    painter.push_nodes()?;
    painter.push_edges()?;
    Ok(painter.picture)
}

struct Painter<'a> {
    subject: &'a Subject<'a>,
    graph: &'a Graph<'a>,
    /// The unit of all amounts.
    to: &'a str,
    picture: Picture,
    /// The position of each node of the graph in the picture, if it is shown.
    positions: Vec<Option<usize>>,
}

impl Painter<'_> {
    fn amount(&self, value: i64) -> String {
        self.subject.amount(value, self.to)
    }

    fn share(&self, value: i64) -> String {
        percentage(value, self.subject.total).trim().to_owned()
    }

    fn push_nodes(&mut self) -> Result<()> {
        let mut meter = self.subject.options.budget.meter("the drawing's nodes");
        let names = ShortNames::new();
        let graph = self.graph;
        let largest = graph.shown_nodes().map(|node| node.flat.value().saturating_abs()).max().unwrap_or(0);
        for (index, shown) in graph.shown.iter().enumerate() {
            let node = graph.node(*shown);
            let (id, position) = (format!("N{}", index + 1), self.picture.nodes.len());
            self.positions[*shown as usize] = Some(position);
            let drawn = self.node(node, id.clone(), largest, &names);
            meter.take(2 * drawn.name.len() + size_of::<Node>())?;
            self.picture.nodes.push(drawn);
            let (subject, to) = (self.subject, self.to);
            tags::push(&mut self.picture, node, &id, position, &|value| subject.amount(value, to));
        }
        Ok(())
    }

    fn node(&self, node: &graph::Node<'_>, id: String, largest: i64, names: &ShortNames) -> Node {
        let (flat, cum) = (node.flat.value(), node.cum.value());
        let (flat_text, cum_text) = (self.amount(flat), self.amount(cum));
        let own = if flat == 0 { "0".to_owned() } else { format!("{flat_text} ({})", self.share(flat)) };
        let all = format!("of {cum_text} ({})", self.share(cum));
        let mut lines = names.lines(&node.place);
        match (flat, cum) {
            (flat, cum) if flat == cum => lines.push(own),
            (0, _) => lines.push(format!("{own} {all}")),
            _ => lines.extend([own, all]),
        }
        let growth =
            if flat == 0 { 0.0 } else { (16.0 * (flat.saturating_abs() as f64 / largest as f64).sqrt()).ceil() };
        let score = cum as f64 / self.subject.total.saturating_abs() as f64;
        Node {
            id,
            font_size: 8.0 + growth,
            stroke: Color::from_share(score),
            fill: Some(Color::pale(score)),
            name: node.name.to_string(),
            facts: format!("self {flat_text} ({}) · total {cum_text} ({})", self.share(flat), self.share(cum)),
            amount: cum_text,
            ..Node::with_lines(lines)
        }
    }

    /// The heaviest first, as a hint for the layout.
    fn push_edges(&mut self) -> Result<()> {
        let graph = self.graph;
        let mut meter = self.subject.options.budget.meter("the drawing's edges");
        let has_tags: Vec<bool> = graph.nodes.iter().map(tags::has_any).collect();
        let all: Vec<u32> = graph.shown_nodes().flat_map(|node| &node.outgoing).copied().collect();
        for edge in graph.sorted(&all) {
            let edge = &graph.edges[edge as usize];
            // Nodes may be left out for being negative or zero alone.
            if let (Some(from), Some(to)) = (self.positions[edge.source as usize], self.positions[edge.target as usize])
            {
                let mut drawn = self.edge(edge, from, to);
                // Room for the labels between.
                drawn.length_min = if has_tags[edge.source as usize] { 2 } else { 1 };
                meter.take(drawn.tooltip.len() + size_of::<Edge>())?;
                self.picture.edges.push(drawn);
            }
        }
        Ok(())
    }

    fn edge(&self, edge: &graph::Edge, from: usize, to: usize) -> Edge {
        let (value, total) = (edge.weight.value(), self.subject.total);
        let amount = self.amount(value);
        let steps = |most: i64| match total {
            0 => 1,
            _ => 1 + (value.wrapping_mul(most).wrapping_div(total)).saturating_abs().min(most),
        };
        let (stroke, arrow) = if edge.residual { (Stroke::Dotted, "...") } else { (Stroke::Solid, "->") };
        let name = |id: u32| &self.graph.node(id).name;
        let tooltip = format!("{} {arrow} {} ({amount})", name(edge.source), name(edge.target));
        let mut label = vec![amount];
        if edge.inlined {
            label.push("(inline)".to_owned());
        }
        let color = (total != 0).then(|| Color::from_share(value as f64 / total.saturating_abs() as f64));
        Edge { label, weight: steps(100), width: steps(5) as f64, color, stroke, tooltip, ..Edge::between(from, to) }
    }
}
