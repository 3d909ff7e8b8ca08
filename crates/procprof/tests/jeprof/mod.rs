//! `procprof jeprof` beside jeprof itself: real heap dumps of a C, a C++ and a Rust program.
//!
//! Programs, profiles and answers are kept in `testdata/jeprof`; its README.md says how to make them anew.

// A test may unwrap in the functions it calls, too.
#![allow(clippy::unwrap_used)]

mod binutils;
mod gperftools;
mod kept;
pub(crate) mod peer;
pub(crate) mod programs;
mod stubs;

use std::path::PathBuf;
use std::process::Command;

use crate::harness::{folder, procprof, text};
use peer::{check, exceptions};
use programs::{Program, demo_node, kept, made, made_to_keep, names};

/// The folder of sources and of kept answers.
pub(crate) fn sources() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../testdata/jeprof").canonicalize().unwrap()
}

const INDEXES: [&str; 4] = ["--inuse_space", "--inuse_objects", "--alloc_space", "--alloc_objects"];
const OUTPUTS: [&str; 3] = ["--text", "--dot", "--collapsed"];

/// Options besides output and index, each tried with `--text` and `--dot`.
const OPTIONS: &[&[&str]] = &[
    &["--lines"],
    &["--files"],
    &["--addresses"],
    &["--cum"],
    &["--show_bytes"],
    &["--focus=main", "--ignore=realloc|Rare|fold"],
    &["--ignore=by_text|make"],
    &["--retain=by_|shop|procprof|grow|index"],
    &["--exclude=^_|std::"],
    &["--nodecount=5"],
    &["--nodefraction=0.1"],
    &["--edgefraction=0.05"],
    &["--maxdegree=1"],
    &["--heapcheck"],
    &["--thread=0"],
    &["--scale=200"],
    &["--thread=*"],
];

/// Every index with and without a base, in every output, of both heap dumps.
fn check_indexes(program: &Program) {
    let [first, second] = program.heaps();
    let base = format!("--base={first}");
    for index in INDEXES {
        for output in OUTPUTS {
            check(program, &[output, index, program.binary(), first]);
            check(program, &[output, index, program.binary(), second]);
            check(program, &[output, index, &base, program.binary(), second]);
        }
    }
    check(program, &["--text", &base, "--drop_negative", program.binary(), second]);
    check(program, &["--text", program.binary(), first, second]);
    check(program, &["--callgrind", program.binary(), second]);
}

fn check_options(program: &Program) {
    let [_, second] = program.heaps();
    // No function of the Rust program is named work.
    let focus: &[&str] = if program.name == "cpp" { &["--focus=work"] } else { &["--focus=work|grow"] };
    for options in OPTIONS.iter().chain([&focus]) {
        for output in ["--text", "--dot"] {
            // Options may follow the files, too.
            check(program, &[&[output, program.binary(), second], *options].concat());
        }
    }
}

#[test]
fn c_program_reads_as_in_jeprof() {
    check_indexes(kept("c"));
    check_options(kept("c"));
}

#[test]
fn cpp_program_reads_as_in_jeprof() {
    check_indexes(kept("cpp"));
    check_options(kept("cpp"));
}

#[test]
fn rust_program_reads_as_in_jeprof() {
    check_indexes(kept("rust"));
    check_options(kept("rust"));
}

/// Everything that is compared about a program.
fn check_all(program: &Program) {
    match program.name {
        "cpu" => gperftools::check_cpu(program),
        "tcmalloc" => gperftools::check_heap(program),
        _ => {
            check_indexes(program);
            check_options(program);
        }
    }
    if program.name == "c" {
        check_misuse(program);
        crate::shell::check_session(program);
    }
}

#[test]
#[ignore = "takes minutes: `cargo xtask soak long` runs it"]
fn programs_made_anew_read_as_in_jeprof() {
    names().for_each(|name| check_all(&made(name)));
}

/// Writes `testdata/jeprof/NAME.zst` if `UPDATE_EXPECT` is set.
#[test]
#[ignore = "takes minutes: `cargo xtask soak long` runs it"]
fn answers_to_keep_are_those_of_jeprof() {
    names().for_each(|name| made_to_keep(name, check_all));
}

/// jeprof takes a minute for a binary of this size.
#[test]
#[ignore = "takes minutes: `cargo xtask soak long` runs it"]
fn large_rust_program_reads_as_in_jeprof() {
    let program = demo_node();
    let [first, second] = program.heaps();
    let base = format!("--base={first}");
    for arguments in [
        &["--text"][..],
        &["--text", "--lines", "--inuse_objects"],
        &["--dot", &base],
        &["--dot", "--addresses", "--alloc_space"],
        &["--collapsed"],
        &["--collapsed", "--alloc_objects"],
    ] {
        check(program, &[arguments, &[program.binary(), second]].concat());
    }
}

#[test]
fn a_link_named_jeprof_is_a_drop_in() {
    let program = kept("c");
    let [_, second] = program.heaps();
    let folder = folder();
    let link = folder.path().join("jeprof");
    std::os::unix::fs::symlink(env!("CARGO_BIN_EXE_procprof"), &link).unwrap();
    let linked = Command::new(&link).args(["-tex", program.binary(), second, "-inuse_o"]).output().unwrap();
    let named = procprof().args(["jeprof", "--text", "--inuse_objects", program.binary(), second]).output().unwrap();
    assert!(linked.status.success(), "{}", text(&linked));
    assert_eq!(text(&linked), text(&named));
    assert!(text(&linked).contains("Using local file"));
}

