//! Sums of all profiles of nodes and a type in a range, wherever they are: the archive's from there, and those that it
//! does not have from the store and from the other servers of the archive. A profile that several have is summed once,
//! by its id. Whole hours of nodes are summed by their roll-ups, where the archive has these.

use std::borrow::Cow;
use std::cell::Cell;
use std::collections::{BTreeMap, HashSet};
use std::sync::{Arc, OnceLock};

use procprof_archive::{Grain, Header, Hour, Identity, Listed, Numbered, Part, ProfileSum, ReadLimits, Selection};
use procprof_profile::format::{Limits, decode};
use procprof_profile::{Nanos, Profile, ProfileId, ProfileType};
use procprof_store::{Entry, Filter, Format, PAGE_MAX, PageRequest, Store};

use super::RenderError;
use super::subject::decoded;
use crate::archiving::{KnownParts, PartsOfTime, StoredDays, identity};
use crate::clock::now;
use crate::error::chain;
use crate::servers::Servers;
use crate::servers::hot::{self, Elsewhere, FILES_BYTES_MAX, FILES_MAX, HotQuestion};

/// Most profiles of a range that are not in the archive.
const STORED_MAX: usize = 5000;
/// Most profiles of a range that are not rolled up.
const PROFILES_MAX: usize = 1 << 20;

/// Profiles of nodes and a type that were complete from a moment to before another one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ProfileRange {
    /// The nodes; none for all.
    pub nodes: Vec<u64>,
    /// Labels that a profile's node had, all of them.
    pub labels: Vec<(String, String)>,
    /// The type.
    pub profile_type: ProfileType,
    /// The first moment.
    pub from: Nanos,
    /// The moment after the last.
    pub to: Nanos,
}

/// What there is of a range, and where.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Coverage {
    /// Profiles that are taken from the archive.
    pub archived: u64,
    /// Profiles that the store has and the archive has not.
    pub stored: u64,
    /// Profiles that only other servers have.
    pub elsewhere: u64,
    /// Other servers that did not tell what they have, with the reasons.
    pub silent: Vec<String>,
    /// The time that all of them took.
    pub duration: Nanos,
    /// Those whose time is not known.
    pub untimed: u64,
    /// When the first was complete, and the last.
    pub found: Option<(Nanos, Nanos)>,
    /// Those of the archive that the store has, too.
    pub in_both: u64,
    /// Hours of the range that have begun, in UTC.
    pub hours: u64,
    /// Those in which no profile was complete.
    pub empty_hours: u64,
    /// Files that cannot be read, with the reasons: those of the archive, of whose profiles there are the ones that the
    /// store has, and those of stored profiles.
    pub unreadable: Vec<String>,
}

impl Coverage {
    fn measured(&mut self, duration: Nanos) {
        self.duration = sum(self.duration, duration);
        self.untimed += u64::from(duration.0 <= 0);
    }

    /// All profiles.
    pub fn profiles(&self) -> u64 {
        self.archived + self.stored + self.elsewhere
    }
}

/// The profiles of a range, found and not yet added up.
#[derive(Clone, Debug)]
pub struct RangeSum {
    range: ProfileRange,
    /// `None` without an archive.
    known: Option<Arc<KnownParts>>,
    parts: Vec<(Part, Grain)>,
    /// Profiles that an earlier part has, too.
    repeated: HashSet<(Part, i64)>,
    /// The number of profiles of parts that are summed one by one.
    single: usize,
    stored: Vec<Entry>,
    /// URLs of other servers, with what only they have.
    elsewhere: Vec<(String, Vec<hot::Found>)>,
    servers: Option<Arc<Servers>>,
    coverage: Coverage,
    /// The coverage at the time when they were added up, if files have turned out to be unreadable.
    loaded: Arc<OnceLock<Coverage>>,
}

/// Reasons why a sum ended that another attempt may complete.
#[derive(Default)]
struct Setbacks {
    /// A compaction has replaced files.
    has_vanished: Cell<bool>,
    /// Files turned out to be unreadable; the next attempt leaves them out.
    has_unreadable: Cell<bool>,
}

