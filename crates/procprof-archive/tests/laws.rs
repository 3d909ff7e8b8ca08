//! What is written is read back: sums, stacks, names.

use std::collections::HashMap;

use procprof_archive::{
    Cell, Error, Grain, Hour, KindSums, ObjectFolder, Part, PartLimits, PartWriter, ProfileSum, ReadLimits, Selection,
    Table, Writer,
};
use procprof_profile::merge::merge;
use procprof_profile::{Addr, Mapping, Nanos, Profile, ProfileBuilder};
use proptest::prelude::*;

use crate::support::{HOUR, archive, contents, identity, part, profile, samples, some_profiles};

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn profiles_are_read_back(made in prop::collection::vec((samples(), 0..3_u64), 1..5)) {
        let profiles: Vec<Profile> =
            made.iter().map(|(samples, base)| profile(samples, 0x40_0000 + base * 0x1000)).collect();
        let (_folder, archive) = archive(&profiles);
        let check = archive.check(part(0)).unwrap();
        prop_assert_eq!(&check.wrong, &Vec::<String>::new());
        for (number, profile) in profiles.iter().enumerate() {
            let identity = identity(number as i64);
            let selection = Selection { ids: vec![identity.id], ..Selection::default() };
            let one = archive.merge(&selection).unwrap().unwrap();
            prop_assert_eq!(contents(&one.profile), contents(profile));
            let header = check.headers.iter().find(|header| header.identity == identity).unwrap();
            let totals: Vec<i64> = header.totals.iter().map(|total| total.value).collect();
            prop_assert_eq!(totals, vec![profile.total(0), profile.total(1)]);
        }
        let sum = archive.merge(&Selection::default()).unwrap().unwrap();
        let expected = merge(&profiles.iter().collect::<Vec<_>>()).unwrap();
        prop_assert_eq!(contents(&sum.profile), contents(&expected));
        prop_assert_eq!(sum.profiles, profiles.len() as u64);
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn profiles_of_an_archive_and_others_are_one_sum(
        archived in prop::collection::vec((samples(), 0..3_u64), 1..4),
        others in prop::collection::vec((samples(), 0..3_u64), 1..4),
    ) {
        let profiles = |made: &[(Vec<_>, u64)]| -> Vec<Profile> {
            made.iter().map(|(samples, base)| profile(samples, 0x40_0000 + base * 0x1000)).collect()
        };
        let (archived, others) = (profiles(&archived), profiles(&others));
        let (_folder, archive) = archive(&archived);
        let mut sum = ProfileSum::new(archive.limits(), &|| false);
        for (number, profile) in others.iter().enumerate() {
            sum.add(identity(number as i64), profile.clone()).unwrap();
        }
        sum.add_part(&archive, (part(0), Grain::Profile), &archive.headers(part(0)).unwrap()).unwrap();
        let sum = sum.finish().unwrap().unwrap();
        let expected = merge(&archived.iter().chain(&others).collect::<Vec<_>>()).unwrap();
        prop_assert_eq!(contents(&sum.profile), contents(&expected));
        prop_assert_eq!(sum.profiles, (archived.len() + others.len()) as u64);
    }
}

#[test]
fn a_list_has_what_the_headers_have() {
    let (_folder, archive) = archive(&some_profiles());
    let (listed, headers) = (archive.list(part(0), Grain::Profile).unwrap(), archive.headers(part(0)).unwrap());
    assert_eq!(listed.len(), headers.len());
    for (listed, (number, header)) in listed.iter().zip(&headers) {
        let identity = &header.identity;
        assert_eq!((listed.number, listed.id, listed.node), (*number, identity.id, identity.node));
        assert_eq!((listed.completed, listed.duration), (identity.completed, identity.duration));
        assert_eq!((&listed.profile_type, &*listed.cluster), (&identity.profile_type, &*header.meta.cluster));
        assert_eq!(listed.samples, header.samples);
    }
}

