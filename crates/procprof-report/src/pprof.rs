//! `pprof`: the profile itself, encoded; with `focus` or `ignore`, only the samples that pass.

use procprof_profile::format;

use crate::selection::Selection;
use crate::view::View;
use crate::{Options, Result, Sources};

pub(crate) fn render(view: &View<'_>, options: &Options, _sources: &Sources) -> Result<Vec<u8>> {
    let profile = view.profile.as_ref();
    let selection = Selection::new(profile, options);
    if !selection.is_partial() {
        return Ok(format::pprof::encode_gzip(profile)?);
    }
    Ok(format::pprof::encode_gzip(&selection.to_profile()?)?)
}
