//! `pprof`: the profile itself, or the filtered one, encoded.

use procprof_profile::format;

use crate::output::Output;
use crate::selection::Selection;
use crate::selection::view::View;
use crate::{Options, Result, Sources};

pub(crate) fn render(view: &View<'_>, options: &Options, _sources: &Sources, out: &mut Output<'_>) -> Result<()> {
    let profile = view.profile.as_ref();
    let selection = Selection::new(profile, options)?.divided(options)?;
    out.bytes(&format::pprof::encode_gzip(selection.profile())?)
}
