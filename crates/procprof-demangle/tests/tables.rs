//! Symbol tables of Debian's packages: each name as LLVM's demangler prints it.

use procprof_demangle::Style;

use crate::oracle::{differences, installed, llvm, mangled_names, nm, ours};

/// Parts of names that LLVM 19 leaves mangled and this crate reads, with the cause.
const UNREAD_BY_LLVM: &[(&str, &str)] = &[
    ("cvSt", "a conversion to a template one of whose arguments is an abbreviation with arguments of its own"),
    ("cvNSt", "a conversion to a template one of whose arguments is an abbreviation with arguments of its own"),
    ("srSt", "an unresolved name in a class of the standard library, as GCC writes it"),
];

/// Compares a whole table, which must have at least that many names.
fn check(paths: &[&str], least: usize) {
    let names = mangled_names(&installed(paths));
    assert!(names.len() >= least, "{paths:?} has {} names", names.len());
    let expected = llvm(&names);
    let is_unread = |name: &str, text: &str| name == text && UNREAD_BY_LLVM.iter().any(|(part, _)| name.contains(part));
    let (unread, read): (Vec<_>, Vec<_>) =
        names.into_iter().zip(expected).partition(|(name, text)| is_unread(name, text));
    let (names, expected): (Vec<String>, Vec<String>) = read.into_iter().unzip();
    let differences = differences(&names, &expected, &ours(&names, Style::Llvm));
    // Binutils also read them.
    let unread: Vec<String> = unread.into_iter().map(|(name, _)| name).collect();
    assert_eq!(ours(&unread, Style::Gnu), nm(&unread));
    assert!(unread.iter().zip(ours(&unread, Style::Llvm)).all(|(name, text)| *name != text));
    let shown = differences.iter().take(20).cloned().collect::<Vec<_>>().join("\n");
    assert!(differences.is_empty(), "{} of {} names differ:\n{shown}", differences.len(), names.len());
}

#[test]
fn libllvm() {
    check(&["/usr/lib/x86_64-linux-gnu/libLLVM.so.19.1"], 40_000);
}

#[test]
fn libclang() {
    check(&["/usr/lib/x86_64-linux-gnu/libclang-cpp.so.19.1"], 35_000);
}

#[test]
fn libstdcxx() {
    check(&["/usr/lib/x86_64-linux-gnu/libstdc++.so.6"], 5_000);
}

#[test]
fn mariadb() {
    check(&["/usr/sbin/mariadbd"], 20_000);
}

#[test]
fn chromium() {
    check(&["/usr/lib/chromium/chromium"], 10);
}
