//! The boxes as SVG elements. Places are in percent, so the picture fits any width without a script, and each box is an
//! `svg` element of its own, so its text is cut at its edge.

use std::fmt::Write;

use super::Graph;
use super::boxes::{Box, Boxes, Content};
use super::heading::Heading;
use crate::display::amount::{grouped, percent};
use crate::display::markup::{MarkupWriter, markup};
use crate::display::palette;
use crate::output::Output;
use crate::stacks::stack_tree::Inlined;
use crate::{FrameKind, Layout, Result};

/// Height of a row, in px; `viewer.js` has the same.
const ROW: usize = 18;
/// Height of the title's line.
const TITLE: usize = 34;
/// Height of another line of the heading.
const LINE: usize = 17;
/// Legend and details, and the gap below them.
const FOOT: usize = 52;
/// Space below the lowest row.
const MARGIN: usize = 10;

/// Height of everything above the boxes, in px.
pub(super) fn heading_height(heading: &Heading) -> usize {
    TITLE + heading.lines() * LINE + FOOT
}

/// Height of the whole picture, in px.
pub(super) fn height(heading: &Heading, boxes: &Boxes) -> usize {
    heading_height(heading) + boxes.rows as usize * ROW + MARGIN
}

/// Appends the hatching, the boxes and the heading, which is last because it floats above the boxes.
pub(super) fn push(out: &mut Output<'_>, graph: &Graph<'_>, boxes: &Boxes) -> Result<()> {
    MarkupWriter::new(&mut out.text).constant(
        "<defs><pattern id=\"procprof-hatch\" width=\"6\" height=\"6\" patternUnits=\"userSpaceOnUse\" patternTransform=\"rotate(45)\">\
         <rect class=\"hatch\" width=\"6\" height=\"6\"/><rect class=\"stripe\" width=\"2\" height=\"6\"/></pattern></defs>\n<g id=\"procprof-boxes\">\n",
    );
    let top = heading_height(&graph.heading);
    for this in &boxes.boxes {
        let row = match graph.options.layout {
            Layout::Flame => boxes.rows - 1 - this.depth,
            Layout::Icicle => this.depth,
        };
        push_box(&mut MarkupWriter::new(&mut out.text), graph, this, top + row as usize * ROW);
        out.drain()?;
    }
    MarkupWriter::new(&mut out.text).constant("</g>\n");
    push_heading(&mut MarkupWriter::new(&mut out.text), graph, boxes);
    Ok(())
}

fn push_box(out: &mut MarkupWriter<'_>, graph: &Graph<'_>, this: &Box, y: usize) {
    let total = graph.tree.total().max(1) as f64;
    let share = |value: i64| value.max(0) as f64 / total * 100.0;
    let width = if this.depth == 0 { 100.0 } else { share(this.total) };
    let class = match this.content {
        Content::Merged(_) => "b m".to_owned(),
        Content::Frame { frame, inlined } => {
            let frame = &graph.tree.frames[frame as usize];
            let mark = if inlined == Inlined::Fully { " i" } else { "" };
            format!("b {}{mark}", palette::class(frame.kind, &frame.name))
        }
    };
    let (left, row) = (share(this.left), ROW - 1);
    markup!(
        out,
        "<svg class=\"{}\" x=\"{:.4}%\" y=\"{}\" width=\"{:.4}%\" height=\"{}\"><title>",
        class,
        left,
        y,
        width,
        row
    );
    for (index, line) in tooltip(graph, this).split('\n').enumerate() {
        out.constant(if index == 0 { "" } else { "\n" });
        out.text(line);
    }
    out.constant("</title><rect width=\"100%\" height=\"100%\"/>");
    if width > 1.0 {
        markup!(out, "<text x=\"4\" y=\"12.5\">{}</text>", name(graph, this));
    }
    out.constant("</svg>\n");
}

fn name(graph: &Graph<'_>, this: &Box) -> String {
    match this.content {
        Content::Frame { frame, .. } => graph.tree.frames[frame as usize].name.clone(),
        Content::Merged(frames) => {
            let what = if frames == 1 { "frame" } else { "frames" };
            format!("\u{2026} {} {what}, {}", grouped(u64::from(frames)), percent(this.total, graph.tree.total()))
        }
    }
}

