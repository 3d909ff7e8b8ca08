//! Waits for locks in C++ programs, compared with the programs' own exact counts.

use crate::build::{program, tool};
use crate::host::{Host, preloaded, wait_until};
use procprof_profile::Profile;
use procprof_profile::format::decode;

/// Waits and nanoseconds of stacks with a function in them.
fn of_function(profile: &Profile, function: &str) -> [i64; 2] {
    let named = format!("{function}(");
    let samples = profile.samples().filter(|sample| {
        let mut lines = sample.stack.iter().flat_map(|place| profile.lines(*place));
        lines.any(|line| profile.string(profile.function(line.function).name).starts_with(&named))
    });
    samples.fold([0, 0], |sum, sample| [sum[0] + sample.values[0], sum[1] + sample.values[1]])
}

fn get(host: &Host, path: &str) -> Profile {
    decode(&host.get(path), &Default::default()).unwrap().profile
}

fn recording() -> std::process::Command {
    let mut command = preloaded(&program("locks.cpp", &[]));
    command.env("PROCPROF_CONTENTION", "on");
    command
}

/// The program's own counts of each function, the third of which is how many of its nanoseconds are of waits with
/// preemption; also checks that its locks answered as they should.
fn counts(host: &mut Host) -> Vec<(String, [i64; 3])> {
    host.go_on();
    let mut counts = Vec::new();
    loop {
        let line = host.line();
        let words: Vec<&str> = line.split(' ').collect();
        match words[..] {
            ["answers", right] => {
                assert_eq!(right, "1", "a lock answers differently");
                return counts;
            }
            [function, ref numbers @ ..] if numbers.len() == 3 => {
                counts.push((function.to_owned(), [0, 1, 2].map(|index| numbers[index].parse().unwrap())));
            }
            _ => panic!("{line}"),
        }
    }
}

#[test]
fn waits_equal_exact_counts_for_every_kind_of_lock() {
    let mut host = Host::start(recording());
    let counts = counts(&mut host);
    let (waits, holds) = (get(&host, "/debug/pprof/contention"), get(&host, "/debug/pprof/mutex"));
    assert_eq!(counts.len(), 6);
    let sum = |index: usize| counts.iter().map(|(_, exact)| exact[index]).sum::<i64>();
    let (all, preempted) = (sum(1), sum(2));
    for (function, exact) in &counts {
        let (seen, held) = (of_function(&waits, function), of_function(&holds, function));
        println!("{function}: exact {exact:?}, recorded {seen:?}, held {held:?}");
        // Between our clock and the program's the thread may have been preempted.
        let tolerance = exact[1] / 25 + 1_000_000;
        assert!(
            seen[1] < exact[1] + tolerance && seen[1] > exact[1] - exact[2] - tolerance,
            "{function}: {} ns of {exact:?}",
            seen[1]
        );
        // Once a busy machine has kept the collector from running, waits are sampled: their sum is kept to within a
        // part, while a short one that is taken represents many.
        assert!(seen[0] >= exact[0] / 2 && seen[0] <= exact[0] * 2, "{function}: {} waits of {}", seen[0], exact[0]);
        // On a busy machine two threads may never have met at one of them.
        assert!(held[1] >= (exact[1] - exact[2]) / 2, "{function}: {} ns held of {}", held[1], exact[1]);
    }
    for total in [&waits, &holds].map(|profile| profile.total(1)) {
        let tolerance = all / 50;
        assert!(total < all + tolerance && total > all - preempted - tolerance, "{total} of {all} ns");
    }
    assert_eq!(of_function(&waits, "idles_on_conditions"), [0, 0]);
    assert!(host.finish().success());
}

