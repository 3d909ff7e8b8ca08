//! A profile as reports use it: values and addresses by pprof's grammar, and without the frames of the profiler and
//! allocators.
//!
//! Frames are omitted by the profile's own expressions (`drop_frames`), exactly as `go tool pprof` does it, and at the
//! leaf also those without a name in an allocator's library, which `go tool pprof` shows. Values and totals stay: those
//! of a frame are its caller's then. Of the waits of a JVM, those for locks are shown, by the waiting method. If nothing
//! is omitted, or the profile is not needed afterwards, nothing is copied.

use std::borrow::Cow;

use procprof_profile::filter::{Uninteresting, remove_uninteresting, remove_unnamed_allocators};
use procprof_profile::waits::{LeftOutWaits, without_others};
use procprof_profile::{Addresses, Grammar, Profile, Sampling};

use super::waiting_methods::with_waiting_methods;
use crate::options::ShownWaits;
use crate::{Options, Result};

/// The input of a renderer.
pub(crate) struct View<'a> {
    pub(crate) profile: Cow<'a, Profile>,
    pub(crate) left_out: LeftOut,
    pub(crate) left_out_waits: LeftOutWaits,
}

/// The frames that the view omits.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum LeftOut {
    Nothing,
    /// Frames at the leaf of some stacks.
    Leaves,
    /// None, because the profile's own expressions are invalid.
    Unreadable(String),
}

impl<'a> View<'a> {
    /// The profile as it was measured, but for waits that the options leave out.
    pub(crate) fn measured(profile: Cow<'a, Profile>, options: &Options) -> Result<View<'a>> {
        let (profile, left_out_waits) = shown_waits(profile, options.waits.unwrap_or(ShownWaits::All))?;
        Ok(View { profile, left_out: LeftOut::Nothing, left_out_waits })
    }

    /// The adjusted profile.
    pub(crate) fn new(profile: Cow<'a, Profile>, options: &Options) -> Result<View<'a>> {
        let profile = adjusted(profile)?;
        let (profile, left_out_waits) = shown_waits(profile, options.shown_waits())?;
        if options.keep_allocators {
            return Ok(View { profile, left_out: LeftOut::Nothing, left_out_waits });
        }
        View::without_uninteresting(profile, left_out_waits)
    }

    fn without_uninteresting(profile: Cow<'a, Profile>, left_out_waits: LeftOutWaits) -> Result<View<'a>> {
        let mut unreadable = None;
        let (profile, by_name) = match Uninteresting::from_profile(&profile) {
            Ok(Some(uninteresting)) => remove_uninteresting(profile, &uninteresting)?,
            Ok(None) => (profile, 0),
            Err(error) => {
                unreadable = Some(LeftOut::Unreadable(error.to_string()));
                (profile, 0)
            }
        };
        let (profile, by_library) = remove_unnamed_allocators(profile)?;
        let (profile, by_wait) = with_waiting_methods(profile)?;
        let cut = if by_name + by_library + by_wait > 0 { LeftOut::Leaves } else { LeftOut::Nothing };
        Ok(View { profile, left_out: unreadable.unwrap_or(cut), left_out_waits })
    }
}

/// The profile as reports show it without options: without the frames of the profiler and allocators, and of waits those
/// for locks; for callers whose own results must agree. Values and addresses are not changed.
///
/// # Errors
/// [`Error::Profile`](crate::Error::Profile), for no profile that is whole.
pub fn shown_by_default(profile: &Profile) -> Result<Cow<'_, Profile>> {
    let (profile, left_out_waits) = shown_waits(Cow::Borrowed(profile), Options::default().shown_waits())?;
    Ok(View::without_uninteresting(profile, left_out_waits)?.profile)
}

/// The profile with the waits that are shown, and the sums of the others.
pub(crate) fn shown_waits(profile: Cow<'_, Profile>, shown: ShownWaits) -> Result<(Cow<'_, Profile>, LeftOutWaits)> {
    match shown {
        ShownWaits::All => Ok((profile, LeftOutWaits::default())),
        ShownWaits::Only(kind) => Ok(without_others(profile, kind)?),
    }
}

fn adjusted(profile: Cow<'_, Profile>) -> Result<Cow<'_, Profile>> {
    if profile.sampling() == Sampling::Exact && profile.addresses() == Addresses::CallSite {
        return Ok(profile);
    }
    Ok(Cow::Owned(profile.into_owned().adjusted(Grammar::Pprof)?))
}
