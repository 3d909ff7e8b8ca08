//! Programs at their limits, which must not meet the library's share of them.

use crate::build::program;
use crate::host::{Host, LONGER_AND_LONGER, Running, get, get_soon, preloaded, wait_until};
use procprof_profile::Profile;
use procprof_profile::format::decode;
use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

/// Paths whose answers are made in as many ways as there are.
const PATHS: &[&str] = &[
    "/debug/pprof/profile?seconds=1",
    "/debug/pprof/profile?seconds=1&engine=perf",
    "/debug/pprof/wall?seconds=1",
    "/debug/pprof/heap",
    "/debug/pprof/cmdline",
    "/pprof/symbol",
];

#[test]
fn what_a_program_prints_to_a_closed_stream_is_in_no_answer() {
    let mut host = Host::start(preloaded(&program("streams.c", &[])));
    assert_eq!(host.line(), "ready");
    for path in PATHS {
        let answer = host.get(path);
        assert!(!answer.windows(6).any(|bytes| bytes == b"SECRET"), "{path}: {}", String::from_utf8_lossy(&answer));
    }
    assert!(host.finish().success(), "a write was accepted");
}

#[test]
fn a_program_at_its_limit_of_descriptors_keeps_the_last_one() {
    let mut host = Host::start(preloaded(&program("descriptors.c", &[])));
    assert_eq!(host.line(), "63", "the numbers below are the program's own");
    for path in PATHS.iter().chain(PATHS) {
        let answer = get(&host.address, path);
        assert!(answer.is_ok(), "{path}: {answer:?}");
    }
    // A thread is counted once it has been sampled, for which it must have run.
    let sampled = LONGER_AND_LONGER.iter().any(|seconds| {
        let profile = profile(&host, &format!("profile?seconds={seconds}&engine=perf"));
        comment(&profile, "threads-by-perf").parse::<u32>().unwrap() >= 24
    });
    assert!(sampled, "perf events sample all threads");
    assert!(host.finish().success(), "an open failed, or found its number taken");
}

fn profile(host: &Host, path: &str) -> Profile {
    decode(&host.get(&format!("/debug/pprof/{path}")), &Default::default()).unwrap().profile
}

fn comment(profile: &Profile, key: &str) -> String {
    let start = format!("#procprof:{key}=");
    profile.comments().find_map(|comment| comment.strip_prefix(&start)).unwrap_or_default().to_owned()
}

/// Samples and nanoseconds of the stacks of a function's.
fn of_function(profile: &Profile, function: &str) -> [i64; 2] {
    let samples = profile.samples().filter(|sample| {
        let mut lines = sample.stack.iter().flat_map(|place| profile.lines(*place));
        lines.any(|line| profile.string(profile.function(line.function).name) == function)
    });
    samples.fold([0, 0], |sum, sample| [sum[0] + sample.values[0], sum[1] + sample.values[1]])
}

/// CPU time of a program from the begin of a capture to its sandbox.
const BEFORE: Duration = Duration::from_millis(200);
/// What is left of the capture then, at least.
const BEHIND: Duration = Duration::from_secs(1);

/// A program whose thread goes into a sandbox while a capture runs, and that capture.
fn sandboxed_amid(mode: &str, path: impl Fn(u64) -> String) -> (Host, Profile) {
    for seconds in LONGER_AND_LONGER {
        let mut command = preloaded(&program("sandbox.c", &[]));
        command.arg(mode);
        let mut host = Host::start(command);
        assert_eq!(host.line(), "ready");
        let (path, requested) = (path(seconds), Instant::now());
        let capture = host.begin(&format!("/debug/pprof/{path}"));
        host.has_begun(&path);
        host.works_for(BEFORE);
        host.go_on();
        assert_eq!(host.line(), "inside", "{mode}, {path}");
        let is_amid = requested.elapsed() + BEHIND < Duration::from_secs(seconds);
        let bytes = capture.join().unwrap().unwrap_or_else(|error| panic!("{mode}, {path}: {error}"));
        if is_amid {
            return (host, decode(&bytes, &Default::default()).unwrap().profile);
        }
        assert!(host.finish().success(), "{mode}, {path}: the thread does not work any more");
    }
    panic!("{mode}: the thread does not go into its sandbox in time");
}

