use std::process::Command;

use super::*;
use crate::format::fixtures::{bytes, check, decoded, error, path};
use crate::{Grammar, LabelValue};

#[test]
fn fixtures_decode() {
    check("jemalloc/work.heap", "jemalloc");
    check("jemalloc/work-accum.heap", "jemalloc");
}

#[test]
fn totals_are_those_of_jeprof() {
    for name in ["jemalloc/work.heap", "jemalloc/work-accum.heap"] {
        let profile = decoded(&bytes(name)).profile.adjusted(Grammar::Jeprof).unwrap();
        for (index, option) in
            ["--alloc_objects", "--alloc_space", "--inuse_objects", "--inuse_space"].iter().enumerate()
        {
            let output =
                Command::new("jeprof").args(["--text", "--show_bytes", option, "/bin/true"]).arg(path(name)).output();
            let output = String::from_utf8(output.expect("`jeprof` must be installed for this test").stdout).unwrap();
            let total = output
                .lines()
                .find_map(|line| line.strip_prefix("Total: "))
                .map_or("0", |rest| rest.split(' ').next().unwrap());
            let difference = profile.total(index) - total.parse::<i64>().unwrap();
            assert!(
                difference.abs() <= profile.sample_count() as i64,
                "{name} {option}: {} and {total}",
                profile.total(index)
            );
        }
    }
}

#[test]
fn threads_are_labelled_and_add_up() {
    let bytes = bytes("jemalloc/work-accum.heap");
    let mut warnings = Vec::new();
    let threads = decode_threads(&bytes, &Limits::default(), &mut warnings).unwrap();
    let total = decoded(&bytes).profile;
    assert_eq!(
        (0..4).map(|index| threads.total(index)).collect::<Vec<_>>(),
        (0..4).map(|index| total.total(index)).collect::<Vec<_>>()
    );
    let mut names: Vec<String> = threads
        .samples()
        .flat_map(|sample| sample.labels)
        .map(|label| match label.value {
            LabelValue::Text(name) => format!("{}={}", threads.string(label.key), threads.string(name)),
            LabelValue::Number(number, _) => format!("{}={number}", threads.string(label.key)),
        })
        .collect();
    names.sort();
    names.dedup();
    assert_eq!(names, ["thread=0", "thread=1", "thread_name=second thread"]);
}

#[test]
fn allocation_totals_may_be_missing() {
    let text = b"heap_v2/524288\n t*: 3: 786432\n@ 0x10\n  t*: 3: 786432\nMAPPED_LIBRARIES:\n";
    let decoded = decoded(text);
    assert_eq!(decoded.profile.sample(0).values, [0, 0, 3, 786_432]);
    assert_eq!(decoded.profile.sample_type(decoded.profile.default_sample_type()), ("inuse_space", "bytes"));
    assert!(decoded.profile.comments().any(|comment| comment.contains("prof_accum:false")));
    assert!(decoded.warnings.is_empty(), "{:?}", decoded.warnings);
    assert_eq!(decoded.profile.adjusted(Grammar::Pprof).unwrap().sample(0).values[3], 1_998_712);
}

#[test]
fn differences_may_be_negative_and_odd_lines_are_reported() {
    let text = b"heap_v2/1\n@ 0x10\n  t*: -3: -48 [1: 8]\nwhat is this\n\nMAPPED_LIBRARIES:\n";
    let decoded = decoded(text);
    assert_eq!(decoded.profile.sample(0).values, [1, 8, -3, -48]);
    assert_eq!(decoded.warnings, ["jemalloc: line 4: passed over 1 line not understood, the first \"what is this\""]);
}

#[test]
fn errors_name_the_line() {
    let cases = [
        ("heap_v2/5x\n", "jemalloc: line 1: expected heap_v2/RATE"),
        ("heap_v2/5", "jemalloc: line 1: input ends inside heap_v2/RATE"),
        ("heap_v2/5\n@ 0x1 q\n", "jemalloc: line 2: expected an address such as 0x4005d0, found \"@ 0x1 q\""),
        ("heap_v2/5\n@ 0x1\n t*: 5\n", "jemalloc: line 3: expected tTHREAD: N: S [N: S]"),
        ("heap_v2/5\n@ 0x1\n t*: 5: 6 [7: 8]", "jemalloc: line 3: input ends inside tTHREAD: N: S [N: S]"),
        ("heap_v2/5\n@ 0x1\n", "jemalloc: line 2: input ends inside a stack without counts"),
        ("heap_v2/5\n@ 0x1 0x2", "jemalloc: line 2: input ends inside a stack of addresses"),
    ];
    for (text, expected) in cases {
        let error = error(text.as_bytes());
        assert!(error.starts_with(expected), "{text:?}: {error}");
    }
    let limits = Limits { depth: 2, ..Limits::default() };
    let error = decode(b"heap_v2/5\n@ 0x1 0x2 0x3\n t*: 1: 1\n", &limits, &mut Vec::new()).unwrap_err();
    assert_eq!(error.to_string(), "jemalloc: frames of a stack passes the limit of 2");
}

