//! The flame graph: one SVG file that is a picture in every viewer, and interactive with scripts.
//!
//! | file | content |
//! |---|---|
//! | `boxes.rs` | the nodes that become boxes, merged so that their number stays bounded |
//! | `heading.rs` | title, facts and remarks above the picture |
//! | `picture.rs` | the boxes as SVG elements that fit any width without a script |
//! | `data.rs` | the boxes as columns for the viewer |
//! | `viewer.js`, `viewer.css` | the viewer; needs scripts and styles inside the file and nothing else |
//! | `page.rs` | the flame graph viewer of the pages as one HTML file, with one slice of the tree |
//!
//! Script and style are in CDATA sections, and all else is escaped for XML, which HTML parsers read the same way.

mod boxes;
mod data;
mod heading;
mod page;

mod picture;

use crate::display::amount::Amount;
use crate::display::markup::{MarkupWriter, markup};
use crate::display::palette;
use crate::output::Output;
use crate::selection::view::View;
use crate::stacks::stack_tree::StackTree;
use crate::{Options, Result, Sources};
use boxes::Boxes;
use heading::Heading;

const VIEWER: &str = include_str!("viewer.js");
const STYLE: &str = include_str!("viewer.css");

/// Boxes below this share are merged in the picture without scripts, and separate in the viewer.
const PICTURE_FRACTION: f64 = 0.001;
/// Most boxes in that picture.
const PICTURE_BOXES: usize = 2_000;
/// Deeper nodes are merged: a taller picture would be of no use, and `root` shows them.
const MOST_ROWS: u32 = 1_000;

/// Everything that is drawn.
struct Graph<'a> {
    tree: StackTree,
    amount: Amount,
    heading: Heading,
    boxes: Boxes,
    options: &'a Options,
}

impl<'a> Graph<'a> {
    fn new(view: &View<'_>, options: &'a Options) -> Result<Graph<'a>> {
        let profile = view.profile.as_ref();
        let tree = StackTree::new(profile, options)?;
        let amount = Amount::of_profile(profile, tree.sample_type);
        let boxes = Boxes::new(&tree, options.minfraction, options.maxboxes, MOST_ROWS);
        let heading = Heading::new(view, &tree, &boxes, &amount, options);
        Ok(Graph { tree, amount, heading, boxes, options })
    }

    /// The `svg` element with viewer and data.
    fn svg(&self, out: &mut Output<'_>) -> Result<()> {
        let picture = Boxes::new(&self.tree, self.options.minfraction.max(PICTURE_FRACTION), PICTURE_BOXES, MOST_ROWS);
        let height = picture::height(&self.heading, &picture);
        let label = &self.heading.title;
        let mut page = MarkupWriter::new(&mut out.text);
        markup!(
            page,
            "<svg xmlns=\"http://www.w3.org/2000/svg\" id=\"procprof\" width=\"100%\" height=\"{}\" role=\"group\" aria-label=\"{}\">\n\
             <title>{}</title>\n<style><![CDATA[\n",
            height,
            label,
            label
        );
        page.constant(STYLE);
        for line in palette::style().lines() {
            markup!(page, "{}\n", line);
        }
        page.constant("]]></style>\n");
        picture::push(out, self, &picture)?;
        MarkupWriter::new(&mut out.text).constant("<metadata id=\"procprof-data\">");
        MarkupWriter::new(&mut out.text).element_text(&data::json(self));
        out.drain()?;
        for part in ["</metadata>\n<script><![CDATA[\n", VIEWER, "]]></script>\n</svg>\n"] {
            MarkupWriter::new(&mut out.text).constant(part);
        }
        Ok(())
    }
}

pub(crate) fn render_svg(view: &View<'_>, options: &Options, _sources: &Sources, out: &mut Output<'_>) -> Result<()> {
    let graph = Graph::new(view, options)?;
    MarkupWriter::new(&mut out.text).constant("<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n");
    graph.svg(out)
}

pub(crate) use page::render_html;

#[cfg(test)]
mod tests;
