//! Any bytes as a profile: by the format table, unpacked first if needed, or by the one decoder that `FUZZ_PART` names
//! (a format, or `jemalloc-threads`), whether or not it detects them; `packed` is the table, with packed files to start
//! from. A decoded profile must survive encoding as pprof, merging with itself, and a filter.
//!
//! `FUZZ_PART=jemalloc cargo +nightly fuzz run decode_profile fuzz/corpus/decode_profile-jemalloc testdata/formats/jemalloc`

#![no_main]

use std::cell::RefCell;

use libfuzzer_sys::fuzz_target;
use procprof_fuzz::{Bound, Meter, part};
use procprof_profile::diff::diff;
use procprof_profile::filter::{Filter, FilterOptions};
use procprof_profile::format::{self, FORMATS, Limits, MEMORY_FREE, MEMORY_MULTIPLE, jemalloc, pprof};
use procprof_profile::{Grammar, Profile, Result};

const LIMITS: Limits = Limits { unpacked_bytes: 1 << 20, depth: 4096 };
/// Memory of unpacking as long as the input is at most 64 KiB.
const UNPACKING: usize = 3 * LIMITS.unpacked_bytes as usize;

thread_local! {
    static STATE: RefCell<State> = RefCell::new(State::new());
}

type Decode = fn(&[u8], &Limits, &mut Vec<String>) -> Result<Profile>;

struct State {
    /// The only decoder, or the table.
    decode: Option<Decode>,
    meter: Meter,
    filter: Filter,
}

impl State {
    fn new() -> State {
        let named = |name: String| match name.as_str() {
            "jemalloc-threads" => jemalloc::decode_threads as Decode,
            name => {
                FORMATS.iter().find(|format| format.name == name).unwrap_or_else(|| panic!("no format {name:?}")).decode
            }
        };
        let options = FilterOptions {
            hide: "a".to_owned(),
            show_from: "b".to_owned(),
            tagfocus: ":5kb".to_owned(),
            ..FilterOptions::default()
        };
        State {
            decode: part().filter(|part| part != "packed").map(named),
            meter: Meter::new(Bound { multiple: MEMORY_MULTIPLE, free: MEMORY_FREE }),
            filter: Filter::parse(&options).expect("the options are right"),
        }
    }
}

fuzz_target!(|bytes: &[u8]| STATE.with_borrow_mut(|state| exercise(bytes, state)));

fn exercise(bytes: &[u8], state: &mut State) {
    let decoded = match state.decode {
        Some(decode) => state.meter.hold(bytes.len(), || decode(bytes, &LIMITS, &mut Vec::new())),
        None => {
            let _ = format::detect(bytes);
            let mut meter =
                Meter::new(Bound { multiple: 0, free: MEMORY_MULTIPLE * LIMITS.unpacked_bytes as usize + UNPACKING });
            meter.hold(bytes.len(), || format::decode(bytes, &LIMITS).map(|decoded| decoded.profile))
        }
    };
    if let Ok(profile) = decoded {
        check(profile, &state.filter);
    }
}

fn check(profile: Profile, filter: &Filter) {
    let stored = pprof::encode(&profile).expect("a valid profile can be encoded");
    let limits = Limits { unpacked_bytes: u64::MAX, depth: usize::MAX };
    let again = FORMATS.iter().find(|format| format.name == "pprof").expect("pprof has a row");
    let again = (again.decode)(&stored, &limits, &mut Vec::new()).expect("what is encoded decodes");
    let adjusted = profile.clone().adjusted(Grammar::Pprof).expect("a valid profile can be adjusted");
    assert_eq!(again, adjusted);
    let _ = profile.clone().adjusted(Grammar::Jeprof);
    let _ = again.unadjusted().expect("a stored profile has been captured");
    assert_eq!(diff(&profile, &profile).map(|difference| difference.sample_count()), Ok(0));
    let _ = filter.apply(profile).expect("a valid profile can be filtered");
}
