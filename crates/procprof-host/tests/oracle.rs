//! The same seconds of the same process recorded by us and by `perf record`: the same functions with the same shares.

use std::process::{Command, Stdio};
use std::time::Duration;

use procprof_host::{Filter, Options, Recorder, Recording, Target};
use procprof_profile::Profile;
use procprof_profile::format::{self, Limits};

use crate::program::{Program, perf_script};
use crate::shares::{assert_share, count, functions, named};

const HZ: u32 = 997;
/// CPU seconds of a program: some 600 samples.
const SECONDS: &str = "0.6";
/// Share of Go's stacks that reach the thread's first frame; where the runtime has just changed the stack, callers can't
/// be found.
const GO_ROOTED: f64 = 0.97;

/// Records a program that `perf record` runs and records, too.
fn record_beside_perf(program: &Program, callchains: &str) -> (Recording, Profile) {
    let name = program.path.file_name().unwrap().to_str().unwrap().to_owned();
    let file = program.path.with_extension("perf.data");
    let filter = Filter { name: Some(name), ..Filter::default() };
    let options = Options { hz: HZ, filter, ..Options::default() };
    // Version 6.1 of `perf` aborts now and then, for seconds on end.
    let recording = (0..20).find_map(|_| {
        let mut recorder = Recorder::attach(Target::FutureChildren, &options).expect("perf events are permitted");
        let mut perf = Command::new("perf");
        perf.args(["record", "-q", "-N", "-e", "task-clock", "-F", &HZ.to_string(), "--call-graph", callchains, "-o"]);
        perf.arg(&file).arg("--").arg(&program.path).arg(SECONDS).stdout(Stdio::null());
        let mut perf = perf.spawn().expect("this test needs perf");
        let status = loop {
            recorder.poll(Duration::from_millis(50)).unwrap();
            if let Some(status) = perf.try_wait().unwrap() {
                break status;
            }
        };
        if !status.success() {
            eprintln!("perf record: {status}");
            std::thread::sleep(Duration::from_secs(1));
            return None;
        }
        Some(recorder.finish().unwrap())
    });
    let recording = recording.expect("perf records");
    (recording, format::decode(&perf_script(&file, &[]), &Limits::default()).unwrap().profile)
}

/// Samples with a function whose name has this part below one that has the other, and all with the latter.
fn share(profile: &Profile, part: &str, root: &str) -> (f64, f64) {
    let has = |stack: &[_], part: &str| functions(profile, stack).iter().any(|name| name.contains(part));
    let (both, _) = count(profile, |sample| has(sample.stack, part) && has(sample.stack, root));
    let (all, _) = count(profile, |sample| has(sample.stack, root));
    (both, all)
}

/// The share of samples whose first frame is of the function.
fn leaf_share(profile: &Profile, name: &str) -> (f64, f64) {
    count(profile, |sample| functions(profile, sample.stack).first().is_some_and(|leaf| leaf.contains(name)))
}

fn assert_same(what: &str, (ours, all_ours): (f64, f64), (theirs, all_theirs): (f64, f64)) {
    let share = (ours + theirs) / (all_ours + all_theirs);
    let deviation = (share * (1.0 - share) * (1.0 / all_ours + 1.0 / all_theirs)).sqrt();
    let difference = (ours / all_ours - theirs / all_theirs).abs();
    assert!(difference <= 5.0 * deviation + 0.02, "{what}: {ours} of {all_ours}, perf: {theirs} of {all_theirs}");
}

#[test]
fn the_same_functions_have_the_same_shares_as_with_perf() {
    for (source, options, callchains, [root, a, b, leaf]) in [
        ("burn.c", &["-O2", "-fno-optimize-sibling-calls"][..], "dwarf", ["deep", "hot_a", "hot_b", "spin"]),
        // Optimized, a function that calls none has no frame, and `perf` misses its caller.
        ("burn.c", &["-O0"], "fp", ["deep", "hot_a", "hot_b", "spin"]),
        ("burn.cpp", &["-O2", "-fno-optimize-sibling-calls"], "dwarf", ["deep", "hot_a", "hot_b", "spin"]),
        ("burn.rs", &["-O"], "dwarf", ["deep", "HotA", "HotB", "spin"]),
        ("burn.go", &[], "fp", ["main.deep", "hotA", "hotB", "main.step"]),
    ] {
        let what = format!("{source} {callchains}");
        let program = Program::new(source, options);
        let (recording, theirs) = record_beside_perf(&program, callchains);
        let ours = named(&recording);
        assert_share(&what, share(&ours, a, root), 0.7);
        for function in [a, b] {
            assert_same(&format!("{what}: {function}"), share(&ours, function, root), share(&theirs, function, root));
        }
        assert_same(&format!("{what}: the leaf {leaf}"), leaf_share(&ours, leaf), leaf_share(&theirs, leaf));
        assert_rooted(&what, &recording, if source == "burn.go" { GO_ROOTED } else { 0.99 });
    }
}

/// Asserts that so many stacks reach their thread's first frame.
fn assert_rooted(what: &str, recording: &Recording, share: f64) {
    let statistics = recording.statistics;
    assert!(statistics.to_root as f64 >= share * statistics.user_stacks as f64, "{what}: {statistics:?}");
}

#[test]
fn go_programs_have_callers_and_names_with_and_without_a_symbol_table() {
    for options in [&[][..], &["-ldflags=-s -w"]] {
        let program = Program::new("burn.go", options);
        let mut recorder = Recorder::attach(Target::FutureChildren, &Options { hz: HZ, ..Options::default() })
            .expect("perf events are permitted");
        let mut child = Command::new(&program.path).arg(SECONDS).spawn().unwrap();
        while child.try_wait().unwrap().is_none() {
            recorder.poll(Duration::from_millis(50)).unwrap();
        }
        let recording = recorder.finish().unwrap();
        let profile = named(&recording);
        let (a, b) = (share(&profile, "hotA", "main.deep").0, share(&profile, "hotB", "main.deep").0);
        assert_share(&format!("{options:?}"), (a, a + b), 0.7);
        let (below, all) = count(&profile, |sample| functions(&profile, sample.stack).contains(&"main.deep"));
        assert!(below >= 0.9 * all, "{options:?}: {below} of {all} samples are below main.deep");
        assert_rooted(&format!("{options:?}"), &recording, GO_ROOTED);
        // Rules of all functions tell who called one without a frame of its own.
        let (spin, step) = share(&profile, "main.spin", "main.step");
        assert!(!options.is_empty() || spin >= 0.99 * step, "{spin} of {step} samples of main.step have its caller");
    }
}
