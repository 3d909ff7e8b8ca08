//! Programs of `testdata/preload`, built on first use.

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use tempfile::TempDir;

/// The library. A test of a crate does not depend on a shared library of the same crate, so it is built here;
/// `PROCPROF_PRELOAD_LIBRARY` names another build to be tested, such as the one of a release.
pub(crate) fn library() -> &'static Path {
    static BUILT: OnceLock<Option<PathBuf>> = OnceLock::new();
    let library = BUILT.get_or_init(|| {
        if let Some(named) = std::env::var_os("PROCPROF_PRELOAD_LIBRARY") {
            return Some(named.into());
        }
        let mut command = Command::new(env!("CARGO"));
        command.args(["build", "--quiet", "--locked", "--package", "procprof-preload", "--lib"]);
        // Build scripts of dependencies depend on it, and would run again.
        command.env_remove("RUSTC_BOOTSTRAP");
        let status = command.current_dir(env!("CARGO_MANIFEST_DIR")).status().unwrap();
        status.success().then(|| folder_of_tests().join("../libprocprof_preload.so").canonicalize().unwrap())
    });
    library.as_ref().expect("the library is built")
}

/// The folder of this test and its dependencies.
pub(crate) fn folder_of_tests() -> PathBuf {
    std::env::current_exe().unwrap().parent().unwrap().to_owned()
}

pub(crate) fn testdata() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../testdata/preload")
}

/// A program, built once, with further arguments (`-ljemalloc`) after its source.
pub(crate) fn program(source: &str, more: &[&str]) -> PathBuf {
    /// The number of each program, and its file once it is built.
    type Built = HashMap<String, Arc<(usize, OnceLock<PathBuf>)>>;
    static BUILT: Mutex<Option<Built>> = Mutex::new(None);
    let place = {
        let mut built = BUILT.lock().unwrap_or_else(PoisonError::into_inner);
        let built = built.get_or_insert_default();
        let number = built.len();
        built.entry(format!("{source} {more:?}")).or_insert_with(|| Arc::new((number, OnceLock::new()))).clone()
    };
    // Others may be built at the same time.
    place.1.get_or_init(|| compile(source, more, place.0)).clone()
}

fn compile(source: &str, more: &[&str], number: usize) -> PathBuf {
    let program = folder_of_programs().join(format!("{}-{number}", source.split('.').next().unwrap()));
    let compiler = if source.ends_with(".c") { "gcc" } else { "g++" };
    let mut command = Command::new(compiler);
    command
        .args(["-O1", "-g", "-Wall", "-Werror", "-pthread", "-I"])
        .arg(Path::new(env!("CARGO_MANIFEST_DIR")).join("include"));
    command.arg(testdata().join(source)).arg("-o").arg(&program).args(more);
    let output = command.output().unwrap_or_else(|error| panic!("{compiler} is needed: {error}"));
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    program
}

/// The folder of the programs, removed at the end of this process.
fn folder_of_programs() -> PathBuf {
    static FOLDER: Mutex<Option<TempDir>> = Mutex::new(None);
    extern "C" fn remove() {
        drop(FOLDER.lock().unwrap_or_else(PoisonError::into_inner).take());
    }
    let mut folder = FOLDER.lock().unwrap_or_else(PoisonError::into_inner);
    let folder = folder.get_or_insert_with(|| {
        unsafe extern "C" {
            fn atexit(function: extern "C" fn()) -> i32;
        }
        // SAFETY: the function stays loaded until the end.
        assert_eq!(unsafe { atexit(remove) }, 0);
        tempfile::tempdir().unwrap()
    });
    folder.path().to_owned()
}

/// Runs a tool that must be there; its standard output.
pub(crate) fn tool(name: &str, arguments: &[&str]) -> String {
    let folder = tempfile::tempdir().unwrap();
    let mut command = Command::new(name);
    command.args(arguments).env("PPROF_TMPDIR", folder.path()).env("JEPROF_TMPDIR", folder.path());
    let output = command.output().unwrap_or_else(|error| panic!("{name} is needed: {error}"));
    let (text, errors) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    println!("{name} {arguments:?}\n{text}\n{errors}");
    assert!(output.status.success(), "{name} {arguments:?}: {errors}");
    text.into_owned()
}
