//! `procprof report` as users of `go tool pprof` type it, against pprof.

#![allow(clippy::unwrap_used, reason = "a failing unwrap is a failing test")]

use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::time::{Duration, Instant};

use crate::harness::{PATIENCE, peer, procprof};

fn file(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../testdata/report").join(name)
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

fn report(words: &str, files: &[PathBuf]) -> Output {
    procprof().arg("report").args(words.split_whitespace()).args(files).output().unwrap()
}

fn pprof(words: &str, files: &[PathBuf]) -> String {
    let mut command = Command::new(peer("pprof"));
    command.arg("-symbolize=none").args(words.split_whitespace()).args(files).env("TZ", "UTC");
    let output = command.output().expect("pprof can be started");
    assert!(output.status.success(), "pprof {words}: {}", text(&output.stderr));
    text(&output.stdout)
}

/// The lines without those about time: a difference keeps the time and duration of the profile, pprof adds the base's.
fn without_times(text: &str) -> Vec<String> {
    let lines = text.lines().flat_map(|line| line.split("\\l"));
    lines.filter(|line| !line.starts_with("Duration: ") && !line.starts_with("Time: ")).map(str::to_owned).collect()
}

fn check(words: &str, files: &[PathBuf]) {
    let output = report(words, files);
    assert!(output.status.success(), "{words}: {}", text(&output.stderr));
    let (got, expected) = (without_times(&text(&output.stdout)), without_times(&pprof(words, files)));
    let first = got.iter().zip(&expected).find(|(got, expected)| got != expected);
    assert!(got == expected, "{words}: {} and {} lines, the first that differ:\n{first:#?}", got.len(), expected.len());
}

/// Two captures of one program: everything, and what has to do with JSON.
fn captures() -> (tempfile::TempDir, PathBuf, PathBuf) {
    let folder = tempfile::tempdir().unwrap();
    let part = folder.path().join("part.pb.gz");
    let output = report(&format!("-proto -focus=json -o {}", part.display()), &[file("go.cpu.pb.gz")]);
    assert!(output.status.success(), "{}", text(&output.stderr));
    (folder, file("go.cpu.pb.gz"), part)
}

#[test]
fn what_pprof_users_type_works() {
    for words in [
        "-top",
        "-text -cum -lines",
        "-tree -nodecount=12",
        "-peek=json -unit=ms",
        "-traces -focus json",
        "-top -mean -sample_index=cpu",
        "-dot -noinlines",
    ] {
        check(words, &[file("go.cpu.pb.gz")]);
    }
    for words in [
        "-comments -add_comment=measured",
        "-top -buildid=0123abcd",
        "-raw -add_comment=one -buildid=2",
        "-top -tagroot=pool -showcolumns",
    ] {
        check(words, &[file("go.goroutine.pb.gz")]);
    }
    check("-tags -alloc_space", &[file("go.heap.pb.gz")]);
    check("-top -inuse_objects", &[file("go.heap.pb.gz")]);
    check("-top -total_delay", &[file("go.mutex.pb.gz")]);
    check("-tree -contentions", &[file("go.block.pb.gz")]);
}

#[test]
fn differences_are_what_pprof_prints() {
    let (_folder, whole, part) = captures();
    let (part, whole_path) = (part.display().to_string(), whole.display().to_string());
    for words in [
        format!("-top -base={part}"),
        format!("-tree -diff_base={part}"),
        format!("-peek=json -diff_base={part} -normalize"),
        format!("-dot -base={part}"),
    ] {
        check(&words, std::slice::from_ref(&whole));
    }
    check(&format!("-top -base={whole_path}"), &[PathBuf::from(&part)]);
    check(&format!("-top -diff_base={whole_path} -drop_negative"), &[PathBuf::from(&part)]);
    // Several bases are summed; the toolchain's pprof takes the last alone.
    let twice = report(&format!("-collapsed -base={part} -base={part}"), &[whole.clone(), PathBuf::from(&part)]);
    let once = report(&format!("-collapsed -base={part}"), &[whole]);
    assert!(once.status.success() && once.stdout == twice.stdout, "{}", text(&twice.stderr));
}

#[test]
fn a_saved_profile_opens_on_the_type_that_was_selected() {
    let folder = tempfile::tempdir().unwrap();
    let [ours, theirs] = ["ours.pb.gz", "theirs.pb.gz"].map(|name| folder.path().join(name));
    for words in ["-proto", "-proto -sample_index=alloc_space", "-proto -sample_index=inuse_objects -mean"] {
        let profile = [file("go.heap.pb.gz")];
        let written = report(&format!("{words} -o {}", ours.display()), &profile);
        assert!(written.status.success(), "{words}: {}", text(&written.stderr));
        pprof(&format!("{words} -output={}", theirs.display()), &profile);
        let heads = [&ours, &theirs].map(|path| {
            let raw = pprof("-raw", std::slice::from_ref(path));
            raw.lines().find(|line| line.contains("inuse_space/")).unwrap_or_else(|| panic!("{raw}")).to_owned()
        });
        assert!(heads[0] == heads[1] && heads[0].contains("[dflt]"), "{words}: {heads:?}");
    }
}

/// Outputs without a place for a remark leave it to standard error.
#[test]
fn waits_that_are_left_out_are_named_whatever_the_output() {
    let recording = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../testdata/formats/jfr/work.jfr");
    let shown = |words: &str| report(&format!("-event=lock {words}"), std::slice::from_ref(&recording));
    let top = text(&shown("-top").stdout);
    let line = top.lines().find(|line| line.starts_with("Left out: ")).unwrap_or_else(|| panic!("{top}"));
    let collapsed = shown("-collapsed");
    assert!(text(&collapsed.stderr).contains(&format!("procprof: {line}")), "{}", text(&collapsed.stderr));
    assert!(!text(&collapsed.stdout).contains("Left out"), "{}", text(&collapsed.stdout));
    for words in ["-speedscope", "-otlp"] {
        let output = shown(words);
        assert!(text(&output.stdout).contains(line), "{words}");
        assert!(!text(&output.stderr).contains("Left out"), "{words}: {}", text(&output.stderr));
    }
    assert!(!text(&shown("-collapsed -waits=all").stderr).contains("Left out"));
}

#[test]
fn a_page_says_how_a_difference_is_scaled() {
    let (_folder, whole, part) = captures();
    for (scaling, expected) in [("true", "scaled to the same total"), ("time", "scaled to the same measured time")] {
        let words = format!("-html -diff_base={} -normalize={scaling}", part.display());
        let page = report(&words, std::slice::from_ref(&whole));
        assert!(page.status.success() && text(&page.stdout).contains(expected), "{scaling}: {}", text(&page.stderr));
    }
}

#[test]
fn source_lines_are_found_where_pprof_finds_them() {
    let folder = tempfile::tempdir().unwrap();
    let source = folder.path().join("shop/src");
    std::fs::create_dir_all(&source).unwrap();
    std::fs::copy(file("cpp/main.cpp"), source.join("main.cpp")).unwrap();
    let path = folder.path().join("shop/deep/below");
    std::fs::create_dir_all(&path).unwrap();
    for words in [
        format!("-list=Till.*count -trim_path=/ -source_path={}", path.display()),
        format!("-list=Basket.*fill -trim_path=/src -source_path=/nowhere:{}", source.display()),
        "-list=Basket.*fill".to_owned(),
    ] {
        check(&words, &[file("cpp.cpu.pb.gz")]);
    }
}

#[test]
fn what_cannot_be_meant_is_refused() {
    let profile = [file("go.cpu.pb.gz")];
    for (words, code, expected) in [
        ("-top -tree", 2, "cannot be used with"),
        ("-png", 2, "write svg"),
        ("-gv -focus=main", 2, "write dot"),
        ("-symbolize=maybe", 2, "possible values"),
        ("-disasm=zebra", 1, "no function matches \"zebra\": the binaries have none"),
        ("-peek", 2, "required"),
        ("-top -normalize", 2, "--base"),
        ("-top -base=/nowhere/a -diff_base=/nowhere/b", 2, "cannot be used with"),
        ("-peek=zebra", 1, "no function matches \"zebra\": the profile has none"),
        ("-flamegraph -mean", 1, "a call tree holds sums"),
        ("-top -divide_by=0", 1, "expected a number above 0"),
        ("-top -tagfocus=(", 1, "report option tagfocus"),
        ("-top -base=/nowhere/a", 1, "/nowhere/a"),
        ("-tpo", 2, "'-top'"),
        ("--fcous=main", 2, "'-focus'"),
        ("-top=maybe", 2, "unexpected value"),
    ] {
        let output = report(words, &profile);
        assert_eq!(output.status.code(), Some(code), "{words}: {}", text(&output.stderr));
        assert!(text(&output.stderr).contains(expected), "{words}: {}", text(&output.stderr));
    }
}

#[test]
fn the_last_of_several_counts_and_switches_take_values_as_in_go() {
    let profile = [file("go.cpu.pb.gz")];
    for (words, meant) in [
        ("-top -focus=zebra -focus=json", "-top -focus=json"),
        ("-top -cum -flat", "-top -flat"),
        ("-top -flat=false -cum=1 -mean=0", "-top -cum"),
        ("-svg=false -top=true -nodecount=3 -nodecount=5", "-top -nodecount=5"),
        ("-top -lines -functions -granularity=files", "-top -files"),
        ("-top -top", "-top"),
    ] {
        let (one, other) = (report(words, &profile), report(meant, &profile));
        assert!(one.status.success() && !one.stdout.is_empty(), "{words}: {}", text(&one.stderr));
        assert_eq!(text(&one.stdout), text(&other.stdout), "{words}");
    }
    check("-top -focus=zebra -focus=json -cum=true", &profile);
}

#[test]
fn collapsed_stacks_of_other_tools_are_read() {
    let folder = tempfile::tempdir().unwrap();
    for (name, input, collapsed, expected) in [
        ("single.folded", &b"main 1"[..], "main 1\n", ""),
        ("comment.txt", b"main;a 10\n# comment\nmain;b 2\n", "main;a 10\nmain;b 2\n", ""),
        ("bad.txt", b"main;a 10\nsome garbage\nmain;b 2\n", "main;a 10\nmain;b 2\n", "line 2"),
        ("fraction.txt", b"main;a 10.5\nmain;b 2\n", "main;a 10\nmain;b 2\n", "fractions"),
        ("difference.txt", b"main;a 10 20\nmain;b 5 0\n", "main;a 20\n", ""),
        ("utf16.txt", b"\xff\xfem\0;\0a\0 \x001\0\n\0", "m;a 1\n", ""),
        ("tab.txt", b"entry;nf_hook\t[nf_tables] 3\n", "entry;nf_hook [nf_tables] 3\n", ""),
    ] {
        let path = folder.path().join(name);
        std::fs::write(&path, input).unwrap();
        let output = report("-collapsed", &[path]);
        assert_eq!(text(&output.stdout), collapsed, "{name}: {}", text(&output.stderr));
        assert!(text(&output.stderr).contains(expected), "{name}: {}", text(&output.stderr));
    }
    let path = folder.path().join("huge.txt");
    std::fs::write(&path, "main;a 99999999999999999999\n").unwrap();
    let output = report("-collapsed", &[path]);
    assert!(
        !output.status.success() && text(&output.stderr).contains("line 1: expected a number below"),
        "{}",
        text(&output.stderr)
    );
}

#[test]
fn facts_of_stored_profiles_do_not_stand_above_reports() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("stored.pb.gz");
    let words = format!(
        "-proto -add_comment=seen -add_comment=#procprof:node=7 -add_comment=#procprof:type=cpu -o {}",
        path.display()
    );
    assert!(report(&words, &[file("go.cpu.pb.gz")]).status.success());
    let top = text(&report("-top", std::slice::from_ref(&path)).stdout);
    assert!(top.contains("seen") && !top.contains("procprof:"), "{top}");
    let peer = pprof("-top", std::slice::from_ref(&path));
    assert!(peer.contains("seen") && !peer.contains("procprof:"), "{peer}");
    assert!(text(&report("-comments", &[path]).stdout).contains("#procprof:node=7"));
}

