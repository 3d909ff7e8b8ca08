//! Filters of system calls for all threads that are loaded while threads of the library start and end.

use crate::build::program;
use crate::host::{Host, preloaded, wait_until};
use std::process::Command;

/// Runs in which a filter is loaded at different moments after the start of a thread.
const MOMENTS: u32 = 20;

/// Microseconds between two of these moments.
const STEP: u32 = 60;

fn loads_a_filter(action: &str, when: &str, moment: u32) -> Command {
    let mut command = preloaded(&program("late_filter.c", &[]));
    command.args([action, when, &(moment * STEP).to_string()]);
    command
}

/// The C library ends a process in which a thread cannot register its restartable sequences.
#[test]
fn a_filter_right_after_the_start_meets_no_thread_that_is_starting() {
    for action in ["errno", "kill"] {
        for moment in 0..MOMENTS {
            let mut command = loads_a_filter(action, "begin", moment);
            command.env("PROCPROF_LISTEN", "127.0.0.1:0").env("PROCPROF_CONTENTION", "on");
            let output = command.output().unwrap();
            assert_eq!(
                (output.status.code(), &*String::from_utf8_lossy(&output.stdout)),
                (Some(0), "ready\nok\n"),
                "{action}, {} us after its start: {}, {}",
                moment * STEP,
                output.status,
                String::from_utf8_lossy(&output.stderr)
            );
        }
    }
}

#[test]
fn a_filter_amid_the_beginning_of_a_capture_ends_nothing() {
    for (action, path) in [
        ("errno", "/debug/pprof/profile?seconds=1"),
        ("kill", "/debug/pprof/profile?seconds=1"),
        ("kill", "/debug/pprof/contention?seconds=1"),
        ("kill", "/debug/pprof/heap"),
    ] {
        for moment in 0..MOMENTS {
            let mut host = Host::start(loads_a_filter(action, "line", moment));
            assert_eq!(host.line(), "ready");
            let capture = host.begin(path);
            host.go_on();
            let line = host.line();
            let status = host.finish();
            assert_eq!(
                (line.as_str(), status.code()),
                ("ok", Some(0)),
                "{action} during {path}, {} us after its line: {status}",
                moment * STEP
            );
            // It has ended with its program, or before the filter was loaded.
            wait_until("the end of the capture", || capture.is_finished());
        }
    }
}
