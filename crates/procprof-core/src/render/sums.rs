//! Ranges added up at once, for those who want numbers and no report: sums of profiles, and headers of archived ones.

use std::collections::{BTreeMap, HashSet};
use std::sync::Arc;
use std::time::Duration;

use procprof_archive::{Archive, Grain, Header, Hour, Numbered, Part, ProfileSum};
use procprof_profile::{Nanos, Profile, ProfileId};
use procprof_store::{FunctionTable, Total};
use tokio::sync::{OwnedSemaphorePermit, TryAcquireError};

use super::range::{Coverage, ProfileRange, RangeSum, archive_failed, check_count, parts_between, stored_in_range};
use super::subject::{self, SUMMED_BYTES_MAX, SUMMED_MAX, Sum};
use super::{RenderError, Renderer};
use crate::archiving::{KnownParts, NamedNodes, PartsOfTime};
use crate::error::chain;
use crate::ingest::functions;
use crate::servers::hot::{self, Elsewhere};

/// Most profiles of a range that only the archive has.
const ARCHIVED_MAX: usize = 1 << 17;
/// How long after it found no slot a sum looks for one again.
const SLOT_AGAIN: Duration = Duration::from_millis(10);

/// A range added up.
#[derive(Debug)]
pub struct SummedRange {
    /// The sum; `None` for no profiles.
    pub profile: Option<Profile>,
    /// How much there was, and where. The store's files are read where it has all of few profiles; then none is of the
    /// archive.
    pub coverage: Coverage,
}

/// What is known of a profile beside its samples.
#[derive(Clone, Debug)]
pub struct RangeProfile {
    /// Which profile it is.
    pub id: ProfileId,
    /// When it was complete.
    pub completed: Nanos,
    /// How long it took.
    pub duration: Nanos,
    /// The name of its node.
    pub node_name: String,
    /// The cluster of its node.
    pub cluster: String,
    /// The labels of its node.
    pub labels: BTreeMap<String, String>,
    /// The sum of each sample type.
    pub totals: Vec<Total>,
    /// The sample type that is shown first.
    pub shown: String,
    /// How many profiles these are: one, but for an hour of a node, which has no id.
    pub profiles: u64,
}

impl From<Header> for RangeProfile {
    fn from(header: Header) -> RangeProfile {
        let Header { identity, meta, totals, shown_kind, profiles, .. } = header;
        let totals = totals.into_iter().map(|total| Total { kind: total.kind, unit: total.unit, value: total.value });
        RangeProfile {
            id: identity.id,
            completed: identity.completed,
            duration: identity.duration,
            node_name: meta.node_name,
            cluster: meta.cluster,
            labels: meta.labels,
            totals: totals.collect(),
            shown: shown_kind,
            profiles,
        }
    }
}

impl From<hot::Found> for RangeProfile {
    fn from(found: hot::Found) -> RangeProfile {
        let hot::Found { id, completed, duration, node_name, cluster, labels, totals, shown, .. } = found;
        RangeProfile { id, completed, duration, node_name, cluster, labels, totals, shown, profiles: 1 }
    }
}

/// The profiles of a range that the archive has, or other servers have.
#[derive(Debug, Default)]
pub struct RangeProfiles {
    /// Each profile once.
    pub profiles: Vec<RangeProfile>,
    /// Files that cannot be read or servers that do not answer, with the reasons.
    pub missing: Vec<String>,
}

/// Profiles that are not wanted from the archive, since others have them, too.
#[derive(Debug, Default)]
pub struct KnownProfiles {
    ids: HashSet<ProfileId>,
    /// Days of profiles that archived ones are compared with.
    days: HashSet<Hour>,
}

impl KnownProfiles {
    /// Adds a profile, and when it was complete.
    pub fn insert(&mut self, id: ProfileId, completed: Nanos) {
        self.ids.insert(id);
        self.compare(completed);
    }

    /// Has the archived profiles of the day of a moment given one by one.
    pub fn compare(&mut self, completed: Nanos) {
        self.days.insert(Hour::containing(completed).day());
    }

    /// Whether a profile is among them.
    pub fn contains(&self, id: ProfileId) -> bool {
        self.ids.contains(&id)
    }
}

