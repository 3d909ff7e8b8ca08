//! Recordings that go on while they are cut.

use std::io::{BufRead, BufReader, Write};
use std::process::{Command, Stdio};
use std::time::Duration;

use procprof_host::{Cut, Engine, Filter, Measure, Options, PerfMaps, Recorder, Target};
use procprof_profile::Profile;

use crate::program::Program;
use crate::shares::labels;

const HZ: u32 = 499;
/// Little of each stack, so that buffers do not fill.
const STACK_BYTES: Option<u32> = Some(2048);

/// The sums of both values.
fn values(profile: &Profile) -> (u64, u64) {
    let sum = |place: usize| profile.samples().map(|sample| sample.values[place] as u64).sum();
    (sum(0), sum(1))
}

/// All samples of a cut, and that their sums are those of its processes and statistics.
fn profile(cut: &Cut) -> Option<Profile> {
    let profile = cut.profile(|_, _, _| true, "a test").unwrap();
    let (count, nanos) = profile.as_ref().map_or((0, 0), values);
    let processes = cut.processes();
    assert_eq!(count, processes.iter().map(|process| process.count).sum::<u64>());
    assert_eq!(nanos, processes.iter().map(|process| process.nanos).sum::<u64>());
    if cut.measure() == Measure::Cpu {
        assert_eq!(count, cut.statistics.samples);
    }
    profile
}

#[test]
fn every_sample_is_in_one_cut_at_any_rate() {
    let program = Program::new("burn.c", &["-O2", "-fno-optimize-sibling-calls"]);
    let filter = Filter { name: Some("burn".to_owned()), ..Filter::default() };
    let options = Options { hz: HZ, stack_bytes: STACK_BYTES, filter, ..Options::default() };
    let mut recorder = Recorder::attach(Target::Host, &options).expect("perf events are permitted");
    let mut child = Command::new(&program.path).args(["0.3", "3"]).stdout(Stdio::piped()).spawn().unwrap();
    let mut cuts = Vec::new();
    loop {
        let has_ended = child.try_wait().unwrap().is_some();
        recorder.poll(Duration::from_millis(100)).unwrap();
        cuts.push(match cuts.len() % 3 {
            0 => recorder.cut_at_rate(HZ / 2).unwrap(),
            1 => recorder.cut_at_rate(HZ).unwrap(),
            _ => recorder.cut(),
        });
        // On a busy machine a look at what was recorded takes longer than the program.
        if has_ended && cuts.len() >= 5 {
            break;
        }
    }
    let mut line = String::new();
    BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
    let used: f64 = line.trim().parse().unwrap();
    let mut nanos = 0;
    for cut in &cuts {
        let (count, time) = profile(cut).as_ref().map_or((0, 0), values);
        assert_eq!(time, count * (1_000_000_000 / u64::from(cut.hz())));
        nanos += time;
    }
    // A CPU's clock runs on while the host of a virtual machine has the CPU, that of a thread does not.
    assert!((0.2..5.0).contains(&(nanos as f64 / used)), "{nanos} ns in cuts, {used} ns used");
    for pair in cuts.windows(2) {
        let gap = pair[1].started.duration_since(pair[0].started + pair[0].duration).unwrap_or_default();
        assert!(gap.is_zero(), "{gap:?} between cuts");
    }
}

#[test]
fn profiles_of_a_cut_share_it_by_service() {
    let program = Program::new("burn.c", &["-O2"]);
    let options = Options { hz: HZ, stack_bytes: STACK_BYTES, ..Options::default() };
    let mut recorder = Recorder::attach(Target::Host, &options).expect("perf events are permitted");
    let mut child = Command::new(&program.path).args(["0.3", "1", "1"]).stdout(Stdio::piped()).spawn().unwrap();
    while child.try_wait().unwrap().is_none() {
        recorder.poll(Duration::from_millis(50)).unwrap();
    }
    let mut cut = recorder.cut();
    cut.name_own(None, &PerfMaps::new());
    let all = profile(&cut).expect("there are samples");
    let part = |is_of: bool| {
        let takes = |_: u32, name: &str, membership: &procprof_host::Membership| {
            (membership.service(name) == "burn" || membership.service(name) == "child") == is_of
        };
        cut.part(takes, "a test").unwrap()
    };
    let (burn, others) = (part(true).expect("it has samples"), part(false));
    // What is known of all samples alone is counted once, what is known of each by each.
    let truncated = |profile: &Option<Profile>| {
        profile.as_ref().map_or(0, |profile| profile.meta().truncated.expect("it is known"))
    };
    let (burn_meta, all_meta) = (burn.meta(), all.meta());
    assert_eq!((burn_meta.lost, all_meta.lost), (None, Some(cut.statistics.lost)));
    assert_eq!(burn_meta.truncated.map(|own| own + truncated(&others)), all_meta.truncated);
    assert_eq!(all_meta.truncated, Some(cut.statistics.cut + cut.statistics.deep));
    let (burn, others) = (values(&burn), others.as_ref().map_or((0, 0), values));
    assert_eq!((burn.0 + others.0, burn.1 + others.1), values(&all));
    let own = cut.part(|pid, _, _| pid == child.id(), "a test").unwrap().expect("it has samples");
    assert_eq!(labels(&own, "pid"), [child.id().to_string()].into());
    assert!(values(&own).0 < burn.0, "the child of {} has samples, too", child.id());
    assert!(own.mappings().len() <= all.mappings().len() && own.locations().len() < all.locations().len());
}

