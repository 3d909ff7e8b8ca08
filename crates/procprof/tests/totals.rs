//! One real file of each format: the total of `procprof report -top` is that of the tool which wrote the file, as its
//! own summary, another of its outputs, or a count of the records in it has it.

use std::collections::HashMap;
use std::fs;
use std::path::PathBuf;
use std::process::Command;

use serde_json::Value;

use crate::collect::replay::repository;
use crate::harness::procprof;

fn path(file: &str) -> PathBuf {
    repository().join("testdata/formats").join(file)
}

fn text(file: &str) -> String {
    fs::read_to_string(path(file)).expect("a file of testdata")
}

fn json(file: &str) -> Value {
    serde_json::from_str(&text(file)).expect("JSON")
}

/// The total in the header of the report, in its own unit.
fn total(file: &str, options: &[&str]) -> u64 {
    let output = procprof()
        .args(["report", "-top", "-sample_index=0"])
        .args(options)
        .arg(path(file))
        .output()
        .expect("procprof runs");
    let report = String::from_utf8_lossy(&output.stdout).into_owned();
    let header = report.lines().find_map(|line| line.split_once("% of ")?.1.strip_suffix(" total"));
    let digits: String = header.unwrap_or_default().chars().take_while(char::is_ascii_digit).collect();
    digits.parse().unwrap_or_else(|_| panic!("{file}: {report}{}", String::from_utf8_lossy(&output.stderr)))
}

fn check(file: &str, options: &[&str], expected: u64) {
    assert!(expected > 0, "{file} has something to count");
    assert_eq!(total(file, options), expected, "{file} {options:?}");
}

/// The sum of the last words of all lines: what collapsed stacks have in all.
fn last_words(file: &str) -> u64 {
    text(file).lines().filter_map(|line| line.rsplit_once(' ')?.1.parse::<u64>().ok()).sum()
}

/// All values of a key, at any depth.
fn all<'v>(value: &'v Value, key: &str) -> Vec<&'v Value> {
    let below =
        |values: &mut dyn Iterator<Item = &'v Value>| values.flat_map(|value| all(value, key)).collect::<Vec<_>>();
    match value {
        Value::Object(members) => {
            let mut found: Vec<&Value> = members.get(key).into_iter().collect();
            found.extend(below(&mut members.values()));
            found
        }
        Value::Array(elements) => below(&mut elements.iter()),
        _ => Vec::new(),
    }
}

/// How many elements the arrays of a key have together.
fn elements(file: &str, key: &str) -> u64 {
    all(&json(file), key).iter().filter_map(|value| value.as_array()).map(|array| array.len() as u64).sum()
}

/// The time, in millionths of a unit, during which something is open: events that open and close calls, by thread.
fn open_time<'v>(events: impl IntoIterator<Item = &'v Value>, (kind, open, time): (&str, &str, &str)) -> f64 {
    let (mut threads, mut sum): (HashMap<String, (u64, f64)>, f64) = (HashMap::new(), 0.0);
    for event in events {
        let at = event[time].as_f64().expect("a time");
        let (depth, since) = threads.entry(format!("{} {}", event["pid"], event["tid"])).or_default();
        if event[kind] == open {
            if *depth == 0 {
                *since = at;
            }
            *depth += 1;
        } else {
            *depth -= 1;
            if *depth == 0 {
                sum += at - *since;
            }
        }
    }
    sum
}

fn nanos(seconds: f64) -> u64 {
    (seconds * 1e9).round() as u64
}

