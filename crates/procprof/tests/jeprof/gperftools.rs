//! Profiles that gperftools' own libraries write, and those of other forms, beside jeprof and google-pprof.

// A test may unwrap in the functions it calls, too.
#![allow(clippy::unwrap_used)]

use crate::jeprof::peer::{check, ours, ours_of};
use crate::jeprof::programs::{Program, kept};
use crate::jeprof::sources;

const OUTPUTS: [&str; 4] = ["--text", "--dot", "--collapsed", "--callgrind"];

fn testdata(path: &str) -> String {
    let path = sources().join("..").join(path);
    path.canonicalize().unwrap_or_else(|error| panic!("{}: {error}", path.display())).display().to_string()
}

/// Everything that is compared about the program with a CPU profile.
pub(super) fn check_cpu(program: &Program) {
    check_cpu_profile(program);
    check_all_forms(program);
    check_symbolized(program);
    check_code(program);
}

/// Everything that is compared about the program with heap profiles.
pub(super) fn check_heap(program: &Program) {
    check_heap_profiles(program);
    check_symbols(program);
    check_google_pprof(program);
    check_code(program);
}

#[test]
fn cpu_profiles_of_gperftools_read_as_in_jeprof() {
    check_cpu_profile(kept("cpu"));
}

fn check_cpu_profile(program: &Program) {
    let (binary, [profile]) = (program.binary(), program.profiles());
    for output in OUTPUTS {
        check(program, &[output, binary, profile]);
    }
    for options in
        [&["--lines"][..], &["--addresses"], &["--cum"], &["--focus=spin"], &["--ignore=mix"], &["--nodecount=2"]]
    {
        check(program, &[&["--text"], options, &[binary, profile]].concat());
    }
    check(program, &["--text", &format!("--base={profile}"), binary, profile, profile]);
}

#[test]
fn heap_profiles_of_tcmalloc_read_as_in_jeprof() {
    check_heap_profiles(kept("tcmalloc"));
}

fn check_heap_profiles(program: &Program) {
    let (binary, [first, second, growth]) = (program.binary(), program.profiles());
    let base = format!("--base={first}");
    for output in OUTPUTS {
        check(program, &[output, binary, second]);
        check(program, &[output, binary, growth]);
        check(program, &[output, "--alloc_objects", &base, binary, second]);
    }
    check(program, &["--text", "--show_bytes", &base, "--drop_negative", binary, second]);
    check(program, &["--text", "--heapcheck", "--lines", binary, second]);
}

#[test]
fn profiles_of_all_forms_read_as_in_jeprof() {
    check_all_forms(kept("cpu"));
}

/// Forms that nothing on this machine writes, by their recordings. The binaries are not those of the recordings, so
/// addresses stay.
fn check_all_forms(program: &Program) {
    let binary = program.binary();
    for file in ["brpc/contention.brpc", "formats/contention/brpc.txt", "formats/contention/contentionz.txt"] {
        for delay in ["--total_delay", "--contentions", "--mean_delay"] {
            check(program, &["--text", delay, binary, &testdata(file)]);
            check(program, &["--dot", delay, binary, &testdata(file)]);
        }
    }
    for file in ["growth.heap", "heap_v2.heap", "heapz_v2.heap", "untyped.heap", "work.heap"] {
        check(program, &["--text", "--show_bytes", binary, &testdata(&format!("formats/heap-text/{file}"))]);
    }
}

#[test]
fn symbolized_profiles_read_as_in_jeprof_without_a_program() {
    check_symbolized(kept("cpu"));
}

fn check_symbolized(program: &Program) {
    for file in ["heap.raw", "contention.raw"] {
        for output in ["--text", "--dot", "--collapsed"] {
            check(program, &[output, &testdata(&format!("formats/symbolized/{file}"))]);
        }
    }
}

#[test]
fn symbols_are_named_as_by_jeprof() {
    check_symbols(kept("tcmalloc"));
}

/// jeprof reads a memory map and addresses on standard input; so do we, and print the same names.
fn check_symbols(program: &Program) {
    let [_, second, _] = program.profiles();
    let profile = std::fs::read_to_string(second).unwrap();
    let (stacks, map) = profile.split_once("MAPPED_LIBRARIES:").unwrap();
    let addresses: Vec<&str> = stacks.split_whitespace().filter(|word| word.starts_with("0x")).collect();
    assert!(addresses.len() > 20, "{stacks}");
    let input = format!("{map}\n{}\n0x10\n", addresses.join("\n"));
    let peers = program.answer_to(&["jeprof", "--symbols", program.binary()], "addresses", &input).printed();
    let own = ours_of(&["--symbols", program.binary()], &input);
    assert!(peers.contains("keep_texts"), "{peers}");
    assert_eq!(String::from_utf8(own.stdout).unwrap(), peers);
}

#[test]
fn google_pprof_prints_the_same_functions() {
    check_google_pprof(kept("tcmalloc"));
}

/// The tool of gperftools itself prints the same totals and functions, though it has a rule less for names.
fn check_google_pprof(program: &Program) {
    let arguments = ["--text", program.binary(), program.profiles::<3>()[1]];
    let rows = |printed: &str| -> Vec<String> {
        let is_compared = |line: &&str| line.contains("keep_") || line.starts_with("Total");
        let mut rows: Vec<String> = printed.lines().filter(is_compared).map(str::to_owned).collect();
        rows.sort();
        rows
    };
    let peers = program.answer(&[&["google-pprof"], &arguments[..]].concat()).printed();
    let own = String::from_utf8(ours(&arguments).stdout).unwrap();
    assert!(rows(&own).len() >= 3, "{own:?}");
    assert_eq!(rows(&own), rows(&peers));
}

/// Names of what is jumped to are left out: binutils makes up some for entries of the procedure linkage table.
fn without_targets(printed: &str) -> Vec<String> {
    let target = regex::Regex::new(r"( +#.*)?( *<[^<>]*>)*$").unwrap();
    printed.lines().map(|line| target.replace(line, "").trim_end().to_owned()).collect()
}

#[test]
fn sources_and_machine_code_print_as_in_jeprof() {
    check_code(kept("cpu"));
    check_code(kept("tcmalloc"));
}

fn check_code(program: &Program) {
    let (profile, patterns) = match program.name {
        "cpu" => (
            program.profiles::<1>()[0],
            &["--disasm=spin", "--disasm=divide|^main", "--list=spin", "--list=divide|main"][..],
        ),
        _ => (program.profiles::<3>()[1], &["--disasm=keep_", "--list=keep_|main"][..]),
    };
    for pattern in patterns {
        let arguments = [pattern, program.binary(), profile];
        let own = without_targets(&String::from_utf8_lossy(&ours(&arguments).stdout));
        let peers = without_targets(&program.answer(&[&["jeprof"], &arguments[..]].concat()).printed());
        assert!(peers.iter().any(|line| line.starts_with("ROUTINE")), "{arguments:?}: {peers:#?}");
        // A listing has the lines of the source.
        assert!(pattern.starts_with("--disasm") || peers.iter().any(|line| line.contains('{')), "{peers:#?}");
        assert_eq!(own, peers, "{arguments:?}");
    }
}
