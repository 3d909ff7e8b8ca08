//! A profile to flame graph, top, collapsed stacks and further shapes.
//!
//! [`REPORTS`] is the table of all kinds; [`render`] makes the bytes of one. [`Options`] are read from `key=value` pairs, the same for
//! HTTP, the command line and SQL. The crate is pure: it reads no files and no clock, and the same input gives the same bytes.
//! Symbolizing is done before; a frame without a symbol is shown with its file and offset, and why.
//!
//! Allocator frames at the leaf (and lock frames of contention profiles, the handler's of CPU profiles) are left out, so that flat names their
//! caller; the option `keep_allocators` shows them. They are those that the profile's own `drop_frames` names, and frames without a name in
//! libjemalloc and libtcmalloc.
//!
//! Sampled values and captured addresses are read by pprof's rules ([`procprof_profile::Grammar`]) where the profile still holds them as
//! measured; only the `pprof` report hands them on.
//!
//! ```
//! use procprof_profile::ProfileBuilder;
//! use procprof_report::{Options, Sources, render};
//!
//! let mut builder = ProfileBuilder::new(&[("cpu", "nanoseconds")]);
//! let (leaf, root) = (builder.frame("hot_70"), builder.frame("main"));
//! builder.sample(&[leaf, root], &[70_000_000], &[]);
//! let profile = builder.finish().expect("the builder only hands out ids that exist");
//!
//! let options = Options::parse([("focus", "^hot")]).expect("a known option");
//! let collapsed = render(&profile, "collapsed", &options, &Sources::default()).expect("the report exists");
//! assert_eq!(collapsed, b"main;hot_70 70000000\n");
//! ```

mod callgrind;
pub mod code;
mod collapsed;
mod comments;
mod disasm;
mod dot;
mod error;
mod flame_graph;
mod frame;
mod graph;
mod headline;
pub mod jeprof;
mod json;
mod layout;
mod list;
mod measure;
mod moment;
mod nearest;
mod options;
mod pdf;
mod picture;
mod place;
mod pprof;
mod raw;
mod report;
mod selection;
mod stack_tree;
mod subject;
mod svg;
mod symbols;
mod tag_frames;
mod tags;
mod text;
mod top;
mod traces;
mod tree;
mod view;
mod weblist;

pub use error::{Error, Result};
pub use frame::{Frame, FrameKind};
pub use headline::about;
pub use list::source_candidates;
pub use options::{Granularity, Layout, OPTIONS, OptionRow, Options, Sort};
pub use report::{CodeWanted, REPORTS, Report, Sources, render};
pub use stack_tree::{Inlined, Node, StackTree};
pub use top::{Top, TopRow, top};
pub use view::without_uninteresting;
