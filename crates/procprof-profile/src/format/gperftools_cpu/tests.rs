use std::process::Command;

use super::*;
use crate::Addr;
use crate::format::fixtures::{bytes, check_hostile, check_with_go, decoded, error, path};
use crate::format::go_raw::Raw;
use crate::{Grammar, ProfileBuilder};

const MAP: &str = "00400000-00402000 r-xp 00000000 fd:01 1234 /usr/bin/prog\n";

fn words(words: &[u64], write: impl Fn(u64) -> Vec<u8>) -> Vec<u8> {
    let mut bytes: Vec<u8> = words.iter().flat_map(|word| write(*word)).collect();
    bytes.extend_from_slice(MAP.as_bytes());
    bytes
}

fn little(values: &[u64]) -> Vec<u8> {
    words(values, |word| word.to_le_bytes().to_vec())
}

/// Header, two samples with different callers, trailer.
const SMALL: [u64; 16] = [0, 3, 0, 10_000, 0, 7, 2, 0x40_1000, 0x40_1100, 3, 2, 0x40_1010, 0x40_1200, 0, 1, 0];

#[test]
fn a_recorded_profile_reads_as_pprof_reads_it() {
    check_with_go("gperftools-cpu/work.prof", NAME);
}

#[test]
fn totals_are_those_of_google_pprof() {
    let output =
        Command::new("google-pprof").args(["--text", "/bin/true"]).arg(path("gperftools-cpu/work.prof")).output();
    let output = String::from_utf8(output.expect("`google-pprof` must be installed for this test").stdout).unwrap();
    let total = output.lines().find_map(|line| line.strip_prefix("Total: ")?.split(' ').next()?.parse().ok());
    assert_eq!(total, Some(decoded(&bytes("gperftools-cpu/work.prof")).profile.total(0)));
}

#[test]
fn words_of_every_layout_say_the_same() {
    let expected = decoded(&little(&SMALL)).profile;
    assert_eq!((expected.total(0), expected.total(1)), (10, 100_000_000));
    assert_eq!(
        expected.locations().iter().map(|location| location.address.0).collect::<Vec<_>>(),
        [0x40_1000, 0x40_1100, 0x40_1010, 0x40_1200]
    );
    assert!(expected.locations().iter().all(|location| location.mapping.is_some()));
    let layouts: [fn(u64) -> Vec<u8>; 3] = [
        |word| word.to_be_bytes().to_vec(),
        |word| (word as u32).to_le_bytes().to_vec(),
        |word| (word as u32).to_be_bytes().to_vec(),
    ];
    for layout in layouts {
        let bytes = words(&SMALL, layout);
        assert_eq!(decoded(&bytes).profile, expected);
        check_hostile(&bytes);
    }
    assert_eq!(decoded(&[b"--- profile\n".to_vec(), little(&SMALL)].concat()).profile, expected);
}

#[test]
fn frames_of_the_signal_handler_are_dropped() {
    let handler = 0x7f00_0000_1000;
    let mut all = SMALL[..5].to_vec();
    for sample in 0..64 {
        let second = if sample < 62 { handler } else { 0x40_1800 + sample };
        all.extend([1, 4, 0x40_1000 + sample, second, 0x40_1000 + sample, 0x40_1900 + sample % 2]);
    }
    all.extend([0, 1, 0]);
    let decoded = decoded(&little(&all));
    assert_eq!(
        decoded.warnings,
        [
            "gperftools-cpu: removed the frame 0x7f0000001000 behind the leaf of 62 of 64 samples, taken for the signal handler's",
            "gperftools-cpu: removed a second frame that repeats the leaf in 62 of 64 samples"
        ]
    );
    assert_eq!((decoded.profile.sample(0).stack.len(), decoded.profile.sample(63).stack.len()), (2, 4));
    against_go(&little(&all));
}

#[test]
fn a_single_stack_loses_two_frames_as_in_pprof() {
    let one = [0, 3, 0, 10_000, 0, 7, 4, 0x40_1000, 0x40_1100, 0x40_1200, 0x40_1300, 0, 1, 0];
    let decoded = decoded(&little(&one));
    assert_eq!((decoded.profile.sample(0).stack.len(), decoded.warnings.len()), (2, 2));
    against_go(&little(&one));
}

