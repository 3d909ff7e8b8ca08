//! `dot`: the call graph for Graphviz, in the shape of `go tool pprof -dot`.
//!
//! ```text
//! digraph "server" {
//! node [style=filled fillcolor="#f8f8f8"]
//! subgraph cluster_L { "File: server" [shape=box fontsize=16 label="File: server\l..." tooltip="server"] }
//! N1 [label="main\nwork\n0.61s (6.99%)\nof 6.72s (76.98%)" id="node1" fontsize=13 shape=box tooltip="main.work (6.72s)" ...]
//! N1 -> N2 [label=" 6.11s" weight=70 penwidth=4 color="#b21800" tooltip="main.work -> hot_70 (6.11s)" ...]
//! }
//! ```

use std::fmt::Write;

use crate::display::text::one_line;
use crate::drawing::picture::{Edge, Node, Outline, Picture, Stroke, picture};
use crate::output::Output;
use crate::selection::view::View;
use crate::{Options, Result, Sources};

pub(crate) fn render(view: &View<'_>, options: &Options, _sources: &Sources, out: &mut Output<'_>) -> Result<()> {
    let picture = picture(view, options)?;
    push_head(&mut out.text, &picture);
    // The line to a label follows its box.
    let mut tag_edges = picture.edges.iter().filter(|edge| is_of_tag(&picture, edge));
    for node in &picture.nodes {
        if node.outline == Outline::Tag {
            push_tag(&mut out.text, &picture, node, tag_edges.next());
        } else {
            push_node(&mut out.text, node);
        }
        out.drain()?;
    }
    for edge in picture.edges.iter().filter(|edge| !is_of_tag(&picture, edge)) {
        push_edge(&mut out.text, &picture, edge);
        out.drain()?;
    }
    out.text.push_str("}\n");
    Ok(())
}

fn push_head(out: &mut String, picture: &Picture) {
    let title = escaped(&picture.title);
    let _ = writeln!(out, "digraph \"{}\" {{", if title.is_empty() { "unnamed" } else { &title });
    let _ = writeln!(out, "node [style=filled fillcolor=\"#f8f8f8\"]");
    let lines: Vec<String> = picture.legend.lines.iter().map(|line| escaped(line)).collect();
    let first = lines.first().map_or("", String::as_str);
    let size = picture.legend.font_size;
    let _ = write!(out, "subgraph cluster_L {{ \"{first}\" [shape=box fontsize={size} label=\"{}", lines.join("\\l"));
    out.push_str("\\l\\lSee https://git.io/JfYMW for how to read the graph\\l\"");
    if !title.is_empty() {
        let _ = write!(out, " tooltip=\"{title}\"");
    }
    out.push_str("] }\n");
}

fn push_node(out: &mut String, node: &Node) {
    let lines: Vec<String> = node.lines.iter().map(|(line, _)| escaped(line)).collect();
    let Node { id, font_size, stroke, .. } = node;
    let number = id.trim_start_matches('N');
    let _ = write!(out, "{id} [label=\"{}\" id=\"node{number}\" fontsize={font_size} shape=box", lines.join("\\n"));
    let _ = write!(out, " tooltip=\"{} ({})\" color=\"{stroke}\"", escaped(&node.name), escaped(&node.amount));
    if let Some(fill) = node.fill {
        let _ = write!(out, " fillcolor=\"{fill}\"");
    }
    out.push_str("]\n");
}

fn push_tag(out: &mut String, picture: &Picture, tag: &Node, edge: Option<&Edge>) {
    let lines: Vec<String> = tag.lines.iter().map(|(line, _)| escaped(line)).collect();
    let (id, amount, size) = (&tag.id, escaped(&tag.amount), tag.font_size);
    let _ = writeln!(
        out,
        "{id} [label = \"{}\" id=\"{id}\" fontsize={size} shape=box3d tooltip=\"{amount}\"]",
        lines.join("\\n")
    );
    let Some(edge) = edge else { return };
    let (from, weight) = (&picture.nodes[edge.from].id, edge.weight);
    let style = if edge.stroke == Stroke::Dotted { " style=\"dotted\"" } else { "" };
    let _ = writeln!(
        out,
        "{from} -> {id} [label=\" {amount}\" weight={weight} tooltip=\"{amount}\" labeltooltip=\"{amount}\"{style}]"
    );
}

fn is_of_tag(picture: &Picture, edge: &Edge) -> bool {
    picture.nodes[edge.to].outline == Outline::Tag
}

fn push_edge(out: &mut String, picture: &Picture, edge: &Edge) {
    let (from, to) = (&picture.nodes[edge.from].id, &picture.nodes[edge.to].id);
    let lines: Vec<String> = edge.label.iter().map(|line| format!(" {}", escaped(line))).collect();
    let _ = write!(out, "{from} -> {to} [label=\"{}\"", lines.join("\\n"));
    if edge.weight > 1 {
        let _ = write!(out, " weight={}", edge.weight);
    }
    if edge.width > 1.0 {
        let _ = write!(out, " penwidth={}", edge.width);
    }
    if let Some(color) = edge.color {
        let _ = write!(out, " color=\"{color}\"");
    }
    let tooltip = escaped(&edge.tooltip);
    let _ = write!(out, " tooltip=\"{tooltip}\" labeltooltip=\"{tooltip}\"");
    out.push_str(if edge.stroke == Stroke::Dotted { " style=\"dotted\"" } else { "" });
    out.push_str(if edge.length_min > 1 { " minlen=2]\n" } else { "]\n" });
}

/// A text escaped for the quotes of a label.
fn escaped(text: &str) -> String {
    one_line(text).replace('\\', "\\\\").replace('"', "\\\"")
}
