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
fn what_is_no_profile_says_why() {
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
fn broken_gzip_says_where() {
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
