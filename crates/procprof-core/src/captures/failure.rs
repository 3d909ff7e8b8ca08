//! Why a capture gave no profile, as it is shown, counted and kept.

use procprof_collect::CollectError;
use procprof_store::ErrorKind;

use crate::ingest::IngestError;

/// Why a capture gave no profile.
#[derive(Clone, Debug)]
pub struct CaptureFailure {
    /// For machines; does not change between versions.
    pub code: &'static str,
    /// For people.
    pub reason: String,
    /// The first bytes of what came instead.
    pub(crate) first_bytes: Vec<u8>,
    /// The kind of its error row; `None` for a failure that is not recorded.
    pub(crate) kind: Option<ErrorKind>,
}

impl CaptureFailure {
    pub(crate) fn cancelled(why: &str) -> CaptureFailure {
        CaptureFailure { code: "cancelled", reason: why.to_owned(), first_bytes: Vec::new(), kind: None }
    }

    pub(crate) fn busy(reason: String) -> CaptureFailure {
        CaptureFailure { code: "busy", reason, first_bytes: Vec::new(), kind: None }
    }

    pub(crate) fn capture(code: &'static str, reason: impl Into<String>) -> CaptureFailure {
        CaptureFailure { code, reason: reason.into(), first_bytes: Vec::new(), kind: Some(ErrorKind::Capture) }
    }

    /// Why the node has no such profile, if that is the reason.
    pub(crate) fn unavailable_reason(&self) -> Option<&str> {
        self.reason.strip_prefix("not available: ").filter(|_| self.code == "unavailable")
    }

    pub(crate) fn is_cancelled(&self) -> bool {
        self.code == "cancelled"
    }
}

impl From<CollectError> for CaptureFailure {
    fn from(error: CollectError) -> CaptureFailure {
        let kind = match &error {
            CollectError::Cancelled { .. }
            | CollectError::Unavailable { .. }
            | CollectError::NothingYet
            | CollectError::NothingNew { .. } => None,
            CollectError::Restarted { .. } => Some(ErrorKind::Restarted),
            CollectError::NoRoom { .. } => Some(ErrorKind::Storage),
            CollectError::NotAProfile { .. } | CollectError::NoSamples { .. } | CollectError::TooLarge { .. } => {
                Some(ErrorKind::Refused)
            }
            _ => Some(ErrorKind::Capture),
        };
        CaptureFailure {
            code: error.code(),
            reason: error.to_string(),
            first_bytes: error.first_bytes().to_vec(),
            kind,
        }
    }
}

impl From<IngestError> for CaptureFailure {
    fn from(error: IngestError) -> CaptureFailure {
        let (code, kind) = match &error {
            IngestError::Full(_) => ("ingest_full", Some(ErrorKind::Storage)),
            IngestError::Refused(_) => ("not_a_profile", Some(ErrorKind::Refused)),
            IngestError::NotDecoded(_) => ("not_decoded", Some(ErrorKind::Refused)),
            IngestError::Store(procprof_store::Error::DiskFull { .. }) => ("disk_full", Some(ErrorKind::Storage)),
            IngestError::Store(_) => ("storage", Some(ErrorKind::Storage)),
            IngestError::Stopping => ("cancelled", None),
        };
        CaptureFailure { code, reason: crate::error::chain(&error), first_bytes: Vec::new(), kind }
    }
}
