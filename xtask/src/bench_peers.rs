//! `cargo xtask bench-peers`: times whole reports of large programs, from the profile to the picture, beside other
//! tools.
//!
//! The inputs and the peers are built once, below `bench-peers` in the target folder, and reused as long as they are
//! there.

mod build;
mod convert;
mod inputs;
mod measure;
mod parts;
mod peers;
mod run;
mod sql;

use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};

use crate::bench;
use crate::product;
use crate::tools;

/// Programs that a measurement needs, by their Debian packages.
const TOOLS: &[(&str, &str)] = &[
    ("bash", "bash"),
    ("go", "golang-go"),
    ("g++", "g++"),
    ("addr2line", "binutils"),
    ("objcopy", "binutils"),
    ("jeprof", "libjemalloc-dev"),
    ("google-pprof", "google-perftools"),
    ("llvm-symbolizer", "llvm"),
    ("mariadb", "mariadb-client"),
];

/// The parsed options.
#[derive(Default)]
struct Options {
    /// Build the inputs and the peers, and measure nothing.
    inputs_only: bool,
    /// Three runs, and no peer that takes longer than half a minute.
    quick: bool,
    /// Parts to measure; all when there is none.
    only: Vec<String>,
}

/// Builds what is missing, measures, and prints a table for each part.
pub(crate) fn run(arguments: &[String]) -> Result<()> {
    let options = parse(arguments)?;
    tools::require(TOOLS)?;
    let folder = product::target()?.join("bench-peers");
    inputs::ensure(&folder, &options.only)?;
    let is_wanted = |part: &&parts::Part| options.only.is_empty() || options.only.iter().any(|name| name == part.name);
    // SQL has no peer.
    let has_peers = |part: &parts::Part| !part.rows.is_empty();
    let programs = match options.inputs_only || parts::PARTS.iter().filter(is_wanted).any(has_peers) {
        true => Some(peers::ensure(&folder)?),
        false => None,
    };
    if options.inputs_only {
        return Ok(());
    }
    bench::machine();
    if let Some(programs) = &programs {
        println!("programs: {}", programs.versions.join("; "));
    }
    for part in parts::PARTS.iter().filter(is_wanted) {
        eprintln!("xtask: {}: {}", part.name, part.what);
        let measured = match programs.as_ref().filter(|_| has_peers(part)) {
            Some(programs) => run::part(part, &folder, programs, options.quick),
            None => sql::part(part, &folder, options.quick),
        };
        measured.with_context(|| format!("measure {}", part.name))?;
    }
    Ok(())
}

fn parse(arguments: &[String]) -> Result<Options> {
    let mut options = Options::default();
    let mut arguments = arguments.iter();
    while let Some(argument) = arguments.next() {
        match argument.as_str() {
            "--inputs" => options.inputs_only = true,
            "--quick" => options.quick = true,
            "--only" => options.only.push(part_name(arguments.next())?),
            _ => bail!(
                "unknown argument {argument:?}; there are --inputs, --quick and --only NAME, which may be given again"
            ),
        }
    }
    Ok(options)
}

fn part_name(name: Option<&String>) -> Result<String> {
    match name {
        Some(name) if parts::PARTS.iter().any(|part| part.name == name) => Ok(name.clone()),
        _ => {
            let known: Vec<String> =
                parts::PARTS.iter().map(|part| format!("  {:<16}{}", part.name, part.what)).collect();
            bail!("--only takes a part:\n{}", known.join("\n"))
        }
    }
}

/// The sources of the inputs and of the peers' driver.
fn sources() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("peers")
}
