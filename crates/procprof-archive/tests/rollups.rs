//! Hours of nodes: their sums are those of the profiles.

use std::collections::BTreeMap;
use std::sync::Arc;

use procprof_archive::{
    Archive, CompactLimits, Grain, Header, Hour, Identity, ObjectFolder, Part, PartLimits, PartWriter, ProfileSum,
    ReadLimits, Result, Selection, Table, Writer,
};
use procprof_profile::{Meta, Nanos, Profile, ProfileBuilder};
use proptest::prelude::*;
use tempfile::TempDir;

use crate::support::{HOUR, MadeSample, contents, identity, profile, samples, some_profiles};

const MINUTE: i64 = 60_000_000_000;
const HOURS: i64 = 60 * MINUTE;
/// A moment after the day of the profiles.
const NOW: Nanos = Nanos(HOUR.0 * HOURS + 48 * HOURS);

/// A profile of a day: its samples, minute of the day, node, and the value of a label of that.
type Made = (Profile, i64, u64, u8);

/// An archive with a part for each hour, which compaction then merges.
fn compacted(made: &[Made]) -> (TempDir, Archive, Part) {
    let folder = tempfile::tempdir().unwrap();
    let objects = ObjectFolder::create(folder.path().join("archive")).unwrap();
    let mut writers: BTreeMap<Hour, PartWriter> = BTreeMap::new();
    // A part of an hour without profiles, so that there are two at least.
    for hour in [0, 23] {
        writers.insert(Hour(HOUR.day().0 + hour), PartWriter::new(PartLimits::default()));
    }
    for (number, (profile, minute, node, zone)) in made.iter().enumerate() {
        let completed = Nanos(HOUR.day().start().0 + minute * MINUTE + number as i64);
        let duration = Nanos(if number % 3 == 0 { 0 } else { MINUTE });
        let identity = Identity { completed, node: *node, duration, ..identity(number as i64) };
        let labels = BTreeMap::from([("zone".to_owned(), zone.to_string())]);
        let meta = Meta { labels, lost: Some(number as u64), trigger: "schedule".to_owned(), ..profile.meta() };
        let profile = profile.clone().with_meta(&meta).unwrap();
        let writer = writers.entry(Hour::containing(completed)).or_default();
        writer.add(identity, profile).unwrap();
    }
    for (hour, writer) in writers {
        writer.write(&objects, Part::of_hour(hour, Writer(1), 0)).unwrap();
    }
    let archive = Archive::new(Arc::new(objects), ReadLimits::default());
    archive.compact(&CompactLimits { grace: Nanos(0), ..CompactLimits::default() }, &|| NOW, 7, &mut ()).unwrap();
    let part = *archive.parts().unwrap().whole.keys().next().unwrap();
    (folder, archive, part)
}

/// A sum by profiles, or by hours.
fn sum(archive: &Archive, part: Part, grain: Grain, selection: &Selection) -> Result<Option<(u64, Profile)>> {
    let mut sum = ProfileSum::new(archive.limits(), &|| false);
    sum.add_parts(archive, &[(part, grain)], &|part, grain| archive.headers_of(part, grain, selection))?;
    Ok(sum.finish()?.map(|merged| (merged.profiles, merged.profile)))
}

/// Profiles of a day before they are made: samples, minute, node, and the value of a label.
type Unmade = (Vec<MadeSample>, i64, u64, u8);

fn unmade() -> impl Strategy<Value = Vec<Unmade>> {
    prop::collection::vec((samples(), 0..1440_i64, 10_001..10_003_u64, 0..2_u8), 1..12)
}

