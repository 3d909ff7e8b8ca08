//! Which profiles of a store are missing in an archive, and the parts that have them.

use std::collections::BTreeSet;

use procprof_archive::{Archive, Hour, Identity, Part, PartLimits, PartWriter, Writer, Written};
use procprof_profile::format::{Limits, decode};
use procprof_profile::{Nanos, Profile, ProfileId};
use procprof_store::{Column, Entry, Filter, Format, Order, RowQuery, Store, Values};

use crate::error::chain;
use crate::{Error, Result};

/// Rows of the store that are read at a time.
const ROWS: usize = 4096;
/// Unpacked size of a profile that is archived, at most.
const UNPACKED_MAX: u64 = 256 << 20;

/// What was archived.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Exported {
    /// What was written.
    pub written: Written,
    /// Parts with it.
    pub parts: u64,
    /// Profiles that were there already.
    pub already_there: u64,
    /// Files that are no profiles: pages and recordings.
    pub no_profiles: u64,
    /// Profiles that could not be archived, and hours that could not be read, each with the reason.
    pub failed: Vec<String>,
}

/// Archives the profiles that were complete before a moment and that the archive does not have, hour by hour, oldest
/// first. What fails is reported, and does not keep the rest from being archived.
///
/// # Errors
/// When the store or the archive cannot be listed.
pub fn export(store: &Store, archive: &Archive, writer: Writer, before: Option<Nanos>) -> Result<Exported> {
    let mut exported = Exported::default();
    remove_unfinished(archive, writer)?;
    let go_on = || Ok(());
    let limits = PartLimits::default();
    let exporter = Exporter { store, archive, writer, limits, go_on: &go_on, faulty: &BTreeSet::new() };
    let mut from = None;
    while let Some(hour) = next_hour(store, from, before)? {
        if let Err(error) = exporter.hour(hour, profiles_of(store, hour, before)?, &mut exported) {
            exported.failed.push(format!("{hour}: {}", chain(&error)));
        }
        from = Some(hour.end());
    }
    Ok(exported)
}

/// Removes the parts that a writer, which must not be writing, did not finish.
pub(super) fn remove_unfinished(archive: &Archive, writer: Writer) -> Result<()> {
    for part in archive.parts()?.unfinished.into_iter().filter(|part| part.writer == writer) {
        archive.remove(part)?;
    }
    Ok(())
}

/// The hour of the oldest profile that was complete at a moment or later, and before another one.
pub(super) fn next_hour(store: &Store, from: Option<Nanos>, before: Option<Nanos>) -> Result<Option<Hour>> {
    let query = RowQuery {
        filter: Filter { from, to: before, ..Filter::default() },
        columns: vec![Column::Completed],
        order: Order::OldestFirst,
    };
    let batch = store.rows(&query)?.next(1)?.unwrap_or_default();
    Ok(match &batch.columns[..] {
        [Values::Integers(completed)] => completed.first().map(|completed| Hour::containing(Nanos(*completed))),
        _ => None,
    })
}

/// A profile of the store.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Candidate {
    node: i64,
    profile_type: String,
    completed: i64,
    pub(super) id: ProfileId,
}

/// The profiles of the store of an hour, of those before a moment, in the order in which they share most.
pub(super) fn profiles_of(store: &Store, hour: Hour, before: Option<Nanos>) -> Result<Vec<Candidate>> {
    let to = before.map_or(hour.end(), |before| before.min(hour.end()));
    let query = RowQuery {
        filter: Filter { from: Some(hour.start()), to: Some(to), ..Filter::default() },
        columns: vec![Column::Node, Column::Type, Column::Completed, Column::Id],
        order: Order::Any,
    };
    let mut found = Vec::new();
    let mut rows = store.rows(&query)?;
    while let Some(batch) = rows.next(ROWS)? {
        let [Values::Integers(nodes), Values::Texts(types), Values::Integers(completed), Values::Ids(ids)] =
            &batch.columns[..]
        else {
            continue;
        };
        found.extend(ids.iter().enumerate().map(|(at, id)| Candidate {
            node: nodes[at],
            profile_type: types.get(at).unwrap_or_default().to_owned(),
            completed: completed[at],
            id: *id,
        }));
    }
    found.sort_unstable();
    Ok(found)
}

