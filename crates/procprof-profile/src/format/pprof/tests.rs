use super::*;
use crate::format::protobuf::Writer;
use crate::format::{Detect, Limits};
use crate::{Addr, Addresses, Label, LabelValue, Profile, ProfileBuilder, Sampling, StringId};

const LIMITS: Limits = Limits { unpacked_bytes: 1 << 20, depth: 100 };

fn decoded(bytes: &[u8]) -> Result<(Profile, Vec<String>), Error> {
    let mut warnings = Vec::new();
    decode::decode(bytes, &LIMITS, &mut warnings).map(|profile| (profile, warnings))
}

fn message(fields: &[(u32, Part<'_>)]) -> Vec<u8> {
    let mut out = Writer::default();
    for (field, part) in fields {
        match part {
            Part::Number(number) => out.explicit_number(*field, *number),
            Part::Bytes(bytes) => out.bytes(*field, bytes),
        }
    }
    out.into_bytes()
}

enum Part<'a> {
    Number(u64),
    Bytes(&'a [u8]),
}
use Part::{Bytes, Number};

/// A profile with one sample type and these fields.
fn with(fields: &[(u32, Part<'_>)]) -> Vec<u8> {
    let mut bytes =
        message(&[(1, Bytes(&[8, 1, 16, 2])), (6, Bytes(b"")), (6, Bytes(b"samples")), (6, Bytes(b"count"))]);
    bytes.extend(message(fields));
    bytes
}

fn heap() -> Profile {
    let mut builder = ProfileBuilder::new(&[("objects", "count"), ("space", "bytes")]);
    let leaf = builder.address(None, Addr(0x1001));
    let root = builder.address(None, Addr(0x2001));
    let labels = [
        builder.text_label("empty", ""),
        builder.number_label("zero", 0, ""),
        builder.number_label("bytes", 1024, "bytes"),
    ];
    builder.sample(&[leaf, root], &[3, 3072], &labels);
    builder.sample(&[], &[0, 0], &[]);
    builder.parts_mut().sampling = Sampling::Poisson(524_288);
    builder.parts_mut().addresses = Addresses::RawReturn;
    builder.finish().unwrap()
}

#[test]
fn a_raw_profile_is_stored_adjusted_and_comes_back_as_captured() {
    let raw = heap();
    let (stored, warnings) = decoded(&encode(&raw).unwrap()).unwrap();
    assert_eq!(warnings, [""; 0]);
    assert_eq!(stored, raw.clone().adjusted(crate::Grammar::Pprof).unwrap());
    assert_eq!(stored.sample(0).values, [1537, 1574400]);
    assert_eq!(stored.locations()[0].address, Addr(0x1000));
    assert_eq!(stored.unadjusted().unwrap(), raw);
}

#[test]
fn a_string_that_does_not_exist_costs_its_use_alone() {
    let function = message(&[(1, Number(1)), (2, Number(77)), (4, Number(2))]);
    let location = message(&[(1, Number(1)), (4, Bytes(&[8, 1]))]);
    let labels = [message(&[(1, Number(1)), (2, Number(2))]), message(&[(1, Number(1)), (2, Number(77))])];
    let sample = message(&[(1, Number(1)), (2, Number(5)), (3, Bytes(&labels[0])), (3, Bytes(&labels[1]))]);
    let bytes = with(&[(2, Bytes(&sample)), (4, Bytes(&location)), (5, Bytes(&function))]);
    let (profile, warnings) = decoded(&bytes).unwrap();
    let line = profile.lines(profile.sample(0).stack[0])[0];
    let function = profile.function(line.function);
    assert_eq!((profile.string(function.name), profile.string(function.filename)), ("", "count"));
    assert_eq!(profile.sample(0).labels, [Label { key: StringId(1), value: LabelValue::Text(StringId(2)) }]);
    assert_eq!(warnings.len(), 2, "{warnings:?}");
}

#[test]
fn what_decodes_with_unknown_fields_is_detected() {
    let plain = encode(&heap()).unwrap();
    assert_eq!(detect::detect(&plain), Detect::Yes);
    let unknown = [message(&[(33, Number(1))]), message(&[(99, Bytes(b"xx"))]), vec![0xd5, 2, 1, 2, 3, 4]];
    let kind = [8, 1, 16, 2];
    let line = message(&[(1, Number(1))]);
    let label = message(&[(1, Number(1)), (2, Number(2))]);
    let id = message(&[(1, Number(1))]);
    let sample = message(&[(1, Number(1)), (2, Number(5)), (3, Bytes(&label))]);
    for more in &unknown {
        let with_more = |bytes: &[u8]| [bytes, more].concat();
        let nested = [
            (1, with_more(&kind)),
            (2, with_more(&message(&[(1, Number(1)), (2, Bytes(&[5, 6])), (3, Bytes(&with_more(&label)))]))),
            (3, with_more(&id)),
            (4, with_more(&message(&[(1, Number(1)), (4, Bytes(&with_more(&line)))]))),
            (5, with_more(&id)),
            (11, with_more(&kind)),
        ];
        let nested: Vec<(u32, Part<'_>)> = nested.iter().map(|(number, bytes)| (*number, Bytes(bytes))).collect();
        let first = [message(&nested[..1]), more.clone()].concat();
        assert_eq!(detect::detect(&first), Detect::Yes, "{more:?}");
        let whole = [with(&nested), more.clone()].concat();
        assert_eq!(detect::detect(&whole), Detect::Yes, "{more:?}");
        let (profile, warnings) = decoded(&whole).unwrap();
        assert_eq!((profile.sample_count(), warnings.len()), (1, 8), "{warnings:?}");
    }
    let wrong = with(&[(2, Bytes(&[&sample[..], &[0x0d, 1, 2, 3, 4]].concat()))]);
    assert_eq!(detect::detect(&wrong), Detect::No);
}

#[test]
fn ids_may_be_dense_permuted_or_wild() {
    for ids in [[1u64, 2], [2, 1], [7, u64::MAX]] {
        let location = |id: u64, address: u64| message(&[(1, Number(id)), (3, Number(address))]);
        let mut sample = Writer::default();
        sample.packed(1, ids.into_iter());
        sample.packed(2, [5].into_iter());
        let bytes = with(&[
            (2, Bytes(sample.as_bytes())),
            (4, Bytes(&location(ids[0], 16))),
            (4, Bytes(&location(ids[1], 32))),
        ]);
        let (profile, _) = decoded(&bytes).unwrap();
        let addresses: Vec<_> = profile.sample(0).stack.iter().map(|id| profile.location(*id).address.0).collect();
        assert_eq!(addresses, [16, 32], "{ids:?}");
    }
}

#[test]
fn packed_and_unpacked_numbers_are_the_same() {
    let location = message(&[(1, Number(1))]);
    let unpacked = message(&[(1, Number(1)), (1, Number(1)), (2, Number(5))]);
    let packed = message(&[(1, Bytes(&[1, 1])), (2, Bytes(&[5]))]);
    let of = |sample: &[u8]| decoded(&with(&[(2, Bytes(sample)), (4, Bytes(&location))])).unwrap().0;
    assert_eq!(of(&unpacked), of(&packed));
}

#[test]
fn labels_as_other_writers_spell_them() {
    let text = message(&[(1, Number(1)), (2, Number(2))]);
    let number = message(&[(1, Number(1)), (2, Number(0)), (3, Number(9)), (4, Number(2))]);
    let bare = message(&[(1, Number(1))]);
    let sample = message(&[(2, Number(5)), (3, Bytes(&text)), (3, Bytes(&number)), (3, Bytes(&bare))]);
    let (profile, _) = decoded(&with(&[(2, Bytes(&sample))])).unwrap();
    let values: Vec<_> = profile.sample(0).labels.iter().map(|label: &Label| label.value).collect();
    assert_eq!(
        values,
        [LabelValue::Text(StringId(2)), LabelValue::Number(9, StringId(2)), LabelValue::Number(0, StringId(0))]
    );
    // A key without a number anywhere has texts: what a writer leaves out is the empty one.
    let sample = message(&[(2, Number(5)), (3, Bytes(&bare)), (3, Bytes(&text))]);
    let (profile, _) = decoded(&with(&[(2, Bytes(&sample))])).unwrap();
    let values: Vec<_> = profile.sample(0).labels.iter().map(|label: &Label| label.value).collect();
    assert_eq!(values, [LabelValue::Text(StringId(0)), LabelValue::Text(StringId(2))]);
}

#[test]
fn oddities_are_reported_and_survived() {
    let twice = message(&[(1, Number(3))]);
    let line_only = message(&[(1, Number(1)), (2, Number(8)), (4, Bytes(&[16, 5]))]);
    let cases: Vec<(Vec<u8>, &str)> = vec![
        (with(&[(4, Bytes(&line_only))]), "pprof: lines without a function, left out: 1, the first at offset"),
        (with(&[(4, Bytes(&line_only))]), "pprof: locations in a mapping that does not exist, kept without one: 1"),
        (with(&[(4, Bytes(&[]))]), "pprof: locations with the id 0, left out: 1, the first at offset"),
        (with(&[(5, Bytes(&[]))]), "pprof: functions with the id 0, left out: 1, the first at offset"),
        (
            with(&[(5, Bytes(&twice)), (5, Bytes(&twice))]),
            "pprof: functions whose id another has, left out: 1, the first",
        ),
        (
            with(&[(2, Bytes(&[10, 1, 9, 16, 5])), (2, Bytes(&[16, 5]))]),
            "pprof: samples of a location that does not exist, left out: 1",
        ),
        (
            with(&[(2, Bytes(&[])), (2, Bytes(&[16, 5]))]),
            "pprof: samples without a value for each sample type, left out: 1",
        ),
        (
            with(&[(14, Number(3))]),
            "pprof: names of a string that does not exist, read as empty: 1, the first at offset",
        ),
        (
            with(&[(13, Bytes(&[1, 9]))]),
            "pprof: comments whose string does not exist, left out: 1, the first at offset",
        ),
        (
            with(&[(2, Bytes(&[16, 5, 26, 2, 8, 9]))]),
            "pprof: labels with a string that does not exist, left out: 1, the first at offset",
        ),
        (with(&[(6, Bytes(b"\xff"))]), "pprof: strings that are not UTF-8, read with replacement characters: 1"),
    ];
    for (bytes, warning) in cases {
        let (_, warnings) = decoded(&bytes).unwrap();
        assert!(warnings.iter().any(|told| told.starts_with(warning)), "{warnings:?}");
    }
}

#[test]
fn broken_messages_say_what_and_where() {
    let cases: Vec<(Vec<u8>, &str)> = vec![
        (
            with(&[(2, Bytes(&[10, 1, 9, 16, 5]))]),
            "pprof: offset 24: samples of a location that does not exist, left out",
        ),
        (with(&[(2, Bytes(&[]))]), "pprof: offset 24: samples without a value for each sample type, left out"),
        (with(&[(9, Bytes(b"x"))]), "pprof: offset 24: wire type: expected a varint"),
        (message(&[(6, Bytes(b"x"))]), "pprof: offset 0: string 0 is not the empty string"),
        (message(&[]), "invalid profile: a profile without sample types"),
    ];
    for (bytes, message) in cases {
        assert_eq!(decoded(&bytes).unwrap_err().to_string(), message);
    }
}

#[test]
fn a_stack_past_the_limit_is_refused() {
    let location = message(&[(1, Number(1))]);
    let mut sample = Writer::default();
    sample.packed(1, std::iter::repeat_n(1, LIMITS.depth + 1));
    sample.packed(2, [1].into_iter());
    let bytes = with(&[(2, Bytes(sample.as_bytes())), (4, Bytes(&location))]);
    assert_eq!(decoded(&bytes).unwrap_err().to_string(), "pprof: frames of a stack passes the limit of 100");
}

#[test]
fn text_is_not_pprof() {
    let texts: &[&[u8]] = &[
        b"heap profile: 1: 2 [3: 4] @ heap_v2/524288\n",
        b"heap_v2/524288\n  t*: 1: 2 [0: 0]\n",
        b"--- contention\n",
        b"main;foo 5\nmain;bar 7\n",
        b"java.lang.Thread.run;x 12\n",
        b"hot;jjjjjjjjjjjjjjj 1\n",
        b"\n\n\n\n",
        b"<!DOCTYPE html><html>",
        b"{\"error\": 1}",
        b"goroutine profile: total 4\n",
        b"2 @ 0x1 0x2\n",
        b"not found",
        b"Bad Request",
    ];
    for text in texts {
        assert_ne!(detect::detect(text), Detect::Yes, "{}", text.escape_ascii());
    }
}

#[test]
fn every_prefix_of_a_message_is_maybe_or_yes() {
    let bytes = encode(&heap()).unwrap();
    for end in 0..bytes.len() {
        assert_ne!(detect::detect(&bytes[..end]), Detect::No, "{end}");
    }
}

#[test]
fn fixtures_decode() {
    crate::format::fixtures::check("pprof/go-cpu.pb.gz", "pprof");
    crate::format::fixtures::check("pprof/go-heap.pb.gz", "pprof");
}

#[test]
fn unknown_fields_are_counted_once_each() {
    let mut bytes =
        ProfileBuilder::new(&[("samples", "count")]).finish().map(|profile| encode(&profile).unwrap()).unwrap();
    for _ in 0..3 {
        let mut writer = crate::format::protobuf::Writer::default();
        writer.number(99, 7);
        bytes.extend_from_slice(writer.as_bytes());
    }
    let (_, warnings) = decoded(&bytes).unwrap();
    let expected =
        format!("pprof: field 99 of Profile: unknown and left out, 3, the first at offset {}", bytes.len() - 9);
    assert_eq!(warnings, [expected]);
}
