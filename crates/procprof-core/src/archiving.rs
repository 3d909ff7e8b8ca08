//! From the store to the archive: which profiles are missing there, and the parts that have them.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use procprof_archive::{Archive, Hour, Identity, Part, PartLimits, PartWriter, Writer, Written};
use procprof_profile::format::{Limits, decode};
use procprof_profile::{Grammar, Nanos, Profile, ProfileId};
use procprof_store::{Column, Entry, Filter, Format, Order, RowQuery, Store, Values};

use crate::error::chain;
use crate::{Error, Result};

/// The file of a data folder with the name of its writer.
const WRITER_FILE: &str = "archive-writer";
/// Rows of the store that are read at a time.
const ROWS: usize = 4096;
/// Mode of that file.
const WRITER_MODE: u32 = 0o640;
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

/// The name under which the server of a data folder writes to archives; it is made when it is first needed.
///
/// # Errors
/// When its file cannot be read or written.
pub fn archive_writer(data: &Path) -> Result<Writer> {
    let path = data.join(WRITER_FILE);
    let setup = |why: String| Error::Setup { what: "archive", why: format!("{}: {why}", path.display()) };
    match std::fs::read_to_string(&path) {
        Ok(text) => text.trim().parse().map_err(|_| setup("not the name of a writer".to_owned())),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
            let writer = Writer(uuid::Uuid::now_v7().as_u64_pair().1);
            procprof_files::create(&path, format!("{writer}\n").as_bytes(), WRITER_MODE)
                .map_err(procprof_archive::Error::from)?;
            Ok(writer)
        }
        Err(error) => Err(setup(error.to_string())),
    }
}

/// Archives the profiles that were complete before a moment and that the archive does not have, hour by hour, oldest
/// first. What fails is reported, and does not keep the rest from being archived.
///
/// # Errors
/// When the store or the archive cannot be listed.
pub fn export(store: &Store, archive: &Archive, writer: Writer, before: Option<Nanos>) -> Result<Exported> {
    let mut exported = Exported::default();
    for part in archive.parts()?.unfinished.into_iter().filter(|part| part.writer == writer) {
        archive.remove(part)?;
    }
    for (hour, ids) in hours(store, before)? {
        if let Err(error) = export_hour(store, archive, writer, (hour, ids), &mut exported) {
            exported.failed.push(format!("{hour}: {}", chain(&error)));
        }
    }
    Ok(exported)
}

/// The profiles of the store by the hour in which they were complete.
pub(crate) fn hours(store: &Store, before: Option<Nanos>) -> Result<BTreeMap<Hour, Vec<ProfileId>>> {
    let query = RowQuery {
        filter: Filter { to: before, ..Filter::default() },
        columns: vec![Column::Id, Column::Completed],
        order: Order::Any,
    };
    let mut hours: BTreeMap<Hour, Vec<ProfileId>> = BTreeMap::new();
    let mut rows = store.rows(&query)?;
    while let Some(batch) = rows.next(ROWS)? {
        if let [Values::Ids(ids), Values::Integers(completed)] = &batch.columns[..] {
            for (id, completed) in ids.iter().zip(completed) {
                hours.entry(Hour::containing(Nanos(*completed))).or_default().push(*id);
            }
        }
    }
    Ok(hours)
}

fn export_hour(
    store: &Store,
    archive: &Archive,
    writer: Writer,
    (hour, ids): (Hour, Vec<ProfileId>),
    exported: &mut Exported,
) -> Result<()> {
    let mut archived: BTreeSet<ProfileId> = BTreeSet::new();
    let mut number = 0;
    for part in archive.parts_of_hour(hour)? {
        archived.extend(archive.ids(part)?);
        if part.writer == writer {
            number = number.max(part.number + 1);
        }
    }
    let (there, missing): (Vec<_>, Vec<_>) = ids.into_iter().partition(|id| archived.contains(id));
    exported.already_there += there.len() as u64;
    let mut entries: Vec<Entry> = Vec::new();
    for id in missing {
        match store.get(id) {
            Ok(entry) if entry.format == Format::Pprof => entries.push(entry),
            Ok(_) => exported.no_profiles += 1,
            // Retention has deleted it meanwhile.
            Err(procprof_store::Error::NotFound { .. }) => {}
            Err(error) => return Err(error.into()),
        }
    }
    entries.sort_by(|one, other| {
        let key = |entry: &Entry| (entry.node, entry.profile_type.clone(), entry.completed);
        key(one).cmp(&key(other))
    });
    let mut part = PartWriter::new(PartLimits::default());
    for entry in entries {
        let profile = match stored_profile(store, entry.id) {
            Ok(profile) => profile,
            Err(error) => {
                exported.failed.push(format!("profile {}: {}", entry.id, chain(&error)));
                continue;
            }
        };
        if let Err(error) = part.add(identity(&entry), profile) {
            exported.failed.push(format!("profile {}: {}", entry.id, chain(&error)));
        }
        if part.is_full() {
            let full = std::mem::replace(&mut part, PartWriter::new(PartLimits::default()));
            write(full, archive, Part { hour, writer, number }, exported)?;
            number += 1;
        }
    }
    if !part.is_empty() {
        write(part, archive, Part { hour, writer, number }, exported)?;
    }
    Ok(())
}

