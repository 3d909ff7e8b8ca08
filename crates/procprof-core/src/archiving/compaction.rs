//! When a server compacts its archive: once a day, when the last hour of the day before is archived, and again to
//! remove what was replaced.

use std::collections::BTreeSet;

use procprof_archive::{Archive, CompactLimits, Compacted, Error as ArchiveError, FrameNames, Hour};
use procprof_profile::Nanos;

use super::archiver::PART;
use crate::Result;
use crate::clock::now;
use crate::config::Config;

/// How long a server that was killed in a compaction keeps others away: a step of one takes less.
const LEASE: Nanos = Nanos(300_000_000_000);
/// Time after which one that has failed is tried again.
const AGAIN: Nanos = Nanos(60_000_000_000);
/// Parts that cannot be read that are logged at a time.
const LOGGED_MAX: usize = 10;

/// When the next compaction is due.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Compaction {
    /// The first hour of the day whose days before are compacted.
    day: Option<Hour>,
    /// When there is more to do.
    again: Option<Nanos>,
    /// What could not be read in the last one.
    unreadable: BTreeSet<String>,
}

impl Compaction {
    /// Whether one is due, when every profile before a moment is archived.
    pub(super) fn is_due(&self, archived_before: Nanos, now: Nanos) -> bool {
        match self.again {
            Some(again) => again <= now,
            None => self.day != Some(Hour::containing(archived_before).day()),
        }
    }

    /// The moment until which there is nothing to do, if it is known.
    pub(super) fn again(&self) -> Option<Nanos> {
        self.again
    }

    /// Compacts; `None` if another one runs, or the server stops.
    ///
    /// # Errors
    /// [`Archive::compact`]'s.
    pub(super) fn run(
        &mut self,
        archive: &Archive,
        archived_before: Nanos,
        limits: &CompactLimits,
        names: &mut dyn FrameNames,
        is_stopped: &dyn Fn() -> bool,
    ) -> Result<Option<Compacted>> {
        let done = archive.compact_unless(limits, &now, super::holder(), names, is_stopped);
        match done {
            Ok(done) => {
                self.done(archived_before, &done);
                Ok(Some(done))
            }
            Err(ArchiveError::Stopped) => Ok(None),
            Err(ArchiveError::Busy { left }) => {
                self.again = Some(Nanos(now().0.saturating_add(left.0.max(0))));
                Ok(None)
            }
            Err(error) => {
                self.again = Some(Nanos(now().0.saturating_add(AGAIN.0)));
                Err(error.into())
            }
        }
    }

    fn done(&mut self, archived_before: Nanos, done: &Compacted) {
        self.day = Some(Hour::containing(archived_before).day());
        self.again = done.waits_until;
        let unreadable: BTreeSet<String> = done.failed.iter().cloned().collect();
        for why in unreadable.difference(&self.unreadable).take(LOGGED_MAX) {
            tracing::warn!("archive: not compacted: {why}");
        }
        self.unreadable = unreadable;
        if done.replaced + done.dropped > 0 {
            let Compacted { replaced, written, dropped, .. } = done;
            tracing::info!("archive: {replaced} parts became {written}, {dropped} were dropped");
        }
        if done.repeated > 0 {
            tracing::info!("archive: {} profiles that another part has, too, were left out", done.repeated);
        }
    }
}

/// The limits of a configuration.
pub(super) fn limits(config: &Config) -> CompactLimits {
    CompactLimits {
        part: PART,
        days_max: Some(config.archive_days_max).filter(|days| *days > 0).and_then(|days| u32::try_from(days).ok()),
        bytes_max: Some(config.archive_bytes_max).filter(|bytes| *bytes > 0),
        lease: LEASE,
        ..CompactLimits::default()
    }
}

/// The first moment whose profiles are kept; `None` without a limit of days.
pub(super) fn first_kept(config: &Config, now: Nanos) -> Option<Nanos> {
    let days = limits(config).days_max?;
    Some(Hour(Hour::containing(now).day().0.saturating_sub(i64::from(days).saturating_mul(24))).start())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_day_is_compacted_once_its_last_hour_is_archived() {
        let day = Hour(489_912);
        let at = |hours: i64| Hour(day.0 + hours).start();
        let mut compaction = Compaction::default();
        assert!(compaction.is_due(at(20), at(21)), "at the start");
        compaction.done(at(20), &Compacted { waits_until: Some(at(22)), ..Compacted::default() });
        assert!(!compaction.is_due(at(20), at(21)));
        assert!(compaction.is_due(at(21), at(22)), "what was replaced is removed");
        compaction.done(at(21), &Compacted::default());
        assert!(!compaction.is_due(at(23), at(24)), "the last hour is missing");
        assert!(compaction.is_due(at(24), at(24)));
        compaction.done(at(24), &Compacted::default());
        assert!(!compaction.is_due(at(47), at(47)));
    }

    #[test]
    fn limits_of_0_are_none() {
        let config = Config::defaults();
        assert_eq!((limits(&config).days_max, limits(&config).bytes_max), (Some(90), None));
        let day = Hour(489_912);
        assert_eq!(first_kept(&config, Nanos(day.start().0 + 7)), Some(Hour(day.0 - 90 * 24).start()));
        let config = Config { archive_days_max: 0, archive_bytes_max: 7, ..config };
        assert_eq!((limits(&config).days_max, limits(&config).bytes_max), (None, Some(7)));
        assert_eq!(first_kept(&config, day.start()), None);
    }
}
