//! The jeprof and pprof commands in the documents of Databend and StarRocks, exactly as written: with our demo process
//! in place of theirs, a link named jeprof, and `procprof report` for `go tool pprof`.

#![allow(clippy::unwrap_used, reason = "a failing unwrap is a failing test")]

use std::io::Write;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::{Command, Output, Stdio};

use crate::harness::{cache, curl, folder, text};
use crate::processes::Profiled;

/// A command and what must be there afterwards.
struct Row {
    /// Which document it is from.
    from: &'static str,
    command: &'static str,
    /// The keys typed on the terminal once it runs; `None` for a command without any.
    keys: Option<&'static str>,
    expected: Expected,
}

enum Expected {
    /// The terminal shows each of these.
    Shown(&'static [&'static str]),
    /// The file begins with the first and holds the second.
    File(&'static str, &'static [u8], &'static str),
}

const fn row(from: &'static str, command: &'static str, expected: Expected) -> Row {
    Row { from, command, keys: None, expected }
}

const fn typed(from: &'static str, command: &'static str, keys: &'static str, expected: Expected) -> Row {
    Row { from, command, keys: Some(keys), expected }
}

use Expected::{File, Shown};

/// `ADDR` is replaced by the address of the process, `BIN` by its program; `curl_later` is the documents' `curl`, given
/// when the process has more memory than before.
const ROWS: &[Row] = &[
    typed(
        "Databend: go pprof tool",
        "procprof report http://ADDR/debug/pprof/profile?seconds=2",
        "top\n",
        Shown(&[
            "Fetching profile over HTTP from http://ADDR/debug/pprof/profile?seconds=2",
            "Saved profile in ",
            "Type: cpu",
            "Entering interactive mode (type \"help\" for commands, \"o\" for options)",
            "(pprof) Showing nodes",
            "Showing top 10 nodes out of",
            "flat  flat%   sum%        cum   cum%",
        ]),
    ),
    row(
        "Databend: memory",
        "curl -s 'http://ADDR/debug/mem/pprof/profile?seconds=0' > a.prof",
        File("a.prof", b"heap_v2/", "MAPPED_LIBRARIES"),
    ),
    row(
        "Databend: memory",
        "curl_later a.prof b.prof 'http://ADDR/debug/mem/pprof/profile?seconds=0'",
        File("b.prof", b"heap_v2/", "@ 0x"),
    ),
    typed(
        "Databend: dump a heap snapshot",
        "jeprof BIN http://ADDR/debug/mem --seconds=1",
        "top\ntop5000\nhelp\n",
        Shown(&[
            "Using local file BIN.",
            "Gathering CPU profile from http://ADDR/debug/mem/pprof/profile?seconds=1 for 1 seconds to",
            "Be patient...",
            "Wrote profile to ",
            "Welcome to jeprof!  For help, type 'help'.",
            "(jeprof) Total: ",
            " MB",
            "grow_cache",
            "Commands:",
        ]),
    ),
    row(
        "Databend: call graph of an interval",
        "jeprof \\\n    --show_bytes \\\n    --nodecount=1024 \\\n    --nodefraction=0.001 \\\n    --edgefraction=0.001 \\\n    --maxdegree=64 \\\n    --pdf \\\n    \
         BIN \\\n    --base=a.prof \\\n    b.prof \\\n    > mem.pdf",
        File("mem.pdf", b"%PDF-", "%%EOF"),
    ),
    row("Databend: simplified", "jeprof --pdf BIN b.prof > heap.pdf", File("heap.pdf", b"%PDF-", "%%EOF")),
    row("StarRocks: snapshot", "curl -s http://ADDR/pprof/heap >a.heap", File("a.heap", b"heap_v2/", "@ 0x")),
    row(
        "StarRocks: a later one",
        "curl_later a.heap b.heap http://ADDR/pprof/heap",
        File("b.heap", b"heap_v2/", "@ 0x"),
    ),
    row(
        "StarRocks: the difference",
        "jeprof --dot BIN --base=a.heap b.heap >a.dot",
        File("a.dot", b"digraph \"", "grow_cache"),
    ),
    row("StarRocks: as PDF", "dot -Tpdf a.dot -o a.pdf", File("a.pdf", b"%PDF-", "%%EOF")),
    row(
        "pipelines to a flame graph",
        "jeprof --collapsed BIN b.heap > heap.folded",
        File("heap.folded", b"", "grow_cache"),
    ),
    row(
        "StarRocks: conversion of CPU profiles",
        "curl -s 'http://ADDR/pprof/profile?seconds=1' > cpu.prof; jeprof --collapsed BIN cpu.prof > cpu.folded",
        File("cpu.folded", b"", ";"),
    ),
    row("the same, at once", "procprof report --flamegraph -o cpu.svg BIN cpu.prof", File("cpu.svg", b"<", "</svg>")),
    row(
        "jeprof's own help: host:port",
        "jeprof --text ADDR/pprof/heap > heap.txt",
        File("heap.txt", b"Total: ", "grow_cache"),
    ),
    row(
        "jeprof's own help: raw",
        "jeprof --raw ADDR/pprof/heap > heap.raw && jeprof --text heap.raw > raw.txt",
        File("raw.txt", b"Total: ", "grow_cache"),
    ),
    row(
        "a faster addr2line",
        "jeprof --text --tools=addr2line:/opt/addr2line BIN b.heap > fast.txt",
        File("fast.txt", b"Total: ", "grow_cache"),
    ),
];

