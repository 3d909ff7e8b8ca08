use std::collections::BTreeMap;

use super::*;
use crate::format::decode_events as decode_all;
use crate::format::fixtures::{bytes, check, complaint, decoded};
use crate::{LabelValue, ProfileBuilder};

/// Values by stack, root first.
fn stacks(profile: &Profile) -> BTreeMap<String, i64> {
    let mut stacks = BTreeMap::new();
    for sample in profile.samples() {
        let names = sample.stack.iter().rev().flat_map(|id| profile.lines(*id).iter().rev());
        let names: Vec<&str> = names.map(|line| profile.string(profile.function(line.function).name)).collect();
        *stacks.entry(names.join(";")).or_default() += sample.values[0];
    }
    stacks
}

#[test]
fn threads_are_one_profile_with_labels() {
    let decoded = check("speedscope/py-spy.json", NAME);
    let profile = decoded.profile;
    // py-spy: "Samples: 66", 50 a second.
    assert_eq!((profile.sample_type(0), profile.total(0)), (("wall", "nanoseconds"), 66 * 20_000_000));
    let threads: std::collections::BTreeSet<&str> = profile
        .samples()
        .map(|sample| match sample.labels[0].value {
            LabelValue::Text(text) => profile.string(text),
            LabelValue::Number(..) => panic!("a number"),
        })
        .collect();
    assert_eq!(threads.len(), 2);
    assert!(decoded.warnings.is_empty() && decoded.event.is_empty());
}

#[test]
fn calls_that_begin_and_end_are_read() {
    let decoded = check("speedscope/pyinstrument.json", NAME);
    // Its last frame ends at 0.21371964200079674.
    assert_eq!(decoded.profile.total(0), 213_719_642);
    assert_eq!(decoded.profile.duration().0, 214_955_807);
}

const FRAMES: &str = r#""shared":{"frames":[{"name":"a"},{"name":"b","file":"b.c","line":3,"col":null}]}"#;

#[test]
fn each_profile_is_an_event_and_the_active_one_is_first() {
    let text = format!(
        r#"{{"profiles":[{{"type":"sampled","name":"x","unit":"bytes","startValue":0,"endValue":7,"samples":[[0,1],[]],"weights":[6.6,1]}},
        {{"type":"evented","name":"Y z","unit":"milliseconds","startValue":1,"endValue":5,"events":[{{"type":"O","frame":0,"at":1}},
        {{"type":"O","frame":1,"at":1.5}},{{"type":"C","frame":1,"at":2}}]}}],"activeProfileIndex":1,{FRAMES}}}"#
    );
    let all = decode_all(text.as_bytes(), &Limits::default()).unwrap();
    let about: Vec<_> =
        all.iter().map(|one| (one.event.as_str(), one.profile.sample_type(0), stacks(&one.profile))).collect();
    let of = |pairs: &[(&str, i64)]| {
        pairs.iter().map(|(stack, value)| ((*stack).to_owned(), *value)).collect::<BTreeMap<_, _>>()
    };
    let expected = [
        ("Y z", ("wall", "nanoseconds"), of(&[("a", 3_500_000), ("a;b", 500_000)])),
        ("x", ("x", "bytes"), of(&[("a;b", 7), ("", 1)])),
    ];
    assert_eq!(about, expected);
    assert_eq!(all[0].warnings, ["speedscope: \"Y z\" ends with 1 frames open, which are taken to end with it"]);
    assert!(decoded(text.as_bytes()).warnings[1].contains("2 kinds of events (\"Y z\", \"x\")"));
}

#[test]
fn what_is_wrong_is_an_error_with_its_place() {
    let profile = |body: &str| {
        format!(r#"{{"shared":{{"frames":[{{"name":"a"}}]}},"profiles":[{{"name":"x","startValue":0,{body}}}]}}"#)
    };
    let sampled = |rest: &str| profile(&format!(r#""type":"sampled","unit":"none",{rest}"#));
    let evented = |rest: &str| profile(&format!(r#""type":"evented","unit":"none",{rest}"#));
    for (text, expected) in [
        (
            sampled(r#""samples":[[0],[0]],"weights":[1]"#),
            "left out 1 record that cannot be read, the first: offset 124: a sample without a weight",
        ),
        (sampled(r#""samples":[[0]],"weights":[1,2]"#), "a weight without a sample"),
        (sampled(r#""samples":[[1]],"weights":[1]"#), "a frame that the table of 1 has not"),
        (sampled(r#""samples":[[0]]"#), "a profile without \"weights\""),
        (evented(r#""events":[{"type":"C","frame":0,"at":1}]"#), "the end of a frame that is not the innermost"),
        (
            evented(r#""events":[{"type":"O","frame":0,"at":1},{"type":"C","frame":0,"at":0}]"#),
            "an event before the one",
        ),
        (profile(r#""type":"other","unit":"none""#), "a profile of the type \"other\""),
        (profile(r#""type":"sampled","samples":[],"weights":[],"unit":"days""#), "an unknown unit \"days\""),
    ] {
        let complaint = complaint(text.as_bytes());
        assert!(complaint.starts_with("speedscope: ") && complaint.contains(expected), "{complaint}");
    }
}

#[test]
fn what_is_encoded_is_decoded() {
    let mut builder = ProfileBuilder::new(&[("samples", "count"), ("cpu", "nanoseconds"), ("odd things", "widgets")]);
    let (main, work) = (builder.frame("main"), builder.frame("a \"quoted\"\n\\ é \u{1}"));
    let bare = builder.address(None, crate::Addr(0x4005d0));
    builder.default_sample_type("cpu");
    builder.sample(&[work, main], &[2, 20_000_000, 0], &[]);
    builder.sample(&[bare, main], &[1, 10_000_000, 9_007_199_254_740_991], &[]);
    let profile = builder.finish().unwrap();
    let encoded = encode(&profile).unwrap();
    let all = decode_all(&encoded, &Limits::default()).unwrap();
    let about: Vec<_> =
        all.iter().map(|one| (one.profile.sample_type(0), one.profile.total(0), one.profile.sample_count())).collect();
    let expected = [
        (("cpu", "nanoseconds"), 30_000_000, 2),
        (("samples", "count"), 3, 2),
        (("samples", "count"), 9_007_199_254_740_991, 1),
    ];
    assert_eq!(about, expected);
    assert!(stacks(&all[0].profile).contains_key("main;a \"quoted\"\n\\ é \u{1}"));
    assert!(stacks(&all[0].profile).contains_key("main;0x4005d0"));
}

#[test]
fn differences_are_not_encoded() {
    let mut builder = ProfileBuilder::new(&[("samples", "count")]);
    builder.sample(&[], &[-1], &[]);
    assert!(encode(&builder.finish().unwrap()).is_err());
}

#[test]
fn files_of_other_tools_come_back_as_they_were() {
    for name in ["speedscope/py-spy.json", "speedscope/pyinstrument.json", "perf-script/stacks.txt"] {
        let profile = decoded(&bytes(name)).profile;
        let again = decode_all(&encode(&profile).unwrap(), &Limits::default()).unwrap();
        assert_eq!(again[0].profile.sample_type(0), profile.sample_type(profile.default_sample_type()), "{name}");
        assert_eq!(again[0].profile.total(0), profile.total(profile.default_sample_type()), "{name}");
    }
}
