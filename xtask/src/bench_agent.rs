//! `cargo xtask bench-agent [--quick] [--inputs] [PART..]`: measures the cost of the agent and the accuracy of its
//! profiles, beside other profilers in the same run.
//!
//! The programs that are measured are built once from `xtask/peers/profilers`, with one profiler each, and run in turn,
//! so that other load of the machine affects all of them alike.

mod build;
mod cpu;
mod heap;
mod http;
mod memory;
mod run;
mod truth;

use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result, bail, ensure};

use crate::{bench, tools};

/// Programs that a measurement needs, by their Debian packages.
const TOOLS: &[(&str, &str)] = &[("as", "binutils"), ("g++", "g++"), ("taskset", "util-linux"), ("wrk", "wrk")];

/// The folder of the peers' libraries.
const GPERFTOOLS: (&str, &str) = ("/usr/include/gperftools/profiler.h", "libgoogle-perftools-dev");

/// The length of measurements.
#[derive(Clone, Copy, Debug)]
struct Effort {
    is_quick: bool,
    /// Turns of each program.
    rounds: usize,
    /// Seconds of work in each.
    seconds: u64,
}

const FULL: Effort = Effort { is_quick: false, rounds: 5, seconds: 4 };
const QUICK: Effort = Effort { is_quick: true, rounds: 1, seconds: 2 };

/// A part: its name, its subject, its function, and the function that builds its programs.
struct Part {
    name: &'static str,
    what: &'static str,
    measure: fn(Effort) -> Result<()>,
    build: fn() -> Result<()>,
}

const PARTS: &[Part] = &[
    Part { name: "sample", what: "one CPU sample, beside an empty handler", measure: cpu::sample, build: profilers },
    Part {
        name: "unwind",
        what: "unwinding alone, beside framehop",
        measure: |_| UNWIND.run(),
        build: || UNWIND.build(),
    },
    Part { name: "error", what: "reported beside used CPU time", measure: truth::error, build: profilers },
    Part { name: "split", what: "a known split of a thread's time", measure: truth::split, build: profilers },
    Part {
        name: "bursts",
        what: "threads that work in bursts or live shortly",
        measure: truth::bursts,
        build: profilers,
    },
    Part { name: "roots", what: "stacks that reach their thread's root", measure: truth::roots, build: profilers },
    Part { name: "heap", what: "heap profilers: cost and truth", measure: heap::measure, build: heap::programs },
    Part {
        name: "sampler",
        what: "the heap sampler by kinds of allocation",
        measure: |_| SAMPLER.run(),
        build: || SAMPLER.build(),
    },
    Part {
        name: "contention",
        what: "what a lock costs more",
        measure: |_| CONTENTION.run(),
        build: || CONTENTION.build(),
    },
    Part { name: "memory", what: "memory that an idle agent adds", measure: memory::measure, build: memory::programs },
    Part { name: "http", what: "an HTTP server with everything on", measure: http::measure, build: http::programs },
];

/// The parsed options.
struct Options {
    effort: Effort,
    /// Build the programs, and measure nothing.
    inputs_only: bool,
    parts: Vec<&'static Part>,
}

/// Measures the named parts, or all.
pub(crate) fn run(arguments: &[String]) -> Result<()> {
    let options = parse(arguments)?;
    tools::require(TOOLS)?;
    let (header, package) = GPERFTOOLS;
    ensure!(Path::new(header).exists(), "missing: {header}; on Debian: sudo apt-get install {package}");
    if options.inputs_only {
        return options
            .parts
            .iter()
            .try_for_each(|part| (part.build)().with_context(|| format!("build for {}", part.name)));
    }
    bench::machine();
    for part in options.parts {
        eprintln!("xtask: {}", part.what);
        (part.measure)(options.effort).with_context(|| format!("measure {}", part.name))?;
    }
    Ok(())
}

fn parse(arguments: &[String]) -> Result<Options> {
    let mut options = Options { effort: FULL, inputs_only: false, parts: Vec::new() };
    for argument in arguments {
        match (argument.as_str(), PARTS.iter().find(|part| part.name == argument)) {
            ("--quick", _) => options.effort = QUICK,
            ("--inputs", _) => options.inputs_only = true,
            (_, Some(part)) => options.parts.push(part),
            _ => {
                let known: Vec<String> = PARTS.iter().map(|part| format!("  {:<12}{}", part.name, part.what)).collect();
                bail!("no part {argument:?}; there are --quick, --inputs and\n{}", known.join("\n"));
            }
        }
    }
    if options.parts.is_empty() {
        options.parts = PARTS.iter().collect();
    }
    Ok(options)
}

/// Every program with a CPU profiler.
fn profilers() -> Result<()> {
    [build::OURS].into_iter().chain(build::PEERS).try_for_each(|profiler| profiler.program().map(drop))
}

/// A bench of the workspace, which contains its peers.
struct Bench {
    package: &'static str,
    features: &'static str,
    name: &'static str,
}

const UNWIND: Bench = Bench { package: "procprof-unwind", features: "", name: "unwind" };
const SAMPLER: Bench = Bench { package: "procprof-agent", features: "heap", name: "heap" };
const CONTENTION: Bench = Bench { package: "procprof-agent", features: "contention", name: "contention" };

impl Bench {
    fn arguments(&self) -> Vec<&'static str> {
        let features: &[&str] = if self.features.is_empty() { &[] } else { &["--features", self.features] };
        [&["-p", self.package, "--bench", self.name], features].concat()
    }

    /// Shows what it prints.
    fn run(&self) -> Result<()> {
        println!("\n## `cargo bench {}`\n\n```", self.arguments().join(" "));
        let ended = self.cargo(&[]);
        println!("```");
        ended
    }

    fn build(&self) -> Result<()> {
        self.cargo(&["--no-run"])
    }

    fn cargo(&self, more: &[&str]) -> Result<()> {
        let mut command = Command::new("cargo");
        command
            .args(["bench", "--quiet", "--locked"])
            .args(self.arguments())
            .args(more)
            .env("CARGO_TARGET_DIR", build::folder()?);
        let status = command.status().context("run cargo bench")?;
        ensure!(status.success(), "cargo bench {} failed", self.arguments().join(" "));
        Ok(())
    }
}

/// The median of some values; NaN if there are none.
fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values.get(values.len() / 2).copied().unwrap_or(f64::NAN)
}

/// The text for a goal.
fn verdict(is_met: bool) -> &'static str {
    if is_met { "met" } else { "missed" }
}
