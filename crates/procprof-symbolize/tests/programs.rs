//! Programs compiled from `testdata/symbolize`, and what is done to their files.

use std::ffi::OsStr;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use object::{Object, ObjectSection};
use procprof_profile::SymbolAddr;
use procprof_symbolize::{Image, ImageOptions};
use tempfile::TempDir;

/// A folder that is removed when dropped, with programs in it.
pub(crate) struct Folder(TempDir);

/// Runs a tool; a missing or failing one fails the test with its name.
pub(crate) fn run(command: &mut Command) -> Vec<u8> {
    let output = command.output();
    let output = output.unwrap_or_else(|error| panic!("{} is needed: {error}", command.get_program().display()));
    assert!(output.status.success(), "{command:?}\n{}", String::from_utf8_lossy(&output.stderr));
    output.stdout
}

pub(crate) fn source(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../testdata/symbolize").join(name).canonicalize().unwrap()
}

impl Folder {
    pub(crate) fn new() -> Self {
        Self(tempfile::tempdir().unwrap())
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.0.path().canonicalize().unwrap().join(name)
    }

    /// Compiles a source with the compiler of its language.
    pub(crate) fn compile(&self, source_name: &str, name: &str, flags: &[&str]) -> PathBuf {
        let program = self.path(name);
        let compiler = match Path::new(source_name).extension().and_then(OsStr::to_str) {
            Some("c") => "cc",
            Some("cpp") => "c++",
            Some("rs") => "rustc",
            other => panic!("no compiler for {other:?}"),
        };
        // Recent compilers make the older Rust mangling only with unstable flags enabled.
        let mut command = Command::new(compiler);
        command.env("RUSTC_BOOTSTRAP", "1").args(flags).arg("-o").arg(&program);
        run(command.arg(source(source_name)));
        program
    }

    /// A copy of a program without symbols.
    pub(crate) fn strip(&self, program: &Path, name: &str, flags: &[&str]) -> PathBuf {
        let stripped = self.path(name);
        run(Command::new("objcopy").args(flags).arg(program).arg(&stripped));
        stripped
    }

    /// The part that `strip` removes, as a file of its own.
    pub(crate) fn keep_debug(&self, program: &Path, name: &str) -> PathBuf {
        let debug = self.path(name);
        fs::create_dir_all(debug.parent().unwrap()).unwrap();
        run(Command::new("objcopy").arg("--only-keep-debug").arg(program).arg(&debug));
        debug
    }

    /// Options that look for debug files in this folder only.
    pub(crate) fn options(&self) -> ImageOptions {
        ImageOptions { debug_dirs: vec![self.path("debug")], ..ImageOptions::default() }
    }

    pub(crate) fn open(&self, program: &Path) -> Image {
        Image::open(program, &self.options()).unwrap()
    }
}

/// Every address of the program's `.text`.
pub(crate) fn text_addresses(program: &Path) -> Vec<SymbolAddr> {
    let bytes = fs::read(program).unwrap();
    let object = object::File::parse(&*bytes).unwrap();
    let text = object.section_by_name(".text").unwrap();
    (text.address()..text.address() + text.size()).map(SymbolAddr).collect()
}
