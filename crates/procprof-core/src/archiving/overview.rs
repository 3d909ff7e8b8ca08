//! What an archive has, by cluster and by hour.

use std::collections::BTreeMap;
use std::sync::Arc;

use procprof_archive::Hour;
use procprof_profile::Nanos;

use super::KnownParts;
use crate::error::chain;

/// Profiles and their bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ArchiveUse {
    /// Profiles.
    pub profiles: u64,
    /// Bytes of their files.
    pub bytes: u64,
}

impl ArchiveUse {
    /// Bytes of a profile, on average; `None` without profiles.
    pub fn bytes_each(&self) -> Option<u64> {
        self.bytes.checked_div(self.profiles)
    }

    /// Adds others to them.
    pub fn add(&mut self, other: ArchiveUse) {
        self.profiles += other.profiles;
        self.bytes += other.bytes;
    }
}

/// What an archive has.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ArchiveOverview {
    /// All of it.
    pub all: ArchiveUse,
    /// Parts.
    pub parts: u64,
    /// Parts that their writers have not finished, or are writing.
    pub unfinished: u64,
    /// When the oldest profile was complete, and the newest.
    pub range: Option<(Nanos, Nanos)>,
    /// By cluster. The bytes of a part are shared out by the number of samples.
    pub clusters: BTreeMap<Arc<str>, ArchiveUse>,
    /// By hour.
    pub hours: BTreeMap<Hour, ArchiveUse>,
    /// Files that cannot be read, and objects that are no files of an archive, each with the reason.
    pub unreadable: Vec<String>,
}

impl KnownParts {
    /// What the archive has, or had when it could last be listed. Each part is read once. What cannot be listed or read
    /// is named.
    pub fn overview(&self) -> ArchiveOverview {
        let mut overview = ArchiveOverview::default();
        let parts = self.parts().unwrap_or_else(|error| {
            overview.unreadable.push(chain(&error));
            self.last_parts()
        });
        overview.unfinished = parts.unfinished.len() as u64;
        overview.unreadable.extend(parts.wrong());
        for (part, bytes) in &parts.whole {
            let sums = match self.sums(*part) {
                Ok(sums) => sums,
                Err(error) => {
                    overview.unreadable.push(chain(&error));
                    continue;
                }
            };
            let of_part = ArchiveUse { profiles: sums.profiles, bytes: *bytes };
            overview.parts += 1;
            overview.all.add(of_part);
            overview.hours.entry(part.hour).or_default().add(of_part);
            if let Some((first, last)) = sums.range {
                let (oldest, newest) = overview.range.unwrap_or((first, last));
                overview.range = Some((oldest.min(first), newest.max(last)));
            }
            let samples: u128 = sums.clusters.values().map(|(_, samples)| u128::from(*samples).max(1)).sum();
            for (cluster, (profiles, own)) in &sums.clusters {
                let bytes = u128::from(*bytes) * u128::from(*own).max(1) / samples;
                let own = ArchiveUse { profiles: *profiles, bytes: u64::try_from(bytes).unwrap_or(u64::MAX) };
                overview.clusters.entry(Arc::clone(cluster)).or_default().add(own);
            }
        }
        overview
    }
}
