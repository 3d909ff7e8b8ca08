//! A request for profiles, and the handle by which its caller follows it.

use std::fmt;
use std::sync::Arc;

use procprof_profile::ProfileType;
use tokio_util::sync::CancellationToken;

/// Longest capture that can be requested, in seconds.
pub const MAX_SECONDS: u32 = 3600;

/// The profile types to be recorded: one, or several at the same time.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Request {
    /// The requested type.
    pub profile_type: ProfileType,
    /// Further types that are recorded with it, each once.
    pub also: Vec<ProfileType>,
    /// Length of the capture, at most [`MAX_SECONDS`]. Without it, or with 0 where the profile is of a moment, the
    /// route decides.
    pub seconds: Option<u32>,
    /// Samples per second, 1 to 10,000, where the endpoint takes it; passed over elsewhere.
    pub frequency: Option<u32>,
}

impl Request {
    /// A request with the route's own length and frequency.
    pub fn new(profile_type: ProfileType) -> Request {
        Request { profile_type, also: Vec::new(), seconds: None, frequency: None }
    }

    /// The same with a further type.
    pub fn and(mut self, profile_type: ProfileType) -> Request {
        if !self.types().any(|known| *known == profile_type) {
            self.also.push(profile_type);
        }
        self
    }

    /// All requested types.
    pub fn types(&self) -> impl Iterator<Item = &ProfileType> {
        std::iter::once(&self.profile_type).chain(&self.also)
    }

    /// The same for `seconds` seconds.
    pub fn seconds(mut self, seconds: u32) -> Request {
        self.seconds = Some(seconds);
        self
    }

    /// The same at `frequency` samples per second.
    pub fn frequency(mut self, frequency: u32) -> Request {
        self.frequency = Some(frequency);
        self
    }

    /// Whether a capture made for `other` is as good: it has every type, and the same length and frequency where this
    /// request names them.
    pub fn fits(&self, other: &Request) -> bool {
        let same = |own: Option<u32>, others: Option<u32>| own.is_none() || own == others;
        let has_all = self.types().all(|wanted| other.types().any(|given| wanted == given));
        has_all && same(self.seconds, other.seconds) && same(self.frequency, other.frequency)
    }
}

/// How far a capture is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Progress {
    /// The request is sent; the process samples for `seconds` (0 for a moment) before it answers.
    Sampling {
        /// Length of the capture.
        seconds: u32,
    },
    /// The answer is coming in.
    Receiving {
        /// Bytes so far.
        bytes: u64,
        /// Bytes announced, where known.
        total: Option<u64>,
    },
    /// All is here and is being decoded.
    Checking,
}

/// The caller's side of a running capture: cancels it, and receives its progress.
#[derive(Clone, Default)]
pub struct Watch {
    /// Ends the capture with [`CollectError::Cancelled`](crate::CollectError::Cancelled).
    pub cancel: CancellationToken,
    /// Called at each step and for each piece of the answer; must be quick.
    pub progress: Option<Arc<dyn Fn(Progress) + Send + Sync>>,
    /// The requester, for a source that keeps others waiting meanwhile.
    pub by: String,
    /// Called before so many bytes more of the answer are kept in memory; its error ends the capture with
    /// [`CollectError::NoRoom`](crate::CollectError::NoRoom). Must be quick.
    pub admit: Option<Admit>,
}

/// Whether so many bytes more may be kept; if not, why.
pub type Admit = Arc<dyn Fn(u64) -> std::result::Result<(), String> + Send + Sync>;

impl Watch {
    pub(crate) fn report(&self, progress: Progress) {
        if let Some(listener) = &self.progress {
            listener(progress);
        }
    }
}

impl fmt::Debug for Watch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Watch").field("cancelled", &self.cancel.is_cancelled()).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_request_fits_one_that_includes_it() {
        let cpu = || Request::new(ProfileType::Cpu);
        assert!(cpu().fits(&cpu().seconds(10)));
        assert!(cpu().seconds(10).fits(&cpu().seconds(10).frequency(99)));
        assert!(!cpu().seconds(5).fits(&cpu().seconds(10)));
        assert!(!cpu().frequency(99).fits(&cpu()));
        assert!(!Request::new(ProfileType::Heap).fits(&cpu()));
        let both = || cpu().and(ProfileType::Alloc).and(ProfileType::Cpu);
        assert_eq!(both().types().count(), 2);
        assert!(cpu().fits(&both()) && Request::new(ProfileType::Alloc).fits(&both()) && !both().fits(&cpu()));
    }
}