/// The thread goes into the sandbox while a capture runs, and is sampled there where that does not need what a filter
/// may refuse.
#[test]
fn a_thread_that_goes_into_a_sandbox_lives_on() {
    for (mode, engine) in [("strict", "tick"), ("strict", "perf"), ("filter", "tick"), ("filter", "perf")] {
        let (host, _) = sandboxed_amid(mode, |seconds| format!("profile?seconds={seconds}&engine={engine}"));
        let is_sampled = |seconds: u64| {
            let profile = profile(&host, &format!("profile?seconds={seconds}&engine={engine}"));
            let samples = of_function(&profile, "sandboxed")[0];
            println!("{mode}, {engine}: {samples} samples, {}", comment(&profile, "threads-in-a-sandbox"));
            samples > 0
        };
        if mode == "strict" {
            assert!([1, 4, 16, 64].into_iter().any(is_sampled), "{mode}, {engine}: no samples");
        } else {
            assert!(!is_sampled(1), "{mode}, {engine}: samples");
        }
        host.get("/debug/pprof/wall?seconds=1");
        assert!(host.finish().success(), "{mode}, {engine}: the thread does not work any more");
    }
}

const FILTERS: [&str; 3] = ["late", "raw", "refused"];
const CAPTURES: [&str; 3] =
    ["profile?frequency=4000&engine=tick", "profile?frequency=4000&engine=perf", "wall?frequency=100"];

/// The filter ends the process at the next signal's return, so that none may come from before it is loaded.
fn a_loaded_filter_ends_signals(mode: &str, path: &str) {
    let (host, profile) = sandboxed_amid(mode, |seconds| format!("{path}&seconds={seconds}"));
    let is_left_alone = profile.comments().any(|comment| comment.contains("threads-in-a-sandbox="));
    assert_eq!(is_left_alone, mode != "refused", "{mode}, {path}: {:?}", profile.comments().collect::<Vec<_>>());
    assert!(host.finish().success(), "{mode}, {path}: the thread does not work any more");
}

#[test]
fn a_thread_that_loads_a_filter_amid_a_capture_is_signalled_no_more() {
    CAPTURES.iter().for_each(|path| a_loaded_filter_ends_signals("late", path));
    // Other calls of the same hook.
    a_loaded_filter_ends_signals("raw", CAPTURES[0]);
    a_loaded_filter_ends_signals("refused", CAPTURES[1]);
}

#[test]
#[ignore = "takes minutes: `cargo xtask soak long` runs it"]
fn filters_of_all_kinds_are_loaded_amid_captures_of_all_kinds() {
    for _ in 0..3 {
        FILTERS.iter().for_each(|mode| CAPTURES.iter().for_each(|path| a_loaded_filter_ends_signals(mode, path)));
    }
}

/// Samples of its heap would be taken by calls that the filter ends the process for.
#[test]
fn a_thread_allocates_on_under_a_filter_that_permits_little_more() {
    let mut command = preloaded(&program("sandbox.c", &[]));
    command
        .arg("malloc")
        .env("PROCPROF_HEAP", "on")
        .env("PROCPROF_HEAP_SAMPLE_BYTES", "65536")
        .env("PROCPROF_CONTENTION", "on");
    let mut host = Host::start(command);
    assert_eq!(host.line(), "ready");
    host.go_on();
    assert_eq!(host.line(), "inside");
    wait_until("a sample of the heap that is due", || {
        profile(&host, "heap").comments().any(|comment| comment.contains("samples-left-out-for-seccomp="))
    });
    assert!(host.finish().success(), "the thread does not work any more");
}

