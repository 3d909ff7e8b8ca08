//! The programs that are recorded, and recordings that run beside them.

use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};

use crate::product::Running;
use crate::vitals::Vitals;

/// Longest wait for a recording to begin and to end.
const PATIENCE: Duration = Duration::from_secs(120);

/// Compiled programs, in a folder of their own.
pub(super) struct Programs {
    pub(super) folder: tempfile::TempDir,
    pub(super) pace: PathBuf,
}

impl Programs {
    pub(super) fn build() -> Result<Programs> {
        let folder = tempfile::tempdir().context("make a folder")?;
        let pace = folder.path().join("pace");
        compile(&["gcc", "-O2", "-g", "-fno-optimize-sibling-calls", "-pthread"], "pace.c", &pace)?;
        Ok(Programs { folder, pace })
    }
}

/// Compiles a program of `testdata/record`.
pub(super) fn compile(compiler: &[&str], source: &str, program: &Path) -> Result<()> {
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("../testdata/record").join(source);
    let mut command = Command::new(compiler[0]);
    command.args(&compiler[1..]).arg("-o").arg(program).arg(source);
    quiet(&mut command)?;
    Ok(())
}

/// Runs a command that must succeed.
pub(super) fn quiet(command: &mut Command) -> Result<Output> {
    let name = command.get_program().to_string_lossy().into_owned();
    let output = command.stdin(Stdio::null()).output().with_context(|| format!("run {name}"))?;
    ensure!(output.status.success(), "{name}: {}", String::from_utf8_lossy(&output.stderr));
    Ok(output)
}

/// The work of a program that has ended.
pub(super) struct Paced {
    pub(super) rounds: f64,
    /// CPU time in seconds.
    pub(super) cpu: f64,
}

impl Paced {
    /// Rounds for each second of CPU time.
    pub(super) fn for_each_second(&self) -> f64 {
        self.rounds / self.cpu
    }
}

/// Runs `pace` to its end.
pub(super) fn paced(pace: &Path, kind: &str, seconds: u64) -> Result<Paced> {
    finished(Command::new(pace).args([kind, &seconds.to_string()]))
}

/// Runs `pace switch` to its end: both threads on one CPU, which switches twice in a round trip.
pub(super) fn switched(pace: &Path, seconds: u64) -> Result<Paced> {
    finished(Command::new("taskset").args(["-c", "0"]).arg(pace).args(["switch", &seconds.to_string()]))
}

fn finished(pace: &mut Command) -> Result<Paced> {
    let output = quiet(pace)?;
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let (rounds, nanos) = text.trim().split_once(' ').context("pace prints two numbers")?;
    Ok(Paced { rounds: rounds.parse().context("rounds")?, cpu: nanos.parse::<f64>().context("CPU time")? / 1e9 })
}

/// `pace` while it runs.
pub(super) struct Pace;

impl Pace {
    pub(super) fn start(pace: &Path, kind: &str, seconds: u64) -> Result<Running> {
        let mut command = Command::new(pace);
        command.args([kind, &seconds.to_string()]).stdin(Stdio::null()).stdout(Stdio::null());
        Ok(Running::new(command.spawn().context("start pace")?))
    }
}

/// What `record` prints to standard error.
pub(super) fn recorded(procprof: &Path, arguments: &[&str]) -> Result<String> {
    let folder = tempfile::tempdir().context("make a folder")?;
    let mut command = Command::new(procprof);
    command.arg("record").args(arguments).arg("-o").arg(folder.path().join("profile"));
    let output = quiet(command.env("PROCPROF_CACHE_DIR", folder.path()))?;
    Ok(String::from_utf8_lossy(&output.stderr).into_owned())
}

/// The number before a text, in the first line that has it.
pub(super) fn summary_number(told: &str, behind: &str) -> Option<f64> {
    let (before, _) = told.lines().find_map(|line| line.split_once(behind))?;
    before.rsplit(' ').next()?.parse().ok()
}

/// `perf record` for some seconds.
pub(super) fn perf_record(arguments: &[&str], file: &Path, seconds: u64) -> Result<()> {
    let mut command = Command::new("perf");
    command.args(["record", "-q", "-o"]).arg(file).args(arguments).args(["--", "sleep", &seconds.to_string()]);
    quiet(&mut command)?;
    Ok(())
}

