use super::*;
use crate::{Addr, Mapping, ProfileBuilder};

fn counts(counts: &[(&str, i64)]) -> Profile {
    let mut builder = ProfileBuilder::new(&[("samples", "count")]);
    for (name, count) in counts {
        let frame = builder.frame(name);
        builder.sample(&[frame], &[*count], &[]);
    }
    builder.comment("of this profile");
    builder.finish().unwrap()
}

fn listed(profile: &Profile) -> Vec<(String, i64)> {
    let name = |sample: crate::Sample<'_>| {
        let line = profile.lines(sample.stack[0])[0];
        profile.string(profile.function(line.function).name).to_owned()
    };
    profile.samples().map(|sample| (name(sample), sample.values[0])).collect()
}

#[test]
fn what_is_equal_vanishes_and_what_is_less_is_negative() {
    let (base, profile) = (counts(&[("a", 5), ("b", 7), ("c", 1)]), counts(&[("a", 5), ("b", 3), ("d", 9)]));
    let difference = diff(&base, &profile).unwrap();
    assert_eq!(listed(&difference), [("b".to_owned(), -4), ("c".to_owned(), -1), ("d".to_owned(), 9)]);
    assert_eq!(listed(&drop_negative(difference).unwrap()), [("d".to_owned(), 9)]);
    assert_eq!(diff(&base, &base).unwrap().sample_count(), 0);
    assert_eq!(diff(&base, &base).unwrap().comments().collect::<Vec<_>>(), ["of this profile"]);
}

#[test]
fn a_labelled_base_stays_apart() {
    let profile = counts(&[("a", 5)]);
    let difference = diff_base(&profile, &profile).unwrap();
    let mut samples: Vec<(i64, usize)> =
        difference.samples().map(|sample| (sample.values[0], sample.labels.len())).collect();
    samples.sort();
    assert_eq!(samples, [(-5, 1), (5, 0)]);
    let label = difference.samples().find_map(|sample| sample.labels.first().copied()).unwrap();
    assert_eq!(difference.string(label.key), BASE_LABEL);
}

#[test]
fn a_difference_is_split_into_what_it_was_made_of() {
    let (base, profile) = (counts(&[("a", 5), ("b", 7)]), counts(&[("a", 5), ("c", 3)]));
    let (found, found_base) = split(&diff_base(&base, &profile).unwrap()).unwrap().unwrap();
    assert_eq!((listed(&found), listed(&found_base)), (listed(&profile), listed(&base)));
    assert!(found_base.samples().all(|sample| sample.labels.is_empty()));
    assert_eq!(split(&diff(&base, &profile).unwrap()).unwrap(), None);
}

#[test]
fn a_profile_is_scaled_to_the_time_of_the_base() {
    let measured = |samples: &[(&str, i64)], seconds: i64| {
        let mut builder = ProfileBuilder::new(&[("samples", "count")]);
        builder.time(Nanos(0), Nanos(seconds * 1_000_000_000));
        for (name, value) in samples {
            let stack = [builder.frame(name)];
            builder.sample(&stack, &[*value], &[]);
        }
        builder.finish().unwrap()
    };
    // Twice the time: what grew to the threefold is half as much more by time, and not what is the same by total.
    let (base, profile) = (measured(&[("a", 10)], 60), measured(&[("a", 30), ("b", 1)], 120));
    let scaled = Scaling::SameTime.apply(&base, profile.clone()).unwrap();
    assert_eq!(listed(&scaled), [("a".to_owned(), 15), ("b".to_owned(), 1)]);
    assert_eq!(time_ratio(&base, &profile).unwrap(), 0.5);
    assert_eq!(listed(&Scaling::AsMeasured.apply(&base, profile.clone()).unwrap()), listed(&profile));
    let error = Scaling::SameTime.apply(&base, measured(&[("a", 1)], 0)).unwrap_err();
    assert!(error.to_string().contains("durations"), "{error}");
    assert_eq!(scaled.duration(), base.duration());
    let difference = diff_base(&base, &profile).unwrap();
    let (found, found_base) = split(&difference).unwrap().unwrap();
    assert_eq!((found.duration(), found_base.duration()), (profile.duration(), base.duration()));
    assert!(found.meta().more.is_empty() && found_base.meta().more.is_empty());
}

#[test]
fn a_normalized_profile_adds_up_to_the_base() {
    let (base, profile) = (counts(&[("a", 10)]), counts(&[("a", 3), ("b", 2), ("c", 0)]));
    assert_eq!(listed(&normalize(&base, profile).unwrap()), [("a".to_owned(), 6), ("b".to_owned(), 4)]);
    assert_eq!(normalize(&base, counts(&[])).unwrap().sample_count(), 0);
    let other = ProfileBuilder::new(&[("cpu", "nanoseconds")]).finish().unwrap();
    assert_eq!(normalize(&base, other).unwrap_err().to_string(), "profiles differ: the base has no cpu in nanoseconds");
}

#[test]
fn sampled_values_are_estimated_once_before_they_are_scaled() {
    let heap = |sizes: &[(&str, i64, i64)]| {
        let mut builder = ProfileBuilder::new(&[("inuse_objects", "count"), ("inuse_space", "bytes")]);
        for (name, objects, bytes) in sizes {
            let stack = [builder.frame(name)];
            builder.sample(&stack, &[*objects, *bytes], &[]);
        }
        builder.time(Nanos(0), Nanos(60_000_000_000));
        builder.parts_mut().sampling = Sampling::Poisson(4096);
        builder.finish().unwrap()
    };
    let profile = heap(&[("small", 10, 160), ("large", 2, 20_000)]);
    let totals = |profile: &Profile| (profile.total(0), profile.total(1));
    let estimates = totals(&profile.clone().adjusted(Grammar::Pprof).unwrap());
    assert_ne!(estimates, totals(&profile));
    for scaling in [Scaling::SameTotal, Scaling::SameTime] {
        let scaled = scaling.apply(&profile, profile.clone()).unwrap();
        assert_eq!(totals(&scaled.clone().adjusted(Grammar::Pprof).unwrap()), estimates, "{scaling:?}");
        assert_eq!(diff(&profile, &scaled).unwrap().sample_count(), 0, "{scaling:?}");
    }
}

#[test]
fn the_program_of_the_profile_precedes_that_of_the_base() {
    let run = |build_id: &str, count: i64| {
        let mut builder = ProfileBuilder::new(&[("samples", "count")]);
        let (filename, build_id) = (builder.intern("/usr/bin/prog"), builder.intern(build_id));
        let (start, limit) = (Addr(0x1000), Addr(0x2000));
        let mapping = builder.mapping(Mapping { start, limit, filename, build_id, ..Mapping::default() });
        let stack = [builder.address(Some(mapping), Addr(0x1010))];
        builder.sample(&stack, &[count], &[]);
        builder.finish().unwrap()
    };
    for (base, new) in [("ab", "cd"), ("cd", "ab")] {
        let (base, profile) = (run(base, 3), run(new, 5));
        for difference in [diff(&base, &profile).unwrap(), diff_base(&base, &profile).unwrap()] {
            let main = difference.mappings()[0].build_id;
            assert_eq!((difference.string(main), difference.mappings().len()), (new, 2));
        }
    }
}
