//! Names by hand, of every production of the grammar and of some that are wrong: as LLVM prints them but for those
//! listed here.

use procprof_demangle::Style;

use crate::oracle::{differences, llvm, ours};

/// A name a line.
pub(crate) const NAMES: &str = include_str!("names.txt");

/// Names that LLVM 19 does not read or misreads, as this crate prints them, with the cause.
const BETTER: &[(&str, &str, &str)] = &[
    ("_ZN1ApmEi", "A::operator->*(int)", "LLVM has `pm` in expressions only"),
    ("_Z1fDF16b", "f(std::bfloat16_t)", "LLVM does not know the type"),
    ("_Z1fIiEDTcp1gfp_EET_", "decltype((g)(fp)) f<int>(int)", "LLVM does not know `cp`"),
    (
        "_Z1fITpTyJiiEEvDpT_",
        "void f<int, int>(int, int)",
        "LLVM does not expand a pack behind its parameter's declaration",
    ),
    (
        "_ZZ1fvENKUlTpTyDpT_E_clIJiiEEEDaDpT_",
        "auto f()::'lambda'<typename ...$T>($T...)::operator()<int, int>(int, int) const",
        "LLVM loses the template arguments of local names",
    ),
    (
        "_Z1fIiLi0EENSt9enable_ifIXsrSt7is_sameIT_iE5valueEvE4typeES2_",
        "std::enable_if<std::is_same<int, int>::value, void>::type f<int, 0>(int)",
        "LLVM does not read a class of the standard library in an unresolved name, as GCC writes it",
    ),
    (
        "_Z1fIXntsrSt7is_sameIiiE5valueEEvv",
        "void f<!std::is_same<int, int>::value>()",
        "LLVM does not read a class of the standard library in an unresolved name, as GCC writes it",
    ),
    (
        "_Z1fIiEDTsrN1A1BE1xEv",
        "decltype(A::B::x) f<int>()",
        "LLVM reads unresolved names of a type as Clang writes them, not as GCC does",
    ),
    (
        "_Z1fI1AEvT_IiES1_",
        "void f<A>(A<int>, A)",
        "LLVM does not count a template template parameter as a substitution",
    ),
];

pub(crate) fn names() -> Vec<String> {
    NAMES.lines().map(str::to_owned).collect()
}

#[test]
fn names_are_as_llvm_prints_them() {
    let names: Vec<String> =
        names().into_iter().filter(|name| BETTER.iter().all(|(better, ..)| better != name)).collect();
    assert!(names.len() > 450);
    let differences = differences(&names, &llvm(&names), &ours(&names, Style::Llvm));
    assert!(differences.is_empty(), "{} differ:\n{}", differences.len(), differences.join("\n"));
}

#[test]
fn some_are_better() {
    let names: Vec<String> = BETTER.iter().map(|(name, ..)| (*name).to_owned()).collect();
    let expected: Vec<&str> = BETTER.iter().map(|(_, expected, _)| *expected).collect();
    assert_eq!(ours(&names, Style::Llvm), expected);
    for ((name, expected, cause), llvm) in BETTER.iter().zip(llvm(&names)) {
        assert_ne!(llvm, *expected, "{name} is no better any more: {cause}");
    }
}