#[test]
fn a_profile_may_come_on_standard_input() {
    let path = file("go.cpu.pb.gz");
    let input = std::fs::File::open(&path).unwrap();
    let piped = procprof().args(["report", "--collapsed", "-"]).stdin(input).output().unwrap();
    assert!(piped.status.success(), "{}", text(&piped.stderr));
    assert_eq!(piped.stdout, report("--collapsed", &[path]).stdout);
}

#[test]
fn a_reader_that_has_seen_enough_is_no_failure() {
    let mut child = procprof()
        .args(["report", "--html"])
        .arg(file("go.cpu.pb.gz"))
        .stdout(std::process::Stdio::piped())
        .spawn()
        .unwrap();
    drop(child.stdout.take());
    assert!(child.wait().unwrap().success());
}

#[test]
fn a_recording_of_a_jvm_is_read_by_kind_of_event() {
    let recording = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../testdata/formats/jfr/work.jfr");
    let shown = |words: &str| {
        let output = report(words, std::slice::from_ref(&recording));
        (output.status.success(), text(&output.stdout) + &text(&output.stderr))
    };
    for (words, expected) in [
        ("-top", "Type: cpu (time of Java code)"),
        ("-top -event=alloc", "Type: alloc_space"),
        ("-traces --event lock", "Work.holdLock"),
        ("-tags -event=lock", "monitor-1"),
    ] {
        let (is_well, text) = shown(words);
        assert!(is_well && text.contains(expected), "{words}: {text}");
    }
    let (is_well, text) = shown("-top -event=live");
    assert!(!is_well && text.contains("has no event \"live\"; it has cpu, alloc, lock"), "{text}");
    let output = report("-top -event=cpu", &[file("go.cpu.pb.gz")]);
    assert!(self::text(&output.stderr).contains("holds one profile"), "{}", self::text(&output.stderr));
    let folder = tempfile::tempdir().unwrap();
    let stored = folder.path().join("cpu.pb.gz");
    let written = report(&format!("-proto -o {}", stored.display()), &[recording]);
    assert!(written.status.success(), "{}", self::text(&written.stderr));
    let seen = pprof("-top", &[stored]);
    assert!(seen.contains("Work.sort"), "{seen}");
}

