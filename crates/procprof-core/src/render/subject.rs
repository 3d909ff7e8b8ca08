//! The subject of a report or a call tree: a stored profile, the sum of several or of a range, or the difference between
//! two of these.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use procprof_profile::diff::{self, Scaling};
use procprof_profile::format::{self, Limits};
use procprof_profile::{Grammar, Profile, merge};
use procprof_store::{Entry, Format, Store};
use sha2::{Digest, Sha256};

use super::RenderError;
use super::range::{Coverage, RangeSum};
use crate::symbols::WantedSymbols;

/// Most profiles of a sum, on either side of a difference.
pub const SUMMED_MAX: usize = 500;
/// Most bytes of the stored files of a sum, on either side of a difference.
pub const SUMMED_BYTES_MAX: u64 = 64 << 20;
/// Profiles that are decoded before they are added up.
const DECODED_AT_ONCE: usize = 8;

/// Profiles, and those that they are compared with.
#[derive(Clone, Debug)]
pub struct Subject {
    side: Side,
    base: Option<Side>,
}

#[derive(Clone, Debug)]
enum Side {
    Stored(StoredProfiles),
    Range(Arc<RangeSum>),
}

/// At least one profile of the store.
#[derive(Clone, Debug, Default)]
struct StoredProfiles {
    entries: Vec<Entry>,
    /// Why files of others, which are left out, can't be read.
    unreadable: Vec<String>,
    /// The same of those among the entries, once they are loaded.
    late: Arc<Mutex<Vec<String>>>,
}

impl StoredProfiles {
    fn late(&self) -> MutexGuard<'_, Vec<String>> {
        self.late.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The coverage, if some are left out.
    fn coverage(&self) -> Option<Coverage> {
        let late = self.late();
        let unreadable = [self.unreadable.as_slice(), late.as_slice()].concat();
        let stored = self.entries.len().saturating_sub(late.len()) as u64;
        (!unreadable.is_empty()).then(|| Coverage { stored, unreadable, ..Coverage::default() })
    }

    fn load(&self, store: &Store, is_stopped: &dyn Fn() -> Result<(), RenderError>) -> Result<Profile, RenderError> {
        let Sum { profile, unreadable } = sum(store, &self.entries, is_stopped)?;
        *self.late() = unreadable;
        Ok(profile)
    }
}

impl From<&Entry> for Subject {
    fn from(entry: &Entry) -> Subject {
        Subject {
            side: Side::Stored(StoredProfiles { entries: vec![entry.clone()], ..Default::default() }),
            base: None,
        }
    }
}

impl From<RangeSum> for Subject {
    fn from(range: RangeSum) -> Subject {
        Subject { side: Side::Range(Arc::new(range)), base: None }
    }
}

impl Subject {
    /// The sum of profiles, without those whose files are known to be unreadable if there are others.
    ///
    /// # Errors
    /// [`RenderError::Question`] for none, more than [`SUMMED_MAX`] or more than [`SUMMED_BYTES_MAX`] bytes.
    pub fn sum(store: &Store, mut profiles: Vec<Entry>) -> Result<Subject, RenderError> {
        let mut unreadable: Vec<String> = profiles.iter().filter_map(|entry| store.why_damaged(entry.id)).collect();
        if unreadable.len() < profiles.len() {
            profiles.retain(|entry| store.why_damaged(entry.id).is_none());
        } else {
            unreadable.clear();
        }
        let bytes = profiles.iter().map(|entry| entry.bytes).sum::<u64>();
        if profiles.is_empty() {
            return Err(RenderError::Question("there is no profile to show".to_owned()));
        }
        if profiles.len() > SUMMED_MAX {
            return Err(RenderError::Question(format!(
                "more than {SUMMED_MAX} profiles, which is the most that is summed"
            )));
        }
        if bytes > SUMMED_BYTES_MAX && profiles.len() > 1 {
            let most = SUMMED_BYTES_MAX >> 20;
            let why = format!("{} profiles of {} MiB, and at most {most} MiB are summed", profiles.len(), bytes >> 20);
            return Err(RenderError::Question(why));
        }
        let stored = StoredProfiles { entries: profiles, unreadable, ..StoredProfiles::default() };
        Ok(Subject { side: Side::Stored(stored), base: None })
    }

    /// The difference between this and a base.
    #[must_use]
    pub fn compared_with(self, base: Subject) -> Subject {
        Subject { base: Some(base.side), ..self }
    }

    /// The profile, if this is one alone.
    pub fn plain(&self) -> Option<&Entry> {
        match (&self.side, &self.base) {
            (Side::Stored(stored), None) if stored.entries.len() == 1 => stored.entries.first(),
            _ => None,
        }
    }

    /// What there is of the range that is summed, and of the one that it is compared with; `None` for stored profiles,
    /// unless files of some turned out to be unreadable.
    pub fn coverage(&self) -> [Option<Coverage>; 2] {
        [Some(&self.side), self.base.as_ref()].map(|side| match side {
            Some(Side::Range(range)) => Some(range.coverage().clone()),
            Some(Side::Stored(stored)) => stored.coverage(),
            None => None,
        })
    }