/// The filter is for the agent's threads, too: what they call next would end the process.
#[test]
fn the_agent_ends_before_a_filter_for_all_threads_that_forbids_what_it_calls() {
    let mut command = preloaded(&program("sandbox.c", &[]));
    command.arg("common").env("PROCPROF_CONTENTION", "on");
    let mut host = Host::start(command);
    assert_eq!(host.line(), "ready");
    let capture = host.begin("/debug/pprof/profile?seconds=300");
    host.has_begun("profile");
    host.works_for(BEFORE);
    host.go_on();
    assert_eq!(host.line(), "inside");
    let _ = capture.join().unwrap();
    assert!(get(&host.address, "/debug/pprof/heap").is_err());
    assert!(host.finish().success(), "the thread does not work any more");
}

#[test]
fn a_thread_that_must_not_be_signalled_is_left_alone_and_counted() {
    let mut command = preloaded(&program("sandbox.c", &[]));
    command.arg("deaf");
    let mut host = Host::start(command);
    assert_eq!(host.line(), "ready");
    for path in ["profile?seconds=1&engine=tick", "profile?seconds=1&engine=perf", "wall?seconds=1"] {
        let profile = profile(&host, path);
        assert!(
            comment(&profile, "threads-in-a-sandbox").starts_with("1: "),
            "{path}: {:?}",
            profile.comments().collect::<Vec<_>>()
        );
    }
    assert!(host.finish().success(), "the thread does not work any more");
}

/// Samples and nanoseconds in the row of threads that block the signal.
fn of_blocking(profile: &Profile, kind: &str) -> [i64; 2] {
    of_function(profile, &format!("[unsampled {kind}: the thread blocks SIGPROF]"))
}

#[test]
fn a_thread_that_blocks_the_signal_is_counted_and_its_time_has_a_row() {
    let mut host = Host::start(preloaded(&program("blocks.c", &[])));
    assert_eq!(host.line(), "ready");
    for (path, kind) in [("profile?engine=tick", "CPU"), ("profile?engine=perf", "CPU"), ("wall?frequency=19", "wall")]
    {
        // Both threads must have run to be seen.
        let are_seen = [1, 4, 16, 64].into_iter().any(|seconds| {
            let profile = profile(&host, &format!("{path}&seconds={seconds}"));
            let (blocking, work) = (of_blocking(&profile, kind), of_function(&profile, "work"));
            println!("{path}: {blocking:?}, {work:?} of {}", profile.total(1));
            assert_eq!(blocking[0], 0, "{path}: samples of a thread that blocks the signal");
            let counted = comment(&profile, "threads-that-block-sigprof");
            assert!(["", "0", "1"].contains(&&*counted), "{path}: {counted} threads block the signal");
            counted == "1" && blocking[1] > 0 && work[0] > 0
        });
        assert!(are_seen, "{path}");
    }
    assert!(host.finish().success());
}

/// A request that would not fit is refused, a running one is abandoned, and the program goes on.
#[test]
fn a_program_without_memory_survives_requests() {
    let mut host = Host::start(preloaded(&program("memory.c", &[])));
    assert_eq!(host.line(), "ready");
    host.get("/debug/pprof/profile?seconds=1");
    host.go_on();
    assert_eq!(host.line(), "near");
    for path in ["/debug/pprof/profile?seconds=1", "/debug/pprof/wall?seconds=1", "/debug/pprof/heap"] {
        let refused = get(&host.address, path).unwrap_err().to_string();
        assert!(
            refused.contains(" 507 ") && refused.contains("are left below the limit (ulimit -v)"),
            "{path}: {refused}"
        );
    }
    assert!(!host.get("/debug/pprof/cmdline").is_empty());
    host.go_on();
    assert_eq!(host.line(), "room");
    // Memory goes while it is taken, and is gone for the others; a capture that is then being made ends early, or is
    // made of what it has.
    let first = host.begin("/debug/pprof/profile?seconds=2");
    host.has_begun("profile");
    host.works_for(BEFORE);
    host.go_on();
    assert_eq!(host.line(), "eating");
    println!("{:?}", first.join().unwrap().err());
    for path in ["/debug/pprof/wall?seconds=1", "/debug/pprof/profile?seconds=1&engine=perf&frequency=997"] {
        println!("{path}: {:?}", get(&host.address, path).err());
    }
    assert!(host.finish().success(), "it was ended");
}

