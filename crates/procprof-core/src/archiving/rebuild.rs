//! Parts at fault, replaced by parts of the profiles that a store still has.

use std::collections::BTreeSet;

use procprof_archive::{Archive, CompactLimits, Hour, Part, PartLimits, Table, Writer};
use procprof_profile::ProfileId;
use procprof_store::Store;

use super::export::{Exported, Exporter, profiles_of, remove_unfinished};
use super::verify::{checked, difference, sums_of_file};
use crate::Result;
use crate::clock::now;
use crate::error::chain;

/// What was found and replaced.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Rebuilt {
    /// Parts that were read through.
    pub parts: u64,
    /// What is wrong with those at fault, each with its file.
    pub wrong: Vec<String>,
    /// What was archived anew.
    pub exported: Exported,
    /// Parts at fault that readers do not see any more.
    pub withdrawn: u64,
    /// Known profiles that were given up with them.
    pub dropped: u64,
    /// Parts at fault that stay, each with the reason.
    pub kept: Vec<String>,
}

/// A part at fault.
struct Faulty {
    part: Part,
    /// The ids of its profiles, if they can be read.
    ids: Option<Vec<ProfileId>>,
    /// Whether its tables can be read, so that sums have its profiles.
    is_read: bool,
}

/// Reads all parts through, archives the profiles of those at fault anew from a store, and withdraws these. A part
/// stays if the store does not have all that it had, unless `drop_missing`: other stores may have the rest.
///
/// # Errors
/// When the archive cannot be listed, read or written; when another compaction runs.
pub fn rebuild(store: &Store, archive: &Archive, writer: Writer, drop_missing: bool) -> Result<Rebuilt> {
    remove_unfinished(archive, writer)?;
    let mut rebuilt = Rebuilt::default();
    let mut sound: BTreeSet<ProfileId> = BTreeSet::new();
    let mut faulty: Vec<Faulty> = Vec::new();
    let parts = archive.parts()?;
    rebuilt.wrong.extend(parts.unclear_days().map(|(_, error)| chain(&error)));
    for part in parts.whole.into_keys() {
        rebuilt.parts += 1;
        match examine(store, archive, part, &mut rebuilt.wrong)? {
            Ok(ids) => sound.extend(ids),
            Err(found) => faulty.push(found),
        }
    }
    let parts = faulty.iter().map(|found| found.part).collect();
    let go_on = || Ok(());
    let limits = PartLimits::default();
    let exporter = Exporter { store, archive, writer, limits, go_on: &go_on, faulty: &parts };
    let mut withdrawn = Vec::new();
    for found in faulty {
        let missing = replace(&exporter, &found, drop_missing, &mut sound, &mut rebuilt)?;
        match missing {
            None => withdrawn.push(found.part),
            Some(why) => rebuilt.kept.push(format!("{}: {why}", found.part.path(Table::Profiles))),
        }
    }
    if !withdrawn.is_empty() {
        rebuilt.withdrawn = archive.withdraw(&withdrawn, &CompactLimits::default(), &now, super::holder())?.dropped;
    }
    Ok(rebuilt)
}

/// The profiles of a part, or what is at fault.
fn examine(
    store: &Store,
    archive: &Archive,
    part: Part,
    wrong: &mut Vec<String>,
) -> Result<std::result::Result<Vec<ProfileId>, Faulty>> {
    let check = match checked(archive, part)? {
        Ok(check) => check,
        Err(error) if error.is_of_file() || error.is_not_found() => {
            wrong.push(chain(&error));
            return Ok(Err(Faulty { part, ids: archive.ids(part).ok(), is_read: false }));
        }
        // The storage is at fault, not the part.
        Err(error) => return Err(error.into()),
    };
    let mut found = check.wrong;
    for header in &check.headers {
        match sums_of_file(store, header.identity.id) {
            Ok(sums) => found.extend(sums.and_then(|sums| difference(header, &sums))),
            // A file at fault says nothing of the archive.
            Err(error) => tracing::warn!("profile {}: {}", header.identity.id, chain(&error)),
        }
    }
    let ids = check.headers.into_iter().map(|header| header.identity.id).collect();
    let is_sound = found.is_empty();
    wrong.append(&mut found);
    Ok(if is_sound { Ok(ids) } else { Err(Faulty { part, ids: Some(ids), is_read: true }) })
}

/// Archives what a store has of a part at fault; why it must stay, if so.
fn replace(
    exporter: &Exporter<'_>,
    found: &Faulty,
    drop_missing: bool,
    sound: &mut BTreeSet<ProfileId>,
    rebuilt: &mut Rebuilt,
) -> Result<Option<String>> {
    let mut hours = Vec::new();
    let mut hour = found.part.hour;
    while hour.start() < found.part.end() {
        hours.push((hour, profiles_of(exporter.store, hour, None)?));
        hour = Hour::containing(hour.end());
    }
    let stored: BTreeSet<ProfileId> = hours.iter().flat_map(|(_, profiles)| profiles).map(|one| one.id).collect();
    let ids = found.ids.as_deref();
    let missing = ids.map(|ids| ids.iter().filter(|id| !sound.contains(id) && !stored.contains(id)).count());
    let why = match missing {
        Some(0) => None,
        Some(missing) => Some(format!("{missing} of its profiles are not in the data folder")),
        None => Some("its profiles cannot be listed, so some may not be in the data folder".to_owned()),
    };
    // Sums that read the part would have what is archived anew twice.
    if found.is_read && why.is_some() && !drop_missing {
        return Ok(why);
    }
    let failed = rebuilt.exported.failed.len();
    for (hour, profiles) in hours {
        exporter.hour(hour, profiles, &mut rebuilt.exported)?;
    }
    sound.extend(stored);
    if drop_missing {
        rebuilt.dropped += missing.unwrap_or(0) as u64;
        return Ok(None);
    }
    let has_failed = rebuilt.exported.failed.len() > failed;
    Ok(if has_failed { Some("not all of its profiles could be archived anew".to_owned()) } else { why })
}
