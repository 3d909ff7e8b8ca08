//! Names of the code that JVMs have compiled, as they write them when they are asked.

use std::fs::File;
use std::io::Read;
use std::os::unix::fs::{MetadataExt, symlink};

use super::*;

/// The names that a JVM writes.
fn written(java: &Java) -> Result<String, JvmError> {
    let mut text = String::new();
    java.jvm().perf_map(PATIENCE)?.read_to_string(&mut text).unwrap();
    Ok(text)
}

/// Until the JVM has compiled a method that uses time.
fn assert_names(java: &Java) {
    let start = Instant::now();
    let mut text = written(java).unwrap();
    while !text.contains("void Work.spend()") {
        assert!(start.elapsed() < PATIENCE, "{text}");
        std::thread::sleep(Duration::from_millis(20));
        text = written(java).unwrap();
    }
}

/// The files of a JVM's `/tmp` by which it is attached to, and its map.
fn remains(java: &Java) -> Vec<String> {
    let entries = std::fs::read_dir(format!("/proc/{}/root/tmp", java.pid)).unwrap().flatten();
    let names = entries.map(|entry| entry.file_name().to_string_lossy().into_owned());
    let ends = |name: &String, start: &str, end: &str| {
        let pid = name.strip_prefix(start).and_then(|rest| rest.strip_suffix(end));
        pid.is_some_and(|pid| pid == java.pid.to_string() || pid == "1")
    };
    names
        .filter(|name| ends(name, "perf-", ".map") || ends(name, ".attach_pid", "") || ends(name, ".java_pid", ""))
        .collect()
}

/// A map that was there before, removed when dropped.
struct Map(PathBuf);

impl Map {
    fn of(java: &Java) -> Map {
        Map(PathBuf::from(format!("/tmp/perf-{}.map", java.pid)))
    }
}

impl Drop for Map {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.0);
    }
}

#[test]
fn jvms_of_others_and_in_namespaces_name_what_they_have_compiled() {
    let as_nobody = ["--reuid=65534", "--regid=65534", "--clear-groups", "java"];
    for java in [
        Java::start_by(Command::new("setpriv").args(as_nobody)),
        Java::start_hidden(IN_NAMESPACES, &hidden("", "", "")),
    ] {
        assert_names(&java);
        let left = remains(&java);
        assert!(left.len() == 1 && left[0].starts_with(".java_pid"), "{left:?}");
    }
}

#[test]
fn all_who_ask_at_once_are_answered() {
    // One that was never attached to, and its map is made and removed by each.
    let java = Java::start(&[]);
    let ask = || (0..5).map(|_| written(&java).unwrap()).collect::<Vec<_>>();
    let maps: Vec<String> = std::thread::scope(|scope| {
        let askers: Vec<_> = (0..6).map(|_| scope.spawn(ask)).collect();
        askers.into_iter().flat_map(|asker| asker.join().unwrap()).collect()
    });
    assert_eq!(maps.len(), 30);
    for map in maps {
        let is_whole = |line: &str| line.split_whitespace().count() >= 3;
        assert!(map.contains(" Interpreter") && map.ends_with('\n') && map.lines().all(is_whole), "{map}");
    }
    assert_eq!(remains(&java), [format!(".java_pid{}", java.pid)]);
    // Who only holds the lock is waited for as long as one waits for the JVM.
    let map = Map::of(&java);
    let file = File::create(&map.0).unwrap();
    rustix::fs::flock(&file, rustix::fs::FlockOperation::LockExclusive).unwrap();
    let error = java.jvm().perf_map(Duration::from_millis(20)).map(drop).unwrap_err();
    assert!(matches!(error, JvmError::NoMap { .. }) && error.to_string().contains("locked"), "{error}");
    drop(file);
    written(&java).unwrap();
}

