//! Programs in many languages: which share of their stacks reaches the first frame of the thread.

use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

use anyhow::{Context, Result};

use super::programs::{Programs, compile, quiet, recorded, summary_number};
use crate::product::Running;
use crate::table::Table;

const PYTHON: &str = "def f(n):\n return sum(i * i for i in range(100)) if n == 0 else f(n - 1)\nwhile True: f(20)";
const JAVASCRIPT: &str = "function f(n) { if (n) return 1 + f(n - 1); let s = 0; for (let i = 0; i < 1000; i++) s += i; \
                          return s; } for (;;) f(20)";
const JAVA: &str = "public class Loop { static int f(int n) { if (n > 0) return 1 + f(n - 1); int s = 0; for (int i = 0; i < \
                    1000; i++) s += i * s; return s; } public static void main(String[] a) { while (true) f(20); } }";

/// Compiled ones: name, compiler, source.
const COMPILED: &[(&str, &[&str], &str)] = &[
    ("C", &["gcc", "-O2", "-pthread"], "burn.c"),
    ("C, frame pointers", &["gcc", "-O2", "-fno-omit-frame-pointer", "-pthread"], "burn.c"),
    ("C, static", &["gcc", "-O2", "-static", "-pthread"], "burn.c"),
    ("C, stripped", &["gcc", "-O2", "-s", "-pthread"], "burn.c"),
    ("C++", &["g++", "-O2"], "burn.cpp"),
    ("C++, frame pointers", &["g++", "-O2", "-fno-omit-frame-pointer"], "burn.cpp"),
    ("C++, static, stripped", &["g++", "-O2", "-static", "-s"], "burn.cpp"),
    ("Rust", &["rustc", "--edition", "2024", "-O"], "burn.rs"),
    ("Go", &["go", "build"], "burn.go"),
    ("Go, stripped", &["go", "build", "-ldflags=-s -w"], "burn.go"),
];

/// Measures them.
pub(super) fn roots(procprof: &Path, programs: &Programs) -> Result<()> {
    let folder = programs.folder.path();
    let mut table = Table::new(&["program", "samples", "to the root"]);
    let mut all = (0.0, 0.0);
    let mut add = |name: &str, command: &mut Command| -> Result<()> {
        let child = command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).spawn();
        let target = Running::new(child.with_context(|| format!("start the program in {name}"))?);
        // What is compiled at run time is, a moment later.
        std::thread::sleep(Duration::from_millis(1500));
        let pid = target.pid().to_string();
        let told = recorded(procprof, &["-p", &pid, "-F", "997", "-d", "2", "--engine", "perf"])?;
        let samples = summary_number(&told, " samples in").context("count of samples")?;
        let share = summary_number(&told, " % of").unwrap_or(100.0);
        all = (all.0 + samples, all.1 + samples * share);
        table.row([name.to_owned(), format!("{samples:.0}"), format!("{share:.1} %")]);
        Ok(())
    };
    for (number, (name, compiler, source)) in COMPILED.iter().enumerate() {
        let program = folder.join(format!("target{number}"));
        compile(compiler, source, &program)?;
        add(name, Command::new(&program).arg("600"))?;
    }
    add("Python", Command::new("python3").args(["-c", PYTHON]))?;
    add("Node.js, `--perf-basic-prof`", Command::new("node").args(["--perf-basic-prof", "-e", JAVASCRIPT]))?;
    std::fs::write(folder.join("Loop.java"), JAVA).context("write Loop.java")?;
    quiet(Command::new("javac").arg("-d").arg(folder).arg(folder.join("Loop.java")))?;
    add(
        "JVM, `-XX:+PreserveFramePointer`",
        Command::new("java").args(["-XX:+PreserveFramePointer", "-cp"]).arg(folder).arg("Loop"),
    )?;
    table.row(["all".to_owned(), format!("{:.0}", all.0), format!("{:.2} %", all.1 / all.0)]);
    table.print("Stacks that reach the first frame of the thread, `record -p -F 997`");
    Ok(())
}
