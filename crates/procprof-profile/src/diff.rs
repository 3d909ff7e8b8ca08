//! Differences between profiles.
//!
//! A difference is the sum of a profile and the negated base; it keeps everything but samples from the profile. See
//! [`merge`](crate::merge) for how stacks and mappings are matched.

use std::borrow::Cow;

use crate::merge::{Term, sum};
use crate::{Error, Grammar, Label, LabelValue, Nanos, Profile, Result, Sample, Sampling};

/// Key of the label that marks samples of the base in [`diff_base`], as pprof names it.
pub const BASE_LABEL: &str = "pprof::base";

/// Key of the fact ([`Meta::more`](crate::meta::Meta::more)) in which [`diff_base`] keeps the duration of the base, in
/// nanoseconds: the times of a difference are those of the profile.
const BASE_DURATION: &str = "base-duration";

/// What `profile` has more than `base`; less is negative, and nothing is left of what is equal.
///
/// # Errors
/// As [`merge`](crate::merge::merge).
pub fn diff(base: &Profile, profile: &Profile) -> Result<Profile> {
    let described = [Term::new(profile, 1)?];
    sum(&[Term::new(base, -1)?, Term::new(profile, 1)?], &described)
}

/// As [`diff`], but samples of the base stay samples of their own, negative and labelled [`BASE_LABEL`] = `true`, so
/// that shares of the base can be computed.
///
/// # Errors
/// As [`merge`](crate::merge::merge).
pub fn diff_base(base: &Profile, profile: &Profile) -> Result<Profile> {
    let difference = diff(&labelled(base)?, profile)?;
    let duration = base.duration().0;
    if duration <= 0 {
        return Ok(difference);
    }
    let mut meta = difference.meta();
    meta.more.insert(BASE_DURATION.to_owned(), duration.to_string());
    difference.with_meta(&meta)
}

/// The profile and the base that [`diff_base`] made a difference of; `None` where no sample is labelled as the base's.
/// The duration of the base is unknown in differences of other tools.
///
/// # Errors
/// None that a valid profile can cause.
pub fn split(difference: &Profile) -> Result<Option<(Profile, Profile)>> {
    let is_mark = |label: &Label| {
        let is_true = matches!(label.value, LabelValue::Text(text) if difference.string(text) == "true");
        is_true && difference.string(label.key) == BASE_LABEL
    };
    let is_base = |sample: &Sample<'_>| sample.labels.iter().any(is_mark);
    let of_base: Vec<bool> = difference.samples().map(|sample| is_base(&sample)).collect();
    if !of_base.contains(&true) {
        return Ok(None);
    }
    let (mut profile, mut base) = (difference.parts().clone(), difference.parts().clone());
    profile.retain_samples(|index| !of_base[index]);
    base.retain_samples(|index| of_base[index]);
    let mut meta = difference.meta();
    let duration = meta.more.remove(BASE_DURATION).and_then(|duration| duration.parse().ok());
    base.duration = Nanos(duration.unwrap_or(0));
    base.labels.clear();
    base.label_ends.clear();
    for sample in difference.samples().filter(is_base) {
        base.labels.extend(sample.labels.iter().filter(|label| !is_mark(label)));
        base.label_ends.push(crate::parts::narrow(base.labels.len(), "labels")?);
    }
    for value in base.values.iter_mut().chain(&mut base.raw_values) {
        *value = value.saturating_neg();
    }
    Ok(Some((profile.finish()?.with_meta(&meta)?, base.finish()?.with_meta(&meta)?)))
}

/// The profile with values below zero taken as zero, and without the samples that are zero then.
///
/// # Errors
/// None that a valid profile can cause.
pub fn drop_negative(profile: Profile) -> Result<Profile> {
    let mut parts = profile.into_parts();
    for value in &mut parts.values {
        *value = (*value).max(0);
    }
    let width = parts.sample_types.len();
    let kept: Vec<bool> =
        parts.values.chunks_exact(width).map(|values| values.iter().any(|value| *value != 0)).collect();
    parts.retain_samples(|index| kept[index]);
    parts.finish()
}

