//! Profiles of running processes by URL, compared with `go tool pprof` and jeprof on the same processes.

#![allow(clippy::unwrap_used, reason = "a failing unwrap is a failing test")]

use std::path::Path;
use std::process::{Command, Output};

use crate::harness::{PATIENCE, files, folder, procprof, text};
use crate::jeprof::programs;
use crate::processes::{Profiled, answering, ok};

fn report(kept: &Path, words: &[&str]) -> Output {
    procprof().arg("report").args(words).env("PPROF_TMPDIR", kept).output().unwrap()
}

fn jeprof(kept: &Path, words: &[&str]) -> Output {
    procprof().arg("jeprof").args(words).env("JEPROF_TMPDIR", kept).output().unwrap()
}

/// Names of the files in a folder, sorted.
fn names(folder: &Path) -> Vec<String> {
    let mut names: Vec<String> =
        files(folder).iter().map(|path| path.file_name().unwrap().to_string_lossy().into_owned()).collect();
    names.sort();
    names
}

#[test]
fn requests_to_a_go_process_equal_those_of_go_tool_pprof() {
    let (go, kept) = (Profiled::go(), folder());
    let kept = kept.path();
    let host_alone = report(kept, &["-top", "-seconds=1", "-timeout=600", &go.address]);
    let printed = text(&host_alone);
    assert!(
        host_alone.status.success() && printed.contains("main.hot70") && printed.contains("Type: cpu"),
        "{printed}"
    );
    assert!(
        printed.contains(&format!(
            "Fetching profile over HTTP from http://{}/debug/pprof/profile?seconds=1\n",
            go.address
        )),
        "{printed}"
    );
    assert!(
        printed.contains(&format!("Saved profile in {}/pprof.go-pprof-server.samples.cpu.001.pb.gz\n", kept.display())),
        "{printed}"
    );

    let heap = format!("http://{}/debug/pprof/heap", go.address);
    let both = report(kept, &["-top", "-sample_index=inuse_objects", &heap, &heap]);
    let one = report(kept, &["-top", "-sample_index=inuse_objects", &heap]);
    let total = |output: &Output| {
        let text = text(output);
        let line =
            text.lines().find(|line| line.starts_with("Showing nodes")).unwrap_or_else(|| panic!("{text}")).to_owned();
        line.split_whitespace().nth(7).unwrap().parse::<f64>().unwrap_or_else(|_| panic!("{line}"))
    };
    assert!(total(&both) >= 1.9 * total(&one), "several are summed: {} {}", text(&both), text(&one));
    let difference = report(kept, &["-top", "-base", &heap, &heap]);
    assert!(difference.status.success(), "{}", text(&difference));

    let peers = folder();
    let mut pprof = Command::new("go");
    pprof.args(["tool", "pprof", "-top", "-seconds=1", "-timeout=600", &go.address]).env("PPROF_TMPDIR", peers.path());
    let output = pprof.output().expect("this test needs go");
    assert!(output.status.success(), "{}", text(&output));
    let output =
        Command::new("go").args(["tool", "pprof", "-top", &heap]).env("PPROF_TMPDIR", peers.path()).output().unwrap();
    assert!(output.status.success(), "{}", text(&output));
    let without_numbers = |folder: &Path| {
        let mut names: Vec<String> =
            names(folder).iter().map(|name| name.replace(|c: char| c.is_ascii_digit(), "")).collect();
        names.dedup();
        names
    };
    assert_eq!(without_numbers(kept), without_numbers(peers.path()), "both keep it under the same name");
}

#[test]
fn names_come_from_the_process_where_no_file_has_them() {
    let kept = folder();
    let profile =
        b"--- contention:\ncycles/second = 1000000000\nsampling period = 1\n5000000 3 @ 0x1001 0x2001\n".to_vec();
    let address = answering(move |question| match question.split_once(' ').unwrap() {
        ("/pprof/contention", _) => ok(&profile),
        ("/pprof/symbol", request) if request.contains("0x") => {
            ok(b"0x1000\tslow_lock\n0x2000\tmain\n0x1001\tslow_lock\n0x2001\tmain\n")
        }
        _ => b"HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\n\r\n".to_vec(),
    });
    let output = report(kept.path(), &["-top", &format!("http://{address}/pprof/contention")]);
    assert!(output.status.success() && text(&output).contains("slow_lock"), "{}", text(&output));
}

