//! Real JVMs: attached to, recorded, stopped, hidden in namespaces; and what only pretends to be one.

use std::io::{BufRead, BufReader};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::time::Duration;

use procprof_collect::jvm::{
    AsyncProfiler, Events, FlightRecorder, FlightSettings, Jvm, JvmEngine, JvmError, JvmOptions, JvmSource, JvmTarget,
    running_jvms,
};
use procprof_collect::{RecordingData, Request, Source, Watch};
use procprof_process::Pid;
use procprof_profile::ProfileType;

mod allocations;
mod async_profiler;
mod killed;
mod pretended;

/// Far more than an idle machine needs.
const PATIENCE: Duration = Duration::from_secs(180);

const ALL: Events = Events { cpu: true, alloc: true, lock: true };

/// A JVM that works until the test ends.
struct Java {
    /// `java`, or what it was started by.
    child: Child,
    pid: Pid,
    output: BufReader<std::process::ChildStdout>,
}

impl Java {
    fn start(options: &[&str]) -> Java {
        Java::start_by(Command::new("java").args(options))
    }

    /// `command` ends in the words of `java` before the program.
    fn start_by(command: &mut Command) -> Java {
        Java::start_program(command, "Work.java")
    }

    fn start_program(command: &mut Command, program: &str) -> Java {
        let program = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/jvm").join(program);
        command.arg(program).stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut child = command
            .spawn()
            .unwrap_or_else(|error| panic!("{command:?}: {error}; Debian's default-jdk-headless has java"));
        let mut output = BufReader::new(child.stdout.take().unwrap());
        let mut line = String::new();
        output.read_line(&mut line).unwrap();
        assert_eq!(line, "ready\n", "{command:?}");
        let pid = java_below(Pid(child.id())).unwrap_or_else(|| panic!("{command:?} started no java"));
        Java { child, pid, output }
    }

    fn jvm(&self) -> Jvm {
        Jvm::open(self.pid).unwrap()
    }

    fn recorder(&self) -> FlightRecorder {
        FlightRecorder::open(self.jvm(), FlightSettings::default()).unwrap()
    }

    /// Fills the file system of its `/tmp`.
    fn fill(&self) {
        let mut file = std::fs::File::create(format!("/proc/{}/root/tmp/filler", self.pid)).unwrap();
        while std::io::Write::write_all(&mut file, &[0; 4096]).is_ok() {}
    }

    /// Folders of ours for it, in its `/tmp`.
    fn left_behind(&self) -> Vec<String> {
        let entries = std::fs::read_dir(format!("/proc/{}/root/tmp", self.pid)).unwrap().flatten();
        let own = format!("procprof-{}-{}-", std::process::id(), self.pid);
        entries
            .map(|entry| entry.file_name().to_string_lossy().into_owned())
            .filter(|name| name.starts_with(&own))
            .collect()
    }
}

impl Drop for Java {
    fn drop(&mut self) {
        for pid in [self.pid, Pid(self.child.id())] {
            let _ = rustix::process::kill_process(raw(pid), rustix::process::Signal::KILL);
        }
        let _ = self.child.wait();
    }
}

fn raw(pid: Pid) -> rustix::process::Pid {
    rustix::process::Pid::from_raw(pid.0.cast_signed()).unwrap()
}

/// The process of that pid or below it that runs `java`.
fn java_below(pid: Pid) -> Option<Pid> {
    let path = std::fs::read_link(format!("/proc/{pid}/exe")).unwrap_or_default();
    if path.file_name().is_some_and(|name| name == "java") {
        return Some(pid);
    }
    let children = std::fs::read_to_string(format!("/proc/{pid}/task/{pid}/children")).unwrap_or_default();
    children.split_whitespace().find_map(|child| java_below(Pid(child.parse().ok()?)))
}

/// Whether all threads of a process are stopped.
fn is_stopped(pid: Pid) -> bool {
    let tasks = std::fs::read_dir(format!("/proc/{pid}/task")).unwrap().flatten();
    let mut states = tasks.filter_map(|task| std::fs::read_to_string(task.path().join("stat")).ok());
    states.all(|stat| stat.rsplit_once(") ").is_some_and(|(_, state)| state.starts_with('T')))
}