#[test]
fn commands_work_as_they_are_printed() {
    let (node, folder) = (Profiled::demo_node(), folder());
    let path = tools(folder.path());
    let filled = |text: &str| text.replace("ADDR", &node.address).replace("BIN", node.binary.to_str().unwrap());
    for Row { from, command, keys, expected } in ROWS {
        let command = filled(command);
        let mut shell = match keys {
            None => Command::new("bash"),
            Some(_) => Command::new("script"),
        };
        match keys {
            None => shell.args(["-c", &format!("set -o pipefail; {command}")]),
            Some(_) => shell.args(["-qec", &command, "/dev/null"]),
        };
        // The names of the large program are read once.
        shell.env("PROCPROF_CACHE_DIR", cache());
        let output = run(
            shell.env("PATH", &path).env("HOME", folder.path()).env("TERM", "dumb").current_dir(folder.path()),
            keys.unwrap_or_default(),
        );
        assert!(output.status.success(), "{from}: {command}: {}", text(&output));
        let shown = text(&output).replace('\r', "");
        match expected {
            Shown(texts) => {
                for expected in *texts {
                    assert!(shown.contains(&filled(expected)), "{from}: {command}: lacks {expected}\n{shown}");
                }
            }
            File(name, begins, holds) => {
                let bytes = std::fs::read(folder.path().join(name)).unwrap();
                assert!(
                    bytes.starts_with(begins),
                    "{from}: {command}: {:?}",
                    String::from_utf8_lossy(&bytes[..bytes.len().min(80)])
                );
                assert!(
                    String::from_utf8_lossy(&bytes).contains(holds),
                    "{from}: {command}: {name} lacks {holds}: {shown}"
                );
            }
        }
    }
}

/// Requests heap dumps until one has more live bytes than an earlier one.
const CURL_LATER: &str = r#"#!/bin/sh
live() { sed -n 's/^ *t\*: [0-9]*: \([0-9]*\) .*/\1/p' "$1" | head -n 1; }
until curl -s "$3" >"$2" && [ "$(live "$2")" -gt "$(live "$1")" ]; do sleep 0.1; done
"#;

/// A folder of programs in front of the machine's: the command, and a link to it named jeprof.
fn tools(folder: &Path) -> String {
    let bin = folder.join("bin");
    std::fs::create_dir(&bin).unwrap();
    for name in ["procprof", "jeprof"] {
        std::os::unix::fs::symlink(env!("CARGO_BIN_EXE_procprof"), bin.join(name)).unwrap();
    }
    std::fs::write(bin.join("curl_later"), CURL_LATER).unwrap();
    std::fs::set_permissions(bin.join("curl_later"), PermissionsExt::from_mode(0o755)).unwrap();
    format!("{}:{}", bin.display(), std::env::var("PATH").unwrap())
}

fn run(command: &mut Command, keys: &str) -> Output {
    let piped = command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child =
        piped.spawn().unwrap_or_else(|error| panic!("this test needs {}: {error}", command.get_program().display()));
    drop(child.stdin.take().unwrap().write_all(keys.as_bytes()));
    child.wait_with_output().unwrap()
}

/// `go tool pprof -http=0.0.0.0:8081 FILE`, as Databend's page has it.
#[test]
fn the_web_view_of_a_file_is_served_where_the_documents_say() {
    let profile = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../testdata/report/go.cpu.pb.gz");
    let mut command = crate::harness::procprof();
    command.args(["report", "-http=0.0.0.0:0", "-no_browser"]).arg(&profile);
    let mut child = command.stderr(Stdio::piped()).spawn().unwrap();
    let mut lines = std::io::BufRead::lines(std::io::BufReader::new(child.stderr.take().unwrap()));
    let line = lines.next().unwrap().unwrap();
    let url = line.strip_prefix("Serving web UI on ").unwrap_or_else(|| panic!("it printed {line:?}")).to_owned();
    let get = |path: &str, more: &[&str]| {
        let url = format!("{url}{path}");
        let (status, body) = curl(&[more, &["-L", url.as_str()]].concat());
        (status, String::from_utf8_lossy(&body).into_owned())
    };
    let (status, page) = get("/", &[]);
    assert!(status == 200 && page.contains("Flame graph") && page.contains("go.cpu.pb.gz"), "{status}: {page}");
    assert_eq!(get("/", &["-H", "Host: elsewhere.example"]).0, 403, "a name that somebody else points here");
    let (root, _) = url.rsplit_once('/').unwrap();
    assert_eq!(curl(&[&format!("{root}/view/top")]).0, 403, "without the token of the address");
    assert_eq!(get("/view/nothing", &[]).0, 404);
    assert_eq!(get("/view/top?focus=(", &[]).0, 400);
    let (status, top) = get("/view/top?focus=json&nodecount=5", &[]);
    assert!(status == 200 && top.contains("Active filters") && top.contains("Showing top 5 nodes"), "{top}");
    crate::harness::signal(child.id(), "TERM");
    assert!(child.wait().unwrap().success());
}
