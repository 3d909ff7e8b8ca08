//! Two functions never have one name.

use std::collections::HashMap;
use std::fs;
use std::path::Path;
use std::process::Command;

use procprof_demangle::Style;

use crate::oracle::{installed, mangled_names, ours, run};

/// The mangled name without the parts that distinguish the bodies of one function: the variants of a constructor or
/// destructor, and the offset of a thunk.
fn function(name: &str) -> String {
    let mut text = name.to_owned();
    for kind in ['C', 'D'] {
        for variant in ['0', '1', '2', '4', '5'] {
            for behind in ['E', 'I', 'B'] {
                text = text.replace(&format!("{kind}{variant}{behind}"), &format!("{kind}_{behind}"));
            }
        }
    }
    match text.strip_prefix("_ZTh").and_then(|rest| rest.split_once('_')) {
        Some((_, rest)) => format!("_ZTh_{rest}"),
        None => text,
    }
}

fn check(names: &[String]) {
    let mut by_text: HashMap<String, (&String, String)> = HashMap::new();
    for (name, text) in names.iter().zip(ours(names, Style::Llvm)) {
        let function = function(name);
        let (first, of_first) = by_text.entry(text.clone()).or_insert_with(|| (name, function.clone()));
        assert_eq!(*of_first, function, "{text} is both {first} and {name}");
    }
}

#[test]
fn of_libraries() {
    for path in
        ["/usr/lib/x86_64-linux-gnu/libLLVM.so.19.1", "/usr/lib/x86_64-linux-gnu/libstdc++.so.6", "/usr/sbin/mariadbd"]
    {
        check(&mangled_names(&installed(&[path])));
    }
}

#[test]
fn of_template_constructors() {
    let folder = tempfile::tempdir().unwrap();
    let source = folder.path().join("constructors.cc");
    let object = folder.path().join("constructors.o");
    let text = "struct X { template<class T> X(T *, int) {} template<class T> X(T &, int) {} template<class T> X(T **, int) {} };\n\
                void use(int i, int *p) { X one(&i, 1); X two(i, 2); X three(&p, 3); }\n";
    fs::write(&source, text).unwrap();
    run(Command::new("g++").arg("-c").arg(&source).arg("-o").arg(&object));
    let names = mangled_names(Path::new(&object));
    check(&names);
    let mut texts = ours(&names, Style::Llvm);
    texts.sort_unstable();
    texts.dedup();
    assert_eq!(texts, ["X::X<int>(int&, int)", "X::X<int>(int**, int)", "X::X<int>(int*, int)", "use(int, int*)"]);
}
