//! Any bytes as a text of symbols that names the addresses of a profile: `FUZZ_PART=perf_map` as a run-time compiler
//! writes it, `FUZZ_PART=kallsyms` as the kernel does.

#![no_main]

use std::cell::RefCell;

use libfuzzer_sys::fuzz_target;
use procprof_fuzz::{Bound, Files, Meter, part};
use procprof_profile::{Addr, Mapping, Profile, ProfileBuilder};
use procprof_symbolize::{ImageOptions, PathUse, Sources, symbolize_profile};

const KERNEL: u64 = 0xffff_ffff_8100_0000;
const MADE_CODE: u64 = 0x7f2a_1c00_0000;

thread_local! {
    static STATE: RefCell<State> = RefCell::new(State::new());
}

struct State {
    is_kernel: bool,
    profile: Profile,
    files: Files,
    meter: Meter,
}

impl State {
    fn new() -> State {
        let is_kernel = match part().as_deref() {
            Some("kallsyms") => true,
            Some("perf_map") | None => false,
            Some(other) => panic!("no symbols {other:?}"),
        };
        let meter = Meter::new(Bound { multiple: 64, free: 1 << 20 });
        State {
            is_kernel,
            profile: profile(if is_kernel { KERNEL } else { MADE_CODE }, is_kernel),
            files: Files::new(),
            meter,
        }
    }
}

/// Samples at 64 addresses behind `start`.
fn profile(start: u64, is_kernel: bool) -> Profile {
    let mut builder = ProfileBuilder::new(&[("samples", "count")]);
    let filename = builder.intern(if is_kernel { "[kernel.kallsyms]_text" } else { "//anon" });
    let mapping = Mapping { start: Addr(start), limit: Addr(start + 0x10_0000), filename, ..Mapping::default() };
    let mapping = builder.mapping(mapping);
    for step in 0..64 {
        let location = builder.address(Some(mapping), Addr(start + step * step * 7));
        builder.sample(&[location], &[1], &[]);
    }
    builder.finish().expect("the profile is right")
}

fuzz_target!(|bytes: &[u8]| STATE.with_borrow_mut(|state| exercise(bytes, state)));

fn exercise(bytes: &[u8], state: &mut State) {
    let path = state.files.write("symbols", bytes);
    let image = ImageOptions { debug_dirs: Vec::new(), ..ImageOptions::default() };
    let mut sources = Sources { paths: PathUse::Never, image, ..Sources::default() };
    if state.is_kernel {
        sources.kallsyms = Some(path);
    } else {
        sources.perf_maps = vec![path];
    }
    let profile = state.profile.clone();
    let named = state.meter.hold(bytes.len(), || symbolize_profile(profile, &mut sources));
    let (profile, _) = named.expect("the addresses are call sites");
    assert_eq!(profile.sample_count(), state.profile.sample_count());
}
