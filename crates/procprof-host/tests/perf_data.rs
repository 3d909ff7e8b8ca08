//! What `perf record` has recorded, read by us and by `perf script`: the same samples, the same functions with the same
//! shares.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use procprof_host::RecordedFiles;
use procprof_profile::format::{self, Decoded, Limits, perf_data};
use procprof_profile::{Grammar, Profile};
use procprof_symbolize::{PathUse, Sources, symbolize_profile};

use crate::program::{Program, perf_script};
use crate::shares::{count, functions};

/// Records a program; version 6.1 of `perf` aborts now and then, for seconds on end.
fn perf_record(program: &Program, words: &[&str]) -> PathBuf {
    let file = program.path.with_extension("perf.data");
    let mut failures = String::new();
    for _ in 0..20 {
        let mut perf = Command::new("perf");
        perf.args(["record", "-q", "-N", "-F", "997", "-o"]).arg(&file).args(words);
        let output = perf.arg("--").arg(&program.path).arg("0.6").output().expect("this test needs perf");
        if output.status.success() {
            return file;
        }
        failures += &format!("{}: {}\n", output.status, String::from_utf8_lossy(&output.stderr));
        std::thread::sleep(Duration::from_secs(1));
    }
    panic!("perf record {words:?}:\n{failures}");
}

/// The profiles of a file as we read it, with names.
fn ours(file: &Path) -> Vec<Decoded> {
    let bytes = std::fs::read(file).unwrap();
    let all = perf_data::decode_with(&bytes, &Limits::default(), &mut RecordedFiles::default()).unwrap();
    let named = |decoded: Decoded| {
        let profile = decoded.profile.adjusted(Grammar::Pprof).unwrap();
        let mut sources = Sources { this_boot: true, paths: PathUse::Trusted, ..Sources::default() };
        Decoded { profile: symbolize_profile(profile, &mut sources).unwrap().0, ..decoded }
    };
    all.into_iter().map(named).collect()
}

/// The profiles as `perf script` reads it.
fn theirs(file: &Path) -> Vec<Decoded> {
    format::decode_events(&perf_script(file, &["-F", "+period"]), &Limits::default()).unwrap()
}

/// The samples with a function whose name has this part, as leaf or anywhere, as a share of all.
fn share(profile: &Profile, part: &str, is_leaf: bool) -> f64 {
    let (some, all) = count(profile, |sample| {
        let names = functions(profile, sample.stack);
        names.iter().take(if is_leaf { 1 } else { usize::MAX }).any(|name| name.contains(part))
    });
    some / all
}

fn fact(profile: &Profile, key: &str) -> f64 {
    profile.meta().more[key].parse().unwrap()
}

#[test]
fn recordings_of_perf_have_the_totals_and_shares_that_perf_shows() {
    for (source, options, words, names, tolerance) in [
        ("burn.c", &["-O0"][..], &["-e", "task-clock", "--call-graph", "fp"][..], ["deep", "hot_a", "spin"], 0.0),
        ("burn.c", &["-O2"], &["-e", "cpu-clock"], ["hot_a", "hot_b", "spin"], 0.0),
        ("burn.c", &["-O0"], &["-e", "cpu-clock", "-g", "-z"], ["deep", "hot_a", "spin"], 0.0),
        (
            "burn.c",
            &["-O2", "-fno-optimize-sibling-calls"],
            &["-e", "task-clock", "--call-graph", "dwarf"],
            ["deep", "hot_a", "spin"],
            0.01,
        ),
        (
            "burn.cpp",
            &["-O2", "-fno-optimize-sibling-calls"],
            &["-e", "task-clock", "--call-graph", "dwarf"],
            ["deep", "hot_a", "spin"],
            0.01,
        ),
        ("burn.rs", &["-O"], &["-e", "task-clock", "--call-graph", "dwarf"], ["deep", "HotA", "spin"], 0.01),
        ("burn.go", &[], &["-e", "task-clock", "--call-graph", "fp"], ["main.deep", "hotA", "main.step"], 0.0),
    ] {
        let what = format!("{source} {options:?} {words:?}");
        let program = Program::new(source, options);
        let file = perf_record(&program, words);
        let (ours, theirs) = (ours(&file), theirs(&file));
        let ([ours], [theirs]) = (ours.as_slice(), theirs.as_slice()) else { panic!("{what}: one event") };
        assert_eq!(ours.event.split(':').next(), theirs.event.split(':').next(), "{what}");
        for index in 0..2 {
            assert_eq!(ours.profile.total(index), theirs.profile.total(index), "{what}: {:?}", ours.warnings);
        }
        for name in names {
            for is_leaf in [true, false] {
                let (ours, theirs) = (share(&ours.profile, name, is_leaf), share(&theirs.profile, name, is_leaf));
                // Ours also has what `perf` misses: the caller of a function whose frame is not there yet.
                assert!((ours - theirs).abs() <= tolerance + 0.01, "{what}: {name} {is_leaf}: {ours}, perf: {theirs}");
            }
        }
        if words.contains(&"dwarf") {
            let (rooted, all) = (fact(&ours.profile, "stacks-to-root"), fact(&ours.profile, "stacks"));
            assert!(all > 0.0 && rooted >= 0.99 * all, "{what}: {rooted} of {all} stacks reach their root");
        }
    }
}

