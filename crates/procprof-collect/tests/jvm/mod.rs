//! Real JVMs: attached to, recorded, stopped, hidden in namespaces; and what only pretends to be one.

use std::io::{BufRead, BufReader};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

use procprof_collect::jvm::{
    AsyncProfiler, Events, FlightRecorder, FlightSettings, Jvm, JvmEngine, JvmError, JvmOptions, JvmSource, JvmTarget,
    running_jvms, wait_for_discards,
};
use procprof_collect::{RecordingData, Request, Source, Watch};
use procprof_process::Pid;
use procprof_profile::ProfileType;

mod allocations;
mod async_profiler;
mod killed;
mod perf_map;
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

/// The source of a program.
fn source(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/jvm").join(name)
}

/// A folder with `Work.class`, compiled once: a JVM takes ten times as long to start from a source.
fn classes() -> &'static Path {
    static FOLDER: OnceLock<PathBuf> = OnceLock::new();
    FOLDER.get_or_init(|| {
        let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("java-classes");
        let mut compile = Command::new("javac");
        compile.args(["--release", "17", "-d"]).arg(&folder).arg(source("Work.java"));
        let compiled = compile.status().unwrap_or_else(|error| panic!("{compile:?}: {error}"));
        assert!(compiled.success(), "{compile:?}");
        folder
    })
}

/// `$0` is `Work.class`: a shell's commands that run it as process 1 of a `/tmp` that nobody else sees, mounted with
/// options, after more commands and with more options of `java`.
fn hidden(mount: &str, more: &str, options: &str) -> String {
    format!(
        "exec 3<\"$0\"; mount -t tmpfs {mount} tmpfs /tmp; cat <&3 >/tmp/Work.class; exec 3<&-; {more} \
         exec java {options} -cp /tmp Work"
    )
}

impl Java {
    fn start(options: &[&str]) -> Java {
        Java::start_by(Command::new("java").args(options))
    }

    /// `command` ends in the options of `java`.
    fn start_by(command: &mut Command) -> Java {
        Java::start_command(command.arg("-cp").arg(classes()).arg("Work"))
    }

    /// In namespaces of its own, by the commands of [`hidden`].
    fn start_hidden(namespaces: &[&str], commands: &str) -> Java {
        let mut command = Command::new("unshare");
        command.args(namespaces).args(["sh", "-c", commands]).arg(classes().join("Work.class"));
        Java::start_command(&mut command)
    }

    fn start_command(command: &mut Command) -> Java {
        command.stdin(Stdio::piped()).stdout(Stdio::piped());
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
        self.remove_remains();
    }
}

impl Java {
    /// Removes what a JVM that is killed, and a test that fails, leave in `/tmp`.
    fn remove_remains(&self) {
        let _ = std::fs::remove_file(format!("/tmp/.java_pid{}", self.pid));
        for entry in std::fs::read_dir("/tmp").into_iter().flatten().flatten() {
            let name = entry.file_name().to_string_lossy().into_owned();
            if name.starts_with("hsperfdata_") {
                let _ = std::fs::remove_file(entry.path().join(self.pid.to_string()));
            }
            // Of its Flight Recorder, such as `2026_11_28_16_20_03_4242`.
            let is_repository = name.starts_with("20") && name.ends_with(&format!("_{}", self.pid));
            let is_ours = name.starts_with("procprof-") && name.split('-').nth(2) == Some(&self.pid.to_string());
            if is_repository || is_ours {
                let _ = std::fs::remove_dir_all(entry.path());
            }
        }
    }
}

fn raw(pid: Pid) -> rustix::process::Pid {
    rustix::process::Pid::from_raw(pid.0.cast_signed()).unwrap()
}

/// Options of `unshare` with which a JVM is process 1.
const IN_NAMESPACES: &[&str] = &["--pid", "--fork", "--mount", "--mount-proc"];

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

/// Records until one recording names all of these, each twice as long as the one before: a busy machine may leave a JVM
/// no time for a while.
fn record_until(functions: &[&str], mut record: impl FnMut(Duration) -> Vec<u8>) {
    let (start, mut length) = (Instant::now(), Duration::from_millis(250));
    loop {
        let bytes = record(length);
        assert!(!chunk_starts(&bytes).is_empty());
        if functions.iter().all(|function| names(&bytes, function)) {
            return;
        }
        assert!(start.elapsed() < PATIENCE, "{functions:?} are in no recording");
        length *= 2;
    }
}