#[test]
fn rows_are_those_of_the_tables() {
    let (_folder, archive) = archive(&some_profiles());
    let part = part(0);
    let mut sums: HashMap<i64, KindSums> = HashMap::new();
    let column = |name: &str| Table::Samples.columns().iter().position(|column| column.name == name).unwrap();
    let (kind, profile, stack, value) = (column("kind"), column("profile"), column("stack"), column("value"));
    let (time, hour) = (column("time"), Cell::Moment(HOUR.start().0 / 1000));
    let mut each = |cells: &[Cell<'_>]| {
        let (Cell::Text(kind), Cell::Integer(profile), Cell::Integer(stack), Cell::Integer(value)) =
            (&cells[kind], &cells[profile], &cells[stack], &cells[value])
        else {
            panic!("{cells:?}")
        };
        assert!(part.ids().contains(profile) && part.ids().contains(stack), "{cells:?}");
        assert_eq!(cells[time], hour);
        *sums.entry(*profile).or_default().entry((*kind).to_owned()).or_default() += i128::from(*value);
        Ok::<(), Error>(())
    };
    archive.rows(part, Table::Samples, &mut each).unwrap();
    assert_eq!(sums, archive.sums(part, Grain::Profile).unwrap().into_iter().collect());

    // The first stack is the root, which has no frame; an error of the caller ends it.
    let mut seen = Vec::new();
    let ended = archive.rows(part, Table::Stacks, &mut |cells| {
        seen.push(cells[3] == Cell::Missing);
        if seen.len() == 2 { Err(Error::Stopped) } else { Ok(()) }
    });
    assert!(matches!(ended, Err(Error::Stopped)));
    assert_eq!(seen, [true, false]);
}

/// Reports leave out the same frames of a sum, and name the same binary, as of the files.
#[test]
fn a_sum_has_what_files_say_about_frames() {
    let made = |drop: &str, keep: &str, main: &str| {
        let mut builder = ProfileBuilder::new(&[("inuse_space", "bytes")]);
        let [first, second] = [main, "/lib/libc.so.6"].map(|name| {
            let (filename, build_id) = (builder.intern(name), builder.intern(&format!("id of {name}")));
            let limit = Addr(u64::MAX);
            builder.mapping(Mapping { limit, filename, build_id, ..Mapping::default() })
        });
        let stack = [builder.address(Some(second), Addr(0x20)), builder.address(Some(first), Addr(0x10))];
        builder.sample(&stack, &[1], &[]);
        let (drop, keep) = (builder.intern(drop), builder.intern(keep));
        let parts = builder.parts_mut();
        (parts.drop_frames, parts.keep_frames) = (drop, keep);
        builder.finish().unwrap()
    };
    let profiles = [made("", "", ""), made("malloc|new", "my_malloc", "/bin/one"), made("alloc", "", "/bin/two")];
    let (_folder, archive) = archive(&profiles);
    let sum = archive.merge(&Selection::default()).unwrap().unwrap().profile;
    let of_files = merge(&profiles.iter().collect::<Vec<_>>()).unwrap();
    let frames = |profile: &Profile| {
        let parts = profile.parts();
        [parts.drop_frames, parts.keep_frames].map(|text| profile.string(text).to_owned())
    };
    assert_eq!(frames(&sum), frames(&of_files));
    assert_eq!(frames(&sum), ["alloc|malloc|new", "my_malloc"]);
    let main = sum.string(sum.mappings()[0].filename);
    assert!(["/bin/one", "/bin/two"].contains(&main), "{main}");
    // They are no facts of the profile.
    assert!(sum.meta().more.keys().all(|key| !key.contains(':')), "{:?}", sum.meta());
}

