//! Reading a recording: names, shares of functions, and bounds for them.

use std::collections::BTreeSet;

use procprof_host::Recording;
use procprof_profile::{LabelValue, LocationId, Profile, Sample};
use procprof_symbolize::{Sources, symbolize_profile};

/// The profile of a recording with names.
pub(crate) fn named(recording: &Recording) -> Profile {
    let mut sources = Sources { this_boot: true, proven_files: &recording.files, ..Sources::default() };
    symbolize_profile(recording.profile.clone(), &mut sources).unwrap().0
}

/// The names of the functions of a stack, leaf first.
pub(crate) fn functions<'p>(profile: &'p Profile, stack: &[LocationId]) -> Vec<&'p str> {
    let lines = stack.iter().flat_map(|location| profile.lines(*location));
    lines.map(|line| profile.string(profile.function(line.function).name)).collect()
}

/// The samples that a condition holds for, and all.
pub(crate) fn count(profile: &Profile, condition: impl Fn(&Sample<'_>) -> bool) -> (f64, f64) {
    let all: i64 = profile.samples().map(|sample| sample.values[0]).sum();
    let some: i64 = profile.samples().filter(condition).map(|sample| sample.values[0]).sum();
    (some as f64, all as f64)
}

/// The samples with a function anywhere in their stack, and all.
pub(crate) fn with_function(profile: &Profile, name: &str) -> (f64, f64) {
    count(profile, |sample| functions(profile, sample.stack).contains(&name))
}

/// The texts of a label.
pub(crate) fn labels(profile: &Profile, key: &str) -> BTreeSet<String> {
    let of_sample = |sample: Sample<'_>| label(profile, &sample, key);
    profile.samples().filter_map(of_sample).collect()
}

/// The text of a sample's label.
pub(crate) fn label(profile: &Profile, sample: &Sample<'_>, key: &str) -> Option<String> {
    let found = sample.labels.iter().find(|label| profile.string(label.key) == key)?;
    Some(match found.value {
        LabelValue::Text(text) => profile.string(text).to_owned(),
        LabelValue::Number(number, _) => number.to_string(),
    })
}

/// Asserts that a share of samples is as expected, within five standard deviations.
pub(crate) fn assert_share(what: &str, (some, all): (f64, f64), expected: f64) {
    assert!(all > 0.0, "{what}: no samples");
    let deviation = (expected * (1.0 - expected) / all).sqrt();
    let share = some / all;
    assert!((share - expected).abs() <= 5.0 * deviation, "{what}: {share:.4} of {all} samples, expected {expected}");
}
