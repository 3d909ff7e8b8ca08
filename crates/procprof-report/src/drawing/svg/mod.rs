//! `svg`: the call graph as one SVG file: a picture in every viewer, and with scripts a graph that can be moved,
//! searched and followed.
//!
//! Script and style are in CDATA sections; the script only puts names into text nodes.

use std::fmt::Write;

use crate::display::markup::{MarkupWriter, markup};
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
        title => format!("Call graph of {title}"),
    };
    let mut page = MarkupWriter::new(&mut out.text);
    markup!(
        page,
        "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<svg xmlns=\"http://www.w3.org/2000/svg\" id=\"procprof-graph\" width=\"{}\" height=\"{}\" \
         viewBox=\"0 0 {} {}\" role=\"group\" aria-label=\"{}\">\n<title>{}</title>\n<style><![CDATA[\n",
        width,
        height,
        width,
        height,
        title,
        title
    );
    for style in [STYLE, "#procprof-graph text{font-family:", picture.font.families(), "}\n]]></style>\n"] {
        page.constant(style);
    }
    page.constant("<rect class=\"page\" fill=\"#fff\" width=\"100%\" height=\"100%\"/>\n<g id=\"procprof-drawing\">\n");
    push_legend(&mut page, picture, &placed);
    // Light lines first, so that heavy ones are on top.
    for index in (0..picture.edges.len()).rev() {
        push_edge(&mut MarkupWriter::new(&mut out.text), picture, &placed, index);
        out.drain()?;
    }
    for (index, node) in picture.nodes.iter().enumerate() {
        push_node(&mut MarkupWriter::new(&mut out.text), picture.font, node, index, placed.nodes[index]);
        out.drain()?;
    }
    for part in ["</g>\n<script><![CDATA[\n", VIEWER, "]]></script>\n</svg>\n"] {
        MarkupWriter::new(&mut out.text).constant(part);
    }
    out.drain()
}

fn push_legend(out: &mut MarkupWriter<'_>, picture: &Picture, placed: &Placed) {
    let Some((center, size)) = placed.legend else { return };
    let legend = &picture.legend;
    out.constant("<g class=\"legend\">");
    if legend.has_border {
        push_rect(out, center, size, ("#fff", "#d3d8de"));
    }
    let x = center.x - size.width / 2.0 + 7.0;
    for (line, y) in legend.lines.iter().zip(baselines(center.y, legend.lines.len(), legend.font_size)) {
        push_text(out, picture.font, line, Point { x, y }, legend.font_size, Anchor::Start);
    }
    out.constant("</g>\n");
}

fn push_node(out: &mut MarkupWriter<'_>, font: Font, node: &Node, index: usize, (center, size): (Point, Size)) {
    let class = if node.outline == Outline::Tag { "n tag" } else { "n" };
    markup!(out, "<g class=\"{}\" id=\"node{}\"><title>{}", class, index, node.name);
    if !node.facts.is_empty() {
        markup!(out, "\n{}", node.facts);
    }
    out.constant("</title>");
    let fill = node.fill.map_or_else(|| "#fff".to_owned(), |fill| fill.to_string());
    let stroke = node.stroke.to_string();
    let borders = if node.outline == Outline::Triple { 3 } else { 1 };
    for border in 0..borders {
        let inset = 2.0 * TRIPLE_GAP * f64::from(border);
        let size = Size { width: size.width - inset, height: size.height - inset };
        match node.outline {
            Outline::Tag => push_tag(out, center, size, (&fill, &stroke)),
            Outline::Box | Outline::Triple => push_rect(out, center, size, (&fill, &stroke)),
        }
    }
    for ((line, align), y) in node.lines.iter().zip(baselines(center.y, node.lines.len(), node.font_size)) {
        let (x, anchor) = match align {
            Align::Center => (center.x, Anchor::Middle),
            Align::Right => (center.x + size.width / 2.0 - 7.0, Anchor::End),
        };
        push_text(out, font, line, Point { x, y }, node.font_size, anchor);
    }
    out.constant("</g>\n");
}

fn push_rect(out: &mut MarkupWriter<'_>, center: Point, size: Size, (fill, stroke): (&str, &str)) {
    let (x, y) = (center.x - size.width / 2.0, center.y - size.height / 2.0);
    markup!(
        out,
        "<rect x=\"{:.1}\" y=\"{:.1}\" width=\"{:.1}\" height=\"{:.1}\" fill=\"{}\" stroke=\"{}\"/>",
        x,
        y,
        size.width,
        size.height,
        fill,
        stroke
    );
}

/// A box with a corner cut off.
fn push_tag(out: &mut MarkupWriter<'_>, center: Point, size: Size, (fill, stroke): (&str, &str)) {
    let (x, y) = (center.x - size.width / 2.0, center.y - size.height / 2.0);
    let (right, bottom) = (x + size.width, y + size.height);
    let cut = 5.0;
    markup!(
        out,
        "<path d=\"M{:.1},{:.1}H{:.1}L{:.1},{:.1}V{:.1}H{:.1}Z\" fill=\"{}\" stroke=\"{}\"/>",
        x,
        y,
        right - cut,
        right,
        y + cut,
        bottom,
        x,
        fill,
        stroke
    );
}

fn push_edge(out: &mut MarkupWriter<'_>, picture: &Picture, placed: &Placed, index: usize) {
    let Edge { from, to, width, stroke, tooltip, label, .. } = &picture.edges[index];
    let mut curve = placed.edges[index].curve.clone();
    let Some(head) = arrow(&mut curve, *width) else { return };
    let color = picture.color(index);
    // Black lines are light on a dark page.
    let class = if color == Color::BLACK { "e plain" } else { "e" };
    markup!(
        out,
        "<g class=\"{}\" data-from=\"{}\" data-to=\"{}\"><title>{}</title><path d=\"{}\" stroke=\"{}\" stroke-width=\"{}\" fill=\"none\"",
        class,
        from,
        to,
        tooltip,
        path(&curve),
        color,
        width
    );
    out.constant(match stroke {
        Stroke::Solid => "/>",
        Stroke::Dotted => " stroke-dasharray=\"2 2.5\"/>",
        Stroke::Dashed => " stroke-dasharray=\"6 4\"/>",
    });
    let [point, left, right] = head;
    markup!(
        out,
        "<path class=\"head\" d=\"M{:.1},{:.1}L{:.1},{:.1} {:.1},{:.1}Z\" fill=\"{}\"/>",
        point.x,
        point.y,
        left.x,
        left.y,
        right.x,
        right.y,
        color
    );
    let center = placed.edges[index].label;
    for (line, y) in label.iter().zip(baselines(center.y, label.len(), picture.edge_font_size)) {
        push_text(out, picture.font, line, Point { x: center.x, y }, picture.edge_font_size, Anchor::Middle);
    }
    out.constant("</g>\n");
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
fn push_text(out: &mut MarkupWriter<'_>, font: Font, line: &str, at: Point, size: f64, anchor: Anchor) {
    let width = font.width(line, size);
    if width <= 0.0 {
        return;
    }
    markup!(out, "<text x=\"{:.1}\" y=\"{:.1}\" font-size=\"{}\"", at.x, at.y, size);
    out.constant(match anchor {
        Anchor::Start => "",
        Anchor::Middle => " text-anchor=\"middle\"",
        Anchor::End => " text-anchor=\"end\"",
    });
    markup!(out, " textLength=\"{:.1}\" lengthAdjust=\"spacingAndGlyphs\">{}</text>", width, line);
}
