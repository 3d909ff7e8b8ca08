//! Heap profiles compared with exact counts, and read by the usual tools.

use crate::build::{program, tool};
use crate::host::{Host, preloaded};
use procprof_profile::Grammar;
use procprof_profile::format::decode;

/// Mean bytes between samples in the comparison: few enough that calls of one operator counted twice stand out.
const RATE: &str = "512";

/// Standard deviations that an estimate may be off by chance: one in a million is by more.
const MOST_DEVIATIONS: f64 = 5.0;

/// Compares the program's own counts with the estimates of the library; `more` links or preloads another allocator.
pub(crate) fn counts_agree(more: &[&str], preload_before: &[&str]) {
    let program = program("heap.cpp", more);
    let mut command = preloaded(&program);
    let own = crate::build::library();
    let preload: Vec<&str> = preload_before.iter().copied().chain([own.to_str().unwrap()]).collect();
    command.arg(RATE).env("PROCPROF_HEAP_SAMPLE_BYTES", RATE).env("LD_PRELOAD", preload.join(":"));
    let mut host = Host::start(command);
    let line = host.line();
    let numbers: Vec<f64> = line.split_whitespace().map(|word| word.parse().unwrap()).collect();
    for grammar in [Grammar::Pprof, Grammar::Jeprof] {
        let profile = decode(&host.get("/pprof/heap"), &Default::default()).unwrap().profile.adjusted(grammar).unwrap();
        for (column, book) in numbers.chunks(2).enumerate() {
            let (exact, deviation, estimate) = (book[0], book[1].sqrt(), profile.total(column) as f64);
            println!("{grammar:?} {column}: exact {exact}, estimate {estimate}, one standard deviation {deviation:.0}");
            // Within what chance explains, and what the program's libraries allocate for themselves.
            assert!((estimate - exact).abs() < MOST_DEVIATIONS * deviation + 0.01 * exact, "column {column}");
        }
    }
    assert!(host.finish().success());
}

#[test]
fn estimates_match_exact_counts() {
    counts_agree(&[], &[]);
}

#[test]
fn jeprof_and_go_read_the_heap() {
    let program = program("busy.cpp", &[]);
    let mut host = Host::start(preloaded(&program));
    assert_eq!(host.line(), "ready 1");
    for path in ["/debug/mem", "/pprof/heap"] {
        let table = tool("jeprof", &["--text", program.to_str().unwrap(), &host.url(path)]);
        let first = table.lines().find(|line| line.contains('%')).unwrap();
        assert!(first.contains("keep_eight_megabytes"), "{path}: {table}");
    }
    for path in ["/debug/pprof/heap", "/debug/pprof/allocs"] {
        let table = tool("go", &["tool", "pprof", "-top", "-unit=MB", &host.url(path)]);
        let first = table.lines().find(|line| line.contains("MB ") && !line.contains("Showing")).unwrap();
        assert!(first.contains("keep_eight_megabytes"), "{path}: {table}");
    }
    assert!(host.finish().success());
}

/// Readers find files by them, as the server does, which asks for heap profiles without names.
#[test]
fn mappings_have_the_build_ids_of_their_files() {
    let program = program("busy.cpp", &[]);
    let mut host = Host::start(preloaded(&program));
    assert_eq!(host.line(), "ready 1");
    let notes = tool("readelf", &["-n", program.to_str().unwrap()]);
    let build_id = notes.split("Build ID: ").nth(1).and_then(|rest| rest.lines().next()).unwrap().trim();
    for path in ["/debug/pprof/heap?", "/debug/pprof/allocs?", "/pprof/growth?seconds=1&format=proto&"] {
        let profile = decode(&host.get(&format!("{path}symbolize=0")), &Default::default()).unwrap().profile;
        let of = |file: &str| {
            let mapping = profile.mappings().iter().find(|mapping| profile.string(mapping.filename).contains(file));
            profile.string(mapping.unwrap_or_else(|| panic!("{path}: no mapping of {file}")).build_id)
        };
        assert_eq!(of(program.to_str().unwrap()), build_id, "{path}");
        assert!(!of("libc.so").is_empty(), "{path}");
    }
    assert!(host.finish().success());
}

#[test]
fn sampling_is_switched_while_the_program_runs() {
    let program = program("busy.cpp", &[]);
    let mut command = preloaded(&program);
    command.env("PROCPROF_HEAP", "off");
    let mut host = Host::start(command);
    host.line();
    let status = |host: &Host| String::from_utf8(host.get("/debug/pprof/heap/status")).unwrap();
    assert!(status(&host).contains("\"active\":false"), "{}", status(&host));
    assert!(!String::from_utf8(host.get("/pprof/heap")).unwrap().contains("@ 0x"));
    tool("curl", &["-sS", "--fail", "-X", "POST", &host.url("/debug/pprof/heap/enable")]);
    assert!(status(&host).contains("\"active\":true"), "{}", status(&host));
    assert!(host.finish().success());
}

/// Allocations of captures are not the program's.
#[test]
fn the_profilers_own_memory_is_not_in_the_profile() {
    let mut command = preloaded(&program("busy.cpp", &[]));
    command.env("PROCPROF_HEAP_SAMPLE_BYTES", "64");
    let mut host = Host::start(command);
    host.line();
    for path in [
        "/debug/pprof/profile?seconds=1",
        "/debug/pprof/wall?seconds=1",
        "/debug/pprof/contention?seconds=1",
        "/debug/pprof/heap",
    ] {
        host.get(path);
    }
    let profile = decode(&host.get("/debug/pprof/allocs"), &Default::default()).unwrap().profile;
    let mut own = Vec::new();
    for sample in profile.samples() {
        let lines = sample.stack.iter().flat_map(|place| profile.lines(*place));
        let names: Vec<&str> = lines.map(|line| profile.string(profile.function(line.function).name)).collect();
        // Functions between the program and its allocator are in the program's stacks, too, where nothing is inlined.
        if names.iter().any(|name| name.contains("procprof_agent::") && !name.contains("procprof_agent::heap::")) {
            own.push((sample.values.to_vec(), names));
        }
    }
    assert!(profile.sample_count() > 0);
    // The thread that listens is created before it can be marked as the agent's.
    let bytes: i64 = own.iter().map(|(values, _)| values[1]).sum();
    assert!(bytes < 4096, "{bytes} bytes: {own:#?}");
    assert!(host.finish().success());
}
