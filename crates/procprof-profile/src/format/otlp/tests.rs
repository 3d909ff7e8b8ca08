use super::*;
use crate::format::decode_events as decode_all;
use crate::format::fixtures::{bytes, check, decoded, error};
use crate::format::pprof;
use crate::{Addr, LabelValue};

#[test]
fn profiles_of_the_ebpf_profiler_are_read() {
    check("otlp/ebpf.pb", NAME);
    check("otlp/ebpf.json", NAME);
    let all = decode_all(&bytes("otlp/ebpf.pb"), &Limits::default()).unwrap();
    let about: Vec<_> =
        all.iter().map(|one| (one.event.as_str(), one.profile.total(0), one.profile.sample_types().len())).collect();
    assert_eq!(about, [("samples", 12, 2), ("off_cpu", 8_000, 1)]);
    let profile = &all[0].profile;
    // Without values each timestamp is a sample, worth the period.
    assert_eq!((profile.sample_type(1), profile.total(1)), (("cpu", "nanoseconds"), 12 * 50_000_000));
    assert_eq!(
        (profile.period(), profile.duration().0, profile.time().0),
        (50_000_000, 5_000_000_000, 1_700_000_000_000_000_000)
    );
    let sample = profile.sample(0);
    assert_eq!((profile.location(sample.stack[0]).address, profile.lines(sample.stack[0]).len()), (Addr(0x402000), 2));
    let services: Vec<&str> = sample
        .labels
        .iter()
        .filter(|label| profile.string(label.key) == "service.name")
        .map(|label| match label.value {
            LabelValue::Text(text) => profile.string(text),
            LabelValue::Number(..) => "a number",
        })
        .collect();
    assert_eq!(services, ["shop"]);
    let mapping = profile.mapping(profile.location(sample.stack[0]).mapping.unwrap());
    assert_eq!((profile.string(mapping.build_id), mapping.file_offset.0), ("c0ffee", 0x1000));
}

#[test]
fn both_encodings_hold_the_same() {
    let [binary, text] =
        ["pb", "json"].map(|end| decode_all(&bytes(&format!("otlp/ebpf.{end}")), &Limits::default()).unwrap());
    for (binary, text) in binary.iter().zip(&text) {
        assert_eq!((&binary.event, &binary.profile), (&text.event, &text.profile));
    }
    let snake = String::from_utf8(bytes("otlp/ebpf.json"))
        .unwrap()
        .replace("resourceProfiles", "resource_profiles")
        .replace("stackIndex", "stack_index");
    assert_eq!(decoded(snake.as_bytes()).profile, text[0].profile);
}

#[test]
fn what_is_encoded_is_decoded() {
    for name in
        ["pprof/go-cpu.pb.gz", "pprof/go-heap.pb.gz", "perf-script/stacks.txt", "otlp/ebpf.pb", "collapsed/work.txt"]
    {
        let profile = decoded(&bytes(name)).profile;
        let all = decode_all(&encode(&profile).unwrap(), &Limits::default()).unwrap();
        assert_eq!((all[0].format, all.len()), (NAME, profile.sample_types().len()), "{name}");
        let shown = profile.default_sample_type();
        let order: Vec<usize> = std::iter::once(shown).chain((0..all.len()).filter(|index| *index != shown)).collect();
        for (one, index) in all.iter().zip(order) {
            assert_eq!(one.profile.sample_type(0), profile.sample_type(index), "{name}");
            assert_eq!(one.profile.total(0), profile.total(index), "{name}");
            assert_eq!((one.profile.time(), one.profile.period()), (profile.time(), profile.period()), "{name}");
        }
        assert!(pprof::encode(&all[0].profile).is_ok());
    }
}

#[test]
fn entries_that_no_table_has_are_errors() {
    let text = |profile: &str, dictionary: &str| {
        format!(
            r#"{{"resourceProfiles":[{{"scopeProfiles":[{{"profiles":[{{{profile}}}]}}]}}],"dictionary":{{"stringTable":[""],{dictionary}}}}}"#
        )
    };
    let stack = r#""stackTable":[{},{"locationIndices":[3]}]"#;
    for (text, expected) in [
        (text(r#""sampleType":{"typeStrindex":1}"#, stack), "string 1 of 1"),
        (text(r#""samples":[{"stackIndex":2,"values":[1]}]"#, stack), "stack 2 of 2"),
        (text(r#""samples":[{"stackIndex":1,"values":["1"]}]"#, stack), "location 3 of 0"),
        (text(r#""samples":[{"stackIndex":-1,"values":[1]}]"#, stack), "stack -1 of 2"),
        (text(r#""samples":[{"attributeIndices":[5],"values":[1]}]"#, stack), "attribute 5 of 0"),
        (text(r#""samples":[{"values":["x"]}]"#, stack), "\"x\" is no number of 64 bits"),
        (r#"{"resourceProfiles":[{"scopeProfiles":[]}],"dictionary":{}}"#.to_owned(), "without any profile"),
    ] {
        assert!(error(text.as_bytes()).contains(expected), "{}", error(text.as_bytes()));
    }
}

#[test]
fn a_message_may_begin_like_a_text() {
    // A resource of 123 bytes: its tag and length are a line break and a brace.
    let resource = [&[0x12, 2, 0x12, 0, 0x1a, 117][..], &[b'x'; 117]].concat();
    let bytes = [&[0x0a, 123][..], &resource, &[0x12, 2, 0x2a, 0]].concat();
    let profile = decoded(&bytes);
    assert_eq!((profile.format, profile.profile.sample_count()), (NAME, 0));
}
