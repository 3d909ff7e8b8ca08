//! A procprof that is killed while it records: what it leaves behind in the JVM and in its `/tmp`, and who removes it.

use super::*;

/// The environment variable with the pid of the JVM that a killed procprof was recording.
const TARGET: &str = "PROCPROF_TEST_JVM";
/// The same with the async-profiler library, where that records.
const LIBRARY: &str = "PROCPROF_TEST_LIBRARY";

/// Not a test but the procprof that is killed: it records until then.
#[test]
#[ignore = "started by the other tests of this module"]
fn records_until_it_is_killed() {
    let jvm = Jvm::open(Pid(std::env::var(TARGET).unwrap().parse().unwrap())).unwrap();
    let length = Duration::from_secs(600);
    match std::env::var(LIBRARY) {
        Ok(library) => {
            let mut profiler = AsyncProfiler::open(jvm, Path::new(&library), FlightSettings::default()).unwrap();
            let _running = profiler.start(ALL, length).unwrap();
            wait_for_the_end();
        }
        Err(_) => {
            let mut recorder = FlightRecorder::open(jvm, FlightSettings::default()).unwrap();
            let _running = recorder.start(ALL, length).unwrap();
            wait_for_the_end();
        }
    }
}

fn wait_for_the_end() {
    eprintln!("recording");
    loop {
        std::thread::park();
    }
}

/// Has another process record a JVM, and kills it.
fn record_and_be_killed(java: &Java, library: Option<&Path>) {
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.args(["--ignored", "--exact", "jvm::killed::records_until_it_is_killed", "--nocapture"]);
    command.env(TARGET, java.pid.to_string()).stdout(Stdio::null()).stderr(Stdio::piped());
    if let Some(library) = library {
        command.env(LIBRARY, library);
    }
    let mut child = command.spawn().unwrap();
    let mut lines = BufReader::new(child.stderr.take().unwrap()).lines();
    let recording = lines.by_ref().map_while(Result::ok).any(|line| line.contains("recording"));
    child.kill().unwrap();
    child.wait().unwrap();
    assert!(recording, "it did not begin to record");
}

/// All folders of procprof in the `/tmp` of a JVM that were made for it.
fn folders(java: &Java) -> Vec<String> {
    let entries = std::fs::read_dir(format!("/proc/{}/root/tmp", java.pid)).unwrap().flatten();
    let is_own = |name: &String| name.starts_with("procprof-") && name.split('-').nth(2) == Some(&java.pid.to_string());
    entries.map(|entry| entry.file_name().to_string_lossy().into_owned()).filter(is_own).collect()
}

/// A name for a folder as another procprof makes it. One made long ago would be removed by the recorders of other JVMs,
/// too.
pub(super) fn left_behind_folder(java: &Java) -> PathBuf {
    let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap();
    PathBuf::from("/tmp").join(format!("procprof-1-{}-{:x}", java.pid, now.as_nanos()))
}

#[test]
fn the_next_recorder_ends_what_a_killed_one_left_running() {
    let java = Java::start(&[]);
    record_and_be_killed(&java, None);
    let left = folders(&java);
    assert_eq!(left.len(), 1, "{left:?}");
    let check = || java.jvm().command("JFR.check", PATIENCE).unwrap();
    assert!(
        check().contains(&format!("name={}", left[0])) && check().contains("duration=630s"),
        "it ends by itself: {}",
        check()
    );
    let foreign = java.jvm().command("JFR.start name=procprof-of-theirs", PATIENCE).unwrap();
    assert!(foreign.contains("Started recording"), "{foreign}");
    let recorder = java.recorder();
    assert_eq!(folders(&java), java.left_behind(), "only that of the new recorder");
    assert!(!check().contains(&left[0]) && check().contains("procprof-of-theirs"), "{}", check());
    drop(recorder);
    assert_eq!(folders(&java), [""; 0]);
}