impl RangeSum {
    /// Finds the profiles of a range; `elsewhere` is what other servers have said before.
    ///
    /// # Errors
    /// [`RenderError::Question`] for more than can be summed; when store or archive cannot be read.
    pub(super) fn find(
        store: &Store,
        known: Option<Arc<KnownParts>>,
        range: ProfileRange,
        servers: Option<Arc<Servers>>,
        elsewhere: Vec<Elsewhere>,
    ) -> Result<RangeSum, RenderError> {
        if let Some(known) = known.as_ref().filter(|_| !elsewhere.is_empty()) {
            // What they have archived since is in parts that are younger than the last listing.
            known.changed();
        }
        let mut found = RangeSum {
            range,
            known,
            parts: Vec::new(),
            repeated: HashSet::new(),
            single: 0,
            stored: Vec::new(),
            elsewhere: Vec::new(),
            servers,
            coverage: Coverage::default(),
            loaded: Arc::default(),
        };
        // Once more when files vanish meanwhile, since a compaction has replaced them.
        if found.find_listed(store, &elsewhere)?
            && let Some(known) = found.known.clone()
        {
            known.changed();
            found.forget();
            found.find_listed(store, &elsewhere)?;
        }
        Ok(found)
    }

    fn forget(&mut self) {
        self.parts.clear();
        self.repeated.clear();
        self.single = 0;
        self.stored.clear();
        self.elsewhere.clear();
        self.coverage = Coverage::default();
    }

    /// Finds the profiles, day by day, in the parts that are listed and wherever else they are; whether one of the
    /// parts is not there any more.
    fn find_listed(&mut self, store: &Store, elsewhere: &[Elsewhere]) -> Result<bool, RenderError> {
        let mut days = self.days(elsewhere);
        let (mut times, mut has_vanished) = (Times::default(), false);
        let mut stored = StoredDays::new(store, self.range.filter())?;
        loop {
            let next = [days.keys().next().copied(), stored.day()?].into_iter().flatten().min();
            let Some(next) = next else { break };
            let day = Day { stored: stored.of_day(next)?, ..days.remove(&next).unwrap_or_default() };
            has_vanished |= self.find_day(store, day, &mut times)?;
        }
        self.coverage.found = times.found;
        let end = self.range.to.min(now());
        if self.range.from < end {
            let last = Hour::containing(Nanos(end.0 - 1));
            self.coverage.hours = (last.0 - Hour::containing(self.range.from).0 + 1).unsigned_abs();
            self.coverage.empty_hours = self.coverage.hours.saturating_sub(times.hours.len() as u64);
        }
        Ok(has_vanished)
    }

    /// The days with parts of the archive, or profiles of other servers, and these.
    fn days(&mut self, elsewhere: &[Elsewhere]) -> BTreeMap<Hour, Day> {
        let mut days: BTreeMap<Hour, Day> = BTreeMap::new();
        if let Some(known) = &self.known {
            let PartsOfTime { parts, rolled, left_out } = parts_between(known, &self.range);
            self.coverage.unreadable.extend(left_out);
            for part in parts {
                match known.why_broken(part) {
                    Some(why) => self.coverage.unreadable.push(why),
                    None => {
                        let grain = if rolled.contains(&part) { Grain::Hour } else { Grain::Profile };
                        days.entry(part.hour.day()).or_default().parts.push((grain, part));
                    }
                }
            }
        }
        for Elsewhere { url, profiles } in elsewhere {
            let place = self.elsewhere.len();
            self.elsewhere.push((url.clone(), Vec::new()));
            match profiles {
                Ok(profiles) => {
                    for profile in profiles.iter().filter(|profile| self.range.has(profile)) {
                        let day = days.entry(Hour::containing(profile.completed).day()).or_default();
                        day.elsewhere.push((place, profile.clone()));
                    }
                }
                Err(why) => self.coverage.silent.push(format!("{url}: {why}")),
            }
        }
        days
    }

