//! `--dot`: the call graph in Graphviz's language.

use std::fmt::Write;

use foldhash::HashMap;

use crate::view::number::{descending, percent};
use crate::view::{NameId, Row, View};

/// Heaviest edge weight for Graphviz.
const WEIGHT_MAX: f64 = 100_000.0;

/// A call graph, and a message about it for standard error.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Graph {
    /// The graph.
    pub dot: String,
    /// The omitted parts.
    pub message: Option<String>,
}

/// Nodes and edges that are shown, heaviest first.
pub(super) struct Shown {
    pub(super) nodes: Vec<Row>,
    pub(super) edges: Vec<Edge>,
    pub(super) limits: Limits,
}

/// A call between nodes, by their positions.
pub(super) struct Edge {
    pub(super) from: usize,
    pub(super) to: usize,
    pub(super) value: f64,
    pub(super) weight: f64,
    /// Width of the line.
    pub(super) width: f64,
    /// Whether the callee was inlined.
    pub(super) inlined: bool,
}

struct Call {
    caller: NameId,
    callee: NameId,
    value: f64,
}

/// The omitted parts, and the base of fractions.
pub(super) struct Limits {
    pub(super) total: f64,
    node: f64,
    edge: f64,
}

impl View<'_> {
    /// The call graph; `None` if no node is heavy enough.
    pub fn dot(&self) -> Option<Graph> {
        let shown = self.shown()?;
        let (program, unit) = (&self.settings.program, self.unit.name());
        let mut dot = String::new();
        // Writing to a string cannot fail, here and below.
        let _ = writeln!(
            dot,
            "digraph \"{program}; {} {unit}\" {{\nnode [width=0.375,height=0.25];",
            self.unit.print(self.total)
        );
        let legend = self.legend(&shown.limits).join("\\l");
        let _ = writeln!(dot, "Legend [shape=box,fontsize=24,shape=plaintext,label=\"{legend}\\l\"];");
        for (index, node) in shown.nodes.iter().enumerate() {
            self.write_node(&mut dot, index + 1, node, shown.limits.total);
        }
        for edge in &shown.edges {
            let Edge { from, to, value, weight, width, inlined } = edge;
            let dashed = if *inlined { ",dashed" } else { "" };
            let (from, to, value) = (from + 1, to + 1, self.unit.print(*value));
            let _ = writeln!(
                dot,
                "N{from} -> N{to} [label={value}, weight={weight}, style=\"setlinewidth({width:.6}){dashed}\"];"
            );
        }
        dot.push_str("}\n");
        Some(Graph { dot, message: self.dropping(&shown.limits) })
    }

    /// The content of a graph; `None` if no node is heavy enough.
    pub(super) fn shown(&self) -> Option<Shown> {
        let (rows, total) = self.rows();
        let limits = Limits {
            total,
            node: (self.settings.node_fraction * total).trunc(),
            edge: (self.settings.edge_fraction * total).trunc(),
        };
        let nodes = self.heaviest(rows, limits.node);
        if nodes.is_empty() {
            return None;
        }
        let mut positions: Vec<Option<usize>> = vec![None; self.name_count()];
        nodes.iter().enumerate().for_each(|(position, node)| positions[node.name.index()] = Some(position));
        let edges = self.kept(&positions, &limits);
        Some(Shown { nodes, edges, limits })
    }

    fn heaviest(&self, mut rows: Vec<Row>, limit: f64) -> Vec<Row> {
        rows.sort_by(|a, b| {
            descending(a.cumulative.abs(), b.cumulative.abs()).then_with(|| self.name(a.name).cmp(self.name(b.name)))
        });
        rows.truncate(usize::try_from(self.settings.node_count).unwrap_or(0));
        while rows.pop_if(|row| row.cumulative.abs() <= limit).is_some() {}
        rows
    }

    /// The message about nodes and edges that are left out.
    pub(super) fn dropping(&self, limits: &Limits) -> Option<String> {
        let (node, edge, unit) = (self.unit.print(limits.node), self.unit.print(limits.edge), self.unit.name());
        let any = limits.node > 0.0 || limits.edge > 0.0;
        any.then(|| format!("Dropping nodes with <= {node} {unit}; edges with <= {edge} abs({unit})"))
    }

    /// The lines about the whole.
    pub(super) fn legend(&self, limits: &Limits) -> Vec<String> {
        let unit = self.unit.name();
        let print = |value| self.unit.print(value);
        vec![
            self.settings.program.clone(),
            format!("Total {unit}: {}", print(self.total)),
            format!("Focusing on: {}", print(limits.total)),
            format!("Dropped nodes with <= {} abs({unit})", print(limits.node)),
            format!("Dropped edges with <= {} {unit}", print(limits.edge)),
        ]
    }

    /// The size of a node's text.
    pub(super) fn font_size(row: &Row, total: f64) -> f64 {
        if total > 0.0 { 8.0 + 50.0 * (row.flat / total).abs().sqrt() } else { 8.0 }
    }

    /// The lines of amounts below a node's name.
    pub(super) fn amounts(&self, row: &Row, total: f64) -> Vec<String> {
        let line = |value: f64| format!("{} ({})", self.unit.print(value), percent(value, total));
        let mut lines = vec![line(row.flat)];
        if row.flat != row.cumulative {
            lines.push(format!("of {}", line(row.cumulative)));
        }
        lines
    }

    fn write_node(&self, dot: &mut String, number: usize, row: &Row, total: f64) {
        let style = match row.flat {
            flat if self.settings.heap_check && flat > 0.0 => ",style=filled,fillcolor=gray",
            flat if self.settings.heap_check && flat < 0.0 => ",peripheries=3",
            _ => "",
        };
        let (name, size) = (name_lines(self.name(row.name)).join("\\n"), Self::font_size(row, total));
        let amounts = self.amounts(row, total).join("\\r");
        let _ = writeln!(dot, "N{number} [label=\"{name}\\n{amounts}\\r\",shape=box,fontsize={size:.1}{style}];");
    }

    fn kept(&self, positions: &[Option<usize>], limits: &Limits) -> Vec<Edge> {
        let mut entering = vec![0; positions.len()];
        let mut leaving = vec![0; positions.len()];
        let mut edges = Vec::new();
        for Call { caller, callee, value } in self.graph_calls(positions) {
            let (caller, target) = (caller.index(), callee.index());
            let (Some(from), Some(to)) = (positions[caller], positions[target]) else { continue };
            // The first edge into a node is kept, so that it can be reached.
            let is_first = entering[target] == 0;
            let is_full = leaving[caller] >= self.settings.degree_max || entering[target] >= self.settings.degree_max;
            if !is_first && (value.abs() <= limits.edge || is_full) {
                continue;
            }
            leaving[caller] += 1;
            entering[target] += 1;
            let fraction = if limits.total == 0.0 { 0.0 } else { (3.0 * (value / limits.total)).abs().min(1.0) };
            let weight = value.abs().powf(0.7).min(WEIGHT_MAX).trunc();
            edges.push(Edge {
                from,
                to,
                value,
                weight,
                width: fraction * 2.0,
                inlined: self.name(callee).contains("(inline)"),
            });
        }
        edges
    }

    /// Calls between nodes that are shown, by value, then by the names of caller and callee.
    fn graph_calls(&self, positions: &[Option<usize>]) -> Vec<Call> {
        let mut values: HashMap<(NameId, NameId), f64> = HashMap::default();
        let mut entries = Vec::new();
        for (stack, value) in self.stacks() {
            self.translate(stack, &mut entries);
            for pair in entries.windows(2) {
                let (callee, caller) = (pair[0], pair[1]);
                if positions[caller.index()].is_some() && positions[callee.index()].is_some() {
                    *values.entry((caller, callee)).or_default() += value;
                }
            }
        }
        let mut calls: Vec<Call> =
            values.into_iter().map(|((caller, callee), value)| Call { caller, callee, value }).collect();
        calls.sort_by(|a, b| {
            let names = |call: &Call| (self.name(call.caller), self.name(call.callee));
            descending(a.value, b.value).then_with(|| names(a).cmp(&names(b)))
        });
        calls
    }
}

/// The lines of a name: broken at blanks and `::`.
pub(super) fn name_lines(name: &str) -> Vec<String> {
    let mut text = String::with_capacity(name.len());
    for letter in name.chars() {
        match letter.is_ascii_whitespace() {
            true if text.ends_with('\n') => {}
            true => text.push('\n'),
            false => text.push(letter),
        }
    }
    text.replace("::", "\n").split('\n').map(str::to_owned).collect()
}
