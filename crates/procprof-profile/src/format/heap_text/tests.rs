use crate::format::fixtures::{check, check_with_go_unnamed, decoded, error};
use crate::{Grammar, Sampling};

#[test]
fn fixtures_read_as_pprof_reads_them() {
    for name in ["work.heap", "go-heap.txt", "heapz_v2.heap", "heap_v2.heap", "growth.heap"] {
        check_with_go_unnamed(&format!("heap-text/{name}"), "heap-text");
    }
    check("heap-text/untyped.heap", "heap-text");
}

#[test]
fn the_header_determines_the_sampling() {
    let cases = [
        ("2: 8 [2: 8] @ heap_v2/512", Sampling::Poisson(512), 2),
        ("2: 8 [3: 8] @ heapz_v2/512", Sampling::Poisson(512), 4),
        ("2: 8 [0: 0] @ heap/512", Sampling::Linear(256), 2),
        ("2: 8 [2: 9] @ heapprofile", Sampling::Exact, 4),
        ("2: 8 [2: 8] @ heap_v2/1", Sampling::Exact, 2),
        ("2: 8 [2: 9] @ fragmentationz", Sampling::Exact, 2),
        ("  2:  8 [  2: 8] @ ", Sampling::Linear(128 << 10), 2),
        ("2: 8 [2: 8]", Sampling::Linear(128 << 10), 2),
        ("2: 8 [9: 99]", Sampling::Exact, 4),
    ];
    for (header, sampling, types) in cases {
        let profile = decoded(format!("heap profile: {header}\n").as_bytes()).profile;
        assert_eq!((profile.sampling(), profile.sample_types().len()), (sampling, types), "{header}");
    }
}

#[test]
fn estimates_are_pprofs() {
    let text = b"heap profile: 3: 786432 [3: 786432] @ heap_v2/524288\n3: 786432 [3: 786432] @ 0x10 0x20\n";
    let profile = decoded(text).profile.adjusted(Grammar::Pprof).unwrap();
    assert_eq!(profile.sample(0).values, [7, 1_998_712]);
}

#[test]
fn errors_name_the_line() {
    let cases = [
        (
            "heap profile: x\n",
            "heap-text: line 1: expected heap profile: N: S [N: S] @ TYPE, found \"heap profile: x\"",
        ),
        (
            "heap profile: 1: 1 [1: 1] @ nonsense/4\n",
            "heap-text: line 1: expected heap profile: N: S [N: S] @ TYPE, found",
        ),
        ("heap profile: 1: 1 [1: 1] @ heap", "heap-text: line 1: input ends inside heap profile: N: S [N: S] @ TYPE"),
        (
            "heap profile: 1: 1 [1: 1] @ heap/4\n\n1: 1 [1: 1] @ 0x1g\n",
            "heap-text: line 3: expected an address such as 0x4005d0",
        ),
        (
            "heap profile: 1: 1 [1: 1] @ heap/4\n0: 1 [1: 1] @ 0x1\n",
            "heap-text: line 2: expected objects where there are bytes",
        ),
        (
            "heap profile: 1: 1 [1: 1] @ heap/4\n1: 1 [1: 1] @ 0x1",
            "heap-text: line 2: input ends inside a stack of addresses",
        ),
        (
            "heap profile: 1: 1 [1: 1] @ heap/4\n99999999999999999999: 1 [1: 1] @ 0x1\n",
            "heap-text: line 2: expected N: S [N: S] @ 0x…",
        ),
        (
            "heap profile: 1: 1 [1: 1] @ heap/4\n1: 1 [1: 1] @ 0x10000000000000000\n",
            "heap-text: line 2: expected an address",
        ),
    ];
    for (text, expected) in cases {
        let error = error(text.as_bytes());
        assert!(error.starts_with(expected), "{text:?}: {error}");
    }
}
