//! `procprof archive`: profiles of a folder, archived, checked, summed.

#![allow(clippy::unwrap_used)]

#[path = "../../procprof-archive/tests/buckets/emulators.rs"]
#[allow(dead_code, reason = "only S3 is needed here")]
mod emulators;
#[path = "../../procprof-archive/tests/buckets/failing.rs"]
#[allow(dead_code, reason = "only S3 is needed here")]
mod failing;

use std::path::Path;

use procprof_profile::format::{Limits, decode};

use crate::harness::{files, folder, go_tool_pprof, procprof, text};

const FORMATS: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../testdata/formats/pprof");

/// The standard output of a command that succeeds.
fn run(arguments: &[&str]) -> String {
    let output = procprof().args(arguments).output().unwrap();
    assert!(output.status.success(), "{arguments:?}: {}", text(&output));
    String::from_utf8(output.stdout).unwrap()
}

/// A data folder with two CPU profiles and a heap profile that a Go process has made.
fn data(folder: &Path) -> String {
    let logs = folder.join("logs");
    std::fs::create_dir(&logs).unwrap();
    let copies = [
        ("go-cpu.pb.gz", "cpu-profile-20251120-222534-pprof.gz"),
        ("go-cpu.pb.gz", "cpu-profile-20251120-232534-pprof.gz"),
        ("go-heap.pb.gz", "heap-profile-20251120-222540-pprof.gz"),
    ];
    for (at, (from, to)) in copies.into_iter().enumerate() {
        let bytes = std::fs::read(Path::new(FORMATS).join(from)).unwrap();
        let mut profile = decode(&bytes, &Limits::default()).unwrap().profile.into_parts();
        // Two files of one content are one profile.
        profile.time.0 += at as i64 * 3_600_000_000_000;
        let bytes = procprof_profile::format::pprof::encode_gzip(&profile.finish().unwrap()).unwrap();
        std::fs::write(logs.join(to), bytes).unwrap();
    }
    let data = folder.join("data").display().to_string();
    let added = run(&["store", "import", "--tz", "UTC", "--data", &data, &logs.display().to_string()]);
    assert!(added.starts_with("3 added"), "{added}");
    data
}

#[test]
fn profiles_are_archived_once_and_summed() {
    let folder = folder();
    let data = data(folder.path());
    let archive = folder.path().join("archive").display().to_string();
    let first = run(&["archive", "export", "--data", &data, &archive]);
    assert!(first.starts_with("3 profiles archived in ") && first.ends_with("; 0 already there\n"), "{first}");
    let second = run(&["archive", "export", "--data", &data, &archive]);
    assert_eq!(second, "0 profiles archived in 0 bytes; 3 already there\n");
    let verified = run(&["archive", "verify", "--data", &data, &archive]);
    assert!(verified.starts_with("3 profiles with ") && verified.ends_with("; 3 compared with their files; 0 wrong\n"));
    let stats = run(&["archive", "stats", &archive]);
    assert!(stats.lines().last().unwrap().starts_with("all                              3"), "{stats}");

    let sum = folder.path().join("sum.pb.gz").display().to_string();
    let ends = |from, to| ["archive", "merge", &archive, "-o", &sum, "--from", from, "--to", to];
    let reversed = procprof().args(ends("2200-01-01", "2000-01-01T00:00:00Z")).output().unwrap();
    assert!(text(&reversed).contains("is not before --to 2000-01-01"), "{}", text(&reversed));
    run(&ends("2000-01-01", "2200-01-01"));
    let dated = std::fs::read(&sum).unwrap();
    run(&["archive", "merge", &archive, "-o", &sum]);
    assert_eq!(std::fs::read(&sum).unwrap(), dated, "dates are times, too");
    let cpu = format!("{FORMATS}/go-cpu.pb.gz");
    let values = |report: String| -> Vec<String> {
        let lines = report.lines().skip_while(|line| !line.contains("flat%")).skip(1);
        // A sum's percentages and functions are those of its terms; its values are twice these.
        lines
            .map(|line| {
                let words: Vec<&str> = line.split_whitespace().collect();
                [words[1], words[4], words[5]].join(" ")
            })
            .collect()
    };
    let top = |file: &str| values(go_tool_pprof(&["-top", "-nodecount=50", file]));
    assert_eq!(top(&sum), top(&cpu));
}

#[test]
fn what_is_wrong_in_an_archive_is_named() {
    let folder = folder();
    let data = data(folder.path());
    let archive = folder.path().join("archive");
    let shown = archive.display().to_string();
    run(&["archive", "export", "--data", &data, &shown]);
    let samples = files(&archive.join("samples")).pop().unwrap();
    let whole = std::fs::read(&samples).unwrap();
    std::fs::write(&samples, &whole[..whole.len() - 20]).unwrap();
    let verified = procprof().args(["archive", "verify", &shown]).output().unwrap();
    let path = samples.strip_prefix(&archive).unwrap().display().to_string();
    assert_eq!(verified.status.code(), Some(1));
    assert!(text(&verified).contains(&format!("wrong: {path}: ")), "{}", text(&verified));
    // A part that was interrupted is written again.
    std::fs::remove_file(samples.display().to_string().replace("/samples/", "/profiles/")).unwrap();
    let again = run(&["archive", "export", "--data", &data, &shown]);
    assert!(again.contains(" profiles archived in ") && !again.starts_with('0'), "{again}");
    run(&["archive", "verify", "--data", &data, &shown]);
}

