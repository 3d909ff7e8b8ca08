//! A host of the fleet: its own processes, name and clock, by namespaces and a preloaded `clock_gettime`.

use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};

use crate::product::Running;

/// The source of the preloaded library: `CLOCK_REALTIME` moved by the seconds in a file that is mapped.
const CLOCK: &str = r#"
#define _GNU_SOURCE
#include <fcntl.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>
static volatile const long *ahead;
__attribute__((constructor)) static void map(void) {
    int file = open(getenv("SOAK_CLOCK"), O_RDONLY | O_CLOEXEC);
    void *at = file < 0 ? MAP_FAILED : mmap(0, sizeof(long), PROT_READ, MAP_SHARED, file, 0);
    if (at == MAP_FAILED) abort();
    close(file);
    ahead = at;
}
int clock_gettime(clockid_t clock, struct timespec *time) {
    long answer = syscall(SYS_clock_gettime, clock, time);
    if (answer == 0 && clock == CLOCK_REALTIME) time->tv_sec += *ahead;
    return answer;
}
"#;
/// Starts a process each 5 ms or so: 200 a second at most.
const SHORT_PROCESSES: &str = r#"hostname "$0" && while :; do sleep 0.003; done"#;
/// Longest wait for a process inside.
const PATIENCE: Duration = Duration::from_secs(20);

/// Namespaces in which short processes start all the time.
pub(super) struct Host {
    /// The one that made them.
    unshare: Running,
    clock: PathBuf,
    library: PathBuf,
}

/// A process inside, started by one outside that ends with it.
pub(super) struct Inside {
    outside: Running,
    pid: u32,
}

/// Builds the library with the clock.
pub(super) fn build_clock(folder: &Path) -> Result<PathBuf> {
    let (source, library) = (folder.join("clock.c"), folder.join("clock.so"));
    std::fs::write(&source, CLOCK).context("write the clock")?;
    let status = Command::new("gcc")
        .args(["-O1", "-shared", "-fPIC", "-o"])
        .arg(&library)
        .arg(&source)
        .status()
        .context("run gcc")?;
    ensure!(status.success(), "gcc fails");
    Ok(library)
}

impl Host {
    pub(super) fn start(name: &str, folder: &Path, library: &Path) -> Result<Self> {
        let clock = folder.join(format!("clock-{name}"));
        write_clock(&clock, 0)?;
        let mut command = Command::new("unshare");
        command.args(["--uts", "--mount", "--pid", "--fork", "--kill-child", "--mount-proc", "sh", "-c"]);
        let child = command.args([SHORT_PROCESSES, name]).stdout(Stdio::null()).spawn().context("run unshare")?;
        Ok(Self { unshare: Running::new(child), clock, library: library.to_owned() })
    }

    /// A command that runs a program inside, by the host's clock.
    pub(super) fn command(&self, program: &Path) -> Command {
        let of = format!("/proc/{}/ns", self.unshare.pid());
        let mut command = Command::new("nsenter");
        // The pid namespace that was made is that of the children.
        command.args([format!("--pid={of}/pid_for_children"), format!("--uts={of}/uts"), format!("--mount={of}/mnt")]);
        // Entering a mount namespace changes the working directory.
        let folder = self.clock.parent().unwrap_or(Path::new("/"));
        command.arg(format!("--wdns={}", folder.display()));
        command.args(["setpriv", "--pdeathsig", "KILL", "env"]);
        command.arg(format!("LD_PRELOAD={}", self.library.display()));
        command.arg(format!("SOAK_CLOCK={}", self.clock.display()));
        command.arg(program);
        command
    }

    /// Sets its clock that many seconds ahead.
    pub(super) fn set_clock(&self, seconds: i32) -> Result<()> {
        write_clock(&self.clock, seconds)
    }
}

/// In place: the file is mapped.
fn write_clock(file: &Path, seconds: i32) -> Result<()> {
    use std::os::unix::fs::FileExt;
    let file =
        std::fs::OpenOptions::new().create(true).truncate(false).write(true).open(file).context("open a clock")?;
    file.write_all_at(&i64::from(seconds).to_le_bytes(), 0).context("set a clock")
}

impl Inside {
    /// Waits for the only child of the process that was started.
    pub(super) fn find(child: Child) -> Result<Self> {
        let mut outside = Running::new(child);
        let (children, begun) = (format!("/proc/{0}/task/{0}/children", outside.pid()), Instant::now());
        while begun.elapsed() < PATIENCE {
            let text = std::fs::read_to_string(&children).unwrap_or_default();
            if let Some(pid) = text.split_ascii_whitespace().next() {
                return Ok(Self { outside, pid: pid.parse().context("a pid is a number")? });
            }
            if let Some(status) = outside.ended()? {
                bail!("a process that enters a host ends with {status}");
            }
            thread::sleep(Duration::from_millis(10));
        }
        bail!("nothing starts inside a host within {PATIENCE:?}")
    }

    /// Kills it.
    pub(super) fn kill(self) -> Result<()> {
        self.signal("-KILL")?;
        // Its status is that of the process inside.
        self.outside.wait().map(drop)
    }

    /// Signals it to end and waits for that.
    pub(super) fn terminate(self) -> Result<ExitStatus> {
        self.signal("-TERM")?;
        self.outside.wait()
    }

    fn signal(&self, signal: &str) -> Result<()> {
        let status = Command::new("kill").args([signal, &self.pid.to_string()]).status().context("run kill")?;
        ensure!(status.success(), "kill {signal} {} fails", self.pid);
        Ok(())
    }
}
