//! `pdf`: the call graph as a PDF file of one page, as large as the graph, or fitted to a page, but never so small that
//! texts can't be read at the largest zoom of a viewer.
//!
//! Texts are texts: they can be searched and copied. Their font is one of the standard ones that every viewer has;
//! `text.rs` describes the handling of characters that it lacks.

mod text;

use std::io::Write;

use flate2::Compression;
use flate2::write::ZlibEncoder;
use pdf_writer::{Content, Filter, Finish, Name, Pdf, Rect, Ref, TextStr};

use crate::display::text::one_line;
use crate::drawing::layout::{Point, Size};
use crate::drawing::picture::{
    Align, Color, Edge, Node, Outline, Picture, Placed, Stroke, TRIPLE_GAP, arrow, baselines, picture,
};
use crate::output::Output;
use crate::selection::view::View;
use crate::{Budget, Options, Result, Sources};
use text::Texts;

/// The longest side of a page that all viewers support (PDF 32000-1, annex C); larger ones have a larger unit.
const SIDE_MAX: f64 = 14_400.0;

/// The least scale of a drawing that is fitted to a page. Viewers in browsers enlarge five times at most; text of 8
/// points can then still be read on a screen, and printing fits large pages to the paper anyway.
const SCALE_MIN: f64 = 0.4;

const CATALOG: Ref = Ref::new(1);
const PAGES: Ref = Ref::new(2);
const PAGE: Ref = Ref::new(3);
const CONTENT: Ref = Ref::new(4);
const INFO: Ref = Ref::new(5);
/// The first of the fonts' objects.
const FONTS: i32 = 6;

pub(crate) fn render(view: &View<'_>, options: &Options, _sources: &Sources, out: &mut Output<'_>) -> Result<()> {
    out.bytes(&draw_pdf(&picture(view, options)?, &options.budget)?)
}

/// Draws a picture as a PDF file.
///
/// # Errors
/// [`crate::Error::GraphTooLarge`] beyond what is laid out, and [`crate::Error::Stopped`].
pub fn draw_pdf(picture: &Picture, budget: &Budget) -> Result<Vec<u8>> {
    let placed = picture.placed(budget)?;
    let sheet = Sheet::new(placed.size, picture.page);
    let mut painter = Painter { content: Content::new(), texts: Texts::new(picture.font), height: placed.size.height };
    painter.content.transform([sheet.scale, 0.0, 0.0, sheet.scale, 0.0, 0.0]);
    painter.paint(picture, &placed);
    let Painter { content, texts, .. } = painter;
    let content = compressed(&content.finish());
    let mut pdf = Pdf::new();
    pdf.set_version(1, 7);
    pdf.catalog(CATALOG).pages(PAGES);
    pdf.pages(PAGES).kids([PAGE]).count(1);
    let mut page = pdf.page(PAGE);
    page.media_box(Rect::new(0.0, 0.0, sheet.width, sheet.height)).parent(PAGES).contents(CONTENT);
    if sheet.unit > 1.0 {
        page.user_unit(sheet.unit);
    }
    let mut resources = page.resources();
    let mut fonts = resources.fonts();
    for (name, id) in texts.references(FONTS) {
        fonts.pair(Name(name.as_bytes()), id);
    }
    fonts.finish();
    resources.finish();
    page.finish();
    pdf.stream(CONTENT, &content).filter(Filter::FlateDecode);
    texts.write(&mut pdf, FONTS);
    let title = if picture.title.is_empty() {
        "Call graph".to_owned()
    } else {
        format!("Call graph of {}", one_line(&picture.title))
    };
    pdf.document_info(INFO).title(TextStr(&title)).producer(TextStr("procprof"));
    Ok(pdf.finish())
}

fn compressed(bytes: &[u8]) -> Vec<u8> {
    let mut encoder = ZlibEncoder::new(Vec::new(), Compression::default());
    // Writing to memory cannot fail.
    let _ = encoder.write_all(bytes);
    encoder.finish().unwrap_or_default()
}

/// The size of the page, in its own unit.
struct Sheet {
    width: f32,
    height: f32,
    /// Of the drawing.
    scale: f32,
    /// Points in a unit.
    unit: f32,
}

impl Sheet {
    fn new(size: Size, page: Option<Size>) -> Sheet {
        let fit =
            page.map_or(1.0, |page| (page.width / size.width).min(page.height / size.height).clamp(SCALE_MIN, 1.0));
        let unit = (size.width.max(size.height) * fit / SIDE_MAX).ceil().max(1.0);
        let scale = fit / unit;
        Sheet {
            width: (size.width * scale) as f32,
            height: (size.height * scale) as f32,
            scale: scale as f32,
            unit: unit as f32,
        }
    }
}

struct Painter {
    content: Content,
    texts: Texts,
    /// Heights are from the bottom in PDF.
    height: f64,
}

impl Painter {
    fn paint(&mut self, picture: &Picture, placed: &Placed) {
        if let Some((center, size)) = placed.legend {
            if picture.legend.has_border {
                self.stroke(Color([0xc0; 3]), 1.0, Stroke::Solid);
                self.rect(center, size);
                self.content.stroke();
            }
            let (lines, font_size) = (&picture.legend.lines, picture.legend.font_size);
            for (line, y) in lines.iter().zip(baselines(center.y, lines.len(), font_size)) {
                self.text(line, Point { x: center.x - size.width / 2.0 + 7.0, y }, font_size, 0.0);
            }
        }
        // Light lines first, so that heavy ones are on top.
        for index in (0..picture.edges.len()).rev() {
            self.edge(picture, placed, index);
        }
        for (node, (center, size)) in picture.nodes.iter().zip(&placed.nodes) {
            self.node(node, *center, *size);
        }
    }

