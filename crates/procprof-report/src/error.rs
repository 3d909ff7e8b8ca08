//! Why a report could not be rendered.

/// Result with this crate's [`Error`].
pub type Result<T> = std::result::Result<T, Error>;

/// The errors of a request for a report.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// No report has that name.
    #[error("no report {name:?}{}", suggestion(.nearest))]
    UnknownReport {
        /// The name as given.
        name: String,
        /// The nearest name of a report, if one is near.
        nearest: Option<&'static str>,
    },
    /// No option has that key.
    #[error("no report option {key:?}{}", suggestion(.nearest))]
    UnknownOption {
        /// The key as given.
        key: String,
        /// The nearest key of an option, if one is near.
        nearest: Option<&'static str>,
    },
    /// An option's value cannot be read.
    #[error("report option {key}={value:?}: {why}")]
    Value {
        /// The option's key.
        key: &'static str,
        /// The value as given.
        value: String,
        /// The problem, or the valid values.
        why: String,
    },
    /// No function matches the one requested.
    #[error("no function matches {pattern:?}: {why}")]
    NoMatch {
        /// The regular expression or address requested.
        pattern: String,
        /// What was searched.
        why: String,
    },
    /// The call graph is too large to draw.
    #[error("{}", too_large(*.nodes, *.edges, *.vertices))]
    GraphTooLarge {
        /// Boxes of the graph.
        nodes: usize,
        /// Lines between them.
        edges: usize,
        /// Places that boxes and lines take in all layers of the drawing; 0 where they were not counted.
        vertices: usize,
    },
    /// The report exceeds its limit.
    #[error("the report has more than {most} bytes, which is the limit; narrow it by focus, ignore or show")]
    OutputLimit {
        /// The limit in bytes.
        most: u64,
    },
    /// A table made for the report exceeds its limit.
    #[error(
        "{table} would take more than {most} bytes, which is the limit; narrow the report by focus, ignore or show"
    )]
    MemoryLimit {
        /// The table.
        table: &'static str,
        /// The limit in bytes.
        most: u64,
    },
    /// The caller's [`Budget`](crate::Budget) ended it.
    #[error("the report was stopped")]
    Stopped,
    /// The report could not be written.
    #[error("write the report: {why}")]
    Write {
        /// The kind of the error.
        kind: std::io::ErrorKind,
        /// The error as text.
        why: String,
    },
    /// The profile itself could not be prepared or encoded.
    #[error(transparent)]
    Profile(#[from] procprof_profile::Error),
}

impl Error {
    pub(crate) fn value(key: &'static str, value: &str, why: impl Into<String>) -> Error {
        Error::Value { key, value: value.chars().take(200).collect(), why: why.into() }
    }

    pub(crate) fn no_match(pattern: &regex::Regex, why: impl Into<String>) -> Error {
        Error::NoMatch { pattern: pattern.as_str().chars().take(200).collect(), why: why.into() }
    }
}

/// Most boxes of a call graph that is drawn.
pub(crate) const NODES_MAX: usize = 4_096;
/// Most lines of a call graph that is drawn.
pub(crate) const EDGES_MAX: usize = 16_384;
/// Most places that boxes and lines take in all layers of a drawing: a long edge is one in each layer that it passes.
pub(crate) const VERTICES_MAX: usize = 200_000;

fn suggestion(nearest: &Option<&'static str>) -> String {
    nearest.map(|name| format!("; did you mean {name:?}?")).unwrap_or_default()
}

fn too_large(nodes: usize, edges: usize, vertices: usize) -> String {
    let what = match vertices {
        0 => format!("at most {NODES_MAX} and {EDGES_MAX} are drawn"),
        _ => format!("which take {vertices} places in its layers, and at most {VERTICES_MAX} are drawn"),
    };
    format!(
        "the call graph has {nodes} nodes and {edges} edges, {what}; lower nodecount, or raise nodefraction or \
         edgefraction"
    )
}
