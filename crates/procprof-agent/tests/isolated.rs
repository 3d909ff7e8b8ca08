//! Runs one test alone in a child process of this test binary.

use std::process::Command;

const INSIDE: &str = "PROCPROF_TEST_INSIDE";

/// Runs `body` in a child: the first call starts this binary again for the test `name` alone, the second one runs the body.
pub(crate) fn isolated(name: &str, body: impl FnOnce()) {
    isolated_with(name, &[], body);
}

/// As [`isolated`], with further environment variables for the child.
pub(crate) fn isolated_with(name: &str, environment: &[(&str, &str)], body: impl FnOnce()) {
    if std::env::var_os(INSIDE).is_some() {
        return body();
    }
    let program = std::env::current_exe().unwrap();
    let output = Command::new(program)
        .args(["--exact", name, "--nocapture", "--test-threads=1"])
        .env(INSIDE, "1")
        .envs(environment.iter().copied())
        .output()
        .unwrap();
    let text = format!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(output.status.success(), "{name} in its own process: {}\n{text}", output.status);
    assert!(text.contains("1 passed"), "{name}: no such test\n{text}");
    print!("{text}");
}
