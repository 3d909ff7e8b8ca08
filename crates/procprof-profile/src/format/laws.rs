//! Laws of every format: what is odd in a file costs that, is counted in one warning, and no more.
//!
//! A row of [`ROWS`] is a small file with one record in it that is broken, or followed by one of no known kind. Every
//! text among the fixtures, and those files, are read with a line before and behind them, with a byte order mark, with
//! line breaks of Windows, with blanks for tabs, and with their keys in the opposite order. [`EXCEPTIONS`] has what
//! cannot be so, and why.

use std::collections::BTreeMap;

use super::fixtures::{bytes, decoded, path};
use super::json::{Json, Kind};
use super::{Decoded, FORMATS};
use crate::LabelValue;

/// Formats and laws that they cannot keep.
const EXCEPTIONS: &[(&str, &[Law], &str)] = &[
    ("pprof", ALL, "lengths: a field that is damaged or added moves the end of its message"),
    ("jfr", ALL, "lengths: chunks and events are found by their sizes; whole chunks are kept"),
    ("perf-data", ALL, "lengths: records are found by their sizes, in a section of stated size"),
    ("mojo", ALL, "no marks: an event is as long as its kind says, and an unknown kind has no known length"),
    ("gperftools-cpu", ALL, "no marks: a sample is as many words as it says, and text is samples, too"),
    ("pstats", ALL, "lengths: a value has no end but the one that its kind and length give"),
    ("instruments", &[Law::BlanksForTabs], "nesting: the columns and the depth of a row both lie in its blanks"),
];

const ALL: &[Law] =
    &[Law::Records, Law::LineBefore, Law::LineBehind, Law::Mark, Law::Windows, Law::BlanksForTabs, Law::Keys];

#[derive(Clone, Copy, Debug, PartialEq)]
enum Law {
    /// A broken record, or one of no known kind, costs no other.
    Records,
    LineBefore,
    LineBehind,
    Mark,
    Windows,
    BlanksForTabs,
    Keys,
}

fn is_exempt(format: &str, law: Law) -> bool {
    EXCEPTIONS.iter().any(|(name, laws, _)| *name == format && laws.contains(&law))
}

/// A file of a format with a record at its `§`.
struct Row {
    format: &'static str,
    file: &'static str,
    record: &'static str,
    broken: &'static str,
    /// A record of no known kind, with what parts it from the one before.
    unknown: &'static str,
    /// Stacks of the file, root first, with their first values; those of the record come last.
    stacks: &'static [&'static str],
}

