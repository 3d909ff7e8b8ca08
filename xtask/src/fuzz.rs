//! `cargo xtask fuzz [RUNS] [NAME]`: each decoder for that many executions, within limits of time and memory.
//!
//! A decoder is a fuzz target, or a part of one that the environment selects: a format, a kind of file with symbols.
//! Inputs to start from are recorded ones below `testdata` and others made here, so that a fresh clone has them, too.
//! Further inputs that the fuzzer finds stay in `fuzz/corpus`.

mod dense;
mod elf;
mod seeds;
mod sql;

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use anyhow::{Context, Result, bail, ensure};
use procprof_profile::format::FORMATS;

use crate::table::Table;
use crate::tools;

const RUNS: u64 = 100_000;
/// Longest that one input may take by the clock, in seconds, on a machine that may be busy; the targets hold the
/// decoder itself to one second of processor time.
const SECONDS: u32 = 20;
/// Most memory of the process, the sanitizer's own included, in MiB.
const RESIDENT: u32 = 1024;
/// Longest generated input, in bytes; recorded ones may be longer.
const LENGTH: u32 = 16_384;

/// A part that can be run by itself.
struct Decoder {
    target: &'static str,
    /// The part of the target; the whole if empty.
    part: &'static str,
    /// Whether the decoder reaches `unsafe` code; otherwise the sanitizer would only slow it down.
    sanitizer: &'static str,
}

impl Decoder {
    fn name(&self) -> String {
        if self.part.is_empty() { self.target.to_owned() } else { format!("{}-{}", self.target, self.part) }
    }
}

/// Parts of the targets that are not formats.
const PARTS: &[(&str, &[&str], &str)] = &[
    ("decode_profile", &["", "jemalloc-threads", "packed"], "none"),
    ("demangle", &["llvm", "gnu"], "none"),
    ("eh_frame", &[""], "none"),
    ("host_input", &["kernel_types", "process_context"], "none"),
    ("mysql_packet", &["greeting", "command", "connection", "statement", "script"], "none"),
    ("push_body", &["frames", "heartbeat"], "none"),
    ("symbol_answer", &[""], "none"),
    ("symbol_text", &["perf_map", "kallsyms"], "none"),
    ("symbol_index", &[""], "address"),
    ("symbol_file", &["file", "go_table", "mini_debug", "debug_file", "shared", "package", "split"], "address"),
];

fn decoders() -> Vec<Decoder> {
    let formats =
        FORMATS.iter().map(|format| Decoder { target: "decode_profile", part: format.name, sanitizer: "none" });
    let parts = PARTS
        .iter()
        .flat_map(|(target, parts, sanitizer)| parts.iter().map(|part| Decoder { target, part, sanitizer }));
    formats.chain(parts).collect()
}

/// Runs all decoders, or those whose name contains `wanted`; the first input that panics, takes too long or too much
/// memory fails its decoder, and the others run on.
pub(crate) fn run(runs: Option<&str>, wanted: Option<&str>) -> Result<()> {
    let runs = match runs {
        Some(text) => text.parse().with_context(|| format!("runs {text:?}"))?,
        None => RUNS,
    };
    tools::require(&[
        ("rustup", "rustup"),
        ("gcc", "gcc"),
        ("objcopy", "binutils"),
        ("dwz", "dwz"),
        ("dwp", "binutils"),
        ("bzip2", "bzip2"),
        ("xz", "xz-utils"),
        ("zstd", "zstd"),
    ])?;
    tools::ensure_cargo_subcommand("cargo-fuzz")?;
    let host = host()?;
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).parent().context("xtask lies in the workspace")?;
    ensure_all_targets(root)?;
    let decoders: Vec<Decoder> =
        decoders().into_iter().filter(|decoder| decoder.name().contains(wanted.unwrap_or(""))).collect();
    ensure!(!decoders.is_empty(), "no decoder has {:?} in its name", wanted.unwrap_or(""));
    let mut table = Table::new(&[
        "decoder",
        "executions",
        "in a second",
        "slowest",
        "most memory of the decoder",
        "of the process",
        "ended",
    ]);
    let mut failed = Vec::new();
    let mut built = BTreeSet::new();
    for decoder in decoders {
        if built.insert(decoder.target) {
            build(root, &decoder)?;
        }
        eprintln!("xtask: fuzzing {}, {runs} executions", decoder.name());
        let program = target_dir(root, &decoder).join(&host).join("release").join(decoder.target);
        let output = fuzz(root, &program, &decoder, runs)?;
        let text = String::from_utf8_lossy(&output.stderr).into_owned();
        table.row(row(&decoder, &text, output.status.success()));
        if !output.status.success() {
            eprintln!("{text}");
            failed.push(decoder.name());
        }
    }
    table.print(&format!(
        "Fuzzed decoders: at most 1 s of processor time, {RESIDENT} MiB, and of memory what each states"
    ));
    if !failed.is_empty() {
        bail!("{} failed; the inputs are below fuzz/artifacts", failed.join(", "));
    }
    Ok(())
}

