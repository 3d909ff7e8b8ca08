//! Profiles that gperftools' own libraries write, and those of other forms, beside jeprof and google-pprof.

// A test may unwrap in the functions it calls, too.
#![allow(clippy::unwrap_used)]

use std::path::{Path, PathBuf};
use std::process::Command;

use tempfile::TempDir;

use crate::harness::{folder, procprof, text};
use crate::jeprof::peer::check_named;
use crate::jeprof::programs::{compile, run};

const OUTPUTS: [&str; 4] = ["--text", "--dot", "--collapsed", "--callgrind"];

fn testdata(path: &str) -> String {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../testdata").join(path);
    path.canonicalize().unwrap_or_else(|error| panic!("{}: {error}", path.display())).display().to_string()
}

/// A program of `testdata/jeprof`, run with what is to be written as its one word.
fn ran(compiler: &str, source: &str, library: &str, environment: (&str, &str)) -> (TempDir, String, PathBuf) {
    let folder = folder();
    let place = folder.path().canonicalize().unwrap();
    let binary = place.join("program");
    compile(compiler, source, &["-O2", library], &binary);
    let out = place.join("out");
    run(Command::new(&binary).arg(&out).env(environment.0, environment.1));
    (folder, binary.display().to_string(), out)
}

fn cpu_program() -> (TempDir, String, PathBuf) {
    ran("cc", "cpu.c", "-lprofiler", ("CPUPROFILE_FREQUENCY", "400"))
}

fn heap_program() -> (TempDir, String, PathBuf) {
    ran("c++", "tcmalloc.cpp", "-ltcmalloc", ("TCMALLOC_SAMPLE_PARAMETER", "4096"))
}

#[test]
fn cpu_profiles_of_gperftools_read_as_in_jeprof() {
    let (_folder, binary, profile) = cpu_program();
    let profile = profile.display().to_string();
    for output in OUTPUTS {
        check_named("gperftools", &[output, &binary, &profile]);
    }
    for options in
        [&["--lines"][..], &["--addresses"], &["--cum"], &["--focus=spin"], &["--ignore=mix"], &["--nodecount=2"]]
    {
        check_named("gperftools", &[&["--text"], options, &[binary.as_str(), &profile]].concat());
    }
    check_named("gperftools", &["--text", &format!("--base={profile}"), &binary, &profile, &profile]);
}

#[test]
fn heap_profiles_of_tcmalloc_read_as_in_jeprof() {
    let (_folder, binary, prefix) = heap_program();
    let file = |end: &str| format!("{}{end}", prefix.display());
    let [first, second, growth] = [".0001.heap", ".0002.heap", ".growth"].map(file);
    let base = format!("--base={first}");
    for output in OUTPUTS {
        check_named("gperftools", &[output, &binary, &second]);
        check_named("gperftools", &[output, &binary, &growth]);
        check_named("gperftools", &[output, "--alloc_objects", &base, &binary, &second]);
    }
    check_named("gperftools", &["--text", "--show_bytes", &base, "--drop_negative", &binary, &second]);
    check_named("gperftools", &["--text", "--heapcheck", "--lines", &binary, &second]);
}

/// Forms that nothing on this machine writes, by their recordings. The binaries are not those of the recordings, so
/// addresses stay.
#[test]
fn profiles_of_all_forms_read_as_in_jeprof() {
    let (_folder, binary, _) = cpu_program();
    for file in ["brpc/contention.brpc", "formats/contention/brpc.txt", "formats/contention/contentionz.txt"] {
        for delay in ["--total_delay", "--contentions", "--mean_delay"] {
            check_named("contention", &["--text", delay, &binary, &testdata(file)]);
            check_named("contention", &["--dot", delay, &binary, &testdata(file)]);
        }
    }
    for file in ["growth.heap", "heap_v2.heap", "heapz_v2.heap", "untyped.heap", "work.heap"] {
        check_named("heap", &["--text", "--show_bytes", &binary, &testdata(&format!("formats/heap-text/{file}"))]);
    }
}

