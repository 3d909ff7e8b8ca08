//! `cargo xtask bench [PART..]`: measures speed and memory of the product beside its peers, for the tables of
//! docs/benchmarks.md.

mod archive;
mod decode;
mod fleet;
mod host;
mod hosts;
mod ingest;
mod month;
mod pages;
mod rest;
mod sql;
mod store;
mod viewer;

use anyhow::{Context, Result, bail};

/// A part: its name, its subject, and its function.
type Part = (&'static str, &'static str, fn() -> Result<()>);

const PARTS: &[Part] = &[
    ("decode", "decoding, beside go tool pprof, jeprof and google-pprof", decode::run),
    ("store", "listing 100,000 profiles, rebuilding a catalog of 10,000", store::run),
    ("rest", "memory and CPU time of a server at rest with 10 nodes", rest::run),
    ("fleet", "100 nodes with a profile a minute each on one core", fleet::run),
    ("hosts", "1,000 and 2,000 hosts with six profiles a minute each, while two users browse", hosts::run),
    ("ingest", "profiles that are pushed as fast as they are taken in, and archived", ingest::run),
    ("host", "recording of processes and hosts from outside, beside perf", host::run),
    ("pages", "time to the first byte of pages with 100,000 profiles", pages::run),
    ("archive", "size and cost of an archive, sums of a day beside DuckDB, ClickHouse and DataFusion", archive::run),
    ("month", "a function's share in 4.3 million profiles of an archive, beside DuckDB", month::run),
    ("sql", "statements over 100,000 profiles, who holds a function, beside MariaDB and DuckDB", sql::run),
    ("viewer", "flame graphs in Chromium, beside google/pprof, speedscope and d3-flame-graph", viewer::run),
];

/// Runs the named parts, or all.
pub(crate) fn run(wanted: &[String]) -> Result<()> {
    if let Some(unknown) = wanted.iter().find(|name| !PARTS.iter().any(|(known, ..)| known == name)) {
        let known: Vec<String> = PARTS.iter().map(|(name, what, _)| format!("  {name:<8}{what}")).collect();
        bail!("no part {unknown:?}; there are\n{}", known.join("\n"));
    }
    machine();
    for (name, what, part) in PARTS {
        if wanted.is_empty() || wanted.iter().any(|wanted| wanted == name) {
            eprintln!("xtask: {what}");
            part().with_context(|| format!("measure {name}"))?;
        }
    }
    Ok(())
}

/// Prints the machine.
pub(crate) fn machine() {
    let first = |path: &str, key: &str| {
        let text = std::fs::read_to_string(path).unwrap_or_default();
        text.lines()
            .find_map(|line| line.strip_prefix(key))
            .map(|value| value.trim_matches([' ', '\t', ':']).to_owned())
            .unwrap_or_default()
    };
    let cores = std::thread::available_parallelism().map_or(0, usize::from);
    let load = std::fs::read_to_string("/proc/loadavg").unwrap_or_default();
    println!(
        "machine: {}, {cores} cores, {} memory, Linux {}, load {}",
        first("/proc/cpuinfo", "model name"),
        first("/proc/meminfo", "MemTotal"),
        first("/proc/sys/kernel/osrelease", ""),
        load.split(' ').next().unwrap_or_default(),
    );
}