/// `record` while it runs.
pub(super) struct Recording {
    child: Child,
    folder: tempfile::TempDir,
}

impl Recording {
    /// Starts it, and waits until it records.
    pub(super) fn start(procprof: &Path, arguments: &[&str]) -> Result<Recording> {
        let cache = tempfile::tempdir().context("make a folder")?;
        Recording::start_with_cache(procprof, arguments, cache.path())
    }

    pub(super) fn start_with_cache(procprof: &Path, arguments: &[&str], cache: &Path) -> Result<Recording> {
        let folder = tempfile::tempdir().context("make a folder")?;
        let output = |name: &str| std::fs::File::create(folder.path().join(name)).context("make a file");
        let mut command = Command::new(procprof);
        command.arg("record").args(arguments).args(["-d", "600", "--format", "top"]).env("PROCPROF_CACHE_DIR", cache);
        command.stdin(Stdio::null()).stdout(output("table")?).stderr(output("errors")?);
        let recording = Recording { child: command.spawn().context("start procprof record")?, folder };
        let began = Instant::now();
        while !recording.has_buffers()? {
            ensure!(began.elapsed() < PATIENCE, "procprof record does not begin: {}", recording.errors());
            std::thread::sleep(Duration::from_millis(20));
        }
        std::thread::sleep(Duration::from_millis(300));
        Ok(recording)
    }

    fn has_buffers(&self) -> Result<bool> {
        let maps = std::fs::read_to_string(format!("/proc/{}/maps", self.child.id())).context("read its maps")?;
        Ok(maps.contains("anon_inode:[perf_event]"))
    }

    fn errors(&self) -> String {
        std::fs::read_to_string(self.folder.path().join("errors")).unwrap_or_default()
    }

    /// Its CPU time in seconds.
    pub(super) fn cpu(&self) -> Result<f64> {
        Ok(Vitals::from_pid(self.child.id())?.cpu)
    }

    /// Ends it as ^C does, and waits for its table.
    pub(super) fn stop(mut self) -> Result<String> {
        quiet(Command::new("kill").args(["-INT", &self.child.id().to_string()]))?;
        let status = self.child.wait().context("wait for procprof record")?;
        ensure!(status.success(), "procprof record: {}", self.errors());
        std::fs::read_to_string(self.folder.path().join("table")).context("read its table")
    }
}

impl Drop for Recording {
    fn drop(&mut self) {
        // One that has ended can't be killed.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// What runs beside a program that is measured.
pub(super) trait Beside {
    /// Its CPU time in seconds.
    fn cpu(&self) -> Result<f64>;

    /// Ends it.
    fn end(self: Box<Self>) -> Result<()>;
}

impl Beside for Recording {
    fn cpu(&self) -> Result<f64> {
        Recording::cpu(self)
    }

    fn end(self: Box<Self>) -> Result<()> {
        self.stop().map(drop)
    }
}

/// bpftrace while it runs a program.
pub(super) struct Bpftrace(Running);

impl Bpftrace {
    /// Starts it, and waits until the program is attached.
    pub(super) fn start(program: &str) -> Result<Bpftrace> {
        // Containers have neither file system mounted, so it has its own.
        let script = "mount -t tracefs none /sys/kernel/tracing; mount -t debugfs none /sys/kernel/debug; \
                      exec bpftrace -e \"$0\"";
        let mut command = Command::new("unshare");
        command.args(["-m", "sh", "-c", script, program]).stdin(Stdio::null()).stderr(Stdio::null());
        let mut child = command.stdout(Stdio::piped()).spawn().context("start bpftrace")?;
        let mut output = BufReader::new(child.stdout.take().context("bpftrace has no output")?);
        let running = Running::new(child);
        let mut line = String::new();
        output.read_line(&mut line).context("read bpftrace's output")?;
        ensure!(line.starts_with("Attaching"), "bpftrace: {line}");
        // It prints its maps at the end, which nobody reads.
        std::thread::spawn(move || std::io::copy(&mut output, &mut std::io::sink()));
        std::thread::sleep(Duration::from_secs(1));
        Ok(Bpftrace(running))
    }
}

impl Beside for Bpftrace {
    fn cpu(&self) -> Result<f64> {
        Ok(Vitals::from_pid(self.0.pid())?.cpu)
    }

    fn end(self: Box<Self>) -> Result<()> {
        self.0.kill()
    }
}