/// Writes parts of a store's profiles.
pub(super) struct Exporter<'a> {
    pub(super) store: &'a Store,
    pub(super) archive: &'a Archive,
    pub(super) writer: Writer,
    pub(super) limits: PartLimits,
    /// Errs when no profile is to be read and no part to be written any more.
    pub(super) go_on: &'a dyn Fn() -> Result<()>,
    /// Parts whose profiles are archived all the same.
    pub(super) faulty: &'a BTreeSet<Part>,
}

impl Exporter<'_> {
    /// Archives the profiles of an hour that the archive does not have.
    pub(super) fn hour(&self, hour: Hour, candidates: Vec<Candidate>, exported: &mut Exported) -> Result<()> {
        let mut archived: BTreeSet<ProfileId> = BTreeSet::new();
        let parts = self.archive.parts_of_hour(hour)?;
        for part in parts.into_iter().filter(|part| !self.faulty.contains(part)) {
            archived.extend(self.archive.ids(part)?);
        }
        let mut next = self.archive.next_part(hour, self.writer)?;
        let mut part = PartWriter::new(self.limits);
        for candidate in candidates {
            (self.go_on)()?;
            if archived.contains(&candidate.id) {
                exported.already_there += 1;
            } else if let Err(error) = self.add(&candidate, &mut part, &mut next, exported)? {
                exported.failed.push(format!("profile {}: {}", candidate.id, chain(&error)));
            }
        }
        self.write(&mut part, &mut next, exported)
    }

    /// Adds a profile to a part, which is written before if it has no room. The inner error is that of the profile.
    fn add(
        &self,
        candidate: &Candidate,
        part: &mut PartWriter,
        next: &mut Part,
        exported: &mut Exported,
    ) -> Result<Result<()>> {
        let entry = match self.store.get(candidate.id) {
            Ok(entry) => entry,
            Err(error) if is_gone(&error) => return Ok(Ok(())),
            Err(error) => return Err(error.into()),
        };
        if entry.format != Format::Pprof {
            exported.no_profiles += 1;
            return Ok(Ok(()));
        }
        let profile = match stored_profile(self.store, entry.id) {
            Ok(profile) => profile,
            Err(Error::Store(error)) if is_gone(&error) => return Ok(Ok(())),
            Err(error) => return Ok(Err(error)),
        };
        if !part.has_room_for(&profile) {
            self.write(part, next, exported)?;
        }
        let added = part.add(identity(&entry), profile);
        if let Err(procprof_archive::Error::TooLarge { .. }) = added {
            // Too large even without others.
            *part = PartWriter::new(self.limits);
        }
        Ok(added.map_err(Into::into))
    }

    /// Writes a part, unless it is empty, and begins the next one.
    fn write(&self, part: &mut PartWriter, next: &mut Part, exported: &mut Exported) -> Result<()> {
        if part.is_empty() {
            return Ok(());
        }
        (self.go_on)()?;
        let full = std::mem::replace(part, PartWriter::new(self.limits));
        let written = full.write(self.archive.objects(), *next)?;
        next.number += 1;
        exported.written.profiles += written.profiles;
        exported.written.rows += written.rows;
        exported.written.bytes += written.bytes;
        exported.parts += 1;
        Ok(())
    }
}

/// Whether a profile was deleted meanwhile.
fn is_gone(error: &procprof_store::Error) -> bool {
    matches!(error, procprof_store::Error::NotFound { .. } | procprof_store::Error::Gone { .. })
}

