//! Names that only the debug information has, and where functions begin.

use std::collections::BTreeSet;

use procprof_symbolize::{Frame, Resolved};

use crate::programs::{Folder, text_addresses};

/// Name and first line of all frames in the source; 0 if the compiler omits it, as for lambdas.
fn frames(flags: &[&str]) -> BTreeSet<(String, u32)> {
    let folder = Folder::new();
    let program = folder.compile("scopes.cpp", "program", flags);
    let resolved = folder.open(&program).resolve(&text_addresses(&program));
    let frames = resolved.iter().flat_map(|resolved| match resolved {
        Resolved::Frames(frames) => frames.as_slice(),
        Resolved::Unknown(_) => &[],
    });
    let in_source = frames.filter(|frame| frame.file.as_ref().is_some_and(|file| file.ends_with("scopes.cpp")));
    let facts = |frame: &Frame| (frame.name.to_string(), frame.start_line.unwrap_or(0));
    in_source.map(facts).collect()
}

fn check(flags: &[&str], lambda: &str) {
    let expected = [
        ("main", 34),
        ("outer::(anonymous namespace)::Hidden::Deep::inlined", 15),
        ("outer::(anonymous namespace)::mix<3>", 8),
        (lambda, 0),
        ("outer::calls(int)", 24),
    ];
    let expected: BTreeSet<_> = expected.into_iter().map(|(name, line)| (name.to_owned(), line)).collect();
    assert_eq!(frames(flags), expected, "{flags:?}");
}

#[test]
fn names_say_what_they_are_in() {
    for version in ["-gdwarf-4", "-gdwarf-5"] {
        check(&["-O2", "-g", version], "outer::calls::(anonymous class)::operator()");
    }
}
