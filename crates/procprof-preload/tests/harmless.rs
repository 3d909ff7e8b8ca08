//! Correct programs stay correct while they are profiled, at every rate and by every engine.

use crate::build::program;
use crate::host::{Host, get, preloaded};
use std::path::Path;
use std::process::ExitStatus;
use std::time::{Duration, Instant};

/// How a program went: its lines, and its end.
struct Went {
    lines: Vec<String>,
    status: ExitStatus,
}

/// Runs a program in a way while the given profiles are taken of it, all at the same time.
fn profiled(program: &Path, way: &str, profiles: &[&str], environment: &[(&str, &str)]) -> Went {
    let mut command = preloaded(program);
    command.arg(way).envs(environment.iter().copied());
    let mut host = Host::start(command);
    assert_eq!(host.line(), "ready");
    let captures: Vec<_> = profiles
        .iter()
        .map(|path| {
            let (address, path) = (host.address.clone(), format!("/debug/pprof/{path}"));
            // The program may end before the profile's time.
            std::thread::spawn(move || get(&address, &path).map(|_| ()))
        })
        .collect();
    profiles.iter().for_each(|path| has_begun(host.pid(), path));
    host.go_on();
    let mut lines = Vec::new();
    loop {
        match host.line() {
            line if line.is_empty() => break,
            line => lines.push(line),
        }
    }
    let status = host.finish();
    for capture in captures {
        let _ = capture.join().unwrap();
    }
    Went { lines, status }
}

/// Waits until the thread is there that takes a profile.
fn has_begun(pid: u32, path: &str) {
    let name = match path.split('?').next() {
        Some("profile") => "procprof-cpu",
        Some("contention") => "procprof-locks",
        // The connection's own thread takes it.
        _ => return std::thread::sleep(Duration::from_millis(200)),
    };
    let start = Instant::now();
    let is_there = || {
        let threads = std::fs::read_dir(format!("/proc/{pid}/task")).unwrap();
        threads
            .flatten()
            .any(|thread| std::fs::read_to_string(thread.path().join("comm")).is_ok_and(|comm| comm.trim_end() == name))
    };
    while !is_there() {
        assert!(start.elapsed() < Duration::from_secs(30), "{path} does not begin");
        std::thread::sleep(Duration::from_millis(5));
    }
}

fn is_ok(source: &str, way: &str, profiles: &[&str], expected: &[&str]) {
    let went = profiled(&program(source, &["-ldl"]), way, profiles, &[("PROCPROF_HEAP_SAMPLE_BYTES", "4096")]);
    assert!(went.status.success(), "{source} {way} under {profiles:?}: {} after {:?}", went.status, went.lines);
    assert_eq!(went.lines, expected, "{source} {way} under {profiles:?}");
}

const SLOW: &str = "profile?seconds=2&frequency=99";
const FAST: &str = "profile?seconds=2&frequency=4000&engine=perf";
const TICKS: &str = "profile?seconds=2&frequency=1000&engine=tick";
const WALL: &str = "wall?seconds=2&frequency=100";

/// A signal's frame that begins at the top of the alternate stack overwrites that of a handler that has left it.
#[test]
fn handlers_on_an_alternate_stack_do_not_meet_the_samplers() {
    for profiles in [&[SLOW][..], &[FAST], &[TICKS, WALL]] {
        is_ok("signals.c", "onstack", profiles, &["ok"]);
    }
}

#[test]
fn threads_are_cancelled_at_any_moment() {
    for profiles in [&[FAST][..], &[TICKS, WALL]] {
        is_ok("signals.c", "cancel", profiles, &["ok"]);
    }
}

#[test]
fn sigprof_is_the_programs_beside_the_samplers() {
    for profiles in [&[FAST][..], &[SLOW, WALL]] {
        is_ok("signals.c", "owner", profiles, &["own 1 others 0 kept 1 former 1 wrong masks 0", "ok"]);
    }
}

/// Also those that the kernel gives to a thread of the agent's, because the program's own is busy with a sample.
#[test]
fn every_sigprof_of_the_programs_arrives() {
    for profiles in [&[FAST][..], &[TICKS, WALL]] {
        is_ok("signals.c", "sender", profiles, &["lost 0", "ok"]);
    }
}

#[test]
fn handlers_are_put_back_to_their_defaults() {
    for profiles in [&[FAST][..], &[TICKS, WALL]] {
        is_ok("signals.c", "reset", profiles, &["ok"]);
    }
}

#[test]
fn a_signal_of_another_origin_does_what_it_does_without_the_sampler() {
    use std::os::unix::process::ExitStatusExt;
    let went = profiled(&program("signals.c", &["-ldl"]), "deadly", &[SLOW], &[]);
    const SIGPROF: i32 = 27;
    assert_eq!(went.status.signal(), Some(SIGPROF), "{}", went.status);
}

#[test]
fn an_alternate_stack_may_be_too_small_for_any_signal() {
    is_ok("signals.c", "tiny", &[FAST], &["same 1", "ok"]);
}

#[test]
fn who_waits_for_all_signals_gets_none_of_the_samplers() {
    for profiles in [&[TICKS][..], &[WALL]] {
        is_ok("signals.c", "waiter", profiles, &["signal 10", "ok"]);
    }
}

/// A signal that is pending at `exec` would end the new program. The first of seven is profiled, and none before it can
/// be executed.
#[test]
fn a_program_becomes_another_one() {
    for _ in 0..3 {
        for profiles in [&[FAST][..], &[TICKS, WALL]] {
            is_ok("signals.c", "execute", profiles, &["executed", "ok"]);
        }
    }
}

/// A mapping below a thread's stack is no part of it.
#[test]
fn a_coroutine_below_its_threads_stack_has_its_memory_unmapped() {
    is_ok("coroutines.c", "below", &["profile?seconds=3&frequency=250"], &["ok"]);
}

#[test]
fn small_stacks_have_room_for_samples_of_all_kinds() {
    is_ok("coroutines.c", "small", &[TICKS, WALL], &["ok"]);
}

#[test]
fn no_lock_is_held_while_a_program_forks() {
    let environment = [("PROCPROF_HEAP_SAMPLE_BYTES", "64")];
    let went = profiled(&program("forks.c", &[]), "", &["contention?seconds=3", FAST], &environment);
    assert!(went.status.success() && went.lines == ["stuck 0 bad 0"], "{} {:?}", went.status, went.lines);
}
