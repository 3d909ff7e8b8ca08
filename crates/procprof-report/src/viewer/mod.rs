//! The data of the flame graph viewer: call trees, and the parts of them that a screen shows.
//!
//! The browser does not receive whole trees but slices: the nodes wide enough to be visible, with the number and value
//! of the others. Zooming requests the slice of another node, so that the cost depends on the boxes on the screen.
//!
//! | file | content |
//! |---|---|
//! | `tree.rs` | a tree of one profile, or of the difference between two |
//! | `nodes.rs` | the nodes as columns |
//! | `slice.rs` | the nodes that can be seen |
//! | `wire.rs` | a slice as bytes |
//! | `functions.rs` | search, table of functions, callers and callees of one |
//! | `join.rs`, `callers.rs` | merges trees and parts of trees, and inverts them |
//! | `about.rs` | title, facts and notes above the picture |
//! | `note.rs` | a note: what the picture leaves out or lacks |
//! | `*.js`, `viewer.css` | the viewer in the browser: modules that `build.rs` joins from `main.js` on |
//! | `texts.json` | its texts: English, Japanese, Chinese |
//! | `assets.rs` | script, in each language, and style as they are sent |

pub(crate) mod about;
mod assets;
mod callers;
mod functions;
mod join;
mod nodes;
mod note;
mod slice;
mod tree;
mod wire;

pub use assets::{Asset, script, scripts, style};
pub use functions::{FunctionRow, FunctionTable, Matches, TableOrder, TableQuery};
pub use note::Note;
pub use slice::{Extent, SLICE_NODES_MAX, WIDE};
pub use tree::Tree;
