//! Why a capture gave no profile, as it is shown, counted and kept.

use procprof_collect::CollectError;
use procprof_profile::ProfileType;
use procprof_store::ErrorKind;

use crate::ingest::IngestError;

/// Why a capture gave no profile.
#[derive(Clone, Debug)]
pub(crate) struct Failure {
    /// For machines; does not change between versions.
    pub(crate) code: &'static str,
    /// For people.
    pub(crate) reason: String,
    /// The first bytes of what came instead.
    pub(crate) first_bytes: Vec<u8>,
    /// What it is kept as; `None` for what is nobody's fault.
    pub(crate) kind: Option<ErrorKind>,
}

impl Failure {
    pub(crate) fn cancelled(why: &str) -> Failure {
        Failure { code: "cancelled", reason: why.to_owned(), first_bytes: Vec::new(), kind: None }
    }

    pub(crate) fn busy(reason: String) -> Failure {
        Failure { code: "busy", reason, first_bytes: Vec::new(), kind: None }
    }

    pub(crate) fn capture(code: &'static str, reason: impl Into<String>) -> Failure {
        Failure { code, reason: reason.into(), first_bytes: Vec::new(), kind: Some(ErrorKind::Capture) }
    }

    /// The node has no such profile, and that is no fault.
    pub(crate) fn unavailable(why: &str) -> Failure {
        Failure { code: "unavailable", reason: format!("not available: {why}"), first_bytes: Vec::new(), kind: None }
    }

    /// The heap is too small, or its profiler too young, for a single sample: nobody's fault, and nothing to keep.
    pub(crate) fn nothing_sampled() -> Failure {
        let reason = "nothing was sampled yet: too little was allocated since the heap profiler was switched on".to_owned();
        Failure { code: "no_samples", reason, first_bytes: Vec::new(), kind: None }
    }

    /// Why the node has no such profile, if that is the reason.
    pub(crate) fn unavailable_reason(&self) -> Option<&str> {
        self.reason.strip_prefix("not available: ").filter(|_| self.code == "unavailable")
    }

    /// What became of a request to one of our agents: it says itself which profiles it has not.
    pub(crate) fn of_agent(error: CollectError, profile_type: &ProfileType) -> Failure {
        match &error {
            // Without CPU profiles it is no agent: then the address is wrong, and that is a fault.
            _ if *profile_type == ProfileType::Cpu => error.into(),
            CollectError::NotFound { message, .. } | CollectError::Server { status: 501, message, .. } if !message.is_empty() => {
                Failure::unavailable(message)
            }
            _ => error.into(),
        }
    }

    pub(crate) fn is_cancelled(&self) -> bool {
        self.code == "cancelled"
    }
}

impl From<CollectError> for Failure {
    fn from(error: CollectError) -> Failure {
        let kind = match &error {
            CollectError::Cancelled { .. } => None,
            CollectError::Restarted { .. } => Some(ErrorKind::Restarted),
            CollectError::NotAProfile { .. } | CollectError::NoSamples { .. } | CollectError::TooLarge { .. } => Some(ErrorKind::Refused),
            _ => Some(ErrorKind::Capture),
        };
        Failure { code: error.code(), reason: error.to_string(), first_bytes: error.first_bytes().to_vec(), kind }
    }
}

impl From<IngestError> for Failure {
    fn from(error: IngestError) -> Failure {
        let (code, kind) = match &error {
            IngestError::Full(_) => ("ingest_full", Some(ErrorKind::Storage)),
            IngestError::Profile(_) => ("not_a_profile", Some(ErrorKind::Refused)),
            IngestError::Store(procprof_store::Error::DiskFull { .. }) => ("disk_full", Some(ErrorKind::Storage)),
            IngestError::Store(_) => ("storage", Some(ErrorKind::Storage)),
            IngestError::Stopping => ("cancelled", None),
        };
        Failure { code, reason: crate::http::chain(&error), first_bytes: Vec::new(), kind }
    }
}
