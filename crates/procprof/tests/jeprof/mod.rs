//! `procprof jeprof` beside jeprof itself: real heap dumps of a C, a C++ and a Rust program.

mod gperftools;
pub(crate) mod kept;
pub(crate) mod peer;
pub(crate) mod programs;

use std::process::Command;

use crate::harness::{folder, procprof, text};
use peer::{check, exceptions};
use programs::{Program, c_program, cpp_program, demo_node, rust_program};

const INDEXES: [&str; 4] = ["--inuse_space", "--inuse_objects", "--alloc_space", "--alloc_objects"];
const OUTPUTS: [&str; 3] = ["--text", "--dot", "--collapsed"];

/// Options besides output and index, each tried with `--text` and `--dot`.
const OPTIONS: &[&[&str]] = &[
    &["--lines"],
    &["--files"],
    &["--addresses"],
    &["--cum"],
    &["--show_bytes"],
    &["--focus=work"],
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

/// Which of all pairs a program tries. jeprof takes a second or more for each, and what an option does is not the
/// binary's: over the three programs every one is tried in every output, and one program has them all in
/// `cargo xtask soak long`.
#[derive(Clone, Copy)]
enum Part {
    All,
    /// Every third pair, from this one on.
    Third(usize),
}

impl Part {
    fn has(self, number: usize) -> bool {
        match self {
            Part::All => true,
            Part::Third(first) => number % 3 == first,
        }
    }
}

/// Every index with and without a base, in every output, of both heap dumps.
fn check_indexes(program: &Program, part: Part) {
    let [first, second] = program.heaps();
    let base = format!("--base={first}");
    for (number, index) in INDEXES.into_iter().enumerate() {
        for (place, output) in OUTPUTS.into_iter().enumerate() {
            let forms: [&[&str]; 3] = [
                &[output, index, program.binary(), first],
                &[output, index, program.binary(), second],
                &[output, index, &base, program.binary(), second],
            ];
            let tried = forms.into_iter().enumerate().filter(|(form, _)| part.has(number + place + form));
            tried.for_each(|(_, arguments)| check(program, arguments));
        }
    }
    check(program, &["--text", &base, "--drop_negative", program.binary(), second]);
    check(program, &["--text", program.binary(), first, second]);
    check(program, &["--callgrind", program.binary(), second]);
}

fn check_options(program: &Program, part: Part) {
    let [_, second] = program.heaps();
    for (number, options) in OPTIONS.iter().enumerate() {
        let tried = ["--text", "--dot"].into_iter().enumerate().filter(|(place, _)| part.has(number + place));
        for (_, output) in tried {
            // Options may follow the files, too.
            check(program, &[&[output, program.binary(), second], *options].concat());
        }
    }
}

#[test]
fn c_program_reads_as_in_jeprof() {
    let program = c_program();
    check_indexes(program, Part::Third(0));
    check_options(program, Part::Third(0));
}

#[test]
fn cpp_program_reads_as_in_jeprof() {
    let program = cpp_program();
    check_indexes(program, Part::Third(1));
    check_options(program, Part::Third(1));
}

#[test]
fn rust_program_reads_as_in_jeprof() {
    let program = rust_program();
    check_indexes(program, Part::Third(2));
    check_options(program, Part::Third(2));
}

#[test]
#[ignore = "takes minutes: `cargo xtask soak long` runs it"]
fn every_pair_of_every_program_reads_as_in_jeprof() {
    for program in [c_program(), cpp_program(), rust_program()] {
        check_indexes(program, Part::All);
        check_options(program, Part::All);
    }
}

/// jeprof takes seconds for a binary of this size, so not every option is tried.
#[test]
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
    let program = c_program();
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
    let (program, folder) = (c_program(), folder());
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
    let program = c_program();
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
        peer::check_failure(arguments);
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
    let program = cpp_program();
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
