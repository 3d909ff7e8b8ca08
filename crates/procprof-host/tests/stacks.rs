//! Stacks that are hard to follow: with holes, larger than the copy, of hand-written code, of code without tables.

use std::process::Command;
use std::time::Duration;

use procprof_host::{Engine, Measure, Options, Recorder, Recording, Statistics, Target};
use procprof_profile::Profile;

use crate::program::{Program, Running, wait_until};
use crate::shares::{count, functions, named};

const HZ: u32 = 499;

/// Samples of a recording; their deviation leaves room for a few of the program's start.
const SAMPLES: u64 = 300;
/// Switches of a recording of waits.
const SWITCHES: u64 = 40;

/// Records a program of some kind by its pid, until there are enough samples. It runs on to the end of the recording,
/// as what the copies lack is read from it.
fn record(program: &Program, kind: &str, options: &Options) -> Recording {
    let child = Running(Command::new(&program.path).args([kind, "600"]).spawn().unwrap());
    let tasks = format!("/proc/{}/task", child.0.id());
    wait_until("the thread", || std::fs::read_dir(&tasks).unwrap().count() == 2);
    let mut recorder = Recorder::attach(Target::Processes(vec![child.0.id()]), options).expect("perf events");
    let enough = if options.measure == Measure::Cpu { SAMPLES } else { SWITCHES };
    wait_until("samples", || recorder.poll(Duration::from_millis(20)).unwrap().samples >= enough);
    recorder.finish().unwrap()
}

fn program() -> Program {
    Program::new("stacks.c", &["-O2", "-fno-optimize-sibling-calls"])
}

/// Of the samples with a function, those whose stack ends with these functions, leaf first, and maybe more.
fn with_callers(profile: &Profile, leaf: &str, callers: &[&str]) -> (f64, f64) {
    let place = |names: &[&str]| names.iter().position(|name| *name == leaf);
    let (all, _) = count(profile, |sample| place(&functions(profile, sample.stack)).is_some());
    let (some, _) = count(profile, |sample| {
        let names = functions(profile, sample.stack);
        place(&names).is_some_and(|place| names[place + 1..].starts_with(callers))
    });
    (some, all)
}

/// Records a program of some kind; asserts that nearly all samples of a function have these callers, and reach the
/// thread's first frame.
fn check(kind: &str, stack_bytes: Option<u32>, leaf: &str, callers: &[&str]) -> Statistics {
    let what = format!("{kind}, copies of {stack_bytes:?}");
    let recording = record(&program(), kind, &Options { hz: HZ, stack_bytes, ..Options::default() });
    let profile = named(&recording);
    let (some, all) = with_callers(&profile, leaf, callers);
    let (rooted, _) = with_callers(&profile, "work", &["run", "start_thread"]);
    let statistics = recording.statistics;
    assert!(all > 50.0 && some >= 0.99 * all, "{what}: {some} of {all} have their callers: {statistics:?}");
    assert!(rooted >= 0.99 * all, "{what}: {rooted} of {all} have a root: {statistics:?}");
    assert!(statistics.to_root as f64 >= 0.97 * statistics.user_stacks as f64, "{what}: {statistics:?}");
    statistics
}

#[test]
fn pages_that_nothing_has_touched_do_not_end_a_stack() {
    for stack_bytes in [None, Some(2048)] {
        let statistics = check("untouched", stack_bytes, "spin", &["untouched", "work"]);
        assert!(statistics.completed > 0, "{statistics:?}");
        // Once its pages are read, later copies have no hole.
        let Statistics { completed, user_stacks, .. } = statistics;
        assert!(stack_bytes.is_some() || completed < user_stacks / 2, "{statistics:?}");
        check("untouched-leaf", stack_bytes, "untouched_leaf", &["work"]);
    }
}

#[test]
fn frames_larger_than_the_copy_do_not_end_a_stack() {
    for stack_bytes in [None, Some(16384)] {
        let statistics = check("large", stack_bytes, "spin", &["large", "large", "large", "large", "work"]);
        assert!(statistics.completed > 0, "{statistics:?}");
    }
}

