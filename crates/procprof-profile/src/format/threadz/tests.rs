use super::*;
use crate::format::fixtures::{check_with_go, error};

#[test]
fn threads_read_as_pprof_reads_them() {
    let decoded = check_with_go("threadz/threads.txt", NAME);
    assert_eq!(decoded.profile.total(0), 3);
    assert_eq!(decoded.warnings.len(), 1);
}

#[test]
fn errors_name_the_line() {
    let cases = [
        ("--- threadz 1 ---\n--- what ---\n", "threadz: line 2: expected a thread or the memory map"),
        (
            "--- Thread 7f (name: a/1) stack: ---\n 0x11111111111111111\n",
            "threadz: line 2: expected an address of 64 bits",
        ),
        ("--- Thread 7f (name: a/1)", "threadz: line 1: input ends inside --- Thread ID (name: NAME/ID) stack: ---"),
        ("--- Thread 7f (name: a/1) stack: ---\n 0x1", "threadz: line 2: input ends inside a stack"),
    ];
    for (text, expected) in cases {
        let error = error(text.as_bytes());
        assert!(error.starts_with(expected), "{text:?}: {error}");
    }
}
