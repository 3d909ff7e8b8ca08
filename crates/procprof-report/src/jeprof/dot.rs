//! `--dot`: the call graph in Graphviz's language.

use std::fmt::Write;

use rustc_hash::FxHashMap;

use super::number::{descending, percent};
use super::view::{NameId, Row, View};

/// Heaviest edge that Graphviz is given.
const WEIGHT_MAX: f64 = 100_000.0;

/// A call graph, and what is told about it on standard error.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Graph {
    /// The graph.
    pub dot: String,
    /// What was left out.
    pub message: Option<String>,
}

struct Edge {
    caller: NameId,
    callee: NameId,
    value: f64,
}

/// What is left out, and the sum that fractions are of.
struct Limits {
    total: f64,
    node: f64,
    edge: f64,
}

impl View<'_> {
    /// The call graph; `None` if no node is heavy enough.
    pub fn dot(&self) -> Option<Graph> {
        let (rows, total) = self.rows();
        let limits =
            Limits { total, node: (self.settings.node_fraction * total).trunc(), edge: (self.settings.edge_fraction * total).trunc() };
        let nodes = self.heaviest(rows, limits.node);
        if nodes.is_empty() {
            return None;
        }
        let mut dot = String::new();
        self.write_heading(&mut dot, &limits);
        let mut numbers: Vec<Option<usize>> = vec![None; self.name_count()];
        for (index, node) in nodes.iter().enumerate() {
            numbers[node.name.index()] = Some(index + 1);
            self.write_node(&mut dot, index + 1, node, limits.total);
        }
        self.write_edges(&mut dot, &numbers, &limits);
        dot.push_str("}\n");
        Some(Graph { dot, message: self.dropping(&limits) })
    }

    fn heaviest(&self, mut rows: Vec<Row>, limit: f64) -> Vec<Row> {
        rows.sort_by(|a, b| descending(a.cumulative.abs(), b.cumulative.abs()).then_with(|| self.name(a.name).cmp(self.name(b.name))));
        rows.truncate(usize::try_from(self.settings.node_count).unwrap_or(0));
        while rows.pop_if(|row| row.cumulative.abs() <= limit).is_some() {}
        rows
    }

    fn dropping(&self, limits: &Limits) -> Option<String> {
        let (node, edge, unit) = (self.unit.print(limits.node), self.unit.print(limits.edge), self.unit.name());
        let any = limits.node > 0.0 || limits.edge > 0.0;
        any.then(|| format!("Dropping nodes with <= {node} {unit}; edges with <= {edge} abs({unit})"))
    }

    fn write_heading(&self, dot: &mut String, limits: &Limits) {
        let (program, unit) = (&self.settings.program, self.unit.name());
        let print = |value| self.unit.print(value);
        let total = print(self.total);
        // Writing to a string cannot fail, here and below.
        let _ = writeln!(dot, "digraph \"{program}; {total} {unit}\" {{\nnode [width=0.375,height=0.25];");
        let _ = writeln!(
            dot,
            "Legend [shape=box,fontsize=24,shape=plaintext,label=\"{program}\\lTotal {unit}: {total}\\lFocusing on: {}\\l\
             Dropped nodes with <= {} abs({unit})\\lDropped edges with <= {} {unit}\\l\"];",
            print(limits.total),
            print(limits.node),
            print(limits.edge)
        );
    }

    fn write_node(&self, dot: &mut String, number: usize, row: &Row, total: f64) {
        let size = if total > 0.0 { 8.0 + 50.0 * (row.flat / total).abs().sqrt() } else { 8.0 };
        let cumulative = if row.flat == row.cumulative {
            String::new()
        } else {
            format!("\\rof {} ({})", self.unit.print(row.cumulative), percent(row.cumulative, total))
        };
        let style = match row.flat {
            flat if self.settings.heap_check && flat > 0.0 => ",style=filled,fillcolor=gray",
            flat if self.settings.heap_check && flat < 0.0 => ",peripheries=3",
            _ => "",
        };
        let name = broken(self.name(row.name));
        let (flat, share) = (self.unit.print(row.flat), percent(row.flat, total));
        let _ = writeln!(dot, "N{number} [label=\"{name}\\n{flat} ({share}){cumulative}\\r\",shape=box,fontsize={size:.1}{style}];");
    }

    fn write_edges(&self, dot: &mut String, numbers: &[Option<usize>], limits: &Limits) {
        let mut entering = vec![0; numbers.len()];
        let mut leaving = vec![0; numbers.len()];
        for edge in self.edges(numbers) {
            let (caller, callee) = (edge.caller.index(), edge.callee.index());
            let (Some(from), Some(to)) = (numbers[caller], numbers[callee]) else { continue };
            // The first edge into a node is kept, so that it can be reached.
            let is_first = entering[callee] == 0;
            let is_full = leaving[caller] >= self.settings.degree_max || entering[callee] >= self.settings.degree_max;
            if !is_first && (edge.value.abs() <= limits.edge || is_full) {
                continue;
            }
            leaving[caller] += 1;
            entering[callee] += 1;
            let fraction = if limits.total == 0.0 { 0.0 } else { (3.0 * (edge.value / limits.total)).abs().min(1.0) };
            let weight = edge.value.abs().powf(0.7).min(WEIGHT_MAX).trunc();
            let dashed = if self.name(edge.callee).contains("(inline)") { ",dashed" } else { "" };
            let _ = writeln!(
                dot,
                "N{from} -> N{to} [label={}, weight={weight}, style=\"setlinewidth({:.6}){dashed}\"];",
                self.unit.print(edge.value),
                fraction * 2.0
            );
        }
    }

    /// Calls between nodes that are shown, by value, then by the names of caller and callee.
    fn edges(&self, numbers: &[Option<usize>]) -> Vec<Edge> {
        let mut values: FxHashMap<(NameId, NameId), f64> = FxHashMap::default();
        let mut entries = Vec::new();
        for (stack, value) in self.stacks.iter() {
            self.translate(stack, &mut entries);
            for pair in entries.windows(2) {
                let (callee, caller) = (pair[0], pair[1]);
                if numbers[caller.index()].is_some() && numbers[callee.index()].is_some() {
                    *values.entry((caller, callee)).or_default() += value;
                }
            }
        }
        let mut edges: Vec<Edge> = values.into_iter().map(|((caller, callee), value)| Edge { caller, callee, value }).collect();
        edges.sort_by(|a, b| {
            let names = |edge: &Edge| (self.name(edge.caller), self.name(edge.callee));
            descending(a.value, b.value).then_with(|| names(a).cmp(&names(b)))
        });
        edges
    }
}

/// A name with line breaks for blanks and `::`.
fn broken(name: &str) -> String {
    let mut text = String::with_capacity(name.len());
    let mut in_blanks = false;
    for letter in name.chars() {
        let is_blank = letter.is_ascii_whitespace();
        match is_blank {
            true if in_blanks => {}
            true => text.push_str("\\n"),
            false => text.push(letter),
        }
        in_blanks = is_blank;
    }
    text.replace("::", "\\n")
}
