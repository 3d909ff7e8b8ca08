//! The program behind `go tool pprof`. `go` needs ten times as long to find it as it needs for most reports.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;

/// pprof, which keeps its files in a folder of the test and prints UTC.
pub(crate) fn command(folder: &Path) -> Command {
    static PROGRAM: OnceLock<PathBuf> = OnceLock::new();
    let program = PROGRAM.get_or_init(|| {
        let found = Command::new("go").args(["tool", "-n", "pprof"]).output();
        let found = found.expect("the Go toolchain's `go` must be installed for this test");
        assert!(found.status.success(), "go tool -n pprof: {}", String::from_utf8_lossy(&found.stderr));
        PathBuf::from(String::from_utf8(found.stdout).unwrap().trim_end())
    });
    let mut command = Command::new(program);
    command.env("TZ", "UTC").env("PPROF_TMPDIR", folder);
    command
}
