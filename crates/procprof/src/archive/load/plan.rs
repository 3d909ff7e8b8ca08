//! [`plan`]: what has to be done so that a database has the parts of an archive.
//!
//! Compaction replaces parts of a day by parts of the same day. The new ones of a day are therefore loaded and the old
//! ones removed in one step. A day from which nothing has to be removed has a step for each of its new parts.

use std::collections::{BTreeMap, BTreeSet};

use procprof_archive::{Hour, Part};

/// What is done at once.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Step {
    /// Parts that are loaded.
    pub(super) add: Vec<Part>,
    /// Parts that are removed then.
    pub(super) remove: Vec<Part>,
}

/// The steps, oldest day first, for the parts that are `loaded` whole, and those that were `begun`, of which a load
/// that was interrupted may have left rows. A part that has `failed` is not tried again; a day that has one stays as it
/// is when something had to be removed from it, since the part may be what replaces it.
pub(super) fn plan(
    archived: &BTreeSet<Part>,
    loaded: &BTreeSet<Part>,
    begun: &BTreeSet<Part>,
    failed: &BTreeSet<Part>,
) -> Vec<Step> {
    let mut days: BTreeMap<Hour, Step> = BTreeMap::new();
    for part in archived.difference(loaded) {
        days.entry(part.hour.day()).or_default().add.push(*part);
    }
    for part in loaded.union(begun).filter(|part| !archived.contains(part)) {
        days.entry(part.hour.day()).or_default().remove.push(*part);
    }
    let mut steps = Vec::new();
    for day in days.into_values() {
        let has_failed = day.add.iter().any(|part| failed.contains(part));
        match day.remove.is_empty() {
            true => {
                let new = day.add.into_iter().filter(|part| !failed.contains(part));
                steps.extend(new.map(|part| Step { add: vec![part], remove: Vec::new() }));
            }
            false if has_failed => {}
            false => steps.push(day),
        }
    }
    steps
}

#[cfg(test)]
mod tests {
    use procprof_archive::{Span, Writer};

    use super::*;

    fn part(hour: i64, number: u32) -> Part {
        Part::of_hour(Hour(24 * 20_000 + hour), Writer(7), number)
    }

    fn day(day: i64) -> Part {
        Part { span: Span::Day, ..part(24 * day, 0) }
    }

    fn steps(archived: &[Part], loaded: &[Part], failed: &[Part]) -> Vec<(Vec<Part>, Vec<Part>)> {
        let set = |parts: &[Part]| parts.iter().copied().collect::<BTreeSet<Part>>();
        let steps = plan(&set(archived), &set(loaded), &BTreeSet::new(), &set(failed));
        steps.into_iter().map(|step| (step.add, step.remove)).collect()
    }

    #[test]
    fn new_parts_are_steps_of_their_own() {
        let all = [part(0, 0), part(0, 1), part(30, 0)];
        assert_eq!(steps(&all, &[], &[]), all.map(|part| (vec![part], vec![])));
        assert_eq!(steps(&all, &all[1..], &[]), [(vec![all[0]], vec![])]);
        assert_eq!(steps(&all, &all, &[]), []);
        assert_eq!(steps(&all, &[], &all[..1]), [(vec![all[1]], vec![]), (vec![all[2]], vec![])]);
    }

    #[test]
    fn what_was_interrupted_is_loaded_again_or_removed() {
        let (there, gone) = (part(0, 0), part(30, 0));
        let steps = plan(&BTreeSet::from([there]), &BTreeSet::new(), &BTreeSet::from([there, gone]), &BTreeSet::new());
        let add = Step { add: vec![there], remove: Vec::new() };
        assert_eq!(steps, [add, Step { add: Vec::new(), remove: vec![gone] }]);
    }

    #[test]
    fn what_replaces_and_what_is_replaced_go_together() {
        let (old, late) = ([part(0, 0), part(1, 0)], part(2, 0));
        let merged = day(0);
        assert_eq!(steps(&[merged, late], &old, &[]), [(vec![merged, late], old.to_vec())]);
        assert_eq!(steps(&[merged, late], &old, &[merged]), []);
        // Retention drops a whole day, and another day is not concerned.
        let other = part(30, 0);
        assert_eq!(steps(&[other], &old, &[]), [(vec![], old.to_vec()), (vec![other], vec![])]);
    }
}
