//! CPU profiles of a C++ program, by the tools people use.

use crate::build::{program, tool};
use crate::host::{Host, LONGER_AND_LONGER, preloaded, wait_until};
use std::process::Command;

/// The flat percentage of a function in a `-top` or `--text` table, with its parameters or without.
fn flat_percent(table: &str, name: &str) -> f64 {
    let line = table.lines().find(|line| line.split('(').next().is_some_and(|start| start.trim_end().ends_with(name)));
    let line = line.unwrap_or_else(|| panic!("no {name} in\n{table}"));
    line.split_whitespace().nth(1).unwrap().trim_end_matches('%').parse().unwrap()
}

/// Samples of the two functions at least.
const ENOUGH: f64 = 150.0;

/// Reads tables of longer and longer captures until one has enough samples: a busy machine leaves the program little time.
fn split_is_right(table_of: impl Fn(&str) -> String, samples: impl Fn(&str) -> f64) {
    for seconds in LONGER_AND_LONGER {
        let table = table_of(&format!("seconds={seconds}&frequency=250"));
        let (a, b) = (flat_percent(&table, "hot_70"), flat_percent(&table, "hot_30"));
        let samples = samples(&table) * (a + b) / 100.0;
        if samples >= ENOUGH {
            let deviation = (0.7 * 0.3 / samples).sqrt();
            let share = a / (a + b);
            assert!((share - 0.7).abs() < 5.0 * deviation, "hot_70 {a} %, hot_30 {b} % of {samples}\n{table}");
            return;
        }
    }
    panic!("too little CPU time for the program");
}

/// The number behind a text, up to the first letter, of samples or their time: at that rate one stands for 4 ms.
fn samples_after(table: &str, text: &str) -> f64 {
    let rest = table.split_once(text).unwrap_or_else(|| panic!("no {text} in\n{table}")).1;
    let end = rest.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(rest.len());
    let number: f64 = rest[..end].parse().unwrap();
    match rest[end..].chars().next() {
        Some('s') => number * 250.0,
        Some('m') => number / 4.0,
        _ => number,
    }
}

/// The threads of the program are all younger than the capture.
#[test]
fn go_tool_pprof_and_google_pprof_read_a_capture() {
    let program = program("busy.cpp", &["-fno-omit-frame-pointer"]);
    let host = Host::start(preloaded(&program));
    split_is_right(
        |query| {
            tool("go", &["tool", "pprof", "-top", "-functions", &host.url(&format!("/debug/pprof/profile?{query}"))])
        },
        |table| samples_after(table, "Total samples = "),
    );
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("profile");
    split_is_right(
        |query| {
            let url = host.url(&format!("/pprof/profile?{query}"));
            tool("curl", &["-sS", "--fail", "-o", file.to_str().unwrap(), &url]);
            tool("google-pprof", &["--text", program.to_str().unwrap(), file.to_str().unwrap()])
        },
        |table| samples_after(table, "Total: "),
    );
    assert!(host.finish().success());
}

/// Between captures there is the listener's thread and no other.
#[test]
fn only_one_thread_runs_between_requests() {
    let host = Host::start(preloaded(std::path::Path::new("/bin/cat")));
    let threads = || {
        let tasks = std::fs::read_dir(format!("/proc/{}/task", host.pid())).unwrap();
        // One that has ended meanwhile is none.
        let name = |task: std::io::Result<std::fs::DirEntry>| {
            Some(std::fs::read_to_string(task.unwrap().path().join("comm")).ok()?.trim_end().to_owned())
        };
        tasks.filter_map(name).collect::<Vec<_>>()
    };
    // A thread gives itself its name.
    wait_until("the listener's thread alone", || threads() == ["cat", "procprof-http"]);
    let capture = host.url("/debug/pprof/profile?seconds=1");
    assert!(Command::new("curl").args(["-sS", "--fail", "-o", "/dev/null", &capture]).status().unwrap().success());
    wait_until("the end of other threads", || threads().len() == 2);
    assert!(host.finish().success());
}