#[test]
fn a_map_that_was_there_stays_and_none_leads_the_jvm_to_another_file() {
    let java = Java::start(&[]);
    let map = Map::of(&java);
    std::fs::write(&map.0, "0 1 old\n").unwrap();
    assert_names(&java);
    let there = std::fs::read_to_string(&map.0).unwrap();
    assert!(there.contains("Interpreter") && !there.contains("old"), "{there}");

    let folder = tempfile::tempdir().unwrap();
    let other = folder.path().join("other");
    std::fs::write(&other, "precious").unwrap();
    let refused = |why: &str| {
        let error = written(&java).unwrap_err();
        assert!(matches!(error, JvmError::Suspicious { .. }) && error.to_string().contains(why), "{error}");
        assert_eq!(std::fs::read_to_string(&other).unwrap(), "precious");
    };
    std::fs::remove_file(&map.0).unwrap();
    symlink(&other, &map.0).unwrap();
    refused("not a regular file");
    std::fs::remove_file(&map.0).unwrap();
    std::fs::copy(&other, &map.0).unwrap();
    std::os::unix::fs::chown(&map.0, Some(65534), Some(65534)).unwrap();
    refused("another user");
    std::os::unix::fs::chown(&map.0, Some(0), Some(0)).unwrap();
    std::fs::hard_link(&map.0, map.0.with_extension("second")).unwrap();
    let _second = Map(map.0.with_extension("second"));
    refused("has other names");
}

#[test]
fn jvms_that_may_not_be_attached_to_are_sent_nothing() {
    for (option, why) in
        [("-XX:+DisableAttachMechanism", "is switched off"), ("-XX:-UsePerfData", "shares no counters")]
    {
        let mut java = Java::start(&[option]);
        let error = written(&java).unwrap_err();
        assert!(matches!(error, JvmError::NotAttachable { .. }) && error.to_string().contains(why), "{error}");
        assert_eq!((error.code(), remains(&java)), ("attach_refused", Vec::new()));
        rustix::process::kill_process(raw(java.pid), rustix::process::Signal::KILL).unwrap();
        let mut output = String::new();
        java.output.read_to_string(&mut output).unwrap();
        assert!(!output.contains("Full thread dump"), "{option}: {output}");
    }
}

#[test]
fn a_map_needs_room_and_a_stopped_jvm_keeps_nobody_waiting() {
    let java = Java::start_hidden(&["--mount"], &hidden("-o size=12m", "", ""));
    let error = written(&java).unwrap_err();
    assert!(error.code() == "jvm_no_space", "{error}");
    let java = Java::start(&[]);
    // A JVM that goes on answers what was asked meanwhile, too.
    let _map = Map::of(&java);
    assert_names(&java);
    rustix::process::kill_process(raw(java.pid), rustix::process::Signal::STOP).unwrap();
    let start = Instant::now();
    while !is_stopped(java.pid) {
        assert!(start.elapsed() < PATIENCE, "it is not stopped");
        std::thread::sleep(Duration::from_millis(1));
    }
    // More often than connections may wait for it.
    for _ in 0..60 {
        let error = java.jvm().perf_map(Duration::from_millis(20)).map(drop).unwrap_err();
        assert!(matches!(error, JvmError::Timeout { .. }), "{error}");
    }
    assert_eq!(remains(&java), [format!(".java_pid{}", java.pid)]);
    rustix::process::kill_process(raw(java.pid), rustix::process::Signal::CONT).unwrap();
    assert_names(&java);
}

#[test]
fn a_map_that_the_jvm_has_open_is_read_as_it_is() {
    let java = Java::start_hidden(
        &["--mount"],
        &hidden("", "echo '7f00 10 agent' >/tmp/perf-$$.map; exec 7>>/tmp/perf-$$.map;", ""),
    );
    assert_eq!(written(&java).unwrap(), "7f00 10 agent\n");
    let inside = File::open(format!("/proc/{0}/root/tmp/perf-{0}.map", java.pid)).unwrap();
    assert_eq!(inside.metadata().unwrap().nlink(), 1);
}