/// Which profile an entry is, as an archive has it.
pub(crate) fn identity(entry: &Entry) -> Identity {
    Identity {
        id: entry.id,
        node: entry.node,
        profile_type: entry.profile_type.clone(),
        start: entry.start,
        duration: entry.duration,
        completed: entry.completed,
    }
}

pub(super) fn stored_profile(store: &Store, id: ProfileId) -> Result<Profile> {
    let bytes = store.open_bytes(id)?;
    Ok(decode(&bytes, &Limits { unpacked_bytes: UNPACKED_MAX, ..Limits::default() })?.profile)
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use procprof_archive::{ObjectFolder, ReadLimits};
    use procprof_profile::{Meta, ProfileBuilder, ProfileType, format};
    use procprof_store::{Encoded, NewProfile, StoreOptions, Summary};

    use super::*;

    const START: Nanos = Nanos(1_700_000_000_000_000_000);

    fn put(store: &Store, number: u64, samples: usize) {
        let meta = Meta {
            id: Some(ProfileId((0x0193 << 112) | (7 << 76) | (8 << 60) | u128::from(number))),
            node: Some(10_001),
            profile_type: Some(ProfileType::Cpu),
            ..Meta::default()
        };
        let mut builder = ProfileBuilder::new(&[("samples", "count"), ("cpu", "nanoseconds")]);
        meta.to_comments().iter().for_each(|fact| builder.comment(fact));
        for at in 0..samples {
            let stack = [builder.frame(&format!("f{at}")), builder.frame("main")];
            builder.sample(&stack, &[1, 10_000_000], &[]);
        }
        let start = Nanos(START.0 + number.cast_signed() * 1_000_000_000);
        builder.time(start, Nanos(0));
        let encoded = format::pprof::encode_gzip(&builder.finish().unwrap()).unwrap();
        let new = NewProfile {
            meta,
            encoded: Encoded::Received(&encoded),
            summary: Summary::default(),
            functions: None,
            start,
            duration: Nanos(0),
        };
        store.put(new).unwrap();
    }

    #[test]
    fn profiles_that_do_not_fit_together_get_parts_of_their_own() {
        let folder = tempfile::tempdir().unwrap();
        let store = Store::open(folder.path(), StoreOptions::default()).unwrap();
        for (number, samples) in [1, 50, 1, 1].into_iter().enumerate() {
            put(&store, number as u64, samples);
        }
        let objects = ObjectFolder::create(folder.path().join("archive")).unwrap();
        let archive = Archive::new(Arc::new(objects), ReadLimits::default());
        let limits = PartLimits { rows: 4, ..PartLimits::default() };
        let faulty = &BTreeSet::new();
        let writer = Writer(7);
        let exporter = Exporter { store: &store, archive: &archive, writer, limits, go_on: &|| Ok(()), faulty };
        let hour = next_hour(&store, None, None).unwrap().unwrap();
        let mut exported = Exported::default();
        exporter.hour(hour, profiles_of(&store, hour, None).unwrap(), &mut exported).unwrap();
        assert_eq!((exported.parts, exported.written.profiles, &exported.failed), (3, 4, &vec![]));
        let profiles = archive.parts().unwrap().whole.into_keys().map(|part| archive.ids(part).unwrap().len());
        assert_eq!(profiles.collect::<Vec<_>>(), [1, 1, 2]);
        let mut again = Exported::default();
        exporter.hour(hour, profiles_of(&store, hour, None).unwrap(), &mut again).unwrap();
        assert_eq!((again.parts, again.already_there), (0, 4));
        let stopped = Exporter { go_on: &|| Err(Error::Setup { what: "archive", why: "full".to_owned() }), ..exporter };
        assert!(stopped.hour(hour, profiles_of(&store, hour, None).unwrap(), &mut again).is_err());
        assert_eq!(next_hour(&store, Some(hour.end()), None).unwrap(), None);
        assert_eq!(next_hour(&store, None, Some(START)).unwrap(), None);
    }
}
