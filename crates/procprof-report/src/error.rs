//! Why a report could not be rendered.

use crate::layout::{EDGES_MAX, NODES_MAX, VERTICES_MAX};

/// Result with this crate's [`Error`].
pub type Result<T> = std::result::Result<T, Error>;

/// What is wrong with a request for a report.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// No report has that name.
    #[error("no report {name:?}{}", suggestion(.nearest))]
    UnknownReport {
        /// The name as given.
        name: String,
        /// The report's name that is nearest to it, where one is near.
        nearest: Option<&'static str>,
    },
    /// No option has that key.
    #[error("no report option {key:?}{}", suggestion(.nearest))]
    UnknownOption {
        /// The key as given.
        key: String,
        /// The option's key that is nearest to it, where one is near.
        nearest: Option<&'static str>,
    },
    /// An option's value cannot be read.
    #[error("report option {key}={value:?}: {why}")]
    Value {
        /// The option's key.
        key: &'static str,
        /// The value as given.
        value: String,
        /// What is wrong with it, or what would be right.
        why: String,
    },
    /// The call graph is larger than what is drawn.
    #[error("{}", too_large(*.nodes, *.edges, *.vertices))]
    GraphTooLarge {
        /// Boxes of the graph.
        nodes: usize,
        /// Lines between them.
        edges: usize,
        /// Places that boxes and lines take in all layers of the drawing; 0 where they were not counted.
        vertices: usize,
    },
    /// The profile itself could not be prepared or encoded.
    #[error(transparent)]
    Profile(#[from] procprof_profile::Error),
}

impl Error {
    pub(crate) fn value(key: &'static str, value: &str, why: impl Into<String>) -> Error {
        Error::Value { key, value: value.chars().take(200).collect(), why: why.into() }
    }
}

fn suggestion(nearest: &Option<&'static str>) -> String {
    nearest.map(|name| format!("; did you mean {name:?}?")).unwrap_or_default()
}

fn too_large(nodes: usize, edges: usize, vertices: usize) -> String {
    let what = match vertices {
        0 => format!("at most {NODES_MAX} and {EDGES_MAX} are drawn"),
        _ => format!("which take {vertices} places in its layers, and at most {VERTICES_MAX} are drawn"),
    };
    format!("the call graph has {nodes} nodes and {edges} edges, {what}; lower nodecount, or raise nodefraction or edgefraction")
}