    /// Finds the profiles of a day; whether one of its parts is not there any more.
    fn find_day(&mut self, store: &Store, day: Day, times: &mut Times) -> Result<bool, RenderError> {
        let Day { mut parts, stored, elsewhere } = day;
        // Those that are rolled up have no profile twice: their ids are needed only where others may have the same.
        parts.sort_by_key(|(grain, part)| (*grain == Grain::Profile, *part));
        let has_others = !stored.is_empty() || !elsewhere.is_empty() || parts.iter().any(|one| one.0 == Grain::Profile);
        let (mut seen, mut has_vanished) = (HashSet::new(), false);
        for (grain, part) in parts {
            match self.find_in_part(part, grain, has_others, &mut seen, times) {
                Ok(()) => {}
                Err(error) => {
                    has_vanished |= error.is_of_vanished_file();
                    self.coverage.unreadable.push(chain(&error));
                }
            }
            check_count("profiles that are not rolled up", self.single, PROFILES_MAX)?;
        }
        self.find_stored(store, &stored, &mut seen, times)?;
        for (place, profile) in elsewhere {
            if seen.insert(profile.id) {
                self.coverage.elsewhere += 1;
                self.coverage.measured(profile.duration);
                times.add(profile.completed);
                self.elsewhere[place].1.push(profile);
            }
        }
        let count = self.elsewhere.iter().map(|(_, profiles)| profiles.len()).sum();
        check_count("profiles that are not archived yet", count, STORED_MAX)?;
        Ok(has_vanished)
    }

    /// Finds the profiles of a part: of one that is rolled up the whole hours, and the profiles of others.
    fn find_in_part(
        &mut self,
        part: Part,
        grain: Grain,
        has_others: bool,
        seen: &mut HashSet<ProfileId>,
        times: &mut Times,
    ) -> crate::Result<()> {
        let Some(known) = self.known.clone() else { return Ok(()) };
        let is_rolled = grain == Grain::Hour;
        let hours = if is_rolled { self.range.found_in(&known, part, Grain::Hour)? } else { Vec::new() };
        let has_profiles = !is_rolled || has_others || self.range.cuts_hour_of(&part);
        let profiles = if has_profiles { self.range.found_in(&known, part, Grain::Profile)? } else { Vec::new() };
        for hour in &hours {
            self.coverage.archived += hour.profiles;
            self.coverage.duration = sum(self.coverage.duration, hour.duration);
            self.coverage.untimed += hour.untimed;
            times.add(hour.first);
            times.add(hour.completed);
        }
        if !hours.is_empty() {
            self.parts.push((part, Grain::Hour));
        }
        let mut has_some = false;
        for profile in profiles {
            let is_new = seen.insert(profile.id);
            if is_rolled && self.range.has_hour_of(profile.completed) {
                continue;
            }
            if !is_new {
                self.repeated.insert((part, profile.number));
                continue;
            }
            has_some = true;
            self.single += 1;
            self.coverage.archived += 1;
            self.coverage.measured(profile.duration);
            times.add(profile.completed);
        }
        if has_some {
            self.parts.push((part, Grain::Profile));
        }
        Ok(())
    }

    fn find_stored(
        &mut self,
        store: &Store,
        ids: &[ProfileId],
        seen: &mut HashSet<ProfileId>,
        times: &mut Times,
    ) -> Result<(), RenderError> {
        for id in ids {
            if seen.contains(id) {
                self.coverage.in_both += 1;
                continue;
            }
            if let Some(why) = store.why_damaged(*id) {
                self.coverage.unreadable.push(why);
                continue;
            }
            let entry = match store.get(*id) {
                Ok(entry) => entry,
                // Deleted meanwhile.
                Err(procprof_store::Error::NotFound { .. }) => continue,
                Err(error) => return Err(error.into()),
            };
            if entry.format == Format::Pprof {
                seen.insert(*id);
                self.coverage.stored += 1;
                self.coverage.measured(entry.duration);
                times.add(entry.completed);
                self.stored.push(entry);
            }
            check_count("profiles that are not archived yet", self.stored.len(), STORED_MAX)?;
        }
        Ok(())
    }

    /// The number of profiles and their places; once they are added up, as it was then.
    pub fn coverage(&self) -> &Coverage {
        self.loaded.get().unwrap_or(&self.coverage)
    }

    /// The text that is another one for other profiles.
    pub(super) fn key(&self) -> String {
        let ProfileRange { nodes, labels, profile_type, from, to } = &self.range;
        let mut key = format!("{nodes:?} {labels:?} {profile_type} {} {};", from.0, to.0);
        for (part, grain) in &self.parts {
            key.push_str(&format!("{grain:?} {};", part.name()));
        }
        for entry in &self.stored {
            key.push_str(&format!("{} {};", entry.id, entry.bytes));
        }
        for profile in self.elsewhere.iter().flat_map(|(_, profiles)| profiles) {
            key.push_str(&format!("{} {};", profile.id, profile.bytes));
        }
        key
    }