#[test]
fn counters_of_groups_have_the_samples_and_periods_that_perf_shows() {
    for words in [
        &["-e", "{task-clock,page-faults,context-switches}:S"][..],
        &["-g", "-e", "{cpu-clock,page-faults}:S,minor-faults"],
        &["-e", "{task-clock}:S"],
    ] {
        let program = Program::new("burn.c", &["-O0"]);
        let file = perf_record(&program, words);
        let totals = |all: Vec<Decoded>| {
            let totals = |one: &Decoded| (one.event.clone(), one.profile.total(0), one.profile.total(1));
            let mut totals: Vec<_> = all.iter().map(totals).collect();
            totals.sort();
            totals
        };
        assert_eq!(totals(ours(&file)), totals(theirs(&file)), "{words:?}");
    }
}

/// The recording in a folder of perf as one file.
fn joined(folder: &Path) -> PathBuf {
    let others = (0..).map_while(|number| std::fs::read(folder.join(format!("data.{number}"))).ok());
    let others: Vec<Vec<u8>> = others.collect();
    assert!(!others.is_empty(), "{}", folder.display());
    let data = std::fs::read(folder.join("data")).unwrap();
    let file = folder.with_extension("joined");
    std::fs::write(&file, perf_data::join_folder(&data, &others, &Limits::default()).unwrap()).unwrap();
    file
}

#[test]
fn folders_of_perf_have_the_totals_that_perf_shows() {
    for words in [&["-g", "--threads"][..], &["-e", "cpu-clock,page-faults", "--threads=cpu", "-z"]] {
        let program = Program::new("burn.c", &["-O0"]);
        let folder = perf_record(&program, words);
        let totals =
            |all: Vec<Decoded>| all.iter().map(|one| (one.profile.total(0), one.profile.total(1))).collect::<Vec<_>>();
        assert_eq!(totals(ours(&joined(&folder))), totals(theirs(&folder)), "{words:?}");
    }
}

#[test]
fn a_pipe_is_read_as_a_file_and_events_apart() {
    let program = Program::new("burn.c", &["-O0"]);
    let file = program.path.with_extension("pipe");
    // What is packed, version 6.1 of `perf` cannot read itself.
    for words in [&[][..], &["-z"]] {
        let mut perf = Command::new("perf");
        perf.args(["record", "-q", "-F", "997", "-g", "-e", "task-clock,page-faults", "-o", "-"]).args(words);
        let output = std::fs::File::create(&file).unwrap();
        perf.arg("--").arg(&program.path).arg("0.5").stdout(output).stderr(Stdio::null());
        // `perf` sends the program's own output to its standard error.
        perf.status().expect("this test needs perf");
        let all = ours(&file);
        let names: Vec<&str> = all.iter().map(|decoded| decoded.event.as_str()).collect();
        assert_eq!(names, ["task-clock", "page-faults"]);
        assert!(share(&all[0].profile, "hot_a", false) > 0.3);
        let seconds = all[0].profile.total(1) as f64 / 1e9;
        assert!((0.4..0.7).contains(&seconds), "{words:?}: {seconds} s of CPU time");
    }
}