/// The whole name, then value, shares and depth, then remarks.
fn tooltip(graph: &Graph<'_>, this: &Box) -> String {
    let amount = &graph.amount;
    let mut text = format!("{}\n{}", name(graph, this), amount.sentence(this.total));
    let _ = write!(text, " \u{b7} {} of all", percent(this.total, graph.tree.total()));
    if this.depth > 0 {
        let _ = write!(text, " \u{b7} {} of parent", percent(this.total, this.parent_total));
    }
    if let (Content::Frame { frame, inlined }, true) = (this.content, this.depth > 0) {
        let frame = &graph.tree.frames[frame as usize];
        let _ = write!(text, " \u{b7} self {}", amount.text(this.flat));
        let _ = write!(text, " \u{b7} depth {} \u{b7} {}", this.depth, frame.kind.label());
        text.push_str(match inlined {
            Inlined::No => "",
            Inlined::Partly => ", partly inlined",
            Inlined::Fully => ", inlined",
        });
        if !frame.remark.is_empty() {
            let _ = write!(text, "\n{}", frame.remark);
        }
    }
    text
}

fn push_heading(out: &mut MarkupWriter<'_>, graph: &Graph<'_>, boxes: &Boxes) {
    let heading = &graph.heading;
    let height = heading_height(heading);
    markup!(out, "<g id=\"procprof-head\"><rect class=\"bg\" width=\"100%\" height=\"{}\"/>\n", height - 6);
    markup!(out, "<text class=\"title\" id=\"procprof-title\" x=\"12\" y=\"24\">{}</text>\n", heading.title);
    let lines =
        heading.facts.iter().map(|line| ("fact", line)).chain(heading.remarks.iter().map(|line| ("remark", line)));
    let mut y = TITLE + 12;
    for (class, line) in lines {
        markup!(out, "<text class=\"{}\" x=\"12\" y=\"{}\">{}</text>\n", class, y, line);
        y += LINE;
    }
    push_legend(out, graph, boxes, y);
    markup!(
        out,
        "<text class=\"fact\" id=\"procprof-details\" x=\"12\" y=\"{}\" aria-live=\"polite\"></text></g>\n",
        y + 22
    );
}

/// The kinds of frames that occur, each with a colour.
fn push_legend(out: &mut MarkupWriter<'_>, graph: &Graph<'_>, boxes: &Boxes, y: usize) {
    let frames = || {
        boxes.boxes[1..].iter().filter_map(|this| match this.content {
            Content::Frame { frame, inlined } => Some((graph.tree.frames[frame as usize].kind, inlined)),
            Content::Merged(_) => None,
        })
    };
    let mut entries: Vec<(String, &str, &str)> = FrameKind::ALL
        .into_iter()
        .filter(|kind| frames().any(|(found, _)| found == *kind))
        .map(|kind| (palette::class(kind, ""), kind.label(), "legend"))
        .collect();
    if frames().any(|(_, inlined)| inlined == Inlined::Fully) {
        let class = entries.first().map_or("n0", |(class, ..)| class.as_str());
        entries.push((format!("{class} i"), "inlined", "legend i"));
    }
    if graph.boxes.merged_frames > 0 || boxes.merged_frames > 0 {
        entries.push(("m".to_owned(), "merged narrow boxes", "legend"));
    }
    let mut x = 12;
    for (class, label, text_class) in entries {
        markup!(
            out,
            "<g class=\"{}\"><rect x=\"{}\" y=\"{}\" width=\"11\" height=\"11\" rx=\"2\"/></g><text class=\"{}\" x=\"{}\" y=\"{}\">{}</text>\n",
            class,
            x,
            y - 10,
            text_class,
            x + 16,
            y,
            label
        );
        x += 34 + label.len() * 7;
    }
    markup!(out, "<text class=\"legend\" x=\"{}\" y=\"{}\">Each package has its shade.</text>\n", x, y);
}