#[test]
fn symbolized_profiles_read_as_in_jeprof_without_a_program() {
    for file in ["heap.raw", "contention.raw"] {
        for output in ["--text", "--dot", "--collapsed"] {
            check_named("symbolized", &[output, &testdata(&format!("formats/symbolized/{file}"))]);
        }
    }
}

/// jeprof reads a memory map and addresses on standard input; so do we, and print the same names.
#[test]
fn symbols_are_named_as_by_jeprof() {
    let (_folder, binary, prefix) = heap_program();
    let profile = std::fs::read_to_string(format!("{}.0002.heap", prefix.display())).unwrap();
    let (stacks, map) = profile.split_once("MAPPED_LIBRARIES:").unwrap();
    let addresses: Vec<&str> = stacks.split_whitespace().filter(|word| word.starts_with("0x")).collect();
    assert!(addresses.len() > 20, "{stacks}");
    let input = format!("{map}\n{}\n0x10\n", addresses.join("\n"));
    let input_file = prefix.with_extension("asked");
    std::fs::write(&input_file, input).unwrap();
    let named = |mut command: Command| {
        let output =
            command.args(["--symbols", &binary]).stdin(std::fs::File::open(&input_file).unwrap()).output().unwrap();
        assert!(output.status.success(), "{}", text(&output));
        String::from_utf8(output.stdout).unwrap()
    };
    let mut own = procprof();
    own.arg("jeprof");
    let (own, peers) = (named(own), named(Command::new("/usr/bin/jeprof")));
    assert!(peers.contains("keep_texts"), "{peers}");
    assert_eq!(own, peers);
}

/// The tool of gperftools itself prints the same totals and functions, though it has a rule less for names.
#[test]
fn google_pprof_prints_the_same_functions() {
    let (_folder, binary, prefix) = heap_program();
    let heap = format!("{}.0002.heap", prefix.display());
    let rows = |output: std::process::Output| -> Vec<String> {
        assert!(output.status.success(), "{}", text(&output));
        let printed = String::from_utf8(output.stdout).unwrap();
        let mut rows: Vec<String> = printed
            .lines()
            .filter(|line| line.contains("keep_") || line.starts_with("Total"))
            .map(str::to_owned)
            .collect();
        rows.sort();
        rows
    };
    let peers = Command::new("google-pprof")
        .args(["--text", &binary, &heap])
        .output()
        .expect("this test needs google-pprof (google-perftools)");
    let own = procprof().args(["jeprof", "--text", &binary, &heap]).output().unwrap();
    let (own, peers) = (rows(own), rows(peers));
    assert!(own.len() >= 3, "{own:?}");
    assert_eq!(own, peers);
}

/// Names of what is jumped to are left out: binutils makes up some for entries of the procedure linkage table.
fn without_targets(output: &std::process::Output) -> Vec<String> {
    assert!(output.status.success(), "{}", text(output));
    let printed = String::from_utf8_lossy(&output.stdout).into_owned();
    let target = regex::Regex::new(r"( +#.*)?( *<[^<>]*>)*$").unwrap();
    printed.lines().map(|line| target.replace(line, "").trim_end().to_owned()).collect()
}

#[test]
fn sources_and_machine_code_print_as_in_jeprof() {
    let (_folder, cpu, profile) = cpu_program();
    let (_heap_folder, heap, prefix) = heap_program();
    let (profile, dump) = (profile.display().to_string(), format!("{}.0002.heap", prefix.display()));
    for arguments in [
        ["--disasm=spin", &cpu, &profile],
        ["--disasm=divide|main", &cpu, &profile],
        ["--list=spin", &cpu, &profile],
        ["--list=divide|main", &cpu, &profile],
        ["--disasm=keep_", &heap, &dump],
        ["--list=keep_|main", &heap, &dump],
    ] {
        let own = without_targets(&procprof().arg("jeprof").args(arguments).output().unwrap());
        let peers = without_targets(&Command::new("/usr/bin/jeprof").args(arguments).output().unwrap());
        assert!(peers.iter().any(|line| line.starts_with("ROUTINE")), "{arguments:?}: {peers:#?}");
        assert_eq!(own, peers, "{arguments:?}");
    }
}
