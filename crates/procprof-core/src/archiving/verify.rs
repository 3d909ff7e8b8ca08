//! Archives compared with themselves and with the store.

use std::collections::BTreeSet;

use procprof_archive::{Archive, Header, Part, PartCheck, Table};
use procprof_profile::{Grammar, ProfileId};
use procprof_store::Store;

use super::export::stored_profile;
use crate::Result;
use crate::error::chain;

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
    /// Parts that compaction has replaced or dropped, and whose files are still there.
    pub replaced: u64,
    /// What is wrong.
    pub wrong: Vec<String>,
}

/// Reads all parts of an archive through, and compares the sums of the profiles that are still in a store with those
/// of their files.
///
/// When parts vanish meanwhile, since a compaction has replaced them, it begins once more.
///
/// # Errors
/// When the archive cannot be listed; files that cannot be read are findings.
pub fn verify(archive: &Archive, store: Option<&Store>) -> Result<Verified> {
    match verify_listed(archive, store) {
        Err(error) if error.is_of_vanished_file() => verify_listed(archive, store),
        found => found,
    }
}

/// Errs, too, when a part that was listed is not there any more.
fn verify_listed(archive: &Archive, store: Option<&Store>) -> Result<Verified> {
    let parts = archive.parts()?;
    let (unfinished, replaced) = (parts.unfinished.len() as u64, parts.replaced.len() as u64);
    let mut found = Verified { unfinished, replaced, wrong: parts.wrong(), ..Verified::default() };
    let mut seen: BTreeSet<ProfileId> = BTreeSet::new();
    for part in parts.whole.into_keys() {
        let check = match checked(archive, part)? {
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
                found.wrong.push(format!("{}: profile {id} is in the archive twice", part.path(Table::Profiles)));
            }
            let Some(store) = store else { continue };
            match sums_of_file(store, id) {
                Ok(None) => {}
                Ok(Some(sums)) => {
                    found.compared += 1;
                    found.wrong.extend(difference(&header, &sums));
                }
                Err(error) => found.wrong.push(format!("profile {id}: {}", chain(&error))),
            }
        }
    }
    Ok(found)
}

/// Reads a part through. The inner error is that of the part; the outer one says that the part vanished.
pub(super) fn checked(
    archive: &Archive,
    part: Part,
) -> Result<std::result::Result<PartCheck, procprof_archive::Error>> {
    match archive.check(part) {
        Err(error) if error.is_not_found() && !archive.parts()?.whole.contains_key(&part) => Err(error.into()),
        check => Ok(check),
    }
}

/// What an archive says otherwise than a profile's file.
pub(super) fn difference(header: &Header, sums: &[i64]) -> Option<String> {
    let archived: Vec<i64> = header.totals.iter().map(|total| total.value).collect();
    let id = header.identity.id;
    (sums != archived).then(|| format!("profile {id}: {archived:?} in the archive, {sums:?} in its file"))
}

/// The sum of each sample type of a profile; `None` when the store does not have it.
pub(super) fn sums_of_file(store: &Store, id: ProfileId) -> Result<Option<Vec<i64>>> {
    if !store.contains(id)? {
        return Ok(None);
    }
    let profile = stored_profile(store, id)?.adjusted(Grammar::Pprof)?;
    Ok(Some((0..profile.sample_types().len()).map(|at| profile.total(at)).collect()))
}