#[test]
fn parts_at_fault_are_made_anew() {
    let folder = folder();
    let data = data(folder.path());
    let archive = folder.path().join("archive");
    let shown = archive.display().to_string();
    let rebuild = |more: &[&str]| {
        let arguments = [&["archive", "rebuild", "--data", &data, &shown], more].concat();
        let output = procprof().args(arguments).output().unwrap();
        (output.status.code(), String::from_utf8(output.stdout).unwrap(), String::from_utf8(output.stderr).unwrap())
    };
    let merged = || {
        let sum = folder.path().join("sum.pb.gz").display().to_string();
        run(&["archive", "merge", &shown, "-o", &sum]);
        go_tool_pprof(&["-raw", &sum])
    };
    run(&["archive", "export", "--data", &data, &shown]);
    let (sum, sound) = (merged(), rebuild(&[]));
    assert_eq!(sound.1, "3 parts read; 0 at fault, 0 of them replaced; 0 profiles archived anew in 0 bytes\n");
    let cut = |table: &str| {
        let path = files(&archive.join(table)).pop().unwrap();
        let whole = std::fs::read(&path).unwrap();
        std::fs::write(&path, &whole[..whole.len() - 20]).unwrap();
        path.strip_prefix(&archive).unwrap().display().to_string()
    };
    // Samples that cannot be read, of profiles that the data folder has.
    let path = cut("samples");
    let (status, done, wrong) = rebuild(&[]);
    assert_eq!(status, Some(0), "{wrong}");
    assert!(done.starts_with("3 parts read; 1 at fault, 1 of them replaced; 1 profiles archived anew in "), "{done}");
    assert!(wrong.starts_with(&format!("wrong: {path}: ")), "{wrong}");
    run(&["archive", "verify", "--data", &data, &shown]);
    assert_eq!(merged(), sum);
    run(&["archive", "compact", "--grace-seconds", "0", &shown]);
    assert_eq!(merged(), sum);

    // A day with two profiles, one of which no data folder has any more.
    let cpu = files(&Path::new(&data).join("profiles")).into_iter().find(|path| path.to_string_lossy().contains("cpu"));
    std::fs::remove_file(cpu.unwrap()).unwrap();
    let path = cut("frames");
    for archived in [1, 0] {
        let (status, done, wrong) = rebuild(&[]);
        assert_eq!(status, Some(1), "{done}");
        assert!(wrong.contains(": 1 of its profiles are not in the data folder\n"), "{wrong}");
        assert!(
            done.contains(&format!("; 1 at fault, 0 of them replaced; {archived} profiles archived anew ")),
            "{done}"
        );
    }
    let (status, done, wrong) = rebuild(&["--drop-missing"]);
    assert_eq!(status, Some(0), "{done}{wrong}");
    assert!(done.ends_with("\n1 profiles dropped, which the data folder does not have\n"), "{done}");
    assert!(wrong.contains(&path), "{wrong}");
    let verified = run(&["archive", "verify", "--data", &data, &shown]);
    assert!(verified.starts_with("2 profiles with "), "{verified}");
    let sum = merged();
    // Profiles that cannot be listed.
    cut("profiles");
    let (status, _, wrong) = rebuild(&[]);
    assert!(status == Some(1) && wrong.contains("its profiles cannot be listed"), "{wrong}");
    let (status, done, _) = rebuild(&["--drop-missing"]);
    assert_eq!((status, merged()), (Some(0), sum), "{done}");
}

/// Kills a process once the files of a folder have changed so many times; whether it ran until then.
fn kill_after(command: &mut std::process::Command, folder: &Path, changes: u32) -> bool {
    let mut process = command.stdout(std::process::Stdio::null()).stderr(std::process::Stdio::null()).spawn().unwrap();
    let (mut seen, mut before) = (0, files(folder));
    let is_running = loop {
        if seen >= changes {
            break true;
        }
        if process.try_wait().unwrap().is_some() {
            break false;
        }
        let after = files(folder);
        seen += u32::from(after != before);
        before = after;
    };
    // It may have ended by now.
    let _ = process.kill();
    process.wait().unwrap();
    is_running
}

