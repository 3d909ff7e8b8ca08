//! Names as binutils print them.

use procprof_demangle::Style;

use crate::oracle::{differences, installed, mangled_names, nm, ours};
use crate::productions::names;

/// Names of the list that binutils read in another way, or that only binutils read, with the cause.
const OTHERS: &[(&str, &str)] = &[
    ("_ZN3fooUt_C1Ev", "a constructor of a class without a name, which no compiler writes"),
    ("_ZN3fooUt0_C1Ev", "a constructor of a class without a name, which no compiler writes"),
    ("_Z1fIiEDTsr1A1xEv", "a scope that is neither a type nor ends"),
    ("_Z1fDF32x", "`_Float32x`, which LLVM 19 does not know either"),
    ("_Z1fPU11objcproto1A11objc_object", "binutils know no Objective-C"),
    ("_ZSsB5cxx11", "an abbreviation is no name of an object"),
    ("_Z1fvx.1", "a parameter behind `void`"),
    ("_Z1fIiEDTcvT__Li3ELi4EEEvv", "a parameter behind `void`"),
    ("_ZGA1x", "hidden aliases, which no compiler writes"),
    ("_ZTFi", "functions for type information, which no compiler writes any more"),
    ("_ZTJi", "classes of Java"),
    ("_ZZ1fvE1A__0", "a discriminator that does not end"),
    ("_Z1fIiEDTnw_T_ilLi3EEEv", "an initializer list behind `new` without an end of its own"),
];

/// Those of the names that `nm` demangles, with what it makes of them.
pub(crate) fn read_by_binutils(names: &[String]) -> (Vec<String>, Vec<String>) {
    let all = names.iter().cloned().zip(nm(names));
    all.filter(|(name, expected)| name != expected).unzip()
}

/// Compares names that binutils demangle; those that it leaves as they are may have a name here.
fn check(names: &[String]) {
    let (names, expected) = read_by_binutils(names);
    let differences = differences(&names, &expected, &ours(&names, Style::Gnu));
    assert!(differences.is_empty(), "{} of {} differ:\n{}", differences.len(), names.len(), differences.join("\n"));
}

#[test]
fn of_libraries() {
    check(&mangled_names(&installed(&["/usr/lib/x86_64-linux-gnu/libstdc++.so.6"])));
    check(&mangled_names(&installed(&["/usr/sbin/mariadbd"])));
}

#[test]
fn of_the_list() {
    // Callers read the prefix of a file's own functions; it is not read here.
    let names = names().into_iter().filter(|name| !name.starts_with("_GLOBAL_"));
    let names: Vec<String> = names.filter(|name| OTHERS.iter().all(|(other, _)| other != name)).collect();
    check(&names);
}