const ROWS: &[Row] = &[
    Row {
        format: "collapsed",
        file: "a;b 1\n§a;d 3\n",
        record: "a;c 2\n",
        broken: "a;c two\n",
        unknown: "what is this\n",
        stacks: &["a;b 1", "a;d 3", "a;c 2"],
    },
    Row {
        format: "heap-text",
        file: "heap profile: 3: 24 [3: 24] @ heapprofile\n1: 8 [1: 8] @ 0x10\n§\nMAPPED_LIBRARIES:\n00400000-00500000 r-xp 00000000 00:00 0 /bin/a\n",
        record: "2: 16 [2: 16] @ 0x20\n",
        broken: "2: 16 [2 16] @ 0x20\n",
        unknown: "what is this\n",
        stacks: &["0x10 1", "0x20 2"],
    },
    Row {
        format: "jemalloc",
        file: "heap_v2/524288\n  t*: 3: 24 [0: 0]\n@ 0x10\n  t*: 1: 8 [1: 8]\n§\nMAPPED_LIBRARIES:\n00400000-00500000 r-xp 00000000 00:00 0 /bin/a\n",
        record: "@ 0x20\n  t*: 2: 16 [2: 16]\n",
        broken: "@ 0x2?\n  t*: 2: 16 [2: 16]\n",
        unknown: "what is this\n",
        stacks: &["0x10 1", "0x20 2"],
    },
    Row {
        format: "contention",
        file: "--- contentionz 1 ---\ncycles/second = 1000000000\nsampling period = 1\n5 1 @ 0x10\n§--- Memory map: ---\n",
        record: "6 2 @ 0x20\n",
        broken: "6 2 @ 0x2?\n",
        unknown: "what is this\n",
        stacks: &["0x10 1", "0x20 2"],
    },
    Row {
        format: "go-count",
        file: "goroutine profile: total 3\n1 @ 0x10\n§",
        record: "2 @ 0x20\n",
        broken: "2 @ 0x2?\n",
        unknown: "what is this\n",
        stacks: &["0x10 1", "0x20 2"],
    },
    Row {
        format: "threadz",
        file: "--- threadz 1 ---\n\n--- Thread 7f01 (name: a/1) stack: ---\n  PC: 0x10\n§--- Memory map: ---\n  00400000-00fcb000: /srv/prog\n",
        record: "--- Thread 7f02 (name: b/2) stack: ---\n  PC: 0x20\n",
        broken: "--- Thread 7f02 (nam\n  PC: 0x20\n",
        unknown: "what is this\n",
        stacks: &["0x10 1", "0x20 1"],
    },
    Row {
        format: "symbolized",
        file: "--- symbol\nbinary=/bin/a\n0x0000000000000010 f\n0x0000000000000020 g\n---\n--- heap\nheap profile: 3: 24 [3: 24] @ heapprofile\n1: 8 [1: 8] @ 0x10\n§\nMAPPED_LIBRARIES:\n",
        record: "2: 16 [2: 16] @ 0x20\n",
        broken: "2: 16 [2 16] @ 0x20\n",
        unknown: "what is this\n",
        stacks: &["f 1", "g 2"],
    },
    Row {
        format: "java",
        file: "--- heapz 1 ---\nformat = java\nresolution = bytes\n  8 1 @ 0x1\n§\n 0x1 A.f (A.java:3)\n 0x2 A.g (A.java:4)\n",
        record: "  16 2 @ 0x2\n",
        broken: "  16 2 @ 0x2?\n",
        unknown: "what is this\n",
        stacks: &["A.f 1", "A.g 2"],
    },
    Row {
        format: "goroutines",
        file: "goroutine 1 [running]:\nmain.f()\n\t/a.go:1 +0x1\n\n§",
        record: "goroutine 7 [select]:\nmain.g()\n\t/a.go:2 +0x1\n\n",
        broken: "goroutine 7 [sel\nmain.g()\n\t/a.go:2 +0x1\n\n",
        unknown: "what is this\n\n",
        stacks: &["main.f 1", "main.g 1"],
    },
    Row {
        format: "java-threads",
        file: "Full thread dump OpenJDK 64-Bit Server VM (17):\n\n\"a\" #1 tid=0x1 nid=0x1 runnable  [0x1]\n   java.lang.Thread.State: RUNNABLE\n\tat A.f(A.java:1)\n\n§",
        record: "\"b\" #2 tid=0x2 nid=0x2 runnable  [0x2]\n   java.lang.Thread.State: RUNNABLE\n\tat A.g(A.java:2)\n\n",
        broken: "\"b\" #2 tid=0x2 ni\n   java.lang.Thread.State: RUNNABLE\n\tat A.g(A.java:2)\n\n",
        unknown: "what is this\n\n",
        stacks: &["A.f 1", "A.g 1"],
    },
    Row {
        format: "massif",
        file: "desc: (none)\ncmd: ./work\ntime_unit: i\n#-----------\nsnapshot=0\n#-----------\ntime=0\nheap_tree=peak\nn2: 3 (heap allocation functions)\n n0: 1 0x1: f (a.c:1)\n§",
        record: " n0: 2 0x2: g (a.c:2)\n",
        broken: " n0: two 0x2: g (a.c:2)\n",
        unknown: "what is this\n",
        stacks: &["f 1", "g 2"],
    },
    Row {
        format: "dhat",
        file: r#"{"dhatFileVersion":2,"mode":"heap","bklt":false,"pps":[{"tb":8,"tbk":1,"fs":[1]}§],"ftbl":["[root]","0x1: f (a.c:1)","0x2: g (a.c:2)"]}"#,
        record: r#",{"tb":16,"tbk":2,"fs":[2]}"#,
        broken: r#",{"tb":16,"tbk":2,"fs":[9]}"#,
        unknown: r#",{"what":7}"#,
        stacks: &["f 1", "g 2"],
    },
    Row {
        format: "bpftrace",
        file: "@[\n    f+1\n]: 1\n§",
        record: "@[\n    g+2\n]: 2\n",
        broken: "@[\n    g+2\n]: two\n",
        unknown: "@start: 7\n",
        stacks: &["f 1", "g 2"],
    },
    Row {
        format: "callgrind",
        file: "# callgrind format\nevents: Ir\n\nfn=f\n1 5\nfn=g\n§3 0\n",
        record: "2 6\n",
        broken: "2 6?\n",
        unknown: "what is this\n",
        stacks: &["f 5", "g 6"],
    },
    Row {
        format: "instruments",
        file: "Weight\tSelf Weight\t\tSymbol Name\n3 s\t0 s\t \tmain\n1 s\t1 s\t \t f\n§",
        record: "2 s\t2 s\t \t g\n",
        broken: "two\t2 s\t \t g\n",
        unknown: "what is this\n",
        stacks: &["main;f 1000000000", "main;g 2000000000"],
    },
    Row {
        format: "perf-script",
        file: "w 7/7 1.0: 9 cycles: \n\t 10 f (/w)\n\n§",
        record: "w 7/7 2.0: 9 cycles: \n\t 20 g (/w)\n\n",
        broken: "w 7/? 2,0: 9 cyc\n\t 20 g (/w)\n\n",
        unknown: "what is this\n\n",
        stacks: &["f 1", "g 1"],
    },
    Row {
        format: "async-profiler-html",
        file: "<!DOCTYPE html>\n<html lang='en'>\n<h1>CPU profile</h1>\n<a href='https://github.com/async-profiler/async-profiler'>async-profiler</a>\n<script>\nconst levels = Array(3);\nf(0,0,3,3,'all')\nf(1,0,1,3,'f')\n§</script></body></html>\n",
        record: "f(1,1,2,3,'g')\n",
        broken: "f(1,1,two,3,'g')\n",
        unknown: "n(999999,2)\n",
        stacks: &["f 1", "g 2"],
    },
    Row {
        format: "flame-svg",
        file: "<?xml version=\"1.0\"?>\n<svg width=\"1200\">\n<g><title>all (3 samples, 100%)</title><rect x=\"0%\" y=\"37\" width=\"100%\"/></g>\n<g><title>f (1 samples, 33.33%)</title><rect x=\"0%\" y=\"21\" width=\"33.33%\"/></g>\n§</svg>\n",
        record: "<g><title>g (2 samples, 66.67%)</title><rect x=\"33.33%\" y=\"21\" width=\"66.67%\"/></g>\n",
        broken: "<g><title>g (2 samples, 66.67%)</title><rect x=\"wide\" y=\"21\" width=\"66.67%\"/></g>\n",
        unknown: "<g><title>what is this</title><rect x=\"0%\" y=\"5\" width=\"1%\"/></g>\n",
        stacks: &["f 1", "g 2"],
    },
    Row {
        format: "speedscope",
        file: r#"{"shared":{"frames":[{"name":"f"},{"name":"g"}]},"profiles":[{"type":"sampled","name":"x","unit":"none","startValue":0,"endValue":3,"samples":[[0]§],"weights":[1,2]}]}"#,
        record: ",[1]",
        broken: ",[9]",
        unknown: ",{\"kind\":7}",
        stacks: &["f 1", "g 2"],
    },
    Row {
        format: "cpuprofile",
        file: r#"{"nodes":[{"id":1,"callFrame":{"functionName":"f"}},{"id":2,"callFrame":{"functionName":"g"}}],"startTime":0,"endTime":9,"samples":[1§],"timeDeltas":[1,1]}"#,
        record: ",2",
        broken: ",\"2\"",
        unknown: ",{\"kind\":7}",
        stacks: &["f 1", "g 1"],
    },
    Row {
        format: "heapprofile",
        file: r#"{"head":{"callFrame":{"functionName":"f"},"selfSize":1,"children":[{"callFrame":{"functionName":"g"},"selfSize":§}]}}"#,
        record: "2",
        broken: "\"2\"",
        unknown: ",\"children\":7",
        stacks: &["f 1", "f;g 2"],
    },
    Row {
        format: "chrome-trace",
        file: r#"{"traceEvents":[{"name":"f","ph":"X","pid":1,"tid":1,"ts":0,"dur":0.001}§]}"#,
        record: r#",{"name":"g","ph":"X","pid":1,"tid":1,"ts":7,"dur":0.002}"#,
        broken: r#",{"name":"g","ph":"X","pid":1,"tid":1,"ts":"seven","dur":0.002}"#,
        unknown: r#",{"name":"h","ph":"?","pid":1,"tid":1,"ts":9}"#,
        stacks: &["f 1", "g 2"],
    },
    Row {
        format: "firefox",
        file: r#"{"meta":{"interval":1,"processType":0},"threads":[{"name":"t","samples":{"stack":[0§],"length":2},"stackTable":{"frame":[0,1],"prefix":[null,null],"length":2},"frameTable":{"func":[0,1],"line":[1,2],"length":2},"funcTable":{"name":[0,1],"fileName":[null,null],"resource":[-1,-1],"length":2},"stringArray":["f","g"]}]}"#,
        record: ",1",
        broken: ",71",
        unknown: ",72",
        stacks: &["f 1", "g 1"],
    },
    Row {
        format: "stackprof",
        file: r#"{"mode":"wall","interval":1,"gc_samples":0,"frames":{"1":{"name":"f"},"2":{"name":"g"}},"raw":[1,1,1§]}"#,
        record: ",1,2,2",
        broken: ",1,9,2",
        unknown: ",\"what\"",
        stacks: &["f 1", "g 2"],
    },
    Row {
        format: "otlp",
        file: r#"{"resourceProfiles":[{"scopeProfiles":[{"profiles":[{"sampleType":{"typeStrindex":1,"unitStrindex":2},"samples":[{"stackIndex":1,"values":["1"]}§]}]}]}],"dictionary":{"stringTable":["","samples","count","f","g"],"functionTable":[{},{"nameStrindex":3},{"nameStrindex":4}],"locationTable":[{},{"lines":[{"functionIndex":1}]},{"lines":[{"functionIndex":2}]}],"stackTable":[{},{"locationIndices":[1]},{"locationIndices":[2]}]}}"#,
        record: r#",{"stackIndex":2,"values":["2"]}"#,
        broken: r#",{"stackIndex":2,"values":["two"]}"#,
        unknown: ",7",
        stacks: &["f 1", "g 2"],
    },
];