/// The starts of a recording's chunks.
fn chunk_starts(bytes: &[u8]) -> Vec<u64> {
    let mut starts = Vec::new();
    let mut rest = bytes;
    while !rest.is_empty() {
        assert!(rest.starts_with(b"FLR\0"), "no chunk at byte {}", bytes.len() - rest.len());
        let number = |at: usize| u64::from_be_bytes(rest[at..at + 8].try_into().unwrap());
        starts.push(number(32));
        rest = &rest[usize::try_from(number(8)).unwrap()..];
    }
    starts
}

/// Whether a recording names something, in the strings that the JDK writes as characters.
fn names(bytes: &[u8], text: &str) -> bool {
    bytes.windows(text.len()).any(|window| window == text.as_bytes())
}

/// Records until all of these are named: a busy machine may leave a JVM no time within a second.
fn record_until(recorder: &mut FlightRecorder, functions: &[&str]) {
    for _ in 0..20 {
        let running = recorder.start(ALL, Duration::from_secs(5)).unwrap();
        std::thread::sleep(Duration::from_secs(1));
        let bytes = recorder.stop(running, None).unwrap();
        assert!(!chunk_starts(&bytes).is_empty());
        if functions.iter().all(|function| names(&bytes, function)) {
            return;
        }
    }
    panic!("{functions:?} in none of 20 recordings");
}

#[test]
fn a_jvm_answers_commands_and_reports_what_it_does_not_know() {
    let java = Java::start(&[]);
    let jvm = java.jvm();
    assert!(jvm.command("VM.version", PATIENCE).unwrap().contains("JDK "));
    let JvmError::Command { command, message, .. } = jvm.command("No.such", PATIENCE).unwrap_err() else {
        panic!("another error")
    };
    assert!(command == "No.such" && message.contains("Unknown diagnostic command"), "{command}: {message}");
    let long = jvm.command(&format!("VM.version {}", "x".repeat(2000)), PATIENCE).unwrap_err();
    assert!(long.to_string().contains("1024 bytes"), "{long}");
    let missing = jvm.load_agent("/no/such/library.so", "", PATIENCE).unwrap_err();
    assert!(missing.to_string().contains("library.so"), "{missing}");
}

#[test]
fn the_flight_recorder_records_and_leaves_nothing() {
    let java = Java::start(&[]);
    let mut recorder = java.recorder();
    let running = recorder.start(ALL, Duration::from_secs(7)).unwrap();
    let check = recorder.jvm().command("JFR.check", PATIENCE).unwrap();
    assert!(check.contains("duration=37s"), "it ends by itself: {check}");
    recorder.discard(running);
    record_until(&mut recorder, &["spend", "allocate", "contend"]);
    assert_eq!(java.left_behind().len(), 1, "the folder");
    let discarded = recorder.start(ALL, Duration::from_secs(7)).unwrap();
    recorder.discard(discarded);
    let check = recorder.jvm().command("JFR.check", PATIENCE).unwrap();
    assert!(check.contains("No available recordings"), "{check}");
    drop(recorder);
    assert_eq!(java.left_behind(), [""; 0]);
}

#[test]
fn settings_in_a_file_are_taken_as_those_in_the_command_are() {
    let java = Java::start(&[]);
    let file = tempfile::Builder::new().suffix(".jfc").tempfile().unwrap();
    let text = procprof_collect::jvm::settings_file(17, ALL, &FlightSettings::default());
    std::fs::write(file.path(), text).unwrap();
    let line = format!("JFR.start name=byfile settings={}", file.path().display());
    let answer = java.jvm().command(&line, PATIENCE).unwrap();
    assert!(answer.contains("Started recording"), "{answer}");
    let check = java.jvm().command("JFR.check name=byfile verbose=true", PATIENCE).unwrap();
    let section = |name: &str| check.split(name).nth(1).unwrap_or_default().chars().take(200).collect::<String>();
    assert!(section("jdk.ExecutionSample").contains("period=10 ms"), "{check}");
    assert!(section("jdk.ThreadPark").contains("threshold=0 us"), "{check}");
}

