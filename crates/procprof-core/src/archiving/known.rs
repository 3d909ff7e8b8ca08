//! [`KnownParts`]: the parts of an archive and the profiles in them, kept in memory while there is room: parts never
//! change.

use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use procprof_archive::{Archive, Hour, Listed, Part, Parts};
use procprof_profile::Nanos;

use crate::Result;

/// From this age on the parts are listed anew.
const AGE_MAX: Duration = Duration::from_secs(5);
/// Profiles that are kept, about 100 bytes each.
const KEPT_MAX: usize = 1 << 17;

/// An archive that is read.
#[derive(Debug)]
pub struct KnownParts {
    /// The archive.
    pub archive: Archive,
    known: Mutex<Known>,
}

#[derive(Debug, Default)]
struct Known {
    parts: Option<(Instant, Arc<Parts>)>,
    lists: HashMap<Part, (u64, Arc<Vec<Listed>>)>,
    profiles: usize,
    /// Counts uses.
    clock: u64,
    sums: HashMap<Part, Arc<PartSums>>,
}

/// What is in a part.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PartSums {
    /// Its profiles.
    pub profiles: u64,
    /// When the first was complete, and the last.
    pub range: Option<(Nanos, Nanos)>,
    /// Profiles and their samples by cluster.
    pub clusters: BTreeMap<Arc<str>, (u64, u64)>,
}

impl PartSums {
    fn new(profiles: &[Listed]) -> PartSums {
        let mut sums = PartSums { profiles: profiles.len() as u64, ..PartSums::default() };
        for profile in profiles {
            let (first, last) = sums.range.unwrap_or((profile.completed, profile.completed));
            sums.range = Some((first.min(profile.completed), last.max(profile.completed)));
            let cluster = sums.clusters.entry(Arc::clone(&profile.cluster)).or_default();
            cluster.0 += 1;
            cluster.1 = cluster.1.saturating_add(profile.samples);
        }
        sums
    }
}

impl KnownParts {
    /// What is known of an archive, which is nothing yet.
    pub fn new(archive: Archive) -> KnownParts {
        KnownParts { archive, known: Mutex::default() }
    }

    /// The parts, as of at most five seconds ago.
    ///
    /// # Errors
    /// The storage's.
    pub fn parts(&self) -> Result<Arc<Parts>> {
        if let Some((_, parts)) = self.lock().parts.as_ref().filter(|(made, _)| made.elapsed() < AGE_MAX) {
            return Ok(Arc::clone(parts));
        }
        let listed = Instant::now();
        let parts = Arc::new(self.archive.parts()?);
        let mut known = self.lock();
        known.sums.retain(|part, _| parts.whole.contains_key(part));
        known.parts = Some((listed, Arc::clone(&parts)));
        Ok(parts)
    }

    /// Has the parts listed anew when they are needed next.
    pub fn changed(&self) {
        self.lock().parts = None;
    }

    /// The parts of the hours from that of a moment to that of another one, and of their days.
    ///
    /// # Errors
    /// The storage's.
    pub fn parts_between(&self, from: Nanos, to: Nanos) -> Result<Vec<Part>> {
        let (from, to) = (Hour::containing(from).start(), Hour::containing(to).end());
        Ok(self.parts()?.whole.keys().copied().filter(|part| part.end() > from && part.start() < to).collect())
    }

    /// The profiles of a part.
    ///
    /// # Errors
    /// When its file cannot be read.
    pub fn list(&self, part: Part) -> Result<Arc<Vec<Listed>>> {
        if let Some(list) = self.lock().list(part) {
            return Ok(list);
        }
        let list = Arc::new(self.archive.list(part)?);
        self.lock().keep(part, &list);
        Ok(list)
    }

    /// What is in a part.
    ///
    /// # Errors
    /// When its file cannot be read.
    pub fn sums(&self, part: Part) -> Result<Arc<PartSums>> {
        if let Some(sums) = self.lock().sums.get(&part) {
            return Ok(Arc::clone(sums));
        }
        let sums = Arc::new(PartSums::new(&self.archive.list(part)?));
        self.lock().sums.insert(part, Arc::clone(&sums));
        Ok(sums)
    }

    fn lock(&self) -> MutexGuard<'_, Known> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Known {
    fn list(&mut self, part: Part) -> Option<Arc<Vec<Listed>>> {
        self.clock += 1;
        let (used, list) = self.lists.get_mut(&part)?;
        *used = self.clock;
        Some(Arc::clone(list))
    }

    /// Keeps the profiles of a part; those that were not used for longest make room.
    fn keep(&mut self, part: Part, list: &Arc<Vec<Listed>>) {
        if list.len() > KEPT_MAX {
            return;
        }
        self.clock += 1;
        self.profiles += list.len();
        if let Some((_, old)) = self.lists.insert(part, (self.clock, Arc::clone(list))) {
            self.profiles -= old.len();
        }
        while self.profiles > KEPT_MAX {
            let Some(oldest) = self.lists.iter().min_by_key(|(_, (used, _))| *used).map(|(part, _)| *part) else {
                break;
            };
            self.profiles -= self.lists.remove(&oldest).map_or(0, |(_, list)| list.len());
        }
    }
}