/// Each stack, root first, and its first value.
fn stacks(decoded: &Decoded) -> Vec<String> {
    let profile = &decoded.profile;
    let name = |id: &crate::LocationId| match profile.lines(*id) {
        [] => format!("{:#x}", profile.location(*id).address.0),
        [line, ..] => profile.string(profile.function(line.function).name).to_owned(),
    };
    let stack = |stack: &[crate::LocationId]| stack.iter().rev().map(name).collect::<Vec<_>>().join(";");
    profile
        .samples()
        .filter(|sample| sample.values[0] != 0)
        .map(|sample| format!("{} {}", stack(sample.stack), sample.values[0]))
        .collect()
}

/// All that is measured, in an order that does not depend on that of the file.
fn measured(decoded: &Decoded) -> BTreeMap<String, Vec<i64>> {
    let profile = &decoded.profile;
    let mut all = BTreeMap::new();
    for sample in profile.samples() {
        let frame = |id: &crate::LocationId| {
            let lines = profile.lines(*id).iter().map(|line| {
                let function = profile.function(line.function);
                format!("{}:{}:{}", profile.string(function.name), profile.string(function.filename), line.line)
            });
            let mapping = profile.location(*id).mapping.map(|id| profile.string(profile.mapping(id).filename));
            format!("{:#x} {mapping:?} {:?}", profile.location(*id).address.0, lines.collect::<Vec<_>>())
        };
        let stack: Vec<String> = sample.stack.iter().map(frame).collect();
        let mut labels: Vec<String> = sample
            .labels
            .iter()
            .map(|label| match label.value {
                LabelValue::Text(text) => format!("{}={}", profile.string(label.key), profile.string(text)),
                LabelValue::Number(number, _) => format!("{}={number}", profile.string(label.key)),
            })
            .collect();
        labels.sort();
        let sums = all.entry(format!("{stack:?} {labels:?}")).or_insert_with(|| vec![0; sample.values.len()]);
        sums.iter_mut().zip(sample.values).for_each(|(sum, value)| *sum += value);
    }
    all
}