    fn node(&mut self, node: &Node, center: Point, size: Size) {
        self.stroke(node.stroke, 1.0, Stroke::Solid);
        let borders = if node.outline == Outline::Triple { 3 } else { 1 };
        for border in 0..borders {
            let inset = 2.0 * TRIPLE_GAP * f64::from(border);
            let size = Size { width: size.width - inset, height: size.height - inset };
            match node.outline {
                Outline::Tag => self.tag(center, size),
                Outline::Box | Outline::Triple => self.rect(center, size),
            }
            let [red, green, blue] = rgb(node.fill.unwrap_or(Color([255; 3])));
            self.content.set_fill_rgb(red, green, blue).fill_nonzero_and_stroke();
        }
        for ((line, align), y) in node.lines.iter().zip(baselines(center.y, node.lines.len(), node.font_size)) {
            match align {
                Align::Center => self.text(line, Point { x: center.x, y }, node.font_size, 0.5),
                Align::Right => self.text(line, Point { x: center.x + size.width / 2.0 - 7.0, y }, node.font_size, 1.0),
            }
        }
    }

    fn edge(&mut self, picture: &Picture, placed: &Placed, index: usize) {
        let Edge { width, stroke, label, .. } = &picture.edges[index];
        let mut curve = placed.edges[index].curve.clone();
        let Some(head) = arrow(&mut curve, *width) else { return };
        let color = picture.color(index);
        self.stroke(color, *width, *stroke);
        let (x, y) = self.at(curve[0]);
        self.content.move_to(x, y);
        for piece in curve[1..].chunks_exact(3) {
            let [(x1, y1), (x2, y2), (x3, y3)] = [self.at(piece[0]), self.at(piece[1]), self.at(piece[2])];
            self.content.cubic_to(x1, y1, x2, y2, x3, y3);
        }
        self.content.stroke();
        let [red, green, blue] = rgb(color);
        self.content.set_fill_rgb(red, green, blue);
        let [(x, y), left, right] = head.map(|point| self.at(point));
        self.content.move_to(x, y).line_to(left.0, left.1).line_to(right.0, right.1).close_path().fill_nonzero();
        let center = placed.edges[index].label;
        for (line, y) in label.iter().zip(baselines(center.y, label.len(), picture.edge_font_size)) {
            self.text(line, Point { x: center.x, y }, picture.edge_font_size, 0.5);
        }
    }

    fn at(&self, point: Point) -> (f32, f32) {
        // Tenths of a point are enough, and short.
        let short = |value: f64| ((value * 10.0).round() / 10.0) as f32;
        (short(point.x), short(self.height - point.y))
    }

    fn stroke(&mut self, color: Color, width: f64, stroke: Stroke) {
        let [red, green, blue] = rgb(color);
        let dashes: &[f32] = match stroke {
            Stroke::Solid => &[],
            Stroke::Dotted => &[2.0, 2.5],
            Stroke::Dashed => &[6.0, 4.0],
        };
        self.content
            .set_stroke_rgb(red, green, blue)
            .set_line_width(width as f32)
            .set_dash_pattern(dashes.iter().copied(), 0.0);
    }

    fn rect(&mut self, center: Point, size: Size) {
        let (x, y) = self.at(Point { x: center.x - size.width / 2.0, y: center.y + size.height / 2.0 });
        self.content.rect(x, y, size.width as f32, size.height as f32);
    }

    /// A box with a corner cut off.
    fn tag(&mut self, center: Point, size: Size) {
        let (x, y) = self.at(Point { x: center.x - size.width / 2.0, y: center.y + size.height / 2.0 });
        let (right, top, cut) = (x + size.width as f32, y + size.height as f32, 5.0);
        self.content
            .move_to(x, y)
            .line_to(x, top)
            .line_to(right - cut, top)
            .line_to(right, top - cut)
            .line_to(right, y)
            .close_path();
    }

    /// A line of text in black; the share `before` of its width is to the left of the point.
    fn text(&mut self, line: &str, at: Point, size: f64, before: f64) {
        let line = one_line(line);
        let x = at.x - self.texts.font().width(&line, size) * before;
        let (x, y) = self.at(Point { x, y: at.y });
        self.content.set_fill_gray(0.0);
        self.texts.show(&mut self.content, &line, (x, y), size as f32);
    }
}

fn rgb(color: Color) -> [f32; 3] {
    color.0.map(|part| (f32::from(part) * 1000.0 / 255.0).round() / 1000.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_drawing_fits_on_its_page_unless_it_could_not_be_read_there() {
        let page = Some(Size { width: 576.0, height: 792.0 });
        let sheet = |width, height, page| {
            let Sheet { width, height, scale, unit } = Sheet::new(Size { width, height }, page);
            [width, height, scale, unit].map(|number| (number * 1000.0).round() / 1000.0)
        };
        assert_eq!(sheet(288.0, 396.0, page), [288.0, 396.0, 1.0, 1.0]);
        assert_eq!(sheet(1152.0, 100.0, page), [576.0, 50.0, 0.5, 1.0]);
        assert_eq!(sheet(7000.0, 12_000.0, page), [2800.0, 4800.0, 0.4, 1.0]);
        assert_eq!(sheet(36_000.0, 72_000.0, page), [7200.0, 14_400.0, 0.2, 2.0]);
        assert_eq!(sheet(7000.0, 12_000.0, None), [7000.0, 12_000.0, 1.0, 1.0]);
    }
}
