//! Programs with a known split of CPU time, recorded by pid and from their start.

use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use procprof_host::{Error, Filter, Options, Recorder, Recording, Target};

use crate::program::{Program, Running, wait_until};
use crate::shares::{assert_share, count, functions, label, labels, named, with_function};

const HZ: u32 = 997;

fn options() -> Options {
    Options { hz: HZ, threads: true, ..Options::default() }
}

/// Runs a program under a recorder until it ends; the nanoseconds of CPU time that it prints.
fn record_command(program: &Path, words: &[&str]) -> (Recording, f64) {
    let mut recorder = Recorder::attach(Target::FutureChildren, &options()).expect("perf events are permitted");
    let mut child = Command::new(program).args(words).stdout(Stdio::piped()).spawn().unwrap();
    recorder.started(child.id()).unwrap();
    while child.try_wait().unwrap().is_none() {
        recorder.poll(Duration::from_millis(50)).unwrap();
    }
    (recorder.finish().unwrap(), printed(&mut child))
}

/// The CPU time that a program prints at its end.
fn printed(child: &mut Child) -> f64 {
    let mut line = String::new();
    BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
    line.trim().parse().unwrap()
}

/// Asserts that the samples stand for the CPU time used; what was lost would be missing rightly.
fn assert_time(recording: &Recording, used: f64) {
    let samples = recording.statistics.samples + recording.statistics.lost;
    let expected = used * f64::from(HZ) / 1e9;
    let bound = 5.0 * expected.sqrt() + 0.05 * expected;
    assert!((samples as f64 - expected).abs() <= bound, "{samples} samples, expected {expected:.0}");
}

/// Asserts that the values of the profile, with the row of what has no samples, add up to the CPU time used by so many
/// processes.
fn assert_sum(recording: &Recording, used: f64, processes: u32) {
    let sum: i64 = recording.profile.samples().map(|sample| sample.values[1]).sum();
    // A program prints nothing of its last moments, and the kernel ends a process's events before the process.
    let bound = 0.01 * used + 20e6 + 0.5e6 * f64::from(processes);
    assert!((sum as f64 - used).abs() <= bound, "{sum} ns of {used} ns: {:?}", recording.statistics);
}

fn assert_split(recording: &Recording) {
    let profile = named(recording);
    let in_work = |sample: &procprof_profile::Sample<'_>| functions(&profile, sample.stack).contains(&"deep");
    let (_, all) = with_function(&profile, "deep");
    let (work, _) = count(&profile, in_work);
    assert!(work / all > 0.9, "{work} of {all} samples are below deep");
    let (a, _) = with_function(&profile, "hot_a");
    let (b, _) = with_function(&profile, "hot_b");
    assert_share("hot_a of both", (a, a + b), 0.7);
}

#[test]
fn a_command_is_recorded_from_its_start_to_its_end() {
    for options in [&["-O2"][..], &["-O2", "-fno-omit-frame-pointer"], &["-O2", "-static"], &["-O0", "-s"]] {
        let program = Program::new("burn.c", &[options, &["-fno-optimize-sibling-calls"]].concat());
        let (recording, used) = record_command(&program.path, &["0.6"]);
        let statistics = recording.statistics;
        assert_time(&recording, used);
        assert_sum(&recording, used, 1);
        assert!(statistics.to_root as f64 >= 0.99 * statistics.user_stacks as f64, "{options:?}: {statistics:?}");
        assert_eq!((statistics.vanished, statistics.malformed), (0, 0), "{options:?}");
        if !options.contains(&"-s") {
            assert_split(&recording);
        }
    }
}

#[test]
fn code_with_debug_frames_only_is_unwound() {
    let options =
        ["-O2", "-g", "-fomit-frame-pointer", "-fno-asynchronous-unwind-tables", "-fno-optimize-sibling-calls"];
    let (recording, used) = record_command(&Program::new("burn.c", &options).path, &["0.6"]);
    assert_time(&recording, used);
    assert_split(&recording);
    let statistics = recording.statistics;
    assert!(statistics.to_root as f64 >= 0.99 * statistics.user_stacks as f64, "{statistics:?}");
}

/// Runs a program from a file in memory under a recorder.
fn record_in_memory(program: &Path) -> Recording {
    let memory = rustix::fs::memfd_create("in memory", rustix::fs::MemfdFlags::empty()).unwrap();
    let path = format!("/proc/self/fd/{}", std::os::fd::AsRawFd::as_raw_fd(&memory));
    std::fs::write(&path, std::fs::read(program).unwrap()).unwrap();
    record_command(Path::new(&path), &["0.6"]).0
}