    /// Adds them up. When files vanish meanwhile, since a compaction has replaced them, the profiles are found anew,
    /// once; when files turn out to be unreadable, without these, until there is none.
    pub(super) fn load(
        &self,
        store: &Store,
        go_on: &dyn Fn() -> Result<(), RenderError>,
    ) -> Result<Profile, RenderError> {
        let (mut found, mut vanishes) = (Cow::Borrowed(self), 1);
        loop {
            let setbacks = Setbacks::default();
            let loaded = found.load_found(store, go_on, &setbacks);
            let is_vanished = setbacks.has_vanished.get() && vanishes > 0;
            if loaded.is_ok() || !(is_vanished || setbacks.has_unreadable.get()) {
                if let Cow::Owned(found) = found {
                    // Another report of the same may have said so before.
                    let _ = self.loaded.set(found.coverage);
                }
                return loaded;
            }
            go_on()?;
            if let Some(known) = self.known.as_ref().filter(|_| is_vanished) {
                known.changed();
                vanishes -= 1;
            }
            found = Cow::Owned(self.found_anew(store)?);
        }
    }

    /// The same range, found once more: what was archived meanwhile is summed once.
    fn found_anew(&self, store: &Store) -> Result<RangeSum, RenderError> {
        let others = self.elsewhere.iter().cloned();
        let elsewhere = others.map(|(url, profiles)| Elsewhere { url, profiles: Ok(profiles) }).collect();
        let (range, known, servers) = (self.range.clone(), self.known.clone(), self.servers.clone());
        let mut found = RangeSum::find(store, known, range, servers, elsewhere)?;
        found.coverage.silent.clone_from(&self.coverage.silent);
        Ok(found)
    }

    fn load_found(
        &self,
        store: &Store,
        go_on: &dyn Fn() -> Result<(), RenderError>,
        setbacks: &Setbacks,
    ) -> Result<Profile, RenderError> {
        let is_stopped = || go_on().is_err();
        let failed = |error: procprof_archive::Error| {
            if error.is_not_found() {
                setbacks.has_vanished.set(true);
            }
            match (error, &self.known) {
                (procprof_archive::Error::Part { part, source }, Some(known)) => {
                    let why = chain(&*source);
                    known.set_broken(part, why.clone());
                    setbacks.has_unreadable.set(true);
                    RenderError::Unavailable(format!("archive: {why}"))
                }
                (error, _) => archive_failed(error, go_on),
            }
        };
        let archive = self.known.as_ref().map(|known| &known.archive);
        let limits = archive.map_or_else(ReadLimits::default, |archive| archive.limits());
        let mut sum = ProfileSum::new(limits, &is_stopped);
        let selection = self.range.selection();
        if let Some(archive) = archive {
            let rolled: HashSet<Part> =
                self.parts.iter().filter(|(_, grain)| *grain == Grain::Hour).map(|(part, _)| *part).collect();
            let headers = |part: Part, grain: Grain| {
                let mut headers: Vec<Numbered> = archive.headers_of(part, grain, &selection)?;
                let is_wanted = |number: i64, header: &Header| {
                    let is_single = || {
                        let is_in_hour = rolled.contains(&part) && self.range.has_hour_of(header.identity.completed);
                        !is_in_hour && !self.repeated.contains(&(part, number))
                    };
                    self.range.has_labels(header) && (grain == Grain::Hour || is_single())
                };
                headers.retain(|(number, header)| is_wanted(*number, header));
                Ok(headers)
            };
            sum.add_parts(archive, &self.parts, &headers).map_err(failed)?;
        }
        let mut failure = None;
        for entry in &self.stored {
            go_on()?;
            match decoded(store, entry) {
                Ok(profile) if failure.is_none() => sum.add(identity(entry), profile).map_err(failed)?,
                // All that can't be read are found in one attempt.
                Ok(_) => {}
                Err(error) => {
                    setbacks.has_unreadable.set(true);
                    failure = failure.or(Some(error));
                }
            }
        }
        if let Some(failure) = failure {
            return Err(failure);
        }
        for (url, profiles) in &self.elsewhere {
            for some in chunks(profiles) {
                go_on()?;
                for (found, profile) in self.fetch(url, some)? {
                    go_on()?;
                    sum.add(self.identity(found), profile).map_err(failed)?;
                }
            }
        }
        let merged = sum.finish().map_err(failed)?;
        let merged = merged.ok_or_else(|| RenderError::Question("there is no profile to show".to_owned()))?;
        Ok(merged.profile)
    }
}

