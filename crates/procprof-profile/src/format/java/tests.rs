use super::*;
use crate::format::fixtures::{check, check_hostile, check_with_go, decoded, error};

#[test]
fn texts_read_as_pprof_reads_them() {
    check_with_go("java/heapz.txt", NAME);
    check_with_go("java/contentionz.txt", NAME);
    check_with_go("java/cpu.prof", NAME);
}

#[test]
fn frames_are_named_by_the_table() {
    let cases = [
        ("com.a.B.run (B.java:12)", ("com.a.B.run", "B.java", 12)),
        ("com.a.B.run (B.java:-1)", ("com.a.B.run", "B.java", 0)),
        ("call (/usr/lib/libjvm.so)", ("call", "libjvm.so", 0)),
        ("a generated stub/JIT thing", ("STUB", "", 0)),
        ("GC", ("GC", "", 0)),
        ("f(x)", ("f(x)", "", 0)),
    ];
    for (text, (function, file, line)) in cases {
        assert_eq!(Frame::parse(text), Frame { function, file, line });
    }
}

#[test]
fn elements_of_stack_traces_have_places() {
    let cases = [
        ("a.B$C.run(B.java:356)", Some(("a.B$C.run", "B.java", 356))),
        ("a.B.main (b.scala:-1)", Some(("a.B.main", "b.scala", 0))),
        ("operator()(int)", None),
        ("f(std::a<1.5>:2)", None),
        ("f(a:1)", None),
        ("f(A.java)", None),
        ("(A.java:1)", None),
    ];
    for (text, expected) in cases {
        let expected = expected.map(|(function, file, line)| Frame { function, file, line });
        assert_eq!(Frame::of_stack_trace(text), expected, "{text}");
    }
}

#[test]
fn a_missing_name_is_reported() {
    let text = b"--- heapz 1 ---\nformat = java\nresolution = bytes\n 8 1 @ 0x1 0x2\n 0x1 known (A.java:1)";
    let decoded = decoded(text);
    assert_eq!(
        decoded.warnings,
        [
            "java: the table names 1 frames too few; those stay unknown",
            "java: line 5 of the table ends the input without a line break; its name may be cut"
        ]
    );
    check_hostile(text);
}

#[test]
fn native_contention_is_another_format() {
    assert_eq!(detect(b"--- contentionz 1 ---\ncycles/second = 5\n 1 1 @ 0x1\n"), Detect::No);
    assert_eq!(detect(b"--- contentionz 1 ---\nsampling period = 5\n"), Detect::NeedMore);
    assert_eq!(detect(b"--- contentionz 1 ---\nsampling period = 5\nresolution = microseconds\n"), Detect::Yes);
    check("contention/contentionz.txt", "contention");
}

#[test]
fn errors_name_the_line() {
    let cases = [
        ("--- heapz 1 ---\nformat = cpp\n", "java: line 2: expected format = java, resolution"),
        ("--- heapz 1 ---\nformat = java\n", "java: line 1: no attribute `resolution`"),
        ("--- heapz 1 ---\nresolution = bytes\n1 0 @ 0x1\n", "java: line 3: expected a count other than 0"),
        ("--- heapz 1 ---\nresolution = bytes\n1 1 @ 0x1", "java: line 3: input ends inside AMOUNT COUNT @ 0x…"),
    ];
    for (text, expected) in cases {
        let error = error(text.as_bytes());
        assert!(error.starts_with(expected), "{text:?}: {error}");
    }
}
