//! Kinds of waits in profiles of contention: the label [`LABEL`] of a sample tells waits for locks from others.
//!
//! A JVM parks a thread by one mechanism for all of them, and its recordings have them all. Most are workers of idle
//! pools. Reports therefore count the waits for locks, and name the sums of the others.

use std::borrow::Cow;

use crate::{LabelValue, Profile, Result, Sample};

/// The key of the label, whose values are the [names](Wait::name) of kinds.
pub const LABEL: &str = "wait";

/// The sample type that profiles of waits have.
const COUNTED: &str = "contentions";

/// What a thread waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Wait {
    /// A lock that another thread holds.
    Lock,
    /// The next task or event of the thread's own loop.
    Idle,
    /// Anything else: a result, a latch, a connection, an element of a queue.
    Other,
}

impl Wait {
    /// All kinds.
    pub const ALL: [Wait; 3] = [Wait::Lock, Wait::Idle, Wait::Other];

    /// The value of the label.
    pub const fn name(self) -> &'static str {
        match self {
            Wait::Lock => "lock",
            Wait::Idle => "idle",
            Wait::Other => "wait",
        }
    }

    /// The kind of a sample that has the label.
    pub fn of_sample(profile: &Profile, sample: &Sample<'_>) -> Option<Wait> {
        let label = sample.labels.iter().find(|label| profile.string(label.key) == LABEL)?;
        let LabelValue::Text(text) = label.value else { return None };
        Wait::ALL.into_iter().find(|wait| wait.name() == profile.string(text))
    }
}

/// The sums of samples that are left out, for each kind by sample type; empty for a kind that has none.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LeftOutWaits([Vec<i64>; Wait::ALL.len()]);

impl LeftOutWaits {
    /// Kinds with samples that are left out, and their sum of a sample type.
    pub fn sums(&self, sample_type: usize) -> impl Iterator<Item = (Wait, i64)> {
        Wait::ALL.into_iter().filter_map(move |wait| Some((wait, *self.0[wait as usize].get(sample_type)?)))
    }

    fn add(&mut self, wait: Wait, values: &[i64]) {
        let sums = &mut self.0[wait as usize];
        sums.resize(values.len(), 0);
        sums.iter_mut().zip(values).for_each(|(sum, value)| *sum = sum.saturating_add(*value));
    }
}

/// A profile of contention without its waits of other kinds than `kept`. Samples without the label stay.
///
/// # Errors
/// As [`Parts::finish`](crate::Parts::finish); none for a profile that is whole.
pub fn without_others<'a>(profile: Cow<'a, Profile>, kept: Wait) -> Result<(Cow<'a, Profile>, LeftOutWaits)> {
    let mut left_out = LeftOutWaits::default();
    if profile.sample_type_index(COUNTED).is_none() {
        return Ok((profile, left_out));
    }
    let stays: Vec<bool> = profile
        .samples()
        .map(|sample| {
            let other = Wait::of_sample(&profile, &sample).filter(|wait| *wait != kept);
            other.inspect(|wait| left_out.add(*wait, sample.values)).is_none()
        })
        .collect();
    if !stays.contains(&false) {
        return Ok((profile, left_out));
    }
    let mut parts = profile.into_owned().into_parts();
    parts.retain_samples(|index| stays[index]);
    Ok((Cow::Owned(parts.finish()?), left_out))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ProfileBuilder;

    fn profile(kind: &str) -> Profile {
        let mut builder = ProfileBuilder::new(&[(kind, "count"), ("delay", "nanoseconds")]);
        let frame = builder.frame("f");
        for (label, value) in [(Some("lock"), 1), (Some("idle"), 2), (Some("idle"), 4), (Some("wait"), 8), (None, 16)] {
            let labels: Vec<_> = label.map(|name| builder.text_label(LABEL, name)).into_iter().collect();
            builder.sample(&[frame], &[value, 10 * value], &labels);
        }
        builder.finish().unwrap()
    }

    #[test]
    fn waits_of_other_kinds_are_left_out_and_summed_up() {
        let cases = [
            (Wait::Lock, 170, vec![(Wait::Idle, 60), (Wait::Other, 80)]),
            (Wait::Idle, 220, vec![(Wait::Lock, 10), (Wait::Other, 80)]),
            (Wait::Other, 240, vec![(Wait::Lock, 10), (Wait::Idle, 60)]),
        ];
        for (kept, total, others) in cases {
            let (shown, left_out) = without_others(Cow::Owned(profile("contentions")), kept).unwrap();
            assert_eq!((shown.total(1), left_out.sums(1).collect::<Vec<_>>()), (total, others), "{kept:?}");
        }
    }

    #[test]
    fn the_label_means_nothing_in_other_profiles() {
        let (shown, left_out) = without_others(Cow::Owned(profile("calls")), Wait::Lock).unwrap();
        assert_eq!((shown.total(0), left_out), (31, LeftOutWaits::default()));
    }
}
