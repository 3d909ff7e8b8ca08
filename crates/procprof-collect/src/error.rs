//! Why there is no profile: a stable code for machines, a sentence with the node's URL for people.

use std::fmt;
use std::path::PathBuf;
use std::time::Duration;

use procprof_profile::{Nanos, ProfileType};

/// Result with this crate's [`CollectError`].
pub type Result<T> = std::result::Result<T, CollectError>;

/// Why there is no profile. URLs in it carry no secrets.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum CollectError {
    /// An address, header or limit of the target that cannot be used.
    #[error("{what} {value:?}: {why}")]
    Target {
        /// The part of the target.
        what: &'static str,
        /// As given, without secrets.
        value: String,
        /// The reason.
        why: String,
    },
    /// A file of certificates or of a key cannot be used.
    #[error("certificate file {}: {why}", path.display())]
    CaFile {
        /// The file.
        path: PathBuf,
        /// The reason.
        why: String,
    },
    /// This kind of process has no such profile, or no URL is configured for it.
    #[error("a {kind} process has no {profile_type} profile to collect")]
    Unsupported {
        /// The kind of process.
        kind: &'static str,
        /// The requested type.
        profile_type: ProfileType,
    },
    /// A length or frequency out of range.
    #[error("{profile_type} request: {why}")]
    Request {
        /// The requested type.
        profile_type: ProfileType,
        /// The reason.
        why: String,
    },
    /// No connection: refused, no such host, no route, TLS failure.
    #[error("{url}: no connection: {why}")]
    Connect {
        /// The requested URL.
        url: String,
        /// The system's error.
        why: String,
    },
    /// No complete answer in time.
    #[error("{url}: no complete answer within {:.1} s", after.as_secs_f64())]
    Timeout {
        /// The requested URL.
        url: String,
        /// The time for which it was waited for.
        after: Duration,
    },
    /// No answer in time from a process of this host under the preload library, which listens without a thread and has
    /// not looked for clients.
    #[error(
        "{url}: no complete answer within {:.1} s: process {pid} listens without a thread (libprocprof_preload.so) and \
         has neither allocated nor called epoll_wait; start it with PROCPROF_LISTENER=thread, or record it from \
         outside: procprof record -p {pid}",
        after.as_secs_f64()
    )]
    NotServed {
        /// The requested URL.
        url: String,
        /// The time for which it was waited for.
        after: Duration,
        /// The process that listens.
        pid: u32,
    },
    /// HTTP 401: credentials are missing or wrong.
    #[error("{url}: HTTP 401: credentials missing or wrong")]
    Unauthorized {
        /// The requested URL.
        url: String,
    },
    /// HTTP 403: not allowed.
    #[error("{url}: HTTP 403: not allowed{}", said(message))]
    Forbidden {
        /// The requested URL.
        url: String,
        /// First line of the answer.
        message: String,
    },
    /// HTTP 404: no such endpoint.
    #[error("{url}: HTTP 404: no such endpoint{}", said(message))]
    NotFound {
        /// The requested URL.
        url: String,
        /// First line of the answer.
        message: String,
    },
    /// Any other HTTP status below 500 that is no success.
    #[error("{url}: HTTP {status}: refused{}", said(message))]
    Refused {
        /// The requested URL.
        url: String,
        /// The HTTP status.
        status: u16,
        /// First line of the answer.
        message: String,
    },
    /// HTTP 5xx.
    #[error("{url}: HTTP {status}: the process failed{}", said(message))]
    Server {
        /// The requested URL.
        url: String,
        /// The HTTP status.
        status: u16,
        /// First line of the answer.
        message: String,
    },
    /// A redirect to another host or port, or too many.
    #[error("{url}: redirect not followed: {why}")]
    Redirect {
        /// The requested URL.
        url: String,
        /// Why.
        why: String,
    },
    /// Another capture is running.
    #[error("{url}: busy: {}", busy(by, until, message))]
    Busy {
        /// The requested URL.
        url: String,
        /// The owner of the running capture, where known.
        by: Option<String>,
        /// When that capture ends, where known (UTC).
        until: Option<Nanos>,
        /// First line of the answer.
        message: String,
    },
    /// The answer is complete but is no profile.
    #[error("{url}: not a profile: {reason}")]
    NotAProfile {
        /// The requested URL.
        url: String,
        /// A description of the bytes.
        reason: String,
        /// Its first bytes, at most 256.
        first_bytes: Vec<u8>,
    },
    /// A heap profile without a single sample.
    #[error(
        "{url}: a heap profile without samples: heap profiling is off in the process, or nothing was allocated since \
         it was switched on"
    )]
    NoSamples {
        /// The requested URL.
        url: String,
    },
    /// The answer passes the size limit.
    #[error("{url}: the answer passes the limit of {limit} bytes")]
    TooLarge {
        /// The requested URL.
        url: String,
        /// The limit, in bytes.
        limit: u64,
    },
    /// There is no room for the answer at this moment.
    #[error("{url}: no room for the answer: {why}")]
    NoRoom {
        /// The requested URL.
        url: String,
        /// The exhausted limit.
        why: String,
    },
    /// The connection broke before the answer was complete.
    #[error("{url}: connection broke after {received} bytes of the answer: {why}")]
    Broken {
        /// The requested URL.
        url: String,
        /// Bytes of the body received.
        received: u64,
        /// The system's error.
        why: String,
    },
    /// The process restarted during the capture.
    #[error("{url}: the process restarted during the capture: {why}")]
    Restarted {
        /// The requested URL.
        url: String,
        /// The evidence.
        why: String,
    },
    /// The process works and does not have this profile, by its own account.
    #[error("not available: {why}")]
    Unavailable {
        /// Why not.
        why: String,
    },
    /// A heap profile of this very process without a single sample: the heap is too small, or its profiler too young.
    #[error("nothing was sampled yet: too little was allocated since the heap profiler was switched on")]
    NothingYet,
    /// The process works, and has made no profile since the last one that was fetched.
    #[error("nothing new: {why}")]
    NothingNew {
        /// Which one was the last.
        why: String,
    },
    /// A failure of a recording engine other than HTTP.
    #[error("{why}")]
    Engine {
        /// A short name that does not change between versions.
        code: &'static str,
        /// The reason.
        why: String,
    },
    /// The asker gave up.
    #[error("{url}: cancelled")]
    Cancelled {
        /// The requested URL.
        url: String,
    },
}

