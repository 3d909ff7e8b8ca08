//! Programs with known waits, recorded off CPU.

use std::collections::BTreeMap;
use std::io::Read;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use procprof_host::{Engine, Filter, Measure, Options, Recorder, Recording, Target};
use procprof_profile::Profile;

use crate::program::{Program, Running, wait_until};
use crate::shares::{functions, label, labels, named};

const ENGINES: [Engine; 2] = [Engine::Perf, Engine::Bpf];

fn options(measure: Measure, engine: Engine) -> Options {
    Options { measure, engine, hz: 997, threads: true, ..Options::default() }
}

/// Records a command until it ends, by an engine that is permitted.
fn record(options: &Options, command: &mut Command) -> (Recording, Child) {
    let recorder = Recorder::attach(Target::FutureChildren, options).expect("perf events and BPF are permitted");
    assert_eq!(recorder.engine(), options.engine);
    let mut child = command.stdout(Stdio::piped()).spawn().unwrap();
    (poll_until_it_ends(recorder, &mut child), child)
}

/// Waits by the function that waits, as `wait.c` prints them: their number, their nanoseconds, and how many of these are
/// of waits in which the thread was preempted, too.
fn printed(child: &mut Child) -> BTreeMap<String, (f64, f64, f64)> {
    let mut text = String::new();
    child.stdout.take().unwrap().read_to_string(&mut text).unwrap();
    let row = |line: &str| {
        let words: Vec<&str> = line.split(' ').collect();
        (words[0].to_owned(), (words[1].parse().unwrap(), words[2].parse().unwrap(), words[3].parse().unwrap()))
    };
    text.lines().map(row).collect()
}

/// The values of samples that a condition holds for.
fn sum(profile: &Profile, condition: impl Fn(&procprof_profile::Sample<'_>) -> bool) -> (f64, f64) {
    let values = profile.samples().filter(condition).map(|sample| (sample.values[0], sample.values[1]));
    values.fold((0.0, 0.0), |sum, (count, nanos)| (sum.0 + count as f64, sum.1 + nanos as f64))
}

fn with_function(profile: &Profile, name: &str) -> (f64, f64) {
    sum(profile, |sample| functions(profile, sample.stack).contains(&name))
}

fn poll_until_it_ends(mut recorder: Recorder, child: &mut Child) -> Recording {
    while child.try_wait().unwrap().is_none() {
        recorder.poll(Duration::from_millis(50)).unwrap();
    }
    recorder.finish().unwrap()
}

fn assert_close(what: &str, found: f64, expected: f64, bound: f64) {
    assert!((found - expected).abs() <= bound * expected, "{what}: {found:.0}, expected {expected:.0}");
}

#[test]
fn waits_have_their_exact_time_and_the_function_that_waits() {
    let program = Program::new("wait.c", &["-O2"]);
    for engine in ENGINES {
        let (recording, mut child) = record(&options(Measure::OffCpu, engine), Command::new(&program.path).arg("2"));
        assert_eq!(recording.statistics.switches_unmatched, 0, "{:?}", recording.statistics);
        let profile = named(&recording);
        // The kernel may leave the sample of a switch out; how long the wait took is known even so, and told.
        let without = recording.statistics.waited_without_stack as f64;
        assert!(without <= 0.02 * recording.statistics.waited as f64, "{:?}", recording.statistics);
        for (function, (count, nanos, preempted)) in printed(&mut child) {
            let (waits, waited) = with_function(&profile, &function);
            // A thread may be preempted before or behind the function, which is no wait of it.
            assert!(
                waited >= 0.98 * nanos - preempted - without && waited <= 1.02 * nanos,
                "{engine:?}: {function}: {waited:.0} in {waits} waits, expected {nanos:.0} in {count}, {preempted:.0} \
                 with preemption: {:?}",
                recording.statistics
            );
            // A lock may be free; all others wait each time.
            assert!(waits >= 0.95 * count || function == "wait_locking", "{function}: {waits} of {count}");
        }
        let threads = ["sleeper", "reader", "locker", "idle"].map(str::to_owned).into();
        assert!(labels(&profile, "thread").is_superset(&threads), "{engine:?}");
        assert!(labels(&profile, "state").contains("blocked"));
        let (waits, waited) = sum(&profile, |_| true);
        assert_eq!((waits as u64, waited as u64), (recording.statistics.waits, recording.statistics.waited));
        // Frames of what samples are not shown: the kernel's first function is the one that waits.
        let is_shown =
            |sample: &procprof_profile::Sample<'_>| functions(&profile, sample.stack).contains(&"__schedule");
        assert_eq!(sum(&profile, is_shown), (0.0, 0.0), "{engine:?}");
    }
}

#[test]
fn the_sums_of_both_engines_are_those_of_the_program() {
    // What a thread waits for once depends on the load, its time from its first wait to its last does not.
    let program = Program::new("wait.c", &["-O2"]);
    for engine in ENGINES {
        let options = Options { min_wait: Duration::from_millis(2), ..options(Measure::OffCpu, engine) };
        let (recording, mut child) = record(&options, Command::new(&program.path).arg("1"));
        let statistics = recording.statistics;
        let profile = named(&recording);
        let (short, nanos) = with_function(&profile, "[waits shorter than the minimum]");
        assert_eq!((short as u64, nanos as u64), (statistics.waits_short, statistics.waited_short), "{engine:?}");
        // The locker sleeps for a millisecond each time, and is woken late where the host is busy.
        assert!(nanos <= 2e6 * short, "{engine:?}: {nanos} of {short}");
        let printed = printed(&mut child);
        let (_, waited) = with_function(&profile, "wait_idle");
        assert_close("wait_idle", waited, printed["wait_idle"].1, 0.02);
        let (waits, waited) = sum(&profile, |_| true);
        assert_eq!((waits as u64, waited as u64), (statistics.waits, statistics.waited), "{engine:?}");
    }
}

#[test]
fn programs_tell_the_reason_of_waits() {
    let program = Program::new("reasons.c", &["-O2"]);
    let (recording, _) = record(&options(Measure::OffCpu, Engine::Bpf), Command::new(&program.path).arg("1"));
    let profile = &recording.profile;
    for name in ["futex", "sleep", "poll", "i/o", "child", "signal"] {
        let has =
            |key: &str, sample: &procprof_profile::Sample<'_>| label(profile, sample, key).as_deref() == Some(name);
        let is_blocked = |sample: &procprof_profile::Sample<'_>| {
            label(profile, sample, "state").as_deref() == Some("blocked")
                && label(profile, sample, "process").as_deref() == Some("reasons")
        };
        let (_, of_thread) = sum(profile, |sample| has("thread", sample) && is_blocked(sample));
        let (_, with_reason) = sum(profile, |sample| has("thread", sample) && has("reason", sample));
        // Pages that are read and locks of the kernel are other reasons.
        assert!(with_reason > 0.0 && with_reason >= 0.9 * of_thread, "{name}: {with_reason} of {of_thread}");
    }
    let reasons = labels(profile, "reason");
    assert!(!reasons.contains("preempted"), "{reasons:?}");
}