/// Mappings of each thread's own would take a process of 14,000 threads to the kernel's limit of 65,530.
#[test]
fn many_threads_cost_few_mappings_and_these_are_given_back() {
    let mut host = Host::start(preloaded(&program("threads.c", &[])));
    let before: i64 = host.line().parse().unwrap();
    let capture = host.begin("/debug/pprof/profile?seconds=2&engine=tick");
    let mut most = before;
    while !capture.is_finished() {
        host.go_on();
        most = most.max(host.line().parse().unwrap());
        std::thread::sleep(std::time::Duration::from_millis(50));
    }
    let profile = decode(&capture.join().unwrap().unwrap(), &Default::default()).unwrap().profile;
    assert_eq!(comment(&profile, "threads-without-timer"), "0");
    host.get("/debug/pprof/wall?seconds=1");
    host.go_on();
    let after: i64 = host.line().parse().unwrap();
    println!("{before} mappings, {most}, {after}");
    // Besides slots: stacks and arenas of the library's threads.
    assert!(most - before < 100, "{before}, then {most}");
    assert!(after - before < 40, "{before}, then {after}");
    assert!(host.finish().success());
}

/// A program that gets its listener once a file is there.
fn started_by(file: &Path, mut command: Command) -> Running {
    command.env("PROCPROF_LISTEN", "127.0.0.1:0").env("PROCPROF_START_FILE", file);
    Running(command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap())
}

/// The address that it reports.
fn reported_address(program: &mut Running) -> String {
    let mut errors = BufReader::new(program.0.stderr.take().unwrap()).lines().map(Result::unwrap);
    let address = errors.find_map(|line| Some(line.split_once("listens on http://")?.1.split('/').next()?.to_owned()));
    address.expect("it listens")
}

/// A second thread takes shortcuts of the C library away; with a file to wait for there is none before it is made.
#[test]
fn nothing_is_started_before_the_file_is_there() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("start");
    let mut program = started_by(&file, preloaded(&program("allocates.c", &[])));
    let mut lines = BufReader::new(program.0.stdout.take().unwrap()).lines().map(Result::unwrap);
    // Each line states whether the C library has seen one thread only; where it has no such word, it is always so.
    for _ in 0..3 {
        assert_eq!(lines.next().as_deref(), Some("alone"));
        assert_eq!(std::fs::read_dir(format!("/proc/{}/task", program.0.id())).unwrap().count(), 1);
    }
    std::fs::write(&file, "").unwrap();
    get_soon(&reported_address(&mut program), "/debug/pprof/profile?seconds=1");
    drop(program.0.stdin.take());
    // What it still prints has room.
    assert!(program.0.wait().unwrap().success());
}

/// Work that begins in an allocation opens files, where a thread that waits to be cancelled would end: with the
/// allocator's locks.
#[test]
fn a_cancelled_thread_ends_in_no_allocation() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("start");
    let mut command = preloaded(&program("cancelled.c", &[]));
    command.env("PROCPROF_HEAP_SAMPLE_BYTES", "512");
    let mut program = started_by(&file, command);
    let mut lines = BufReader::new(program.0.stdout.take().unwrap()).lines().map(Result::unwrap);
    assert_eq!(lines.next().as_deref(), Some("ready"));
    std::fs::write(&file, "").unwrap();
    // Only then it has an end to come to.
    reported_address(&mut program);
    let mut input = program.0.stdin.take().unwrap();
    input.write_all(b"\n").unwrap();
    assert_eq!(lines.next().as_deref(), Some("lived"));
    drop(input);
    assert!(program.0.wait().unwrap().success());
}
