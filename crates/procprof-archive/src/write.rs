//! [`PartWriter`]: profiles to the files of a part.

use std::collections::BTreeMap;

use procprof_profile::{Grammar, LocationId, Profile, StringId};

use crate::frames::Frames;
use crate::header::{Header, Identity};
use crate::label_sets::LabelSets;
use crate::part::LOCAL_BITS;
use crate::tree::{ROOT, StackTree};
use crate::{Error, Result};

/// When a part is full: the memory that writing takes follows from these.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PartLimits {
    /// Values of samples.
    pub rows: usize,
    /// Stacks, with all that others begin with.
    pub stacks: usize,
    /// Bytes of functions' names and other texts.
    pub text_bytes: usize,
}

impl Default for PartLimits {
    fn default() -> PartLimits {
        PartLimits { rows: 1 << 21, stacks: 1 << 20, text_bytes: 64 << 20 }
    }
}

/// A value of a sample. Profiles and stacks are numbered in the order in which they were added.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Row {
    pub(crate) kind: u32,
    pub(crate) profile: u32,
    pub(crate) stack: u32,
    /// The set of labels; 0 for none.
    pub(crate) labels: u32,
    pub(crate) value: i64,
}

/// The profiles of a part before they are written.
#[derive(Debug, Default)]
pub struct PartWriter {
    limits: PartLimits,
    pub(crate) frames: Frames,
    pub(crate) stacks: StackTree,
    pub(crate) label_sets: LabelSets,
    pub(crate) headers: Vec<Header>,
    pub(crate) rows: Vec<Row>,
}

/// What was written.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Written {
    /// Profiles.
    pub profiles: u64,
    /// Values of samples.
    pub rows: u64,
    /// Bytes of the files.
    pub bytes: u64,
}

impl PartWriter {
    /// A part without profiles.
    pub fn new(limits: PartLimits) -> PartWriter {
        PartWriter { limits, ..PartWriter::default() }
    }

    /// Whether there is no profile yet.
    pub fn is_empty(&self) -> bool {
        self.headers.is_empty()
    }

    /// Whether no profile should be added any more.
    pub fn is_full(&self) -> bool {
        self.rows.len() >= self.limits.rows
            || self.stacks.len() >= self.limits.stacks
            || self.frames.text_bytes() >= self.limits.text_bytes
    }

    /// Whether a profile surely fits beside those that are there; counted as if nothing in it were there yet. One that
    /// does not fit should be added to a part without others, which holds it even if it exceeds the limits.
    pub fn has_room_for(&self, profile: &Profile) -> bool {
        let parts = profile.parts();
        let lengths: Vec<usize> =
            (0..profile.locations().len()).map(|at| profile.lines(LocationId(at as u32)).len().max(1)).collect();
        let frames_of = |stack: &[LocationId]| stack.iter().map(|id| lengths[id.index()]).sum::<usize>();
        let stacks: usize = profile.samples().map(|sample| frames_of(sample.stack)).sum();
        let labelled = profile.samples().filter(|sample| !sample.labels.is_empty()).count();
        let texts: usize = parts.strings.iter().map(str::len).sum();
        let ids = 1 << LOCAL_BITS;
        self.rows.len() + profile.sample_count() * profile.sample_types().len() <= self.limits.rows
            && self.stacks.len() + stacks <= self.limits.stacks.min(ids - 1)
            && self.frames.text_bytes() + texts <= self.limits.text_bytes
            && self.frames.len() + lengths.iter().sum::<usize>() < ids
            && self.label_sets.len() + labelled < ids
            && self.headers.len() + 1 < ids
    }

    /// Adds a profile. Its values are those of [`Grammar::Pprof`]; equal stacks with equal labels become one.
    ///
    /// # Errors
    /// [`Error::Profile`] when its values cannot be estimated, [`Error::TooLarge`] when a part cannot hold it, which
    /// [`PartWriter::has_room_for`] tells before: that part cannot be written any more.
    pub fn add(&mut self, identity: Identity, profile: Profile) -> Result<()> {
        let id = identity.id;
        let profile = profile.adjusted(Grammar::Pprof).map_err(|source| Error::Profile { id, source })?;
        let number = self.headers.len() as u32;
        let mut sums: BTreeMap<(u32, u32, u32), i64> = BTreeMap::new();
        let rows = &mut self.rows;
        let add = |kind: usize, stack, labels, value: i64| {
            let key = (kind as u32, stack, labels);
            let row = |value| Row { kind: key.0, profile: number, stack, labels, value };
            let sum = sums.entry(key).or_insert(0);
            match sum.checked_add(value) {
                Some(total) => *sum = total,
                // What no number can hold stays in rows of its own.
                None => rows.push(row(std::mem::replace(sum, value))),
            }
        };
        each_value(&mut self.frames, &mut self.stacks, &mut self.label_sets, &profile, add)?;
        let rows = sums.into_iter().filter(|(_, value)| *value != 0);
        self.rows.extend(rows.map(|((kind, stack, labels), value)| Row {
            kind,
            profile: number,
            stack,
            labels,
            value,
        }));
        self.headers.push(Header::new(identity, &profile));
        self.check()
    }

    /// Checks that a part's ids suffice.
    pub(crate) fn check(&self) -> Result<()> {
        let limit = 1 << LOCAL_BITS;
        let counts = [
            ("stacks of a part", self.stacks.len()),
            ("frames of a part", self.frames.len()),
            ("sets of labels of a part", self.label_sets.len()),
            ("profiles of a part", self.headers.len()),
        ];
        match counts.into_iter().find(|(_, count)| *count >= limit) {
            None => Ok(()),
            Some((what, count)) => {
                Err(Error::TooLarge { what: what.to_owned(), size: count as u64, limit: limit as u64 })
            }
        }
    }
}

/// Adds the frames, stacks and labels of a profile, and passes each value that is not 0 on: the number of its kind, its
/// stack, its labels, and the value.
pub(crate) fn each_value(
    frames: &mut Frames,
    stacks: &mut StackTree,
    label_sets: &mut LabelSets,
    profile: &Profile,
    mut each: impl FnMut(usize, u32, u32, i64),
) -> Result<()> {
    let locations = frames.add_locations(profile)?;
    let texts = texts(frames, profile)?;
    // The locations of the sample before, from the root, each with the stack up to it: neighbours often have callers in
    // common.
    let mut path: Vec<(LocationId, u32)> = Vec::new();
    for sample in profile.samples() {
        let callers = sample.stack.iter().rev();
        let common = path.iter().zip(callers.clone()).take_while(|((known, _), location)| known == *location).count();
        path.truncate(common);
        let mut stack = path.last().map_or(ROOT, |(_, stack)| *stack);
        for location in callers.skip(common) {
            for frame in locations.of(*location) {
                stack = stacks.callee(stack, *frame);
            }
            path.push((*location, stack));
        }
        let labels = label_sets.add_labels(sample.labels, &texts);
        for (kind, value) in sample.values.iter().enumerate().filter(|(_, value)| **value != 0) {
            each(kind, stack, labels, *value);
        }
    }
    Ok(())
}

fn texts(frames: &mut Frames, profile: &Profile) -> Result<Vec<StringId>> {
    let mut ids = Vec::new();
    if profile.parts().label_ends.is_empty() {
        return Ok(ids);
    }
    for text in profile.parts().strings.iter() {
        ids.push(frames.intern(text)?);
    }
    Ok(ids)
}
