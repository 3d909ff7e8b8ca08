//! Real JVMs recorded by the real async-profiler, oldest and newest version that is used.

use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use procprof_collect::jvm::{AsyncProfiler, FlightSettings, JvmEngine, JvmError, JvmOptions, JvmSource, JvmTarget};
use procprof_collect::{CollectError, RecordingData, Request, Source};
use procprof_profile::ProfileType;

use super::killed::left_behind_folder;
use super::{ALL, IN_NAMESPACES, Java, PATIENCE, chunk_starts, hidden, names, record_until};

/// Held while a jar is fetched, so that tests do not fetch it side by side.
static FETCHING: Mutex<()> = Mutex::new(());

/// The jar of a version, from the local Maven repository, or fetched into it.
pub(super) fn jar(version: &str) -> PathBuf {
    let _fetching = FETCHING.lock().unwrap_or_else(PoisonError::into_inner);
    let home = std::env::var("HOME").unwrap();
    let jar = PathBuf::from(format!(
        "{home}/.m2/repository/tools/profiler/async-profiler/{version}/async-profiler-{version}.jar"
    ));
    if !jar.is_file() {
        let artifact = format!("-Dartifact=tools.profiler:async-profiler:{version}");
        let fetched = Command::new("mvn").args(["-q", "dependency:get", &artifact, "-Dtransitive=false"]).status();
        assert!(
            fetched.expect("mvn of Debian's maven").success() && jar.is_file(),
            "{} cannot be fetched",
            jar.display()
        );
    }
    jar
}

/// The library of a jar as a file that every user can read.
fn unpacked(jar: &Path) -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    let command = "import sys, zipfile; zipfile.ZipFile(sys.argv[1]).extractall(sys.argv[2])";
    assert!(Command::new("python3").args(["-c", command]).arg(jar).arg(folder.path()).status().unwrap().success());
    std::fs::set_permissions(folder.path(), std::fs::Permissions::from_mode(0o755)).unwrap();
    folder
}

fn library_in(folder: &tempfile::TempDir) -> PathBuf {
    let name = if cfg!(target_arch = "aarch64") { "linux-arm64" } else { "linux-x64" };
    folder.path().join(name).join("libasyncProfiler.so")
}

/// Records by async-profiler for that time.
fn record(profiler: &mut AsyncProfiler, length: Duration) -> Vec<u8> {
    let running = profiler.start(ALL, PATIENCE).unwrap();
    std::thread::sleep(length);
    profiler.stop(running, None).unwrap()
}

fn profiler(java: &Java) -> Result<AsyncProfiler, JvmError> {
    AsyncProfiler::open(java.jvm(), &jar("4.5"), FlightSettings::default())
}

#[test]
fn each_version_records_all_events_and_leaves_nothing() {
    for version in ["4.0", "4.5"] {
        let java = Java::start(&[]);
        let mut profiler = AsyncProfiler::open(java.jvm(), &jar(version), FlightSettings::default()).unwrap();
        assert_eq!(profiler.version(), version);
        for _ in 0..2 {
            record_until(&["spend", "allocate"], |length| record(&mut profiler, length));
        }
        assert_eq!(java.left_behind().len(), 1, "the folder");
        drop(profiler);
        assert_eq!(java.left_behind(), [""; 0]);
    }
}

#[test]
fn a_library_that_is_loaded_is_not_loaded_twice() {
    let java = Java::start(&[]);
    for _ in 0..3 {
        let mut profiler = profiler(&java).unwrap();
        let running = profiler.start(ALL, Duration::from_secs(5)).unwrap();
        profiler.discard(running);
    }
    let maps = std::fs::read_to_string(format!("/proc/{}/maps", java.pid)).unwrap();
    let mut libraries: Vec<&str> = maps.lines().filter_map(|line| line.find('/').map(|at| &line[at..])).collect();
    libraries.retain(|path| path.contains("asyncProfiler"));
    libraries.dedup();
    assert_eq!(libraries.len(), 1, "{libraries:?}");
}

