//! Runs one test alone in a child process of this test binary.

use std::ffi::OsStr;
use std::process::{Command, Output};

const INSIDE: &str = "PROCPROF_TEST_INSIDE";

/// Runs `body` in a child: the first call starts this binary again for the test `name` alone, the second one runs the
/// body.
pub(crate) fn isolated(name: &str, body: impl FnOnce()) {
    isolated_with(name, &[], body);
}

/// As [`isolated`], with further environment variables for the child.
pub(crate) fn isolated_with(name: &str, environment: &[(&str, &str)], body: impl FnOnce()) {
    isolated_under(&[], name, environment, body);
}

/// As [`isolated_with`], the child being started by a program with arguments.
pub(crate) fn isolated_under(program: &[&OsStr], name: &str, environment: &[(&str, &str)], body: impl FnOnce()) {
    let Some((output, text)) = output_of(program, name, environment, body) else { return };
    assert!(output.status.success(), "{name} in its own process: {}\n{text}", output.status);
    assert!(text.contains("1 passed"), "{name}: no such test\n{text}");
    print!("{text}");
}

/// As [`isolated_under`], but returns the child's output and exit status unchecked; `None` inside the child.
pub(crate) fn output_of(
    program: &[&OsStr],
    name: &str,
    environment: &[(&str, &str)],
    body: impl FnOnce(),
) -> Option<(Output, String)> {
    if std::env::var_os(INSIDE).is_some() {
        body();
        return None;
    }
    let own = std::env::current_exe().unwrap();
    let words: Vec<&OsStr> = program.iter().copied().chain([own.as_os_str()]).collect();
    let output = Command::new(words[0])
        .args(&words[1..])
        .args(["--exact", name, "--include-ignored", "--nocapture", "--test-threads=1"])
        .env(INSIDE, "1")
        .envs(environment.iter().copied())
        .output();
    let output = output.unwrap_or_else(|error| panic!("{} is needed: {error}", words[0].display()));
    let text = format!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    Some((output, text))
}
