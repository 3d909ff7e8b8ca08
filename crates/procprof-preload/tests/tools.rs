//! The commands people type at a process, with its binary and after the binary is gone.

use crate::build::{program, tool};
use crate::host::{Host, preloaded};
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use tempfile::TempDir;

/// A program that keeps 8 MB, with its file in a folder of its own.
fn growing() -> (TempDir, PathBuf, Host) {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("grows");
    std::fs::copy(program("grows.cpp", &[]), &file).unwrap();
    let mut host = Host::start(preloaded(&file));
    assert_eq!(host.line(), "ready 1");
    (folder, file, host)
}

fn keep_more(host: &mut Host) {
    host.go_on();
    assert_eq!(host.line(), "grown 1");
}

fn text(path: &Path) -> &str {
    path.to_str().unwrap()
}

/// Both functions, and nothing before them, are in a table.
fn has_both(table: &str) {
    let row = |name: &str| table.lines().position(|line| line.contains(name));
    let (eight, four) = (row("keep_eight_megabytes"), row("keep_four_megabytes"));
    assert!(eight.is_some() && eight < four, "{table}");
}

#[test]
fn jeprof_draws_the_heap_and_what_it_grew_by() {
    let (folder, file, mut host) = growing();
    let [before, after, pdf] = ["before", "after", "pdf"].map(|name| folder.path().join(name));
    tool("curl", &["-sS", "--fail", "-o", text(&before), &host.url("/pprof/heap")]);
    keep_more(&mut host);
    tool("curl", &["-sS", "--fail", "-o", text(&after), &host.url("/pprof/heap")]);
    let live = host.url("/debug/mem");
    for kind in ["--text", "--dot"] {
        has_both(&tool("jeprof", &[kind, text(&file), &live]));
        let grown = tool("jeprof", &[kind, text(&file), &format!("--base={}", text(&before)), text(&after)]);
        assert!(grown.contains("keep_four_megabytes") && !grown.contains("keep_eight_megabytes"), "{grown}");
    }
    let command =
        format!("exec jeprof --pdf {} --base={} {} > {}", text(&file), text(&before), text(&after), text(&pdf));
    tool("bash", &["-c", &command]);
    let words = tool("pdftotext", &[text(&pdf), "-"]);
    assert!(words.contains("keep_four_megabytes"), "{words}");
    assert!(host.finish().success());
}

#[test]
fn names_are_found_after_the_binary_is_gone() {
    let (_folder, file, mut host) = growing();
    std::fs::remove_file(file).unwrap();
    keep_more(&mut host);
    for path in ["/pprof/heap", "/debug/mem"] {
        has_both(&tool("jeprof", &["--text", &host.url(path)]));
    }
    has_both(&tool("go", &["tool", "pprof", "-top", &host.url("/debug/pprof/heap")]));
    has_both(&tool("go", &["tool", "pprof", "-top", "-symbolize=remote", &host.url("/debug/pprof/heap?symbolize=0")]));
    assert!(host.finish().success());
}

/// `go tool pprof -http`, ended when dropped.
struct Pages(Child);

impl Drop for Pages {
    fn drop(&mut self) {
        // It has ended, or is of no use any more.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[test]
fn go_tool_pprof_shows_the_pages_of_a_live_profile() {
    let (folder, _file, mut host) = growing();
    keep_more(&mut host);
    // It takes a free port where none is named. The tool itself: `go tool` would stay behind as its parent.
    let pprof = Command::new("go").args(["tool", "-n", "pprof"]).output().expect("go is needed");
    let pprof = String::from_utf8(pprof.stdout).unwrap();
    let mut command = Command::new(pprof.trim_end());
    command
        .args(["-no_browser", "-http=127.0.0.1:", &host.url("/debug/pprof/heap")])
        .env("PPROF_TMPDIR", folder.path());
    let mut pages = Pages(command.stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap());
    let mut errors = BufReader::new(pages.0.stderr.take().unwrap()).lines().map_while(Result::ok);
    let address =
        errors.find_map(|line| line.strip_prefix("Serving web UI on http://").map(str::to_owned)).expect("it serves");
    for page in ["/ui/top", "/ui/flamegraph"] {
        let answer = tool(
            "curl",
            &["-sS", "--fail", "--retry", "20", "--retry-connrefused", &format!("http://{address}{page}")],
        );
        assert!(answer.contains("keep_eight_megabytes") && answer.contains("keep_four_megabytes"), "{page}: {answer}");
    }
    assert!(host.finish().success());
}
