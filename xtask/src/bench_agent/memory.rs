//! Memory that an agent adds to a program that does nothing, by the program's size.
//!
//! The code is functions with unwind tables of their own, as many as make the size, so that the program is as large to the agent as a real one.

use std::ffi::OsString;
use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::time::Duration;

use anyhow::{Context, Result, ensure};

use super::{Effort, build, median};
use crate::table::Table;
use crate::vitals::Vitals;

/// Megabytes of code beside what the program has itself.
const SIZES: [u64; 3] = [12, 140, 790];

/// Bytes of each function, unwind entry included.
const FUNCTION: u64 = 640;

/// How long the program is left alone before a look: time for what ends and what is given back.
const REST: Duration = Duration::from_secs(2);

/// Prints the table.
pub(super) fn measure(effort: Effort) -> Result<()> {
    let mut table =
        Table::new(&["program", "without, MB", "with an idle agent, MB", "added, MB", "after a capture of 1 s, added, MB", "goal"]);
    for megabytes in SIZES {
        let code = [OsString::from(code(megabytes)?)];
        let (plain, ours) = (build::program("idle", "idle", &code)?, build::program("idle", "idle,ours", &code)?);
        let size = fs::metadata(&ours).context("look at the program")?.len() as f64 / 1e6;
        let mut looks = Vec::new();
        for _ in 0..effort.rounds {
            looks.push((look(&plain)?, look(&ours)?));
        }
        let of = |figure: fn(&([f64; 2], [f64; 2])) -> f64| median(looks.iter().map(figure).collect());
        let (without, with) = (of(|(plain, _)| plain[0]), of(|(_, ours)| ours[0]));
        let (added, after) = (of(|(plain, ours)| ours[0] - plain[0]), of(|(plain, ours)| ours[1] - plain[1]));
        let goal = format!("10 MB: {}", super::cpu::verdict(added <= 10.0));
        let cells =
            [format!("{size:.0} MB"), format!("{without:.1}"), format!("{with:.1}"), format!("{added:.1}"), format!("{after:.1}"), goal];
        table.row(cells);
    }
    table.print("Resident memory that an agent adds to a program at rest");
    Ok(())
}

/// Resident megabytes of a fresh process at rest, and after what it does for a line of input.
fn look(program: &Path) -> Result<[f64; 2]> {
    let mut idle = Idle::start(program)?;
    let before = idle.resident()?;
    writeln!(idle.input, "on").context("ask for a capture")?;
    idle.wait()?;
    Ok([before, idle.resident()?])
}

struct Idle {
    child: Child,
    input: ChildStdin,
    output: BufReader<ChildStdout>,
}

impl Idle {
    fn start(program: &Path) -> Result<Idle> {
        let mut child = Command::new(program).stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().context("start the program")?;
        let (input, output) = (child.stdin.take().context("its input")?, child.stdout.take().context("its output")?);
        let mut idle = Idle { child, input, output: BufReader::new(output) };
        idle.wait()?;
        Ok(idle)
    }

    fn wait(&mut self) -> Result<()> {
        let mut line = String::new();
        self.output.read_line(&mut line).context("read from the program")?;
        ensure!(line == "ready\n", "the program said {line:?}");
        Ok(())
    }

    fn resident(&self) -> Result<f64> {
        std::thread::sleep(REST);
        Ok(Vitals::of(self.child.id())?.resident as f64 / 1e6)
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
    // Kept though nobody calls it.
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
