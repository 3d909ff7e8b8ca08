//! The subject of a report or a call tree: a stored profile, the sum of several, or the difference between two of
//! these.

use procprof_profile::diff::{self, Scaling};
use procprof_profile::format::{self, Limits};
use procprof_profile::{Grammar, Profile, merge};
use procprof_store::{Entry, Format, Store};
use sha2::{Digest, Sha256};

use super::RenderError;
use crate::symbols::WantedSymbols;

/// Most profiles of a sum, on either side of a difference.
pub const SUMMED_MAX: usize = 500;
/// Most bytes of the stored files of a sum, on either side of a difference.
pub const SUMMED_BYTES_MAX: u64 = 64 << 20;
/// Profiles that are decoded before they are added up.
const DECODED_AT_ONCE: usize = 8;

/// One or several stored profiles, and those that they are compared with.
#[derive(Clone, Debug)]
pub struct Subject {
    /// At least one.
    profiles: Vec<Entry>,
    base: Vec<Entry>,
}

impl From<&Entry> for Subject {
    fn from(entry: &Entry) -> Subject {
        Subject { profiles: vec![entry.clone()], base: Vec::new() }
    }
}

impl Subject {
    /// The sum of profiles.
    ///
    /// # Errors
    /// [`RenderError::Question`] for none, more than [`SUMMED_MAX`] or more than [`SUMMED_BYTES_MAX`] bytes.
    pub fn sum(profiles: Vec<Entry>) -> Result<Subject, RenderError> {
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
        Ok(Subject { profiles, base: Vec::new() })
    }

    /// The difference between this and a base.
    #[must_use]
    pub fn compared_with(self, base: Subject) -> Subject {
        Subject { base: base.profiles, ..self }
    }

    /// The profile, or the first of several.
    pub fn first(&self) -> &Entry {
        &self.profiles[0]
    }

    /// The summed profiles.
    pub fn profiles(&self) -> &[Entry] {
        &self.profiles
    }

    /// The profiles that they are compared with.
    pub fn base(&self) -> &[Entry] {
        &self.base
    }

    /// Whether this is one profile alone.
    pub fn is_plain(&self) -> bool {
        self.profiles.len() == 1 && self.base.is_empty()
    }

    /// Whether nothing more can be named in any of the profiles.
    pub fn is_final(&self) -> bool {
        self.entries().all(|entry| WantedSymbols::from_facts(&entry.meta).is_empty())
    }

    fn entries(&self) -> impl Iterator<Item = &Entry> {
        self.profiles.iter().chain(&self.base)
    }

    /// The text that is another one for other contents. A profile that got names meanwhile has another size.
    pub(super) fn key(&self) -> String {
        if self.is_plain() {
            return self.first().bytes.to_string();
        }
        let mut hash = Sha256::new();
        for (side, entries) in [(b'p', &self.profiles), (b'b', &self.base)] {
            for entry in entries {
                hash.update([side]);
                hash.update(format!("{} {};", entry.id, entry.bytes));
            }
        }
        hash.finalize().iter().take(16).map(|byte| format!("{byte:02x}")).collect()
    }

    /// Errs for a page that was made elsewhere, which has no samples.
    pub(super) fn check(&self) -> Result<(), RenderError> {
        match self.entries().find(|entry| entry.format != Format::Pprof) {
            None => Ok(()),
            Some(_) => {
                Err(RenderError::Question("this page was made elsewhere; it can only be shown as it is".to_owned()))
            }
        }
    }

    /// Decodes the profiles and adds them up; the second is the base, if there is one.
    pub(super) fn load(
        &self,
        store: &Store,
        is_stopped: &dyn Fn() -> Result<(), RenderError>,
    ) -> Result<(Profile, Option<Profile>), RenderError> {
        let profile = sum(store, &self.profiles, is_stopped)?;
        let base = if self.base.is_empty() { None } else { Some(sum(store, &self.base, is_stopped)?) };
        Ok((profile, base))
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

fn sum(
    store: &Store,
    entries: &[Entry],
    is_stopped: &dyn Fn() -> Result<(), RenderError>,
) -> Result<Profile, RenderError> {
    let [first, rest @ ..] = entries else {
        return Err(RenderError::Question("there is no profile to show".to_owned()));
    };
    let mut sum = decoded(store, first)?;
    for entries in rest.chunks(DECODED_AT_ONCE) {
        let mut more = Vec::with_capacity(entries.len());
        for entry in entries {
            is_stopped()?;
            more.push(decoded(store, entry)?);
        }
        let all: Vec<&Profile> = std::iter::once(&sum).chain(&more).collect();
        sum = merge::merge_while(&all, &|| is_stopped().is_ok()).map_err(|error| match error {
            procprof_profile::Error::Stopped => is_stopped().err().unwrap_or_else(super::failed),
            error => RenderError::Question(error.to_string()),
        })?;
    }
    Ok(sum)
}

fn decoded(store: &Store, entry: &Entry) -> Result<Profile, RenderError> {
    let bytes = store.open_bytes(entry.id)?;
    let unreadable = |error: procprof_profile::Error| RenderError::Internal(format!("profile {}: {error}", entry.id));
    Ok(format::decode(&bytes, &Limits::default()).map_err(unreadable)?.profile)
}