#[test]
fn programs_in_memory_have_names_and_callers() {
    for id in ["-Wl,--build-id", "-Wl,--build-id=none"] {
        let program = Program::new("burn.c", &["-O2", "-fno-optimize-sibling-calls", id]);
        let recording = record_in_memory(&program.path);
        assert_split(&recording);
        let statistics = recording.statistics;
        assert!(statistics.to_root as f64 >= 0.99 * statistics.user_stacks as f64, "{id}: {statistics:?}");
        let profile = &recording.profile;
        let mut names = profile.mappings().iter().map(|mapping| profile.string(mapping.filename));
        assert!(names.any(|name| name == "/memfd:in memory"), "{id}");
    }
}

#[test]
fn programs_without_section_headers_are_unwound() {
    let program = Program::new("burn.c", &["-O2", "-fno-optimize-sibling-calls"]);
    let mut bytes = std::fs::read(&program.path).unwrap();
    // The offset of the section headers in the ELF header, and their number and that of their names.
    for (place, wrong) in [(0x28, 0_u64), (0x28, u64::MAX)] {
        bytes[place..place + 8].copy_from_slice(&wrong.to_le_bytes());
        bytes[0x3c..0x40].fill(if wrong == 0 { 0 } else { 9 });
        std::fs::write(&program.path, &bytes).unwrap();
        let statistics = record_command(&program.path, &["0.6"]).0.statistics;
        assert!(statistics.to_root as f64 >= 0.99 * statistics.user_stacks as f64, "{wrong}: {statistics:?}");
    }
}

#[test]
fn threads_and_children_are_recorded_with_their_names() {
    let program = Program::new("burn.c", &["-O2"]);
    let (recording, used) = record_command(&program.path, &["0.5", "3", "2"]);
    assert_time(&recording, used);
    assert_split(&recording);
    let profile = &recording.profile;
    assert!(labels(profile, "process").is_superset(&["burn".to_owned(), "child".to_owned()].into()));
    assert!(labels(profile, "thread").is_superset(&["burn".to_owned(), "worker".to_owned()].into()));
    assert_eq!(labels(profile, "pid").len(), 3);
    let of_thread =
        |name: &'static str| count(profile, |sample| label(profile, sample, "thread").as_deref() == Some(name));
    // Two of five threads.
    let (workers, all) = of_thread("worker");
    assert!((workers / all - 0.4).abs() < 0.1, "{workers} of {all}");
}

#[test]
fn a_running_process_is_recorded_by_its_pid_with_all_its_threads_until_it_ends() {
    let program = Program::new("burn.c", &["-O2"]);
    let mut child = Command::new(&program.path).args(["0.8", "4"]).stdout(Stdio::piped()).spawn().unwrap();
    let mut recorder =
        Recorder::attach(Target::Processes(vec![child.id()]), &options()).expect("perf events are permitted");
    while child.try_wait().unwrap().is_none() {
        recorder.poll(Duration::from_millis(50)).unwrap();
    }
    assert!(recorder.is_over());
    let recording = recorder.finish().unwrap();
    let used = printed(&mut child);
    // The threads began at about the time of the attachment; none is counted twice.
    let most = used * f64::from(HZ) / 1e9;
    let samples = (recording.statistics.samples + recording.statistics.lost) as f64;
    assert!(samples > 0.0 && samples <= 1.05 * most + 5.0 * most.sqrt(), "{samples} of at most {most}");
    assert_split(&recording);
}

#[test]
fn processes_are_chosen_by_name_among_all_of_the_host() {
    let program = Program::new("burn.c", &["-O2"]);
    let filter = Filter { name: Some("child".to_owned()), ..Filter::default() };
    let options = Options { filter, ..options() };
    let mut recorder = Recorder::attach(Target::Host, &options).expect("perf events are permitted");
    let mut child = Command::new(&program.path).args(["0.5", "1", "1"]).stdout(Stdio::piped()).spawn().unwrap();
    while child.try_wait().unwrap().is_none() {
        recorder.poll(Duration::from_millis(50)).unwrap();
    }
    let recording = recorder.finish().unwrap();
    assert_eq!(labels(&recording.profile, "process"), ["child".to_owned()].into());
    assert!(!labels(&recording.profile, "pid").contains(&child.id().to_string()));
    let own = std::fs::read_to_string("/proc/self/cgroup").unwrap();
    let groups = labels(&recording.profile, "cgroup");
    assert!(!groups.is_empty() && groups.iter().all(|group| own.contains(group.as_str())), "{groups:?}");
    assert_split(&recording);
}