/// Records by the Flight Recorder for that time.
fn flight(recorder: &mut FlightRecorder, length: Duration) -> Vec<u8> {
    let running = recorder.start(ALL, PATIENCE).unwrap();
    std::thread::sleep(length);
    recorder.stop(running, None).unwrap()
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
    record_until(&["spend", "allocate", "contend"], |length| flight(&mut recorder, length));
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
    let (start, mut all, mut has_work) = (Instant::now(), Vec::new(), false);
    while all.len() < 3 || !has_work {
        assert!(start.elapsed() < PATIENCE, "{all:?}");
        tokio::time::sleep(Duration::from_millis(500)).await;
        let answer = session.cut().await.unwrap();
        let recording = &answer.recordings[0];
        let Ok(RecordingData::Encoded(bytes)) = &recording.content else { panic!("{recording:?}") };
        has_work |= names(bytes, "spend");
        all.push((recording.started, recording.length, chunk_starts(bytes)));
    }
    for pair in all.windows(2) {
        let [(started, length, chunks), (next_started, _, next_chunks)] = pair else { unreachable!() };
        // Each begins with the same baseline.
        let (chunks, next_chunks) = (&chunks[1..], &next_chunks[1..]);
        assert!(chunks.iter().all(|chunk| !next_chunks.contains(chunk)) && next_chunks[0] > *chunks.last().unwrap());
        let gap = next_started.0 - (started.0 + length.0);
        assert!(gap >= 0, "{all:?}");
    }
    drop((session, source));
    // What was begun for the next cut is ended in the background.
    assert_eq!(wait_for_discards(PATIENCE), [], "it is not ended");
    let check = java.jvm().command("JFR.check", PATIENCE).unwrap();
    assert!(check.contains("No available recordings"), "{check}");
    assert_eq!(java.left_behind(), [""; 0]);
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
    let start = Instant::now();
    while !is_stopped(java.pid) {
        assert!(start.elapsed() < PATIENCE, "it is not stopped");
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
    for java in [
        Java::start_by(Command::new("setpriv").args(as_nobody)),
        Java::start_hidden(IN_NAMESPACES, &hidden("", "", "")),
    ] {
        let mut recorder = java.recorder();
        record_until(&["spend"], |length| flight(&mut recorder, length));
        drop(recorder);
        assert_eq!(java.left_behind(), [""; 0]);
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
    let elsewhere = "-XX:FlightRecorderOptions=repository=/mnt";
    let java = Java::start_hidden(&["--mount"], &hidden("-o size=12m", "mount -t tmpfs tmpfs /mnt;", elsewhere));
    let mut recorder = java.recorder();
    let running = recorder.start(ALL, Duration::from_secs(5)).unwrap();
    java.fill();
    let error = recorder.stop(running, None).map(|bytes| bytes.len()).unwrap_err();
    assert!(matches!(error, JvmError::CutShort { .. } | JvmError::Command { .. }), "{error}");
    let error = recorder.start(ALL, Duration::from_secs(5)).unwrap_err();
    assert!(error.code() == "jvm_no_space" && error.to_string().contains("its /tmp has 0."), "{error}");

    let folder = tempfile::tempdir().unwrap();
    std::fs::set_permissions(folder.path(), std::fs::Permissions::from_mode(0o755)).unwrap();
    let image: PathBuf = folder.path().join("image");
    let linked = Command::new("jlink").args(["--add-modules", "java.base", "--output"]).arg(&image).status();
    assert!(linked.expect("jlink of default-jdk-headless").success());
    let java = Java::start_by(&mut Command::new(image.join("bin/java")));
    let error = FlightRecorder::open(java.jvm(), FlightSettings::default()).unwrap_err();
    assert!(error.to_string().contains("jdk.jfr"), "{error}");
}

#[test]
fn jvms_are_found_by_what_they_run() {
    let mut command = Command::new("java");
    let java = Java::start_command(command.arg("-Dprocprof.test=one-of-a-kind").arg(source("Work.java")));
    let found = running_jvms().into_iter().find(|found| found.pid == java.pid).unwrap();
    assert!(found.main.ends_with("Work.java") && found.command_line.contains("one-of-a-kind"), "{found:?}");
    assert_eq!(JvmTarget::CommandLine("one-of-a-kind".to_owned()).find().unwrap(), java.pid);
    let none = JvmTarget::MainClass("com.example.Nowhere".to_owned()).find().unwrap_err();
    assert!(none.to_string().contains("no JVM with the main class com.example.Nowhere is running"), "{none}");
}