/// How archived profiles are told apart when their functions are added up.
pub struct Grouping<'a> {
    /// The group of a moment at which a profile was complete.
    pub group: &'a dyn Fn(Nanos) -> u32,
    /// Whether all moments of an hour are of the same group, so that a node's hour may take the place of its profiles.
    pub grain: Grain,
    /// Most groups of all parts together.
    pub most: usize,
}

/// What was read of the functions of archived profiles.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum FunctionsRead {
    /// All, but for files that cannot be read, with the reasons.
    All(Vec<String>),
    /// Nothing, as there are more groups than may be.
    None,
    /// Some, which do not count: a compaction has replaced files meanwhile. The next attempt finds the new ones.
    Vanished,
}

impl Renderer {
    /// Adds up the profiles of a range: those of the store, if it has all and they are few, since their files have
    /// everything; else those of the archive, and what only the store and other servers have. Blocks, and waits for a
    /// slot of reports.
    ///
    /// # Errors
    /// Those of `go_on`, which is asked again and again; [`RenderError::Question`] for more than can be summed.
    pub fn sum_range(
        &self,
        range: &ProfileRange,
        go_on: &dyn Fn() -> Result<(), RenderError>,
    ) -> Result<SummedRange, RenderError> {
        let _slot = self.slot(go_on)?;
        let servers = self.servers.clone().filter(|_| self.archive.is_some());
        let elsewhere = servers.as_ref().map(|servers| servers.elsewhere_blocking(range.question()));
        let elsewhere = elsewhere.unwrap_or_default();
        let found = RangeSum::find(&self.store, self.archive.clone(), range.clone(), servers, elsewhere)?;
        self.sum_found(&found, range, go_on)
    }

    fn sum_found(
        &self,
        found: &RangeSum,
        range: &ProfileRange,
        go_on: &dyn Fn() -> Result<(), RenderError>,
    ) -> Result<SummedRange, RenderError> {
        let mut coverage = found.coverage().clone();
        if coverage.profiles() == 0 {
            return Ok(SummedRange { profile: None, coverage });
        }
        let is_here = coverage.in_both == coverage.archived && coverage.elsewhere == 0;
        let has_all = is_here && coverage.unreadable.is_empty();
        if has_all && coverage.profiles() <= SUMMED_MAX as u64 {
            let entries = stored_in_range(&self.store, range, SUMMED_MAX)?;
            let bytes = entries.iter().map(|entry| entry.bytes).sum::<u64>();
            if entries.len() as u64 == coverage.profiles() && bytes <= SUMMED_BYTES_MAX {
                let Sum { profile, unreadable } = subject::sum(&self.store, &entries, go_on)?;
                if unreadable.is_empty() {
                    (coverage.stored, coverage.archived) = (entries.len() as u64, 0);
                    return Ok(SummedRange { profile: Some(profile), coverage });
                }
                // The archive may have them.
            }
        }
        let profile = found.load(&self.store, go_on)?;
        Ok(SummedRange { profile: Some(profile), coverage: found.coverage().clone() })
    }

    /// Waits for a slot of reports.
    fn slot(&self, go_on: &dyn Fn() -> Result<(), RenderError>) -> Result<OwnedSemaphorePermit, RenderError> {
        loop {
            match Arc::clone(&self.turns.slots).try_acquire_owned() {
                Ok(slot) => return Ok(slot),
                Err(TryAcquireError::Closed) => return Err(RenderError::Stopping),
                Err(TryAcquireError::NoPermits) => {
                    go_on()?;
                    std::thread::sleep(SLOT_AGAIN);
                }
            }
        }
    }

    /// Whether there is an archive.
    pub fn has_archive(&self) -> bool {
        self.archive.is_some()
    }

