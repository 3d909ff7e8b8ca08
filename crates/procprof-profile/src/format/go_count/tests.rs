use super::*;
use crate::LocationId;
use crate::format::fixtures::{check, check_with_go_unnamed, decoded, error};

#[test]
fn recorded_profiles_read_as_pprof_reads_them() {
    check_with_go_unnamed("go-count/goroutine.txt", NAME);
    let profile = check("go-count/threadcreate.txt", NAME).profile;
    let name = |id: LocationId| profile.string(profile.function(profile.lines(id)[0].function).name);
    assert!(profile.samples().all(|sample| sample.stack.iter().map(|id| name(*id)).eq(["[no stack]"])));
}

#[test]
fn detection_takes_only_its_own_heading() {
    let cases: [(&[u8], Detect); 11] = [
        (b"goroutine profile: total 7\n", Detect::Yes),
        (b"\n# note\nmine/queue profile: total 0\n", Detect::Yes),
        (b"goroutine profile: total", Detect::NeedMore),
        (b"goroutine profile: total 7", Detect::NeedMore),
        (b"gorout", Detect::NeedMore),
        (b"# note", Detect::NeedMore),
        (b"heap profile: 1: 2 [3: 4] @ heap/5\n", Detect::No),
        (b"goroutine profile: total x\n", Detect::No),
        (b"two words profile: total 7\n", Detect::No),
        (b"<html> is", Detect::No),
        (b"\x00\x01", Detect::No),
    ];
    for (bytes, expected) in cases {
        assert_eq!(detect(bytes), expected, "{}", bytes.escape_ascii());
    }
}

#[test]
fn a_map_may_follow() {
    let text = b"threads profile: total 2\n2 @ 0x401001\n\n--- Memory map: ---\n 00400000-00402000: /usr/bin/prog\n";
    let profile = decoded(text).profile;
    assert_eq!((profile.sample_type(0), profile.total(0)), (("threads", "count"), 2));
    assert_eq!(profile.string(profile.mappings()[0].filename), "/usr/bin/prog");
}

#[test]
fn errors_name_the_line() {
    let cases = [
        ("goroutine profile: total 1\nx @ 0x1\n", "go-count: line 2: expected COUNT @ 0x…, found \"x @ 0x1\""),
        ("goroutine profile: total 1\n1 @ 0x1", "go-count: line 2: input ends inside a stack of addresses"),
        ("goroutine profile: total 1\n1 @ 1\n", "go-count: line 2: expected an address such as 0x4005d0"),
    ];
    for (text, expected) in cases {
        let error = error(text.as_bytes());
        assert!(error.starts_with(expected), "{text:?}: {error}");
    }
}
