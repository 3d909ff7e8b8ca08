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

#[test]
fn odd_elements_are_left_out() {
    let trace = |events: &str| format!(r#"{{"traceEvents":[{events}]}}"#);
    let call = r#"{"name":"f","ph":"X","pid":1,"tid":1,"ts":0,"dur":2}"#;
    let node = r#"{"id":1,"callFrame":{"functionName":"main"}}"#;
    let chunk = |id: &str, data: &str| {
        format!(r#"{{"ph":"P","name":"ProfileChunk","id":"{id}","pid":1,"tid":1,"args":{{"data":{data}}}}}"#)
    };
    let orphan = chunk("0x3", r#"{"cpuProfile":{"samples":[8,8]},"timeDeltas":[1,1]}"#);
    let whole = chunk("0x4", &format!(r#"{{"cpuProfile":{{"nodes":[{node}],"samples":[1,1]}},"timeDeltas":[1,2]}}"#));
    for (events, total, expected) in [
        (format!("{orphan},{whole}"), 2, "left out 2 records that cannot be read, the first: offset "),
        (format!("{call},{orphan}"), 2000, "a sample of the node 8, which no chunk so far has"),
        (format!("7,{call}"), 2000, "left out 1 record that cannot be read, the first: offset 16: expected an object"),
        (format!(r#"{call},{{"ph":"?"}}"#), 2000, "an event of the phase \"?\""),
    ] {
        let decoded = decoded(trace(&events).as_bytes());
        assert_eq!((decoded.profile.total(0), decoded.warnings.len()), (total, 1), "{:?}", decoded.warnings);
        assert!(decoded.warnings[0].contains(expected), "{:?}", decoded.warnings);
    }
    assert!(error(trace(&orphan).as_bytes()).contains("a sample of the node 8"));
}

#[test]
fn samples_beside_the_events_name_frames() {
    let text = r#"{"traceEvents":[{"name":"thread_name","ph":"M","pid":7,"tid":"3","args":{"name":"js"}}],
        "samples":[{"ts":"1000","pid":7,"tid":"3","weight":"1","sf":1},{"ts":"3000","pid":7,"tid":"3","sf":2},
            {"ts":"6000","pid":7,"tid":"3","sf":9},{"ts":"7000","pid":7,"tid":"3","sf":2}],
        "stackFrames":{"1":{"name":"main"},"2":{"name":"work","parent":1,"line":"3","column":"2","funcLine":"1"}}}"#;
    let decoded = decoded(text.as_bytes());
    let profile = &decoded.profile;
    let samples: Vec<_> = profile.samples().map(|sample| (sample.stack.len(), sample.values.to_vec())).collect();
    assert_eq!(samples, [(1, vec![1, 2_000_000]), (2, vec![2, 4_000_000])]);
    assert_eq!(profile.sample(0).labels.len(), 3);
    assert_eq!(decoded.warnings, ["chrome-trace: left out 1 record that cannot be read, the first: no frame \"9\""]);
}
