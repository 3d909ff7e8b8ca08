//! The corrections a reader applies to what was measured: estimates from sampled counts, call sites from return
//! addresses.
//!
//! Estimates are made sample by sample and summed later, never the other way round: the correction is not linear. They
//! touch pairs of sample types in order, one counted in `count` and the next in `bytes`; other types stay as they are.

use foldhash::HashMap;

use crate::{Addr, Addresses, Line, Location, LocationId, MappingId, Parts, Profile, Result, Sampling, ValueType};

/// The reader whose rules are used for measured values and addresses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Grammar {
    /// Google pprof: integer estimates per sample, one subtracted from every return address (in CPU stacks: from all
    /// but the leaf).
    Pprof,
    /// jeprof: float estimates per sample, here rounded to the nearest integer; one subtracted from callers of heap and
    /// contention stacks and from every address of CPU stacks.
    Jeprof,
}

impl Profile {
    /// Whether values and addresses are as a grammar reads them, not as captured.
    pub fn is_adjusted(&self) -> bool {
        let scaled = self.parts.sampling == Sampling::Exact || self.is_estimated() || self.parts.values.is_empty();
        scaled && self.parts.addresses == Addresses::CallSite
    }

    /// The profile as that grammar reads it; a profile that is adjusted already is returned unchanged. An address 0 (a
    /// frame that is only a name) stays 0.
    ///
    /// # Errors
    /// [`Error::Invalid`](crate::Error::Invalid) when splitting locations passes 2^32 of them.
    pub fn adjusted(self, grammar: Grammar) -> Result<Profile> {
        if self.is_adjusted() {
            return Ok(self);
        }
        let mut parts = self.parts;
        if parts.sampling != Sampling::Exact && parts.raw_values.is_empty() {
            parts.raw_values = parts.values.clone();
            scale(&mut parts, grammar);
        }
        match (parts.addresses, grammar) {
            (Addresses::CallSite, _) => {}
            (Addresses::RawCpu, Grammar::Jeprof) | (Addresses::RawReturn, Grammar::Pprof) => {
                parts.locations.iter_mut().for_each(step_back)
            }
            (Addresses::RawCpu, Grammar::Pprof) | (Addresses::RawReturn, Grammar::Jeprof) => {
                step_callers_back(&mut parts)?
            }
        }
        if parts.addresses != Addresses::CallSite {
            parts.captured = std::mem::take(&mut parts.addresses);
        }
        parts.finish()
    }

    /// The profile as captured, from an adjusted one: measured values, return addresses as they were, locations that
    /// become equal joined. What was never adjusted is returned unchanged.
    ///
    /// # Errors
    /// None that a valid profile can cause.
    pub fn unadjusted(self) -> Result<Profile> {
        let mut parts = self.parts;
        if !parts.raw_values.is_empty() {
            parts.values = std::mem::take(&mut parts.raw_values);
        }
        if parts.addresses == Addresses::CallSite && parts.captured != Addresses::CallSite {
            for location in parts.locations.iter_mut().filter(|location| location.is_return) {
                location.address = Addr(location.address.0.wrapping_add(1));
                location.is_return = false;
            }
            join_equal_locations(&mut parts);
            parts.addresses = std::mem::take(&mut parts.captured);
        }
        parts.finish()
    }
}

fn scale(parts: &mut Parts, grammar: Grammar) {
    let pairs = pairs(parts);
    let sampling = parts.sampling;
    for values in parts.values.chunks_exact_mut(parts.sample_types.len()) {
        for count in &pairs {
            let (objects, bytes) = estimate(sampling, grammar, values[*count], values[count + 1]);
            values[*count] = objects;
            values[count + 1] = bytes;
        }
    }
}

/// Positions of the sample types that count objects and are followed by their bytes.
fn pairs(parts: &Parts) -> Vec<usize> {
    let unit = |kind: &ValueType| parts.strings.get(kind.unit).unwrap_or_default();
    let mut pairs = Vec::new();
    let mut index = 0;
    while index + 1 < parts.sample_types.len() {
        let found = unit(&parts.sample_types[index]) == "count" && unit(&parts.sample_types[index + 1]) == "bytes";
        if found {
            pairs.push(index);
        }
        index += 1 + usize::from(found);
    }
    pairs
}

