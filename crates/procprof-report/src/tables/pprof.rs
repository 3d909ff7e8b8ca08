//! `pprof`: the profile itself, or the filtered one, encoded. The shown sample type is its default.

use std::borrow::Cow;

use procprof_profile::{Profile, format};

use crate::output::Output;
use crate::selection::Selection;
use crate::selection::view::View;
use crate::{Options, Result, Sources};

pub(crate) fn render(view: &View<'_>, options: &Options, _sources: &Sources, out: &mut Output<'_>) -> Result<()> {
    let profile = view.profile.as_ref();
    let selection = Selection::new(profile, options)?.divided(options)?;
    let selected = with_default(selection.profile(), options.sample_type(profile)?)?;
    out.bytes(&format::pprof::encode_gzip(&selected)?)
}

/// The profile with a sample type as its default, unless another type of the same name precedes it.
fn with_default(profile: &Profile, sample_type: usize) -> Result<Cow<'_, Profile>> {
    let name = profile.sample_type(sample_type).0;
    let is_named = profile.string(profile.parts().default_sample_type) == name;
    if is_named || profile.sample_type_index(name) != Some(sample_type) {
        return Ok(Cow::Borrowed(profile));
    }
    let mut parts = profile.parts().clone();
    parts.default_sample_type = parts.intern(name)?;
    Ok(Cow::Owned(parts.finish()?))
}
