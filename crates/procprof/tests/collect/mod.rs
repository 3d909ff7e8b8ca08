//! `procprof collect` against a replayed brpc service, as its users see it: files, exit codes, lines.

#![allow(clippy::unwrap_used, reason = "a failing unwrap is a failing test")]

mod daemon;
pub(crate) mod replay;

use std::fs;
use std::io::{Read, Write};
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use replay::{Replay, repository};

/// The command, without this machine's environment variables of StarRocks.
fn collect(words: &str) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_procprof"));
    command.arg("collect").args(words.split_whitespace());
    command.env_remove("STARROCKS_HOME").env_remove("COLLECT_BE_PROFILE_INTERVAL");
    command
}

fn run(words: &str, folder: &Path) -> Output {
    collect(words).arg("--output-dir").arg(folder).output().unwrap()
}

/// The files below `proc_profile`, hidden ones too, by name.
fn files(folder: &Path) -> Vec<PathBuf> {
    let Ok(directory) = fs::read_dir(folder.join("proc_profile")) else {
        return Vec::new();
    };
    let mut paths: Vec<PathBuf> = directory.map(|entry| entry.unwrap().path()).collect();
    paths.sort();
    paths
}

fn name(path: &Path) -> &str {
    path.file_name().unwrap().to_str().unwrap()
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

fn go_pprof_top(path: &Path) -> String {
    let output = Command::new("go").args(["tool", "pprof", "-top"]).arg(path).output();
    let output = output.unwrap_or_else(|error| panic!("go (the Go toolchain) is needed for this test: {error}"));
    assert!(output.status.success(), "{}: {}", path.display(), text(&output.stderr));
    text(&output.stdout)
}

#[test]
fn both_types_are_named_and_open_in_go_pprof() {
    let (replay, folder) = (Replay::live(), tempfile::tempdir().unwrap());
    let output = run(&format!("--profiling-type both --duration 1 --brpc-port {}", replay.port), folder.path());
    assert!(output.status.success(), "{}", text(&output.stderr));
    let files = files(folder.path());
    assert_eq!(files.len(), 2, "{files:?}");
    assert!(name(&files[0]).starts_with("contention-profile-20") && name(&files[0]).ends_with("-pprof.gz"));
    assert!(name(&files[1]).starts_with("cpu-profile-20") && name(&files[1]).ends_with("-pprof.gz"));
    let contention = go_pprof_top(&files[0]);
    assert!(contention.contains("100ms   100%") && contention.contains("slow_lock"), "{contention}");
    let cpu = go_pprof_top(&files[1]);
    assert!(cpu.contains("hot_70") && cpu.contains("70.00%") && cpu.contains("hot_30"), "{cpu}");
    let lines = text(&output.stdout);
    assert!(lines.lines().all(|line| line.starts_with("[20") && line.get(20..22) == Some("] ")), "{lines}");
}

#[test]
fn the_raw_answer_is_kept_on_request() {
    let (replay, folder) = (Replay::recorded(), tempfile::tempdir().unwrap());
    let output = run(&format!("--duration 1 --symbolize=none --brpc-port {}", replay.port), folder.path());
    assert!(output.status.success(), "{}", text(&output.stderr));
    let mut unpacked = Vec::new();
    flate2::read::GzDecoder::new(&fs::read(&files(folder.path())[0]).unwrap()[..]).read_to_end(&mut unpacked).unwrap();
    assert_eq!(unpacked, fs::read(repository().join("testdata/brpc/cpu.gperftools")).unwrap());
}

#[test]
fn a_profile_of_another_process_keeps_its_addresses_and_lists_what_is_missing() {
    let (replay, folder) = (Replay::recorded(), tempfile::tempdir().unwrap());
    let output = run(&format!("--duration 1 --brpc-port {}", replay.port), folder.path());
    assert!(output.status.success(), "{}", text(&output.stderr));
    let warning = text(&output.stderr);
    assert!(warning.contains("WARNING: cpu profile: ") && warning.contains("addresses have no name"), "{warning}");
    go_pprof_top(&files(folder.path())[0]);
}

#[test]
fn a_refused_connection_exits_1_and_writes_nothing() {
    let folder = tempfile::tempdir().unwrap();
    // Nothing listens there; any free port may be another test's by then.
    let output = run("--brpc-port 1", folder.path());
    assert_eq!(output.status.code(), Some(1));
    assert!(text(&output.stderr).contains("ERROR: cpu profile: "), "{}", text(&output.stderr));
    assert!(text(&output.stderr).contains("Connection refused"), "{}", text(&output.stderr));
    assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 0);
}