fn row(decoder: &Decoder, text: &str, is_well: bool) -> [String; 7] {
    let figure = |name: &str| statistic(text, name).unwrap_or_default();
    let (multiple, time) = worst(text).unwrap_or_default();
    [
        decoder.name(),
        figure("number_of_executed_units"),
        figure("average_exec_per_sec"),
        time,
        multiple,
        format!("{} MiB", figure("peak_rss_mb")),
        if is_well { "well".to_owned() } else { why(text) },
    ]
}

/// Every target of the fuzz manifest is one of the decoders'.
fn ensure_all_targets(root: &Path) -> Result<()> {
    let manifest = fs::read_to_string(root.join("fuzz/Cargo.toml")).context("read fuzz/Cargo.toml")?;
    for entry in manifest.split("[[bin]]").skip(1) {
        let name = entry
            .split_once("name = \"")
            .and_then(|(_, rest)| rest.split('"').next())
            .context("a target has a name")?;
        ensure!(PARTS.iter().any(|(target, ..)| *target == name), "no decoder runs the fuzz target {name}");
    }
    Ok(())
}

/// The machine that the nightly toolchain, which alone can build fuzz targets, builds for.
fn host() -> Result<String> {
    let output = Command::new("rustup").args(["run", "nightly", "rustc", "-vV"]).output().context("run rustup")?;
    ensure!(output.status.success(), "missing: a nightly toolchain; install it with: rustup toolchain install nightly");
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let host =
        text.lines().find_map(|line| line.strip_prefix("host: ")).context("read the host from the output of rustc")?;
    Ok(host.to_owned())
}

/// Builds for different sanitizers would replace each other.
fn target_dir(root: &Path, decoder: &Decoder) -> PathBuf {
    root.join("fuzz/target").join(decoder.sanitizer)
}

fn build(root: &Path, decoder: &Decoder) -> Result<()> {
    let mut command = Command::new("rustup");
    command.args(["run", "nightly", "cargo", "fuzz", "build", "--sanitizer", decoder.sanitizer, "--target-dir"]);
    let status = command
        .arg(target_dir(root, decoder))
        .arg(decoder.target)
        .current_dir(root)
        .status()
        .context("run cargo fuzz")?;
    ensure!(status.success(), "{} does not build", decoder.target);
    Ok(())
}

fn fuzz(root: &Path, program: &Path, decoder: &Decoder, runs: u64) -> Result<Output> {
    let made = tempfile::tempdir().context("make a folder")?;
    seeds::write(root, decoder.target, decoder.part, made.path())
        .with_context(|| format!("make inputs for {}", decoder.name()))?;
    let folder = |kind: &str| {
        let path = root.join("fuzz").join(kind).join(decoder.name());
        fs::create_dir_all(&path).context("make a folder")?;
        Ok::<_, anyhow::Error>(path)
    };
    let mut command = Command::new(program);
    command.arg(folder("corpus")?).arg(made.path());
    if !decoder.part.is_empty() {
        command.env("FUZZ_PART", decoder.part);
    }
    command.args([&format!("-runs={runs}"), &format!("-timeout={SECONDS}"), &format!("-rss_limit_mb={RESIDENT}")]);
    command.args([&format!("-max_len={LENGTH}"), "-print_final_stats=1"]);
    command.arg(format!("-artifact_prefix={}/", folder("artifacts")?.display()));
    command.output().with_context(|| format!("run {}", program.display()))
}

/// A figure that libFuzzer prints at its end.
fn statistic(text: &str, name: &str) -> Option<String> {
    let line = text.lines().find_map(|line| line.strip_prefix("stat::")?.strip_prefix(name));
    Some(line?.trim_matches([':', ' ']).to_owned())
}

/// The most memory and time that the target has reported.
fn worst(text: &str) -> Option<(String, String)> {
    let line = text.lines().rev().find_map(|line| line.strip_prefix("worst: "))?;
    let (memory, time) = line.split_once(", ")?;
    Some((memory.to_owned(), time.to_owned()))
}

/// Its message about the input that ended it.
fn why(text: &str) -> String {
    let line =
        text.lines().find(|line| line.contains("ERROR: ") || line.contains("panicked at") || line.starts_with("error"));
    line.unwrap_or("badly").trim().to_owned()
}
