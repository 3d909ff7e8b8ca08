//! Programs of the machine run as they do without the library.

use crate::build::{library, program};
use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

/// Runs a program plainly, preloaded, and preloaded with everything on; all three must come out the same.
fn unharmed<S: AsRef<OsStr>>(program: &Path, arguments: &[S], environment: &[(&str, &str)]) -> Output {
    let run = |settings: &[(&str, &str)]| {
        let mut command = Command::new(program);
        command.args(arguments).envs(environment.iter().copied()).envs(settings.iter().copied());
        command.output().unwrap_or_else(|error| panic!("{} is needed: {error}", program.display()))
    };
    let library = library();
    let (preload, plain) = (("LD_PRELOAD", library.to_str().unwrap()), run(&[]));
    let on = [preload, ("PROCPROF_LISTEN", "127.0.0.1:0"), ("PROCPROF_HEAP_SAMPLE_BYTES", "64")];
    for output in [run(&[preload]), run(&on)] {
        assert_eq!(output.status, plain.status, "{}", String::from_utf8_lossy(&output.stderr));
        assert_eq!(String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&plain.stdout));
        let errors = String::from_utf8_lossy(&output.stderr).into_owned();
        let own: Vec<&str> = errors.lines().filter(|line| !line.starts_with("procprof: process ")).collect();
        assert_eq!(own, String::from_utf8_lossy(&plain.stderr).lines().collect::<Vec<_>>());
    }
    plain
}

#[test]
fn python() {
    let script = "import json, subprocess, threading, zlib\n\
        threads = [threading.Thread(target=lambda: zlib.compress(json.dumps(list(range(20000))).encode())) for _ in range(8)]\n\
        [thread.start() for thread in threads]; [thread.join() for thread in threads]\n\
        print(subprocess.run(['echo', 'child'], capture_output=True).stdout, len(json.dumps([str(i) for i in range(50000)])))\n\
        raise SystemExit(3)";
    let output = unharmed(&find("python3"), &["-c", script], &[]);
    assert_eq!(output.status.code(), Some(3));
}

/// The program itself, also if a version manager's script precedes it in the path.
fn find(name: &str) -> PathBuf {
    let system = Path::new("/usr/bin").join(name);
    if system.exists() { system } else { name.into() }
}

#[test]
fn bash() {
    let script = "for i in 1 2 3; do (echo sub $i | tr a-z A-Z); done; x=$(seq 1 5000 | sort -rn | head -3); echo $x; exec 9>/dev/null; ulimit -n 64; ls -d /; exit 7";
    let output = unharmed(&find("bash"), &["-c", script], &[]);
    assert_eq!(output.status.code(), Some(7));
}

#[test]
#[ignore = "`cargo xtask soak long` runs it"]
fn sort() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("numbers");
    std::fs::write(&file, (0..200_000_u64).map(|i| format!("{}\n", i * 7919 % 200_003)).collect::<String>()).unwrap();
    let output =
        unharmed(&find("sort"), &[OsStr::new("--parallel=4"), OsStr::new("-n"), file.as_os_str()], &[("LC_ALL", "C")]);
    assert!(output.stdout.starts_with(b"0\n1\n"));
}

#[test]
#[ignore = "`cargo xtask soak long` runs it"]
fn git() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let output = unharmed(&find("git"), &["-C", root.to_str().unwrap(), "--version", "--build-options"], &[]);
    assert!(output.status.success());
    let output = unharmed(&find("git"), &["hash-object", root.join("README.md").to_str().unwrap()], &[]);
    assert!(output.status.success());
}

#[test]
fn a_compiler() {
    let source = crate::build::testdata().join("heap.cpp");
    unharmed(&find("g++"), &["-std=c++17", "-O1", "-S", "-o", "-", source.to_str().unwrap()], &[]);
}

#[test]
fn a_statically_linked_program_is_left_alone() {
    let output = unharmed(&program("stress.c", &["-static", "-DSTATIC"]), &[] as &[&str], &[]);
    assert!(output.status.success());
}

#[test]
fn blocks_keep_their_contents_over_threads() {
    assert!(unharmed(&program("stress.c", &[]), &["1"], &[]).status.success());
}

#[test]
#[ignore = "takes a minute: `cargo xtask soak long` runs it"]
fn blocks_keep_their_contents_over_threads_for_longer() {
    assert!(unharmed(&program("stress.c", &[]), &["10"], &[]).status.success());
}
