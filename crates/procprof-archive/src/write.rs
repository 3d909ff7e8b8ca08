//! [`PartWriter`]: profiles to the files of a part.

use std::collections::BTreeMap;

use foldhash::HashMap;
use procprof_profile::{Grammar, Label, LabelValue, LocationId, Profile, StringId};

use crate::frames::Frames;
use crate::header::{Header, Identity};
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

/// A label of a sample, in texts of [`Frames`].
pub(crate) type LabelRow = (StringId, Option<StringId>, Option<i64>, StringId);

/// The profiles of a part before they are written.
#[derive(Debug, Default)]
pub struct PartWriter {
    limits: PartLimits,
    pub(crate) frames: Frames,
    pub(crate) stacks: StackTree,
    pub(crate) label_sets: Vec<Vec<LabelRow>>,
    label_ids: HashMap<Vec<LabelRow>, u32>,
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
    /// [`Error::Profile`] when its values cannot be estimated, [`Error::TooLarge`] when a part cannot hold it: that part
    /// cannot be written any more. [`PartWriter::has_room_for`] tells before.
    pub fn add(&mut self, identity: Identity, profile: Profile) -> Result<()> {
        let id = identity.id;
        let profile = profile.adjusted(Grammar::Pprof).map_err(|source| Error::Profile { id, source })?;
        let locations = self.frames.add_locations(&profile)?;
        let texts = texts(&mut self.frames, &profile)?;
        let number = self.headers.len() as u32;
        let mut sums: BTreeMap<(u32, u32, u32), i64> = BTreeMap::new();
        for sample in profile.samples() {
            let mut stack = ROOT;
            for location in sample.stack.iter().rev() {
                for frame in locations.of(*location) {
                    stack = self.stacks.callee(stack, *frame);
                }
            }
            let labels = self.label_set(sample.labels, &texts);
            for (kind, value) in sample.values.iter().enumerate().filter(|(_, value)| **value != 0) {
                let key = (kind as u32, stack, labels);
                let row = |value| Row { kind: key.0, profile: number, stack, labels, value };
                let sum = sums.entry(key).or_insert(0);
                match sum.checked_add(*value) {
                    Some(total) => *sum = total,
                    // What no number can hold stays in rows of its own.
                    None => self.rows.push(row(std::mem::replace(sum, *value))),
                }
            }
        }
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

    fn label_set(&mut self, labels: &[Label], texts: &[StringId]) -> u32 {
        if labels.is_empty() {
            return 0;
        }
        let text = |id: StringId| texts.get(id.index()).copied().unwrap_or_default();
        let row = |label: &Label| match label.value {
            LabelValue::Text(value) => (text(label.key), Some(text(value)), None, StringId(0)),
            LabelValue::Number(number, unit) => (text(label.key), None, Some(number), text(unit)),
        };
        let mut set: Vec<LabelRow> = labels.iter().map(row).collect();
        set.sort_unstable();
        if let Some(id) = self.label_ids.get(&set) {
            return *id;
        }
        self.label_sets.push(set.clone());
        let id = self.label_sets.len() as u32;
        self.label_ids.insert(set, id);
        id
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
