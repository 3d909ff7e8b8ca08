use std::process::Command;

use crate::format::fixtures::{bytes, check, decoded, error, path};

#[test]
fn fixtures_decode() {
    check("symbolized/heap.raw", "symbolized");
    check("symbolized/contention.raw", "symbolized");
}

#[test]
fn what_google_pprof_writes_is_read() {
    let output =
        Command::new("google-pprof").args(["--raw", "/bin/true"]).arg(path("gperftools-cpu/work.prof")).output();
    let output = output.expect("`google-pprof` must be installed for this test");
    let (ours, plain) = (decoded(&output.stdout), decoded(&bytes("gperftools-cpu/work.prof")));
    assert_eq!((ours.format, ours.profile.total(0)), ("symbolized", plain.profile.total(0)));
    let names: Vec<&str> = ours.profile.functions().iter().map(|function| ours.profile.string(function.name)).collect();
    assert!(names.iter().all(|name| !name.starts_with("0x")), "{names:?}");
}

#[test]
fn names_are_found_before_and_at_the_address() {
    let profile = decoded(&bytes("symbolized/heap.raw")).profile;
    let names: Vec<Vec<&str>> = (0..profile.locations().len() as u32)
        .map(|id| {
            profile
                .lines(crate::LocationId(id))
                .iter()
                .map(|line| profile.string(profile.function(line.function).name))
                .collect()
        })
        .collect();
    assert_eq!(names, [vec!["keep_one"], vec!["allocate(int)", "run(int)", "main"], vec!["second_thread"], vec![]]);
    assert_eq!(profile.mappings().iter().map(|mapping| mapping.has_functions).collect::<Vec<_>>(), [true, false]);
    assert!(profile.comments().any(|comment| comment == "binary=/usr/bin/prog"));
}

#[test]
fn the_name_of_the_address_itself_comes_first() {
    let mut bytes = b"--- symbol\n0x1 leaf\n0x2 middle\n0x3 root\n---\n--- profile\n".to_vec();
    for word in [0u64, 3, 0, 10_000, 0, 4, 3, 1, 2, 3, 2, 2, 2, 3, 0, 1, 0] {
        bytes.extend_from_slice(&word.to_le_bytes());
    }
    let profile = decoded(&bytes).profile;
    let names = profile.functions().iter().map(|function| profile.string(function.name));
    assert_eq!(names.collect::<Vec<_>>(), ["leaf", "middle", "root"]);
}

#[test]
fn frames_of_java_have_their_places() {
    let text = "--- symbol\n0x1 A.run(A.java:3)\n0x2 A.run(A.java:4)\n0x3 f(A::b)\n---\n--- heap\nheap profile: 1: 8 [1: 8] @ heapprofile\n1: 8 [1: 8] @ 0x1 0x2 0x3\n";
    let profile = decoded(text.as_bytes()).profile;
    let string = |id| profile.string(id);
    let functions: Vec<_> = profile.functions().iter().map(|own| (string(own.name), string(own.filename))).collect();
    assert_eq!(functions, [("A.run", "A.java"), ("f(A::b)", "")]);
    let lines = (0..3).map(|id| profile.lines(crate::LocationId(id))[0].line);
    assert_eq!(lines.collect::<Vec<_>>(), [3, 4, 0]);
}

#[test]
fn a_heap_profile_may_follow_with_or_without_a_line_that_names_it() {
    for marker in ["--- heap\n", "--- memprof\n", ""] {
        let text = format!(
            "--- symbol\nbinary=/bin/a\n0x0f f\n---\n{marker}heap profile: 1: 8 [1: 8] @ heapprofile\n1: 8 [1: 8] @ 0x10\n"
        );
        let decoded = decoded(text.as_bytes());
        let profile = &decoded.profile;
        assert_eq!((profile.total(1), profile.string(profile.functions()[0].name)), (8, "f"), "{marker:?}");
        assert_eq!(decoded.warnings, [""; 0], "{marker:?}");
    }
}

#[test]
fn a_binary_profile_may_be_inside() {
    let mut bytes = b"--- symbol\n0x401fff main\n0x400fff work\n---\n--- profile\n".to_vec();
    for word in [0u64, 3, 0, 10_000, 0, 7, 2, 0x40_1000, 0x40_2000, 3, 2, 0x40_1000, 0x40_3000, 0, 1, 0] {
        bytes.extend_from_slice(&word.to_le_bytes());
    }
    let profile = decoded(&bytes).profile;
    assert_eq!(profile.total(0), 10);
    assert_eq!(
        profile.functions().iter().map(|function| profile.string(function.name)).collect::<Vec<_>>(),
        ["work", "main"]
    );
}

#[test]
fn errors_count_lines_of_the_whole() {
    let cases = [
        ("--- symbol\n0x1 a\n", "symbolized: line 2: input ends inside the table of symbols"),
        ("--- symbol\n0x1 a\n---\n", "symbolized: offset 21: input ends inside the profile behind the symbols"),
        ("--- symbol\n---\n--- heap\n", "symbolized: offset 24: input ends inside the profile behind the symbols"),
        ("--- symbol\n---\n--- heap\nsomething\n", "symbolized: line 3: no known profile format behind \"--- heap\""),
        ("--- symbol\n---\n--- heap\nheap_v2/5\n@ x\n", "jemalloc: line 5: expected an address"),
        ("--- symbol\n---\n--- symbol\n--- symbol\n", "symbolized: line 3: no known profile format behind"),
    ];
    for (text, expected) in cases {
        let error = error(text.as_bytes());
        assert!(error.starts_with(expected), "{text:?}: {error}");
    }
}