fn against_go(bytes: &[u8]) {
    let file = std::env::temp_dir().join(format!("procprof-cpu-{}-{}.prof", std::process::id(), bytes.len()));
    std::fs::write(&file, bytes).unwrap();
    let go = Raw::of_go(&file);
    std::fs::remove_file(&file).unwrap();
    assert_eq!(Raw::from_profile(&decoded(bytes).profile.adjusted(Grammar::Pprof).unwrap()), go);
}

#[test]
fn errors_of_truncated_or_impossible_files_contain_the_place() {
    let bytes = little(&SMALL);
    assert_eq!(error(&bytes[..48]), "gperftools-cpu: offset 40: input ends inside a sample");
    assert_eq!(error(&bytes[..71]), "gperftools-cpu: offset 40: input ends inside a sample");
    assert_eq!(
        decoded(&bytes[..72]).warnings[0],
        "gperftools-cpu: offset 72: no trailer; the profile may have lost its end and its memory map"
    );
    let mut deep = SMALL;
    deep[6] = 65_537;
    assert_eq!(error(&little(&deep)), "gperftools-cpu: frames of a stack passes the limit of 65536");
    let mut many = SMALL;
    many[5] = 1 << 62;
    assert_eq!(
        error(&little(&many)),
        "gperftools-cpu: offset 40: a count of 4611686018427387904 does not fit with its period"
    );
    let mut slow = SMALL;
    slow[3] = 1 << 40;
    assert_eq!(
        error(&little(&slow)),
        "gperftools-cpu: offset 0: a sampling period of 1099511627776 microseconds is over an hour"
    );
    assert_eq!(
        error(b"--- profile\nno words"),
        "gperftools-cpu: offset 12: expected the header words 0, 3, 0, period, 0"
    );
    assert_eq!(detect(&bytes[..20]), Detect::NeedMore);
    assert_eq!(detect(&[0; 64]), Detect::No);
}

#[test]
fn encoding_gives_back_what_was_captured() {
    let profile = decoded(&bytes("gperftools-cpu/work.prof")).profile;
    let adjusted = profile.clone().adjusted(Grammar::Pprof).unwrap();
    for source in [profile.clone(), adjusted.clone()] {
        let again = decoded(&encode(&source).unwrap());
        assert_eq!(
            Raw::from_profile(&again.profile.clone().adjusted(Grammar::Pprof).unwrap()),
            Raw::from_profile(&adjusted)
        );
        assert_eq!(again.profile.addresses(), Addresses::RawCpu);
        against_go(&encode(&source).unwrap());
    }
    assert_eq!(decoded(&encode(&profile).unwrap()).profile, profile);
}

#[test]
fn call_sites_are_encoded_as_return_addresses() {
    let mut builder = ProfileBuilder::new(&[("samples", "count"), ("cpu", "nanoseconds")]);
    builder.period("cpu", "nanoseconds", 10_101_010);
    let (leaf, caller) = (builder.address(None, Addr(0x1000)), builder.address(None, Addr(0x2000)));
    builder.sample(&[leaf, caller], &[1, 10_101_010], &[]);
    builder.sample(&[caller, leaf], &[1, 10_101_010], &[]);
    let bytes = encode(&builder.finish().unwrap()).unwrap();
    let read: Vec<u64> = bytes.chunks_exact(8).map(|word| u64::from_le_bytes(word.try_into().unwrap())).collect();
    assert_eq!(read, [0, 3, 0, 10_101, 0, 1, 2, 0x1000, 0x2001, 1, 2, 0x2000, 0x1001, 0, 1, 0]);
}

#[test]
fn what_the_format_cannot_hold_is_refused() {
    let refuse = |types: &[(&str, &str)], period: i64, value: i64, named: bool| {
        let mut builder = ProfileBuilder::new(types);
        builder.period("cpu", "nanoseconds", period);
        let location = if named { builder.frame("main") } else { builder.address(None, Addr(0x1000)) };
        builder.sample(&[location], &vec![value; types.len()], &[]);
        encode(&builder.finish().unwrap()).unwrap_err().to_string()
    };
    assert!(refuse(&[("cpu", "nanoseconds")], 1000, 1, false).ends_with("no sample type counts samples"));
    assert!(refuse(&[("samples", "count")], 999, 1, false).ends_with("is not a microsecond or more"));
    assert!(refuse(&[("samples", "count")], 1000, -1, false).ends_with("a negative count"));
    assert!(refuse(&[("samples", "count")], 1000, 1, true).ends_with("a frame without an address"));
}