/// Whether there is one warning more than before, which counts one of something.
fn counts_one(warnings: &[String], before: &[String]) -> bool {
    let more: Vec<&String> = warnings.iter().filter(|warning| !before.contains(warning)).collect();
    matches!(more.as_slice(), [one] if [" 1 line", " 1 record"].iter().any(|count| one.contains(count)))
}

#[test]
fn every_format_has_a_row_or_a_reason() {
    assert!(EXCEPTIONS.len() <= 8);
    for format in FORMATS {
        let has_row = ROWS.iter().any(|row| row.format == format.name);
        assert_ne!(has_row, is_exempt(format.name, Law::Records), "{}", format.name);
    }
}

#[test]
fn an_odd_record_costs_itself() {
    for row in ROWS {
        let read = |record: &str| {
            let file = row.file.replace('§', record);
            let decoded = super::decode(file.as_bytes(), &super::Limits::default());
            let decoded = decoded.unwrap_or_else(|error| panic!("{error}: {file}"));
            assert_eq!(decoded.format, row.format, "{file}");
            decoded
        };
        let sorted = |decoded: &Decoded| {
            let mut stacks = stacks(decoded);
            stacks.sort();
            stacks
        };
        let expected = |count: usize| {
            let mut stacks: Vec<String> = row.stacks[..count].iter().map(|stack| (*stack).to_owned()).collect();
            stacks.sort();
            stacks
        };
        let whole = read(row.record);
        assert_eq!(sorted(&whole), expected(row.stacks.len()), "{}", row.format);
        let broken = read(row.broken);
        assert_eq!(sorted(&broken), expected(row.stacks.len() - 1), "{}, broken", row.format);
        assert!(counts_one(&broken.warnings, &whole.warnings), "{}: {:?}", row.format, broken.warnings);
        let unknown = read(&format!("{}{}", row.record, row.unknown));
        assert_eq!(sorted(&unknown), expected(row.stacks.len()), "{}, unknown", row.format);
        assert!(counts_one(&unknown.warnings, &whole.warnings), "{}: {:?}", row.format, unknown.warnings);
    }
}

