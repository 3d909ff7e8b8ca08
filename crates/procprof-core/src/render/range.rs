//! Sums of all profiles of nodes and a type in a range, wherever they are: the archive's from there, and those that it
//! does not have from the store and from the other servers of the archive. A profile that several have is summed once,
//! by its id.

use std::cell::Cell;
use std::collections::HashSet;
use std::sync::Arc;

use procprof_archive::{Header, Hour, Identity, Listed, Numbered, Part, ProfileSum, ReadLimits, Selection};
use procprof_profile::format::{Limits, decode};
use procprof_profile::{Nanos, Profile, ProfileId, ProfileType};
use procprof_store::{Column, Entry, Filter, Format, Order, PAGE_MAX, PageRequest, RowQuery, Store, Values};

use super::RenderError;
use super::subject::decoded;
use crate::archiving::{KnownParts, identity};
use crate::clock::now;
use crate::error::chain;
use crate::servers::Servers;
use crate::servers::hot::{self, Elsewhere, FILES_BYTES_MAX, FILES_MAX, HotQuestion};

/// Most profiles of a range that are not in the archive.
const STORED_MAX: usize = 5000;
/// Most profiles of a range.
const PROFILES_MAX: usize = 1 << 20;
/// Rows of the store that are read at a time.
const ROWS: usize = 4096;

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
    /// Files of the archive that cannot be read, with the reasons; of their profiles there are those that the store
    /// has.
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
    parts: Vec<Part>,
    /// Profiles that an earlier part has, too.
    repeated: HashSet<(Part, i64)>,
    stored: Vec<Entry>,
    /// URLs of other servers, with what only they have.
    elsewhere: Vec<(String, Vec<hot::Found>)>,
    servers: Option<Arc<Servers>>,
    coverage: Coverage,
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
            stored: Vec::new(),
            elsewhere: Vec::new(),
            servers,
            coverage: Coverage::default(),
        };
        let mut times = Times::default();
        let mut seen = found.find_archived(&mut times)?;
        found.find_stored(store, &mut seen, &mut times)?;
        found.find_elsewhere(elsewhere, seen, &mut times)?;
        found.coverage.found = times.found;
        let end = found.range.to.min(now());
        if found.range.from < end {
            let last = Hour::containing(Nanos(end.0 - 1));
            found.coverage.hours = (last.0 - Hour::containing(found.range.from).0 + 1).unsigned_abs();
            found.coverage.empty_hours = found.coverage.hours.saturating_sub(times.hours.len() as u64);
        }
        Ok(found)
    }

    /// Finds the profiles in the archive; once more when files vanish meanwhile, since a compaction has replaced them.
    fn find_archived(&mut self, times: &mut Times) -> Result<HashSet<ProfileId>, RenderError> {
        let Some(known) = self.known.clone() else { return Ok(HashSet::new()) };
        let (seen, has_vanished) = self.find_listed(&known, times)?;
        if !has_vanished {
            return Ok(seen);
        }
        known.changed();
        (self.coverage, *times) = Default::default();
        self.parts.clear();
        self.repeated.clear();
        Ok(self.find_listed(&known, times)?.0)
    }

    /// Finds the profiles in the parts that are listed, and whether one of these is not there any more.
    fn find_listed(
        &mut self,
        known: &KnownParts,
        times: &mut Times,
    ) -> Result<(HashSet<ProfileId>, bool), RenderError> {
        let (mut seen, mut has_vanished) = (HashSet::new(), false);
        let range = &self.range;
        for part in parts_between(known, range, &mut self.coverage.unreadable) {
            if let Some(why) = known.why_broken(part) {
                self.coverage.unreadable.push(why);
                continue;
            }
            let found = match range.found_in(known, part) {
                Ok(found) => found,
                Err(error) => {
                    has_vanished |= error.is_of_vanished_file();
                    self.coverage.unreadable.push(chain(&error));
                    continue;
                }
            };
            let mut has_some = false;
            for profile in found {
                if !seen.insert(profile.id) {
                    self.repeated.insert((part, profile.number));
                    continue;
                }
                has_some = true;
                self.coverage.archived += 1;
                self.coverage.measured(profile.duration);
                times.add(profile.completed);
            }
            if has_some {
                self.parts.push(part);
            }
            check_count("profiles", seen.len(), PROFILES_MAX)?;
        }
        Ok((seen, has_vanished))
    }

    fn find_stored(
        &mut self,
        store: &Store,
        seen: &mut HashSet<ProfileId>,
        times: &mut Times,
    ) -> Result<(), RenderError> {
        let query = RowQuery { filter: self.range.filter(), columns: vec![Column::Id], order: Order::OldestFirst };
        let mut rows = store.rows(&query)?;
        while let Some(batch) = rows.next(ROWS)? {
            let [Values::Ids(ids)] = &batch.columns[..] else { continue };
            for id in ids {
                if seen.contains(id) {
                    self.coverage.in_both += 1;
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
            }
            check_count("profiles that are not archived yet", self.stored.len(), STORED_MAX)?;
        }
        Ok(())
    }

    fn find_elsewhere(
        &mut self,
        elsewhere: Vec<Elsewhere>,
        mut seen: HashSet<ProfileId>,
        times: &mut Times,
    ) -> Result<(), RenderError> {
        let mut count = 0;
        for Elsewhere { url, profiles } in elsewhere {
            let mut profiles = match profiles {
                Ok(profiles) => profiles,
                Err(why) => {
                    self.coverage.silent.push(format!("{url}: {why}"));
                    continue;
                }
            };
            profiles.retain(|profile| self.range.has(profile) && seen.insert(profile.id));
            count += profiles.len();
            check_count("profiles that are not archived yet", count, STORED_MAX)?;
            for profile in &profiles {
                self.coverage.elsewhere += 1;
                self.coverage.measured(profile.duration);
                times.add(profile.completed);
            }
            if !profiles.is_empty() {
                self.elsewhere.push((url, profiles));
            }
        }
        Ok(())
    }

    /// How much there is, and where.
    pub fn coverage(&self) -> &Coverage {
        &self.coverage
    }

    /// Whether it has parts that have turned out to be unreadable since it was found.
    pub(super) fn has_broken(&self) -> bool {
        self.known.as_ref().is_some_and(|known| self.parts.iter().any(|part| known.why_broken(*part).is_some()))
    }

    /// The text that is another one for other profiles.
    pub(super) fn key(&self) -> String {
        let ProfileRange { nodes, labels, profile_type, from, to } = &self.range;
        let mut key = format!("{nodes:?} {labels:?} {profile_type} {} {};", from.0, to.0);
        for part in &self.parts {
            key.push_str(&part.path(procprof_archive::Table::Profiles));
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
    /// once.
    pub(super) fn load(
        &self,
        store: &Store,
        go_on: &dyn Fn() -> Result<(), RenderError>,
    ) -> Result<Profile, RenderError> {
        let has_vanished = Cell::new(false);
        let loaded = self.load_found(store, go_on, &has_vanished);
        if loaded.is_ok() || !has_vanished.get() {
            return loaded;
        }
        if let Some(known) = &self.known {
            known.changed();
        }
        let mut again =
            RangeSum { parts: Vec::new(), repeated: HashSet::new(), coverage: Coverage::default(), ..self.clone() };
        let seen = again.find_archived(&mut Times::default())?;
        // What was archived meanwhile is summed once.
        again.stored.retain(|entry| !seen.contains(&entry.id));
        again.elsewhere.iter_mut().for_each(|(_, profiles)| profiles.retain(|profile| !seen.contains(&profile.id)));
        again.load_found(store, go_on, &has_vanished)
    }

    fn load_found(
        &self,
        store: &Store,
        go_on: &dyn Fn() -> Result<(), RenderError>,
        has_vanished: &Cell<bool>,
    ) -> Result<Profile, RenderError> {
        let is_stopped = || go_on().is_err();
        let failed = |error: procprof_archive::Error| {
            if error.is_not_found() {
                has_vanished.set(true);
            }
            match (error, &self.known) {
                (procprof_archive::Error::Part { part, source }, Some(known)) => {
                    let why = chain(&*source);
                    known.set_broken(part, why.clone());
                    RenderError::Unavailable(format!("archive: {why}; the next sum leaves this file's profiles out"))
                }
                (error, _) => archive_failed(error, go_on),
            }
        };
        let archive = self.known.as_ref().map(|known| &known.archive);
        let limits = archive.map_or_else(ReadLimits::default, |archive| archive.limits());
        let mut sum = ProfileSum::new(limits, &is_stopped);
        let selection = self.range.selection();
        if let Some(archive) = archive {
            let headers = |part: Part| {
                let mut headers: Vec<Numbered> = archive.headers_of(part, &selection)?;
                let is_wanted = |number: i64, header: &Header| {
                    self.range.has_labels(header) && !self.repeated.contains(&(part, number))
                };
                headers.retain(|(number, header)| is_wanted(*number, header));
                Ok(headers)
            };
            sum.add_parts(archive, &self.parts, &headers).map_err(failed)?;
        }
        for entry in &self.stored {
            go_on()?;
            sum.add(identity(entry), decoded(store, entry)?).map_err(failed)?;
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

    /// The profiles in a part of an archive.
    fn found_in(&self, known: &KnownParts, part: Part) -> crate::Result<Vec<Found>> {
        if !self.labels.is_empty() {
            // Lists have no labels.
            let headers = known.archive.headers_of(part, &self.selection())?;
            let headers = headers.into_iter().filter(|(_, header)| self.has_labels(header));
            return Ok(headers.map(|(number, header)| Found::new(number, &header.identity)).collect());
        }
        let is_wanted = |profile: &&Listed| {
            (self.nodes.is_empty() || self.nodes.contains(&profile.node))
                && profile.profile_type == self.profile_type
                && profile.completed >= self.from
                && profile.completed < self.to
        };
        let found = |profile: &Listed| Found {
            number: profile.number,
            id: profile.id,
            completed: profile.completed,
            duration: profile.duration,
        };
        Ok(known.list(part)?.iter().filter(is_wanted).map(found).collect())
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

/// A profile of a part of an archive.
struct Found {
    number: i64,
    id: ProfileId,
    completed: Nanos,
    duration: Nanos,
}

impl Found {
    fn new(number: i64, identity: &Identity) -> Found {
        Found { number, id: identity.id, completed: identity.completed, duration: identity.duration }
    }
}

/// The parts of an archive that may have profiles of a range; if they cannot be listed none, and the reason.
pub(super) fn parts_between(known: &KnownParts, range: &ProfileRange, unreadable: &mut Vec<String>) -> Vec<Part> {
    known.parts_between(range.from, range.to).unwrap_or_else(|error| {
        unreadable.push(chain(&error));
        Vec::new()
    })
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