#[test]
fn a_process_and_what_it_starts_is_recorded_by_programs_and_nothing_else() {
    let program = Program::new("wait.c", &["-O2"]);
    let other = Running(Command::new(&program.path).arg("600").stdout(Stdio::null()).spawn().unwrap());
    let mut shell = Command::new("sh");
    // It waits to be told to go on, so that what it starts begins during the recording.
    shell.args(["-c", "read go; \"$0\" 0.3; \"$0\" 0.3"]).arg(&program.path);
    let mut child = shell.stdin(Stdio::piped()).stdout(Stdio::null()).spawn().unwrap();
    let target = Target::Processes(vec![child.id()]);
    let recorder = Recorder::attach(target, &options(Measure::OffCpu, Engine::Bpf)).expect("BPF is permitted");
    drop(child.stdin.take());
    let recording = poll_until_it_ends(recorder, &mut child);
    let of_other = other.0.id().to_string();
    drop(other);
    let profile = &recording.profile;
    let of_shell = child.id().to_string();
    let pids = labels(profile, "pid");
    assert!(pids.contains(&of_shell) && pids.len() == 3 && !pids.contains(&of_other), "{pids:?}");
    let children = sum(profile, |sample| label(profile, sample, "reason").as_deref() == Some("child"));
    assert!(children.1 > 0.6e9, "{children:?} that the shell waited for its children");
    let idle = sum(profile, |sample| label(profile, sample, "thread").as_deref() == Some("idle"));
    assert!(idle.1 > 0.6e9, "{idle:?} of two threads that have begun and ended");
    // Of the whole host, by name.
    let filter = Filter { name: Some("wait".to_owned()), ..Filter::default() };
    let options = Options { filter, ..options(Measure::OffCpu, Engine::Bpf) };
    let mut recorder = Recorder::attach(Target::Host, &options).expect("BPF is permitted");
    let mut child = Command::new(&program.path).arg("0.3").stdout(Stdio::null()).spawn().unwrap();
    while child.try_wait().unwrap().is_none() {
        recorder.poll(Duration::from_millis(50)).unwrap();
    }
    let recording = recorder.finish().unwrap();
    assert_eq!(labels(&recording.profile, "process"), ["wait".to_owned()].into());
    assert_eq!(recording.statistics.switches_untracked, 0);
}

