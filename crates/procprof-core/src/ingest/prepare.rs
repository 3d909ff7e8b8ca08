//! A profile made ready for the store, as a function over values: decoded, adjusted, its facts completed, summed up,
//! encoded once.

use procprof_collect::{Unfit, decode_answers};
use procprof_profile::format::{self, Decoded, Limits};
use procprof_profile::{Grammar, Meta, Nanos, Profile, ProfileId, ProfileType};
use procprof_store::{FunctionTable, Summary};
use serde::{Deserialize, Serialize};

use super::{facts, summary};
use crate::shares::Requester;

/// A request to prepare a profile for the store.
#[derive(Clone, Debug)]
pub struct PrepareRequest {
    /// The facts so far.
    pub(crate) meta: Meta,
    /// Start and length of the capture, for profiles that do not contain them.
    pub(crate) window: (Nanos, Nanos),
    /// When it arrived; `None` for one that is stored already, whose facts are complete.
    pub(crate) arrived: Option<Nanos>,
    /// The requested type.
    pub(crate) requested: Option<ProfileType>,
    /// Largest size after unpacking, in bytes.
    pub(crate) unpacked_max: u64,
    /// The requester in whose turn a child prepares it.
    pub(crate) requester: Requester,
}

/// A profile ready for the store.
#[derive(Debug)]
pub(crate) struct PreparedProfile {
    pub(crate) meta: Meta,
    pub(crate) start: Nanos,
    pub(crate) duration: Nanos,
    pub(crate) summary: Summary,
    pub(crate) functions: FunctionTable,
    /// gzip'd pprof with the facts inside.
    pub(crate) encoded: Vec<u8>,
    /// Whether this process encoded it.
    pub(crate) is_own: bool,
}

/// Why bytes are not taken in, whenever they come.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, thiserror::Error)]
pub enum Refusal {
    /// The bytes are a message that another profiler is active.
    #[error("another profiler is capturing")]
    Busy,
    /// A heap profile without a single sample.
    #[error("a heap profile without samples")]
    NoSamples,
    /// They are no profile, or one of another type.
    #[error("{0}")]
    NotAProfile(String),
    /// The type of the profile was not given, and its sample types are unknown.
    #[error("type: the profile does not tell it, so give it")]
    NoType,
    /// It cannot be written as pprof.
    #[error("{0}")]
    NotEncoded(String),
}

impl Refusal {
    /// The same as the collector has it, where that is the reason.
    pub(crate) fn unfit(&self) -> Unfit {
        match self {
            Refusal::Busy => Unfit::Busy,
            Refusal::NoSamples => Unfit::NoSamples,
            other => Unfit::NotAProfile(other.to_string()),
        }
    }
}

impl From<Unfit> for Refusal {
    fn from(unfit: Unfit) -> Refusal {
        match unfit {
            Unfit::Busy => Refusal::Busy,
            Unfit::NoSamples => Refusal::NoSamples,
            Unfit::NotAProfile(reason) => Refusal::NotAProfile(reason),
        }
    }
}

impl PrepareRequest {
    /// Decodes and adjusts every profile of a file, and completes the facts of each by its own. The first is the
    /// requested one; the others, in a format for several, get ids and types of their own. One of these that is
    /// rejected is noted with the first.
    pub(crate) fn decode(self, bytes: &[u8]) -> Result<Vec<(PrepareRequest, Profile)>, Refusal> {
        let broken = |error: procprof_profile::Error| Refusal::NotAProfile(error.to_string());
        let (first, further) = match &self.requested {
            Some(requested) => decode_answers(bytes, requested, self.unpacked_max)?,
            None => {
                let limits = Limits { unpacked_bytes: self.unpacked_max, ..Limits::default() };
                let mut all = format::decode_events(bytes, &limits).map_err(broken)?.into_iter();
                (all.next().ok_or_else(|| broken(procprof_profile::Error::Empty))?, all.collect())
            }
        };
        let mut base = self.clone();
        (base.requested, base.meta.id, base.meta.profile_type) = (None, None, None);
        let mut request = self;
        let profile = request.complete(first)?;
        let mut all = vec![(request, profile)];
        let mut refused = Vec::new();
        for decoded in further {
            let (mut request, event) = (base.clone(), decoded.event.clone());
            request.meta.id = Some(ProfileId(uuid::Uuid::now_v7().as_u128()));
            match request.complete(decoded) {
                Ok(profile) => all.push((request, profile)),
                Err(refusal) => refused.push(format!("{event}: {refusal}")),
            }
        }
        if !refused.is_empty() {
            all[0].0.meta.more.insert("events-refused".to_owned(), refused.join("; "));
        }
        Ok(all)
    }

    /// Adjusts a decoded profile, and completes the facts by its own.
    pub(crate) fn complete(&mut self, decoded: Decoded) -> Result<Profile, Refusal> {
        let broken = |error: procprof_profile::Error| Refusal::NotAProfile(error.to_string());
        let decoded = Decoded { profile: decoded.profile.adjusted(Grammar::Pprof).map_err(broken)?, ..decoded };
        if self.arrived.is_some() {
            if self.meta.profile_type.is_none() {
                let own_type = Meta::from_comments(decoded.profile.comments()).profile_type;
                self.meta.profile_type = own_type.or_else(|| decoded.profile.guess_type());
            }
            if self.meta.profile_type.is_none() {
                return Err(Refusal::NoType);
            }
            facts::complete(&mut self.meta, &decoded);
            if !decoded.event.is_empty() {
                self.meta.more.insert("event".to_owned(), decoded.event);
            }
        }
        Ok(decoded.profile)
    }

    /// Writes the facts into the profile, sums it up and encodes it.
    pub(crate) fn finish(mut self, profile: Profile) -> Result<PreparedProfile, Refusal> {
        let failed = |error: procprof_profile::Error| Refusal::NotEncoded(error.to_string());
        let (profile, start, duration) =
            facts::write(profile, &mut self.meta, self.window, self.arrived).map_err(failed)?;
        let (summary, functions) = summary::summarize(&profile);
        let encoded = format::pprof::encode_gzip(&profile).map_err(failed)?;
        Ok(PreparedProfile { meta: self.meta, start, duration, summary, functions, encoded, is_own: true })
    }
}