#[test]
fn a_caller_that_was_left_before_its_frame_was_read_is_not_shown() {
    let options = Options { hz: HZ, stack_bytes: Some(2048), ..Options::default() };
    let recording = record(&program(), "brief", &options);
    let profile = named(&recording);
    for (function, other) in [("first", "even"), ("second", "odd"), ("odd", "even")] {
        let has_both = |names: &[&str]| names.contains(&function) && names.contains(&other);
        let (wrong, _) = count(&profile, |sample| has_both(&functions(&profile, sample.stack)));
        assert_eq!(wrong, 0.0, "{other} is no caller of {function}");
    }
    let Statistics { user_stacks, to_root, cut, broken, .. } = recording.statistics;
    assert_eq!(user_stacks, to_root + cut + broken, "{:?}", recording.statistics);
}

#[test]
#[cfg(target_arch = "x86_64")]
fn rules_of_hand_written_code_are_followed() {
    for (kind, leaf, callers) in [
        ("red-zone", "red_zone", &["hand_written", "work"][..]),
        ("by-rbx", "save_rbx", &["by_rbx", "hand_written", "work"]),
        ("by-memory", "by_memory", &["hand_written", "work"]),
    ] {
        let statistics = check(kind, None, leaf, callers);
        assert!(statistics.guessed < statistics.user_stacks / 20, "{kind}: {statistics:?}");
    }
}

#[test]
#[cfg(target_arch = "x86_64")]
fn a_word_below_the_stack_pointer_that_was_overwritten_is_found_above() {
    let statistics = check("overwritten", None, "copied", &["overwritten", "work"]);
    assert!(statistics.guessed > 0, "{statistics:?}");
}

#[test]
#[cfg(target_arch = "x86_64")]
fn code_without_tables_has_the_caller_that_its_next_instructions_return_to() {
    let statistics = check("generated", None, "spin", &["work"]);
    // The loader's first instructions have no table.
    assert!(statistics.guessed < statistics.user_stacks / 20, "{statistics:?}");
}

#[test]
#[cfg(target_arch = "x86_64")]
fn signal_frames_without_a_table_are_known_by_their_code() {
    let statistics = check("signal", None, "spin", &["on_signal", "own_restore", "signalled", "work"]);
    assert!(statistics.guessed < statistics.user_stacks / 20, "{statistics:?}");
}

#[test]
#[cfg(target_arch = "x86_64")]
fn code_that_a_program_has_moved_is_that_of_its_file() {
    let statistics = check("moved", None, "moved_leaf", &["moved", "hand_written", "hand_moved", "work"]);
    assert!(statistics.guessed < statistics.user_stacks / 20, "{statistics:?}");
}

#[test]
#[cfg(target_arch = "x86_64")]
fn frame_pointers_that_are_none_give_no_callers_and_no_root() {
    for (kind, leaf) in [("to-zeros", "to_zeros"), ("to-pointer", "to_pointer")] {
        let recording = record(&program(), kind, &Options { hz: HZ, ..Options::default() });
        let profile = named(&recording);
        let (alone, all) = count(&profile, |sample| functions(&profile, sample.stack).last() == Some(&leaf));
        let (in_leaf, _) = with_callers(&profile, leaf, &[]);
        let statistics = recording.statistics;
        assert!(in_leaf > 50.0 && alone >= 0.99 * in_leaf, "{kind}: {alone} of {in_leaf} of {all}: {statistics:?}");
        assert!(statistics.broken as f64 >= alone, "{kind}: {statistics:?}");
    }
}

#[test]
fn a_parent_that_waits_in_vfork_has_its_callers() {
    for engine in [Engine::Perf, Engine::Bpf] {
        let options = Options { measure: Measure::OffCpu, engine, ..Options::default() };
        let recording = record(&program(), "vfork", &options);
        let profile = named(&recording);
        let time = |callers: &[&str]| {
            let samples = profile.samples().filter(|sample| {
                let names = functions(&profile, sample.stack);
                let place = names.iter().position(|name| ["__vfork", "vfork", "__libc_vfork"].contains(name));
                place.is_some_and(|place| names[place + 1..].starts_with(callers))
            });
            samples.map(|sample| sample.values[1] as f64).sum::<f64>()
        };
        let (some, all) = (time(&["spawn", "work", "run", "start_thread"]), time(&[]));
        assert!(all > 0.5e9 && some >= 0.99 * all, "{engine:?}: {some} of {all} ns: {:?}", recording.statistics);
    }
}