/// The number of times that a process waited, once it waits.
fn waits_begun(pid: u32) -> u64 {
    loop {
        let status = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap();
        let field = |name: &str| {
            let line = status.lines().find_map(|line| line.strip_prefix(name));
            line.unwrap().trim().to_owned()
        };
        if field("State:").starts_with('S') && field("Name:") == "cat" {
            return field("voluntary_ctxt_switches:").parse().unwrap();
        }
        std::thread::sleep(Duration::from_millis(5));
    }
}

#[test]
fn waits_go_on_over_cuts() {
    for engine in [Engine::Perf, Engine::Bpf] {
        let options = Options { measure: Measure::OffCpu, engine, ..Options::default() };
        let mut child = Command::new("cat").stdin(Stdio::piped()).stdout(Stdio::null()).spawn().unwrap();
        let before = waits_begun(child.id());
        let mut recorder =
            Recorder::attach(Target::Processes(vec![child.id()]), &options).expect("perf events and BPF are permitted");
        // Its next wait begins while it is recorded, and goes on until the end.
        child.stdin.as_mut().unwrap().write_all(b"\n").unwrap();
        while waits_begun(child.id()) == before {}
        recorder.poll(Duration::ZERO).unwrap();
        recorder.cut();
        let (mut total, mut waited) = (Duration::ZERO, 0);
        for _ in 0..4 {
            recorder.poll(Duration::from_millis(100)).unwrap();
            let cut = recorder.cut();
            total += cut.duration;
            waited += values(&profile(&cut).expect("it waits all the time")).1;
        }
        child.kill().unwrap();
        child.wait().unwrap();
        let share = waited as f64 / total.as_nanos() as f64;
        assert!((0.98..1.02).contains(&share), "{engine:?}: {waited} ns of {total:?}");
    }
}

#[test]
fn a_thread_that_sleeps_throughout_waits_for_the_whole_window() {
    for engine in [Engine::Perf, Engine::Bpf] {
        let options = Options { measure: Measure::OffCpu, engine, ..Options::default() };
        let mut child = Command::new("cat").stdin(Stdio::piped()).stdout(Stdio::null()).spawn().unwrap();
        waits_begun(child.id());
        let mut recorder =
            Recorder::attach(Target::Processes(vec![child.id()]), &options).expect("perf events and BPF are permitted");
        recorder.poll(Duration::from_millis(50)).unwrap();
        let profile = recorder.finish().unwrap().profile;
        child.kill().unwrap();
        child.wait().unwrap();
        assert_eq!(values(&profile).1, profile.duration().0 as u64, "{engine:?}");
    }
}

#[test]
fn what_only_the_host_can_name_has_names() {
    // Stacks of other programs of the machine would take long to follow.
    let filter = Filter { name: Some("dd".to_owned()), ..Filter::default() };
    let options = Options { hz: HZ, stack_bytes: STACK_BYTES, filter, ..Options::default() };
    let mut recorder = Recorder::attach(Target::Host, &options).expect("perf events are permitted");
    let mut child = Command::new("dd")
        .args(["if=/dev/zero", "of=/dev/null", "bs=1M", "count=4000"])
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    while child.try_wait().unwrap().is_none() {
        recorder.poll(Duration::from_millis(50)).unwrap();
    }
    let mut cut = recorder.cut();
    cut.name_own(None, &PerfMaps::new());
    let profile = cut.profile(|pid, _, _| pid == child.id(), "dd").unwrap().expect("it has samples");
    let mut unnamed = 0;
    let mut named = 0;
    for location in profile.samples().flat_map(|sample| sample.stack.to_vec()) {
        let mapping = profile.location(location).mapping.map(|id| profile.string(profile.mapping(id).filename));
        let count = if mapping == Some("[kernel.kallsyms]") { &mut named } else { continue };
        *if profile.lines(location).is_empty() { &mut unnamed } else { count } += 1;
    }
    assert!(named > 0 && unnamed == 0, "{named} frames in the kernel with names, {unnamed} without");
}
