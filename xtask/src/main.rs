//! Tasks of this workspace: `cargo xtask check`, `cargo xtask test`, `cargo xtask corpus DIR`, `cargo xtask bench`,
//! `cargo xtask bench-agent`, `cargo xtask bench-peers`, `cargo xtask fuzz`, `cargo xtask soak`.

mod answerer;
mod arrows;
mod bench;
mod bench_agent;
mod bench_peers;
mod check;
mod clients;
mod corpus;
mod fuzz;
mod http;
mod inputs;
mod ports;
mod product;
mod soak;
mod table;
mod test;
mod tools;
mod vitals;

use std::process::ExitCode;

use anyhow::{Result, bail};

const USAGE: &str = "usage: cargo xtask COMMAND

  check           formatting, lints, documentation, arrows between crates, licences, ports and fuzz targets build
  test [ARG..]    every test; arguments go to cargo test
  corpus DIR      every profile of a folder against the expectation beside it
  bench [PART..]  how fast the product is and what it needs, beside its peers: decode, store, rest, fleet, pages
  bench-agent [--quick] [PART..]
                  what the agent costs and how true it is, beside other profilers: sample, unwind, error, bursts, accuracy, heap, contention, memory, http
  bench-peers [--quick] [--inputs] [--only PART]..
                  reports of large programs beside jeprof, pprof and others; builds its inputs first, which takes an hour
  fuzz [RUNS [NAME]]
                  that many executions (100,000) of each decoder, or those with NAME in theirs, within limits of time and memory
  soak [SECONDS]  real nodes collected for that long (600) while some break, then the server killed at random moments; beside it the agent in storms";

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    match run(&arguments) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("xtask: {error:#}");
            ExitCode::FAILURE
        }
    }
}

fn run(arguments: &[String]) -> Result<()> {
    match arguments.split_first() {
        Some((command, [])) if command == "check" => check::run(),
        Some((command, more)) if command == "test" => test::run(more),
        Some((command, [folder])) if command == "corpus" => corpus::run(folder.as_ref()),
        Some((command, parts)) if command == "bench" => bench::run(parts),
        Some((command, more)) if command == "bench-agent" => bench_agent::run(more),
        Some((command, more)) if command == "bench-peers" => bench_peers::run(more),
        Some((command, [])) if command == "fuzz" => fuzz::run(None, None),
        Some((command, [runs])) if command == "fuzz" => fuzz::run(Some(runs.as_str()), None),
        Some((command, [runs, name])) if command == "fuzz" => fuzz::run(Some(runs.as_str()), Some(name.as_str())),
        Some((command, [])) if command == "soak" => soak::run(None),
        Some((command, [seconds])) if command == "soak" => soak::run(Some(seconds.as_str())),
        _ => bail!("{USAGE}"),
    }
}