#[test]
fn credentials_of_the_url_are_sent_and_not_shown() {
    let kept = folder();
    let address = answering(|question| match question {
        request if !request.contains("authorization: Basic am9lOmh1bnRlcjI=") => {
            b"HTTP/1.1 401 Unauthorized\r\nContent-Length: 0\r\n\r\n".to_vec()
        }
        request if request.starts_with("/pprof/symbol ") => ok(b"0x1000 slow_lock\n0x1001 slow_lock\n"),
        _ => ok(b"--- contention:\ncycles/second = 1000000000\nsampling period = 1\n5000000 3 @ 0x1001\n"),
    });
    let typed = |user: &str| format!("http://{user}{address}/pprof/contention");
    let output = report(kept.path(), &["-top", &typed("joe:hunter2@")]);
    assert!(output.status.success() && text(&output).contains("slow_lock"), "{}", text(&output));
    assert!(!text(&output).contains("hunter2"), "{}", text(&output));
    for user in ["", "joe:hunter3@"] {
        let output = report(kept.path(), &["-top", &typed(user)]);
        assert!(output.status.code() == Some(1) && text(&output).contains("HTTP 401"), "{}", text(&output));
        assert!(!text(&output).contains("hunter3"), "{}", text(&output));
    }
}

#[test]
fn failures_are_reported_and_leave_nothing() {
    let address = answering(|question| match question.split(' ').next().unwrap() {
        "/html" => ok(b"<!doctype html><p>Sign in"),
        "/cut" => b"HTTP/1.1 200 OK\r\nContent-Length: 1000\r\n\r\n\x1f\x8b".to_vec(),
        "/broken" => ok(b"\x1f\x8b\x08\x00broken"),
        "/slow" => {
            std::thread::sleep(PATIENCE);
            Vec::new()
        }
        _ => b"HTTP/1.1 404 Not Found\r\nContent-Length: 9\r\n\r\nnot here\n".to_vec(),
    });
    let kept = folder();
    for (path, flag, expected) in [
        ("/html", "-timeout=5", "an HTML page"),
        ("/nothing", "-timeout=5", "HTTP 404"),
        ("/cut", "-timeout=5", "connection broke after 2 bytes"),
        ("/broken", "-timeout=5", "not a profile"),
        ("/slow", "-timeout=1", "no complete answer within 6.0 s"),
    ] {
        let output = report(kept.path(), &["-top", flag, &format!("http://{address}{path}")]);
        assert_eq!(output.status.code(), Some(1), "{path}: {}", text(&output));
        assert!(text(&output).contains(expected) && output.stdout.is_empty(), "{path}: {}", text(&output));
    }
    let refused = report(kept.path(), &["-top", "127.0.0.1:1"]);
    assert!(refused.status.code() == Some(1) && text(&refused).contains("no connection"), "{}", text(&refused));
    let secret = report(kept.path(), &["-top", "http://joe:hunter2@127.0.0.1:1/pprof/heap"]);
    assert!(secret.status.code() == Some(1) && !text(&secret).contains("hunter2"), "{}", text(&secret));
    for (path, expected) in [("/html", "an HTML page"), ("/nothing", "HTTP 404"), ("/cut", "connection broke")] {
        let output = jeprof(
            kept.path(),
            &["--text", env!("CARGO_BIN_EXE_procprof"), &format!("http://{address}{path}/pprof/heap")],
        );
        assert_eq!(output.status.code(), Some(1), "{path}: {}", text(&output));
        // The page is requested below the prefix, so all of these are not found except the intended ones.
        assert!(
            text(&output).contains("Failed to get profile") || text(&output).contains(expected),
            "{path}: {}",
            text(&output)
        );
    }
    assert_eq!(names(kept.path()), Vec::<String>::new());
}

#[test]
fn part_of_several_is_better_than_nothing() {
    let (go, kept) = (Profiled::go(), folder());
    let heap = format!("http://{}/debug/pprof/heap", go.address);
    let output = report(kept.path(), &["-top", "http://127.0.0.1:1/debug/pprof/heap", &heap]);
    let printed = text(&output);
    assert!(
        output.status.success()
            && printed.contains("fetched 1 source profiles out of 2")
            && printed.contains("main.growHeap"),
        "{printed}"
    );
}

