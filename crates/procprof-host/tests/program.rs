//! Programs of `testdata/record`, compiled for a test.

use std::path::{Path, PathBuf};
use std::process::{Child, Command};
use std::time::{Duration, Instant};

use tempfile::TempDir;

/// A child that is killed and waited for when dropped.
pub(crate) struct Running(pub(crate) Child);

impl Drop for Running {
    fn drop(&mut self) {
        // It has ended, or is of no use any more.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Waits for a condition, for minutes: the machine may be busy with much else.
pub(crate) fn wait_until(what: &str, mut is_so: impl FnMut() -> bool) {
    const PATIENCE: Duration = Duration::from_secs(300);
    let start = Instant::now();
    while !is_so() {
        assert!(start.elapsed() < PATIENCE, "{what}: not within {} s", PATIENCE.as_secs());
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// A compiled program in a folder of its own.
pub(crate) struct Program {
    _folder: TempDir,
    pub(crate) path: PathBuf,
}

impl Program {
    /// A program compiled with these options: in C, C++, Rust or Go, by the end of its source's name.
    pub(crate) fn new(source: &str, options: &[&str]) -> Self {
        let (name, language) = source.split_once('.').unwrap();
        let compiler: &[&str] = match language {
            "c" => &["gcc", "-pthread"],
            "cpp" => &["g++"],
            "rs" => &["rustc", "--edition", "2024"],
            _ => &["go", "build"],
        };
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join(name);
        let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../testdata/record").join(source);
        let mut command = Command::new(compiler[0]);
        command.args(&compiler[1..]).args(options).arg("-o").arg(&path).arg(source);
        let output = command.output().unwrap_or_else(|error| panic!("this test needs {}: {error}", compiler[0]));
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        Self { _folder: folder, path }
    }
}

/// A recording as `perf script` prints it; version 6.1 of `perf` aborts now and then, for seconds on end.
pub(crate) fn perf_script(file: &Path, words: &[&str]) -> Vec<u8> {
    let mut failures = String::new();
    for _ in 0..20 {
        let mut perf = Command::new("perf");
        let output = perf.args(["script", "--no-inline", "-i"]).arg(file).args(words).output();
        let output = output.expect("this test needs perf");
        if output.status.success() {
            return output.stdout;
        }
        failures += &format!("{}: {}\n", output.status, String::from_utf8_lossy(&output.stderr));
        std::thread::sleep(Duration::from_secs(1));
    }
    panic!("perf script {}:\n{failures}", file.display());
}