    /// The nodes of a name that only the archive or other servers know, by their profiles in the range, of whatever
    /// nodes it is: of the newest 64 parts of the archive, else of what other servers have not archived yet. Blocks.
    ///
    /// # Errors
    /// When the archive cannot be listed.
    pub fn nodes_named(&self, name: &str, range: &ProfileRange) -> Result<NamedNodes, RenderError> {
        let Some(archive) = &self.archive else { return Ok(NamedNodes::default()) };
        let found = archive.nodes_named(name, range.from, range.to);
        let mut found = found.map_err(|error| RenderError::Unavailable(format!("archive: {}", chain(&error))))?;
        let Some(servers) = self.servers.as_ref().filter(|_| found.ids.is_empty()) else { return Ok(found) };
        let everywhere = ProfileRange { nodes: Vec::new(), ..range.clone() };
        for Elsewhere { url, profiles } in servers.elsewhere_blocking(everywhere.question()) {
            match profiles {
                Ok(profiles) => {
                    let named = profiles.into_iter().filter(|profile| profile.node_name == name);
                    found.ids.extend(named.map(|profile| profile.node));
                }
                Err(why) => found.left_out.push(format!("another server cannot be asked: {url}: {why}")),
            }
        }
        Ok(found)
    }

    /// The profiles of a range that the archive has, without those that are `known`; with [`Grain::Hour`], hours of
    /// nodes in the place of their profiles where the archive has these. Blocks.
    ///
    /// # Errors
    /// Those of `go_on`, which is asked for each file; [`RenderError::Question`] for too many profiles.
    pub fn archived_profiles(
        &self,
        range: &ProfileRange,
        known: &KnownProfiles,
        grain: Grain,
        go_on: &dyn Fn() -> Result<(), RenderError>,
    ) -> Result<RangeProfiles, RenderError> {
        let Some(archive) = &self.archive else { return Ok(RangeProfiles::default()) };
        let (found, has_vanished) = listed_profiles(archive, range, known, grain, go_on)?;
        if !has_vanished {
            return Ok(found);
        }
        archive.changed();
        Ok(listed_profiles(archive, range, known, grain, go_on)?.0)
    }

    /// What functions take in the profiles of a range that the archive has, without those that are `known`, group by
    /// group: `group` gives that of a moment. Their samples are read once for each group in each part of the
    /// archive. Files that cannot be read are those of [`Renderer::archived_profiles`]. Blocks, and waits for a slot of
    /// reports.
    ///
    /// # Errors
    /// Those of `go_on` and `each`; [`RenderError::Question`] for more than can be summed.
    pub fn archived_functions(
        &self,
        range: &ProfileRange,
        known: &KnownProfiles,
        grouping: Grouping<'_>,
        go_on: &dyn Fn() -> Result<(), RenderError>,
        each: &mut dyn FnMut(u32, FunctionTable) -> Result<(), RenderError>,
    ) -> Result<FunctionsRead, RenderError> {
        let Some(parts) = &self.archive else { return Ok(FunctionsRead::All(Vec::new())) };
        let _slot = self.slot(go_on)?;
        let vanished = || {
            parts.changed();
            Ok(FunctionsRead::Vanished)
        };
        let (archive, mut seen) = (&parts.archive, HashSet::new());
        let mut groups: BTreeMap<(Part, Grain, u32), Vec<Numbered>> = BTreeMap::new();
        let (mut unreadable, mut count) = (Vec::new(), 0);
        for (part, grain) in grains(parts, range, known, grouping.grain, &mut Vec::new()) {
            go_on()?;
            if let Some(why) = parts.why_broken(part) {
                unreadable.push(why);
                continue;
            }
            let headers = match headers(archive, range, part, grain) {
                Ok(headers) => headers,
                Err(error) if error.is_not_found() => return vanished(),
                Err(_) => continue,
            };
            for (grain, (number, header)) in headers {
                let id = header.identity.id;
                if grain == Grain::Hour || (!known.contains(id) && seen.insert(id)) {
                    let group = (grouping.group)(header.identity.completed);
                    groups.entry((part, grain, group)).or_default().push((number, header));
                    count += 1;
                }
            }
            check_count("profiles that only the archive has", count, ARCHIVED_MAX)?;
        }
        if groups.len() > grouping.most {
            return Ok(FunctionsRead::None);
        }
        let is_stopped = || go_on().is_err();
        for ((part, grain, group), headers) in groups {
            if parts.why_broken(part).is_some() {
                continue;
            }
            let mut sum = ProfileSum::new(archive.limits(), &is_stopped);
            match sum.add_part(archive, (part, grain), &headers).and_then(|()| sum.finish()) {
                Ok(None) => {}
                Ok(Some(merged)) => each(group, functions(&merged.profile))?,
                Err(error) if error.is_not_found() => return vanished(),
                Err(procprof_archive::Error::Part { part, source }) => {
                    let why = chain(&*source);
                    parts.set_broken(part, why.clone());
                    unreadable.push(why);
                }
                Err(error) => return Err(archive_failed(error, go_on)),
            }
        }
        Ok(FunctionsRead::All(unreadable))
    }

