//! `pprof`: the profile itself, or what filters leave of it, encoded.

use procprof_profile::format;

use crate::selection::Selection;
use crate::view::View;
use crate::{Options, Result, Sources};

pub(crate) fn render(view: &View<'_>, options: &Options, _sources: &Sources) -> Result<Vec<u8>> {
    let profile = view.profile.as_ref();
    let selection = Selection::new(profile, options)?.divided(options)?;
    Ok(format::pprof::encode_gzip(selection.profile())?)
}
