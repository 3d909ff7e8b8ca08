//! What can be wrong with bytes that should be a profile.

use std::fmt;

/// Result with this crate's [`Error`].
pub type Result<T> = std::result::Result<T, Error>;

/// Where in the input something is wrong.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Place {
    /// A line, counted from 1.
    Line(usize),
    /// A byte offset into the decoded (uncompressed) input.
    Offset(usize),
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Place::Line(line) => write!(f, "line {line}"),
            Place::Offset(offset) => write!(f, "offset {offset}"),
        }
    }
}

/// Why bytes could not become a profile.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The input has no bytes.
    #[error("empty input")]
    Empty,
    /// No format recognises the input.
    #[error("{}", unrecognized(first.as_deref()))]
    Unrecognized {
        /// The first bytes, escaped, at most 64, if they are text.
        first: Option<String>,
    },
    /// The caller wants no more of it.
    #[error("stopped")]
    Stopped,
    /// The input is known, but no profile that can be read.
    #[error("this is {name}: {advice}")]
    Foreign {
        /// The kind of file.
        name: &'static str,
        /// The way to a profile.
        advice: &'static str,
    },
    /// A format recognises the input, but it is broken.
    #[error("{format}: {place}: {what}")]
    Malformed {
        /// Name of the format, as in the format table.
        format: &'static str,
        /// Where.
        place: Place,
        /// What is wrong.
        what: String,
    },
    /// The input ends before the profile does.
    #[error("{format}: {place}: input ends inside {what}")]
    Truncated {
        /// Name of the format, as in the format table.
        format: &'static str,
        /// Where the missing piece begins.
        place: Place,
        /// What is cut off.
        what: &'static str,
    },
    /// A stated limit was hit.
    #[error("{format}: {what} passes the limit of {limit}")]
    TooLarge {
        /// Name of the format, as in the format table.
        format: &'static str,
        /// What is too large.
        what: &'static str,
        /// The limit, in bytes or items as `what` says.
        limit: u64,
    },
    /// Tables that contradict each other.
    #[error("invalid profile: {0}")]
    Invalid(String),
    /// Profiles that cannot be combined.
    #[error("profiles differ: {0}")]
    Incompatible(String),
    /// A regular expression or other text argument that cannot be read.
    #[error("argument {argument:?}: {why}")]
    Argument {
        /// The text as given.
        argument: String,
        /// What is wrong with it.
        why: String,
    },
}

fn unrecognized(first: Option<&str>) -> String {
    match first {
        Some(first) => format!("no known profile format begins with \"{first}\""),
        None => "this is binary data of no known profile format".to_owned(),
    }
}

impl Error {
    /// An [`Error::Invalid`] with this text.
    pub fn invalid(what: impl Into<String>) -> Error {
        Error::Invalid(what.into())
    }

    /// The same with its place counted from so many lines and bytes before.
    pub(crate) fn shifted(mut self, lines: usize, bytes: usize) -> Error {
        if let Error::Malformed { place, .. } | Error::Truncated { place, .. } = &mut self {
            match place {
                Place::Line(line) => *line += lines,
                Place::Offset(offset) => *offset += bytes,
            }
        }
        self
    }
}
