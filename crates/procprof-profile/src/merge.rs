//! Sums profiles.
//!
//! Profiles are adjusted by [`Grammar::Pprof`] first when they are not adjusted yet: estimates are summed, sums are
//! never estimated. Samples with the same stack and labels become one; samples of which nothing is left are dropped.
//! The result holds no measured values beside the estimates, and depends on the set of profiles only, not on their
//! order:
//!
//! - sample types must be the same, in any order;
//! - mappings of one file (by build id, else path, with the same size and offset) become one, and addresses in it move
//!   along, so that runs of a program at other addresses add up;
//! - time is the earliest, duration the sum, period the longest;
//! - comments are united; facts of ours (`#procprof:`) stay where all say the same, see
//!   [`Meta::merged`](crate::Meta::merged).

mod canonical;
mod header;
mod mappings;

use std::hash::BuildHasher;

use foldhash::HashMap;

use crate::{
    Addr, Addresses, Function, FunctionId, Grammar, Label, LabelValue, Line, Location, LocationId, Profile,
    ProfileBuilder, Result, StringId,
};
use header::Header;
use mappings::MergedMappings;

/// Samples between two looks at whether to go on.
const CHECKED_EVERY: usize = 4096;

/// The sum of profiles, at least one.
///
/// # Errors
/// [`Error::Incompatible`](crate::Error::Incompatible) when there is none or their sample types differ,
/// [`Error::Invalid`](crate::Error::Invalid) when the sum passes 2^32 of something.
pub fn merge(profiles: &[&Profile]) -> Result<Profile> {
    merge_while(profiles, &|| true)
}

/// The same as long as `goes_on` holds, which is called now and then.
///
/// # Errors
/// As [`merge`]; [`Error::Stopped`](crate::Error::Stopped) when it no longer holds.
pub fn merge_while(profiles: &[&Profile], goes_on: &dyn Fn() -> bool) -> Result<Profile> {
    let mut terms = Vec::with_capacity(profiles.len());
    for profile in profiles {
        check(goes_on)?;
        terms.push(Term::new(profile, 1)?);
    }
    sum_while(&terms, &terms, goes_on)
}

fn check(goes_on: &dyn Fn() -> bool) -> Result<()> {
    if goes_on() { Ok(()) } else { Err(crate::Error::Stopped) }
}

/// A profile and how often it counts.
pub(crate) struct Term {
    profile: Profile,
    factor: i128,
}

impl Term {
    pub(crate) fn new(profile: &Profile, factor: i128) -> Result<Term> {
        Ok(Term { profile: profile.clone().adjusted(Grammar::Pprof)?, factor })
    }
}

/// The sum of `terms`, with everything but samples taken from `described`.
pub(crate) fn sum(terms: &[Term], described: &[Term]) -> Result<Profile> {
    sum_while(terms, described, &|| true)
}

fn sum_while(terms: &[Term], described: &[Term], goes_on: &dyn Fn() -> bool) -> Result<Profile> {
    let header = Header::merge(described)?;
    let mappings = MergedMappings::merge(terms, described);
    let mut sum = Sum::new(&header, &mappings);
    for (index, term) in terms.iter().enumerate() {
        sum.add(term, index, header.columns(&term.profile)?, goes_on)?;
    }
    sum.finish(&header)
}

/// A sum under construction. Samples are found again by a hash of their stack and labels; equal hashes are chained
/// through `next`.
struct Sum<'a> {
    builder: ProfileBuilder,
    mappings: &'a MergedMappings,
    keeps_returns: bool,
    width: usize,
    locations: HashMap<(Location, Vec<Line>), LocationId>,
    samples: HashMap<u64, u32>,
    next: Vec<Option<u32>>,
    sums: Vec<i128>,
}

