//! The shown part of a profile, and its presentation, as selected by jeprof's options.

use regex::Regex;

/// The kind of a profile, by its first line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ProfileKind {
    /// Of gperftools' CPU profiler.
    Cpu,
    /// Of memory.
    Heap,
    /// Of memory taken from the kernel.
    Growth,
    /// Of waiting for locks.
    Contention,
}

/// The shown value of a heap profile.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum HeapIndex {
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

/// The shown value of a contention profile.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Delay {
    /// Time waited.
    #[default]
    Total,
    /// Number of waits.
    Contentions,
    /// Time waited each time.
    Mean,
}

/// The kind of a row or node.
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

/// The selection and presentation.
#[derive(Clone, Debug)]
pub struct Settings {
    /// The program's name, for headings.
    pub program: String,
    /// The kind of rows.
    pub granularity: Granularity,
    /// The value of heap profiles.
    pub index: HeapIndex,
    /// The value of contention profiles.
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
    /// Whether nodes that leak are highlighted.
    pub heap_check: bool,
    /// Whether the stacks of each thread are kept, too, where the format has threads.
    pub by_thread: bool,
    /// The thread whose profile this is.
    pub thread: Option<u64>,
}

impl Default for Settings {
    /// The defaults of jeprof.
    fn default() -> Self {
        Settings {
            program: String::new(),
            granularity: Granularity::default(),
            index: HeapIndex::default(),
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

/// The copies with debug information, below `/usr/lib/debug`, that are used in place of files.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum DebugCopies {
    /// Those of the file's path.
    #[default]
    ByPath,
    /// Those of its path, else those of its build id.
    ByPathOrBuildId,
}