#[test]
fn an_error_sentence_is_no_profile() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    std::thread::spawn(move || {
        for mut stream in listener.incoming().flatten() {
            drop(stream.read(&mut [0; 4096]));
            drop(stream.write_all(b"HTTP/1.1 200 OK\r\nConnection: close\r\n\r\ndump jemalloc prof file failed"));
        }
    });
    let folder = tempfile::tempdir().unwrap();
    let output = run(&format!("--url http://127.0.0.1:{port}/pprof/heap"), folder.path());
    assert_eq!(output.status.code(), Some(1));
    assert!(text(&output.stderr).contains("it says \"dump jemalloc prof file failed\""), "{}", text(&output.stderr));
    assert!(files(folder.path()).is_empty());
}

#[test]
fn a_busy_profiler_is_reported() {
    let (replay, folder) = (Replay::live(), tempfile::tempdir().unwrap());
    let _others = replay::occupy(replay.port);
    let output = run(&format!("--duration 1 --brpc-port {}", replay.port), folder.path());
    assert_eq!(output.status.code(), Some(1));
    assert!(text(&output.stderr).contains("busy"), "{}", text(&output.stderr));
    assert!(files(folder.path()).is_empty());
}

#[test]
fn any_url_can_be_collected() {
    let (replay, folder) = (Replay::live(), tempfile::tempdir().unwrap());
    let output = run(&format!("--url http://127.0.0.1:{}/pprof/heap", replay.port), folder.path());
    assert!(output.status.success(), "{}", text(&output.stderr));
    let files = files(folder.path());
    assert!(name(&files[0]).starts_with("heap-profile-20"), "{files:?}");
    assert!(go_pprof_top(&files[0]).contains("grow_heap"));
}

#[test]
fn our_own_report_opens_what_was_kept() {
    let (replay, folder) = (Replay::live(), tempfile::tempdir().unwrap());
    let output = run(&format!("--duration 1 --brpc-port {}", replay.port), folder.path());
    assert!(output.status.success(), "{}", text(&output.stderr));
    let mut report = Command::new(env!("CARGO_BIN_EXE_procprof"));
    let output = report.args(["report", "--top"]).args(files(folder.path())).output().unwrap();
    assert!(output.status.success() && text(&output.stdout).contains("hot_70"), "{output:?}");
}

#[test]
fn help_exits_0_and_wrong_options_exit_2() {
    let help = collect("--help").output().unwrap();
    assert!(help.status.success());
    let options = [
        "profiling-type",
        "duration",
        "interval",
        "cleanup-days",
        "cleanup-size",
        "brpc-port",
        "output-dir",
        "be-conf",
        "daemon",
    ];
    for option in options {
        assert!(text(&help.stdout).contains(&format!("--{option}")), "{option}");
    }
    assert!(!text(&help.stdout).contains("daemon-internal"));
    for words in ["--duration 0", "--profiling-type all", "--interval", "--nope"] {
        assert_eq!(collect(words).output().unwrap().status.code(), Some(2), "{words}");
    }
}

#[test]
fn the_wrapper_script_passes_everything_on() {
    let (replay, home) = (Replay::live(), tempfile::tempdir().unwrap());
    let mut command = Command::new(repository().join("bin/collect_be_profile.sh"));
    command.args(["--duration", "1", "--brpc-port", &replay.port.to_string()]);
    command.env("STARROCKS_HOME", home.path()).env("PROCPROF", env!("CARGO_BIN_EXE_procprof"));
    let output = command.output().unwrap();
    assert!(output.status.success(), "{}", text(&output.stderr));
    assert_eq!(files(&home.path().join("log")).len(), 1);
}
