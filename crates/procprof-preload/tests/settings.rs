//! The environment: what is bad, what is not meant, what is taken.

use crate::build::testdata;
use crate::host::{Host, get, preloaded};
use std::path::Path;
use std::process::Output;

/// `echo hi` by a shell of its own, with settings.
fn shell(settings: &[(&str, &str)]) -> Output {
    let mut command = preloaded(Path::new("/bin/sh"));
    command.args(["-c", "grep Threads: /proc/$$/status"]).envs(settings.iter().copied());
    command.output().unwrap()
}

fn errors(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

#[test]
fn without_settings_nothing_is_started_or_printed() {
    let output = shell(&[("PROCPROF_ENGINE", "nonsense")]);
    assert!(output.status.success());
    assert_eq!((String::from_utf8_lossy(&output.stdout).trim_end(), errors(&output).as_str()), ("Threads:\t1", ""));
    let output = shell(&[("PROCPROF_LISTEN", "127.0.0.1:0"), ("PROCPROF_ONLY", "another, program")]);
    assert_eq!((String::from_utf8_lossy(&output.stdout).trim_end(), errors(&output).as_str()), ("Threads:\t1", ""));
}

#[test]
fn a_bad_value_is_reported_in_one_line_and_the_program_runs() {
    for (name, value, expected) in [
        ("PROCPROF_LISTEN", "6060", "procprof: PROCPROF_LISTEN=6060: expected ADDRESS:PORT"),
        ("PROCPROF_LISTENER", "never", "procprof: PROCPROF_LISTENER=never: expected on-demand or thread"),
        ("PROCPROF_ENGINE", "fast", "procprof: PROCPROF_ENGINE=fast: expected auto, perf or tick"),
        ("PROCPROF_TOKEN", "", "procprof: PROCPROF_TOKEN=: expected at least one character"),
        ("PROCPROF_DUMP_FOLDER", "/nowhere", "procprof: PROCPROF_DUMP_FOLDER=/nowhere: expected a folder"),
        ("PROCPROF_DUMP_FILES", "-1", "procprof: PROCPROF_DUMP_FILES=-1: expected a number of files from 1"),
        ("PROCPROF_HEAP", "perhaps", "procprof: PROCPROF_HEAP=perhaps: expected on or off"),
        (
            "PROCPROF_HEAP_SAMPLE_BYTES",
            "0",
            "procprof: PROCPROF_HEAP_SAMPLE_BYTES=0: expected a number of bytes from 1",
        ),
        ("PROCPROF_CONTENTION", "maybe", "procprof: PROCPROF_CONTENTION=maybe: expected on or off"),
        ("PROCPROF_LISTEN", "192.0.2.1:1", "an address beyond loopback needs a token"),
    ] {
        let output = shell(&[("PROCPROF_LISTEN", "127.0.0.1:0"), (name, value)]);
        assert!(output.status.success(), "{name}");
        let errors = errors(&output);
        assert_eq!(errors.lines().filter(|line| line.contains(expected)).count(), 1, "{errors}");
        assert!(errors.lines().count() <= 2, "{errors}");
    }
}

/// All rows are on the page of the reference, and the page has no other.
#[test]
fn the_page_has_every_variable() {
    let root = testdata().join("../..");
    let source = std::fs::read_to_string(root.join("crates/procprof-preload/src/settings.rs")).unwrap();
    let page = std::fs::read_to_string(root.join("docs/preload.md")).unwrap();
    let in_source: Vec<&str> = source.split("variable: \"").skip(1).filter_map(|rest| rest.split('"').next()).collect();
    let in_page: Vec<&str> = page.split("| `PROCPROF_").skip(1).filter_map(|rest| rest.split('`').next()).collect();
    assert!(in_source.len() > 5);
    assert_eq!(in_source.iter().map(|name| name.trim_start_matches("PROCPROF_")).collect::<Vec<_>>(), in_page);
}

#[test]
fn a_taken_port_is_reported_and_does_no_harm() {
    let mut host = Host::start(preloaded(Path::new("/bin/cat")));
    let output = shell(&[("PROCPROF_LISTEN", &host.address)]);
    assert!(output.status.success());
    assert!(
        errors(&output).contains("runs without a profiler") && errors(&output).contains(&host.address),
        "{}",
        errors(&output)
    );
    assert_eq!(errors(&output).lines().count(), 1);
    host.go_on();
    assert_eq!(host.line(), "");
    assert!(host.finish().success());
}

#[test]
fn a_token_is_required() {
    let mut command = preloaded(Path::new("/bin/cat"));
    command.env("PROCPROF_TOKEN", "secret");
    let host = Host::start(command);
    assert!(get(&host.address, "/debug/pprof/").unwrap_err().to_string().contains("401"));
    assert!(host.finish().success());
}
