//! How a node fares, per profile type.

use std::collections::BTreeMap;

use jiff::Timestamp;
use procprof_profile::ProfileType;
use tokio::time::Instant;

use super::Planned;

/// The state of a node since the server started.
#[derive(Clone, Debug, Default)]
pub struct Health {
    /// By type, those tried so far.
    pub types: BTreeMap<ProfileType, TypeHealth>,
    /// Whether it is a service whose samples are in the profiles of its host.
    pub in_host: bool,
}

/// The state of one type.
#[derive(Clone, Debug, Default)]
pub struct TypeHealth {
    /// When a profile last arrived.
    pub last_success: Option<Timestamp>,
    /// The last failure; kept after a success, so that it can still be read.
    pub last_failure: Option<FailedAttempt>,
    /// When the schedule tries again after failures; `None` while it does.
    pub retry_at: Option<Timestamp>,
    /// When a failure was last kept as an error row, and its code.
    pub recorded: Option<(Instant, &'static str)>,
    /// Whether a capture is running.
    pub capturing: bool,
    /// Why the node has no such profile, if its last answer said so. That is no failure.
    pub unavailable: Option<String>,
}

/// A failed capture.
#[derive(Clone, Debug)]
pub struct FailedAttempt {
    /// When.
    pub at: Timestamp,
    /// Why.
    pub reason: String,
}

impl TypeHealth {
    /// Whether the latest attempt failed.
    pub fn failing(&self) -> bool {
        if self.unavailable.is_some() {
            return false;
        }
        match (&self.last_success, &self.last_failure) {
            (Some(success), Some(failure)) => failure.at > *success,
            (None, Some(_)) => true,
            _ => false,
        }
    }
}

/// Whether the schedule has a type, and has it on.
fn is_on(schedule: &[Planned], profile_type: &ProfileType) -> bool {
    schedule.iter().any(|planned| planned.on && planned.profile_type == *profile_type)
}

impl Health {
    /// The same without failures of types that are off, which are not expected.
    pub(super) fn scheduled(mut self, schedule: &[Planned]) -> Health {
        for (profile_type, health) in &mut self.types {
            if !is_on(schedule, profile_type) {
                (health.last_failure, health.retry_at) = (None, None);
            }
        }
        self
    }

    /// `ok` when the latest attempt of every type succeeded, `failing` when none did, `degraded` between, `unknown`
    /// before the first; `in-host` then for a service whose samples are in the profiles of its host.
    pub fn summary(&self) -> &'static str {
        self.summary_of(|_| true)
    }

    /// The summary of [`Health::scheduled`].
    pub(super) fn summary_on(&self, schedule: &[Planned]) -> &'static str {
        self.summary_of(|profile_type| is_on(schedule, profile_type))
    }

    /// The summary with the failures of these types alone.
    fn summary_of(&self, is_expected: impl Fn(&ProfileType) -> bool) -> &'static str {
        let (mut tried, mut failing) = (0, 0);
        for (profile_type, own) in self.types.iter().filter(|(_, own)| own.unavailable.is_none()) {
            let is_expected = own.last_failure.is_some() && is_expected(profile_type);
            tried += usize::from(own.last_success.is_some() || is_expected);
            failing += usize::from(is_expected && own.failing());
        }
        match (tried, failing) {
            (0, _) if self.in_host => "in-host",
            (0, _) => "unknown",
            (_, 0) => "ok",
            (all, failing) if all == failing => "failing",
            _ => "degraded",
        }
    }

    /// The latest failure among the types whose latest attempt failed.
    pub fn last_failure(&self) -> Option<(&ProfileType, &FailedAttempt)> {
        let failing = self.types.iter().filter(|(_, health)| health.failing());
        failing
            .filter_map(|(kind, health)| Some((kind, health.last_failure.as_ref()?)))
            .max_by_key(|(_, failure)| failure.at)
    }

    /// When a type whose latest attempt failed is tried again, the first of them.
    pub fn retry_at(&self) -> Option<Timestamp> {
        self.types.values().filter(|health| health.failing()).filter_map(|health| health.retry_at).min()
    }

    /// When any profile last arrived.
    pub fn last_success(&self) -> Option<Timestamp> {
        self.types.values().filter_map(|health| health.last_success).max()
    }
}
