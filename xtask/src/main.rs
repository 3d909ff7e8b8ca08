//! Tasks of this workspace: `cargo xtask check`, `cargo xtask test`, `cargo xtask corpus DIR`, `cargo xtask bench`,
//! `cargo xtask bench-agent`, `cargo xtask bench-peers`, `cargo xtask fuzz`, `cargo xtask soak`.

mod answerer;
mod arrows;
mod bench;
mod bench_agent;
mod bench_peers;
mod browser;
mod cargo;
mod check;
mod clients;
mod corpus;
mod docs;
mod fuzz;
mod http;
mod inputs;
mod markup;
mod modules;
mod places;
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

  check           formatting, lints, documentation, dependencies of crates and modules, licences, ports, fuzz targets build
  modules [CRATE] top modules that depend on each other in a cycle, or the modules that each one of a crate uses
  test [WORD..]   all tests, or those whose names contain one of the words; what fails is run again, alone
  test --unsteady N [WORD..]
                  each test that was unsteady in the last run, or that is named, N times beside two busy loops
  corpus DIR      compares every profile of a folder with the expectation beside it
  bench [PART..]  speed and memory of the product beside its peers: decode, store, rest, fleet, host,
                  pages, archive, viewer
  bench-agent [--quick] [--inputs] [PART..]
                  cost and accuracy of the agent beside other profilers: sample, unwind, error, split, bursts, roots,
                  heap, sampler, contention, memory, http
  bench-peers [--quick] [--inputs] [--only PART]..
                  reports of large programs beside jeprof, pprof and others; builds its inputs first, which takes an hour
  fuzz [RUNS [NAME]]
                  RUNS executions (100,000) of each decoder, or of those whose name contains NAME
  inputs DIR [NAME..]
                  writes profiles whose call trees have 100,000, 1 and 10 million nodes, and the widest one, for
                  measurements of viewers: n100k, n1m, n10m, wide
  soak [SECONDS]  collects from real nodes for that long (600) while some break, then kills the server at random moments;
                  meanwhile the agent runs under storms of signals
  soak hostile [SECONDS]
                  a server under attack by clients and nodes for that long (600), with an ordinary load
  soak fleet [SECONDS]
                  two host agents and a server for that long (600): each killed, a full disk, a token revoked
  soak neighbours [SECONDS]
                  a host agent beside PostgreSQL and hostile programs, for that long (600); needs root
  soak servers [SECONDS]
                  two servers on one bucket for that long (600): each killed, the bucket away, slow and failing, a full
                  disk; needs root
  soak long       tests that are too long for `test`
  soak programs [CAPTURES [NAME]]
                  real programs under the preload library during that many captures (100) of every type";

fn main() -> ExitCode {
    let result =
        if docs::stands_for_rustdoc() { docs::rustdoc() } else { run(&std::env::args().skip(1).collect::<Vec<_>>()) };
    match result {
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
        Some((command, [])) if command == "modules" => modules::list(),
        Some((command, [name])) if command == "modules" => modules::print(name),
        Some((command, more)) if command == "test" => test::run(more),
        Some((command, [folder])) if command == "corpus" => corpus::run(folder.as_ref()),
        Some((command, parts)) if command == "bench" => bench::run(parts),
        Some((command, more)) if command == "bench-agent" => bench_agent::run(more),
        Some((command, more)) if command == "bench-peers" => bench_peers::run(more),
        Some((command, [folder, names @ ..])) if command == "inputs" => {
            inputs::walks::write_trees(folder.as_ref(), names)
        }
        Some((command, [])) if command == "fuzz" => fuzz::run(None, None),
        Some((command, [runs])) if command == "fuzz" => fuzz::run(Some(runs.as_str()), None),
        Some((command, [runs, name])) if command == "fuzz" => fuzz::run(Some(runs.as_str()), Some(name.as_str())),
        Some((command, [])) if command == "soak" => soak::run(None),
        Some((command, [part])) if command == "soak" && part == "long" => soak::run_long(),
        Some((command, [part])) if command == "soak" && part == "hostile" => soak::run_hostile(None),
        Some((command, [part, seconds])) if command == "soak" && part == "hostile" => {
            soak::run_hostile(Some(seconds.as_str()))
        }
        Some((command, [part, more @ ..])) if command == "soak" && part == "fleet" && more.len() <= 1 => {
            soak::run_fleet(more.first().map(String::as_str))
        }
        Some((command, [part, more @ ..])) if command == "soak" && part == "neighbours" && more.len() <= 1 => {
            soak::run_neighbours(more.first().map(String::as_str))
        }
        Some((command, [part, more @ ..])) if command == "soak" && part == "servers" && more.len() <= 1 => {
            soak::run_servers(more.first().map(String::as_str))
        }
        Some((command, [part, more @ ..])) if command == "soak" && part == "programs" && more.len() <= 2 => {
            soak::run_programs(more.first().map(String::as_str), more.get(1).map(String::as_str))
        }
        Some((command, [seconds])) if command == "soak" => soak::run(Some(seconds.as_str())),
        _ => bail!("{USAGE}"),
    }
}
