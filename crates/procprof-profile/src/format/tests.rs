use std::io::Write;

use super::*;
use crate::ProfileBuilder;

fn small() -> Profile {
    let mut builder = ProfileBuilder::new(&[("samples", "count")]);
    let leaf = builder.frame("leaf");
    builder.sample(&[leaf], &[1], &[]);
    builder.finish().unwrap()
}

fn gzip(bytes: &[u8]) -> Vec<u8> {
    let mut packer = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::default());
    packer.write_all(bytes).unwrap();
    packer.finish().unwrap()
}

fn error(bytes: &[u8], limits: &Limits) -> String {
    decode(bytes, limits).unwrap_err().to_string()
}

#[test]
fn gzip_of_one_or_several_members_is_unpacked() {
    let plain = pprof::encode(&small()).unwrap();
    let (head, tail) = plain.split_at(7);
    for bytes in [plain.clone(), gzip(&plain), [gzip(head), gzip(tail)].concat()] {
        let decoded = decode(&bytes, &Limits::default()).unwrap();
        assert_eq!((decoded.profile, decoded.format), (small(), "pprof"));
        assert_eq!(detect(&bytes), Some("pprof"));
    }
}

#[test]
fn errors_for_other_inputs_contain_the_reason() {
    let limits = Limits::default();
    assert_eq!(decode(b"", &limits).unwrap_err(), Error::Empty);
    assert_eq!(decode(&gzip(b""), &limits).unwrap_err(), Error::Empty);
    assert_eq!(error(b"<html>\n", &limits), "no known profile format begins with \"<html>\\n\"");
    let long = error("é".repeat(99).as_bytes(), &limits);
    assert!(long.contains("\\xc3\\xa9") && long.len() < 320, "{long}");
}

#[test]
fn packed_data_is_bounded() {
    let packed = gzip(&vec![b'a'; 1 << 20]);
    let limits = Limits { unpacked_bytes: 1000, ..Limits::default() };
    assert_eq!(error(&packed, &limits), "gzip: the unpacked size in bytes passes the limit of 1000");
    assert_eq!(error(&[b'a'; 1001], &limits), "input: its size in bytes passes the limit of 1000");
    assert_eq!(error(&gzip(&packed), &Limits::default()), "gzip: offset 0: gzip within gzip");
}

#[test]
fn errors_of_broken_gzip_contain_the_place() {
    let packed = gzip(&pprof::encode(&small()).unwrap());
    for end in 2..packed.len() {
        let error = decode(&packed[..end], &Limits::default()).unwrap_err();
        assert!(matches!(error, Error::Truncated { format: "gzip", .. }), "{end}: {error}");
    }
    let mut trailing = packed.clone();
    trailing.extend_from_slice(b"garbage after the end");
    assert!(matches!(decode(&trailing, &Limits::default()), Err(Error::Malformed { format: "gzip", .. })));
}

#[test]
fn names_are_unique() {
    for (index, format) in FORMATS.iter().enumerate() {
        assert!(FORMATS[..index].iter().all(|other| other.name != format.name), "{}", format.name);
    }
}

#[test]
fn a_format_may_hold_a_profile_for_each_kind_of_event() {
    fn both(_: &[u8], _: &Limits, warnings: &mut Vec<String>) -> Result<Vec<Event>> {
        warnings.push("a chunk is cut short".to_owned());
        Ok(["cpu", "alloc"].map(|name| Event { name: name.to_owned(), profile: small() }).into())
    }
    let row = Format {
        name: "two",
        help: "two profiles",
        detect: |bytes| if bytes.starts_with(b"TWO") { Detect::Yes } else { Detect::No },
        decode: |bytes, limits, warnings| both(bytes, limits, warnings).map(|events| events[0].profile.clone()),
        events: Some(both),
        encode: None,
    };
    let none = Format { name: "none", events: Some(|_, _, _| Ok(Vec::new())), ..row };
    let limits = Limits::default();
    for bytes in [b"TWO".to_vec(), gzip(b"TWO")] {
        let decoded = decode_events_of(&[pprof::FORMAT, row], &bytes, &limits).unwrap();
        let shown: Vec<_> = decoded.iter().map(|one| (one.event.as_str(), one.format, one.warnings.len())).collect();
        assert_eq!(shown, [("cpu", "two", 1), ("alloc", "two", 0)]);
    }
    assert_eq!(decode_events_of(&[none], b"TWO", &limits).unwrap_err(), Error::Empty);
    let one = decode_events(&pprof::encode(&small()).unwrap(), &limits).unwrap();
    assert_eq!(one.iter().map(|one| one.event.as_str()).collect::<Vec<_>>(), [""], "other formats hold one");
}
