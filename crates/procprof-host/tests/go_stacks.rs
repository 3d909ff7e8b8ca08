//! Go's goroutines, recorded while the runtime or C works for them on another stack.

use std::collections::BTreeSet;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

use procprof_host::{Options, Recorder, Recording, Target};
use procprof_profile::format::{self, Limits};
use procprof_profile::{Profile, Sample};

use crate::program::{Program, Running, wait_until};
use crate::shares::{count, functions, named};

const HZ: u32 = 997;
const SECONDS: &str = "1.5";
/// Share of stacks that reach the thread's or the goroutine's first function.
const ROOTED: f64 = 0.97;
/// Functions with less have too few samples to be compared.
const SHARE_MIN: f64 = 0.03;

/// Parts of names that Go's own profiles do not have.
const LEFT_OUT: [&str; 6] =
    ["runtime.morestack", "runtime.goexit", "time.now", "runtime.nanotime1", ".gowrap", ".isra."];

/// Records a program until it ends.
fn record(program: &Path, words: &[&str]) -> Recording {
    let mut recorder = Recorder::attach(Target::FutureChildren, &Options { hz: HZ, ..Options::default() })
        .expect("perf events are permitted");
    let mut child = Command::new(program).args(words).stderr(Stdio::null()).spawn().unwrap();
    while child.try_wait().unwrap().is_none() {
        recorder.poll(Duration::from_millis(20)).unwrap();
    }
    recorder.finish().unwrap()
}

/// Records a program until it has used a second of CPU time, and ends it then.
fn record_a_second(program: &Path, words: &[&str]) -> Recording {
    let child = Running(Command::new(program).args(words).spawn().unwrap());
    let pid = child.0.id();
    // Its code is not that of this process once it has read its arguments.
    wait_until("it runs", || std::fs::read(format!("/proc/{pid}/comm")).unwrap().starts_with(b"callbacks"));
    let mut recorder = Recorder::attach(Target::Processes(vec![pid]), &Options { hz: HZ, ..Options::default() })
        .expect("perf events are permitted");
    let used = || {
        let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap();
        stat.split(' ').skip(13).take(2).map(|ticks| ticks.parse::<u64>().unwrap()).sum::<u64>()
    };
    let begun = used();
    wait_until("it has used a second", || {
        recorder.poll(Duration::from_millis(20)).unwrap();
        used() - begun >= 100
    });
    recorder.finish().unwrap()
}

/// Stacks whose goroutine's part has changed before it was read count: how late that is depends on the machine's load.
fn assert_rooted(what: &str, recording: &Recording, share: f64) {
    let statistics = recording.statistics;
    let rooted = statistics.to_root + statistics.read_late;
    assert!(rooted as f64 >= share * statistics.user_stacks as f64, "{what}: {statistics:?}");
}

/// The samples with a function, and all but those of Go's own profiler.
fn share(profile: &Profile, name: &str) -> (f64, f64) {
    let of_profiler = |stack: &[_]| functions(profile, stack).iter().any(|name| name.contains("runtime.sig"));
    let (some, _) =
        count(profile, |sample| functions(profile, sample.stack).contains(&name) && !of_profiler(sample.stack));
    (some, count(profile, |sample| !of_profiler(sample.stack)).0)
}

/// Asserts that functions have the same share of samples in both, within five deviations and five points.
fn assert_same_functions(what: &str, ours: &Profile, theirs: &Profile) {
    let names: BTreeSet<String> = [ours, theirs]
        .into_iter()
        .flat_map(|profile| profile.samples().flat_map(|sample| functions(profile, sample.stack)).map(str::to_owned))
        .collect();
    let mut compared = 0;
    for name in &names {
        let ((a, all_a), (b, all_b)) = (share(ours, name), share(theirs, name));
        // Go leaves out wrappers and what begins or changes a stack; code of the kernel has no functions of Go.
        let is_left_out = LEFT_OUT.iter().any(|part| name.contains(part)) || !name.contains('.');
        if is_left_out || (a / all_a).max(b / all_b) < SHARE_MIN {
            continue;
        }
        let both = (a + b) / (all_a + all_b);
        let deviation = (both * (1.0 - both) * (1.0 / all_a + 1.0 / all_b)).sqrt();
        let difference = (a / all_a - b / all_b).abs();
        assert!(difference <= 5.0 * deviation + 0.05, "{what}: {name}: {a} of {all_a}, Go: {b} of {all_b}");
        compared += 1;
    }
    assert!(compared >= 3, "{what}: {names:?}");
}

