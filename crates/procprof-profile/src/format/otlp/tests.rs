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

/// The text labels of the first sample.
fn texts(decoded: &crate::format::Decoded) -> Vec<(String, String)> {
    let profile = &decoded.profile;
    let labels = profile.sample(0).labels.iter().map(|label| {
        let value = match label.value {
            LabelValue::Text(text) => profile.string(text).to_owned(),
            LabelValue::Number(number, _) => number.to_string(),
        };
        (profile.string(label.key).to_owned(), value)
    });
    labels.collect()
}

fn message(fields: &[(u32, &[u8])]) -> Vec<u8> {
    let mut writer = crate::format::protobuf::Writer::default();
    fields.iter().for_each(|(number, bytes)| writer.bytes(*number, bytes));
    writer.into_bytes()
}

fn numbers(fields: &[(u32, u64)]) -> Vec<u8> {
    let mut writer = crate::format::protobuf::Writer::default();
    fields.iter().for_each(|(field, number)| writer.explicit_number(*field, *number));
    writer.into_bytes()
}

/// A profile with attributes of its resource by reference, of its scope and of itself, and fields of later versions.
fn attributed() -> Vec<u8> {
    let pair = message(&[(2, &numbers(&[(8, 2)]))]);
    let by_reference = [numbers(&[(3, 1)]), pair].concat();
    let truth = message(&[(1, b"debug"), (2, &numbers(&[(2, 1)]))]);
    let scope = message(&[(1, b"profiler"), (2, b"1.2"), (3, &truth)]);
    let sample = [message(&[(4, &[3])]), numbers(&[(9, 1), (9, 2)])].concat();
    let profile = message(&[(2, &sample), (11, &[1]), (20, b"?")]);
    let resource = message(&[(1, &message(&[(1, &by_reference)])), (2, &message(&[(1, &scope), (2, &profile)]))]);
    let attribute = [numbers(&[(1, 3)]), message(&[(2, &numbers(&[(3, 7)]))])].concat();
    let dictionary =
        message(&[(5, b""), (5, b"service.name"), (5, b"shop"), (5, b"shard"), (6, b""), (6, &attribute), (7, b"")]);
    message(&[(1, &resource), (2, &dictionary)])
}

#[test]
fn attributes_of_resources_scopes_and_profiles_are_labels() {
    let text = r#"{"resourceProfiles":[{"resource":{"attributes":[{"keyStrindex":1,"value":{"stringValueStrindex":2}}]},
        "scopeProfiles":[{"scope":{"name":"profiler","version":"1.2","attributes":[{"key":"debug","value":{"boolValue":true}}]},
        "profiles":[{"samples":[{"values":["3"]}],"attributeIndices":[1]}]}]}],
        "dictionary":{"stringTable":["","service.name","shop","shard"],"stackTable":[{}],
        "attributeTable":[{},{"keyStrindex":3,"value":{"intValue":"7"}}]}}"#;
    let expected = [
        ("shard", "7"),
        ("otel.scope.name", "profiler"),
        ("otel.scope.version", "1.2"),
        ("debug", "true"),
        ("service.name", "shop"),
    ];
    let expected = expected.map(|(key, value)| (key.to_owned(), value.to_owned()));
    let (text, binary) = (decoded(text.as_bytes()), decoded(&attributed()));
    assert_eq!((texts(&text), texts(&binary)), (expected.to_vec(), expected.to_vec()));
    assert_eq!((text.profile.total(0), binary.profile.total(0)), (3, 3));
}

#[test]
fn unknown_fields_are_counted_once_each() {
    let warnings = decoded(&attributed()).warnings;
    assert_eq!(warnings.len(), 2, "{warnings:?}");
    assert!(
        warnings[0].starts_with("otlp: field 9 of Sample: unknown and left out, 2, the first at offset "),
        "{warnings:?}"
    );
    assert!(warnings[1].starts_with("otlp: field 20 of Profile: unknown and left out, 1, "), "{warnings:?}");
}