/// Without the recording there is nothing, and with seconds there is a recording.
#[test]
fn the_recording_is_on_during_requests_only() {
    let mut host = Host::start(preloaded(&program("locks.cpp", &[])));
    counts(&mut host);
    let refused = crate::host::get(&host.address, "/debug/pprof/contention").unwrap_err().to_string();
    assert!(refused.contains("501") && refused.contains("seconds"), "{refused}");
    let is_active = |host: &Host| host.get("/debug/pprof/contention/status").starts_with(b"{\"active\":true}");
    // On a busy machine the program may not come to an end of its waits within the capture.
    let are_seen = [4, 16, 64].into_iter().any(|seconds| {
        let capture = host.begin(&format!("/debug/pprof/contention?seconds={seconds}"));
        wait_until("the recording", || is_active(&host));
        let counts = counts(&mut host);
        let profile = decode(&capture.join().unwrap().unwrap(), &Default::default()).unwrap().profile;
        counts[..2].iter().all(|(function, exact)| {
            let seen = of_function(&profile, function);
            println!("{seconds} s: {function}: exact {exact:?}, recorded {seen:?}");
            seen[1] > exact[1] / 2
        })
    });
    assert!(are_seen);
    assert!(host.get("/debug/pprof/contention/status").starts_with(b"{\"active\":false}"));
    assert!(host.finish().success());
}

/// As in programs with brpc.
#[test]
fn mutexes_that_the_program_defines_are_left_alone() {
    let mut command = preloaded(&program("own_mutex.cpp", &["-ldl"]));
    command.env("PROCPROF_CONTENTION", "on");
    let mut host = Host::start(command);
    host.go_on();
    assert_eq!(host.line(), "own 3 3");
    let profile = get(&host, "/debug/pprof/contention");
    assert_eq!(of_function(&profile, "waits_for_own_mutex"), [0, 0]);
    assert_eq!(of_function(&profile, "waits_to_write")[0], 1);
    let note = profile
        .comments()
        .find_map(|comment| comment.strip_prefix("#procprof:defined-by-the-program-and-not-followed="));
    assert_eq!(note, Some("pthread_mutex_lock pthread_mutex_unlock"));
    assert!(host.finish().success());
}

#[test]
fn go_and_jeprof_read_both_views() {
    let mut host = Host::start(recording());
    counts(&mut host);
    let program = program("locks.cpp", &[]);
    for path in ["/debug/pprof/contention", "/debug/pprof/block", "/debug/pprof/mutex"] {
        let table = tool("go", &["tool", "pprof", "-top", "-cum", &host.url(path)]);
        assert!(table.contains("Type: delay") && table.contains("waits_for_mutex"), "{path}: {table}");
    }
    let table = tool("jeprof", &["--text", "--cum", program.to_str().unwrap(), &host.url("/pprof/contention")]);
    assert!(table.contains("waits_for_mutex"), "{table}");
    assert!(host.finish().success());
}

/// Nanoseconds that functions held a mutex in a round, by the program's own counts.
fn held(host: &mut Host, way: &str) -> Vec<(String, f64)> {
    host.write_line(way);
    let lines = std::iter::repeat_with(|| host.line()).take_while(|line| !line.is_empty());
    let count = |line: String| {
        let (function, nanos) = line.split_once(' ').unwrap();
        (function.to_owned(), nanos.parse().unwrap())
    };
    lines.map(count).collect()
}

/// Each function's part of what was waited is its part of the time in which the lock was held, whether it takes the
/// lock again at once, and whether it is still there when the lock is let go.
#[test]
fn holders_are_charged_with_their_part_of_the_time() {
    for (way, functions) in [
        ("one", &["holds_nearly_always"][..]),
        ("two", &["holds_for_long", "holds_for_short"]),
        ("last", &["lets_go_at_last"]),
    ] {
        // On a busy machine threads that wait may not run while one holds the lock for a short time.
        wait_until("a round in which all are charged with their parts", || {
            let mut command = preloaded(&program("holders.cpp", &["-O2"]));
            command.env("PROCPROF_CONTENTION", "on");
            let mut host = Host::start(command);
            let counts = held(&mut host, way);
            let whole: f64 = counts.iter().map(|(_, nanos)| nanos).sum();
            let holds = get(&host, "/debug/pprof/mutex");
            assert!(host.finish().success());
            functions.iter().all(|function| {
                let exact = counts.iter().find(|(name, _)| name == function).unwrap().1 / whole;
                let charged = of_function(&holds, function)[1] as f64 / holds.total(1) as f64;
                println!("{way}: {function} held it for {exact:.3} of the time and is charged with {charged:.3}");
                (charged - exact).abs() < 0.05
            })
        });
    }
}
