//! The C interface, called by a C++ program.

use crate::build::program;
use crate::host::preloaded;
use procprof_profile::format::decode;
use std::process::Command;

fn lines(command: &mut Command) -> Vec<String> {
    let output = command.output().unwrap();
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(output.status.success(), "{text}{}", String::from_utf8_lossy(&output.stderr));
    text.lines().map(str::to_owned).collect()
}

#[test]
fn it_starts_labels_dumps_and_stops() {
    it_works("thread", 2);
    it_works("on-demand", 1);
}

/// Runs the program, which has so many threads while the agent listens.
fn it_works(listener: &str, threads: usize) {
    let folder = tempfile::tempdir().unwrap();
    let (heap, cpu) = (folder.path().join("heap"), folder.path().join("cpu"));
    let program = program("api.cpp", &[]);
    let lines = lines(preloaded(&program).args([&heap, &cpu]).env("PROCPROF_LISTENER", listener));
    let started = format!("threads {threads}, port 1");
    let expected = [
        "loaded 1, threads 1, port 0",
        "dump -1: not started",
        "start -1: nowhere: expected ADDRESS:PORT",
        "start 0",
        &started,
        "again -1: it is running already",
        "profile 0",
        "dump 0",
        "dump -1: /nothing: no such page; /debug/pprof/ lists all",
        "threads 1, port 0",
    ];
    assert_eq!(lines, expected);
    assert!(decode(&std::fs::read(heap).unwrap(), &Default::default()).is_ok());
    let profile = decode(&std::fs::read(cpu).unwrap(), &Default::default()).unwrap().profile;
    let text = format!("{profile:?}");
    assert!(text.contains("query_id") && text.contains("q1"), "{}", &text[..text.len().min(3000)]);
}

#[test]
fn without_the_library_every_call_fails_softly() {
    let program = program("api.cpp", &[]);
    let lines = lines(Command::new(&program).args(["/nowhere/heap", "/nowhere/cpu"]));
    assert_eq!(lines[0], "loaded 0, threads 1, port 0");
    assert_eq!(lines[1], "dump -1: libprocprof_preload.so is not loaded");
    assert_eq!(lines[3], "start -1");
    assert_eq!(lines[4], "threads 1, port 0");
}