#[test]
fn the_next_profiler_ends_what_a_killed_one_left_running() {
    let java = Java::start(&[]);
    let jar = async_profiler::jar("4.5");
    record_and_be_killed(&java, Some(&jar));
    assert_eq!(folders(&java).len(), 1);
    let mut profiler = AsyncProfiler::open(java.jvm(), &jar, FlightSettings::default()).unwrap();
    assert_eq!(folders(&java), java.left_behind(), "only that of the new one");
    let running = profiler.start(ALL, Duration::from_secs(5)).unwrap();
    profiler.stop(running, None).unwrap();
    drop(profiler);
    assert_eq!(folders(&java), [""; 0]);
}

#[test]
fn the_folder_of_a_recorder_that_lives_elsewhere_is_left_alone() {
    let java = Java::start(&[]);
    let folder = left_behind_folder(&java);
    std::fs::create_dir(&folder).unwrap();
    let mut elsewhere = Command::new("unshare");
    elsewhere.args(["--pid", "--fork", "flock", "--no-fork"]).arg(&folder).args(["sh", "-c", "echo locked; cat"]);
    let mut holder = elsewhere.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
    let mut line = String::new();
    BufReader::new(holder.stdout.take().unwrap()).read_line(&mut line).unwrap();
    assert_eq!(line, "locked\n");
    drop(java.recorder());
    assert!(folder.is_dir(), "its maker lives in another pid namespace");
    drop(holder.stdin.take());
    holder.wait().unwrap();
    drop(java.recorder());
    assert!(!folder.exists());
}

/// The files of the Flight Recorder's repository of a JVM that is recorded.
fn repository(java: &Java) -> PathBuf {
    let answer = java.jvm().command("JFR.configure", PATIENCE).unwrap();
    let path = answer.lines().find_map(|line| line.strip_prefix("Repository path: "));
    PathBuf::from(path.unwrap_or_else(|| panic!("{answer}")).trim())
}

/// The number of waits for locks in a recording, by its whole chunks.
fn lock_waits(bytes: &[u8]) -> i64 {
    let decoded = procprof_profile::format::decode_events(bytes, &Default::default()).unwrap_or_default();
    let locks = decoded.iter().find(|decoded| decoded.event == "lock");
    locks.map_or(0, |decoded| decoded.profile.total(0))
}

#[test]
fn a_jvm_that_ends_loses_nothing_that_it_has_written() {
    for signal in [rustix::process::Signal::TERM, rustix::process::Signal::KILL] {
        let java = Java::start(&[]);
        let mut recorder = java.recorder();
        let running = recorder.start(ALL, Duration::from_secs(600)).unwrap();
        let repository = repository(&java);
        let written = || {
            let files = std::fs::read_dir(&repository).unwrap().flatten();
            files.map(|file| lock_waits(&std::fs::read(file.path()).unwrap())).sum::<i64>()
        };
        let begun = Instant::now();
        while written() == 0 {
            assert!(begun.elapsed() < PATIENCE, "nothing is written");
            std::thread::sleep(Duration::from_millis(50));
        }
        let least = written();
        let process = procprof_process::Process::open(java.pid).unwrap();
        rustix::process::kill_process(raw(java.pid), signal).unwrap();
        while !process.has_ended() {
            assert!(begun.elapsed() < PATIENCE, "it does not end");
            std::thread::sleep(Duration::from_millis(50));
        }
        let bytes = recorder.stop(running, None).unwrap();
        assert!(lock_waits(&bytes) >= least, "{signal:?}: {} of {least}", lock_waits(&bytes));
        drop((recorder, java));
        let _ = std::fs::remove_dir_all(repository);
    }
}

#[tokio::test]
async fn a_single_recording_ends_by_itself_soon_after_its_length() {
    let java = Java::start(&[]);
    let options = JvmOptions {
        target: JvmTarget::Pid(java.pid),
        engine: JvmEngine::FlightRecorder,
        settings: FlightSettings::default(),
    };
    let source = JvmSource::new(options);
    let request = Request::new(ProfileType::Contention);
    let recording = source.begin_single(&request, Duration::from_secs(20)).await.unwrap();
    let check = || java.jvm().command("JFR.check", PATIENCE).unwrap();
    assert!(check().contains("duration=50s"), "{}", check());
    let recordings = recording.finish().await.unwrap();
    assert!(matches!(recordings.recordings[0].content, Ok(RecordingData::Encoded(_))));
    assert!(!check().contains("procprof-"), "no other recording follows: {}", check());
}
