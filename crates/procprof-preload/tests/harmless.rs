//! Correct programs stay correct while they are profiled, at every rate and by every engine.

use crate::build::program;
use crate::host::{Host, preloaded};
use std::process::ExitStatus;

/// How a program went: its lines, and its end.
struct Went {
    lines: Vec<String>,
    status: ExitStatus,
}

/// CPU seconds that a program works for under each set of profiles.
const SHORT: &str = "0.5";
/// The same in `cargo xtask soak long`.
const LONG: &str = "4";

/// Runs a program in a way while the given profiles are taken of it, all at the same time, until it ends.
fn profiled(source: &str, way: &str, profiles: &[&str], heap_rate: &str, seconds: &str) -> Went {
    let mut command = preloaded(&program(source, &["-ldl"]));
    command.arg(way).env("PROCPROF_HEAP_SAMPLE_BYTES", heap_rate).env("SECONDS", seconds);
    let mut host = Host::start(command);
    assert_eq!(host.line(), "ready");
    let captures: Vec<_> = profiles.iter().map(|path| host.begin(&format!("/debug/pprof/{path}"))).collect();
    profiles.iter().for_each(|path| host.has_begun(path));
    host.go_on();
    let lines = std::iter::repeat_with(|| host.line()).take_while(|line| !line.is_empty()).collect();
    let status = host.finish();
    for capture in captures {
        // The program has ended before it.
        let _ = capture.join().unwrap();
    }
    Went { lines, status }
}

const SLOW: &str = "profile?seconds=300&frequency=99";
const FAST: &str = "profile?seconds=300&frequency=4000&engine=perf";
/// Where a sample takes long, since callers are searched on the stack: without optimization, more than a period of
/// [`FAST`].
const SEARCHING: &str = "profile?seconds=300&frequency=500&engine=perf";
const TICKS: &str = "profile?seconds=300&frequency=1000&engine=tick";
const WALL: &str = "wall?seconds=300&frequency=100";
const LOCKS: &str = "contention?seconds=300";

/// A way of a program, the profiles taken of it, and what it prints.
struct Way {
    source: &'static str,
    name: &'static str,
    profiles: &'static [&'static [&'static str]],
    lines: &'static [&'static str],
}

const fn way(
    source: &'static str,
    name: &'static str,
    profiles: &'static [&'static [&'static str]],
    lines: &'static [&'static str],
) -> Way {
    Way { source, name, profiles, lines }
}

const WAYS: &[Way] = &[
    way("signals.c", "onstack", &[&[SLOW], &[FAST], &[TICKS, WALL]], &["ok"]),
    way("signals.c", "cancel", &[&[FAST], &[TICKS, WALL]], &["ok"]),
    way("signals.c", "owner", &[&[FAST], &[SLOW, WALL]], &["own 1 others 0 kept 1 former 1 wrong masks 0", "ok"]),
    way("signals.c", "sender", &[&[FAST], &[TICKS, WALL]], &["lost 0", "ok"]),
    way("signals.c", "reset", &[&[FAST], &[TICKS, WALL]], &["ok"]),
    way("signals.c", "tiny", &[&[FAST]], &["same 1", "ok"]),
    way("signals.c", "waiter", &[&[TICKS], &[WALL]], &["signal 10", "ok"]),
    way("signals.c", "execute", &[&[FAST], &[TICKS, WALL]], &["executed", "ok"]),
    way("coroutines.c", "below", &[&[SLOW], &[SEARCHING]], &["ok"]),
    way("coroutines.c", "small", &[&[TICKS, WALL]], &["ok"]),
    way("forks.c", "forks", &[&[LOCKS, FAST]], &["stuck 0 bad 0"]),
];

fn check(way: &Way, seconds: &str) {
    let Way { source, name, lines, .. } = way;
    // Each block is sampled where locks of the allocator are at stake.
    let heap_rate = if *source == "forks.c" { "64" } else { "4096" };
    for profiles in way.profiles {
        let went = profiled(source, name, profiles, heap_rate, seconds);
        assert!(went.status.success(), "{source} {name} under {profiles:?}: {} after {:?}", went.status, went.lines);
        assert_eq!(went.lines, *lines, "{source} {name} under {profiles:?}");
    }
}

fn is_ok(name: &str) {
    check(WAYS.iter().find(|way| way.name == name).unwrap(), SHORT);
}

/// A signal's frame that begins at the top of the alternate stack overwrites that of a handler that has left it.
#[test]
fn handlers_on_an_alternate_stack_do_not_meet_the_samplers() {
    is_ok("onstack");
}

#[test]
fn threads_are_cancelled_at_any_moment() {
    is_ok("cancel");
}

#[test]
fn sigprof_is_the_programs_beside_the_samplers() {
    is_ok("owner");
}

/// Also those that the kernel gives to a thread of the agent's, because the program's own is busy with a sample.
#[test]
fn every_sigprof_of_the_programs_arrives() {
    is_ok("sender");
}

#[test]
fn handlers_are_put_back_to_their_defaults() {
    is_ok("reset");
}

#[test]
fn a_signal_of_another_origin_does_what_it_does_without_the_sampler() {
    use std::os::unix::process::ExitStatusExt;
    let went = profiled("signals.c", "deadly", &[SLOW], "524288", SHORT);
    const SIGPROF: i32 = 27;
    assert_eq!(went.status.signal(), Some(SIGPROF), "{}", went.status);
}

#[test]
fn an_alternate_stack_may_be_too_small_for_any_signal() {
    is_ok("tiny");
}

#[test]
fn who_waits_for_all_signals_gets_none_of_the_samplers() {
    is_ok("waiter");
}

/// A signal that is pending at `exec` would end the new program. The first of seven is profiled, and none before it can
/// be executed.
#[test]
fn a_program_becomes_another_one() {
    is_ok("execute");
}

/// A mapping below a thread's stack is no part of it.
#[test]
fn a_coroutine_below_its_threads_stack_has_its_memory_unmapped() {
    is_ok("below");
}

#[test]
fn small_stacks_have_room_for_samples_of_all_kinds() {
    is_ok("small");
}

#[test]
fn no_lock_is_held_while_a_program_forks() {
    is_ok("forks");
}

#[test]
#[ignore = "takes minutes: `cargo xtask soak long` runs it"]
fn programs_stay_correct_for_longer() {
    for way in WAYS {
        // Each round executes seven programs, however long the others work.
        let rounds = if way.name == "execute" { 3 } else { 1 };
        (0..rounds).for_each(|_| check(way, LONG));
    }
}
