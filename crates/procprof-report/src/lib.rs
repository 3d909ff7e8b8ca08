//! Renders a profile as flame graph, top, collapsed stacks and other reports.
//!
//! [`REPORTS`] is the table of all reports; [`render`] makes the bytes of one. [`Options`] are read from `key=value`
//! pairs, the same for HTTP, the command line and SQL. The crate is pure: it reads no files and no clock, and the same
//! input gives the same bytes. Profiles are symbolized before; a frame without a symbol is shown with its file and
//! offset, and the reason.
//!
//! Allocator frames at the leaf (and lock frames of contention profiles, the handler's of CPU profiles) are omitted, so
//! that flat values belong to their caller; the option `keep_allocators` shows them. They are those that the profile's
//! own `drop_frames` names, and frames without a name in libjemalloc and libtcmalloc.
//!
//! Sampled values and captured addresses are adjusted by pprof's rules ([`procprof_profile::Grammar`]) if the profile
//! still contains them as measured; only the `pprof` report writes them as measured.
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

#![cfg_attr(test, allow(clippy::disallowed_methods))]

mod display;
pub mod drawing;
mod error;
mod flame_graph;
mod functions;
mod graph;
mod header;

mod listing;
mod options;
mod output;
mod report;
mod selection;
mod stacks;
mod tables;
pub mod viewer;

pub use display::frame::{Frame, FrameKind};
pub use display::runtime::frames_at;
pub use error::{Error, Result};
pub use functions::top::{Top, TopRow, top};
pub use header::headline::about;
pub use listing::code;
pub use listing::list::source_candidates;
pub use listing::sources::{CodeWanted, Sources};
pub use options::{Granularity, Layout, OPTIONS, OptionRow, Options, Sort};
pub use output::budget::Budget;
pub use report::{REPORTS, Report, render};
pub use selection::view::shown_by_default;
pub use stacks::collapsed::stacks;
pub use stacks::stack_tree::{Inlined, Node, StackTree};
