//! `svg`: the call graph as one SVG file: a picture in every viewer, and with scripts a graph that can be moved,
//! searched and followed.
//!
//! Script and style are in CDATA sections; names are escaped, and the script only puts them into text nodes.

use std::fmt::Write;

use crate::display::text::xml;
use crate::drawing::layout::{Point, Size};
use crate::drawing::picture::{
    Align, Color, Edge, Font, Node, Outline, Picture, Placed, Stroke, TRIPLE_GAP, arrow, baselines, picture,
};
use crate::output::Output;
use crate::selection::view::View;
use crate::{Budget, Options, Result, Sources};

const VIEWER: &str = include_str!("viewer.js");
const STYLE: &str = include_str!("viewer.css");

pub(crate) fn render(view: &View<'_>, options: &Options, _sources: &Sources, out: &mut Output<'_>) -> Result<()> {
    write(out, &picture(view, options)?, &options.budget)
}

/// Draws a picture as an SVG file.
///
/// # Errors
/// [`crate::Error::GraphTooLarge`] beyond what is laid out.
pub fn draw_svg(picture: &Picture) -> Result<Vec<u8>> {
    let (budget, mut bytes) = (Budget::default(), Vec::new());
    let mut out = Output::new(&budget, &mut bytes);
    write(&mut out, picture, &budget)?;
    out.flush()?;
    Ok(bytes)
}

fn write(out: &mut Output<'_>, picture: &Picture, budget: &Budget) -> Result<()> {
    let placed = picture.placed(budget)?;
    let Size { width, height } = placed.size;
    let title = match picture.title.as_str() {
        "" => "Call graph".to_owned(),
        title => format!("Call graph of {}", xml(title)),
    };
    let _ = write!(
        out.text,
        "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<svg xmlns=\"http://www.w3.org/2000/svg\" id=\"procprof-graph\" width=\"{width}\" height=\"{height}\" \
         viewBox=\"0 0 {width} {height}\" role=\"group\" aria-label=\"{title}\">\n<title>{title}</title>\n<style><![CDATA[\n{STYLE}\
         #procprof-graph text{{font-family:{}}}\n]]></style>\n<rect class=\"page\" fill=\"#fff\" width=\"100%\" height=\"100%\"/>\n<g id=\"procprof-drawing\">\n",
        picture.font.families()
    );
    push_legend(&mut out.text, picture, &placed);
    // Light lines first, so that heavy ones are on top.
    for index in (0..picture.edges.len()).rev() {
        push_edge(&mut out.text, picture, &placed, index);
        out.drain()?;
    }
    for (index, node) in picture.nodes.iter().enumerate() {
        push_node(&mut out.text, picture.font, node, index, placed.nodes[index]);
        out.drain()?;
    }
    let _ = writeln!(out.text, "</g>\n<script><![CDATA[\n{VIEWER}]]></script>\n</svg>");
    out.drain()
}

fn push_legend(out: &mut String, picture: &Picture, placed: &Placed) {
    let Some((center, size)) = placed.legend else { return };
    let legend = &picture.legend;
    out.push_str("<g class=\"legend\">");
    if legend.has_border {
        push_rect(out, center, size, " fill=\"#fff\" stroke=\"#d3d8de\"");
    }
    let x = center.x - size.width / 2.0 + 7.0;
    for (line, y) in legend.lines.iter().zip(baselines(center.y, legend.lines.len(), legend.font_size)) {
        push_text(out, picture.font, line, Point { x, y }, legend.font_size, Anchor::Start);
    }
    out.push_str("</g>\n");
}

fn push_node(out: &mut String, font: Font, node: &Node, index: usize, (center, size): (Point, Size)) {
    let class = if node.outline == Outline::Tag { "n tag" } else { "n" };
    let _ = write!(out, "<g class=\"{class}\" id=\"node{index}\"><title>{}", xml(&node.name));
    if !node.facts.is_empty() {
        let _ = write!(out, "\n{}", xml(&node.facts));
    }
    out.push_str("</title>");
    let fill = node.fill.map_or_else(|| "#fff".to_owned(), |fill| fill.to_string());
    let style = format!(" fill=\"{fill}\" stroke=\"{}\"", node.stroke);
    let borders = if node.outline == Outline::Triple { 3 } else { 1 };
    for border in 0..borders {
        let inset = 2.0 * TRIPLE_GAP * f64::from(border);
        let size = Size { width: size.width - inset, height: size.height - inset };
        match node.outline {
            Outline::Tag => push_tag(out, center, size, &style),
            Outline::Box | Outline::Triple => push_rect(out, center, size, &style),
        }
    }
    for ((line, align), y) in node.lines.iter().zip(baselines(center.y, node.lines.len(), node.font_size)) {
        let (x, anchor) = match align {
            Align::Center => (center.x, Anchor::Middle),
            Align::Right => (center.x + size.width / 2.0 - 7.0, Anchor::End),
        };
        push_text(out, font, line, Point { x, y }, node.font_size, anchor);
    }
    out.push_str("</g>\n");
}

