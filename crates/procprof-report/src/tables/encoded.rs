//! `speedscope`, `cpuprofile` and `otlp`: what filters leave of the profile, in the format of another viewer.

use procprof_profile::format::{Encode, cpuprofile, otlp, speedscope};

use crate::output::Output;
use crate::selection::Selection;
use crate::selection::view::View;
use crate::{Options, Result, Sources};

pub(crate) fn render_speedscope(
    view: &View<'_>,
    options: &Options,
    _sources: &Sources,
    out: &mut Output<'_>,
) -> Result<()> {
    write(view, options, speedscope::encode, out)
}

pub(crate) fn render_cpuprofile(
    view: &View<'_>,
    options: &Options,
    _sources: &Sources,
    out: &mut Output<'_>,
) -> Result<()> {
    write(view, options, cpuprofile::encode, out)
}

pub(crate) fn render_otlp(view: &View<'_>, options: &Options, _sources: &Sources, out: &mut Output<'_>) -> Result<()> {
    write(view, options, otlp::encode, out)
}

/// Writes the profile with the selected sample type as its default.
fn write(view: &View<'_>, options: &Options, encode: Encode, out: &mut Output<'_>) -> Result<()> {
    let profile = view.profile.as_ref();
    let shown = profile.sample_types()[options.sample_type(profile)?];
    let selection = Selection::new(profile, options)?.divided(options)?;
    if options.sample_index.is_empty() {
        return out.bytes(&encode(selection.profile())?);
    }
    let mut parts = selection.profile().parts().clone();
    // The filters may have renumbered the texts.
    parts.default_sample_type = parts.intern(profile.string(shown.kind))?;
    out.bytes(&encode(&parts.finish()?)?)
}
