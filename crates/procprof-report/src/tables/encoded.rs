//! `speedscope`, `cpuprofile` and `otlp`: what filters leave of the profile, in the format of another viewer. A comment
//! of the profile names the waits that are left out, where the format has comments.

use procprof_profile::format::{Encode, cpuprofile, otlp, speedscope};

use crate::header::headline::left_out_waits;
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
    let sample_type = options.sample_type(profile)?;
    let (kind, unit) = profile.sample_type(sample_type);
    let left_out = left_out_waits(&view.left_out_waits, options, sample_type, unit);
    let selection = Selection::new(profile, options)?.divided(options)?;
    if options.sample_index.is_empty() && left_out.is_none() {
        return out.bytes(&encode(selection.profile())?);
    }
    let mut parts = selection.profile().parts().clone();
    if !options.sample_index.is_empty() {
        // The filters may have renumbered the texts.
        parts.default_sample_type = parts.intern(kind)?;
    }
    if let Some(left_out) = left_out {
        let comment = parts.intern(&left_out)?;
        parts.comments.push(comment);
    }
    out.bytes(&encode(&parts.finish()?)?)
}
