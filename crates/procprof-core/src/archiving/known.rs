//! [`KnownParts`]: the parts of an archive and the profiles in them, kept in memory while there is room: parts never
//! change.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use procprof_archive::{Archive, Grain, Hour, Listed, Part, Parts};
use procprof_profile::Nanos;

use crate::error::chain;
use crate::{Error, Result};

/// From this age on the parts are listed anew.
const AGE_MAX: Duration = Duration::from_secs(5);
/// Parts in which names of nodes are looked up.
const NAMED_PARTS: usize = 64;
/// Profiles and hours that are kept, about 130 bytes each.
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
    /// The parts as they were last listed.
    parts: Arc<Parts>,
    /// When that was, unless they have changed since.
    listed: Option<Instant>,
    /// When they could not be listed, and why.
    failed: Option<(Instant, String)>,
    lists: HashMap<(Part, Grain), Kept>,
    profiles: usize,
    /// Counts uses.
    clock: u64,
    sums: HashMap<Part, Arc<PartSums>>,
    nodes: HashMap<Part, Arc<NodeNames>>,
    /// Parts with files that could not be read, and why.
    broken: HashMap<Part, String>,
}

/// A list, and when it was last used.
type Kept = (u64, Arc<Vec<Listed>>);

/// Names of nodes, with their ids.
type NodeNames = BTreeSet<(String, u64)>;

/// The parts of an archive that may have profiles of a time.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PartsOfTime {
    /// Those of the hours of the time, and of their days, in their order.
    pub parts: Vec<Part>,
    /// Those of them whose hours are rolled up.
    pub rolled: BTreeSet<Part>,
    /// The days of the time that are left out, each with the reason, as a sentence.
    pub left_out: Vec<String>,
}

/// The nodes of a name, and where they were not looked up.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct NamedNodes {
    /// Their ids.
    pub ids: BTreeSet<u64>,
    /// What was left out where none was found, each as a sentence.
    pub left_out: Vec<String>,
}

impl NamedNodes {
    /// An error's text for none, with what was left out.
    pub fn not_found(&self, error: String) -> String {
        self.left_out.iter().fold(error, |text, why| format!("{text}; {why}"))
    }
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
    /// The storage's. For five seconds it is not tried again then, so that not every request waits for a storage that
    /// does not answer.
    pub fn parts(&self) -> Result<Arc<Parts>> {
        {
            let known = self.lock();
            if known.listed.is_some_and(|listed| listed.elapsed() < AGE_MAX) {
                return Ok(Arc::clone(&known.parts));
            }
            if let Some((_, why)) = known.failed.as_ref().filter(|(failed, _)| failed.elapsed() < AGE_MAX) {
                return Err(Error::Setup { what: "archive", why: why.clone() });
            }
        }
        let listed = Instant::now();
        let parts = self.archive.parts();
        let mut known = self.lock();
        let parts = match parts {
            Ok(parts) => Arc::new(parts),
            Err(error) => {
                known.failed = Some((Instant::now(), chain(&error)));
                return Err(error.into());
            }
        };
        known.sums.retain(|part, _| parts.whole.contains_key(part));
        known.nodes.retain(|part, _| parts.whole.contains_key(part));
        known.broken.retain(|part, _| parts.whole.contains_key(part));
        known.parts = Arc::clone(&parts);
        known.listed = Some(listed);
        known.failed = None;
        Ok(parts)
    }

    /// The parts as they were when they were last listed; none before.
    pub(super) fn last_parts(&self) -> Arc<Parts> {
        Arc::clone(&self.lock().parts)
    }

    /// Has the parts listed anew when they are needed next.
    pub fn changed(&self) {
        let mut known = self.lock();
        known.listed = None;
        known.failed = None;
    }

    /// The parts of the hours from that of a moment to that of another one, and of their days.
    ///
    /// # Errors
    /// The storage's.
    pub fn parts_between(&self, from: Nanos, to: Nanos) -> Result<PartsOfTime> {
        let (from, to) = (Hour::containing(from).start(), Hour::containing(to).end());
        let known = self.parts()?;
        let parts: Vec<Part> =
            known.whole.keys().copied().filter(|part| part.end() > from && part.start() < to).collect();
        let rolled = parts.iter().copied().filter(|part| known.rolled.contains(part)).collect();
        let unclear = known.unclear_days().filter(|(day, _)| day.next_day().start() > from && day.start() < to);
        Ok(PartsOfTime { parts, rolled, left_out: unclear.map(|(_, error)| chain(&error)).collect() })
    }

    /// The profiles of a part, or its hours.
    ///
    /// # Errors
    /// When its file cannot be read.
    pub fn list(&self, part: Part, grain: Grain) -> Result<Arc<Vec<Listed>>> {
        if let Some(list) = self.lock().list(part, grain) {
            return Ok(list);
        }
        let list = Arc::new(self.archive.list(part, grain)?);
        self.lock().keep((part, grain), &list);
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
        let sums = Arc::new(PartSums::new(&self.archive.list(part, Grain::Profile)?));
        self.lock().sums.insert(part, Arc::clone(&sums));
        Ok(sums)
    }

    /// The nodes of a name in the newest part that has it, of the newest 64 of a time.
    ///
    /// # Errors
    /// The storage's. A part that cannot be read is left out.
    pub fn nodes_named(&self, name: &str, from: Nanos, to: Nanos) -> Result<NamedNodes> {
        let PartsOfTime { mut parts, rolled, left_out } = self.parts_between(from, to)?;
        parts.sort_by_key(|part| std::cmp::Reverse(part.end()));
        let mut found = NamedNodes { ids: BTreeSet::new(), left_out };
        for part in parts.iter().copied().take(NAMED_PARTS) {
            let grain = if rolled.contains(&part) { Grain::Hour } else { Grain::Profile };
            match self.node_names(part, grain) {
                Ok(names) => found.ids.extend(names.iter().filter(|(own, _)| own == name).map(|(_, id)| *id)),
                Err(error) => found.left_out.push(format!("a part of the archive cannot be read: {}", chain(&error))),
            }
            if !found.ids.is_empty() {
                return Ok(found);
            }
        }
        if parts.len() > NAMED_PARTS {
            let text = format!("only the newest {NAMED_PARTS} of {} parts of the archive were searched", parts.len());
            found.left_out.push(text);
        }
        Ok(found)
    }

    fn node_names(&self, part: Part, grain: Grain) -> Result<Arc<NodeNames>> {
        if let Some(names) = self.lock().nodes.get(&part) {
            return Ok(Arc::clone(names));
        }
        let names = Arc::new(self.archive.node_names(part, grain)?);
        self.lock().nodes.insert(part, Arc::clone(&names));
        Ok(names)
    }

    /// Notes that a file of a part is at fault: sums leave its profiles out from now on, and say so.
    pub(crate) fn set_broken(&self, part: Part, why: String) {
        tracing::warn!("archive: {why}");
        self.lock().broken.insert(part, why);
    }

    /// Why a part is left out of sums, if it is.
    pub(crate) fn why_broken(&self, part: Part) -> Option<String> {
        self.lock().broken.get(&part).cloned()
    }

    fn lock(&self) -> MutexGuard<'_, Known> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Known {
    fn list(&mut self, part: Part, grain: Grain) -> Option<Arc<Vec<Listed>>> {
        self.clock += 1;
        let (used, list) = self.lists.get_mut(&(part, grain))?;
        *used = self.clock;
        Some(Arc::clone(list))
    }

    /// Keeps the profiles of a part, or its hours; those that were not used for longest make room.
    fn keep(&mut self, part: (Part, Grain), list: &Arc<Vec<Listed>>) {
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