#[test]
fn processes_that_were_started_before_are_recorded_with_their_origin() {
    let program = Program::new("burn.c", &["-O2"]);
    let mut child = Command::new(&program.path).args(["0.8", "1", "2"]).stdout(Stdio::piped()).spawn().unwrap();
    let children = format!("/proc/{0}/task/{0}/children", child.id());
    let started = || std::fs::read_to_string(&children).unwrap().split_whitespace().count();
    wait_until("the program's children", || started() == 2);
    let options = Options { children: true, ..options() };
    let mut recorder =
        Recorder::attach(Target::Processes(vec![child.id()]), &options).expect("perf events are permitted");
    while child.try_wait().unwrap().is_none() {
        recorder.poll(Duration::from_millis(50)).unwrap();
    }
    let recording = recorder.finish().unwrap();
    assert_eq!(labels(&recording.profile, "pid").len(), 3);
    let samples = (recording.statistics.samples + recording.statistics.lost) as f64;
    let most = printed(&mut child) * f64::from(HZ) / 1e9;
    assert!(samples <= 1.05 * most + 5.0 * most.sqrt(), "{samples} of at most {most}");
}

#[test]
fn samples_that_do_not_fit_into_the_buffers_are_counted() {
    let program = Program::new("burn.c", &["-O2"]);
    let recorder = Recorder::attach(Target::FutureChildren, &options()).expect("perf events are permitted");
    let mut child = Command::new(&program.path).arg("0.5").stdout(Stdio::piped()).spawn().unwrap();
    let used = printed(&mut child);
    child.wait().unwrap();
    // No buffer was read meanwhile, so the kernel had no occasion to write how much it lost.
    let recording = recorder.finish().unwrap();
    assert!(recording.statistics.samples > 0 && recording.statistics.lost > 0, "{:?}", recording.statistics);
    assert_time(&recording, used);
    assert_sum(&recording, used, 1);
}

#[test]
fn time_of_what_ends_before_a_sample_is_due_is_a_row() {
    const ROUNDS: u32 = 400;
    let program = Program::new("short.c", &["-O2"]);
    for (mode, by_pid) in [("spawn", true), ("spawn", false), ("threads", true), ("threads", false)] {
        let options = Options { hz: 99, ..Options::default() };
        let mut command = Command::new(&program.path);
        command.args([mode, &ROUNDS.to_string()]).stdin(Stdio::piped()).stdout(Stdio::piped());
        let (mut recorder, mut child) = if by_pid {
            let child = Running(command.spawn().unwrap());
            (Recorder::attach(Target::Processes(vec![child.0.id()]), &options).expect("perf events"), child)
        } else {
            let mut recorder = Recorder::attach(Target::FutureChildren, &options).expect("perf events");
            let child = Running(command.spawn().unwrap());
            recorder.started(child.0.id()).unwrap();
            (recorder, child)
        };
        child.0.stdin.take().unwrap().write_all(b"\n").unwrap();
        while child.0.try_wait().unwrap().is_none() {
            recorder.poll(Duration::from_millis(50)).unwrap();
        }
        let recording = recorder.finish().unwrap();
        let used = printed(&mut child.0);
        assert_sum(&recording, used, if mode == "spawn" { ROUNDS } else { 1 });
        let profile = named(&recording);
        // The process goes on, so that its own time is sampled, whatever it starts.
        let (own, _) = with_function(&profile, "own_work");
        let expected = f64::from(ROUNDS) * 1e6 * 99.0 / 1e9;
        let bound = 5.0 * expected.sqrt();
        assert!((own - expected).abs() <= bound, "{mode} {by_pid}: {own} of {expected} samples in own_work");
        let unsampled = recording.statistics.unsampled as f64;
        assert!(unsampled > 0.0 && unsampled < used, "{mode} {by_pid}: {unsampled} of {used}");
        assert!(labels(&recording.profile, "process").contains("short"), "{mode} {by_pid}");
    }
}

#[test]
fn what_can_not_be_recorded_is_named() {
    let none = Recorder::attach(Target::Processes(vec![4_194_304]), &Options::default()).unwrap_err();
    assert!(matches!(none, Error::NoSuchProcess { pid: 4_194_304 }), "{none}");
    let fast = Options { hz: 1_000_000, ..Options::default() };
    let refused = Recorder::attach(Target::Processes(vec![std::process::id()]), &fast).unwrap_err();
    assert!(refused.to_string().contains("1000000 Hz"), "{refused}");
}
