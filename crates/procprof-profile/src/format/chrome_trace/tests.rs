use std::collections::BTreeMap;

use super::*;
use crate::format::decode_events as decode_all;
use crate::format::fixtures::{bytes, check, decoded, error};

/// Nanoseconds by stack, root first.
fn stacks(profile: &Profile) -> BTreeMap<String, i64> {
    let mut stacks = BTreeMap::new();
    for sample in profile.samples() {
        let names =
            sample.stack.iter().rev().map(|id| profile.string(profile.function(profile.lines(*id)[0].function).name));
        *stacks.entry(names.collect::<Vec<_>>().join(";")).or_default() += sample.values[profile.default_sample_type()];
    }
    stacks
}

#[test]
fn a_trace_of_chromium_has_samples_and_calls() {
    check("chrome-trace/chromium.json", NAME);
    let all = decode_all(&bytes("chrome-trace/chromium.json"), &Limits::default()).unwrap();
    let about: Vec<_> = all.iter().map(|one| (one.event.as_str(), one.profile.total(0))).collect();
    assert_eq!(about, [("samples", 600), ("calls", 275_881_000)]);
    let inner = all[0].profile.functions().iter().filter(|function| all[0].profile.string(function.name) == "inner");
    assert_eq!(inner.count(), 1);
}

#[test]
fn a_trace_of_py_spy_has_places() {
    let profile = check("chrome-trace/py-spy.json", NAME).profile;
    let hot = profile.functions().iter().find(|function| profile.string(function.name) == "hot").unwrap();
    assert_eq!(profile.string(hot.filename), "/src/calls.py");
}

#[test]
fn calls_are_charged_with_their_own_time() {
    let call = |phase: &str, name: &str, ts: f64, more: &str| {
        format!(r#"{{"name":"{name}","ph":"{phase}","pid":1,"tid":2,"ts":{ts}{more}}}"#)
    };
    let of = |pairs: &[(&str, i64)]| {
        pairs.iter().map(|(stack, value)| ((*stack).to_owned(), *value)).collect::<BTreeMap<_, _>>()
    };
    for (events, expected) in [
        (
            vec![call("B", "a", 0.0, ""), call("B", "b", 2.0, ""), call("E", "b", 5.0, ""), call("E", "a", 10.0, "")],
            of(&[("a", 7000), ("a;b", 3000)]),
        ),
        (
            vec![call("X", "b", 2.0, r#","dur":3"#), call("X", "a", 0.0, r#","dur":10"#)],
            of(&[("a", 7000), ("a;b", 3000)]),
        ),
        (
            vec![call("X", "b", 0.0, r#","dur":3"#), call("X", "a", 0.0, r#","dur":10"#)],
            of(&[("a", 7000), ("a;b", 3000)]),
        ),
        // One that overlaps is cut.
        (
            vec![call("X", "a", 0.0, r#","dur":4"#), call("X", "b", 3.0, r#","dur":4"#)],
            of(&[("a", 3000), ("a;b", 4000)]),
        ),
        (
            vec![call("E", "x", 0.0, ""), call("B", "a", 1.0, ""), call("X", "b", 2.5, r#","dur":0.5"#)],
            of(&[("a", 1500), ("a;b", 500)]),
        ),
        (vec![call("X", "a", 1.0, r#","dur":"7""#), call("i", "z", 1.5, "")], of(&[("a", 7000)])),
    ] {
        let text = format!("[{}]", events.join(","));
        assert_eq!(stacks(&decoded(text.as_bytes()).profile), expected, "{text}");
    }
}

#[test]
fn an_array_may_have_no_end() {
    let whole = r#"[{"name":"a","ph":"X","pid":1,"tid":2,"ts":1,"dur":7}"#;
    for end in ["", ",", "]", ",\n", ",{\"name\":\"b\",\"ph\":\"X\",\"ts\":"] {
        let decoded = decoded(format!("{whole}{end}").as_bytes());
        assert_eq!(stacks(&decoded.profile)["a"], 7000, "{end:?}");
        assert_eq!(decoded.warnings.len(), usize::from(end.len() > 3), "{:?}", decoded.warnings);
    }
}

#[test]
fn events_without_calls_are_an_error() {
    let error = error(br#"{"traceEvents":[{"name":"a","ph":"C","ts":1}]}"#);
    assert!(
        error.starts_with("chrome-trace: offset ") && error.ends_with("no calls and no samples of V8 among the events"),
        "{error}"
    );
}
