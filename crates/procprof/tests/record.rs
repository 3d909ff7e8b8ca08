//! `procprof record`: targets, outputs, privileges, and processes that change while they are recorded.
//!
//! Needs perf events (root, or CAP_PERFMON, CAP_SYS_PTRACE and CAP_DAC_READ_SEARCH) and gcc; the tests of privileges
//! and of namespaces need root, `setpriv` and `unshare`.

// A test may unwrap in the functions it calls, too.
#![allow(clippy::unwrap_used)]

use std::collections::BTreeSet;
use std::io::{BufRead, BufReader, Read, Write};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStderr, Command, Output, Stdio};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use procprof_profile::format::{self, Limits};
use procprof_profile::{LabelValue, Profile, Sample};
use tempfile::TempDir;

use crate::harness::{PATIENCE, children, curl, folder, procprof, remove_remains_of_jvm, shared_folder, signal, text};

const HZ: &str = "997";
/// Nobody's user and group id.
const NOBODY: &str = "65534";

/// A copy of a program of `testdata/record`, which is compiled once.
pub(crate) fn compiled(source: &str, options: &[&str], path: &Path) {
    static COMPILED: Mutex<BTreeSet<PathBuf>> = Mutex::new(BTreeSet::new());
    let all = shared_folder().join("record");
    let binary = all.join([&[source], options].concat().join(" ").replace('/', "_"));
    let mut known = COMPILED.lock().unwrap_or_else(PoisonError::into_inner);
    if !known.contains(&binary) {
        std::fs::create_dir_all(&all).unwrap();
        let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../testdata/record").join(source);
        let mut gcc = Command::new("gcc");
        gcc.args(["-O2", "-fno-optimize-sibling-calls", "-pthread", "-o"]).arg(&binary).arg(source);
        let output = gcc.args(options).arg("-ldl").output().expect("this test needs gcc");
        assert!(output.status.success(), "{}", text(&output));
        known.insert(binary.clone());
    }
    std::fs::copy(&binary, path).unwrap();
}

/// `burn.c` in a folder of its own, with what else a test writes.
struct Burn {
    folder: TempDir,
    path: PathBuf,
}

impl Burn {
    fn new(options: &[&str]) -> Self {
        let folder = folder();
        // Other users get there, too.
        std::fs::set_permissions(folder.path(), PermissionsExt::from_mode(0o755)).unwrap();
        let path = folder.path().join(name());
        compiled("burn.c", options, &path);
        Self { folder, path }
    }

    fn start(&self, words: &[&str]) -> Running {
        Running(Command::new(&self.path).args(words).stdout(Stdio::null()).spawn().unwrap())
    }

    fn file(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }
}

/// The name of `burn.c` here, which no process of other tests has.
fn name() -> String {
    format!("burn-{}", std::process::id())
}

/// A process that is killed at the end of a test.
struct Running(Child);

impl Running {
    fn pid(&self) -> String {
        self.0.id().to_string()
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
        remove_remains_of_jvm(self.0.id());
    }
}

/// A file of a process that is removed with it.
struct RemovedFile(String);

impl Drop for RemovedFile {
    fn drop(&mut self) {
        // Not all write one.
        let _ = std::fs::remove_file(&self.0);
    }
}

fn record(arguments: &[&str]) -> Output {
    procprof().args(["record", "-F", HZ]).args(arguments).output().unwrap()
}

/// Records into a file, which must succeed; the profile and what was printed.
fn profile_of(burn: &Burn, arguments: &[&str]) -> (Profile, String) {
    let file = burn.file("recorded.pb.gz");
    let output = record(&[&["-o", file.to_str().unwrap()], arguments].concat());
    assert!(output.status.success(), "{arguments:?}: {}", text(&output));
    (decoded(&file), text(&output))
}

fn decoded(file: &Path) -> Profile {
    format::decode(&std::fs::read(file).unwrap(), &Limits::default()).unwrap().profile
}

/// A recording whose command line is known to have attached.
struct Recording {
    running: Running,
    stderr: BufReader<ChildStderr>,
}

impl Recording {
    fn start(arguments: &[&str]) -> Self {
        let mut command = procprof();
        command.args(["record", "-F", HZ]).args(arguments).stdout(Stdio::null()).stderr(Stdio::piped());
        let mut running = Running(command.spawn().unwrap());
        let mut stderr = BufReader::new(running.0.stderr.take().unwrap());
        let mut line = String::new();
        stderr.read_line(&mut line).unwrap();
        assert!(line.starts_with("procprof: recording "), "{line}");
        Self { running, stderr }
    }

    /// What it printed until it ended well.
    fn ended(mut self) -> String {
        let mut text = String::new();
        self.stderr.read_to_string(&mut text).unwrap();
        assert!(self.running.0.wait().unwrap().success(), "{text}");
        text
    }
}

