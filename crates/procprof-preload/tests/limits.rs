//! Programs at their limits, which must not meet the library's share of them.

use crate::build::program;
use crate::host::{Host, get, get_soon, preloaded};
use procprof_profile::Profile;
use procprof_profile::format::decode;
use std::io::{BufRead, BufReader};
use std::process::Stdio;

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
        // Printing goes on for 300 ms and more.
        (0..8).for_each(|_| host.go_on());
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
    let sampled = [1, 4, 16].iter().any(|seconds| {
        let profile = host.get(&format!("/debug/pprof/profile?seconds={seconds}&engine=perf"));
        let profile = decode(&profile, &Default::default()).unwrap().profile;
        comment(&profile, "threads-by-perf").parse::<u32>().unwrap() >= 24
    });
    assert!(sampled, "perf events sample all threads");
    assert!(host.finish().success(), "an open failed, or found its number taken");
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

/// The thread goes into the sandbox while a capture runs, and is sampled there where that does not need what a filter
/// may refuse.
#[test]
fn a_thread_that_goes_into_a_sandbox_lives_on() {
    for (mode, engine) in [("strict", "tick"), ("strict", "perf"), ("filter", "tick"), ("filter", "perf")] {
        let mut command = preloaded(&program("sandbox.c", &[]));
        command.arg(mode);
        let mut host = Host::start(command);
        assert_eq!(host.line(), "ready");
        let (address, path) = (host.address.clone(), format!("/debug/pprof/profile?seconds=2&engine={engine}"));
        let capture = std::thread::spawn(move || get(&address, &path).map(drop));
        std::thread::sleep(std::time::Duration::from_secs(1));
        host.go_on();
        assert_eq!(host.line(), "inside");
        capture.join().unwrap().unwrap_or_else(|error| panic!("{mode}, {engine}: {error}"));
        let profile =
            decode(&host.get(&format!("/debug/pprof/profile?seconds=1&engine={engine}")), &Default::default())
                .unwrap()
                .profile;
        let samples = of_function(&profile, "sandboxed")[0];
        println!("{mode}, {engine}: {samples} samples, {}", comment(&profile, "threads-in-a-sandbox"));
        assert_eq!(samples > 0, mode == "strict", "{mode}, {engine}: {:?}", profile.comments().collect::<Vec<_>>());
        host.get("/debug/pprof/wall?seconds=1");
        assert!(host.finish().success(), "{mode}, {engine}: the thread does not work any more");
    }
}

