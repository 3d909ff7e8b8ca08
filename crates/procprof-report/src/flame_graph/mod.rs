//! The flame graph: one SVG file that is a picture to every viewer and an explorer where scripts run.
//!
//! | file | what it does |
//! |---|---|
//! | `boxes.rs` | which nodes become boxes, and what is merged so that their number stays bounded |
//! | `heading.rs` | title, facts and remarks above the picture |
//! | `amount.rs` | values for people: `8.73 s`, `12.5 MiB`, `1,234` |
//! | `palette.rs` | colours by kind of frame and package |
//! | `picture.rs` | the boxes as SVG elements that fit any width without a script |
//! | `data.rs` | the boxes as columns for the viewer |
//! | `viewer.js`, `viewer.css` | the viewer; needs scripts and styles inside the file and nothing else |
//! | `page.rs` | the same file inside an HTML page, with a table |
//!
//! Script and style stand in CDATA sections and all else is escaped for XML, which reads the same inside HTML.

mod amount;
mod boxes;
mod data;
mod heading;
mod page;
mod palette;
mod picture;

use std::fmt::Write;

use crate::stack_tree::StackTree;
use crate::text::xml;
use crate::view::View;
use crate::{Options, Result, Sources};
use amount::Amount;
use boxes::Boxes;
use heading::Heading;

const VIEWER: &str = include_str!("viewer.js");
const STYLE: &str = include_str!("viewer.css");

/// Boxes below this share are not in the picture that needs no script; they are merged there, and whole in the viewer.
const PICTURE_FRACTION: f64 = 0.001;
/// Most boxes in that picture.
const PICTURE_BOXES: usize = 2_000;
/// Deeper nodes are merged: a taller picture helps nobody, and `root` leads there.
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
        let (kind, unit) = profile.sample_type(tree.sample_type);
        let amount = Amount::new(kind, unit);
        let boxes = Boxes::new(&tree, options.minfraction, options.maxboxes, MOST_ROWS);
        let heading = Heading::new(view, &tree, &boxes, &amount, options);
        Ok(Graph { tree, amount, heading, boxes, options })
    }

    /// The `svg` element with viewer and data.
    fn svg(&self) -> String {
        let picture = Boxes::new(&self.tree, self.options.minfraction.max(PICTURE_FRACTION), PICTURE_BOXES, MOST_ROWS);
        let height = picture::height(&self.heading, &picture);
        let mut out = String::with_capacity(1 << 16);
        let label = xml(&self.heading.title);
        let _ = writeln!(
            out,
            "<svg xmlns=\"http://www.w3.org/2000/svg\" id=\"procprof\" width=\"100%\" height=\"{height}\" role=\"group\" aria-label=\"{label}\">\n\
             <title>{label}</title>\n<style><![CDATA[\n{STYLE}{}]]></style>",
            palette::style()
        );
        picture::push(&mut out, self, &picture);
        out.push_str("<metadata id=\"procprof-data\">");
        data::push(&mut out, self);
        let _ = writeln!(out, "</metadata>\n<script><![CDATA[\n{VIEWER}]]></script>\n</svg>");
        out
    }
}

pub(crate) fn render_svg(view: &View<'_>, options: &Options, _sources: &Sources) -> Result<Vec<u8>> {
    let svg = Graph::new(view, options)?.svg();
    Ok(format!("<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n{svg}").into_bytes())
}

pub(crate) fn render_html(view: &View<'_>, options: &Options, _sources: &Sources) -> Result<Vec<u8>> {
    Ok(page::page(&view.profile, &Graph::new(view, options)?)?.into_bytes())
}

#[cfg(test)]
mod tests;