impl<'a> Sum<'a> {
    fn new(header: &Header, mappings: &'a MergedMappings) -> Sum<'a> {
        let mut builder = ProfileBuilder::new(&header.sample_types());
        mappings.add_to(&mut builder);
        Sum {
            builder,
            mappings,
            keeps_returns: header.captured != Addresses::CallSite,
            width: header.sample_types().len(),
            locations: HashMap::default(),
            samples: HashMap::default(),
            next: Vec::new(),
            sums: Vec::new(),
        }
    }

    fn add(&mut self, term: &Term, index: usize, columns: Vec<usize>, goes_on: &dyn Fn() -> bool) -> Result<()> {
        check(goes_on)?;
        let profile = &term.profile;
        let strings: Vec<StringId> = profile.parts().strings.iter().map(|text| self.builder.intern(text)).collect();
        let functions: Vec<FunctionId> = profile.functions().iter().map(|one| self.function(one, &strings)).collect();
        let ids = (0..profile.locations().len()).map(|id| LocationId(id as u32));
        let locations: Vec<LocationId> = ids.map(|id| self.location(profile, index, id, &functions)).collect();
        let mut stack = Vec::new();
        let mut labels = Vec::new();
        let samples = profile.samples().filter(|sample| sample.values.iter().any(|value| *value != 0));
        for (number, sample) in samples.enumerate() {
            if number % CHECKED_EVERY == 0 {
                check(goes_on)?;
            }
            stack.clear();
            stack.extend(sample.stack.iter().map(|id| locations[id.index()]));
            labels.clear();
            labels.extend(sample.labels.iter().map(|one| label(one, &strings)));
            labels.sort_unstable_by_key(label_key);
            let position = self.sample(&stack, &labels) as usize * self.width;
            for (sum, column) in self.sums[position..].iter_mut().zip(&columns) {
                *sum += term.factor * i128::from(sample.values[*column]);
            }
        }
        Ok(())
    }

    fn function(&mut self, function: &Function, strings: &[StringId]) -> FunctionId {
        self.builder.function(Function {
            name: strings[function.name.index()],
            system_name: strings[function.system_name.index()],
            filename: strings[function.filename.index()],
            start_line: function.start_line,
        })
    }

    fn location(&mut self, profile: &Profile, index: usize, id: LocationId, functions: &[FunctionId]) -> LocationId {
        let old = profile.location(id);
        let lines: Vec<Line> =
            profile.lines(id).iter().map(|line| Line { function: functions[line.function.index()], ..*line }).collect();
        let (mapping, moved) = match old.mapping {
            Some(mapping) => self.mappings.place(index, mapping),
            None => (None, 0),
        };
        // Address 0 is a frame that is only a name.
        let address = if old.address == Addr(0) { old.address } else { Addr(old.address.0.wrapping_add(moved)) };
        let is_return = old.is_return && self.keeps_returns;
        let location = Location { mapping, address, is_return, is_folded: old.is_folded, lines_start: 0, lines_end: 0 };
        let key = (location, lines);
        if let Some(known) = self.locations.get(&key) {
            return *known;
        }
        let new = self.builder.location(location, &key.1);
        self.locations.insert(key, new);
        new
    }

    fn sample(&mut self, stack: &[LocationId], labels: &[Label]) -> u32 {
        let hash = self.samples.hasher().hash_one((stack, labels));
        let first = self.samples.get(&hash).copied();
        let mut seen = first;
        while let Some(position) = seen {
            if self.is_sample(position as usize, stack, labels) {
                return position;
            }
            seen = self.next[position as usize];
        }
        let position = self.next.len() as u32;
        self.builder.sample(stack, &vec![0; self.width], labels);
        self.sums.resize(self.sums.len() + self.width, 0);
        self.next.push(first);
        self.samples.insert(hash, position);
        position
    }

    fn is_sample(&mut self, position: usize, stack: &[LocationId], labels: &[Label]) -> bool {
        let parts = self.builder.parts_mut();
        parts.stacks[parts.stack_range(position)] == *stack && parts.labels[parts.label_range(position)] == *labels
    }

    fn finish(mut self, header: &Header) -> Result<Profile> {
        header.add_to(&mut self.builder);
        let mut parts = self.builder.finish()?.into_parts();
        parts.values = self.sums.iter().map(|sum| (*sum).clamp(i64::MIN.into(), i64::MAX.into()) as i64).collect();
        let width = self.width;
        let sums = self.sums;
        parts.retain_samples(|index| sums[index * width..(index + 1) * width].iter().any(|sum| *sum != 0));
        parts.compact()?;
        canonical::sort(&mut parts)?;
        parts.finish()
    }
}

fn label(label: &Label, strings: &[StringId]) -> Label {
    let value = match label.value {
        LabelValue::Text(text) => LabelValue::Text(strings[text.index()]),
        LabelValue::Number(number, unit) => LabelValue::Number(number, strings[unit.index()]),
    };
    Label { key: strings[label.key.index()], value }
}

/// Any total order of labels.
fn label_key(label: &Label) -> (StringId, bool, i64, StringId) {
    match label.value {
        LabelValue::Text(text) => (label.key, false, 0, text),
        LabelValue::Number(number, unit) => (label.key, true, number, unit),
    }
}

#[cfg(test)]
mod tests;
