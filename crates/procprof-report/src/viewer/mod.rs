//! The data of the flame graph viewer: call trees that are kept, and the parts of them that a screen shows.
//!
//! The browser never gets a whole tree. It gets a slice: the nodes wide enough to be seen, with the number and value of
//! those that are not. Zooming shows the slice of another node, so that cost follows boxes on the screen.
//!
//! | file | content |
//! |---|---|
//! | `tree.rs` | a tree of one profile, or of the difference between two |
//! | `nodes.rs` | the nodes as columns |
//! | `slice.rs` | the nodes that can be seen |
//! | `wire.rs` | a slice as bytes |
//! | `functions.rs` | search, table, callers and callees of a function |
//! | `join.rs`, `callers.rs` | trees and parts of trees merged, and turned around |
//! | `about.rs` | title, facts and notes above the picture |
//! | `*.js`, `viewer.css` | the viewer in the browser: modules that `build.rs` joins from `main.js` on |
//! | `texts.json` | its texts: English, Japanese, Chinese |
//! | `assets.rs` | script, in each language, and style as they are sent |

pub(crate) mod about;
mod assets;
mod callers;
mod functions;
mod join;
mod nodes;
mod slice;
mod tree;
mod wire;

pub use assets::{Asset, script, scripts, style};
pub use functions::{FunctionRow, FunctionTable, Matches, TableOrder, TableQuery};
pub use slice::{Extent, SLICE_NODES_MAX, WIDE};
pub use tree::Tree;
