//! The call graph as DOT, and laid out and drawn as SVG and PDF.
//!
//! A [`Picture`] is any call graph to be drawn: boxes, lines between them and a legend. [`draw_svg`] and [`draw_pdf`]
//! place everything and write the file; `procprof-jeprof` also uses them.

pub(crate) mod dot;
pub(crate) mod layout;
pub(crate) mod pdf;
pub(crate) mod picture;
pub(crate) mod svg;

pub use layout::Size;
pub use pdf::draw_pdf;
pub use picture::{Align, Color, Edge, Font, LINE_WIDTH_MIN, Legend, Node, Outline, Picture, Stroke};
pub use svg::draw_svg;