/// Runs `perf record` in a folder; version 6.1 aborts now and then, for seconds on end.
fn perf_record(folder: &Path, words: &str) {
    let (begun, mut failures) = (Instant::now(), String::new());
    while begun.elapsed() < PATIENCE {
        let mut perf = Command::new("perf");
        perf.current_dir(folder).args(["record", "-q", "-N", "-o", "perf.data"]).args(words.split_whitespace());
        let output = perf.args(["--", "./burn", "0.5"]).output().expect("this test needs perf");
        if output.status.success() {
            return;
        }
        failures += &format!("{}: {}\n", output.status, text(&output.stderr));
        std::thread::sleep(Duration::from_secs(1));
    }
    panic!("perf record {words}:\n{failures}");
}

#[test]
fn recordings_of_perf_open_in_reports() {
    let folder = tempfile::tempdir().unwrap();
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../testdata/record/burn.c");
    let mut gcc = Command::new("gcc");
    gcc.args(["-O2", "-g", "-pthread", "-fno-optimize-sibling-calls", "-o"])
        .arg(folder.path().join("burn"))
        .arg(source);
    assert!(gcc.status().expect("this test needs gcc").success());
    let cum = |output: &Output, function: &str| -> f64 {
        let table = text(&output.stdout);
        let line = table.lines().find(|line| line.split_whitespace().nth(5) == Some(function));
        let share = line.and_then(|line| line.split_whitespace().nth(4)?.strip_suffix('%')?.parse().ok());
        share.unwrap_or_else(|| panic!("{function} in {table}{}", text(&output.stderr)))
    };
    let file = vec![folder.path().join("perf.data")];
    perf_record(folder.path(), "-F 997 -e task-clock,page-faults --call-graph dwarf");
    let top = report("-top -cum -nodecount=100", &file);
    assert!(cum(&top, "main") > 95.0 && cum(&top, "hot_a") > cum(&top, "hot_b"), "{}", text(&top.stdout));
    let messages = text(&top.stderr);
    assert!(messages.contains("this is task-clock; --event also shows page-faults"), "{messages}");
    assert!(!messages.contains("unverified"), "{messages}");
    let faults = report("-top -event=page-faults", &file);
    assert!(text(&faults.stdout).contains("Type: page-faults"), "{}", text(&faults.stdout));
    let unknown = report("-top -event=cycles", &file);
    assert!(text(&unknown.stderr).contains("has no event \"cycles\"; it has task-clock, page-faults"));
    let facts = text(&report("-comments", &file).stdout);
    assert!(facts.contains("command-line=") && facts.contains("./burn") && facts.contains("boot-id="), "{facts}");
    // The kernel's functions have names, as the recording is of this boot.
    perf_record(folder.path(), "-c 1 -e context-switches -g -z");
    let kernel = report("-top -cum -nodecount=1000", &file);
    assert!(text(&kernel.stdout).contains("schedule"), "{}{}", text(&kernel.stdout), text(&kernel.stderr));
    // Another build in its place is not taken for the recorded one.
    perf_record(folder.path(), "-F 997 -e task-clock --call-graph dwarf");
    std::fs::remove_file(folder.path().join("burn")).unwrap();
    std::fs::copy("/bin/true", folder.path().join("burn")).unwrap();
    let other = report("-top -cum -nodecount=100", &file);
    assert!(!text(&other.stdout).contains("hot_a"), "{}", text(&other.stdout));
    assert!(text(&other.stderr).contains("a caller that can't be found"), "{}", text(&other.stderr));
}