/// The filter ends the process at the next signal's return, so that none may come from before it is loaded.
#[test]
fn a_thread_that_loads_a_filter_amid_a_capture_is_signalled_no_more() {
    let paths = [
        "profile?seconds=6&frequency=4000&engine=tick",
        "profile?seconds=6&frequency=4000&engine=perf",
        "wall?seconds=6&frequency=100",
    ];
    for (mode, path) in ["late", "raw", "refused"].into_iter().flat_map(|mode| paths.map(|path| (mode, path))) {
        let mut command = preloaded(&program("sandbox.c", &[]));
        command.arg(mode);
        let mut host = Host::start(command);
        assert_eq!(host.line(), "ready");
        let (address, path) = (host.address.clone(), format!("/debug/pprof/{path}"));
        let capture = std::thread::spawn({
            let path = path.clone();
            move || get(&address, &path)
        });
        std::thread::sleep(std::time::Duration::from_secs(1));
        host.go_on();
        assert_eq!(host.line(), "inside", "{mode}, {path}");
        let bytes = capture.join().unwrap().unwrap_or_else(|error| panic!("{mode}, {path}: {error}"));
        let profile = decode(&bytes, &Default::default()).unwrap().profile;
        let is_left_alone = profile.comments().any(|comment| comment.contains("threads-in-a-sandbox="));
        assert_eq!(is_left_alone, mode != "refused", "{mode}, {path}: {:?}", profile.comments().collect::<Vec<_>>());
        assert!(host.finish().success(), "{mode}, {path}: the thread does not work any more");
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
    let wanted =
        |profile: &Profile| profile.comments().any(|comment| comment.contains("samples-left-out-for-seccomp="));
    let heap = || decode(&host.get("/debug/pprof/heap"), &Default::default()).unwrap().profile;
    assert!((0..200).any(|_| wanted(&heap())), "no sample is due: {:?}", heap().comments().collect::<Vec<_>>());
    assert!(host.finish().success(), "the thread does not work any more");
}

/// The filter is for the agent's threads, too: what they call next would end the process.
#[test]
fn the_agent_ends_before_a_filter_for_all_threads_that_forbids_what_it_calls() {
    let mut command = preloaded(&program("sandbox.c", &[]));
    command.arg("common").env("PROCPROF_CONTENTION", "on");
    let mut host = Host::start(command);
    assert_eq!(host.line(), "ready");
    let address = host.address.clone();
    let capture = std::thread::spawn(move || get(&address, "/debug/pprof/profile?seconds=30"));
    std::thread::sleep(std::time::Duration::from_secs(1));
    host.go_on();
    assert_eq!(host.line(), "inside");
    drop(capture.join().unwrap());
    assert!(get(&host.address, "/debug/pprof/heap").is_err());
    assert!(host.finish().success(), "the thread does not work any more");
}

#[test]
fn a_thread_that_must_not_be_signalled_is_left_alone_and_counted() {
    let mut command = preloaded(&program("sandbox.c", &[]));
    command.arg("deaf");
    let mut host = Host::start(command);
    assert_eq!(host.line(), "ready");
    for path in [
        "/debug/pprof/profile?seconds=1&engine=tick",
        "/debug/pprof/profile?seconds=1&engine=perf",
        "/debug/pprof/wall?seconds=1",
    ] {
        let profile = decode(&host.get(path), &Default::default()).unwrap().profile;
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
    for (path, kind) in
        [("profile?seconds=1&engine=tick", "CPU"), ("profile?seconds=1&engine=perf", "CPU"), ("wall?seconds=1", "wall")]
    {
        let profile = decode(&host.get(&format!("/debug/pprof/{path}")), &Default::default()).unwrap().profile;
        let (blocking, work) = (of_blocking(&profile, kind), of_function(&profile, "work"));
        println!("{path}: {blocking:?}, {work:?} of {}", profile.total(1));
        assert_eq!(
            comment(&profile, "threads-that-block-sigprof"),
            "1",
            "{path}: {:?}",
            profile.comments().collect::<Vec<_>>()
        );
        assert!(blocking[0] == 0 && blocking[1] > 0 && work[0] > 0, "{path}: {blocking:?}, {work:?}");
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
    assert_eq!(host.line(), "eating");
    // Memory is gone after the first second; a capture that is then being made ends early, or is made of what it has.
    for path in [
        "/debug/pprof/profile?seconds=3",
        "/debug/pprof/wall?seconds=2",
        "/debug/pprof/profile?seconds=2&engine=perf&frequency=997",
    ] {
        if let Err(error) = get(&host.address, path) {
            println!("{path}: {error}");
        }
    }
    assert!(host.finish().success(), "it was ended");
}

/// Mappings of each thread's own would take a process of 14,000 threads to the kernel's limit of 65,530.
#[test]
fn many_threads_cost_few_mappings_and_these_are_given_back() {
    let mut host = Host::start(preloaded(&program("threads.c", &[])));
    let before: i64 = host.line().parse().unwrap();
    let address = host.address.clone();
    let capture = std::thread::spawn(move || get(&address, "/debug/pprof/profile?seconds=2&engine=tick").unwrap());
    let mut most = before;
    while !capture.is_finished() {
        host.go_on();
        most = most.max(host.line().parse().unwrap());
        std::thread::sleep(std::time::Duration::from_millis(50));
    }
    let profile = decode(&capture.join().unwrap(), &Default::default()).unwrap().profile;
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

/// A second thread takes shortcuts of the C library away; with a file to wait for there is none before it is made.
#[test]
fn nothing_is_started_before_the_file_is_there() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("start");
    let mut command = preloaded(&program("allocates.c", &[]));
    command.env("PROCPROF_LISTEN", "127.0.0.1:0").env("PROCPROF_START_FILE", &file);
    let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines().map(Result::unwrap);
    // Each line states whether the C library has seen one thread only; where it has no such word, it is always so.
    for _ in 0..3 {
        assert_eq!(lines.next().as_deref(), Some("alone"));
        assert_eq!(std::fs::read_dir(format!("/proc/{}/task", child.id())).unwrap().count(), 1);
    }
    std::fs::write(&file, "").unwrap();
    let mut errors = BufReader::new(child.stderr.take().unwrap()).lines().map(Result::unwrap);
    let address = errors.find_map(|line| Some(line.split_once("listens on http://")?.1.split('/').next()?.to_owned()));
    get_soon(&address.unwrap(), "/debug/pprof/profile?seconds=1");
    drop(child.stdin.take());
    assert!(child.wait().unwrap().success());
}

/// Work that begins in an allocation opens files, where a thread that waits to be cancelled would end: with the
/// allocator's locks.
#[test]
fn a_cancelled_thread_ends_in_no_allocation() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("start");
    let mut command = preloaded(&program("cancelled.c", &[]));
    command
        .arg(&file)
        .env("PROCPROF_LISTEN", "127.0.0.1:0")
        .env("PROCPROF_START_FILE", &file)
        .env("PROCPROF_HEAP_SAMPLE_BYTES", "512");
    let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines().map(Result::unwrap);
    assert_eq!(lines.next().as_deref(), Some("ready"));
    std::fs::write(&file, "").unwrap();
    assert_eq!(lines.next().as_deref(), Some("lived"));
    let mut errors = BufReader::new(child.stderr.take().unwrap()).lines().map(Result::unwrap);
    assert!(errors.any(|line| line.contains("listens on http://")), "it has begun");
    drop(child.stdin.take());
    assert!(child.wait().unwrap().success());
}