#[test]
fn a_session_of_someone_else_is_left_alone() {
    let java = Java::start(&[]);
    let folder = unpacked(&jar("4.5"));
    let library = library_in(&folder);
    let library = library.to_str().unwrap();
    java.jvm().load_agent(library, "start,event=cpu", PATIENCE).unwrap();
    let error = profiler(&java).unwrap_err();
    assert!(
        matches!(error, JvmError::Busy { .. }) && error.to_string().contains("session of the process itself"),
        "{error}"
    );
    assert!(matches!(CollectError::from(error), CollectError::Busy { .. }));
    let answer = folder.path().join("status");
    std::fs::set_permissions(folder.path(), std::fs::Permissions::from_mode(0o777)).unwrap();
    java.jvm().load_agent(library, &format!("status,file={}", answer.display()), PATIENCE).unwrap();
    assert!(std::fs::read_to_string(&answer).unwrap().contains("is running for"), "it goes on");
    java.jvm()
        .load_agent(library, &format!("stop,collapsed,file={}", folder.path().join("end").display()), PATIENCE)
        .unwrap();
    let mut profiler = profiler(&java).unwrap();
    let running = profiler.start(ALL, Duration::from_secs(5)).unwrap();
    profiler.stop(running, None).unwrap();
}

#[test]
fn what_a_procprof_that_is_gone_left_running_is_ended() {
    let java = Java::start(&[]);
    let folder = unpacked(&jar("4.5"));
    let library = library_in(&folder);
    let left = left_behind_folder(&java);
    std::fs::create_dir(&left).unwrap();
    let options = format!("start,jfr,event=cpu,file={}/async-1.jfr", left.display());
    java.jvm().load_agent(library.to_str().unwrap(), &options, PATIENCE).unwrap();
    drop(profiler(&java).unwrap());
    assert!(!left.exists());
}

#[test]
fn a_recording_that_nobody_stops_ends_and_is_still_there() {
    let java = Java::start(&[]);
    let mut profiler = profiler(&java).unwrap();
    let running = profiler.start(ALL, Duration::ZERO).unwrap();
    // Ended by another than its maker, as its own time-out does.
    let maps = std::fs::read_to_string(format!("/proc/{}/maps", java.pid)).unwrap();
    let library = maps
        .lines()
        .find_map(|line| line.find('/').map(|at| &line[at..]).filter(|path| path.contains("asyncProfiler")))
        .unwrap();
    java.jvm().load_agent(library, "stop,jfr", PATIENCE).unwrap();
    let bytes = profiler.stop(running, None).unwrap();
    assert!(!chunk_starts(&bytes).is_empty());
}

#[test]
fn what_cannot_be_loaded_is_named() {
    let java = Java::start(&[]);
    let open = |path: &Path| AsyncProfiler::open(java.jvm(), path, FlightSettings::default()).unwrap_err();
    let missing = open(Path::new("/no/such/libasyncProfiler.so"));
    assert!(
        missing.code() == "jvm_library" && missing.to_string().contains("/no/such/libasyncProfiler.so"),
        "{missing}"
    );
    let text = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(text.path(), "text").unwrap();
    assert!(open(text.path()).to_string().contains("neither a shared library nor a jar"));
    let java = Java::start_hidden(&["--mount"], &hidden("-o noexec", "", ""));
    let error = profiler(&java).unwrap_err();
    assert!(error.to_string().contains("noexec"), "{error}");
}

#[test]
fn a_jvm_of_another_user_and_in_namespaces_of_its_own_is_recorded() {
    let as_nobody = ["--reuid=65534", "--regid=65534", "--clear-groups", "java"];
    for java in [
        Java::start_by(Command::new("setpriv").args(as_nobody)),
        Java::start_hidden(IN_NAMESPACES, &hidden("", "", "")),
    ] {
        let mut profiler = profiler(&java).unwrap();
        record_until(&["spend"], |length| record(&mut profiler, length));
        drop(profiler);
        assert_eq!(java.left_behind(), [""; 0]);
    }
}

#[tokio::test]
async fn recordings_of_a_session_follow_each_other() {
    let java = Java::start(&[]);
    let engine = JvmEngine::AsyncProfiler(jar("4.5"));
    let source =
        JvmSource::new(JvmOptions { target: JvmTarget::Pid(java.pid), engine, settings: FlightSettings::default() });
    let request = Request::new(ProfileType::Cpu).and(ProfileType::Alloc).and(ProfileType::Contention);
    let mut session = source.begin(&request, "test").await.unwrap();
    let (start, mut end, mut with_work) = (Instant::now(), 0, 0);
    while with_work < 3 {
        assert!(start.elapsed() < PATIENCE, "{with_work} recordings of three have samples");
        tokio::time::sleep(Duration::from_millis(500)).await;
        let answer = session.cut().await.unwrap();
        let recording = &answer.recordings[0];
        let Ok(RecordingData::Encoded(bytes)) = &recording.content else { panic!("{recording:?}") };
        with_work += u32::from(names(bytes, "spend"));
        assert_eq!(recording.facts["engine"], "async-profiler 4.5", "{:?}", recording.facts);
        assert!(recording.started.0 >= end, "{recording:?}");
        end = recording.started.0 + recording.length.0;
    }
}