/// Samples for which a condition holds.
fn count(profile: &Profile, condition: impl Fn(&Sample<'_>) -> bool) -> i64 {
    profile.samples().filter(condition).map(|sample| sample.values[0]).sum()
}

fn has_function(profile: &Profile, sample: &Sample<'_>, name: &str) -> bool {
    let lines = sample.stack.iter().flat_map(|location| profile.lines(*location));
    lines.into_iter().any(|line| profile.string(profile.function(line.function).name) == name)
}

fn with_function(profile: &Profile, name: &str) -> i64 {
    count(profile, |sample| has_function(profile, sample, name))
}

/// The text of a sample's label.
fn label(profile: &Profile, sample: &Sample<'_>, key: &str) -> Option<String> {
    let found = sample.labels.iter().find(|label| profile.string(label.key) == key)?;
    Some(match found.value {
        LabelValue::Text(text) => profile.string(text).to_owned(),
        LabelValue::Number(number, _) => number.to_string(),
    })
}

/// The texts of a label.
fn labels(profile: &Profile, key: &str) -> BTreeSet<String> {
    profile.samples().filter_map(|sample| label(profile, &sample, key)).collect()
}

/// Asserts that nearly all samples are of the program's known work, with names down to its start.
fn assert_burnt(profile: &Profile, printed: &str) {
    let (all, deep) = (count(profile, |_| true), with_function(profile, "deep"));
    assert!(all > 0 && deep * 10 >= all * 9, "{deep} of {all} samples are below deep\n{printed}");
    let (a, b) = (with_function(profile, "hot_a") as f64, with_function(profile, "hot_b") as f64);
    let deviation = (0.7 * 0.3 / (a + b)).sqrt();
    assert!((a / (a + b) - 0.7).abs() <= 5.0 * deviation, "hot_a has {a} samples, hot_b {b}\n{printed}");
    assert!(!printed.contains("unverified") && !printed.contains("not used"), "{printed}");
}

fn wait_for(what: &str, ready: impl Fn() -> bool) {
    let begun = Instant::now();
    while !ready() {
        assert!(begun.elapsed() < PATIENCE, "not within {} s: {what}", PATIENCE.as_secs());
        std::thread::sleep(Duration::from_millis(10));
    }
}

#[test]
fn a_command_is_recorded_and_shown_as_the_table_or_any_report() {
    let burn = Burn::new(&[]);
    let path = burn.path.to_str().unwrap();
    let (profile, printed) = profile_of(&burn, &["--", path, "0.3"]);
    assert_burnt(&profile, &printed);
    assert!(printed.contains(" samples in ") && printed.contains("of CPU time"), "{printed}");
    let program = profile.mappings().first().map_or("", |mapping| profile.string(mapping.filename));
    assert_eq!(Path::new(program), burn.path, "the main program is the first mapping");
    assert!(labels(&profile, "thread").is_empty() && labels(&profile, "process").contains(&name()));

    let table = procprof()
        .args(["record", "-F", HZ, "--", path, "0.1"])
        .env("PPROF_TMPDIR", burn.folder.path())
        .output()
        .unwrap();
    let printed = text(&table);
    assert!(table.status.success() && printed.contains("  spin\n"), "{printed}");
    let (_, kept) = printed.split_once("procprof report -http=: ").unwrap_or_else(|| panic!("{printed}"));
    assert!(with_function(&decoded(Path::new(kept.lines().next().unwrap())), "hot_a") > 0);

    let collapsed = record(&["--format", "collapsed", "--threads", "--", path, "0.1", "2"]);
    let stacks = String::from_utf8_lossy(&collapsed.stdout).into_owned();
    assert!(stacks.contains("deep;deep;hot_a;spin "), "{}", text(&collapsed));
    let page = burn.file("flame.html");
    let html = record(&["--format", "html", "-o", page.to_str().unwrap(), "--", path, "0.1"]);
    assert!(html.status.success(), "{}", text(&html));
    assert!(std::fs::read_to_string(&page).unwrap().contains("hot_a"));
}

#[test]
fn the_pages_of_a_recording_are_served() {
    let burn = Burn::new(&[]);
    let mut command = procprof();
    command.args(["record", "-F", HZ, "--open", "--", burn.path.to_str().unwrap(), "0.3"]);
    command.env("PPROF_TMPDIR", burn.folder.path()).stdout(Stdio::null()).stderr(Stdio::piped());
    let mut running = Running(command.spawn().unwrap());
    let mut lines = BufReader::new(running.0.stderr.take().unwrap()).lines().map_while(Result::ok);
    let url = lines.find_map(|line| line.strip_prefix("Serving web UI on ").map(str::to_owned)).expect("an address");
    let (status, top) = curl(&["-L", &format!("{url}/view/top")]);
    assert!(status == 200 && String::from_utf8_lossy(&top).contains("spin"), "{status}");
    signal(running.0.id(), "TERM");
    assert!(running.0.wait().unwrap().success());
}

#[test]
fn processes_are_chosen_by_pid_name_control_group_and_descent() {
    let burn = Burn::new(&[]);
    let running = burn.start(&["3600", "2", "1"]);
    wait_for("burn forks", || !children(running.0.id()).is_empty());
    let child = children(running.0.id())[0];
    let (pid, child) = (running.pid(), child.to_string());
    let (name, both) = (name(), BTreeSet::from([pid.clone(), child.clone()]));
    let group = ControlGroup::new();
    std::fs::write(group.folder.join("cgroup.procs"), &child).unwrap();
    for (arguments, expected) in [
        (vec!["-p", &pid], BTreeSet::from([pid.clone()])),
        (vec!["-p", &pid, "--children", "--threads"], both.clone()),
        (vec!["-p", &format!("{pid},{child}")], both.clone()),
        (vec!["--cgroup", &group.path], BTreeSet::from([child.clone()])),
        (vec!["--cgroup", group.folder.to_str().unwrap()], BTreeSet::from([child.clone()])),
        (vec!["--comm", &name], BTreeSet::from([pid.clone()])),
        (vec!["-a"], both.clone()),
    ] {
        // How long the processes get nothing of a busy machine is not known.
        for seconds in ["1", "4", "16", "64"] {
            let (profile, printed) = profile_of_any(&burn, &[&arguments[..], &["-d", seconds]].concat());
            let Some(profile) = profile else { continue };
            let pids = labels(&profile, "pid");
            if seconds != "64" && (!pids.is_superset(&expected) || with_function(&profile, "hot_b") < 20) {
                continue;
            }
            let is_among_others = ["-a", "--comm"].contains(&arguments[0]);
            assert!(pids.is_superset(&expected) && (is_among_others || pids == expected), "{arguments:?}: {pids:?}");
            if arguments[0] != "-a" {
                assert_burnt(&profile, &printed);
            }
            if arguments[0] == "--cgroup" {
                assert_eq!(labels(&profile, "unit"), BTreeSet::from([group.unit.clone()]));
            }
            let threads = labels(&profile, "thread");
            let has_threads = arguments.contains(&"--threads");
            assert_eq!(threads.is_superset(&[name.clone(), "child".to_owned()].into()), has_threads, "{threads:?}");
            break;
        }
    }
}

/// As [`profile_of`], but a recording without a sample is none.
fn profile_of_any(burn: &Burn, arguments: &[&str]) -> (Option<Profile>, String) {
    let file = burn.file("recorded.pb.gz");
    let output = record(&[&["-o", file.to_str().unwrap()], arguments].concat());
    let printed = text(&output);
    assert!(output.status.success() || printed.contains("no sample was taken"), "{arguments:?}: {printed}");
    (output.status.success().then(|| decoded(&file)), printed)
}

/// A control group of version 2, removed when dropped.
struct ControlGroup {
    folder: PathBuf,
    path: String,
    /// The name of the last part, as service managers call groups.
    unit: String,
}

impl ControlGroup {
    fn new() -> Self {
        let mounts = std::fs::read_to_string("/proc/self/mounts").unwrap();
        let is_group = |line: &&str| line.split(' ').nth(2) == Some("cgroup2");
        let mount = mounts.lines().find(is_group).and_then(|line| line.split(' ').nth(1));
        let groups = std::fs::read_to_string("/proc/self/cgroup").unwrap();
        let own = groups.lines().find_map(|line| line.strip_prefix("0::")).expect("control groups of version 2");
        let unit = format!("procprof-test-{}.service", std::process::id());
        let path = format!("{}/{unit}", own.trim_end_matches('/'));
        let folder = PathBuf::from(format!("{}{path}", mount.expect("control groups of version 2 are mounted")));
        Self::remove_left_over(folder.parent().unwrap());
        std::fs::create_dir(&folder).expect("a control group can be made");
        Self { folder, path, unit }
    }

    /// Removes the groups of test processes that were killed.
    fn remove_left_over(all: &Path) {
        for entry in std::fs::read_dir(all).unwrap().map_while(Result::ok) {
            let name = entry.file_name().to_string_lossy().into_owned();
            let pid = name.strip_prefix("procprof-test-").and_then(|rest| rest.strip_suffix(".service"));
            if pid.is_some_and(|pid| !Path::new("/proc").join(pid).exists()) {
                // One with processes stays.
                let _ = std::fs::remove_dir(entry.path());
            }
        }
    }
}

impl Drop for ControlGroup {
    fn drop(&mut self) {
        // Possible once its processes have ended.
        let begun = Instant::now();
        while std::fs::remove_dir(&self.folder).is_err() && begun.elapsed() < PATIENCE {
            let left = std::fs::read_to_string(self.folder.join("cgroup.procs")).unwrap_or_default();
            left.lines().for_each(|pid| drop(Command::new("kill").args(["-9", pid]).status()));
            std::thread::sleep(Duration::from_millis(20));
        }
    }
}

#[test]
fn what_can_not_be_recorded_is_an_error_that_names_it() {
    for (arguments, expected) in [
        (&["-p", "4194304"][..], "there is no process 4194304"),
        (&["--", "/no/such/program"], "run /no/such/program"),
        (&["-p", "1", "--format", "peek"], "procprof report -peek=REGEX"),
        (&["--cgroup", "nginx"], "begins with /"),
        (&["--children", "-a"], "cannot be used with"),
        (&["-p", "1", "-a"], "cannot be used with"),
        (&["-p", "1", "-d", "0"], "0.001 to 31536000 seconds"),
        (&[], "required"),
    ] {
        let output = procprof().arg("record").args(arguments).output().unwrap();
        let printed = text(&output);
        assert!(!output.status.success() && printed.contains(expected), "{arguments:?}: {printed}");
    }
    let kept = folder();
    let script = "i=0; while [ $i -lt 99999 ]; do i=$((i+1)); done; exit 3";
    let mut failing = procprof();
    failing.args(["record", "-F", HZ, "--", "sh", "-c", script]).env("PPROF_TMPDIR", kept.path());
    let output = failing.output().unwrap();
    assert!(text(&output).contains("the command ended with exit status: 3"), "{}", text(&output));
}

#[test]
fn a_name_or_control_group_without_processes_is_told_of_at_once() {
    for (arguments, expected) in [
        (["--comm", "no-such-name"], "procprof: no process is named no-such-name now"),
        (["--cgroup", "/no/such/group"], "procprof: there is no control group /no/such/group now"),
    ] {
        let mut command = procprof();
        command.arg("record").args(arguments).args(["-d", "86400"]).stderr(Stdio::piped());
        let mut recording = Running(command.spawn().unwrap());
        let mut line = String::new();
        BufReader::new(recording.0.stderr.take().unwrap()).read_line(&mut line).unwrap();
        assert!(line.starts_with(expected), "{line}");
    }
    let own = std::fs::read_to_string("/proc/self/comm").unwrap();
    let output = procprof().args(["record", "--comm", own.trim(), "-d", "0.01"]).output().unwrap();
    assert!(!text(&output).contains("no process is named"), "{}", text(&output));
}

#[test]
fn processes_too_short_for_a_sample_are_a_row_and_a_line() {
    let burn = Burn::new(&[]);
    let short = burn.file("short");
    compiled("short.c", &[], &short);
    let file = burn.file("recorded.pb.gz");
    let mut command = procprof();
    command.args(["record", "-F", "20", "-o", file.to_str().unwrap(), "--", short.to_str().unwrap(), "spawn", "200"]);
    let mut recording = command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    recording.stdin.take().unwrap().write_all(b"\n").unwrap();
    let output = recording.wait_with_output().unwrap();
    let printed = text(&output);
    assert!(output.status.success() && printed.contains("% of the CPU time used) has no samples"), "{printed}");
    let profile = decoded(&file);
    let row = time_of(&profile, "[unsampled CPU]");
    assert!(row > 0 && fact(&profile, "unsampled") == row as f64, "{row}\n{printed}");
}

#[test]
fn the_recorder_raises_its_own_priority_and_not_that_of_the_command() {
    const NICE: &str = "cut -d ' ' -f 19 /proc/self/stat /proc/$PPID/stat; cut -d ' ' -f 19 /proc/$PPID/task/*/stat";
    let own = rustix::process::getpriority_process(None).unwrap();
    let output = procprof().args(["record", "--", "sh", "-c", &format!("{NICE}; exit 0")]).output().unwrap();
    let printed = String::from_utf8_lossy(&output.stdout).into_owned();
    let values: Vec<i32> = printed.lines().map_while(|line| line.trim().parse().ok()).collect();
    // The priority is that of a thread, which ends with it.
    let may_raise = std::thread::spawn(|| rustix::process::setpriority_process(None, -20).is_ok()).join().unwrap();
    assert_eq!(values[0], own, "{}", text(&output));
    assert_eq!(values[1..].contains(&-20), may_raise, "{}", text(&output));
}

#[test]
fn a_recording_ends_with_its_process_and_by_a_signal() {
    let burn = Burn::new(&[]);
    let file = burn.file("ended.pb.gz");
    // Its parent, this test, does not wait for it: it stays as a zombie.
    let running = burn.start(&["0.5", "2"]);
    let recording = Recording::start(&["-d", "86400", "-o", file.to_str().unwrap(), "-p", &running.pid()]);
    let printed = recording.ended();
    assert_burnt(&decoded(&file), &printed);

    let running = burn.start(&["3600"]);
    let recording = Recording::start(&["-d", "86400", "-o", file.to_str().unwrap(), "-p", &running.pid()]);
    let used = || std::fs::read_to_string(format!("/proc/{}/stat", running.pid())).unwrap();
    let ticks = |stat: String| stat.split(' ').nth(13).unwrap().parse::<u64>().unwrap();
    let before = ticks(used());
    wait_for("burn uses CPU time", || ticks(used()) > before + 20);
    signal(recording.running.0.id(), "INT");
    let printed = recording.ended();
    assert_burnt(&decoded(&file), &printed);
}

#[test]
fn programs_that_a_process_executes_and_starts_have_their_own_names() {
    let burn = Burn::new(&[]);
    for name in ["first", "second"] {
        std::fs::copy(&burn.path, burn.file(name)).unwrap();
    }
    let script = format!("{0}/first 0.2; exec {0}/second 0.3", burn.folder.path().display());
    let (profile, printed) = profile_of(&burn, &["--", "sh", "-c", &script]);
    assert!(labels(&profile, "process").is_superset(&["first", "second"].map(str::to_owned).into()));
    let of_name = |name: &str| {
        let is_it = |sample: &Sample<'_>| label(&profile, sample, "process").as_deref() == Some(name);
        count(&profile, |sample| is_it(sample) && has_function(&profile, sample, "deep"))
    };
    let (first, second) = (of_name("first") as f64, of_name("second") as f64);
    let deviation = (0.4 * 0.6 / (first + second)).sqrt();
    assert!((first / (first + second) - 0.4).abs() <= 5.0 * deviation + 0.05, "{first} {second}\n{printed}");
}

#[test]
fn short_lived_processes_are_known_by_their_records() {
    let burn = Burn::new(&[]);
    let spawn = burn.file("spawn");
    compiled("spawn.c", &[], &spawn);
    for target in [&["--"][..], &["-a", "-d", "86400"]] {
        let file = burn.file("spawned.pb.gz");
        let spawned = if target[0] == "--" {
            let (_, printed) = profile_of(&burn, &["--", spawn.to_str().unwrap(), "200", "10"]);
            std::fs::rename(burn.file("recorded.pb.gz"), &file).unwrap();
            printed.lines().find_map(|line| line.trim().parse::<f64>().ok()).unwrap()
        } else {
            let arguments = [target, &["-o", file.to_str().unwrap()]].concat();
            let recording = Recording::start(&arguments);
            let output = Command::new(&spawn).args(["200", "10"]).output().unwrap();
            signal(recording.running.0.id(), "INT");
            recording.ended();
            String::from_utf8_lossy(&output.stdout).trim().parse().unwrap()
        };
        let profile = decoded(&file);
        let in_work = with_function(&profile, "short_work");
        // 200 times 10 ms, and what starting processes takes beside.
        let expected = 2.0 * HZ.parse::<f64>().unwrap();
        let lost = fact(&profile, "lost");
        // The clock of a process begins with it, that of a CPU does not.
        let phase = if target[0] == "--" { 200.0 } else { 0.0 };
        let least = expected - 5.0 * expected.sqrt() - 0.05 * expected - phase - lost;
        assert!(in_work as f64 >= least, "{in_work} of {expected} samples in short_work, {lost} lost");
        if target[0] == "--" {
            let most = spawned * HZ.parse::<f64>().unwrap() / 1e9;
            assert!(in_work as f64 <= 1.05 * most + 5.0 * most.sqrt(), "{in_work} of at most {most} samples");
            assert_eq!(fact(&profile, "samples-of-vanished-processes"), 0.0);
        }
    }
}

/// A number that a recording keeps as a fact.
fn fact(profile: &Profile, key: &str) -> f64 {
    let prefix = format!("#procprof:{key}=");
    profile.comments().find_map(|comment| comment.strip_prefix(&prefix)?.parse().ok()).unwrap_or(0.0)
}

#[test]
fn a_library_loaded_while_its_program_is_recorded_has_names() {
    let burn = Burn::new(&[]);
    let (load, library, file) = (burn.file("load"), burn.file("libplugin.so"), burn.file("loaded.pb.gz"));
    compiled("load.c", &[], &load);
    compiled("load.c", &["-DPLUGIN", "-shared", "-fPIC"], &library);
    let child = Command::new(&load).arg(&library).stdin(Stdio::piped()).spawn().unwrap();
    let mut running = Running(child);
    let arguments = ["-d", "86400", "-o", file.to_str().unwrap(), "-p", &running.pid()];
    let recording = Recording::start(&arguments);
    running.0.stdin.take().unwrap().write_all(b"go\n").unwrap();
    recording.ended();
    let profile = decoded(&file);
    let (program, library) = (with_function(&profile, "work_in_program"), with_function(&profile, "work_in_library"));
    let (all, bound) = ((program + library) as f64, 5.0 * (0.25 / (program + library) as f64).sqrt() + 0.05);
    assert!(all > 0.0 && (program as f64 / all - 0.5).abs() <= bound, "{program} of {all}");
}

#[test]
fn deleted_and_replaced_programs_are_named_from_the_file_that_runs() {
    for options in [&["-Wl,--build-id=none"][..], &["-Wl,--build-id"]] {
        let burn = Burn::new(options);
        let other = burn.file("other");
        compiled("spawn.c", options, &other);
        let running = burn.start(&["3600"]);
        wait_for("burn runs", || {
            std::fs::read_link(format!("/proc/{}/exe", running.pid())).is_ok_and(|path| path == burn.path)
        });
        for replace in [true, false] {
            if replace {
                std::fs::rename(&other, &burn.path).unwrap();
            } else {
                std::fs::remove_file(&burn.path).unwrap();
            }
            assert_named(&burn, &running.pid());
        }
    }
}

/// Asserts that a process that runs `burn.c` is recorded with names.
fn assert_named(burn: &Burn, pid: &str) {
    for seconds in ["1", "4", "16", "64"] {
        let (profile, printed) = profile_of_any(burn, &["-d", seconds, "-p", pid]);
        if let Some(profile) = profile.filter(|profile| seconds == "64" || count(profile, |_| true) >= 50) {
            assert!(printed.contains("100.0 %") || !printed.contains("stacks reach"), "{printed}");
            return assert_burnt(&profile, &printed);
        }
    }
    panic!("process {pid} got no CPU time");
}

#[test]
fn files_of_a_process_in_its_own_namespaces_are_found_there() {
    let burn = Burn::new(&["-Wl,--build-id=none"]);
    let inside = folder();
    let script = format!(
        "mount -t tmpfs none {0} && cp {1} {0}/inside && exec {0}/inside 3600",
        inside.path().display(),
        burn.path.display()
    );
    let mut unshare = Command::new("unshare");
    unshare.args(["--mount", "--pid", "--fork", "--kill-child", "sh", "-c", &script]).stdout(Stdio::null());
    let running = Running(unshare.spawn().expect("this test needs unshare"));
    let name = |pid: u32| std::fs::read_to_string(format!("/proc/{pid}/comm")).unwrap_or_default();
    wait_for("the process runs in its namespaces", || {
        children(running.0.id()).first().is_some_and(|pid| name(*pid) == "inside\n")
    });
    assert!(!inside.path().join("inside").exists());
    let pid = children(running.0.id())[0].to_string();
    assert_named(&burn, &pid);
}

#[test]
fn processes_outside_the_pid_namespace_are_a_row_of_their_own_and_said_to_be() {
    let burn = Burn::new(&[]);
    let _outside = burn.start(&["3600"]);
    let file = burn.file("inside.pb.gz");
    // How long the processes get nothing of a busy machine is not known.
    for seconds in ["1", "4", "16", "64"] {
        let script = format!(
            "{} 3600 & {} record -a -d {seconds} -F {HZ} -o {}",
            burn.path.display(),
            env!("CARGO_BIN_EXE_procprof"),
            file.display()
        );
        let mut unshare = Command::new("unshare");
        unshare.args(["--mount", "--pid", "--fork", "--kill-child", "--mount-proc", "sh", "-c", &script]);
        let output = unshare.output().expect("this test needs unshare");
        let shown = text(&output);
        assert!(output.status.success(), "{shown}");
        let profile = decoded(&file);
        let outside = "[process outside the pid namespace]";
        let of = |function: &str, process: &str| {
            let is_of = |sample: &Sample<'_>| label(&profile, sample, "process").as_deref() == Some(process);
            count(&profile, |sample| is_of(sample) && has_function(&profile, sample, function))
        };
        assert_eq!(of(outside, &name()), 0, "{shown}");
        if of("deep", &name()) > 0 && of(outside, "[outside the pid namespace]") > 0 {
            assert!(shown.contains("are of processes outside this pid namespace"), "{shown}");
            return;
        }
    }
    panic!("no samples of both processes");
}

#[test]
fn programs_in_interpreters_have_names_or_a_hint_how_to_get_them() {
    let folder = folder();
    let (js, java) = (folder.path().join("loop.js"), folder.path().join("Loop.java"));
    let sum = "int s = 0; for (int i = 0; i < n; i++) s = s * 31 + i; return s;";
    std::fs::write(&js, format!("function hotJs(n) {{ {} }}\nfor (;;) hotJs(1e6);", sum.replace("int ", "let ")))
        .unwrap();
    let main = "public static void main(String[] words) { for (long t = 0;;) t += hot(1000000); }";
    std::fs::write(&java, format!("public class Loop {{ static int hot(int n) {{ {sum} }} {main} }}")).unwrap();
    let (js, java) = (js.to_str().unwrap(), java.to_str().unwrap());
    for (program, engine, hint, function) in [
        (&["python3", "-c", "while True: pass"][..], "auto", "is Python", ""),
        (&["node", js], "auto", "node --perf-basic-prof", ""),
        (&["node", "--perf-basic-prof", js], "auto", "", "hotJs"),
        (&["java", java], "perf", "", "int Loop.hot(int)"),
        (&["java", "-XX:+DisableAttachMechanism", java], "perf", "procprof collect --pid", ""),
        (&["java", "-XX:+DisableAttachMechanism", java], "perf", "its attach mechanism is switched off", ""),
        (&["java", java], "auto", "recorded by JDK Flight Recorder", "Loop.hot"),
    ] {
        let mut command = Command::new(program[0]);
        command.args(&program[1..]).current_dir(folder.path()).stdout(Stdio::null()).stderr(Stdio::null());
        let child = command.spawn().unwrap_or_else(|error| panic!("this test needs {}: {error}", program[0]));
        let _map = RemovedFile(format!("/tmp/perf-{}.map", child.id()));
        let running = Running(child);
        let file = folder.path().join("recorded.pb.gz");
        // It takes a while until the program itself runs, and until its code is generated.
        let is_shown = ["1", "1", "2", "4", "16", "64"].into_iter().any(|seconds| {
            let file_name = file.to_str().unwrap();
            let output = record(&["-d", seconds, "--engine", engine, "-o", file_name, "-p", &running.pid()]);
            let printed = text(&output);
            let has_function = |profile: &Profile| {
                profile.functions().iter().any(|known| profile.string(known.name).contains(function))
            };
            let is_named = output.status.success() && has_function(&decoded(&file));
            is_named && if hint.is_empty() { !printed.contains("functions' names") } else { printed.contains(hint) }
        });
        assert!(is_shown, "{program:?}");
    }
}

#[test]
fn a_jvm_is_recorded_by_its_own_profiler_or_by_perf_events_with_the_reason() {
    let folder = folder();
    let source = folder.path().join("Wait.java");
    let main =
        "synchronized static void turn() { long t = System.nanoTime(); while (System.nanoTime() - t < 1000000) {} }
        public static void main(String[] words) {
            for (int i = 0; i < 4; i++) new Thread(() -> { for (;;) turn(); }).start();
        }";
    std::fs::write(&source, format!("public class Wait {{ {main} }}")).unwrap();
    let start = |options: &[&str]| {
        let mut java = Command::new("java");
        java.args(options).arg(&source).current_dir(folder.path()).stdout(Stdio::null()).stderr(Stdio::null());
        Running(java.spawn().expect("this test needs java"))
    };
    let file = folder.path().join("jvm.pb.gz");
    let recorded = |running: &Running, words: &[&str]| {
        let own = ["-d", "1", "-o", file.to_str().unwrap(), "-p", &running.pid()];
        record(&[&own[..], words].concat())
    };
    let running = start(&[]);
    // It takes a while until the program itself runs.
    wait_for("the locks are recorded", || {
        let output = recorded(&running, &["--type", "lock"]);
        let has_turn =
            |profile: Profile| profile.functions().iter().any(|known| profile.string(known.name).contains("Wait.turn"));
        output.status.success() && has_turn(decoded(&file))
    });
    let meta = decoded(&file).meta();
    assert_eq!((meta.trigger.as_str(), meta.kind.as_str()), ("record", "jvm"));
    let refused = recorded(&running, &["--type", "off-cpu", "--engine", "jvm"]);
    assert!(text(&refused).contains("records one process, and CPU time or locks"), "{}", text(&refused));
    let closed = start(&["-XX:+DisableAttachMechanism"]);
    wait_for("perf events record it", || {
        let output = recorded(&closed, &[]);
        output.status.success() && text(&output).contains("is recorded by perf events, not by its JVM")
    });
    let refused = recorded(&closed, &["--engine", "jvm"]);
    assert!(!refused.status.success() && !text(&refused).contains("perf events"), "{}", text(&refused));
    let burn = Burn::new(&[]);
    let other = burn.start(&["3600"]);
    let refused = recorded(&other, &["--engine", "jvm"]);
    assert!(text(&refused).contains("is no JVM"), "{}", text(&refused));
}

/// The command as nobody, with these capabilities, in a folder that nobody may enter.
fn as_nobody(burn: &Burn, capabilities: &[&str]) -> Command {
    let binary = burn.file("procprof");
    if !binary.exists() {
        std::fs::copy(env!("CARGO_BIN_EXE_procprof"), &binary).unwrap();
    }
    let all: Vec<String> = capabilities.iter().map(|name| format!("+{name}")).collect();
    let all = format!("-all,{}", all.join(",")).trim_end_matches(',').to_owned();
    let mut command = Command::new("setpriv");
    command.args(["--reuid", NOBODY, "--regid", NOBODY, "--clear-groups"]);
    command.args(["--inh-caps", &all, "--ambient-caps", &all]).arg(binary);
    command.env("PROCPROF_CACHE_DIR", burn.file("nobody/cache")).env("PPROF_TMPDIR", burn.file("nobody"));
    let own = burn.file("nobody");
    std::fs::create_dir_all(&own).unwrap();
    std::os::unix::fs::chown(&own, Some(65534), Some(65534)).unwrap();
    command.args(["record", "-F", HZ]);
    command
}

#[test]
fn privileges_decide_what_is_recorded_and_refusals_name_them() {
    let level = std::fs::read_to_string("/proc/sys/kernel/perf_event_paranoid").unwrap();
    let level: i32 = level.trim().parse().unwrap();
    let burn = Burn::new(&[]);
    let running = burn.start(&["3600"]);
    let pid = running.pid();
    let printed = |capabilities: &[&str], arguments: &[&str]| {
        let output = as_nobody(&burn, capabilities).args(arguments).output().expect("this test needs setpriv");
        (output.status.success(), text(&output))
    };

    let (is_recorded, refused) = printed(&[], &["-d", "1", "-p", &pid]);
    let expected = [format!("process {pid}"), "belongs to user 0".to_owned(), "CAP_PERFMON".to_owned()];
    assert!(!is_recorded && expected.iter().all(|part| refused.contains(part)), "{refused}");
    if level > 0 {
        let (is_recorded, refused) = printed(&[], &["-d", "1", "-a"]);
        let setting = format!("kernel.perf_event_paranoid is {level}");
        assert!(!is_recorded && refused.contains("the whole host") && refused.contains(&setting), "{refused}");
    }

    let own = burn.file("nobody/own.pb.gz");
    let (is_recorded, shown) = printed(&[], &["-o", own.to_str().unwrap(), "--", burn.path.to_str().unwrap(), "0.3"]);
    assert_eq!(is_recorded, level <= 2, "{shown}");
    assert_eq!(shown.contains("time in the kernel is not sampled"), level == 2, "{shown}");
    if is_recorded {
        assert_burnt(&decoded(&own), &shown);
    }

    let all = ["perfmon", "sys_ptrace", "dac_read_search"];
    // Kernels differ in whether CAP_PERFMON suffices to read a process.
    for (capabilities, may_be_refused) in [(&all[..], false), (&all[..1], true)] {
        for seconds in ["1", "4", "16", "64"] {
            let file = own.to_str().unwrap();
            let (is_recorded, shown) = printed(capabilities, &["-d", seconds, "-o", file, "--comm", &name()]);
            assert!(is_recorded || shown.contains("no sample was taken"), "{shown}");
            let profile = is_recorded.then(|| decoded(&own));
            let of_process = |profile: &Profile, function: &str| {
                let is_it = |sample: &Sample<'_>| label(profile, sample, "pid").as_deref() == Some(&pid);
                count(profile, |sample| is_it(sample) && has_function(profile, sample, function))
            };
            let counts = profile.as_ref().map(|profile| {
                (of_process(profile, "deep"), of_process(profile, "[process that this user may not read]"))
            });
            match counts {
                None | Some((0, 0)) if seconds != "64" => continue,
                counts => {
                    let (named, refused) = counts.unwrap_or_else(|| panic!("{shown}"));
                    let is_refused = may_be_refused && named == 0;
                    assert_eq!((named > 0, refused > 0), (!is_refused, is_refused), "{shown}");
                    assert_eq!(shown.contains("it takes CAP_SYS_PTRACE"), is_refused, "{shown}");
                }
            }
            break;
        }
    }
}

/// Nanoseconds of samples with a function.
fn time_of(profile: &Profile, function: &str) -> i64 {
    profile.samples().filter(|sample| has_function(profile, sample, function)).map(|sample| sample.values[1]).sum()
}

fn types(profile: &Profile) -> Vec<(&str, &str)> {
    (0..profile.sample_types().len()).map(|index| profile.sample_type(index)).collect()
}

#[test]
fn waits_are_recorded_as_time_off_cpu_within_the_wall_clock_or_of_locks_alone() {
    let folder = folder();
    let program = folder.path().join("wait");
    compiled("wait.c", &[], &program);
    let waits = ["wait_sleeping", "wait_reading", "wait_locking", "wait_idle"];
    for (kind, expected, functions) in [
        ("off-cpu", [("waits", "count"), ("off_cpu", "nanoseconds")], &waits[..]),
        ("wall", [("samples", "count"), ("wall", "nanoseconds")], &waits[..]),
        ("lock", [("contentions", "count"), ("delay", "nanoseconds")], &waits[2..3]),
    ] {
        let file = folder.path().join("recorded.pb.gz");
        let program = program.to_str().unwrap();
        let arguments = ["--type", kind, "-o", file.to_str().unwrap(), "--", program, "1"];
        let output = procprof().arg("record").args(arguments).output().unwrap();
        let printed = text(&output);
        assert!(output.status.success() && printed.contains(" waits in "), "{kind}: {printed}");
        let is_told = printed.contains(" s of these waits are for locks and shown; the other ");
        assert_eq!(is_told, kind == "lock", "{printed}");
        let profile = decoded(&file);
        assert_eq!(types(&profile), expected, "{kind}");
        for function in waits {
            // The program prints its waits itself.
            let row = printed.lines().find_map(|line| line.strip_prefix(function)).unwrap();
            let mut times = row.split_whitespace().skip(1).map(|time| time.parse::<f64>().unwrap());
            let (exact, preempted) = (times.next().unwrap(), times.next().unwrap());
            let (exact, preempted) = if functions.contains(&function) { (exact, preempted) } else { (0.0, 0.0) };
            let found = time_of(&profile, function) as f64;
            // A thread may be preempted behind the lock's function, which is no wait for the lock.
            let least = 0.95 * (exact - if kind == "lock" { preempted } else { 0.0 });
            let is_right = (least..=1.05 * exact).contains(&found);
            if !is_right {
                let stacks = procprof().args(["report", "-collapsed"]).arg(&file).output().unwrap();
                panic!("{kind}: {function} {found}, printed {exact}\n{printed}\n{}", text(&stacks));
            }
        }
    }
}

#[test]
fn waits_are_recorded_by_programs_where_they_are_permitted_and_otherwise_by_perf_events_which_is_said() {
    let burn = Burn::new(&[]);
    let program = burn.file("wait");
    compiled("wait.c", &[], &program);
    let all = ["perfmon", "bpf", "sys_ptrace", "dac_read_search"];
    let printed = |capabilities: &[&str], arguments: &[&str]| {
        let file = burn.file("nobody/engines.pb.gz");
        let mut command = as_nobody(&burn, capabilities);
        command.args(["--type", "off-cpu", "-o", file.to_str().unwrap()]).args(arguments);
        let output = command.args(["--", program.to_str().unwrap(), "0.3"]).output().expect("this test needs setpriv");
        let facts = || decoded(&file).comments().collect::<Vec<_>>().join(" ");
        (text(&output), if output.status.success() { facts() } else { String::new() })
    };
    let refusal = "bpf(2) is not permitted; it takes CAP_BPF and CAP_PERFMON";
    let (shown, facts) = printed(&all, &[]);
    assert!(facts.contains("engine=bpf") && !shown.contains("perf events"), "{facts}\n{shown}");
    let (shown, facts) = printed(&["perfmon"], &[]);
    let is_told = format!("waits are recorded by perf events, at a cost for each switch: {refusal}");
    assert!(shown.contains(&is_told), "{shown}");
    assert!(facts.contains("engine=perf-events") && facts.contains(&format!("without-bpf={refusal}")), "{facts}");
    let (shown, facts) = printed(&["perfmon"], &["--engine", "bpf"]);
    assert!(shown.contains(&format!("no BPF programs: {refusal}")) && facts.is_empty(), "{shown}");
    let (shown, facts) = printed(&all, &["--engine", "perf"]);
    assert!(facts.contains("engine=perf-events") && !facts.contains("without-bpf"), "{facts}\n{shown}");
    let (shown, facts) = printed(&all, &["--min-wait", "0.004"]);
    assert!(
        shown.contains("are shorter than the minimum") && facts.contains("min-wait-nanoseconds=4000000"),
        "{shown}"
    );
    let output = record(&["--engine", "bpf", "--", program.to_str().unwrap(), "0.1"]);
    assert!(!output.status.success() && text(&output).contains("--engine bpf records waits"), "{}", text(&output));
}

#[test]
fn waits_are_recorded_without_privileges_and_what_is_missing_is_said() {
    let level = std::fs::read_to_string("/proc/sys/kernel/perf_event_paranoid").unwrap();
    let burn = Burn::new(&[]);
    let program = burn.file("wait");
    compiled("wait.c", &[], &program);
    let file = burn.file("nobody/waits.pb.gz");
    let mut command = as_nobody(&burn, &[]);
    command.args(["--type", "off-cpu", "-o", file.to_str().unwrap(), "--", program.to_str().unwrap(), "1"]);
    let output = command.output().expect("this test needs setpriv");
    let printed = text(&output);
    if level.trim().parse::<i32>().unwrap() != 2 {
        return assert_eq!(output.status.success(), level.trim().parse::<i32>().unwrap() < 2, "{printed}");
    }
    assert!(output.status.success() && printed.contains("stacks of short waits are not sampled"), "{printed}");
    assert!(printed.contains("s of waits are without a stack"), "{printed}");
    let profile = decoded(&file);
    // A wait of a second is looked up while it lasts.
    assert!(time_of(&profile, "wait_idle") > 900_000_000, "{printed}");
    assert!(time_of(&profile, "[waiting, stack not sampled]") > 1_500_000_000, "{printed}");
}
