use std::collections::BTreeMap;

use super::*;
use crate::format::fixtures::{check, decoded, error};

/// Values by stack, root first.
fn stacks(profile: &Profile, index: usize) -> BTreeMap<String, i64> {
    let mut stacks = BTreeMap::new();
    for sample in profile.samples() {
        let names =
            sample.stack.iter().rev().map(|id| profile.string(profile.function(profile.lines(*id)[0].function).name));
        *stacks.entry(names.collect::<Vec<_>>().join(";")).or_default() += sample.values[index];
    }
    stacks
}

fn values(pairs: &[(&str, i64)]) -> BTreeMap<String, i64> {
    pairs.iter().map(|(stack, value)| ((*stack).to_owned(), *value)).collect()
}

#[test]
fn processed_profiles_are_read() {
    // By hand after the format's description; each thread with its own tables, then with shared ones.
    let own = check("firefox/processed.json", NAME).profile;
    assert_eq!(stacks(&own, 0), values(&[("main", 1), ("main;work", 4), ("start", 1)]));
    assert_eq!((own.sample_type(1), own.total(1)), (("wall", "nanoseconds"), 6 * 2_000_000));
    let work = own.functions().iter().find(|function| own.string(function.name) == "work").unwrap();
    assert_eq!(own.string(work.filename), "/src/work.c");
    assert_eq!(own.string(own.mapping(crate::MappingId(0)).filename), "libwork.so");
    let shared = check("firefox/shared.json", NAME).profile;
    assert_eq!(stacks(&shared, 0), values(&[("main;work", 2), ("main", 1)]));
    // The processor time is in microseconds.
    assert_eq!((shared.sample_type(1), shared.total(1)), (("cpu", "nanoseconds"), 750_000));
}

#[test]
fn what_firefox_records_is_read() {
    let profile = check("firefox/gecko.json", NAME).profile;
    assert_eq!(stacks(&profile, 0), values(&[("(root);work", 2), ("(root);0x7f00", 1)]));
    let labels: std::collections::BTreeSet<i64> = profile
        .samples()
        .flat_map(|sample| sample.labels)
        .filter_map(|label| match label.value {
            crate::LabelValue::Number(number, _) => Some(number),
            crate::LabelValue::Text(_) => None,
        })
        .collect();
    assert_eq!(labels.into_iter().collect::<Vec<_>>(), [1, 2, 11, 12]);
}

#[test]
fn bytes_are_space() {
    let text = r#"{"meta":{"interval":1,"processType":0},"threads":[{"samples":{"stack":[0,null],"weight":[-7,1],"weightType":"bytes","length":2},
        "stackTable":{"prefix":[null],"frame":[0]},"frameTable":{"func":[0]},"funcTable":{"name":[0]},"stringArray":["a"]}]}"#;
    let profile = decoded(text.as_bytes()).profile;
    assert_eq!((profile.sample_type(0), stacks(&profile, 0)), (("space", "bytes"), values(&[("a", -7)])));
}

#[test]
fn what_is_wrong_is_an_error() {
    let text = |stacks: &str, frames: &str, functions: &str| {
        format!(
            r#"{{"meta":{{"interval":1,"processType":0}},"threads":[{{"samples":{{"stack":[0]}},"stackTable":{stacks},"frameTable":{frames},
            "funcTable":{functions},"stringArray":[]}}]}}"#
        )
    };
    let (stack, frame) = (r#"{"prefix":[null],"frame":[0]}"#, r#"{"func":[0]}"#);
    for (text, expected) in [
        (text("{}", frame, "{}"), "Firefox's stack 0 of 0"),
        (text(r#"{"prefix":[0],"frame":[0]}"#, frame, "{}"), "continue each other in a circle"),
        (text(stack, "{}", "{}"), "Firefox's frame 0 of 0"),
        (text(stack, frame, "{}"), "has no function of 0"),
        (text(stack, frame, r#"{"name":[3]}"#), "Firefox's string 3 of 0"),
    ] {
        let error = error(text.as_bytes());
        assert!(error.contains(expected), "{error}");
    }
}
