//! Memory that an agent adds to a program that does nothing, by the program's size; embedded with all it has on at
//! defaults, and preloaded.
//!
//! The code is functions with unwind tables of their own, as many as make the size, so that the program is as large to
//! the agent as a real one.

use std::ffi::OsString;
use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::time::Duration;

use anyhow::{Context, Result, ensure};

use super::{Effort, build, median, verdict};
use crate::http;
use crate::table::Table;
use crate::vitals::Vitals;

/// Megabytes of code beside what the program has itself.
const SIZES: [u64; 3] = [12, 140, 790];

/// Bytes of each function, unwind entry included.
const FUNCTION: u64 = 640;

/// Rest before a measurement, for threads to end and memory to be freed.
const REST: Duration = Duration::from_secs(2);

/// The program with that much code, plain and with the agent.
struct Pair {
    plain: PathBuf,
    ours: PathBuf,
}

impl Pair {
    fn build(megabytes: u64) -> Result<Pair> {
        let code = [OsString::from(code(megabytes)?)];
        Ok(Pair { plain: build::program("idle", "idle", &code)?, ours: build::program("idle", "idle,ours", &code)? })
    }
}

/// Builds the measured programs.
pub(super) fn programs() -> Result<()> {
    build::preload()?;
    SIZES.iter().try_for_each(|megabytes| Pair::build(*megabytes).map(drop))
}

/// Prints the table.
pub(super) fn measure(effort: Effort) -> Result<()> {
    let (preload, rounds) = (build::preload()?, effort.rounds.min(2));
    let columns =
        ["program", "agent", "without, MB", "idle, MB", "added, MB", "after a capture of 1 s, added, MB", "goal"];
    let mut table = Table::new(&columns);
    for megabytes in SIZES {
        let pair = Pair::build(megabytes)?;
        let size = fs::metadata(&pair.ours).context("look at the program")?.len() as f64 / 1e6;
        let mut looks = Vec::new();
        for _ in 0..rounds {
            let plain = Idle::start(&pair.plain, None)?.resident()?;
            looks.push([Look { idle: plain, after: plain }, embedded(&pair.ours)?, preloaded(&pair.plain, &preload)?]);
        }
        let of =
            |which: usize, figure: fn(&Look) -> f64| median(looks.iter().map(|turn| figure(&turn[which])).collect());
        let without = of(0, |look| look.idle);
        for (which, name) in [(1, "embedded"), (2, "preloaded")] {
            let (idle, after) = (of(which, |look| look.idle), of(which, |look| look.after));
            let goal = format!("10 MB: {}", verdict(idle - without <= 10.0));
            let figures = [without, idle, idle - without, after - without].map(|figure| format!("{figure:.1}"));
            table.row([format!("{size:.0} MB"), name.to_owned()].into_iter().chain(figures).chain([goal]));
        }
    }
    table.print("Resident memory that an agent adds to a program at rest");
    Ok(())
}

/// Resident megabytes.
struct Look {
    /// At rest after the start.
    idle: f64,
    /// At rest after a capture of a second.
    after: f64,
}

/// The agent in the program, which captures for a line of input.
fn embedded(program: &Path) -> Result<Look> {
    let mut process = Idle::start(program, None)?;
    let idle = process.resident()?;
    writeln!(process.input, "on").context("ask for a capture")?;
    process.wait()?;
    Ok(Look { idle, after: process.resident()? })
}

/// The agent before the program, which captures on request over HTTP, and symbolizes.
fn preloaded(program: &Path, library: &Path) -> Result<Look> {
    let process = Idle::start(program, Some(library))?;
    let idle = process.resident()?;
    let answer = http::request("GET", &process.address, "/debug/pprof/profile?seconds=1")?;
    ensure!(answer.status == 200, "a capture was answered with {}", answer.status);
    Ok(Look { idle, after: process.resident()? })
}

struct Idle {
    child: Child,
    input: ChildStdin,
    output: BufReader<ChildStdout>,
    /// The address at which the preloaded agent listens.
    address: String,
}

impl Idle {
    fn start(program: &Path, library: Option<&Path>) -> Result<Idle> {
        let mut command = Command::new(program);
        if let Some(library) = library {
            command.env("LD_PRELOAD", library).env("PROCPROF_LISTEN", "127.0.0.1:0");
            // It sleeps until it is asked to go on.
            command.env("PROCPROF_LISTENER", "thread").stderr(Stdio::piped());
        }
        let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().context("start the program")?;
        let (input, output) = (child.stdin.take().context("its input")?, child.stdout.take().context("its output")?);
        let stderr = child.stderr.take();
        let mut idle = Idle { child, input, output: BufReader::new(output), address: String::new() };
        if let Some(stderr) = stderr {
            let mut line = String::new();
            BufReader::new(stderr).read_line(&mut line).context("read where the agent listens")?;
            let (_, rest) = line.split_once("http://").with_context(|| format!("find an address in {line:?}"))?;
            idle.address = rest.split('/').next().unwrap_or_default().trim().to_owned();
        }
        idle.wait()?;
        Ok(idle)
    }

    fn wait(&mut self) -> Result<()> {
        let mut line = String::new();
        self.output.read_line(&mut line).context("read from the program")?;
        ensure!(line == "ready\n", "the program said {line:?}");
        Ok(())
    }

    /// Resident megabytes after a rest.
    fn resident(&self) -> Result<f64> {
        std::thread::sleep(REST);
        Ok(Vitals::from_pid(self.child.id())?.resident as f64 / 1e6)
    }
}

impl Drop for Idle {
    fn drop(&mut self) {
        // One that has ended by itself is only reaped.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Assembles that much code.
fn code(megabytes: u64) -> Result<PathBuf> {
    ensure!(cfg!(target_arch = "x86_64"), "the code is written for x86-64");
    let object = build::folder()?.join(format!("code-{megabytes}.o"));
    if object.exists() {
        return Ok(object);
    }
    let source = object.with_extension("s");
    let functions = megabytes * 1_000_000 / FUNCTION;
    // Kept though it is never called.
    let text = format!(
        ".section .text.padding,\"axR\",@progbits\n.rept {functions}\n.cfi_startproc\npush %rbp\n.cfi_def_cfa_offset 16\n.cfi_offset 6, -16\n\
         mov %rsp, %rbp\n.cfi_def_cfa_register 6\n.skip {}, 0x90\npop %rbp\n.cfi_def_cfa 7, 8\nret\n.cfi_endproc\n.endr\n",
        FUNCTION - 46,
    );
    fs::write(&source, text).context("write the code")?;
    let status = Command::new("as").arg(&source).arg("-o").arg(&object).status().context("run as")?;
    ensure!(status.success(), "as failed");
    Ok(object)
}
