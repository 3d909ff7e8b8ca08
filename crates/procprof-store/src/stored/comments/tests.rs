//! Metadata that is read from a profile, and profiles that are refused.

use std::io::Write;

use flate2::Compression;
use flate2::write::GzEncoder;
use procprof_profile::Nanos;

use super::read;

fn gzip(bytes: &[u8]) -> Vec<u8> {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::fast());
    encoder.write_all(bytes).unwrap();
    encoder.finish().unwrap()
}

fn string(text: &str) -> Vec<u8> {
    [&[6 << 3 | 2, text.len() as u8], text.as_bytes()].concat()
}

#[test]
fn facts_are_found_whichever_way_they_are_spelled() {
    let strings = [
        string(""),
        string("procprof:node=7"),
        string("proc"),
        string("#procprof:type=cpu"),
        string("procprof:role=BE"),
    ]
    .concat();
    let single = [13 << 3, 1, 13 << 3, 3].to_vec();
    let packed = [13 << 3 | 2, 2, 1, 3].to_vec();
    let times = [9 << 3, 5, 10 << 3, 0x80, 1].to_vec();
    for parts in [[&strings, &single, &times], [&times, &packed, &strings], [&single, &times, &strings]] {
        let comments = read(gzip(&parts.map(Vec::as_slice).concat()).as_slice(), 1 << 20).unwrap();
        assert_eq!((comments.meta.node, comments.meta.profile_type), (Some(7), Some("cpu".parse().unwrap())));
        assert_eq!(comments.meta.role, "", "a string is a comment only when a comment points at it");
        assert_eq!((comments.start, comments.duration), (Nanos(5), Nanos(128)));
    }
}

#[test]
fn broken_input_is_an_error() {
    let profile = [string(""), string("procprof:node=7"), vec![13 << 3, 1]].concat();
    for end in 1..profile.len() {
        // A cut between two fields is a shorter profile; any other is an error. None panics.
        let _ = read(gzip(&profile[..end]).as_slice(), 1 << 20);
    }
    let error = |bytes: &[u8], max| read(bytes, max).unwrap_err().to_string();
    assert!(error(&gzip(&[0x13]), 1 << 20).contains("unknown wire type"));
    assert!(error(&gzip(&[0xff; 11]), 1 << 20).contains("more than ten bytes"));
    assert!(error(&gzip(&[0x0a, 9, 1]), 1 << 20).contains("ends inside a field"));
    assert!(error(&gzip(&[0x08; 2000]), 1000).contains("more than 1000 bytes"));
    for begun in ["#procprof:", "procprof:x"] {
        let long = [string("").as_slice(), &[0x32, 0x80, 0x80, 0x80, 0x80, 0x10], begun.as_bytes()].concat();
        assert!(error(&gzip(&long), 1 << 20).contains("64 KiB"), "{begun}");
    }
    let packed_bomb = [&[13 << 3 | 2, 0xff, 0xff, 0xff, 0x7f][..], &vec![1; 100_000]].concat();
    assert!(error(&gzip(&packed_bomb), 1 << 20).contains("too many comments"));
    let mut torn = gzip(&profile);
    let last = torn.len() - 6;
    torn[last] ^= 1;
    assert!(read(torn.as_slice(), 1 << 20).is_err(), "the checksum is checked");
}