#[tokio::test]
async fn recordings_of_a_session_follow_each_other_without_gap_or_overlap() {
    let java = Java::start(&[]);
    let source = JvmSource::new(JvmOptions {
        target: JvmTarget::Pid(java.pid),
        engine: JvmEngine::FlightRecorder,
        settings: FlightSettings::default(),
    });
    let request = Request::new(ProfileType::Cpu).and(ProfileType::Alloc).and(ProfileType::Contention);
    let mut session = source.begin(&request, "test").await.unwrap();
    let (mut all, mut has_work) = (Vec::new(), false);
    for _ in 0..3 {
        tokio::time::sleep(Duration::from_millis(1500)).await;
        let answer = session.cut().await.unwrap();
        let recording = &answer.recordings[0];
        let Ok(RecordingData::Encoded(bytes)) = &recording.content else { panic!("{recording:?}") };
        has_work |= names(bytes, "spend");
        all.push((recording.started, recording.length, chunk_starts(bytes)));
    }
    assert!(has_work);
    for pair in all.windows(2) {
        let [(started, length, chunks), (next_started, _, next_chunks)] = pair else { unreachable!() };
        // Each begins with the same baseline.
        let (chunks, next_chunks) = (&chunks[1..], &next_chunks[1..]);
        assert!(chunks.iter().all(|chunk| !next_chunks.contains(chunk)) && next_chunks[0] > *chunks.last().unwrap());
        let gap = next_started.0 - (started.0 + length.0);
        assert!(gap >= 0, "{all:?}");
    }
    drop(session);
    // What was begun for the next cut is ended in the background.
    let jvm = java.jvm();
    while !jvm.command("JFR.check", PATIENCE).unwrap().contains("No available recordings") {
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
}

#[tokio::test]
async fn a_restarted_jvm_is_followed() {
    let folder = tempfile::tempdir().unwrap();
    let pid_file = folder.path().join("java.pid");
    let source = JvmSource::new(JvmOptions {
        target: JvmTarget::PidFile(pid_file.clone()),
        engine: JvmEngine::FlightRecorder,
        settings: FlightSettings::default(),
    });
    let request = Request::new(ProfileType::Cpu).seconds(1);
    let missing = source.record(&request, &Watch::default()).await.unwrap_err();
    assert!(missing.code() == "jvm_not_found" && missing.to_string().contains("java.pid"), "{missing}");
    let mut pids = Vec::new();
    for _ in 0..2 {
        let java = Java::start(&[]);
        std::fs::write(&pid_file, format!("{}\n", java.pid)).unwrap();
        let answer = source.record(&request, &Watch::default()).await.unwrap();
        pids.push(answer.instance.local.unwrap().pid);
        assert_eq!(pids.last(), Some(&java.pid));
        assert!(answer.recordings[0].facts["engine"].starts_with("JDK Flight Recorder of JDK "));
    }
    let gone = source.record(&request, &Watch::default()).await.unwrap_err();
    assert_eq!(gone.code(), "jvm_gone", "{gone}");
}

#[tokio::test]
async fn a_recording_without_room_is_refused_before_it_is_read() {
    let java = Java::start(&[]);
    let source = JvmSource::new(JvmOptions {
        target: JvmTarget::Pid(java.pid),
        engine: JvmEngine::default(),
        settings: FlightSettings::default(),
    });
    let watch =
        Watch { admit: Some(Arc::new(|bytes| Err(format!("{} KiB are too many", bytes >> 10)))), ..Watch::default() };
    let error = source.record(&Request::new(ProfileType::Cpu).seconds(1), &watch).await.unwrap_err();
    assert!(error.code() == "no_room" && error.to_string().contains("KiB are too many"), "{error}");
    // The next one has the same recorder, and finds nothing of the last.
    let answer = source.record(&Request::new(ProfileType::Cpu).seconds(1), &Watch::default()).await.unwrap();
    assert!(answer.recordings[0].content.is_ok());
}

#[test]
fn a_jvm_that_refuses_is_signalled_once() {
    let mut java = Java::start(&["-XX:+DisableAttachMechanism"]);
    for _ in 0..2 {
        let error = java.jvm().command("VM.version", PATIENCE).unwrap_err();
        assert!(matches!(error, JvmError::NotListening { .. }) && error.code() == "attach_refused", "{error}");
    }
    rustix::process::kill_process(raw(java.pid), rustix::process::Signal::KILL).unwrap();
    let mut output = String::new();
    std::io::Read::read_to_string(&mut java.output, &mut output).unwrap();
    assert_eq!(output.matches("Full thread dump").count(), 1, "{output}");
}

#[test]
fn a_stopped_jvm_keeps_nobody_waiting() {
    let java = Java::start(&[]);
    java.jvm().command("VM.version", PATIENCE).unwrap();
    rustix::process::kill_process(raw(java.pid), rustix::process::Signal::STOP).unwrap();
    // Its threads stop one after the other.
    while !is_stopped(java.pid) {
        std::thread::sleep(Duration::from_millis(1));
    }
    let error = java.jvm().command("VM.version", Duration::from_millis(300)).unwrap_err();
    assert!(matches!(error, JvmError::Timeout { .. }), "{error}");
    rustix::process::kill_process(raw(java.pid), rustix::process::Signal::CONT).unwrap();
    java.jvm().command("VM.version", PATIENCE).unwrap();
}

#[test]
fn a_jvm_of_another_user_and_in_namespaces_of_its_own_is_recorded() {
    let as_nobody = ["--reuid=65534", "--regid=65534", "--clear-groups", "java"];
    // The JVM is process 1 there, and has a /tmp that nobody else sees.
    let hidden =
        "program=$(cat \"$0\"); mount -t tmpfs tmpfs /tmp; echo \"$program\" >/tmp/Work.java; exec java /tmp/Work.java";
    let in_namespaces = ["--pid", "--fork", "--mount", "--mount-proc", "sh", "-c", hidden];
    for (command, arguments) in [("setpriv", &as_nobody[..]), ("unshare", &in_namespaces[..])] {
        let java = Java::start_by(Command::new(command).args(arguments));
        let mut recorder = java.recorder();
        record_until(&mut recorder, &["spend"]);
        drop(recorder);
        assert_eq!(java.left_behind(), [""; 0], "{command}");
    }
}

#[test]
fn without_the_right_to_attach_the_error_names_both_users() {
    let java = Java::start(&[]);
    let pid = java.pid;
    let error = std::thread::spawn(move || {
        rustix::thread::set_thread_res_uid(None, rustix::process::Uid::from_raw(65534), None).unwrap();
        Jvm::open(pid).unwrap().command("VM.version", PATIENCE).unwrap_err().to_string()
    });
    let error = error.join().unwrap();
    assert!(error.contains("runs as user 0, procprof as user 65534"), "{error}");
}

#[test]
fn a_full_file_system_and_a_missing_recorder_are_reported() {
    let small = "program=$(cat \"$0\"); mount -t tmpfs -o size=12m tmpfs /tmp; echo \"$program\" >/tmp/Work.java; \
                 mount -t tmpfs tmpfs /mnt; exec java -XX:FlightRecorderOptions=repository=/mnt /tmp/Work.java";
    let java = Java::start_by(Command::new("unshare").args(["--mount", "sh", "-c", small]));
    let mut recorder = java.recorder();
    let running = recorder.start(ALL, Duration::from_secs(5)).unwrap();
    std::thread::sleep(Duration::from_secs(2));
    java.fill();
    let error = recorder.stop(running, None).map(|bytes| bytes.len()).unwrap_err();
    assert!(matches!(error, JvmError::CutShort { .. } | JvmError::Command { .. }), "{error}");
    let error = recorder.start(ALL, Duration::from_secs(5)).unwrap_err();
    assert!(error.code() == "jvm_no_space" && error.to_string().contains("its /tmp has 0."), "{error}");

    let folder = tempfile::tempdir().unwrap();
    std::fs::set_permissions(folder.path(), std::fs::Permissions::from_mode(0o755)).unwrap();
    let image: PathBuf = folder.path().join("image");
    let linked =
        Command::new("jlink").args(["--add-modules", "java.base,jdk.compiler", "--output"]).arg(&image).status();
    assert!(linked.expect("jlink of default-jdk-headless").success());
    let java = Java::start_by(&mut Command::new(image.join("bin/java")));
    let error = FlightRecorder::open(java.jvm(), FlightSettings::default()).unwrap_err();
    assert!(error.to_string().contains("jdk.jfr"), "{error}");
}

#[test]
fn jvms_are_found_by_what_they_run() {
    let java = Java::start(&["-Dprocprof.test=one-of-a-kind"]);
    let found = running_jvms().into_iter().find(|found| found.pid == java.pid).unwrap();
    assert!(found.main.ends_with("Work.java") && found.command_line.contains("one-of-a-kind"), "{found:?}");
    assert_eq!(JvmTarget::CommandLine("one-of-a-kind".to_owned()).find().unwrap(), java.pid);
    let none = JvmTarget::MainClass("com.example.Nowhere".to_owned()).find().unwrap_err();
    assert!(none.to_string().contains("no JVM with the main class com.example.Nowhere is running"), "{none}");
}
