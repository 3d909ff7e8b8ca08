//! Programs of `testdata/record`, compiled for a test.

use std::path::{Path, PathBuf};
use std::process::Command;

use tempfile::TempDir;

/// A compiled program in a folder of its own.
pub(crate) struct Program {
    _folder: TempDir,
    pub(crate) path: PathBuf,
}

impl Program {
    /// A C program compiled by gcc with these options.
    pub(crate) fn c(source: &str, options: &[&str]) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join(source.split('.').next().unwrap());
        let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../testdata/record").join(source);
        let output = Command::new("gcc").args(options).arg("-pthread").arg("-o").arg(&path).arg(source).output();
        let output = output.expect("gcc is needed");
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        Self { _folder: folder, path }
    }
}
