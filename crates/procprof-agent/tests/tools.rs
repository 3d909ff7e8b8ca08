//! Answers of the agent, read by the usual tools: `go tool pprof`, `google-pprof`, `jeprof`.

use crate::heap;
use crate::isolated::isolated;
use crate::listener::listen;
use crate::work::split_70_30;
use std::path::PathBuf;
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

/// Runs a tool that must be there; its standard output.
pub(crate) fn run(program: &str, arguments: &[&str]) -> String {
    let folder = folder();
    let mut command = Command::new(program);
    command.args(arguments).env("PPROF_TMPDIR", &folder).env("JEPROF_TMPDIR", &folder);
    let output = command.output().unwrap_or_else(|error| panic!("{program} is needed: {error}"));
    let (text, errors) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    println!("{program} {arguments:?}\n{text}\n{errors}");
    assert!(output.status.success(), "{program} {arguments:?}: {errors}");
    text.into_owned()
}

pub(crate) fn folder() -> PathBuf {
    let folder = std::env::temp_dir().join(format!("procprof-tools-{}", std::process::id()));
    std::fs::create_dir_all(&folder).unwrap();
    folder
}

pub(crate) fn own_binary() -> String {
    std::env::current_exe().unwrap().to_str().unwrap().to_owned()
}

/// Keeps a thread busy for up to 5 s of its CPU time while `body` runs: longer than a capture, shorter than what tools
/// do with it.
fn busy(body: impl FnOnce()) {
    let stop = Arc::new(AtomicBool::new(false));
    let seen = stop.clone();
    let work = std::thread::spawn(move || {
        for piece in 1..=100 {
            if !seen.load(Ordering::Relaxed) {
                split_70_30(piece * Duration::from_millis(50));
            }
        }
    });
    body();
    stop.store(true, Ordering::Relaxed);
    work.join().unwrap();
    std::fs::remove_dir_all(folder()).unwrap();
}

/// The flat percentage of a function in a `-top` or `--text` table.
fn flat_percent(table: &str, name: &str) -> f64 {
    let line = table.lines().find(|line| line.trim_end().ends_with(&format!(" {name}")));
    let line = line.unwrap_or_else(|| panic!("no {name} in\n{table}"));
    line.split_whitespace().nth(1).unwrap().trim_end_matches('%').parse().unwrap()
}

/// The two functions have nearly all that was sampled (on a busy machine much is not), 70 to 30.
fn split_is_right(table: &str) {
    let (a, b) = (flat_percent(table, "hot_70"), flat_percent(table, "hot_30"));
    let unsampled = if table.contains("[unsampled CPU]") { flat_percent(table, "[unsampled CPU]") } else { 0.0 };
    // The rest is reading clocks and the profiler's own work, a larger part where other processes have the processors.
    assert!(a + b > 0.6 * (100.0 - unsampled), "hot_70 {a} %, hot_30 {b} %, unsampled {unsampled} %\n{table}");
    assert!((a / (a + b) - 0.7).abs() < 0.15, "hot_70 {a} %, hot_30 {b} %\n{table}");
}

#[test]
fn go_tool_pprof_reads_a_live_capture() {
    isolated("tools::go_tool_pprof_reads_a_live_capture", || {
        let listener = listen(heap::agent());
        busy(|| {
            let url = format!("http://{}/debug/pprof/profile?seconds=3&frequency=1000", listener.address());
            split_is_right(&run("go", &["tool", "pprof", "-timeout=120", "-top", &url]));
        });
    });
}

#[test]
fn the_legacy_binary_is_read_by_three_tools() {
    isolated("tools::the_legacy_binary_is_read_by_three_tools", || {
        let listener = listen(heap::agent());
        busy(|| {
            let file = folder().join("cpu.prof");
            let url = format!("http://{}/pprof/profile?seconds=3&frequency=1000", listener.address());
            split_is_right(&run("go", &["tool", "pprof", "-timeout=120", "-top", "-symbolize=remote", &url]));
            run("curl", &["-sS", "--fail", "-o", file.to_str().unwrap(), &url]);
            let file = file.to_str().unwrap();
            split_is_right(&run("google-pprof", &["--text", &own_binary(), file]));
            split_is_right(&run("jeprof", &["--text", &own_binary(), file]));
        });
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
        std::fs::remove_dir_all(folder()).unwrap();
    });
}
