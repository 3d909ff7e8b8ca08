use super::*;
use crate::format::fixtures::{bytes, check, decoded, error};
use crate::format::{Decoded, decode_events as decode_all};

fn all(name: &str) -> Vec<Decoded> {
    decode_all(&bytes(name), &Limits::default()).unwrap()
}

fn leaf(decoded: &Decoded, sample: usize) -> &str {
    let profile = &decoded.profile;
    profile.string(profile.function(profile.lines(profile.sample(sample).stack[0])[0].function).name)
}

#[test]
fn the_totals_are_those_of_perf_report() {
    // `perf report -i c.data`: 7 samples of cpu-clock, 35175875 in all; 5 of page-faults, 496 in all.
    let events = all("perf-script/stacks.txt");
    let totals: Vec<_> =
        events.iter().map(|event| (event.event.as_str(), event.profile.total(0), event.profile.total(1))).collect();
    assert_eq!(totals, [("cpu-clock", 7, 35_175_875), ("page-faults", 5, 496)]);
    let hot: i64 = (0..events[0].profile.sample_count())
        .filter(|index| leaf(&events[0], *index) == "hot")
        .map(|index| events[0].profile.sample(index).values[0])
        .sum();
    assert_eq!(hot, 6);
    let decoded = check("perf-script/stacks.txt", NAME);
    assert!(
        decoded.warnings[0].contains("2 kinds of events (\"cpu-clock\", \"page-faults\")"),
        "{:?}",
        decoded.warnings
    );
}

#[test]
fn fields_may_be_missing_or_more() {
    for name in ["lines.txt", "names.txt", "places.txt"] {
        let name = format!("perf-script/{name}");
        let decoded = check(&name, NAME);
        assert_eq!(all(&name)[0].profile.total(0), 7, "{name}");
        assert!(!decoded.warnings.iter().any(|warning| warning.contains("passed over")), "{:?}", decoded.warnings);
    }
}

#[test]
fn samples_are_known_by_their_line() {
    let cases = [
        (
            "a b 1  6586/6590 [001] 38340.698097:    5025125 cycles:u: ",
            "a b 1",
            Some(6586),
            Some(6590),
            Some(5_025_125),
            "cycles:u",
        ),
        ("work  6586 38340.698097: ", "work", None, Some(6586), None, ""),
        ("work  6586 ", "work", None, Some(6586), None, ""),
        ("swapper     0 [001] 12.5:     250000 cpu/cycles/: ", "swapper", None, Some(0), Some(250_000), "cpu/cycles/"),
        ("x 7 [000] 1.0: sched:sched_switch: prev_comm=x prev_pid=7", "x", None, Some(7), None, "sched:sched_switch"),
        (":-1    -1 [000] 1.0:   1 cycles: ", ":-1", None, Some(-1), Some(1), "cycles"),
        ("dead  7/8 [000] d.h. 1.0:   1 cycles: ", "dead", Some(7), Some(8), Some(1), "cycles"),
    ];
    for (line, comm, pid, tid, period, event) in cases {
        let header = Header::parse(line).unwrap_or_else(|| panic!("{line}"));
        assert_eq!(header.about(), (comm, pid, tid), "{line}");
        assert_eq!((header.period, header.event), (period, event), "{line}");
    }
    for line in ["", "work", "a;b 12 x", "Traceback (most recent call last):"] {
        assert!(Header::parse(line).is_none(), "{line}");
    }
}

#[test]
fn frames_are_taken_apart() {
    let cases = [
        ("\t            1199 cold+0xd (/tmp/work)", Some(("cold", "/tmp/work"))),
        (
            "\t 7f0 operator new(unsigned long)+0x5 (/lib/a b.so (deleted))",
            Some(("operator new(unsigned long)", "/lib/a b.so")),
        ),
        ("\tffffffff82203249 [unknown] ([kernel.kallsyms])", Some(("[unknown]", "[kernel.kallsyms]"))),
        ("\t 80000001 [unknown] ([unknown])", Some(("[unknown]", ""))),
        (
            "\t 1199 a::(anonymous namespace)::f(int, (anonymous namespace)::x)",
            Some(("a::(anonymous namespace)::f(int, (anonymous namespace)::x)", "")),
        ),
        ("\t 1199 inner (inlined)", Some(("inner", ""))),
        ("\t 1199 (/tmp/work)", Some(("[unknown]", "/tmp/work"))),
        ("\tcold+0xd", Some(("cold", ""))),
        ("\t1199", Some(("[unknown]", ""))),
        ("\t", None),
    ];
    for (line, expected) in cases {
        assert_eq!(parse_frame(line), expected, "{line:?}");
    }
}

#[test]
fn odd_lines_and_losses_are_reported() {
    let text = "work 7 1.0: PERF_RECORD_LOST lost 12\nwork 7 1.5: 5 cycles: \n\t 1 a (/b)\nwhat is this\n\nwork 7 2.0: 6 cycles: \n\t 1 [unknown] (/x/b.so)\n\n";
    let decoded = decoded(text.as_bytes());
    assert_eq!((decoded.format, decoded.profile.total(1)), (NAME, 11));
    assert_eq!(leaf(&decoded, 1), "[b.so]");
    assert_eq!(decoded.profile.duration(), Nanos(500_000_000));
    assert_eq!(
        decoded.warnings,
        [
            "perf-script: perf lost 12 samples",
            "perf-script: line 4: passed over 1 line not understood, the first \"what is this\""
        ]
    );
    assert_eq!(
        error(b"work 7 1.0: x:\nnothing of the kind\n"),
        "no known profile format begins with \"work 7 1.0: x:\\nnothing of the kind\\n\""
    );
}
