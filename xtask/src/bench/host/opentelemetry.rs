//! The OpenTelemetry eBPF profiler, built from the Go module proxy.

use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use serde_json::Value;

use super::programs::quiet;
use crate::product::{self, Running};
use crate::vitals::Vitals;

const MODULE: &str = "go.opentelemetry.io/ebpf-profiler@v0.0.202633";
/// Time until its tables of the running programs are made.
const WARM_UP: Duration = Duration::from_secs(15);

/// The programs, built.
pub(super) struct OpenTelemetry {
    profiler: PathBuf,
    collector: PathBuf,
}

/// What it took.
pub(super) struct Cost {
    /// CPU time for each second; without that of its BPF programs, which run in the time of others.
    pub(super) cpu: f64,
    pub(super) resident: u64,
}

impl OpenTelemetry {
    /// Builds them unless they are there.
    pub(super) fn build() -> Result<OpenTelemetry> {
        let folder = product::target()?.join("bench-host");
        let built = OpenTelemetry { profiler: folder.join("ebpf-profiler"), collector: folder.join("collector") };
        if built.profiler.exists() && built.collector.exists() {
            return Ok(built);
        }
        std::fs::create_dir_all(&folder).context("make a folder")?;
        eprintln!("xtask: building {MODULE}");
        let fetched = quiet(Command::new("go").args(["mod", "download", "-json", MODULE]).current_dir(&folder))?;
        let fetched: Value = serde_json::from_slice(&fetched.stdout).context("read the answer of go mod download")?;
        let fetched = fetched["Dir"].as_str().context("go mod download names no folder")?;
        // A folder that can be written: of the module cache nothing may be changed.
        let sources = tempfile::tempdir().context("make a folder")?;
        quiet(Command::new("cp").args(["-r", "--no-preserve=mode", &format!("{fetched}/.")]).arg(sources.path()))?;
        let sources = sources.path();
        // It ends where it may not raise its limit of locked memory, which kernels from 5.11 on do not need.
        let limit = sources.join("rlimit/rlimit.go");
        let text = std::fs::read_to_string(&limit).context("read rlimit.go")?;
        let failing = "return nil, fmt.Errorf(\"failed to set temporary rlimit: %w\", err)";
        ensure!(text.contains(failing), "rlimit.go is another one");
        let text = text.replace(failing, "return func() {}, nil").replace("\t\"fmt\"\n", "");
        std::fs::write(&limit, text).context("write rlimit.go")?;
        let collector = Path::new(env!("CARGO_MANIFEST_DIR")).join("peers/collector/main.go");
        std::fs::create_dir_all(sources.join("cmd/collector")).context("make a folder")?;
        std::fs::copy(collector, sources.join("cmd/collector/main.go")).context("copy the collector")?;
        let build = |program: &Path, package: &str| {
            quiet(Command::new("go").args(["build", "-mod=mod", "-o"]).arg(program).arg(package).current_dir(sources))
        };
        build(&built.profiler, ".")?;
        build(&built.collector, "./cmd/collector")?;
        Ok(built)
    }

    /// Profiles the host for some seconds.
    pub(super) fn cost(&self, hz: u32, seconds: u64) -> Result<Cost> {
        let mut collector = Command::new(&self.collector);
        let mut collector = collector.stdout(Stdio::piped()).spawn().context("start the collector")?;
        let output = collector.stdout.take().context("the collector has no output")?;
        let _collector = Running::new(collector);
        let mut address = String::new();
        BufReader::new(output).read_line(&mut address).context("read the collector's address")?;
        // Containers have no tracefs mounted, so it has one of its own.
        let script = "mount -t tracefs none /sys/kernel/tracing && exec \"$0\" \"$@\"";
        let mut profiler = Command::new("unshare");
        profiler.args(["-m", "sh", "-c", script]).arg(&self.profiler);
        profiler.args(["-samples-per-second", &hz.to_string(), "-disable-tls", "-collection-agent", address.trim()]);
        profiler.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        let mut profiler = Running::new(profiler.spawn().context("start the profiler")?);
        std::thread::sleep(WARM_UP);
        ensure!(profiler.ended()?.is_none(), "the OpenTelemetry profiler ended");
        let before = Vitals::from_pid(profiler.pid())?;
        std::thread::sleep(Duration::from_secs(seconds));
        let after = Vitals::from_pid(profiler.pid())?;
        Ok(Cost { cpu: (after.cpu - before.cpu) / seconds as f64, resident: after.resident })
    }
}