/// All texts among the fixtures, and those of the rows, with what they are.
fn texts() -> Vec<(String, String)> {
    let mut all: Vec<(String, String)> =
        ROWS.iter().map(|row| (row.format.to_owned(), row.file.replace('§', row.record))).collect();
    for folder in std::fs::read_dir(path("")).unwrap().flatten().filter(|entry| entry.path().is_dir()) {
        for file in std::fs::read_dir(folder.path()).unwrap().flatten() {
            let name = format!("{}/{}", folder.file_name().display(), file.file_name().display());
            if let Ok(text) = String::from_utf8(bytes(&name))
                && !text.contains('\0')
                && !name.ends_with(".expect")
                && super::decode(text.as_bytes(), &super::Limits::default()).is_ok()
            {
                all.push((name, text));
            }
        }
    }
    all
}

/// Reads all texts changed, as far as they may keep the law; `more` is whether a line was added.
fn check(law: Law, is_line_added: bool, change: impl Fn(&str) -> String) {
    let mut checked = 0;
    for (name, text) in texts() {
        let before = decoded(text.as_bytes());
        if is_exempt(before.format, law) {
            continue;
        }
        let changed = change(&text);
        let after = super::decode(changed.as_bytes(), &super::Limits::default());
        let after = after.unwrap_or_else(|error| panic!("{law:?}, {name}: {error}"));
        assert_eq!(after.format, before.format, "{law:?}, {name}");
        assert_eq!(measured(&after), measured(&before), "{law:?}, {name}");
        match is_line_added {
            true => assert!(after.warnings.len() == before.warnings.len() + 1, "{law:?}, {name}: {:?}", after.warnings),
            false => assert_eq!(after.warnings.len(), before.warnings.len(), "{law:?}, {name}: {:?}", after.warnings),
        }
        checked += 1;
    }
    assert!(checked > 50, "{checked} texts");
}

#[test]
fn lines_of_others_are_counted() {
    check(Law::LineBefore, true, |text| format!("warning: some events were lost\n{text}"));
    check(Law::LineBehind, true, |text| {
        let end = if text.ends_with('\n') { "" } else { "\n" };
        format!("{text}{end}bye, and thanks\n")
    });
}

#[test]
fn marks_line_breaks_and_tabs_mean_nothing() {
    check(Law::Mark, false, |text| format!("\u{feff}{text}"));
    check(Law::Windows, false, |text| text.replace('\n', "\r\n"));
    check(Law::BlanksForTabs, false, |text| text.replace('\t', "        "));
}

#[test]
fn keys_have_no_order() {
    check(Law::Keys, false, |text| {
        let mut turned = String::new();
        match text.trim_start().starts_with(['{', '[']) {
            true => turn(&mut Json::new("test", text.as_bytes()), &mut turned),
            false => turned.push_str(text),
        }
        turned
    });
}

/// Writes a value with the keys of all its objects in the opposite order.
fn turn(json: &mut Json<'_>, out: &mut String) {
    match json.kind().unwrap() {
        Kind::Object => {
            let mut members = Vec::new();
            json.object(|json, key| {
                let mut member = String::new();
                super::json::push_text(&mut member, key);
                member.push(':');
                turn(json, &mut member);
                members.push(member);
                Ok(())
            })
            .unwrap();
            members.reverse();
            *out += &format!("{{{}}}", members.join(","));
        }
        Kind::Array => {
            let mut elements = Vec::new();
            json.array(|json| {
                let mut element = String::new();
                turn(json, &mut element);
                elements.push(element);
                Ok(())
            })
            .unwrap();
            *out += &format!("[{}]", elements.join(","));
        }
        Kind::Text => super::json::push_text(out, &json.text().unwrap()),
        Kind::Number => out.push_str(json.number_word().unwrap()),
        Kind::Bool | Kind::Null => {
            let value = json.later().unwrap();
            out.push_str(["true", "false", "null"].into_iter().find(|word| value.is_word(word)).unwrap());
        }
    }
}
