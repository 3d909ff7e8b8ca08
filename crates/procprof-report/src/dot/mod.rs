//! `dot`: the call graph for Graphviz, in the shape of `go tool pprof -dot`.
//!
//! Up to 80 nodes, chosen by how much they tell: weight, and how their calls fork. Calls over nodes that are left out are dotted. Labels hang
//! at their node as small boxes.
//!
//! ```text
//! digraph "server" {
//! node [style=filled fillcolor="#f8f8f8"]
//! subgraph cluster_L { "File: server" [shape=box fontsize=16 label="File: server\l..." tooltip="server"] }
//! N1 [label="main\nwork\n0.61s (6.99%)\nof 6.72s (76.98%)" id="node1" fontsize=13 shape=box tooltip="main.work (6.72s)" ...]
//! N1 -> N2 [label=" 6.11s" weight=70 penwidth=4 color="#b21800" tooltip="main.work -> hot_70 (6.11s)" ...]
//! }
//! ```

mod color;
mod names;
mod tags;

use std::fmt::Write;

use crate::graph::{Edge, Graph, Node};
use crate::measure::percentage;
use crate::place::base_name;
use crate::subject::{Drawing, Subject};
use crate::text::one_line;
use crate::view::View;
use crate::{Options, Result, Sources, headline};
use color::color;
use names::ShortNames;

pub(crate) fn render(view: &View<'_>, options: &Options, _sources: &Sources) -> Result<Vec<u8>> {
    let subject = Subject::new(&view.profile, options)?;
    let granularity = options.granularity;
    let shown = subject.graph(Drawing { granularity, trims: true, nodes: 80, picture: true, call_tree: true, objects: false });
    let to = subject.output_unit(&shown.graph, false);
    let picture = Picture { subject: &subject, graph: &shown.graph, to };
    let mut out = String::new();
    picture.push_head(&mut out, &headline::legend(&subject, &shown, to));
    picture.push_nodes(&mut out);
    picture.push_edges(&mut out);
    out.push_str("}\n");
    Ok(out.into_bytes())
}

struct Picture<'a> {
    subject: &'a Subject<'a>,
    graph: &'a Graph<'a>,
    to: &'a str,
}

impl Picture<'_> {
    fn amount(&self, value: i64) -> String {
        self.subject.amount(value, self.to)
    }

    fn push_head(&self, out: &mut String, legend: &[String]) {
        let title = self.subject.whole.mappings().first().map_or("", |mapping| base_name(self.subject.whole.string(mapping.filename)));
        let title = escaped(title);
        let _ = writeln!(out, "digraph \"{}\" {{", if title.is_empty() { "unnamed" } else { &title });
        let _ = writeln!(out, "node [style=filled fillcolor=\"#f8f8f8\"]");
        let lines: Vec<String> = legend.iter().map(|line| escaped(line)).collect();
        let first = lines.first().map_or("", String::as_str);
        let _ = write!(out, "subgraph cluster_L {{ \"{first}\" [shape=box fontsize=16 label=\"{}", lines.join("\\l"));
        out.push_str("\\l\\lSee https://git.io/JfYMW for how to read the graph\\l\"");
        if !title.is_empty() {
            let _ = write!(out, " tooltip=\"{title}\"");
        }
        out.push_str("] }\n");
    }

    fn push_nodes(&self, out: &mut String) {
        let names = ShortNames::new();
        let largest = self.graph.shown_nodes().map(|node| node.flat.value().saturating_abs()).max().unwrap_or(0);
        for (index, node) in self.graph.shown_nodes().enumerate() {
            self.push_node(out, node, index + 1, largest, &names);
            out.push_str(&tags::nodelets(node, index + 1, &|value| self.amount(value)));
        }
    }

    fn push_node(&self, out: &mut String, node: &Node<'_>, number: usize, largest: i64, names: &ShortNames) {
        let (flat, cum) = (node.flat.value(), node.cum.value());
        let total = self.subject.total;
        let (flat_text, cum_text) = (self.amount(flat), self.amount(cum));
        let share = |value: i64| percentage(value, total).trim().to_owned();
        let mut label = names.label(&node.place);
        match flat {
            0 => label.push('0'),
            _ => {
                let _ = write!(label, "{flat_text} ({})", share(flat));
            }
        }
        if cum != flat {
            let _ = write!(label, "{}of {cum_text} ({})", if flat == 0 { " " } else { "\\n" }, share(cum));
        }
        let growth = if flat == 0 { 0.0 } else { (16.0 * (flat.saturating_abs() as f64 / largest as f64).sqrt()).ceil() };
        let score = cum as f64 / total.saturating_abs() as f64;
        let _ = writeln!(
            out,
            "N{number} [label=\"{label}\" id=\"node{number}\" fontsize={} shape=box tooltip=\"{} ({cum_text})\" color=\"{}\" fillcolor=\"{}\"]",
            8 + growth as i64,
            escaped(&node.name),
            color(score, false),
            color(score, true),
        );
    }

    /// The heaviest first, as a hint for the layout.
    fn push_edges(&self, out: &mut String) {
        let mut numbers = vec![0; self.graph.nodes.len()];
        self.graph.shown.iter().enumerate().for_each(|(index, id)| numbers[*id as usize] = index + 1);
        let has_nodelets: Vec<bool> = self.graph.nodes.iter().map(|node| !tags::nodelets(node, 0, &|_| String::new()).is_empty()).collect();
        let all: Vec<u32> = self.graph.shown_nodes().flat_map(|node| &node.outgoing).copied().collect();
        for edge in self.graph.sorted(&all) {
            let edge = &self.graph.edges[edge as usize];
            let (from, to) = (numbers[edge.source as usize], numbers[edge.target as usize]);
            // Nodes may be left out for being negative or zero alone.
            if from != 0 && to != 0 {
                self.push_edge(out, edge, (from, to), has_nodelets[edge.source as usize]);
            }
        }
    }

    fn push_edge(&self, out: &mut String, edge: &Edge, (from, to): (usize, usize), is_apart: bool) {
        let (value, total) = (edge.weight.value(), self.subject.total);
        let weight = self.amount(value);
        let inlined = if edge.inlined { "\\n (inline)" } else { "" };
        let _ = write!(out, "N{from} -> N{to} [label=\" {weight}{inlined}\"");
        if total != 0 {
            let steps = |most: i64| 1 + (value.wrapping_mul(most).wrapping_div(total)).saturating_abs().min(most);
            for (name, steps) in [("weight", steps(100)), ("penwidth", steps(5))] {
                if steps > 1 {
                    let _ = write!(out, " {name}={steps}");
                }
            }
            let _ = write!(out, " color=\"{}\"", color(value as f64 / total.saturating_abs() as f64, false));
        }
        let arrow = if edge.residual { "..." } else { "->" };
        let name = |id: u32| escaped(&self.graph.node(id).name);
        let tooltip = format!("\"{} {arrow} {} ({weight})\"", name(edge.source), name(edge.target));
        let _ = write!(out, " tooltip={tooltip} labeltooltip={tooltip}");
        out.push_str(if edge.residual { " style=\"dotted\"" } else { "" });
        // Room for the labels between.
        out.push_str(if is_apart { " minlen=2]\n" } else { "]\n" });
    }
}

/// A text for between the quotes of a label.
fn escaped(text: &str) -> String {
    one_line(text).replace('\\', "\\\\").replace('"', "\\\"")
}
