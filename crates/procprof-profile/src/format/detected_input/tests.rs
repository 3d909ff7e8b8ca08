use std::fmt::Write;

use crate::format::fixtures::{decoded, error};
use crate::format::{Decoded, Limits, decode_collapsed};

/// The format, and each stack, root first, with its first value.
fn read(decoded: &Decoded) -> String {
    let profile = &decoded.profile;
    let mut text = decoded.format.to_owned();
    for sample in profile.samples() {
        let name = |id: &crate::LocationId| profile.string(profile.function(profile.lines(*id)[0].function).name);
        let stack: Vec<&str> = sample.stack.iter().rev().map(name).collect();
        write!(text, " | {} {}", stack.join(";"), sample.values[0]).unwrap();
    }
    text
}

#[test]
fn perf_script_is_known_by_its_samples() {
    let cases = [
        (
            "w 7 1.5:     250000 cpu-clock: \n        ffffffff81068f58 adjust ([kernel.kallsyms])\n                    5b30 map (/usr/lib64/ld-2.17.so)\n\n",
            "perf-script | map;adjust 1",
            0,
        ),
        ("w 7/7 1.5: 9 cycles: \n    12 a+0x1 (/w)\n    feed f (inlined)\n\n", "perf-script | f;a 1", 0),
        (
            " instruction trace error type 1 time 4525.7 cpu 0 ip 0 code 8: Lost trace data\n w 7/7 1.5: 9 cycles: \n\t 12 a (/w)\n\n",
            "perf-script | a 1",
            1,
        ),
        (
            "w     7 [001]    1.500: sched:sched_switch: prev_comm=w prev_pid=7\nw     7 [001]    1.600: sched:sched_switch: prev_comm=w prev_pid=7\n",
            "perf-script |  2",
            0,
        ),
        // As SimplePerf's report_sample.py writes it.
        (
            "app\t7 [003] 1.5:          1 cpu-cycles:\n\t    7f00 art::f(int) (/system/lib64/libart.so)\n\n",
            "perf-script | art::f(int) 1",
            0,
        ),
    ];
    for (text, expected, warnings) in cases {
        let decoded = decoded(text.as_bytes());
        assert_eq!((read(&decoded).as_str(), decoded.warnings.len()), (expected, warnings), "{text}");
    }
}

#[test]
fn keys_of_json_come_in_any_order() {
    let cases = [
        (
            r#"{"version":"0.1.2","profiles":[{"type":"sampled","unit":"none","startValue":0,"endValue":1,"samples":[[0]],"weights":[3]}],"shared":{"frames":[{"name":"f"}]}}"#,
            "speedscope | f 3",
        ),
        (
            r#"{"$vscode":{},"nodes":[{"id":1,"callFrame":{"functionName":"f"},"hitCount":2}],"startTime":0,"endTime":4}"#,
            "cpuprofile | f 2",
        ),
        (r#"{"frames":{"1":{"name":"f"}},"gc_samples":0,"interval":1,"mode":"cpu","raw":[1,1,2]}"#, "stackprof | f 2"),
        (
            r#"{"baseTimeNanoseconds":7,"traceEvents":[{"name":"f","ph":"X","pid":1,"tid":1,"ts":0,"dur":2}]}"#,
            "chrome-trace | f 2000",
        ),
        (
            r#"{"other":[{"a":1}],"head":{"callFrame":{"functionName":"f"},"selfSize":5,"children":[]}}"#,
            "heapprofile | f 5",
        ),
    ];
    for (text, expected) in cases {
        assert_eq!(read(&decoded(text.as_bytes())), expected);
    }
}

#[test]
fn a_first_line_may_be_long_and_lines_may_end_in_blanks() {
    let long = vec!["f"; 40_000].join(";") + " 2\nmain;work 3  \n";
    let decoded = decoded(long.as_bytes());
    assert_eq!((decoded.format, decoded.profile.total(0), decoded.warnings.len()), ("collapsed", 5, 0));
}

#[test]
fn lines_before_a_profile_are_passed_over() {
    let text = "\nListening for signals\n[1] 4711\ngoroutine profile: total 2\n2 @ 0x10 0x20\n";
    let lines_before = decoded(text.as_bytes());
    assert_eq!((lines_before.format, lines_before.profile.total(0)), ("go-count", 2));
    assert_eq!(
        lines_before.warnings,
        ["go-count: line 2: passed over 2 lines not understood, the first \"Listening for signals\"; the profile \
             begins behind line 3, from which others are counted"]
    );
    assert!(error(b"hello\ngoroutine profile: total 2\nx @\n").starts_with("go-count: line 3: "));
    assert!(error(b"hello\nworld\n").starts_with("no known profile format begins with \"hello"));
    let blank = decoded(b"\n\ngoroutine profile: total 2\n2 @ 0x10 0x20\n");
    assert_eq!((blank.format, blank.warnings.len()), ("go-count", 0));
}

#[test]
fn byte_order_marks_are_no_part_of_a_profile() {
    let text = "heap profile: 1: 8 [1: 8] @ heapprofile\n1: 8 [1: 8] @ 0x10\n\nMAPPED_LIBRARIES:\n";
    let utf16: Vec<u8> = format!("\u{feff}{text}").encode_utf16().flat_map(u16::to_le_bytes).collect();
    for bytes in [format!("\u{feff}{text}").into_bytes(), utf16] {
        let decoded = decoded(&bytes);
        assert_eq!((decoded.format, decoded.profile.total(1), decoded.warnings.len()), ("heap-text", 8, 0));
    }
    assert!(error(b"\xef\xbb\xbf").contains("empty"));
    let named = decode_collapsed("\u{feff}lock_it 5\n".as_bytes(), &Limits::default()).unwrap();
    assert_eq!(read(&named), "collapsed | lock_it 5");
}

#[test]
fn files_of_a_collector_have_several_messages() {
    let message = |name: &str, value: i64| {
        format!(
            r#"{{"resourceProfiles":[{{"scopeProfiles":[{{"profiles":[{{"sampleType":{{"typeStrindex":1,"unitStrindex":2}},"samples":[{{"stackIndex":1,"values":["{value}"]}}]}}]}}]}}],"dictionary":{{"stringTable":["","samples","count","{name}"],"functionTable":[{{}},{{"nameStrindex":3}}],"locationTable":[{{}},{{"lines":[{{"functionIndex":1}}]}}],"stackTable":[{{}},{{"locationIndices":[1]}}]}}}}"#
        )
    };
    let lines = [message("f", 3), message("g", 4)].join("\n");
    assert_eq!(read(&decoded(lines.as_bytes())), "otlp | f 3 | g 4");
    let with_note = decoded(format!("{lines}\nbye\n").as_bytes());
    assert_eq!(with_note.warnings, ["otlp: line 3: passed over 1 line not understood, the first \"bye\""]);

    let one = crate::format::otlp::encode(&decoded(b"a;f 3\n").profile).unwrap();
    let framed: Vec<u8> =
        [&one, &one].iter().flat_map(|one| [&(one.len() as u32).to_be_bytes(), one.as_slice()].concat()).collect();
    let decoded = decoded(&framed);
    assert_eq!((decoded.format, decoded.profile.total(0)), ("otlp", 6));
}
