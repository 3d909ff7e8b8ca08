use crate::LocationId;
use crate::format::fixtures::{check, check_with_go, check_with_go_unnamed, decoded, error};

#[test]
fn fixtures_read_as_pprof_reads_them() {
    for name in ["mutex.txt", "block.txt"] {
        check_with_go_unnamed(&format!("contention/{name}"), "contention");
    }
    let decoded = check_with_go("contention/contentionz.txt", "contention");
    assert_eq!(decoded.profile.duration().0, 90_061_000_000);
    assert!(decoded.profile.comments().any(|comment| comment == "#procprof:lost=3"));
}

#[test]
fn names_of_go_are_in_comments() {
    let samples = "9 1 @ 0x12 0x11 0x30 0x50\n#\t0x11\tsync.(*Mutex).Unlock+0x7\tsync/a b.go:65\n#\t0x10\tmain.f+0x1\t\t/m.go:36\n#\t0x4f\n\n";
    let go = format!("--- mutex:\ncycles/second=1000000000\nsampling period=1\n{samples}");
    let count = "goroutine profile: total 1\n1 @ 0x12 0x11 0x30 0x50\n#\t0x11\tsync.(*Mutex).Unlock+0x7\tsync/a b.go:65\n#\t0x10\tmain.f+0x1\t/m.go:36\n";
    let heap = "heap profile: 1: 9 [1: 9] @ heap/2\n1: 9 [1: 9] @ 0x12 0x11 0x30 0x50\n#\t0x11\tsync.(*Mutex).Unlock+0x7\tsync/a b.go:65\n#\t0x10\tmain.f+0x1\t/m.go:36\n# Sys = 9\n";
    for text in [go.as_str(), count, heap] {
        let profile = decoded(text.as_bytes()).profile;
        let place = |id: &LocationId| {
            let line = profile.lines(*id).first()?;
            let function = profile.function(line.function);
            Some(format!("{} {}:{}", profile.string(function.name), profile.string(function.filename), line.line))
        };
        let places: Vec<_> = profile.sample(0).stack.iter().map(place).collect();
        let expected = ["sync.(*Mutex).Unlock sync/a b.go:65", "main.f /m.go:36"].map(|place| Some(place.to_owned()));
        assert_eq!((&places[..2], &places[2..]), (&expected[..], &[None, None][..]), "{text}");
    }
}

#[test]
fn brpc_appends_the_map_without_heading() {
    let profile = check("contention/brpc.txt", "contention").profile;
    assert_eq!((profile.total(0), profile.total(1)), (13, 20_487_000));
    let names: Vec<&str> = profile.mappings().iter().map(|mapping| profile.string(mapping.filename)).collect();
    assert_eq!(names, ["/opt/be/lib/starrocks_be", "/usr/lib/x86_64-linux-gnu/libc.so.6", "[vdso]"]);
    assert!(profile.locations().iter().all(|location| location.mapping.is_some()));
}

#[test]
fn delays_are_scaled_as_pprof_does() {
    let cases = [
        ("cycles/second = 2000000000\nsampling period = 100\n", [300, 35_000], 0),
        ("cycles/second=1000000000\n", [3, 700], 0),
        ("sampling period = 100\n", [300, 700], 1),
        ("sampling period = 0\ncycles/second = 2000000000\n", [3, 700], 0),
        ("something else = yes\ncycles/second = 1000000000\n", [3, 700], 1),
    ];
    for (attributes, values, warnings) in cases {
        let decoded = decoded(format!("--- contentionz 1 ---\n{attributes}  700 3 @ 0x10 0x20\n").as_bytes());
        assert_eq!(decoded.profile.sample(0).values, values, "{attributes}");
        assert_eq!(decoded.warnings.len(), warnings, "{attributes} {:?}", decoded.warnings);
    }
}

#[test]
fn errors_name_the_line() {
    let cases = [
        ("--- contention\n5 5 0x1\n", "contention: line 2: expected CYCLES COUNT @ 0x…, found \"5 5 0x1\""),
        ("--- contention\ncycles/second = fast\n", "contention: line 2: expected NAME = NUMBER"),
        ("--- contention\ncycles/seco", "contention: line 2: input ends inside CYCLES COUNT @ 0x…"),
        ("--- contention\ncycles/second=100000", "contention: line 2: input ends inside NAME = NUMBER"),
        ("--- contention\n5 5 @ 0x1", "contention: line 2: input ends inside a stack of addresses"),
    ];
    for (text, expected) in cases {
        let error = error(text.as_bytes());
        assert!(error.starts_with(expected), "{text:?}: {error}");
    }
}
