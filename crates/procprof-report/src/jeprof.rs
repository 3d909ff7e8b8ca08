//! Profiles as jeprof reads, cuts, sums and prints them.
//!
//! This is the grammar of `procprof jeprof`: a drop-in for the tool of that name, row by row. It
//! shares nothing with the other reports because its rules are others: estimates stay fractions,
//! frames are cut by a fixed list of names, names are shortened, and what a line cannot be read as
//! is passed over. Where jeprof's own output follows the order of a hash, names decide here.
//!
//! The caller reads files ([`read`]), finds names for the addresses of [`Pcs`] (by the
//! [`libraries`] of the first profile), and hands over what [`View::new`] wants.

mod callgrind;
mod collapsed;
mod cpu;
mod disassembly;
mod dot;
pub mod libraries;
mod listing;
mod number;
mod picture;
mod read;
mod stacks;
mod symbols;
mod text;
mod trim;
mod view;

use regex::Regex;

pub use disassembly::{Instruction, Procedure};
pub use picture::Drawn;
pub use read::{HeapDump, Names, Piece, PieceReader, ReadError, Reading, read, symbolized_header};
pub use stacks::{Negative, PcId, Pcs, Stacks};
pub use symbols::{Symbol, Symbols, short_function_name};
pub use view::View;

/// What a profile is of; by its first line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Of gperftools' CPU profiler.
    Cpu,
    /// Of memory.
    Heap,
    /// Of memory taken from the kernel.
    Growth,
    /// Of waiting for locks.
    Contention,
}

/// Which number of a heap profile is shown.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Index {
    /// Bytes in use.
    #[default]
    InuseSpace,
    /// Objects in use.
    InuseObjects,
    /// Bytes allocated since the start.
    AllocSpace,
    /// Objects allocated since the start.
    AllocObjects,
}

/// Which number of a contention profile is shown.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Delay {
    /// Time waited.
    #[default]
    Total,
    /// How often.
    Contentions,
    /// Time waited each time.
    Mean,
}

/// What a row or a node stands for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Granularity {
    /// A function.
    #[default]
    Functions,
    /// A source line.
    Lines,
    /// A source file.
    Files,
    /// An address.
    Addresses,
}

/// What is shown and how.
#[derive(Clone, Debug)]
pub struct Settings {
    /// The program's name, for headings.
    pub program: String,
    /// What a row stands for.
    pub granularity: Granularity,
    /// Which number of heap profiles.
    pub index: Index,
    /// Which number of contention profiles.
    pub delay: Delay,
    /// Whether `--contentions` was given, which alone decides the unit.
    pub contentions_unit: bool,
    /// Bytes instead of megabytes.
    pub show_bytes: bool,
    /// Rows by cumulative values.
    pub cumulative: bool,
    /// Only stacks with a match.
    pub focus: Option<Regex>,
    /// Only stacks without a match.
    pub ignore: Option<Regex>,
    /// Only frames that match.
    pub retain: Option<Regex>,
    /// Only frames that do not match.
    pub exclude: Option<Regex>,
    /// Most nodes of a graph.
    pub node_count: i64,
    /// Nodes at or below this part of the total are left out.
    pub node_fraction: f64,
    /// Edges at or below this part of the total are left out.
    pub edge_fraction: f64,
    /// Most edges into or out of a node.
    pub degree_max: i64,
    /// Whether nodes that leak are to stand out.
    pub heap_check: bool,
    /// Whether the stacks of each thread are kept, too, where the format has threads.
    pub by_thread: bool,
    /// The thread whose profile this is.
    pub thread: Option<u64>,
}

impl Default for Settings {
    /// What jeprof does without options.
    fn default() -> Self {
        Settings {
            program: String::new(),
            granularity: Granularity::default(),
            index: Index::default(),
            delay: Delay::default(),
            contentions_unit: false,
            show_bytes: false,
            cumulative: false,
            focus: None,
            ignore: None,
            retain: None,
            exclude: None,
            node_count: 80,
            node_fraction: 0.005,
            edge_fraction: 0.001,
            degree_max: 8,
            heap_check: false,
            by_thread: false,
            thread: None,
        }
    }
}