impl CollectError {
    /// A short name that does not change between versions.
    pub fn code(&self) -> &'static str {
        match self {
            CollectError::Target { .. } => "bad_target",
            CollectError::CaFile { .. } => "bad_ca_file",
            CollectError::Unsupported { .. } => "unsupported",
            CollectError::Request { .. } => "bad_request",
            CollectError::Connect { .. } => "connect",
            CollectError::Timeout { .. } | CollectError::NotServed { .. } => "timeout",
            CollectError::Unauthorized { .. } => "unauthorized",
            CollectError::Forbidden { .. } => "forbidden",
            CollectError::NotFound { .. } => "not_found",
            CollectError::Refused { .. } => "refused",
            CollectError::Server { .. } => "server_error",
            CollectError::Redirect { .. } => "redirect",
            CollectError::Busy { .. } => "busy",
            CollectError::NotAProfile { .. } => "not_a_profile",
            CollectError::NoSamples { .. } => "no_samples",
            CollectError::TooLarge { .. } => "too_large",
            CollectError::NoRoom { .. } => "no_room",
            CollectError::Broken { .. } => "broken",
            CollectError::Restarted { .. } => "restarted",
            CollectError::Unavailable { .. } => "unavailable",
            CollectError::NothingYet => "no_samples",
            CollectError::NothingNew { .. } => "nothing_new",
            CollectError::Engine { code, .. } => code,
            CollectError::Cancelled { .. } => "cancelled",
        }
    }

    /// The first bytes of what came instead of a profile; empty for every other error.
    pub fn first_bytes(&self) -> &[u8] {
        match self {
            CollectError::NotAProfile { first_bytes, .. } => first_bytes,
            _ => &[],
        }
    }

    /// Whether another of a route's places may still have the profile.
    pub(crate) fn try_elsewhere(&self) -> bool {
        matches!(self, CollectError::Connect { .. } | CollectError::NotFound { .. })
    }

    pub(crate) fn target(what: &'static str, value: impl Into<String>, why: impl fmt::Display) -> CollectError {
        CollectError::Target { what, value: value.into(), why: why.to_string() }
    }
}

fn said(message: &str) -> String {
    if message.is_empty() { String::new() } else { format!(": {message:?}") }
}

fn busy(by: &Option<String>, until: &Option<Nanos>, message: &str) -> String {
    let by = by.as_deref().unwrap_or("another profiler");
    match until {
        Some(until) => {
            let second = (until.0 / 1_000_000_000).rem_euclid(86_400);
            format!("{by} is capturing until {:02}:{:02}:{:02} UTC", second / 3600, second / 60 % 60, second % 60)
        }
        None if !message.is_empty() => message.to_owned(),
        None => format!("{by} is capturing"),
    }
}