fn estimate(sampling: Sampling, grammar: Grammar, objects: i64, bytes: i64) -> (i64, i64) {
    match (grammar, sampling) {
        (_, Sampling::Exact) => (objects, bytes),
        (Grammar::Pprof, Sampling::Poisson(rate) | Sampling::Linear(rate)) => pprof_estimate(rate, objects, bytes),
        (Grammar::Jeprof, Sampling::Poisson(rate)) => {
            jeprof_estimate(rate, objects, bytes, |sizes_per_rate| 1.0 / (1.0 - (-sizes_per_rate).exp()))
        }
        (Grammar::Jeprof, Sampling::Linear(rate)) => {
            jeprof_estimate(rate, objects, bytes, |sizes_per_rate| 1.0 / sizes_per_rate.min(1.0))
        }
    }
}

/// pprof has one rule for both kinds of sampling, truncates, and takes a rate of 1 or less as "everything was sampled".
fn pprof_estimate(rate: i64, objects: i64, bytes: i64) -> (i64, i64) {
    if objects == 0 || bytes == 0 {
        return (0, 0);
    }
    if rate <= 1 {
        return (objects, bytes);
    }
    let mean = bytes as f64 / objects as f64;
    let factor = 1.0 / (1.0 - (-mean / rate as f64).exp());
    ((objects as f64 * factor) as i64, (bytes as f64 * factor) as i64)
}

fn jeprof_estimate(rate: i64, objects: i64, bytes: i64, factor: impl Fn(f64) -> f64) -> (i64, i64) {
    if objects == 0 || bytes == 0 || rate <= 0 {
        return (objects, bytes);
    }
    let factor = factor(bytes as f64 / objects as f64 / rate as f64);
    ((objects as f64 * factor).round() as i64, (bytes as f64 * factor).round() as i64)
}

fn step_back(location: &mut Location) {
    if location.address != Addr(0) {
        location.address = Addr(location.address.0 - 1);
        location.is_return = true;
    }
}

/// Steps back where a location is a caller; one that is also a leaf is split in two.
fn step_callers_back(parts: &mut Parts) -> Result<()> {
    let mut is_caller = vec![false; parts.locations.len()];
    for range in stack_ranges(parts) {
        for id in parts.stacks[range].iter().skip(1) {
            is_caller[id.index()] = true;
        }
    }
    let mut leaves: HashMap<LocationId, LocationId> = HashMap::default();
    for leaf in stack_ranges(parts).filter(|range| !range.is_empty()).map(|range| range.start).collect::<Vec<_>>() {
        let id = parts.stacks[leaf];
        let location = parts.locations[id.index()];
        if !is_caller[id.index()] || location.address == Addr(0) {
            continue;
        }
        let split = match leaves.get(&id) {
            Some(split) => *split,
            None => {
                let lines = parts.lines[location.lines_start as usize..location.lines_end as usize].to_vec();
                parts.push_location(location, &lines)?
            }
        };
        leaves.insert(id, split);
        parts.stacks[leaf] = split;
    }
    let callers = parts.locations.iter_mut().zip(is_caller).filter(|(_, is_caller)| *is_caller);
    callers.for_each(|(location, _)| step_back(location));
    Ok(())
}

fn stack_ranges(parts: &Parts) -> impl Iterator<Item = std::ops::Range<usize>> + '_ {
    let starts = std::iter::once(0).chain(parts.stack_ends.iter().copied());
    starts.zip(&parts.stack_ends).map(|(start, end)| start as usize..*end as usize)
}

/// All of a captured location but its position: mapping, address, whether it is folded, lines.
type Content<'a> = (Option<MappingId>, Addr, bool, &'a [Line]);

fn join_equal_locations(parts: &mut Parts) {
    let mut known: HashMap<Content<'_>, LocationId> = HashMap::default();
    let mut kept: Vec<Location> = Vec::with_capacity(parts.locations.len());
    let mut new_ids = Vec::with_capacity(parts.locations.len());
    for location in &parts.locations {
        let lines = &parts.lines[location.lines_start as usize..location.lines_end as usize];
        let id = *known.entry((location.mapping, location.address, location.is_folded, lines)).or_insert_with(|| {
            kept.push(*location);
            LocationId(kept.len() as u32 - 1)
        });
        new_ids.push(id);
    }
    for id in &mut parts.stacks {
        *id = new_ids[id.index()];
    }
    parts.locations = kept;
}

#[cfg(test)]
mod tests;
