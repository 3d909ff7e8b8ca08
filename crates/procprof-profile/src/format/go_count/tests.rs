use super::*;
use crate::format::fixtures::{bytes, check, check_with_go_unnamed, decoded, error};
use crate::{LabelValue, LocationId};

#[test]
fn recorded_profiles_read_as_pprof_reads_them() {
    check_with_go_unnamed("go-count/goroutine.txt", NAME);
    let profile = check("go-count/threadcreate.txt", NAME).profile;
    let name = |id: LocationId| profile.string(profile.function(profile.lines(id)[0].function).name);
    assert!(profile.samples().all(|sample| sample.stack.iter().map(|id| name(*id)).eq(["[no stack]"])));
}

/// The labels of each sample that has some, with its value, in order.
fn labels(profile: &Profile) -> Vec<(i64, Vec<(String, String)>)> {
    let text = |label: &Label| {
        let LabelValue::Text(text) = label.value else { panic!("{label:?}") };
        (profile.string(label.key).to_owned(), profile.string(text).to_owned())
    };
    let labels = profile.samples().filter(|sample| !sample.labels.is_empty()).map(|sample| {
        let mut labels: Vec<_> = sample.labels.iter().map(text).collect();
        labels.sort();
        (sample.values[0], labels)
    });
    let mut labels: Vec<_> = labels.collect();
    labels.sort();
    labels
}

#[test]
fn labels_are_those_of_the_same_profile_in_protobuf() {
    let text = check("go-count/labels.txt", NAME).profile;
    assert_eq!(labels(&text), labels(&decoded(&bytes("go-count/labels.pb.gz")).profile));
    assert_eq!((labels(&text).len(), text.total(0)), (2, 5));
}

#[test]
fn a_broken_line_of_labels_costs_them_alone() {
    let text = "goroutine profile: total 3\n1 @ 0x10\n# labels: {\"a\":\"b\n2 @ 0x20\n# labels: {\"c\":\"d\"}\n";
    let decoded = decoded(text.as_bytes());
    assert_eq!(labels(&decoded.profile), [(2, vec![("c".to_owned(), "d".to_owned())])]);
    assert_eq!((decoded.profile.total(0), decoded.warnings.len()), (3, 1), "{:?}", decoded.warnings);
    // Labels belong to the line above, and to none if that is broken.
    let text = "goroutine profile: total 3\n1 @ 0x10\n2 @ 0xx\n# labels: {\"c\":\"d\"}\n";
    let decoded = crate::format::fixtures::decoded(text.as_bytes());
    assert_eq!((labels(&decoded.profile).len(), decoded.profile.total(0)), (0, 1));
}

#[test]
fn detection_takes_only_its_own_heading() {
    let cases: [(&[u8], Detect); 11] = [
        (b"goroutine profile: total 7\n", Detect::Yes),
        (b"\n# note\nmine/queue profile: total 0\n", Detect::Yes),
        (b"goroutine profile: total", Detect::NeedMore),
        (b"goroutine profile: total 7", Detect::NeedMore),
        (b"gorout", Detect::NeedMore),
        (b"# note", Detect::NeedMore),
        (b"heap profile: 1: 2 [3: 4] @ heap/5\n", Detect::No),
        (b"goroutine profile: total x\n", Detect::No),
        (b"two words profile: total 7\n", Detect::No),
        (b"<html> is", Detect::No),
        (b"\x00\x01", Detect::No),
    ];
    for (bytes, expected) in cases {
        assert_eq!(detect(bytes), expected, "{}", bytes.escape_ascii());
    }
}

#[test]
fn a_map_may_follow() {
    let text = b"threads profile: total 2\n2 @ 0x401001\n\n--- Memory map: ---\n 00400000-00402000: /usr/bin/prog\n";
    let profile = decoded(text).profile;
    assert_eq!((profile.sample_type(0), profile.total(0)), (("threads", "count"), 2));
    assert_eq!(profile.string(profile.mappings()[0].filename), "/usr/bin/prog");
}

#[test]
fn errors_name_the_line() {
    let cases = [
        ("goroutine profile: total 1\nx @ 0x1\n", "go-count: line 2: expected COUNT @ 0x…, found \"x @ 0x1\""),
        ("goroutine profile: total 1\n1 @ 0x1", "go-count: line 2: input ends inside a stack of addresses"),
        ("goroutine profile: total 1\n1 @ 1\n", "go-count: line 2: expected an address such as 0x4005d0"),
    ];
    for (text, expected) in cases {
        let error = error(text.as_bytes());
        assert!(error.starts_with(expected), "{text:?}: {error}");
    }
}