fn push_rect(out: &mut String, center: Point, size: Size, style: &str) {
    let (x, y) = (center.x - size.width / 2.0, center.y - size.height / 2.0);
    let _ = write!(
        out,
        "<rect x=\"{x:.1}\" y=\"{y:.1}\" width=\"{:.1}\" height=\"{:.1}\"{style}/>",
        size.width, size.height
    );
}

/// A box with a corner cut off.
fn push_tag(out: &mut String, center: Point, size: Size, style: &str) {
    let (x, y) = (center.x - size.width / 2.0, center.y - size.height / 2.0);
    let (right, bottom) = (x + size.width, y + size.height);
    let cut = 5.0;
    let _ = write!(
        out,
        "<path d=\"M{x:.1},{y:.1}H{:.1}L{right:.1},{:.1}V{bottom:.1}H{x:.1}Z\"{style}/>",
        right - cut,
        y + cut
    );
}

fn push_edge(out: &mut String, picture: &Picture, placed: &Placed, index: usize) {
    let Edge { from, to, width, stroke, tooltip, label, .. } = &picture.edges[index];
    let mut curve = placed.edges[index].curve.clone();
    let Some(head) = arrow(&mut curve, *width) else { return };
    let color = picture.color(index);
    // Black lines are light on a dark page.
    let class = if color == Color::BLACK { "e plain" } else { "e" };
    let dashes = match stroke {
        Stroke::Solid => "",
        Stroke::Dotted => " stroke-dasharray=\"2 2.5\"",
        Stroke::Dashed => " stroke-dasharray=\"6 4\"",
    };
    let _ = write!(
        out,
        "<g class=\"{class}\" data-from=\"{from}\" data-to=\"{to}\"><title>{}</title><path d=\"{}\" stroke=\"{color}\" stroke-width=\"{width}\" fill=\"none\"{dashes}/>",
        xml(tooltip),
        path(&curve)
    );
    let [point, left, right] = head;
    let _ = write!(
        out,
        "<path class=\"head\" d=\"M{:.1},{:.1}L{:.1},{:.1} {:.1},{:.1}Z\" fill=\"{color}\"/>",
        point.x, point.y, left.x, left.y, right.x, right.y
    );
    let center = placed.edges[index].label;
    for (line, y) in label.iter().zip(baselines(center.y, label.len(), picture.edge_font_size)) {
        push_text(out, picture.font, line, Point { x: center.x, y }, picture.edge_font_size, Anchor::Middle);
    }
    out.push_str("</g>\n");
}

fn path(curve: &[Point]) -> String {
    let mut out = String::new();
    for (index, point) in curve.iter().enumerate() {
        let letter = match index {
            0 => "M",
            1 => "C",
            _ => " ",
        };
        let _ = write!(out, "{letter}{:.1},{:.1}", point.x, point.y);
    }
    out
}

#[derive(Clone, Copy)]
enum Anchor {
    Start,
    Middle,
    End,
}

/// A line of text, as wide as it was computed to be, whatever the font.
fn push_text(out: &mut String, font: Font, line: &str, at: Point, size: f64, anchor: Anchor) {
    let width = font.width(line, size);
    if width <= 0.0 {
        return;
    }
    let anchor = match anchor {
        Anchor::Start => "",
        Anchor::Middle => " text-anchor=\"middle\"",
        Anchor::End => " text-anchor=\"end\"",
    };
    let _ = write!(
        out,
        "<text x=\"{:.1}\" y=\"{:.1}\" font-size=\"{size}\"{anchor} textLength=\"{width:.1}\" lengthAdjust=\"spacingAndGlyphs\">{}</text>",
        at.x,
        at.y,
        xml(line)
    );
}
