//! `cargo xtask fuzz [RUNS]`: each fuzz target for that many executions, within limits of time and memory.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use anyhow::{Context, Result, bail, ensure};

use crate::table::Table;
use crate::tools;

const RUNS: u64 = 100_000;
/// Longest that one input may take, in seconds, with the address sanitizer, which alone makes everything about twice as slow.
const SECONDS: u32 = 2;
/// Most memory of the process, the sanitizer's own included, in MiB.
const RESIDENT: u32 = 1024;
/// Largest single allocation, in MiB.
const ALLOCATION: u32 = 256;
/// Longest input that is made up, in bytes; recorded ones may be longer.
const LENGTH: u32 = 65_536;

/// Folders of recorded inputs below `testdata` that a target starts from.
const SEEDS: &[(&str, &str)] = &[("decode_profile", "formats")];

/// Runs all targets; the first input that panics, takes too long or too much memory fails it, after all have run.
pub(crate) fn run(runs: Option<&str>) -> Result<()> {
    let runs = match runs {
        Some(text) => text.parse().with_context(|| format!("runs {text:?}"))?,
        None => RUNS,
    };
    tools::require(&[("rustup", "rustup")])?;
    tools::ensure_cargo_subcommand("cargo-fuzz")?;
    let nightly = Command::new("rustup").args(["run", "nightly", "rustc", "--version"]).output().context("run rustup")?;
    ensure!(nightly.status.success(), "missing: a nightly toolchain; install it with: rustup toolchain install nightly");
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).parent().context("xtask lies in the workspace")?;
    let mut table = Table::new(&["target", "executions", "in a second", "slowest input", "most memory", "ended"]);
    let mut failed = Vec::new();
    for target in targets(root)? {
        eprintln!("xtask: fuzzing {target}, {runs} executions");
        let output = fuzz(root, &target, runs)?;
        let text = String::from_utf8_lossy(&output.stderr).into_owned();
        let told = |name: &str| statistic(&text, name).unwrap_or_default();
        let ended = if output.status.success() { "well".to_owned() } else { why(&text) };
        let (slowest, memory) = (told("slowest_unit_time_sec"), told("peak_rss_mb"));
        let slowest = if slowest == "0" { "below 1 s".to_owned() } else { format!("{slowest} s") };
        table.row([
            target.clone(),
            told("number_of_executed_units"),
            told("average_exec_per_sec"),
            slowest,
            format!("{memory} MiB"),
            ended,
        ]);
        if !output.status.success() {
            eprintln!("{text}");
            failed.push(target);
        }
    }
    table.print(&format!("Fuzz targets: at most {SECONDS} s and {RESIDENT} MiB, {ALLOCATION} MiB at once"));
    if !failed.is_empty() {
        bail!("{} failed; the inputs are below fuzz/artifacts", failed.join(", "));
    }
    Ok(())
}

/// The names of the targets in fuzz/Cargo.toml.
fn targets(root: &Path) -> Result<Vec<String>> {
    let manifest = fs::read_to_string(root.join("fuzz/Cargo.toml")).context("read fuzz/Cargo.toml")?;
    let targets = manifest.split("[[bin]]").skip(1).filter_map(|entry| entry.split_once("name = \"")?.1.split('"').next());
    let targets: Vec<String> = targets.map(str::to_owned).collect();
    ensure!(!targets.is_empty(), "no targets in fuzz/Cargo.toml");
    Ok(targets)
}

fn fuzz(root: &Path, target: &str, runs: u64) -> Result<Output> {
    let corpus = root.join("fuzz/corpus").join(target);
    fs::create_dir_all(&corpus).context("make a folder")?;
    let mut command = Command::new("rustup");
    command.args(["run", "nightly", "cargo", "fuzz", "run", target]).arg(corpus).args(seeds(root, target)?).current_dir(root);
    command.args(["--", &format!("-runs={runs}"), &format!("-timeout={SECONDS}"), &format!("-rss_limit_mb={RESIDENT}")]);
    command.args([&format!("-malloc_limit_mb={ALLOCATION}"), &format!("-max_len={LENGTH}"), "-print_final_stats=1"]);
    command.output().context("run cargo fuzz")
}

/// The folders of a target's recorded inputs: the one named in [`SEEDS`], and those in it.
fn seeds(root: &Path, target: &str) -> Result<Vec<PathBuf>> {
    let mut folders = Vec::new();
    for (_, name) in SEEDS.iter().filter(|(name, _)| *name == target) {
        let folder = root.join("testdata").join(name);
        for entry in fs::read_dir(&folder).with_context(|| format!("list {}", folder.display()))? {
            let path = entry.context("list a folder")?.path();
            folders.extend(path.is_dir().then_some(path));
        }
        folders.push(folder);
    }
    Ok(folders)
}

/// A figure that libFuzzer prints at its end.
fn statistic(text: &str, name: &str) -> Option<String> {
    let line = text.lines().find_map(|line| line.strip_prefix("stat::")?.strip_prefix(name));
    Some(line?.trim_matches([':', ' ']).to_owned())
}

/// What it says of an input that it ended with.
fn why(text: &str) -> String {
    let line = text.lines().find(|line| line.contains("ERROR: ") || line.contains("panicked at") || line.starts_with("error"));
    line.unwrap_or("badly").trim().to_owned()
}
