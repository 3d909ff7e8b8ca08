//! The program that reports are compared with: pprof of a fixed version, newer than that of the Go toolchain.

use std::path::Path;
use std::process::Command;

const PROGRAM: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../target/peers/pprof/pprof");

/// pprof, which keeps its files in a folder of the test and prints UTC.
pub(crate) fn command(folder: &Path) -> Command {
    assert!(Path::new(PROGRAM).exists(), "this test needs {PROGRAM}, which `cargo xtask test` installs");
    let mut command = Command::new(PROGRAM);
    command.env("TZ", "UTC").env("PPROF_TMPDIR", folder);
    command
}
