//! Why there is no report.

use std::sync::Arc;

/// Why there is no report.
#[derive(Clone, Debug, thiserror::Error)]
pub enum RenderError {
    /// The question does not fit the profile.
    #[error("{0}")]
    Question(String),
    /// It is larger than it may be, by the key of the configuration.
    #[error("{why} ({key})")]
    TooLarge {
        /// The part that is too large.
        why: String,
        /// The key that limits it.
        key: &'static str,
    },
    /// As many as may be are under way.
    #[error("{0}")]
    Busy(String),
    /// Others are before it; it goes on.
    #[error("the report is not ready after {seconds} s, since others are before it; ask again")]
    StillRendering {
        /// How long the reader waited.
        seconds: u64,
    },
    /// It took too long.
    #[error("{report} was stopped after {seconds} s (render_seconds_max); narrow it by focus, ignore or show")]
    TooLong {
        /// The report's name.
        report: &'static str,
        /// The limit.
        seconds: u64,
    },
    /// The profile cannot be had.
    #[error(transparent)]
    Store(Arc<procprof_store::Error>),
    /// What it is made from is elsewhere, and cannot be had at the moment.
    #[error("{0}")]
    Unavailable(String),
    /// Something of ours failed.
    #[error("{0}")]
    Internal(String),
    /// The server ends.
    #[error("the server is stopping")]
    Stopping,
}

impl From<procprof_store::Error> for RenderError {
    fn from(error: procprof_store::Error) -> RenderError {
        RenderError::Store(Arc::new(error))
    }
}