impl RangeSum {
    /// Profiles of another server.
    fn fetch<'a>(&self, url: &str, profiles: &'a [hot::Found]) -> Result<Vec<(&'a hot::Found, Profile)>, RenderError> {
        let failed = |why: String| RenderError::Unavailable(format!("{url}: {why}"));
        let servers = self.servers.as_ref().ok_or_else(super::failed)?;
        let files = servers.files_blocking(url, profiles).map_err(failed)?;
        let mut fetched = Vec::with_capacity(profiles.len());
        for profile in profiles {
            let file = files.get(&profile.id);
            let file = file.ok_or_else(|| failed(format!("profile {} is gone; try again", profile.id)))?;
            let decoded = decode(file, &Limits::default());
            let decoded = decoded.map_err(|error| failed(format!("profile {}: {error}", profile.id)))?;
            fetched.push((profile, decoded.profile));
        }
        Ok(fetched)
    }

    fn identity(&self, found: &hot::Found) -> Identity {
        let hot::Found { id, node, start, duration, completed, .. } = *found;
        Identity { id, node, profile_type: self.range.profile_type.clone(), start, duration, completed }
    }
}

/// Profiles in pieces that one answer holds.
fn chunks(mut profiles: &[hot::Found]) -> impl Iterator<Item = &[hot::Found]> {
    std::iter::from_fn(move || {
        let mut bytes = 0;
        let fits = |profile: &&hot::Found| {
            let fits = bytes < FILES_BYTES_MAX;
            bytes = bytes.saturating_add(profile.bytes);
            fits
        };
        let count = profiles.iter().take(FILES_MAX).take_while(fits).count();
        let (piece, rest) = profiles.split_at(count);
        profiles = rest;
        (!piece.is_empty()).then_some(piece)
    })
}

impl ProfileRange {
    /// What other servers are asked.
    pub(super) fn question(&self) -> HotQuestion {
        let ProfileRange { nodes, labels, profile_type, from, to } = self.clone();
        HotQuestion { nodes, labels, profile_type: profile_type.to_string(), from: from.0, to: to.0 }
    }

    /// The filter of the store.
    pub fn filter(&self) -> Filter {
        Filter {
            nodes: self.nodes.clone(),
            types: vec![self.profile_type.clone()],
            from: Some(self.from),
            to: Some(self.to),
            labels: self.labels.clone(),
            ..Filter::default()
        }
    }

    /// The profiles in a part of an archive, or its whole hours.
    fn found_in(&self, known: &KnownParts, part: Part, grain: Grain) -> crate::Result<Vec<Listed>> {
        let is_wanted = |profile: &&Listed| {
            let is_whole = grain == Grain::Profile || self.has_hour_of(profile.completed);
            (self.nodes.is_empty() || self.nodes.contains(&profile.node))
                && profile.profile_type == self.profile_type
                && profile.completed >= self.from
                && profile.completed < self.to
                && is_whole
        };
        let mut found: Vec<Listed> = known.list(part, grain)?.iter().filter(is_wanted).cloned().collect();
        if !self.labels.is_empty() && !found.is_empty() {
            // Lists have no labels.
            let headers = known.archive.headers_of(part, grain, &self.selection())?;
            let with_labels = headers.iter().filter(|(_, header)| self.has_labels(header)).map(|(number, _)| *number);
            let with_labels: HashSet<i64> = with_labels.collect();
            found.retain(|profile| with_labels.contains(&profile.number));
        }
        Ok(found)
    }

    /// Whether all of the hour of a moment is in the range.
    pub(super) fn has_hour_of(&self, moment: Nanos) -> bool {
        let hour = Hour::containing(moment);
        self.from <= hour.start() && hour.end() <= self.to
    }

