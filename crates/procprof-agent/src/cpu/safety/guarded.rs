//! The handler under a guard that ends the process when a function is entered inside it that a handler must not use,
//! and under `strace`, which sees what the guard can't: system calls made without the C library.

use super::isolated::{isolated_under, output_of};
use super::storm::Storm;
use super::{capture, fact, unrest};
use crate::options::CpuEngine;
use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsStr;
use std::path::Path;
use std::process::Command;
use std::time::Duration;
use tempfile::TempDir;

/// The guard, compiled into a folder of its own.
struct Guard(TempDir);

impl Guard {
    fn build() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../testdata/agent/guard.c");
        let output = Command::new("gcc")
            .args(["-O1", "-fno-builtin", "-shared", "-fPIC", "-o"])
            .arg(folder.path().join("guard.so"))
            .arg(source)
            .arg("-ldl")
            .output();
        let output = output.expect("gcc is needed");
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        Self(folder)
    }

    fn library(&self) -> String {
        self.0.path().join("guard.so").display().to_string()
    }
}

/// Samples of all kinds: by ticks, counters and a storm, with labels, in deep stacks and in new code.
fn samples(length: Duration) {
    for engine in [CpuEngine::Tick, CpuEngine::Perf] {
        let capture = capture(1000, engine);
        let _label = crate::label("query_id", "0198f2c4-7a01");
        let storm = Storm::start();
        unrest::run(length / 2);
        storm.end();
        let profile = capture.finish().unwrap();
        println!("{}: {} samples, {} lost", engine.name(), profile.total(0), fact(&profile, "lost"));
        assert!(profile.total(0) > 100, "{} samples", profile.total(0));
    }
}

const GUARDED: &str = "cpu::safety::guarded::the_handler_enters_nothing_that_is_not_its_business";

#[test]
fn the_handler_enters_nothing_that_is_not_its_business() {
    // The process of the other test, which a breach ends, has it from its parent.
    let guard = std::env::var_os("LD_PRELOAD").is_none().then(Guard::build);
    let preload = guard.as_ref().map(Guard::library).unwrap_or_default();
    isolated_under(&[], GUARDED, &[("LD_PRELOAD", &preload)], || samples(Duration::from_secs(2)));
}

#[test]
fn the_guard_sees_what_a_handler_enters() {
    let guard = Guard::build();
    let preload = guard.library();
    for breach in ["malloc", "pthread_mutex_lock", "dl_iterate_phdr", "write", "syscall", "errno"] {
        let environment = [("LD_PRELOAD", preload.as_str()), ("GUARD_BREACH", breach)];
        let (output, text) =
            output_of(&[], GUARDED, &environment, || unreachable!("the child is of the other test")).unwrap();
        assert_eq!(output.status.code(), Some(99), "{breach}: {}\n{text}", output.status);
        assert!(text.contains(&format!("entered inside the handler: {breach}")), "{breach}:\n{text}");
    }
}

const TRACED: &str = "cpu::safety::guarded::the_handler_makes_no_system_call";

/// Runs the traced test; returns the system calls made in handlers, and the number of handlers that ran.
fn trace(guard: &Guard, environment: &[(&str, &str)]) -> Option<(BTreeSet<String>, usize)> {
    let file = guard.0.path().join("trace");
    let strace = ["strace", "-f", "-o"].map(OsStr::new);
    let program = [&strace[..], &[file.as_os_str()]].concat();
    let body = || {
        let capture = capture(1000, CpuEngine::Auto);
        let thread = std::thread::spawn(|| {
            let _label = crate::label("query_id", 7_u64);
            let end = crate::clock::own_cpu() + 500_000_000;
            while crate::clock::own_cpu() < end {
                // Reading the clock is a traced call.
                (0..10_000).for_each(|_| drop(std::hint::black_box(vec![7; 1000])));
            }
        });
        thread.join().unwrap();
        assert!(capture.finish().unwrap().total(0) > 20);
    };
    let (output, text) = output_of(&program, TRACED, environment, body)?;
    assert!(output.status.success(), "{}\n{text}", output.status);
    Some(calls_in_handlers(&std::fs::read_to_string(file).unwrap()))
}

/// From lines as `1234 --- SIGPROF {…} ---`, `1234 clock_gettime(…) = 0`, `1234 rt_sigreturn({…}) = 0`.
fn calls_in_handlers(text: &str) -> (BTreeSet<String>, usize) {
    let (mut inside, mut unexpected, mut handlers) = (BTreeMap::new(), BTreeSet::new(), 0);
    for (thread, line) in text.lines().filter_map(|line| line.split_once(' ')) {
        let line = line.trim_start();
        if line.starts_with("--- SIGPROF ") {
            handlers += 1;
            inside.insert(thread, ());
        } else if line.starts_with("rt_sigreturn(") || line.starts_with("+++ ") {
            inside.remove(thread);
        } else if inside.contains_key(thread) && !line.starts_with("<... ") {
            unexpected.insert(line.to_owned());
        }
    }
    (unexpected, handlers)
}

#[test]
fn the_handler_makes_no_system_call() {
    let guard = Guard::build();
    let Some((unexpected, handlers)) = trace(&guard, &[]) else { return };
    println!("{handlers} handlers");
    assert!(handlers > 20 && unexpected.is_empty(), "{handlers} handlers; {unexpected:?}");
    let preload = guard.library();
    let Some((breach, _)) = trace(&guard, &[("LD_PRELOAD", &preload), ("GUARD_BREACH", "direct")]) else { return };
    assert!(
        breach.iter().all(|line| line.starts_with("getppid(")) && !breach.is_empty(),
        "the trace would not show a call: {breach:?}"
    );
}