#[test]
fn values_of_every_kind_and_links_are_labels() {
    let [binary, text] = ["pb", "json"].map(|end| check(&format!("otlp/values.{end}"), NAME));
    assert_eq!((&binary.profile, &binary.warnings), (&text.profile, &text.warnings));
    assert_eq!(binary.warnings, [""; 0]);
    let nested =
        r#"["say \"a\\b\"\n",true,-9223372036854775808,1.25,"Infinity","aA==",null,"later",[],{"k":[1],"later":{}}]"#;
    let expected = [
        ("pair", r#"{"a":"b"}"#),
        ("trace_id", "000102030405060708090a0b0c0d0e0f"),
        ("span_id", "08090a0b0c0d0e0f"),
        ("ratio", "0.5"),
        ("whole", "2"),
        ("none", "NaN"),
        ("least", "-Infinity"),
        ("bytes", "aGn/IQ=="),
        ("several", nested),
    ];
    let expected = expected.map(|(key, value)| (key.to_owned(), value.to_owned()));
    assert_eq!(texts(&binary), expected);
}

#[test]
fn nested_values_are_bounded() {
    // Arrays in arrays, and references to a long text.
    let pair = |value: &[u8]| {
        let resource =
            message(&[(1, &message(&[(1, &message(&[(1, b"k"), (2, value)]))])), (2, &message(&[(2, b"")]))]);
        message(&[(1, &resource), (2, &message(&[(5, b""), (5, &[b'x'; 10_000])]))])
    };
    let deep =
        |depth: usize| (1..depth).fold(message(&[(5, b"")]), |value, _| message(&[(5, &message(&[(1, &value)]))]));
    assert!(decode_all(&pair(&deep(100)), &Limits::default()).is_ok());
    assert!(error(&pair(&deep(101))).contains("nested more than 100 deep"));
    let reference = numbers(&[(8, 1)]);
    let many = |count: usize| message(&[(5, &message(&vec![(1, reference.as_slice()); count]))]);
    assert!(decode_all(&pair(&many(10)), &Limits::default()).is_ok());
    assert!(error(&pair(&many(10_000))).contains("take more than 8 times the file"));
    // A reference to a text that is not there is counted.
    let missing = message(&[(5, &message(&[(1, &numbers(&[(8, 7)]))]))]);
    let warnings = decoded(&pair(&missing)).warnings;
    assert_eq!(warnings, ["otlp: strings in attributes that the dictionary does not have, left out: 1"]);
}

/// Samples of two bytes each, in a profile whose resource has attributes of which each is three bytes.
fn of_one_resource(samples: usize, attributes: usize) -> Vec<u8> {
    let samples = message(&vec![(2, &[][..]); samples]);
    let attributes = message(&vec![(1, &[][..]); attributes]);
    let resource = message(&[(1, &attributes), (2, &message(&[(2, &samples)]))]);
    message(&[(1, &resource), (2, &message(&[(5, b"")]))])
}

#[test]
fn attributes_of_all_samples_are_bounded_by_the_input() {
    // 64 KiB are free, and 4 for each byte.
    let bytes = of_one_resource(300, 200);
    assert!(decode_all(&bytes, &Limits::default()).is_ok());
    let bytes = of_one_resource(400, 200);
    let limit = 4 * bytes.len() + (64 << 10);
    assert!(limit < 400 * 200, "{limit}");
    let expected =
        format!("the number of attributes of all samples, for an input of its size, passes the limit of {limit}");
    assert!(error(&bytes).contains(&expected), "{}", error(&bytes));
    let sample = r#"{"values":["1"]},"#.repeat(20_000);
    let pair = r#"{"key":"k","value":{"stringValue":"v"}},"#.repeat(1_000);
    let text = format!(
        r#"{{"resourceProfiles":[{{"resource":{{"attributes":[{}]}},"scopeProfiles":[{{"profiles":[{{"samples":[{}]}}]}}]}}],
        "dictionary":{{"stringTable":[""],"stackTable":[{{}}]}}}}"#,
        pair.trim_end_matches(','),
        sample.trim_end_matches(',')
    );
    assert!(error(text.as_bytes()).contains("the number of attributes of all samples"), "{}", error(text.as_bytes()));
}

#[test]
fn comments_are_an_attribute_of_profiles() {
    let mut builder = crate::ProfileBuilder::new(&[("samples", "count"), ("cpu", "nanoseconds")]);
    let frame = builder.frame("work");
    builder.sample(&[frame], &[1, 10], &[]);
    builder.comment("[one]");
    builder.comment("two");
    let all = decode_all(&encode(&builder.finish().unwrap()).unwrap(), &Limits::default()).unwrap();
    assert_eq!(all.len(), 2);
    for one in &all {
        assert_eq!(one.profile.comments().collect::<Vec<_>>(), ["[one]", "two"]);
        assert!(one.profile.sample(0).labels.is_empty());
    }
    // A text is one comment, whatever it begins with.
    let with = |value: &str| {
        format!(
            r#"{{"resourceProfiles":[{{"scopeProfiles":[{{"profiles":[{{"samples":[{{"values":["1"]}}],"attributeIndices":[1,1]}}]}}]}}],
            "dictionary":{{"stringTable":["","pprof.profile.comment"],"stackTable":[{{}}],
            "attributeTable":[{{}},{{"keyStrindex":1,"value":{value}}}]}}}}"#
        )
    };
    for (value, expected) in [
        (r#"{"stringValue":"[seen"}"#, "[seen"),
        (r#"{"arrayValue":{"values":[{"stringValue":"seen"},{"stringValue":"seen"}]}}"#, "seen"),
        (r#"{"arrayValue":{"values":[{"intValue":"7"}]}}"#, "[7]"),
    ] {
        assert_eq!(decoded(with(value).as_bytes()).profile.comments().collect::<Vec<_>>(), [expected], "{value}");
    }
}
