//! `cargo xtask bench-agent [--quick] [PART..]`: what the agent costs and how true its profiles are, beside other profilers in the same run.
//!
//! The programs that are measured are built once from `xtask/peers/profilers`, a profiler each, and run in turn, so that what else the
//! machine does meets all of them alike.

mod build;
mod cpu;
mod http;
mod memory;
mod run;

use std::process::Command;

use anyhow::{Context, Result, bail, ensure};

use crate::{bench, tools};

/// Programs a measurement needs, by the Debian packages that have them.
const TOOLS: &[(&str, &str)] = &[("as", "binutils"), ("wrk", "wrk")];

/// How long everything is measured.
#[derive(Clone, Copy, Debug)]
struct Effort {
    /// Turns of each program.
    rounds: usize,
    /// Seconds of work in each.
    seconds: u64,
}

const FULL: Effort = Effort { rounds: 5, seconds: 20 };
const QUICK: Effort = Effort { rounds: 2, seconds: 3 };

/// A part by its name, what it measures, and what does it.
type Part = (&'static str, &'static str, fn(Effort) -> Result<()>);

const PARTS: &[Part] = &[
    ("sample", "one CPU sample, signal included, beside an empty handler", cpu::sample),
    ("unwind", "unwinding alone, beside framehop", |_| cargo_bench("procprof-unwind", &[])),
    ("error", "CPU time told beside CPU time used, and a known split", cpu::error),
    ("bursts", "threads that work in bursts or live shortly", cpu::bursts),
    ("accuracy", "stacks to the thread's root, and the engines by themselves", |_| agent_bench("cpu_accuracy")),
    ("heap", "what the heap sampler adds to malloc and free, beside jemalloc's profiler", |_| agent_bench("heap")),
    ("contention", "what an uncontended lock takes longer", |_| agent_bench("contention")),
    ("memory", "memory that an idle agent adds, by the size of the program", memory::measure),
    ("http", "an HTTP server under wrk with everything on, and without", http::measure),
];

/// Measures the named parts, or all.
pub(crate) fn run(arguments: &[String]) -> Result<()> {
    let quick = arguments.iter().any(|argument| argument == "--quick");
    let wanted: Vec<&String> = arguments.iter().filter(|argument| *argument != "--quick").collect();
    if let Some(unknown) = wanted.iter().find(|name| !PARTS.iter().any(|(known, ..)| known == *name)) {
        let known: Vec<String> = PARTS.iter().map(|(name, what, _)| format!("  {name:<12}{what}")).collect();
        bail!("no part {unknown:?}; there are --quick and\n{}", known.join("\n"));
    }
    tools::require(TOOLS)?;
    bench::machine();
    for (name, what, part) in PARTS {
        if wanted.is_empty() || wanted.contains(&&(*name).to_owned()) {
            eprintln!("xtask: {what}");
            part(if quick { QUICK } else { FULL }).with_context(|| format!("measure {name}"))?;
        }
    }
    Ok(())
}

fn agent_bench(name: &str) -> Result<()> {
    cargo_bench("procprof-agent", &["--all-features", "--bench", name])
}

/// Runs a bench of the workspace, which has its peers within, and shows what it prints.
fn cargo_bench(package: &str, more: &[&str]) -> Result<()> {
    println!("\n## `cargo bench -p {package} {}`\n\n```", more.join(" "));
    let status =
        Command::new("cargo").args(["bench", "--quiet", "--locked", "-p", package]).args(more).status().context("run cargo bench")?;
    println!("```");
    ensure!(status.success(), "cargo bench -p {package} {} failed", more.join(" "));
    Ok(())
}

/// The middle of some values; not a number of none.
fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values.get(values.len() / 2).copied().unwrap_or(f64::NAN)
}