    /// Whether an end of the range is within an hour of a part.
    pub(super) fn cuts_hour_of(&self, part: &Part) -> bool {
        let is_within = |edge: &Nanos| part.start() < *edge && *edge < part.end();
        [self.from, self.to].iter().any(|edge| is_within(edge) && Hour::containing(*edge).start() != *edge)
    }

    /// Whether a profile that another server gave is one of them.
    pub(super) fn has(&self, profile: &hot::Found) -> bool {
        (self.nodes.is_empty() || self.nodes.contains(&profile.node))
            && profile.completed >= self.from
            && profile.completed < self.to
    }

    /// Whether the node of an archived profile had the labels.
    pub(super) fn has_labels(&self, header: &Header) -> bool {
        self.labels.iter().all(|(key, value)| header.meta.labels.get(key) == Some(value))
    }

    pub(super) fn selection(&self) -> Selection {
        Selection {
            from: Some(self.from),
            to: Some(self.to),
            types: vec![self.profile_type.clone()],
            nodes: self.nodes.iter().map(u64::to_string).collect(),
            ids: Vec::new(),
        }
    }
}

/// Where the profiles of a day are.
#[derive(Default)]
struct Day {
    /// Parts of the archive, and whether they are rolled up.
    parts: Vec<(Grain, Part)>,
    /// Profiles of the store.
    stored: Vec<ProfileId>,
    /// Profiles of other servers, and the places of these.
    elsewhere: Vec<(usize, hot::Found)>,
}

/// The parts of an archive that may have profiles of a range; if they cannot be listed none, and the reason.
pub(super) fn parts_between(known: &KnownParts, range: &ProfileRange) -> PartsOfTime {
    let failed = |error| PartsOfTime { left_out: vec![chain(&error)], ..PartsOfTime::default() };
    known.parts_between(range.from, range.to).unwrap_or_else(failed)
}

/// Why profiles of an archive can't be added up.
pub(super) fn archive_failed(
    error: procprof_archive::Error,
    go_on: &dyn Fn() -> Result<(), RenderError>,
) -> RenderError {
    match error {
        procprof_archive::Error::Stopped => go_on().err().unwrap_or_else(super::failed),
        procprof_archive::Error::Incompatible { .. } => RenderError::Question(error.to_string()),
        procprof_archive::Error::TooLarge { .. } => {
            RenderError::Question(format!("{}; choose a shorter range or fewer nodes", chain(&error)))
        }
        procprof_archive::Error::Bucket { .. } => RenderError::Unavailable(format!("archive: {}", chain(&error))),
        error => RenderError::Internal(format!("archive: {}", chain(&error))),
    }
}

/// The profiles of a range that the store has, oldest first; not many more than `most`.
///
/// # Errors
/// The store's.
pub fn stored_in_range(store: &Store, range: &ProfileRange, most: usize) -> procprof_store::Result<Vec<Entry>> {
    let (filter, mut request) = (range.filter(), PageRequest::first(PAGE_MAX));
    let mut entries = Vec::new();
    loop {
        let page = store.list(&filter, &request)?;
        entries.extend(page.rows.into_iter().filter(|entry| entry.format == Format::Pprof));
        match page.next {
            Some(next) if entries.len() <= most => request = PageRequest::after(PAGE_MAX, next),
            _ => break,
        }
    }
    entries.reverse();
    Ok(entries)
}

/// The times of profiles.
#[derive(Default)]
struct Times {
    found: Option<(Nanos, Nanos)>,
    hours: HashSet<Hour>,
}

impl Times {
    fn add(&mut self, time: Nanos) {
        let (first, last) = self.found.unwrap_or((time, time));
        self.found = Some((first.min(time), last.max(time)));
        self.hours.insert(Hour::containing(time));
    }
}

fn sum(one: Nanos, other: Nanos) -> Nanos {
    Nanos(one.0.saturating_add(other.0))
}

pub(super) fn check_count(what: &str, count: usize, most: usize) -> Result<(), RenderError> {
    if count <= most {
        return Ok(());
    }
    Err(RenderError::Question(format!(
        "the range has more than {most} {what}, which is the most that is summed; choose a shorter range or fewer nodes"
    )))
}