/// Compares sums of profiles with sums of hours, of the whole day and of parts that begin or end at an hour.
fn check_sums(made: Vec<Unmade>, from: i64) -> std::result::Result<(), TestCaseError> {
    let made: Vec<Made> = made
        .into_iter()
        .map(|(samples, minute, node, zone)| (profile(&samples, 0x40_0000), minute, node, zone))
        .collect();
    let (_folder, archive, part) = compacted(&made);
    prop_assert_eq!(archive.parts().unwrap().rolled.into_iter().collect::<Vec<_>>(), [part]);
    prop_assert_eq!(archive.check(part).unwrap().wrong, Vec::<String>::new());
    let from = Some(Hour(HOUR.day().0 + from).start());
    for selection in [
        Selection::default(),
        Selection { from, ..Selection::default() },
        Selection { to: from, nodes: vec!["10001".to_owned()], ..Selection::default() },
    ] {
        let by = |grain| sum(&archive, part, grain, &selection).unwrap();
        let (profiles, hours) = (by(Grain::Profile), by(Grain::Hour));
        prop_assert_eq!(profiles.is_none(), hours.is_none());
        let (Some((count, profiles)), Some((other, hours))) = (profiles, hours) else { continue };
        prop_assert_eq!(count, other);
        prop_assert_eq!(contents(&profiles), contents(&hours));
        // An hour has no id, even if it is of one profile.
        prop_assert_eq!(Meta { id: None, ..profiles.meta() }, hours.meta());
        prop_assert_eq!(
            (profiles.time(), profiles.duration(), profiles.period()),
            (hours.time(), hours.duration(), hours.period())
        );
    }
    let listed = archive.list(part, Grain::Hour).unwrap();
    let profiles = archive.list(part, Grain::Profile).unwrap();
    prop_assert_eq!(listed.iter().map(|hour| hour.profiles).sum::<u64>(), profiles.len() as u64);
    prop_assert_eq!(
        listed.iter().map(|hour| hour.untimed).sum::<u64>(),
        profiles.iter().map(|profile| profile.untimed).sum::<u64>()
    );
    let completed = || profiles.iter().map(|profile| profile.completed);
    prop_assert_eq!(listed.iter().map(|hour| hour.first).min(), completed().min());
    prop_assert_eq!(listed.iter().map(|hour| hour.completed).max(), completed().max());
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(20))]

    #[test]
    fn a_sum_of_hours_is_that_of_their_profiles(made in unmade(), from in 0..24_i64) {
        check_sums(made, from)?;
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(256))]

    #[test]
    #[ignore = "takes minutes: `cargo xtask soak long` runs it"]
    fn sums_of_hours_are_those_of_their_profiles_in_many_archives(made in unmade(), from in 0..24_i64) {
        check_sums(made, from)?;
    }
}

/// The labels of a node tell its hours apart, so that a sum can be of those with a label alone.
#[test]
fn hours_are_of_one_set_of_labels() {
    let made: Vec<Made> =
        some_profiles().into_iter().zip(0..).map(|(profile, at)| (profile, at, 10_001, (at % 2) as u8)).collect();
    let (_folder, archive, part) = compacted(&made);
    let hours = archive.headers_of(part, Grain::Hour, &Selection::default()).unwrap();
    let zones = |(_, header): &(i64, Header)| (header.meta.labels["zone"].clone(), header.profiles);
    let half = (made.len() / 2) as u64;
    let expected = [("0".to_owned(), made.len() as u64 - half), ("1".to_owned(), half)];
    assert_eq!(hours.iter().map(zones).collect::<Vec<_>>(), expected);
}

/// Sums that are no numbers of 64 bits would not be exact.
#[test]
fn a_part_whose_sums_are_too_large_is_not_rolled_up() {
    let large = || {
        let mut builder = ProfileBuilder::new(&[("cpu", "nanoseconds")]);
        let stack = [builder.frame("main")];
        builder.sample(&stack, &[i64::MAX / 2 + 1], &[]);
        builder.finish().unwrap()
    };
    let (_folder, archive, part) = compacted(&[(large(), 0, 1, 0), (large(), 1, 1, 0)]);
    let parts = archive.parts().unwrap();
    assert_eq!((parts.whole.len(), parts.rolled.len()), (1, 0));
    assert_eq!(archive.check(part).unwrap().wrong, Vec::<String>::new());
    // An hour of its own each.
    let (_folder, archive, _) = compacted(&[(large(), 0, 1, 0), (large(), 61, 1, 0)]);
    assert_eq!(archive.parts().unwrap().rolled.len(), 1);
}

#[test]
fn roll_ups_that_are_not_those_of_the_profiles_are_found() {
    let made: Vec<Made> = some_profiles().into_iter().zip(0..).map(|(profile, at)| (profile, at, 10_001, 0)).collect();
    let (folder, archive, part) = compacted(&made);
    let (_other, others, other) = compacted(&made[1..]);
    for table in [Table::Rollups, Table::Hours] {
        let read = |archive: &Archive, part: Part| {
            let path = part.path(table);
            let size = archive.objects().size(&path).unwrap();
            archive.objects().read(&path, 0, size as usize).unwrap()
        };
        let (own, foreign) = (read(&archive, part), read(&others, other));
        assert_eq!(part, other, "both have the same ids");
        archive.objects().put(&part.path(table), &foreign).unwrap();
        let wrong = archive.check(part).unwrap().wrong;
        assert!(wrong.iter().any(|wrong| wrong.starts_with(&part.path(table))), "{wrong:?}");
        archive.objects().put(&part.path(table), &own).unwrap();
        assert_eq!(archive.check(part).unwrap().wrong, Vec::<String>::new());
    }
    std::fs::remove_file(folder.path().join("archive").join(part.path(Table::Rollups))).unwrap();
    assert!(archive.check(part).unwrap_err().is_not_found());
}
