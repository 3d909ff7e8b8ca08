//! C, C++ and assembly of every shape, compiled by gcc with several options.

use std::path::{Path, PathBuf};
use std::process::Command;

use tempfile::TempDir;

/// A compiled program in a folder of its own.
pub(crate) struct Program {
    _folder: TempDir,
    path: PathBuf,
}

impl Program {
    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// Compiles sources of `testdata/unwind` with the options given.
    pub(crate) fn build(name: &str, compiler: &str, options: &[&str], sources: &[&str]) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join(name);
        let sources = sources
            .iter()
            .map(|source| Path::new(env!("CARGO_MANIFEST_DIR")).join("../../testdata/unwind").join(source));
        let output = Command::new(compiler).args(options).args(sources).arg("-o").arg(&path).output();
        let output = output.unwrap_or_else(|error| panic!("{compiler} is needed: {error}"));
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        Self { _folder: folder, path }
    }
}

/// The shapes program by every way of compiling it.
pub(crate) fn all() -> Vec<Program> {
    [
        ("O0", &["-O0"][..]),
        ("O2", &["-O2"]),
        ("O2-fp", &["-O2", "-fno-omit-frame-pointer"]),
        ("Os-omit", &["-Os", "-fomit-frame-pointer"]),
        ("O3-realign", &["-O3", "-mstackrealign", "-mavx"]),
        ("lazy-static", &["-O1", "-static"]),
        ("lazy", &["-O1", "-Wl,-z,lazy", "-fno-pie", "-no-pie"]),
        ("no-plt", &["-O2", "-fcf-protection=full", "-fno-plt"]),
    ]
    .iter()
    .map(|(name, options)| {
        let mut options = options.to_vec();
        options.push("-fexceptions");
        Program::build(name, "gcc", &options, &["shapes.c", "frames.s"])
    })
    .collect()
}
