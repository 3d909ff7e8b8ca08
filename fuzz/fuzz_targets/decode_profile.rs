//! Any bytes: by the format table, and by each decoder whether it would take them or not. What decodes must be kept by pprof, add up with
//! itself, and survive a filter.
//!
//! `cargo +nightly fuzz run decode_profile fuzz/corpus/decode_profile testdata/formats/*/` starts from the recorded profiles.

#![no_main]

use libfuzzer_sys::fuzz_target;
use procprof_profile::diff::diff;
use procprof_profile::filter::{Filter, FilterOptions};
use procprof_profile::format::{self, FORMATS, Limits, pprof};
use procprof_profile::{Grammar, Profile};

const LIMITS: Limits = Limits { unpacked_bytes: 1 << 20, depth: 4096 };

fuzz_target!(|bytes: &[u8]| {
    let _ = format::detect(bytes);
    if let Ok(decoded) = format::decode(bytes, &LIMITS) {
        check(decoded.profile);
    }
    for format in FORMATS {
        if let Ok(profile) = (format.decode)(bytes, &LIMITS, &mut Vec::new()) {
            check(profile);
        }
    }
});

fn check(profile: Profile) {
    let stored = pprof::encode(&profile).expect("a valid profile can be encoded");
    let limits = Limits { unpacked_bytes: u64::MAX, depth: usize::MAX };
    let again = format::FORMATS.iter().find(|format| format.name == "pprof").expect("pprof has a row");
    let again = (again.decode)(&stored, &limits, &mut Vec::new()).expect("what is encoded decodes");
    let adjusted = profile.clone().adjusted(Grammar::Pprof).expect("a valid profile can be adjusted");
    assert_eq!(again, adjusted);
    let _ = profile.clone().adjusted(Grammar::Jeprof);
    let _ = again.unadjusted().expect("a stored profile has been captured");
    assert_eq!(diff(&profile, &profile).map(|difference| difference.sample_count()), Ok(0));
    let options = FilterOptions { hide: "a".to_owned(), show_from: "b".to_owned(), tagfocus: ":5kb".to_owned(), ..FilterOptions::default() };
    let filter = Filter::parse(&options).expect("the options are right");
    let _ = filter.apply(profile).expect("a valid profile can be filtered");
}
