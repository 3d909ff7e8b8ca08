//! Answers of the agent, read by the usual tools: `go tool pprof`, `google-pprof`, `jeprof`.

use crate::heap;
use crate::isolated::isolated;
use crate::listener::listen;
use crate::work::{LONGER_AND_LONGER, split_70_30, thread_cpu};
use std::process::Command;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

/// Runs a tool that must be there; its standard output.
pub(crate) fn run(program: &str, arguments: &[&str]) -> String {
    let folder = tempfile::tempdir().unwrap();
    let mut command = Command::new(program);
    command.args(arguments).env("PPROF_TMPDIR", folder.path()).env("JEPROF_TMPDIR", folder.path());
    let output = command.output().unwrap_or_else(|error| panic!("{program} is needed: {error}"));
    let (text, errors) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    println!("{program} {arguments:?}\n{text}\n{errors}");
    assert!(output.status.success(), "{program} {arguments:?}: {errors}");
    text.into_owned()
}

pub(crate) fn own_binary() -> String {
    std::env::current_exe().unwrap().to_str().unwrap().to_owned()
}

/// Keeps a thread busy while `body` runs.
fn busy<T>(body: impl FnOnce() -> T) -> T {
    let stop = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            while !stop.load(Ordering::Relaxed) {
                split_70_30(thread_cpu() + Duration::from_millis(10));
            }
        });
        let result = std::panic::catch_unwind(std::panic::AssertUnwindSafe(body));
        stop.store(true, Ordering::Relaxed);
        result.unwrap_or_else(|panic| std::panic::resume_unwind(panic))
    })
}

/// The flat percentage of a function in a `-top` or `--text` table.
fn flat_percent(table: &str, name: &str) -> f64 {
    let line = table.lines().find(|line| line.trim_end().ends_with(&format!(" {name}")));
    let line = line.unwrap_or_else(|| panic!("no {name} in\n{table}"));
    line.split_whitespace().nth(1).unwrap().trim_end_matches('%').parse().unwrap()
}

/// The samples per second that captures request, which the kernel's tick allows, too.
const HZ: f64 = 250.0;
/// Samples of the two functions at least.
const ENOUGH: f64 = 150.0;

/// Samples behind a text, up to the first letter, or their time.
fn samples_after(table: &str, text: &str) -> f64 {
    let rest = table.split_once(text).unwrap_or_else(|| panic!("no {text} in\n{table}")).1;
    let end = rest.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(rest.len());
    let number: f64 = rest[..end].parse().unwrap();
    match rest[end..].chars().next() {
        Some('s') => number * HZ,
        Some('m') => number * HZ / 1000.0,
        _ => number,
    }
}

/// Whether a table has enough samples. Then the two functions have nearly all of them (on a busy machine much is not
/// sampled), 70 to 30 within five standard deviations.
fn split_is_right(table: &str, total: &str) -> bool {
    let (a, b) = (flat_percent(table, "hot_70"), flat_percent(table, "hot_30"));
    let unsampled = if table.contains("[unsampled CPU]") { flat_percent(table, "[unsampled CPU]") } else { 0.0 };
    let samples = samples_after(table, total) * (a + b) / 100.0;
    if samples < ENOUGH {
        return false;
    }
    // The rest is reading clocks and the profiler's own work, a larger part where other processes have the processors.
    assert!(a + b > 0.6 * (100.0 - unsampled), "hot_70 {a} %, hot_30 {b} %, unsampled {unsampled} %\n{table}");
    let deviation = (0.7 * 0.3 / samples).sqrt();
    assert!((a / (a + b) - 0.7).abs() < 5.0 * deviation, "hot_70 {a} %, hot_30 {b} % of {samples} samples\n{table}");
    true
}

#[test]
fn go_tool_pprof_reads_a_live_capture() {
    isolated("tools::go_tool_pprof_reads_a_live_capture", || {
        let listener = listen(heap::agent());
        let is_right = busy(|| {
            LONGER_AND_LONGER.iter().any(|seconds| {
                let query = format!("seconds={seconds}&frequency={HZ}");
                let url = format!("http://{}/debug/pprof/profile?{query}", listener.address());
                split_is_right(&run("go", &["tool", "pprof", "-timeout=300", "-top", &url]), "Total samples = ")
            })
        });
        assert!(is_right, "too little CPU time for the thread");
    });
}

#[test]
fn the_legacy_binary_is_read_by_three_tools() {
    isolated("tools::the_legacy_binary_is_read_by_three_tools", || {
        let listener = listen(heap::agent());
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("cpu.prof").to_str().unwrap().to_owned();
        let table = LONGER_AND_LONGER.iter().find_map(|seconds| {
            let query = format!("seconds={seconds}&frequency={HZ}");
            let url = format!("http://{}/pprof/profile?{query}", listener.address());
            busy(|| run("curl", &["-sS", "--fail", "-o", &file, &url]));
            let table = run("google-pprof", &["--text", &own_binary(), &file]);
            split_is_right(&table, "Total: ").then_some(table)
        });
        assert!(table.is_some(), "too little CPU time for the thread");
        assert!(split_is_right(&run("jeprof", &["--text", &own_binary(), &file]), "Total: "));
        let url = format!("http://{}/pprof/profile?seconds=2&frequency={HZ}", listener.address());
        let table = busy(|| run("go", &["tool", "pprof", "-timeout=300", "-top", "-symbolize=remote", &url]));
        assert!(flat_percent(&table, "hot_70") > 0.0 && flat_percent(&table, "hot_30") > 0.0, "{table}");
    });
}

#[test]
fn jeprof_and_go_read_the_heap() {
    isolated("tools::jeprof_and_go_read_the_heap", || {
        let listener = listen(heap::agent());
        let kept = heap::keep_eight_megabytes();
        let address = listener.address();
        let table = run("jeprof", &["--text", "--cum", &own_binary(), &format!("http://{address}/debug/mem")]);
        assert!(table.contains("keep_eight_megabytes"), "{table}");
        let table = run(
            "go",
            &[
                "tool",
                "pprof",
                "-timeout=120",
                "-top",
                "-cum",
                "-sample_index=inuse_space",
                &format!("http://{address}/debug/pprof/heap"),
            ],
        );
        assert!(table.contains("keep_eight_megabytes"), "{table}");
        drop(kept);
    });
}