#[test]
fn a_killed_compaction_changes_no_sum() {
    let folder = folder();
    let data = data(folder.path());
    let archive = folder.path().join("archive").display().to_string();
    run(&["archive", "export", "--data", &data, &archive]);
    let profiles = run(&["archive", "verify", "--data", &data, &archive]);
    let (profiles, _) = profiles.split_once(" in ").unwrap();
    let compact = ["archive", "compact", "--grace-seconds", "0", "--lease-seconds", "1", &archive];
    let is_whole =
        |verified: &str| verified.starts_with(profiles) && verified.contains("3 compared with their files; 0 wrong\n");
    // The tests of procprof-archive end it at each of its operations.
    for changes in [0, 1, 2, 4, 7, 11] {
        while !kill_after(procprof().args(compact), Path::new(&archive), changes) {
            // The lease of the last one has not ended, or there is nothing left to do.
            let output = procprof().args(compact).output().unwrap();
            if output.status.success() {
                break;
            }
            assert!(text(&output).contains("has the lease for"), "{}", text(&output));
            std::thread::sleep(std::time::Duration::from_millis(100));
        }
        let verified = run(&["archive", "verify", "--data", &data, &archive]);
        assert!(is_whole(&verified), "after {changes} changes: {verified}");
    }
    // The lease of the last one ends; that of this one is long enough on any machine.
    let done = loop {
        let output = procprof().args(["archive", "compact", "--grace-seconds", "0", &archive]).output().unwrap();
        if output.status.success() {
            break output;
        }
        assert!(text(&output).contains("has the lease for"), "{}", text(&output));
        std::thread::sleep(std::time::Duration::from_millis(100));
    };
    let verified = run(&["archive", "verify", "--data", &data, &archive]);
    assert!(is_whole(&verified) && !verified.contains("replaced"), "{verified} {}", text(&done));
    // The last of the profiles is the only one of its day.
    assert!(verified.contains(" in 2 parts; "), "{verified}");
    let stats = run(&["archive", "stats", &archive]);
    let day = stats.lines().nth(1).unwrap();
    assert!(
        day.split_whitespace().nth(1) == Some("2") && day.starts_with("20") && day[10..].starts_with("    "),
        "{stats}"
    );
    // What is exported again is there already.
    let again = run(&["archive", "export", "--data", &data, &archive]);
    assert_eq!(again, "0 profiles archived in 0 bytes; 3 already there\n");
    let kept = ["archive", "compact", "--grace-seconds", "0", "--bytes-max", "0 GiB", "--days-max", "0", &archive];
    assert!(run(&kept).contains("; 0 with "), "0 is no limit");
    let dropped = run(&["archive", "compact", "--grace-seconds", "0", "--bytes-max", "1", &archive]);
    assert!(dropped.contains("; 2 with "), "{dropped}");
    assert!(run(&["archive", "verify", &archive]).starts_with("0 profiles"));
}

#[test]
fn an_archive_in_a_bucket_is_one_too() {
    let (folder, bucket) = (folder(), emulators::Emulator::s3());
    let data = data(folder.path());
    let keys = folder.path().join("keys");
    let text = |secret: &str| format!("[default]\naws_access_key_id = tester\naws_secret_access_key = {secret}\n");
    std::fs::write(&keys, text(emulators::SECRET)).unwrap();
    let command = |arguments: &[&str]| {
        let mut command = procprof();
        command.args(arguments).env("AWS_ENDPOINT_URL", format!("http://{}", bucket.address));
        command.env("AWS_SHARED_CREDENTIALS_FILE", &keys).output().unwrap()
    };
    let run = |arguments: &[&str]| {
        let output = command(arguments);
        assert!(output.status.success(), "{arguments:?}: {}", crate::harness::text(&output));
        String::from_utf8(output.stdout).unwrap()
    };
    let archive = "s3://bucket/command";
    let first = run(&["archive", "export", "--data", &data, archive]);
    assert!(first.starts_with("3 profiles archived in ") && first.ends_with("; 0 already there\n"), "{first}");
    assert_eq!(
        run(&["archive", "export", "--data", &data, archive]),
        "0 profiles archived in 0 bytes; 3 already there\n"
    );
    let compacted = run(&["archive", "compact", "--grace-seconds", "0", archive]);
    assert!(compacted.starts_with("2 parts with "), "{compacted}");
    let verified = run(&["archive", "verify", "--data", &data, archive]);
    assert!(verified.starts_with("3 profiles with ") && verified.ends_with("; 3 compared with their files; 0 wrong\n"));
    let stats = run(&["archive", "stats", archive]);
    assert!(stats.lines().last().unwrap().starts_with("all                              3"), "{stats}");
    let sum = folder.path().join("sum.pb.gz").display().to_string();
    run(&["archive", "merge", archive, "-o", &sum]);
    assert!(Path::new(&sum).metadata().unwrap().len() > 0);

    std::fs::write(&keys, text("hunter2Wrong")).unwrap();
    let refused =
        [archive, "s3://none/x", "s3://tester:hunter2@bucket/x", "az://bucket/x?sig=hunter2", "ftp://hunter2/x"];
    for archive in refused {
        let output = command(&["archive", "stats", archive]);
        let shown = crate::harness::text(&output);
        assert!(!output.status.success() && !shown.contains("hunter2"), "{archive}: {shown}");
    }
    let denied = crate::harness::text(&command(&["archive", "stats", archive]));
    assert!(
        denied.contains("s3://bucket/command") && denied.contains("403 Forbidden, SignatureDoesNotMatch"),
        "{denied}"
    );
}