#[test]
fn what_was_stored_as_pprof_is_written_as_it_was_measured() {
    for name in ["jemalloc/work.heap", "jemalloc/work-accum.heap"] {
        let original = bytes(name);
        let stored =
            crate::format::pprof::encode(&decoded(&original).profile.adjusted(Grammar::Pprof).unwrap()).unwrap();
        let again = encode(&decoded(&stored).profile).unwrap();
        let rows = |text: &[u8]| -> Vec<String> {
            let text = String::from_utf8(text.to_vec()).unwrap();
            let dump = text.split("\nMAPPED_LIBRARIES").next().unwrap();
            dump.lines()
                .skip(2)
                .filter(|line| !line.contains(" t0:") && !line.contains(" t1:"))
                .map(|line| line.trim().to_owned())
                .collect()
        };
        // Thread lines of the totals come before the first stack.
        let stacks = |rows: Vec<String>| rows.into_iter().skip_while(|row| !row.starts_with('@')).collect::<Vec<_>>();
        assert_eq!(stacks(rows(&again)), stacks(rows(&original)), "{name}");
        let text = |input: &[u8]| {
            let folder = tempfile::tempdir().unwrap();
            let file = folder.path().join("heap");
            std::fs::write(&file, input).unwrap();
            let output =
                Command::new("jeprof").args(["--text", "--show_bytes", "--addresses", "/bin/true"]).arg(file).output();
            String::from_utf8(output.expect("`jeprof` must be installed for this test").stdout).unwrap()
        };
        assert_eq!(text(&again), text(&original), "{name}");
    }
    let wrong = encode(&decoded(b"a;b 1\n").profile).unwrap_err().to_string();
    assert!(wrong.contains("jemalloc cannot hold this profile"), "{wrong}");
}

/// Reads in pieces of `size` bytes and what follows up to a border, by several readers in turn.
fn in_pieces(text: &[u8], size: usize, readers: usize, wanted: Wanted) -> (Result<Profile>, Vec<String>) {
    let mut warnings = Vec::new();
    let read = |warnings: &mut Vec<String>| {
        let mut dump = Dump::open_for(text, text.len() as u64, &Limits { depth: 4, ..Limits::default() }, wanted)?;
        let mut readers: Vec<_> = (0..readers).map(|_| dump.reader()).collect();
        let (mut start, count) = (0, readers.len());
        for number in 0.. {
            if start == text.len() {
                break;
            }
            let end = Dump::border(text, start + size).unwrap_or(text.len());
            if let Some(map) = dump.add(readers[number % count].read(&text[start..end]))? {
                return dump.finish(Some(&text[start + map..]), warnings);
            }
            start = end;
        }
        dump.finish(None, warnings)
    };
    (read(&mut warnings), warnings)
}

#[test]
fn pieces_give_what_the_whole_does() {
    let head = "heap_v2/524288\n  t*: 3: 786432 [0: 0]\n  t1: 3: 786432 [0: 0] main\n# a comment\n";
    let stacks = "@ 0x10 0x20 0x30\n  t*: 3: 300 [5: 500]\n  t1: 3: 300 [5: 500]\n@ 0x40 0x20 0x30\nodd\n@ 0x10\n\n@ 0x40 0x30\n  t*: 1: 7\n  t2: 1: 7\n";
    let map = "\nMAPPED_LIBRARIES:\n00400000-00500000 r-xp 00000000 00:00 0 /bin/a\n@ 0x50\n t*: x\n";
    let endings = [
        map,
        "",
        "@ 0x50\n",
        "@ 0x50 x\n",
        "@ 0x50\x0c0x40\n",
        "@ 1 2 3\n",
        "@ 0x1 0x2 0x3 0x4 0x5\n t*: 1: 1\n",
        " t*: x\n",
        " t*: 1: 1",
    ];
    for text in endings.map(|ending| format!("{head}{stacks}{stacks}{ending}")) {
        for wanted in [Wanted::Totals, Wanted::Threads] {
            let whole = in_pieces(text.as_bytes(), text.len(), 1, wanted);
            for size in 1..text.len() {
                for readers in 1..3 {
                    assert_eq!(in_pieces(text.as_bytes(), size, readers, wanted), whole, "{size} {readers} {text:?}");
                }
            }
        }
    }
    let (profile, warnings) = in_pieces(format!("{head}{stacks}{map}").as_bytes(), 20, 2, Wanted::Totals);
    assert_eq!(profile.unwrap().sample_count(), 2);
    assert_eq!(warnings, ["jemalloc: line 9: passed over 5 lines not understood, the first \"odd\""]);
    let broken = format!("{head}{}\n", "@ 0x50 x\n t*: 1: 1\n");
    let (profile, warnings) = in_pieces(format!("{broken}{stacks}{map}").as_bytes(), 20, 2, Wanted::Totals);
    assert_eq!(profile.unwrap().sample_count(), 2, "the counts of a broken stack are left out with it");
    assert_eq!(warnings, ["jemalloc: line 5: passed over 6 lines not understood, the first \"@ 0x50 x\""]);
    let (failure, _) = in_pieces(broken.as_bytes(), 20, 2, Wanted::Totals);
    let expected = "jemalloc: line 5: expected an address such as 0x4005d0, found \"@ 0x50 x\"";
    assert_eq!(failure.unwrap_err().to_string(), expected);
}
