//! Encoded profiles can be decoded, and damaged ones at worst return an error.

use procprof_profile::format::{FORMATS, Limits, decode, pprof};
use procprof_profile::{Grammar, Profile};
use proptest::prelude::*;

use crate::{fixtures, random};

fn decoded(bytes: &[u8]) -> Profile {
    let decoded = decode(bytes, &Limits::default()).unwrap();
    assert_eq!((decoded.format, decoded.warnings), ("pprof", vec![]));
    decoded.profile
}

/// Addresses and values of each sample.
fn measured(profile: &Profile) -> Vec<(Vec<u64>, Vec<i64>)> {
    let addresses =
        |stack: &[procprof_profile::LocationId]| stack.iter().map(|id| profile.location(*id).address.0).collect();
    profile.samples().map(|sample| (addresses(sample.stack), sample.values.to_vec())).collect()
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 200, ..ProptestConfig::default() })]

    #[test]
    fn pprof_keeps_everything(raw in random::profile()) {
        let adjusted = raw.clone().adjusted(Grammar::Pprof).unwrap();
        let bytes = pprof::encode(&raw).unwrap();
        let stored = decoded(&bytes);
        prop_assert_eq!(&stored, &adjusted);
        prop_assert_eq!(stored.meta(), raw.meta());
        prop_assert_eq!(pprof::encode(&adjusted).unwrap(), bytes);
        prop_assert_eq!(decoded(&pprof::encode_gzip(&raw).unwrap()), adjusted);
    }

    #[test]
    fn what_was_captured_comes_back(raw in random::profile()) {
        let stored = decoded(&pprof::encode(&raw).unwrap());
        let captured = stored.unadjusted().unwrap();
        prop_assert_eq!(measured(&captured), measured(&raw));
        prop_assert_eq!(captured.addresses(), raw.addresses());
        let jeprof = |profile: &Profile| measured(&profile.clone().adjusted(Grammar::Jeprof).unwrap());
        prop_assert_eq!(jeprof(&captured), jeprof(&raw));
    }

    #[test]
    fn damage_is_an_error_or_another_profile(raw in random::profile(), hits in proptest::collection::vec((any::<prop::sample::Index>(), 0u8..8), 1..8)) {
        let mut bytes = pprof::encode(&raw).unwrap();
        for (index, bit) in hits {
            let index = index.index(bytes.len());
            bytes[index] ^= 1 << bit;
        }
        survive(&bytes);
    }

    #[test]
    fn noise_is_an_error_or_a_profile(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
        survive(&bytes);
    }
}

/// Decodes by the table and by every format directly, and uses what comes out.
fn survive(bytes: &[u8]) {
    let limits = Limits { unpacked_bytes: 1 << 20, depth: 1000 };
    let _ = decode(bytes, &limits);
    for format in FORMATS {
        if let Ok(profile) = (format.decode)(bytes, &limits, &mut Vec::new()) {
            let _ = pprof::encode(&profile);
        }
    }
}

/// Decodes the beginnings of every fixture: each of its head and of its very end, and some places between.
fn decode_prefixes(places: usize) {
    for (_, bytes) in fixtures::all() {
        let head = bytes.len().min(1500);
        let rest = (head..bytes.len())
            .step_by(1 + bytes.len() / places)
            .chain(bytes.len().saturating_sub(32).max(head)..bytes.len());
        for end in (0..head).chain(rest) {
            let _ = decode(&bytes[..end], &Limits::default());
        }
    }
}

#[test]
fn every_prefix_of_every_fixture_decodes_or_errs() {
    decode_prefixes(40);
}

#[test]
#[ignore = "takes minutes: `cargo xtask soak long` runs it"]
fn many_prefixes_of_every_fixture_decode_or_err() {
    decode_prefixes(150);
}

/// Decodes every fixture with a changed bit, at some places of it.
fn decode_with_changed_bits(places: usize) {
    for (_, bytes) in fixtures::all() {
        let step = 1 + bytes.len() / places;
        for index in (0..bytes.len()).step_by(step) {
            let mut changed = bytes.clone();
            changed[index] ^= 1 << (index % 8);
            let _ = decode(&changed, &Limits::default());
        }
    }
}

#[test]
fn every_fixture_with_a_changed_bit_decodes_or_errs() {
    decode_with_changed_bits(100);
}

#[test]
#[ignore = "takes minutes: `cargo xtask soak long` runs it"]
fn every_fixture_with_many_changed_bits_decodes_or_errs() {
    decode_with_changed_bits(500);
}

#[test]
fn every_fixture_is_kept_by_pprof() {
    for (name, bytes) in fixtures::all() {
        let Ok(source) = decode(&bytes, &Limits::default()) else { continue };
        let adjusted = source.profile.clone().adjusted(Grammar::Pprof).unwrap();
        let stored = decoded(&pprof::encode_gzip(&source.profile).unwrap());
        assert_eq!(stored, adjusted, "{name}");
        assert_eq!(measured(&stored.unadjusted().unwrap()), measured(&source.profile), "{name}");
    }
}

#[test]
fn what_a_format_encodes_it_decodes() {
    for (name, bytes) in fixtures::all() {
        let Ok(source) = decode(&bytes, &Limits::default()) else { continue };
        if source.profile.samples().all(|sample| sample.stack.is_empty()) {
            continue;
        }
        for format in FORMATS {
            let Some(Ok(encoded)) = format.encode.map(|encode| encode(&source.profile)) else { continue };
            let plain = if format.name == "pprof" { pprof::encode(&source.profile).unwrap() } else { encoded };
            let again = (format.decode)(&plain, &Limits::default(), &mut Vec::new());
            assert!(again.is_ok_and(|again| again.sample_count() > 0), "{name} as {}", format.name);
        }
    }
}