#[test]
fn what_was_fetched_is_kept_though_it_cannot_be_joined() {
    let go = Profiled::go();
    let url = |page: &str| format!("http://{}/debug/pprof/{page}", go.address);
    let (heap, goroutine) = (url("heap"), url("goroutine"));
    let kept_files = |words: &[&str]| {
        let kept = folder();
        let output = report(kept.path(), words);
        let printed = text(&output);
        assert_eq!(output.status.code(), Some(1), "{printed}");
        let names = names(kept.path());
        assert!(
            names
                .iter()
                .all(|name| printed.contains(&format!("Saved profile in {}", kept.path().join(name).display()))),
            "{printed}"
        );
        names
    };
    let names = kept_files(&["-top", &heap, &goroutine]);
    assert_eq!(names.len(), 2, "{names:?}");
    assert!(
        names.iter().any(|name| name.contains("goroutine")) && names.iter().any(|name| name.contains("inuse_space")),
        "{names:?}"
    );
    assert_eq!(kept_files(&["-top", "-base", &goroutine, &heap]).len(), 2);

    // jeprof's grammar keeps those that came, too.
    let (node, kept) = (Profiled::demo_node(), folder());
    let heap = format!("http://{}/pprof/heap", node.address);
    let output = jeprof(kept.path(), &["--text", env!("CARGO_BIN_EXE_procprof"), "127.0.0.1:1/pprof/heap", &heap]);
    let printed = text(&output);
    assert!(output.status.code() == Some(1) && printed.contains("Failed to get profile"), "{printed}");
    assert!(self::names(kept.path()).len() == 1 && printed.contains("Wrote profile to "), "{printed}");
}

#[test]
fn requests_to_jeprof_addresses_equal_those_of_jeprof() {
    let (node, kept) = (Profiled::demo_node(), folder());
    let heap = format!("http://{}/pprof/heap", node.address);
    let binary = node.binary.to_str().unwrap();
    let ours = jeprof(kept.path(), &["--text", binary, &heap]);
    let printed = text(&ours);
    assert!(ours.status.success() && printed.contains("grow_cache"), "{printed}");
    assert!(
        printed.contains(&format!("Fetching /pprof/heap profile from {heap} to\n"))
            && printed.contains("Wrote profile to "),
        "{printed}"
    );
    // Without a program the process names its addresses itself.
    let by_process = jeprof(kept.path(), &["--text", &format!("{}/pprof/heap", node.address)]);
    assert!(by_process.status.success() && text(&by_process).contains("grow_cache"), "{}", text(&by_process));
    let lines = jeprof(kept.path(), &["--text", "--lines", &format!("{}/pprof/heap", node.address)]);
    assert!(
        lines.status.code() == Some(1) && text(&lines).contains("--lines cannot be used without a binary"),
        "{}",
        text(&lines)
    );

    // The requests and files of jeprof, which would take seconds for the binary itself.
    let (peers, place) = (folder(), folder());
    let small = place.path().join(node.binary.file_name().unwrap());
    std::fs::copy(programs::kept("c").binary(), &small).unwrap();
    let mut command = Command::new("/usr/bin/jeprof");
    command.args(["--text", small.to_str().unwrap(), &heap]).env("JEPROF_TMPDIR", peers.path()).env("no_proxy", "*");
    let peer = command.output().expect("this test needs jeprof (libjemalloc-dev)");
    assert!(peer.status.success(), "{}", text(&peer));
    let without_time = |folder: &Path| {
        let mut names: Vec<String> =
            names(folder).iter().map(|name| name.replace(|c: char| c.is_ascii_digit(), "")).collect();
        names.dedup();
        names
    };
    assert_eq!(without_time(kept.path()), without_time(peers.path()), "both keep it under the same name");

    // A raw profile needs no program any more; jeprof reads it as we do.
    let raw = jeprof(kept.path(), &["--raw", &format!("{}/pprof/heap", node.address)]);
    assert!(raw.status.success(), "{}", text(&raw));
    let file = kept.path().join("raw");
    std::fs::write(&file, &raw.stdout).unwrap();
    let file = file.to_str().unwrap();
    let own = jeprof(kept.path(), &["--text", file]);
    let peer = Command::new("/usr/bin/jeprof").args(["--text", file]).output().unwrap();
    assert!(own.status.success() && !own.stdout.is_empty(), "{}", text(&own));
    assert_eq!(String::from_utf8_lossy(&own.stdout), String::from_utf8_lossy(&peer.stdout));
}
