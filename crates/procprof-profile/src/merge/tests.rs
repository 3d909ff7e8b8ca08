use super::*;
use crate::{Label, Mapping, Meta, Nanos, ProfileType, Sampling};

/// A program run at `start`, with a stack of two frames 0x10 and 0x20 behind its start.
fn run(start: u64, build_id: &str, count: i64) -> Profile {
    let mut builder = ProfileBuilder::new(&[("samples", "count"), ("cpu", "nanoseconds")]);
    let filename = builder.intern("/usr/bin/prog");
    let build_id = builder.intern(build_id);
    let mapping = Mapping { start: Addr(start), limit: Addr(start + 0x1800), filename, build_id, ..Mapping::default() };
    let mapping = builder.mapping(mapping);
    let stack =
        [builder.address(Some(mapping), Addr(start + 0x10)), builder.address(Some(mapping), Addr(start + 0x20))];
    let labels: [Label; 1] = [builder.text_label("thread", "main")];
    builder.sample(&stack, &[count, count * 10], &labels);
    builder.time(Nanos(1000 + count), Nanos(50));
    builder.period("cpu", "nanoseconds", 10);
    builder.comment("by hand");
    builder.finish().unwrap()
}

#[test]
fn runs_at_other_addresses_add_up() {
    let sum = merge(&[&run(0x5000, "ab", 3), &run(0x1000, "ab", 4)]).unwrap();
    assert_eq!((sum.sample_count(), sum.mappings().len(), sum.locations().len()), (1, 1, 2));
    assert_eq!(sum.sample(0).values, [7, 70]);
    assert_eq!(sum.location(sum.sample(0).stack[0]).address, Addr(0x1010));
    assert_eq!((sum.time(), sum.duration(), sum.period()), (Nanos(1003), Nanos(100), 10));
    assert_eq!(sum.comments().collect::<Vec<_>>(), ["by hand"]);
}

#[test]
fn other_builds_stay_apart() {
    let sum = merge(&[&run(0x5000, "ab", 3), &run(0x1000, "cd", 4)]).unwrap();
    assert_eq!((sum.sample_count(), sum.mappings().len(), sum.total(0)), (2, 2, 7));
}

#[test]
fn the_order_of_profiles_does_not_matter() {
    let profiles =
        [run(0x5000, "ab", 3), run(0x1000, "cd", 4), run(0x9000, "ab", 5).with_sample_types(&[1, 0]).unwrap()];
    let [one, two, three] = &profiles;
    let sum = merge(&[one, two, three]).unwrap();
    for order in [[one, three, two], [two, one, three], [three, two, one]] {
        assert_eq!(merge(&order).unwrap(), sum);
    }
    assert_eq!(sum.sample_type(0), ("cpu", "nanoseconds"));
    assert_eq!((sum.total(0), sum.total(1)), (120, 12));
}

#[test]
fn profiles_of_other_types_are_refused_by_name() {
    let heap = ProfileBuilder::new(&[("space", "bytes")]).finish().unwrap();
    let error = merge(&[&run(0, "", 1), &heap]).unwrap_err();
    assert_eq!(error.to_string(), "profiles differ: sample types samples/count cpu/nanoseconds and space/bytes");
    assert_eq!(merge(&[]).unwrap_err().to_string(), "profiles differ: there is none to add up");
}

#[test]
fn estimates_are_summed_and_sums_not_estimated() {
    let heap = |bytes| {
        let mut builder = ProfileBuilder::new(&[("objects", "count"), ("space", "bytes")]);
        builder.sample(&[], &[1, bytes], &[]);
        builder.parts_mut().sampling = Sampling::Poisson(4096);
        builder.finish().unwrap()
    };
    let (one, two) = (heap(10), heap(100_000));
    let sum = merge(&[&one, &two]).unwrap();
    let expected: i64 = [one, two].into_iter().map(|heap| heap.adjusted(Grammar::Pprof).unwrap().total(0)).sum();
    assert_eq!(sum.total(0), expected);
    assert_eq!((sum.sampling(), sum.is_estimated()), (Sampling::Exact, false));
}

#[test]
fn facts_stay_where_all_say_the_same() {
    let meta = |node, end, lost| Meta {
        node: Some(node),
        cluster: "east".to_owned(),
        profile_type: Some(ProfileType::Cpu),
        end: Some(Nanos(end)),
        lost: Some(lost),
        labels: [("zone".to_owned(), "a".to_owned()), ("host".to_owned(), node.to_string())].into(),
        ..Meta::default()
    };
    let one = run(0, "ab", 1).with_meta(&meta(1, 50, 2)).unwrap();
    let two = run(0, "ab", 1).with_meta(&meta(2, 70, 3)).unwrap();
    let sum = merge(&[&one, &two]).unwrap();
    let expected = Meta { node: None, labels: [("zone".to_owned(), "a".to_owned())].into(), ..meta(1, 70, 5) };
    assert_eq!(sum.meta(), expected);
    assert_eq!(sum.comments().last(), Some("by hand"));
    assert_eq!(merge(&[&one]).unwrap().meta(), one.meta());
}

#[test]
fn sums_stay_within_their_range() {
    let sum = merge(&[&run(0, "", i64::MAX / 10), &run(0, "", i64::MAX / 10)]).unwrap();
    assert_eq!(sum.sample(0).values, [i64::MAX / 10 * 2, i64::MAX]);
}

#[test]
fn a_sum_that_is_stopped_is_an_error() {
    let (one, calls) = (run(0, "ab", 1), std::cell::Cell::new(0));
    for most in 0..10 {
        calls.set(0);
        let sum = merge_while(&[&one, &one], &|| {
            calls.set(calls.get() + 1);
            calls.get() <= most
        });
        match sum {
            Ok(sum) => return assert_eq!((sum.total(0), most > 1), (merge(&[&one, &one]).unwrap().total(0), true)),
            Err(error) => assert!(matches!(error, crate::Error::Stopped), "{error}"),
        }
    }
    panic!("the sum was not made");
}

#[test]
fn the_only_default_that_is_named_is_that_of_the_sum() {
    let with_default = |kind: &str| {
        let mut builder = ProfileBuilder::new(&[("alloc_space", "bytes"), ("inuse_space", "bytes")]);
        let frame = builder.frame("f");
        builder.sample(&[frame], &[1, 1], &[]);
        builder.default_sample_type(kind);
        builder.finish().unwrap()
    };
    let [none, alloc, inuse] = ["", "alloc_space", "inuse_space"].map(with_default);
    for (profiles, expected) in
        [([&none, &alloc], 0), ([&alloc, &none], 0), ([&none, &none], 1), ([&alloc, &alloc], 0), ([&alloc, &inuse], 1)]
    {
        assert_eq!(merge(&profiles).unwrap().default_sample_type(), expected);
    }
}