#[test]
fn addresses_of_a_replaced_program_are_reported() {
    let (program, folder) = (kept("c"), folder());
    let [_, second] = program.heaps();
    let heap = std::fs::read_to_string(second).unwrap();
    let gone = folder.path().join("gone.heap");
    std::fs::write(
        &gone,
        heap.replace(&format!("{}\n", program.binary()), &format!("{} (deleted)\n", program.binary())),
    )
    .unwrap();
    let output = procprof().args(["jeprof", "--text", program.binary()]).arg(&gone).output().unwrap();
    let printed = text(&output);
    assert!(
        output.status.success()
            && printed.contains(&format!("{} was removed or replaced while it ran", program.binary())),
        "{printed}"
    );
    let whole = procprof().args(["jeprof", "--text", program.binary(), second]).output().unwrap();
    assert!(!text(&whole).contains("was removed"), "{}", text(&whole));
}

#[test]
fn misuse_is_reported_as_by_jeprof() {
    check_misuse(kept("c"));
}

fn check_misuse(program: &Program) {
    let (binary, [_, second]) = (program.binary(), program.heaps());
    for arguments in [
        &["--text", "--dot", binary, second][..],
        &["--lines", "--files", binary, second],
        &["--inuse_space", "--alloc_space", binary, second],
        &["--bogus", binary, second],
        &["--in", binary, second],
        &["--nodecount=x", binary, second],
        &["--text", binary],
        &["--dot", "--nodefraction=2", binary, second],
        &["--raw", binary, second],
    ] {
        peer::check_failure(program, arguments);
    }
}

#[test]
fn errors_for_missing_features_name_the_replacement() {
    for (option, instead) in [
        ("--gv", "--svg"),
        ("--evince", "--pdf"),
        ("--web", "--svg"),
        ("--ps", "--pdf"),
        ("--gif", "--svg"),
        ("--test", "not part of this program"),
    ] {
        let output = procprof().args(["jeprof", option, "program", "profile"]).output().unwrap();
        assert_eq!(output.status.code(), Some(1), "{option}");
        assert!(text(&output).contains(option) && text(&output).contains(instead), "{option}: {}", text(&output));
    }
}

#[test]
fn drawn_graphs_have_the_nodes_and_edges_of_dot() {
    let program = kept("cpp");
    let [first, second] = program.heaps();
    let (binary, base) = (program.binary(), format!("--base={first}"));
    let run = |output: &str| {
        let words = [
            "jeprof",
            output,
            "--show_bytes",
            "--maxdegree=20",
            "--nodecount=1024",
            "--nodefraction=.0",
            binary,
            &base,
            second,
        ];
        let output = procprof().args(words).output().unwrap();
        assert!(output.status.success(), "{}", text(&output));
        output.stdout
    };
    let [dot, svg] = ["--dot", "--svg"].map(|output| String::from_utf8(run(output)).unwrap());
    let lines = |text: &str, start: &str, part: &str| {
        text.lines().filter(|line| line.starts_with(start) && line.contains(part)).count()
    };
    let (nodes, edges) = (lines(&dot, "N", "shape=box"), lines(&dot, "N", " -> "));
    assert!(nodes > 10 && edges > 10, "{dot}");
    assert_eq!((lines(&svg, "<g class=\"n", ""), lines(&svg, "<g class=\"e", "")), (nodes, edges));
    assert!(svg.contains("font-family:Times") && svg.contains("font-size=\"24\"") && svg.contains("Focusing on: "));

    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("mem.pdf");
    let pdf = run("--pdf");
    std::fs::write(&path, &pdf).unwrap();
    let sides =
        String::from_utf8_lossy(&pdf).split("/MediaBox [0 0 ").nth(1).unwrap().split(']').next().unwrap().to_owned();
    let sides: Vec<f64> = sides.split(' ').map(|side| side.parse().unwrap()).collect();
    let whole: Vec<f64> = svg
        .split("viewBox=\"0 0 ")
        .nth(1)
        .unwrap()
        .split('"')
        .next()
        .unwrap()
        .split(' ')
        .map(|side| side.parse().unwrap())
        .collect();
    // jeprof's page is of 8 by 11 inches, but texts stay readable.
    let scale = (576.0 / whole[0]).min(792.0 / whole[1]).clamp(0.4, 1.0);
    assert!(
        (sides[0] - scale * whole[0]).abs() < 1.0 && (sides[1] - scale * whole[1]).abs() < 1.0,
        "{sides:?} of {whole:?}"
    );
    let names = Command::new("pdftotext")
        .arg("-raw")
        .arg(&path)
        .arg("-")
        .output()
        .expect("`pdftotext` must be installed for this test");
    let names = String::from_utf8_lossy(&names.stdout).into_owned();
    for label in dot
        .lines()
        .filter(|line| line.starts_with('N') && line.contains("shape=box,fontsize="))
        .filter_map(|line| line.split("label=\"").nth(1))
    {
        let name = label.split("\\n").next().unwrap();
        assert!(names.contains(name), "{name:?} is not in the page");
    }
}

#[test]
fn every_exception_has_a_cause() {
    let exceptions = exceptions();
    assert!(exceptions.iter().all(|exception| !exception.cause.is_empty()));
}
