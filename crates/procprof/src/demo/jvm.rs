//! The demo's frontend as a JVM: a small Java program, run from its source by the `java` on the PATH.

use std::io::{BufRead, BufReader, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::mpsc;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};

const PROGRAM: &str = include_str!("DemoFrontend.java");
/// The line that it prints once its threads run.
const READY: &str = "ready";
/// How long `java` may take to compile and start it.
const START: Duration = Duration::from_secs(30);
/// How long it may take to end by itself.
const END: Duration = Duration::from_secs(1);

/// A running demo JVM; killed when dropped. It ends by itself when this process ends.
#[derive(Debug)]
pub(crate) struct DemoJvm {
    child: Child,
}

impl DemoJvm {
    /// Starts it and waits until it works.
    ///
    /// # Errors
    /// There is no `java`, or it runs no sources: one before 11, or one without a compiler.
    pub(crate) fn start() -> Result<DemoJvm> {
        let source = Source::write(&std::env::temp_dir())?;
        let child = Command::new("java")
            .arg("-Xmx256m")
            .arg(&source.0)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .context("start java")?;
        let mut jvm = DemoJvm { child };
        jvm.wait_until_ready()?;
        Ok(jvm)
    }

    /// Its process id.
    pub(crate) fn pid(&self) -> u32 {
        self.child.id()
    }

    fn wait_until_ready(&mut self) -> Result<()> {
        let stdout = self.child.stdout.take().context("read the output of java")?;
        let (sender, receiver) = mpsc::channel();
        std::thread::spawn(move || {
            let mut line = String::new();
            let read = BufReader::new(stdout).read_line(&mut line);
            // The receiver is gone only when the wait is over.
            let _ = sender.send(read.map(|_| line));
        });
        let line = receiver.recv_timeout(START).with_context(|| format!("wait {} s for java", START.as_secs()))??;
        ensure!(line.trim() == READY, "java does not run programs from their source");
        Ok(())
    }
}

impl Drop for DemoJvm {
    fn drop(&mut self) {
        // It ends at the end of its input, and removes the socket through which it was asked for recordings.
        drop(self.child.stdin.take());
        let deadline = Instant::now() + END;
        while Instant::now() < deadline && matches!(self.child.try_wait(), Ok(None)) {
            std::thread::sleep(Duration::from_millis(10));
        }
        super::end(&mut self.child);
    }
}

/// The program's source in a file, removed when this is dropped: `java` reads it once.
struct Source(PathBuf);

impl Source {
    fn write(folder: &Path) -> Result<Source> {
        let path = folder.join(format!("procprof-demo-{}.java", std::process::id()));
        // Left by an earlier process of the same pid; a file of another user cannot be removed, and is not written to.
        let _ = std::fs::remove_file(&path);
        let file = std::fs::OpenOptions::new().write(true).create_new(true).mode(0o600).open(&path);
        let mut file = file.with_context(|| format!("create {}", path.display()))?;
        let source = Source(path);
        file.write_all(PROGRAM.as_bytes()).with_context(|| format!("write {}", source.0.display()))?;
        Ok(source)
    }
}

impl Drop for Source {
    fn drop(&mut self) {
        // What is left is a few lines in the folder for temporary files.
        let _ = std::fs::remove_file(&self.0);
    }
}
