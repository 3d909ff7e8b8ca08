//! A child process that ends with the test, and programs compiled for it.

use std::path::Path;
use std::process::{Child, Command, Stdio};

use procprof_process::{Pid, Process};

/// A child that is killed and reaped when dropped.
pub(crate) struct Running(Child);

impl Running {
    /// Starts `program` with nothing to read and waits until it executes (no longer the fork of this process).
    pub(crate) fn start(program: &Path) -> Self {
        let mut command = Command::new(program);
        command.stdin(Stdio::piped()).stdout(Stdio::null());
        let child = command.spawn().unwrap_or_else(|error| panic!("{}: {error}", program.display()));
        Self(child)
    }

    pub(crate) fn process(&self) -> Process {
        Process::open(Pid(self.0.id())).unwrap()
    }

    /// Ends and reaps it.
    pub(crate) fn end(&mut self) {
        self.0.kill().unwrap();
        self.0.wait().unwrap();
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Compiles a C program that waits for the end of its input.
pub(crate) fn compile_waiting(folder: &Path, name: &str, extra: &[&str]) -> std::path::PathBuf {
    let source = folder.join(format!("{name}.c"));
    std::fs::write(&source, "#include <stdio.h>\nint main(void) { getchar(); return 0; }\n").unwrap();
    let program = folder.join(name);
    let mut command = Command::new("cc");
    command.arg("-o").arg(&program).arg(&source).args(extra);
    let status = command.status().expect("cc (a C compiler) is needed");
    assert!(status.success(), "{command:?}");
    program
}

#[test]
fn an_ended_process_is_gone() {
    let folder = tempfile::tempdir().unwrap();
    let program = compile_waiting(folder.path(), "short", &[]);
    let mut child = Running::start(&program);
    let process = child.process();
    process.check_same().unwrap();
    let identity = process.identity();
    child.end();
    assert!(process.check_same().unwrap_err().is_gone());
    assert!(process.maps().unwrap_err().is_gone());
    assert!(process.threads().unwrap_err().is_gone());
    assert!(process.namespaces().unwrap_err().is_gone());
    assert!(Process::open(identity.pid).unwrap_err().is_gone());
}

#[test]
fn a_restarted_process_is_another_one() {
    let folder = tempfile::tempdir().unwrap();
    let program = compile_waiting(folder.path(), "restarts", &[]);
    let first = Running::start(&program).process().identity();
    let second = Running::start(&program);
    let second = second.process().identity();
    assert!(!first.is_same(&second));
    let mut reused = second;
    reused.start_ticks += 1;
    assert!(!second.is_same(&reused) && second.is_same(&second));
}
