//! The symbols of programs that GCC and Clang compile here.

use std::path::Path;
use std::process::Command;

use procprof_demangle::Style;

use crate::binutils::read_by_binutils;
use crate::oracle::{differences, llvm, mangled_names, ours, run};

const PROGRAM: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/programs/names.cc");

/// Parts of mangled names that LLVM 19 misreads, with the cause.
const LLVM_FAULTS: &[(&str, &str)] = &[
    ("exprs1XpmEi", "`operator->*` is no function to LLVM"),
    ("_PT1_IS0_E", "LLVM does not count a template template parameter as a substitution"),
    ("$_0clIiE", "LLVM loses the template arguments of local names"),
];

/// Parts of mangled names that binutils 2.40 misread, with the cause.
const BINUTILS_FAULTS: &[(&str, &str)] = &[
    ("clptfp_coT_E", "a destructor's call that GCC mangles as `~`, which names an operator there"),
    ("Ed_NKUlT_E_cl", "a lambda's result in a default argument is taken for its first parameter"),
];

/// Symbols of an object file that a compiler makes of the program.
pub(crate) fn symbols(compiler: &str, options: &[&str]) -> Vec<String> {
    let folder = tempfile::tempdir().unwrap();
    let object = folder.path().join("names.o");
    run(Command::new(compiler).args(["-std=c++20", "-w", "-c"]).args(options).arg(PROGRAM).arg("-o").arg(&object));
    mangled_names(Path::new(&object))
}

fn check(compiler: &str, options: &[&str]) {
    let names = symbols(compiler, options);
    assert!(names.len() > 150, "{} names", names.len());
    let is_fault = |name: &String| LLVM_FAULTS.iter().any(|(part, _)| name.contains(part));
    let names: Vec<String> = names.into_iter().filter(|name| !is_fault(name)).collect();
    let found = ours(&names, Style::Llvm);
    let differences = differences(&names, &llvm(&names), &found);
    assert!(differences.is_empty(), "{} differ:\n{}", differences.len(), differences.join("\n"));
    for (name, found) in names.iter().zip(&found) {
        assert_ne!(name, found, "a name that a compiler made is one that can be read");
    }
}

#[test]
fn of_gcc() {
    check("g++", &["-O0"]);
}

#[test]
fn of_gcc_with_clones() {
    check("g++", &["-O2"]);
}

#[test]
fn of_clang() {
    check("clang++-19", &["-O0"]);
}

#[test]
fn of_an_older_clang() {
    check("clang++-19", &["-O0", "-fclang-abi-compat=17"]);
}

#[test]
fn of_gcc_as_binutils_print_them() {
    let is_fault = |name: &String| BINUTILS_FAULTS.iter().any(|(part, _)| name.contains(part));
    let names: Vec<String> = symbols("g++", &["-O0"]).into_iter().filter(|name| !is_fault(name)).collect();
    let (names, expected) = read_by_binutils(&names);
    let differences = differences(&names, &expected, &ours(&names, Style::Gnu));
    assert!(differences.is_empty(), "{} differ:\n{}", differences.len(), differences.join("\n"));
}