#[test]
fn totals_are_those_of_the_tools() {
    let callgrind = text("callgrind/calls.out");
    let instructions = callgrind.lines().find_map(|line| line.strip_prefix("totals: ")?.trim().parse().ok());
    check("callgrind/calls.out", &[], instructions.expect("callgrind's own total"));
    for packed in
        ["collapsed/work.txt", "packed/work.txt.bz2", "packed/work.txt.xz", "packed/work.txt.zst", "packed/frames.zst"]
    {
        check(packed, &[], last_words("collapsed/work.txt"));
    }
    for version in ["4.0", "4.5"] {
        check(
            &format!("async-profiler-html/work-{version}.html"),
            &[],
            last_words(&format!("async-profiler-html/work-{version}.collapsed")),
        );
    }
    check("cpuprofile/node.cpuprofile", &[], elements("cpuprofile/node.cpuprofile", "samples"));
    let sizes: u64 =
        all(&json("heapprofile/node.heapprofile"), "selfSize").iter().filter_map(|size| size.as_u64()).sum();
    check("heapprofile/node.heapprofile", &["-unit=bytes"], sizes);
    for otlp in ["otlp/ebpf.pb", "otlp/ebpf.json"] {
        check(otlp, &[], elements("otlp/ebpf.json", "timestampsUnixNano"));
    }
    for name in ["wall", "memory"] {
        let samples = text(&format!("mojo/{name}.austin")).lines().filter(|line| line.starts_with('P')).count();
        check(&format!("mojo/{name}.mojo"), &[], samples as u64);
    }
    for name in ["cpu", "flat", "object"] {
        let file = format!("stackprof/{name}.json");
        check(&file, &[], json(&file)["samples"].as_u64().expect("stackprof's own total"));
    }
    for name in ["lines", "names", "places", "stacks"] {
        let file = format!("perf-script/{name}.txt");
        for event in ["cpu-clock", "page-faults"] {
            let of_event = format!(" {event}: ");
            let samples = text(&file).lines().filter(|line| line.contains(&of_event) && !line.starts_with('#')).count();
            check(&file, &[&format!("--event={event}")], samples as u64);
        }
    }
    let goroutines = text("goroutines/work.txt").lines().filter(|line| line.starts_with("goroutine ")).count();
    check("goroutines/work.txt", &[], goroutines as u64);
    let counted = text("go-count/goroutine.txt");
    check(
        "go-count/goroutine.txt",
        &[],
        counted.lines().next().and_then(|line| line.rsplit(' ').next()?.parse().ok()).expect("Go's total"),
    );
    let gecko = &json("firefox/gecko.json")["threads"][0]["samples"]["data"];
    check("firefox/gecko.json", &[], gecko.as_array().map_or(0, Vec::len) as u64);
}

#[test]
fn times_are_those_of_the_tools() {
    let unit = ["-unit=nanoseconds"];
    let chromium = json("chrome-trace/chromium.json");
    let samples: usize = all(&chromium, "cpuProfile")
        .iter()
        .flat_map(|part| all(part, "samples"))
        .filter_map(|s| Some(s.as_array()?.len()))
        .sum();
    check("chrome-trace/chromium.json", &[], samples as u64);
    let trace = json("chrome-trace/py-spy.json");
    let micros = open_time(trace.as_array().expect("events"), ("ph", "B", "ts"));
    check("chrome-trace/py-spy.json", &unit, nanos(micros / 1e6));
    let weights: f64 = all(&json("speedscope/py-spy.json"), "weights")
        .iter()
        .flat_map(|w| w.as_array())
        .flatten()
        .filter_map(Value::as_f64)
        .sum();
    check("speedscope/py-spy.json", &unit, nanos(weights));
    let pyinstrument = json("speedscope/pyinstrument.json");
    let events = all(&pyinstrument, "events");
    let seconds = open_time(events[0].as_array().expect("events"), ("type", "O", "at"));
    let found = total("speedscope/pyinstrument.json", &unit);
    assert!(found.abs_diff(nanos(seconds)) < 100, "{found} ns of {seconds} s");
    check("instruments/time.txt", &["-unit=milliseconds"], 1500);
}

#[test]
fn events_are_those_of_the_jdk() {
    let summary = Command::new("jfr").arg("summary").arg(path("jfr/work.jfr")).output().expect("jfr of a JDK");
    let summary = String::from_utf8_lossy(&summary.stdout).into_owned();
    let count = |event: &str| -> u64 {
        let row = summary.lines().find_map(|line| line.trim().strip_prefix(event));
        row.and_then(|row| row.split_whitespace().next()?.parse().ok()).unwrap_or_else(|| panic!("{event}: {summary}"))
    };
    check("jfr/work.jfr", &["--event=cpu"], count("jdk.ExecutionSample "));
    check("jfr/work.jfr", &["--event=alloc"], count("jdk.ObjectAllocationSample "));
    let waits = |kind: &str| total("jfr/work.jfr", &["--event=lock", &format!("--waits={kind}")]);
    let all = count("jdk.ThreadPark ") + count("jdk.JavaMonitorEnter ");
    assert_eq!((waits("all"), waits("lock") + waits("idle") + waits("wait")), (all, all));
    check("jfr/work.jfr", &["--event=lock"], waits("lock"));
}

#[test]
fn samples_are_those_of_gperftools() {
    let output =
        Command::new("google-pprof").args(["--text", "/bin/true"]).arg(path("gperftools-cpu/work.prof")).output();
    let output = output.expect("google-pprof of Debian's google-perftools");
    let text = format!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    let samples = text.lines().find_map(|line| line.strip_prefix("Total: ")?.strip_suffix(" samples")?.parse().ok());
    check("gperftools-cpu/work.prof", &[], samples.unwrap_or_else(|| panic!("{text}")));
}