#[test]
fn goroutines_have_the_functions_that_go_itself_finds() {
    for options in [&[][..], &["-ldflags=-s -w"]] {
        let program = Program::new("goroutines.go", options);
        for (mode, function) in [("callers", "main.callers"), ("clock", "main.clock"), ("allocate", "main.allocate")] {
            let what = format!("{mode} {options:?}");
            let file = program.path.with_extension("pb.gz");
            let recording = record(&program.path, &[mode, SECONDS, file.to_str().unwrap()]);
            let ours = named(&recording);
            assert_rooted(&what, &recording, ROOTED);
            let (some, all) = share(&ours, function);
            assert!(some > 0.3 * all, "{what}: {some} of {all}");
            // Stripped, inlined functions have no names.
            if options.is_empty() {
                let theirs = format::decode(&std::fs::read(&file).unwrap(), &Limits::default()).unwrap().profile;
                assert_same_functions(&what, &ours, &theirs);
            }
        }
    }
}

#[test]
fn a_stack_that_grows_is_that_of_the_function_that_needs_more() {
    let program = Program::new("goroutines.go", &[]);
    let file = program.path.with_extension("pb.gz");
    let recording = record(&program.path, &["grow", SECONDS, file.to_str().unwrap()]);
    let profile = named(&recording);
    let (mut growing, mut all) = (0, 0);
    for sample in profile.samples() {
        let names = functions(&profile, sample.stack);
        let Some(place) = names.iter().position(|name| *name == "runtime.morestack") else { continue };
        let caller = names.get(place + 1);
        // It lies on the thread's stack, behind the frames of the runtime.
        assert!(caller != Some(&"runtime.newproc"), "{names:?}");
        // Other functions are interrupted there to let others run.
        if names.contains(&"runtime.copystack") {
            all += sample.values[0];
            growing += if caller == Some(&"main.grow") { sample.values[0] } else { 0 };
        }
    }
    assert!(all > 100 && growing as f64 >= 0.9 * all as f64, "{growing} of {all} are main.grow");
    let theirs = format::decode(&std::fs::read(&file).unwrap(), &Limits::default()).unwrap().profile;
    let ((a, all_a), (b, all_b)) = (share(&profile, "main.grow"), share(&theirs, "main.grow"));
    let difference = (a / all_a - b / all_b).abs();
    assert!(difference <= 0.05 + 5.0 * (0.25 / all_a + 0.25 / all_b).sqrt(), "{a} of {all_a}, Go: {b} of {all_b}");
}

/// The samples with one function, and all with the other.
fn below(profile: &Profile, name: &str, of: &str) -> (f64, f64) {
    let has = |sample: &Sample<'_>, name| functions(profile, sample.stack).contains(&name);
    let (some, _) = count(profile, |sample| has(sample, of) && has(sample, name));
    (some, count(profile, |sample| has(sample, of)).0)
}

#[test]
fn c_below_go_and_go_below_c_have_their_callers() {
    for options in [&[][..], &["-ldflags=-s -w"], &["-buildmode=pie"]] {
        let program = Program::new("callbacks.go", options);
        for (mode, function, caller) in
            [("c", "runtime.asmcgocall", "main.viaC"), ("go", "main.spin", "main.viaCallback")]
        {
            let what = format!("{mode} {options:?}");
            let recording = record_a_second(&program.path, &[mode]);
            assert_rooted(&what, &recording, ROOTED);
            let (some, all) = below(&named(&recording), caller, function);
            assert!(all > 300.0 && some >= ROOTED * all, "{what}: {some} of {all}");
        }
    }
}

/// The goroutine's stack is read later than the sample, when another function of C may be called.
#[test]
fn c_has_no_callers_that_call_another_function() {
    let program = Program::new("callbacks.go", &[]);
    let profile = named(&record_a_second(&program.path, &["both"]));
    let (wrong, all) = below(&profile, "main.viaCallback", "burn_in_c");
    assert!(all > 100.0 && wrong == 0.0, "{wrong} of {all}");
}