    /// The profiles of a range that other servers have and had not archived when they were asked: to be asked before the
    /// archive is listed, so that no profile is missed that moves meanwhile. Blocks.
    pub fn profiles_elsewhere(&self, range: &ProfileRange) -> RangeProfiles {
        let Some((servers, archive)) = self.servers.as_ref().zip(self.archive.as_ref()) else {
            return RangeProfiles::default();
        };
        let (mut found, mut seen) = (RangeProfiles::default(), HashSet::new());
        let answers = servers.elsewhere_blocking(range.question());
        if !answers.is_empty() {
            archive.changed();
        }
        for Elsewhere { url, profiles } in answers {
            match profiles {
                Ok(profiles) => {
                    let new = profiles.into_iter().filter(|profile| range.has(profile) && seen.insert(profile.id));
                    found.profiles.extend(new.map(RangeProfile::from));
                }
                Err(why) => found.missing.push(format!("{url}: {why}")),
            }
        }
        found
    }
}

/// The profiles in the parts that are listed, or hours in their place, and whether one of these parts is not there any
/// more, since a compaction has replaced it.
fn listed_profiles(
    archive: &KnownParts,
    range: &ProfileRange,
    known: &KnownProfiles,
    grain: Grain,
    go_on: &dyn Fn() -> Result<(), RenderError>,
) -> Result<(RangeProfiles, bool), RenderError> {
    let (mut found, mut has_vanished) = (RangeProfiles::default(), false);
    let mut seen = HashSet::new();
    for (part, grain) in grains(archive, range, known, grain, &mut found.missing) {
        go_on()?;
        let headers = match headers(&archive.archive, range, part, grain) {
            Ok(headers) => headers,
            Err(error) => {
                has_vanished |= error.is_not_found();
                found.missing.push(chain(&error));
                continue;
            }
        };
        for (grain, (_, header)) in headers {
            let id = header.identity.id;
            if grain == Grain::Hour || (!known.contains(id) && seen.insert(id)) {
                found.profiles.push(header.into());
            }
        }
        check_count("profiles that only the archive has", found.profiles.len(), ARCHIVED_MAX)?;
    }
    Ok((found, has_vanished))
}

/// The parts of a range, and whether their hours are read: where these are wanted, and no other part and no known
/// profile is of the same day.
fn grains(
    archive: &KnownParts,
    range: &ProfileRange,
    known: &KnownProfiles,
    wanted: Grain,
    missing: &mut Vec<String>,
) -> Vec<(Part, Grain)> {
    let PartsOfTime { parts, rolled, left_out } = parts_between(archive, range);
    missing.extend(left_out);
    let days = parts.iter().filter(|part| !rolled.contains(part)).map(|part| part.hour.day());
    let days: HashSet<Hour> = days.chain(known.days.iter().copied()).collect();
    let grain = |part: &Part| match rolled.contains(part) && !days.contains(&part.hour.day()) {
        true => wanted,
        false => Grain::Profile,
    };
    parts.iter().map(|part| (*part, grain(part))).collect()
}

/// The profiles of a range in a part; or its hours, with the profiles in hours that the range cuts.
fn headers(
    archive: &Archive,
    range: &ProfileRange,
    part: Part,
    grain: Grain,
) -> procprof_archive::Result<Vec<(Grain, Numbered)>> {
    let selection = range.selection();
    let own = archive.headers_of(part, grain, &selection)?;
    let mut found: Vec<(Grain, Numbered)> = own.into_iter().map(|header| (grain, header)).collect();
    if grain == Grain::Hour && range.cuts_hour_of(&part) {
        let mut cut = archive.headers_of(part, Grain::Profile, &selection)?;
        cut.retain(|(_, header)| !range.has_hour_of(header.identity.completed));
        found.extend(cut.into_iter().map(|header| (Grain::Profile, header)));
    }
    found.retain(|(_, (_, header))| range.has_labels(header));
    Ok(found)
}
