//! Tasks of this workspace: `cargo xtask check`, `cargo xtask test`, `cargo xtask corpus DIR`.

mod arrows;
mod check;
mod corpus;
mod test;
mod tools;

use std::process::ExitCode;

use anyhow::{Result, bail};

const USAGE: &str = "usage: cargo xtask COMMAND

  check         formatting, lints, documentation, arrows between crates, licences, fuzz targets build
  test [ARG..]  every test; arguments go to cargo test
  corpus DIR    every profile of a folder against the expectation beside it";

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
        _ => bail!("{USAGE}"),
    }
}
