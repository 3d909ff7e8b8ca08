//! The summary of a profile in lists, computed once: totals, top functions, and a thumbnail of the flame graph; like
//! the reports, both of these leave out allocator frames at the leaf.

use std::borrow::Cow;
use std::collections::HashMap;

use procprof_profile::{FunctionId, LocationId, Profile};
use procprof_store::{Summary, TopFunction, Total};

use super::thumbnail;

const TOP: usize = 10;

/// The summary of an adjusted and, as far as it goes, symbolized profile.
pub(crate) fn summarize(profile: &Profile) -> Summary {
    let totals = (0..profile.sample_types().len()).map(|index| {
        let (kind, unit) = profile.sample_type(index);
        Total { kind: kind.to_owned(), unit: unit.to_owned(), value: profile.total(index) }
    });
    // A profile whose frames can't be left out is summed up with them.
    let shown = procprof_report::without_uninteresting(profile).unwrap_or(Cow::Borrowed(profile));
    Summary {
        totals: totals.collect(),
        samples: profile.sample_count() as u64,
        top: top(&shown),
        thumbnail: thumbnail::draw(&shown),
    }
}

/// The functions with the largest own values.
fn top(profile: &Profile) -> Vec<TopFunction> {
    let column = profile.default_sample_type();
    let mut own: HashMap<&str, i64> = HashMap::new();
    let mut unknown = 0_i64;
    for sample in profile.samples() {
        let value = sample.values.get(column).copied().unwrap_or(0);
        match sample.stack.first().and_then(|leaf| leaf_name(profile, *leaf)) {
            Some(name) => {
                let sum = own.entry(name).or_default();
                *sum = sum.saturating_add(value);
            }
            None => unknown = unknown.saturating_add(value),
        }
    }
    let mut rows: Vec<TopFunction> =
        own.into_iter().map(|(name, value)| TopFunction { name: name.to_owned(), value }).collect();
    if unknown > 0 {
        rows.push(TopFunction { name: "[unknown]".to_owned(), value: unknown });
    }
    rows.retain(|row| row.value != 0);
    rows.sort_by(|a, b| b.value.cmp(&a.value).then_with(|| a.name.cmp(&b.name)));
    rows.truncate(TOP);
    rows
}

/// The innermost function at a location.
fn leaf_name(profile: &Profile, location: LocationId) -> Option<&str> {
    profile.lines(location).first().map(|line| name(profile, line.function))
}

/// A function's name.
pub(crate) fn name(profile: &Profile, function: FunctionId) -> &str {
    profile.string(profile.function(function).name)
}
