//! Why a report could not be rendered.

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