#[test]
fn of_many_switches_some_are_sampled_and_the_times_stay_exact() {
    let program = Program::new("wait.c", &["-O2"]);
    let options = Options { waits_hz: Some(100), ..options(Measure::OffCpu, Engine::Perf) };
    let recorder = Recorder::attach(Target::FutureChildren, &options).expect("perf events are permitted");
    let mut child = Command::new(&program.path).arg("3").stdout(Stdio::piped()).spawn().unwrap();
    let recording = poll_until_it_ends(recorder, &mut child);
    let statistics = recording.statistics;
    assert!(statistics.samples_of_switches < statistics.waits, "{statistics:?}");
    let profile = named(&recording);
    let printed = printed(&mut child);
    // Threads with one wait each: their time is that of the thread, whatever was sampled.
    for (thread, function) in [("reader", "wait_reading"), ("idle", "wait_idle")] {
        let (_, waited) = sum(&profile, |sample| label(&profile, sample, "thread").as_deref() == Some(thread));
        assert_close(thread, waited, printed[function].1, 0.02);
    }
    // One long wait has its stack, however few are sampled.
    assert_close("wait_idle", with_function(&profile, "wait_idle").1, printed["wait_idle"].1, 0.02);
    let (waits, waited) = sum(&profile, |_| true);
    assert_eq!((waits as u64, waited as u64), (statistics.waits, statistics.waited));
}

#[test]
fn threads_that_wait_all_the_time_are_recorded_with_their_stack() {
    let program = Program::new("wait.c", &["-O2"]);
    let child = Running(Command::new(&program.path).arg("600").stdout(Stdio::piped()).spawn().unwrap());
    let threads = format!("/proc/{}/task", child.0.id());
    let waiting = |name: &str| {
        let tasks = std::fs::read_dir(&threads).unwrap().flatten();
        tasks
            .map(|task| std::fs::read_to_string(task.path().join("stat")).unwrap_or_default())
            .any(|stat| stat.contains(&format!("({name}) S")))
    };
    wait_until("the threads", || waiting("idle"));
    for engine in ENGINES {
        let target = Target::Processes(vec![child.0.id()]);
        let before = Instant::now();
        let mut recorder =
            Recorder::attach(target, &options(Measure::OffCpu, engine)).expect("perf events and BPF are permitted");
        let after = Instant::now();
        while after.elapsed() < Duration::from_secs(2) {
            recorder.poll(Duration::from_millis(50)).unwrap();
        }
        let least = after.elapsed().as_nanos() as f64;
        let recording = recorder.finish().unwrap();
        let most = before.elapsed().as_nanos() as f64;
        let profile = named(&recording);
        let (waits, waited) = with_function(&profile, "wait_idle");
        assert!((least..=most).contains(&waited), "{engine:?}: {least} to {most}: {waited}");
        assert_eq!(waits as u64, 1);
        let main = sum(&profile, |sample| label(&profile, sample, "thread").as_deref() == Some("wait"));
        assert!((least..=most).contains(&main.1), "{engine:?}: {least} to {most}: {main:?}");
        for function in ["wait_sleeping", "wait_reading", "wait_locking"] {
            assert!(with_function(&profile, function).1 > 0.5 * least, "{engine:?}: {function}");
        }
    }
}

#[test]
fn threads_that_share_a_cpu_are_preempted_for_as_long_as_they_do_not_run() {
    let program = Program::new("burn.c", &["-O2"]);
    let cpu = std::fs::read_to_string("/sys/devices/system/cpu/online").unwrap();
    let first: String = cpu.chars().take_while(char::is_ascii_digit).collect();
    for engine in ENGINES {
        let begun = Instant::now();
        let mut command = Command::new("taskset");
        command.args(["-c", &first]).arg(&program.path).args(["0.5", "2"]);
        // Small copies: a busy reader loses no samples.
        let options = Options { stack_bytes: Some(2048), ..options(Measure::Wall, engine) };
        let (recording, _) = record(&options, &mut command);
        let elapsed = begun.elapsed().as_nanos() as f64;
        let profile = &recording.profile;
        let state = |state: &str| sum(profile, |sample| label(profile, sample, "state").as_deref() == Some(state)).1;
        let (running, preempted) = (state("running"), state("preempted"));
        // Half a second each, of which one waits for the other.
        assert_close("running", running, 1e9, 0.05 + 5.0 / 1000_f64.sqrt());
        assert!(preempted > 0.4 * running, "{engine:?}: {preempted} of {running}");
        let all = sum(profile, |_| true).1;
        assert!(all <= 2.0 * elapsed * 1.1, "{engine:?}: {all} of two threads in {elapsed}");
        assert!(all >= 1.8 * running, "{engine:?}: {all}, running {running}");
    }
}