fn write(writer: PartWriter, archive: &Archive, part: Part, exported: &mut Exported) -> Result<()> {
    let written = writer.write(archive.objects(), part)?;
    exported.written.profiles += written.profiles;
    exported.written.rows += written.rows;
    exported.written.bytes += written.bytes;
    exported.parts += 1;
    Ok(())
}

fn identity(entry: &Entry) -> Identity {
    Identity {
        id: entry.id,
        node: entry.node,
        profile_type: entry.profile_type.clone(),
        start: entry.start,
        duration: entry.duration,
        completed: entry.completed,
    }
}

fn stored_profile(store: &Store, id: ProfileId) -> Result<Profile> {
    let bytes = store.open_bytes(id)?;
    Ok(decode(&bytes, &Limits { unpacked_bytes: UNPACKED_MAX, ..Limits::default() })?.profile)
}

/// The result of comparing an archive with itself and a store.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Verified {
    /// Parts that were read through.
    pub parts: u64,
    /// Profiles in them.
    pub profiles: u64,
    /// Values of samples.
    pub rows: u64,
    /// Profiles that were compared with their files in the store.
    pub compared: u64,
    /// Parts that their writers did not finish; their samples belong to no profile.
    pub unfinished: u64,
    /// What is wrong.
    pub wrong: Vec<String>,
}

/// Reads all parts of an archive through, and compares the sums of the profiles that are still in a store with those
/// of their files.
///
/// # Errors
/// When the archive cannot be listed; files that cannot be read are findings.
pub fn verify(archive: &Archive, store: Option<&Store>) -> Result<Verified> {
    let parts = archive.parts()?;
    let mut found = Verified { unfinished: parts.unfinished.len() as u64, ..Verified::default() };
    let mut seen: BTreeSet<ProfileId> = BTreeSet::new();
    found.wrong.extend(parts.odd.iter().map(|path| format!("{path}: no file of an archive")));
    for part in parts.whole.into_keys() {
        let check = match archive.check(part) {
            Ok(check) => check,
            Err(error) => {
                found.wrong.push(chain(&error));
                continue;
            }
        };
        found.parts += 1;
        found.profiles += check.headers.len() as u64;
        found.rows += check.rows;
        found.wrong.extend(check.wrong);
        for header in check.headers {
            let id = header.identity.id;
            if !seen.insert(id) {
                found.wrong.push(format!(
                    "{}: profile {id} is in the archive twice",
                    part.path(procprof_archive::Table::Profiles)
                ));
            }
            let Some(store) = store else { continue };
            match sums_of_file(store, id) {
                Ok(None) => {}
                Ok(Some(sums)) => {
                    found.compared += 1;
                    let archived: Vec<i64> = header.totals.iter().map(|total| total.value).collect();
                    if sums != archived {
                        found.wrong.push(format!("profile {id}: {archived:?} in the archive, {sums:?} in its file"));
                    }
                }
                Err(error) => found.wrong.push(format!("profile {id}: {}", chain(&error))),
            }
        }
    }
    Ok(found)
}

/// The sum of each sample type of a profile; `None` when the store does not have it.
fn sums_of_file(store: &Store, id: ProfileId) -> Result<Option<Vec<i64>>> {
    if !store.contains(id)? {
        return Ok(None);
    }
    let profile = stored_profile(store, id)?.adjusted(Grammar::Pprof)?;
    Ok(Some((0..profile.sample_types().len()).map(|at| profile.total(at)).collect()))
}