    /// Whether nothing more can be named in any of the profiles, and none can join them.
    pub fn is_final(&self) -> bool {
        let is_final = |entry: &Entry| WantedSymbols::from_facts(&entry.meta).is_empty();
        self.sides().all(|side| matches!(side, Side::Stored(stored) if stored.entries.iter().all(is_final)))
    }

    fn sides(&self) -> impl Iterator<Item = &Side> {
        std::iter::once(&self.side).chain(&self.base)
    }

    /// The profile to whose node and id a report belongs in the cache: the first one.
    pub(super) fn owner(&self) -> Option<&Entry> {
        match &self.side {
            Side::Stored(stored) => stored.entries.first(),
            Side::Range(_) => None,
        }
    }

    /// The text that is another one for other contents. A profile that got names meanwhile has another size.
    pub(super) fn key(&self) -> String {
        if let Some(entry) = self.plain() {
            return entry.bytes.to_string();
        }
        let mut hash = Sha256::new();
        for (name, side) in [b'p', b'b'].into_iter().zip(self.sides()) {
            match side {
                Side::Range(range) => {
                    hash.update([name, b'r']);
                    hash.update(range.key());
                }
                Side::Stored(stored) => {
                    for entry in &stored.entries {
                        hash.update([name]);
                        hash.update(format!("{} {};", entry.id, entry.bytes));
                    }
                }
            }
        }
        hash.finalize().iter().take(16).map(|byte| format!("{byte:02x}")).collect()
    }

    /// Errs for a page that was made elsewhere, which has no samples.
    pub(super) fn check(&self) -> Result<(), RenderError> {
        let is_foreign = |side: &Side| match side {
            Side::Stored(stored) => stored.entries.iter().any(|entry| entry.format != Format::Pprof),
            Side::Range(_) => false,
        };
        if self.sides().any(is_foreign) {
            return Err(RenderError::Question(
                "this page was made elsewhere; it can only be shown as it is".to_owned(),
            ));
        }
        Ok(())
    }

    /// Decodes the profiles and adds them up; the second is the base, if there is one.
    pub(super) fn load(
        &self,
        store: &Store,
        is_stopped: &dyn Fn() -> Result<(), RenderError>,
    ) -> Result<(Profile, Option<Profile>), RenderError> {
        let load = |side: &Side| match side {
            Side::Stored(stored) => stored.load(store, is_stopped),
            Side::Range(range) => range.load(store, is_stopped),
        };
        Ok((load(&self.side)?, self.base.as_ref().map(load).transpose()?))
    }
}

/// The difference as one profile, for reports without a base: samples of the base are negative and labelled.
pub(super) fn difference(profile: Profile, base: Profile, scaling: Scaling) -> Result<Profile, RenderError> {
    let unlike = |error: procprof_profile::Error| RenderError::Question(error.to_string());
    let profile = profile.adjusted(Grammar::Pprof).map_err(unlike)?;
    let base = base.adjusted(Grammar::Pprof).map_err(unlike)?;
    let base = scaling.apply(&profile, base).map_err(unlike)?;
    diff::diff_base(&base, &profile).map_err(unlike)
}

/// Profiles added up.
pub(super) struct Sum {
    pub(super) profile: Profile,
    /// Why files of profiles that are left out can't be read.
    pub(super) unreadable: Vec<String>,
}

/// Adds up profiles. One whose file can't be read is left out, unless it is the only one.
pub(super) fn sum(
    store: &Store,
    entries: &[Entry],
    is_stopped: &dyn Fn() -> Result<(), RenderError>,
) -> Result<Sum, RenderError> {
    let (mut sum, mut unreadable, mut failure) = (None, Vec::new(), None);
    for entries in entries.chunks(DECODED_AT_ONCE) {
        let mut more = Vec::with_capacity(entries.len());
        for entry in entries {
            is_stopped()?;
            match decoded(store, entry) {
                Ok(profile) => more.push(profile),
                Err(error) => {
                    unreadable.push(error.to_string());
                    failure = failure.or(Some(error));
                }
            }
        }
        if sum.is_none() && more.len() <= 1 {
            sum = more.pop();
            continue;
        }
        let all: Vec<&Profile> = sum.iter().chain(&more).collect();
        sum = Some(merge::merge_while(&all, &|| is_stopped().is_ok()).map_err(|error| match error {
            procprof_profile::Error::Stopped => is_stopped().err().unwrap_or_else(super::failed),
            error => RenderError::Question(error.to_string()),
        })?);
    }
    match (sum, failure) {
        (Some(profile), _) => Ok(Sum { profile, unreadable }),
        (None, Some(failure)) => Err(failure),
        (None, None) => Err(RenderError::Question("there is no profile to show".to_owned())),
    }
}

/// The profile of a stored file; the store remembers one that can't be read.
pub(super) fn decoded(store: &Store, entry: &Entry) -> Result<Profile, RenderError> {
    let damaged = |why: String| {
        if store.set_damaged(entry.id, why.clone()) {
            tracing::warn!("{why}");
        }
    };
    let bytes = store.open_bytes(entry.id).inspect_err(|error| damaged(crate::error::chain(error)))?;
    let decoded = format::decode(&bytes, &Limits::default()).map_err(|error| {
        let why = format!("profile {}: {error}", entry.id);
        damaged(why.clone());
        RenderError::Internal(why)
    })?;
    Ok(decoded.profile)
}