/// How one side of a difference is scaled.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Scaling {
    /// Not at all.
    #[default]
    AsMeasured,
    /// So that each sample type adds up to the same.
    SameTotal,
    /// As if both had measured for the same time.
    SameTime,
}

impl Scaling {
    /// The profile scaled to `base`; samples of which nothing is left are dropped. What is scaled to the same time has
    /// the duration of the base afterwards.
    ///
    /// # Errors
    /// [`Error::Incompatible`] when the base lacks a sample type, or a duration that is needed is not known.
    pub fn apply(self, base: &Profile, profile: Profile) -> Result<Profile> {
        match self {
            Scaling::AsMeasured => Ok(profile),
            Scaling::SameTotal => normalize(base, profile),
            Scaling::SameTime => {
                let ratio = time_ratio(base, &profile)?;
                let ratios = vec![ratio; profile.sample_types().len()];
                let mut parts = scale(profile, &ratios)?.into_parts();
                parts.duration = base.duration();
                parts.finish()
            }
        }
    }
}

/// The duration of `base` over that of the profile.
///
/// # Errors
/// [`Error::Incompatible`] when one of them is not known.
pub fn time_ratio(base: &Profile, profile: &Profile) -> Result<f64> {
    match (base.duration().0, profile.duration().0) {
        (own, other) if own > 0 && other > 0 => Ok(own as f64 / other as f64),
        _ => {
            Err(Error::Incompatible("without the durations of both, they can't be scaled to the same time".to_owned()))
        }
    }
}

/// The profile scaled so that each sample type adds up to what it adds up to in `base`; samples of which nothing is
/// left are dropped. What adds up to nothing stays nothing. Sampled values are estimated first, by
/// [`Grammar::Pprof`], as in [`merge`](crate::merge).
///
/// # Errors
/// [`Error::Incompatible`] when the base lacks a sample type.
pub fn normalize(base: &Profile, profile: Profile) -> Result<Profile> {
    let base = match base.is_adjusted() {
        true => Cow::Borrowed(base),
        false => Cow::Owned(base.clone().adjusted(Grammar::Pprof)?),
    };
    let profile = profile.adjusted(Grammar::Pprof)?;
    let mut ratios = Vec::new();
    for index in 0..profile.sample_types().len() {
        let (kind, unit) = profile.sample_type(index);
        let other = base.sample_type_index(kind).filter(|other| base.sample_type(*other).1 == unit);
        let other = other.ok_or_else(|| Error::Incompatible(format!("the base has no {kind} in {unit}")))?;
        let total = profile.total(index);
        ratios.push(if total == 0 { 0.0 } else { base.total(other) as f64 / total as f64 });
    }
    scale(profile, &ratios)
}

/// The profile with the values of each sample type times a ratio. They are estimates then, which nothing estimates
/// again.
fn scale(profile: Profile, ratios: &[f64]) -> Result<Profile> {
    let mut parts = profile.adjusted(Grammar::Pprof)?.into_parts();
    parts.raw_values.clear();
    parts.sampling = Sampling::Exact;
    for values in parts.values.chunks_exact_mut(ratios.len()) {
        values.iter_mut().zip(ratios).for_each(|(value, ratio)| *value = (*value as f64 * ratio).round() as i64);
    }
    let kept: Vec<bool> =
        parts.values.chunks_exact(ratios.len()).map(|values| values.iter().any(|value| *value != 0)).collect();
    parts.retain_samples(|index| kept[index]);
    parts.finish()
}

fn labelled(profile: &Profile) -> Result<Profile> {
    let mut parts = profile.parts().clone();
    let label = Label { key: parts.intern(BASE_LABEL)?, value: LabelValue::Text(parts.intern("true")?) };
    parts.labels.clear();
    parts.label_ends.clear();
    for sample in profile.samples() {
        parts.labels.extend_from_slice(sample.labels);
        parts.labels.push(label);
        parts.label_ends.push(crate::parts::narrow(parts.labels.len(), "labels")?);
    }
    parts.finish()
}

#[cfg(test)]
mod tests;
