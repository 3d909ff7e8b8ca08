//! Which samples a report is about: those whose stacks pass `focus` and `ignore`.
//!
//! An expression matches a frame by its function's name, its source file or its mapping's file. One ignored frame leaves the whole
//! stack out; without `focus` every other stack stays; a sample without frames stays only when nothing was asked.

use procprof_profile::{LocationId, Profile, Sample};
use regex::Regex;

use crate::{Options, Result};

/// The samples that pass.
pub(crate) struct Selection<'a> {
    profile: &'a Profile,
    verdicts: Option<Vec<Verdict>>,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Verdict {
    Neutral,
    Focused,
    Ignored,
}

impl<'a> Selection<'a> {
    pub(crate) fn new(profile: &'a Profile, options: &Options) -> Selection<'a> {
        let (focus, ignore) = (options.focus.as_ref(), options.ignore.as_ref());
        if focus.is_none() && ignore.is_none() {
            return Selection { profile, verdicts: None };
        }
        let ignored = matching(profile, ignore);
        let focused = matching(profile, focus);
        let verdict = |index: usize| match (&ignored, &focused) {
            (Some(ignored), _) if ignored[index] => Verdict::Ignored,
            (_, Some(focused)) if !focused[index] => Verdict::Neutral,
            _ => Verdict::Focused,
        };
        Selection { profile, verdicts: Some((0..profile.locations().len()).map(verdict).collect()) }
    }

    /// Whether something was asked, so that a sample may be left out.
    pub(crate) fn is_partial(&self) -> bool {
        self.verdicts.is_some()
    }

    pub(crate) fn holds(&self, sample: &Sample<'_>) -> bool {
        let Some(verdicts) = &self.verdicts else { return true };
        let mut focused = false;
        for location in sample.stack {
            match verdicts[location.index()] {
                Verdict::Ignored => return false,
                Verdict::Focused => focused = true,
                Verdict::Neutral => {}
            }
        }
        focused
    }

    pub(crate) fn samples(&self) -> impl Iterator<Item = Sample<'a>> {
        self.profile.samples().filter(|sample| self.holds(sample))
    }

    /// A profile with only these samples; everything else is kept.
    pub(crate) fn to_profile(&self) -> Result<Profile> {
        let profile = self.profile;
        let mut parts = profile.clone().into_parts();
        parts.values.clear();
        parts.raw_values.clear();
        parts.stacks.clear();
        parts.stack_ends.clear();
        parts.labels.clear();
        parts.label_ends.clear();
        for sample in self.samples() {
            parts.push_sample(sample.stack, sample.values, sample.labels)?;
            parts.raw_values.extend_from_slice(sample.raw_values);
        }
        Ok(parts.finish()?)
    }
}

/// For each location, whether the expression matches it.
fn matching(profile: &Profile, expression: Option<&Regex>) -> Option<Vec<bool>> {
    let expression = expression?;
    let matches = |id| expression.is_match(profile.string(id));
    let functions: Vec<bool> = profile.functions().iter().map(|function| matches(function.name) || matches(function.filename)).collect();
    let mappings: Vec<bool> = profile.mappings().iter().map(|mapping| matches(mapping.filename)).collect();
    let locations = profile.locations().iter().enumerate().map(|(index, location)| {
        let lines = profile.lines(LocationId(index as u32));
        lines.iter().any(|line| functions[line.function.index()]) || location.mapping.is_some_and(|id| mappings[id.index()])
    });
    Some(locations.collect())
}