#[test]
fn a_sum_that_is_not_needed_any_more_ends() {
    let (_folder, archive) = archive(&some_profiles());
    let headers = archive.headers(part(0)).unwrap();
    let mut stopped = ProfileSum::new(archive.limits(), &|| true);
    assert!(matches!(stopped.add_part(&archive, (part(0), Grain::Profile), &headers), Err(Error::Stopped)));
    let narrow = ReadLimits { stacks: 3, ..archive.limits() };
    let mut narrow = ProfileSum::new(narrow, &|| false);
    assert!(matches!(narrow.add(identity(0), some_profiles().remove(0)), Err(Error::TooLarge { .. })));
}

#[test]
fn a_selection_is_by_time_node_and_type() {
    let profiles = some_profiles();
    let (_folder, archive) = archive(&profiles);
    let count = |selection: Selection| archive.merge(&selection).unwrap().map_or(0, |merged| merged.profiles);
    let minute = |number: i64| Some(Nanos(HOUR.start().0 + number * 60_000_000_000));
    assert_eq!(count(Selection { from: minute(2), to: minute(4), ..Selection::default() }), 2);
    assert_eq!(count(Selection { nodes: vec!["10001".to_owned()], ..Selection::default() }), 4);
    assert_eq!(count(Selection { types: vec!["heap".parse().unwrap()], ..Selection::default() }), 0);
    assert_eq!(count(Selection { from: Some(HOUR.end()), ..Selection::default() }), 0);
}

#[test]
fn names_of_files_are_read_back() {
    for hour in [0, 1, 489_910, 1_000_000] {
        for number in [0, 7, 123_456] {
            let part = Part::of_hour(Hour(hour), Writer(7), number);
            for table in Table::ALL {
                assert_eq!(Part::from_path(&part.path(table)), Some((table, part)));
            }
        }
    }
    assert_eq!(part(3).path(Table::Samples), "samples/date=2025-11-20/hour=22/000000000000feed-0003.parquet");
    let wrong = [
        "samples/date=2025-11-20/hour=22/000000000000feed-3.parquet",
        "samples/date=2025-11-31/hour=22/000000000000feed-0003.parquet",
        "others/date=2025-11-20/hour=22/000000000000feed-0003.parquet",
        "samples/000000000000feed-0003.parquet",
        "",
    ];
    for path in wrong {
        assert_eq!(Part::from_path(path), None, "{path}");
    }
}

#[test]
fn a_part_without_its_profiles_is_not_there() {
    let (folder, archive) = archive(&some_profiles());
    std::fs::remove_file(folder.path().join("archive").join(part(0).path(Table::Profiles))).unwrap();
    let parts = archive.parts().unwrap();
    assert_eq!((parts.whole.len(), parts.unfinished), (0, vec![part(0)]));
    assert_eq!(archive.merge(&Selection::default()).unwrap(), None);
    archive.remove(part(0)).unwrap();
    assert_eq!(archive.parts().unwrap(), procprof_archive::Parts::default());
}

#[test]
fn a_profile_that_may_not_fit_is_left_to_another_part() {
    let profiles = some_profiles();
    let rows = profiles[0].sample_count() * 2;
    let room = |limits: PartLimits| {
        let mut writer = PartWriter::new(limits);
        writer.add(identity(0), profiles[0].clone()).unwrap();
        writer.has_room_for(&profiles[1])
    };
    let wide = PartLimits::default();
    assert!(room(wide));
    assert!(room(PartLimits { rows: 2 * rows, ..wide }) && !room(PartLimits { rows: 2 * rows - 1, ..wide }));
    assert!(!room(PartLimits { stacks: 20, ..wide }) && !room(PartLimits { text_bytes: 100, ..wide }));
    let mut alone = PartWriter::new(PartLimits { rows: 1, stacks: 1, text_bytes: 1 });
    assert!(!alone.has_room_for(&profiles[0]));
    alone.add(identity(0), profiles[0].clone()).unwrap();
    let folder = tempfile::tempdir().unwrap();
    let objects = ObjectFolder::create(folder.path().join("archive")).unwrap();
    assert_eq!(alone.write(&objects, part(0)).unwrap().rows, rows as u64);
}
