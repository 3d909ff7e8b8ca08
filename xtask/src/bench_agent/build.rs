//! The programs that are measured, each with one profiler.

use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, ensure};

use crate::product;

/// A profiler that is measured.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Profiler {
    /// As shown.
    pub(super) name: &'static str,
    features: &'static str,
    /// The engine of procprof's agent.
    pub(super) engine: &'static str,
}

/// procprof's agent with its defaults.
pub(super) const OURS: Profiler = Profiler { name: "procprof-agent", features: "ours", engine: "auto" };
pub(super) const OURS_PERF: Profiler =
    Profiler { name: "procprof-agent, engine=perf", features: "ours", engine: "perf" };
pub(super) const PPROF_RS: Profiler = Profiler { name: "pprof-rs 0.15", features: "pprof-rs", engine: "" };
const PPROF_RS_FRAME_POINTER: Profiler =
    Profiler { name: "pprof-rs 0.15, frame-pointer", features: "pprof-rs,pprof/frame-pointer", engine: "" };
const PPROF_RS_FRAMEHOP: Profiler =
    Profiler { name: "pprof-rs 0.15, framehop-unwinder", features: "pprof-rs,pprof/framehop-unwinder", engine: "" };
pub(super) const GPERFTOOLS: Profiler = Profiler { name: "gperftools", features: "gperftools", engine: "" };

/// The peers, in all their modes.
pub(super) const PEERS: [Profiler; 4] = [PPROF_RS, PPROF_RS_FRAME_POINTER, PPROF_RS_FRAMEHOP, GPERFTOOLS];

impl Profiler {
    /// Whether the goals apply to it.
    pub(super) fn is_ours(self) -> bool {
        !self.engine.is_empty()
    }

    /// Builds the program that measures this one.
    pub(super) fn program(self) -> Result<PathBuf> {
        program("profilers", self.features, &[])
    }
}

/// Builds a program of the package with these features and arguments to the linker, and keeps it by their names.
pub(super) fn program(name: &str, features: &str, link: &[OsString]) -> Result<PathBuf> {
    let folder = folder()?;
    let mut command = Command::new("cargo");
    command.args(["rustc", "--quiet", "--release", "--locked", "--bin", name, "--features", features]);
    command.arg("--").args(link.iter().flat_map(|argument| {
        let mut option = OsString::from("link-arg=");
        option.push(argument);
        [OsString::from("-C"), option]
    }));
    command.current_dir(package()).env("CARGO_TARGET_DIR", &folder);
    let status = command.status().context("run cargo rustc")?;
    ensure!(status.success(), "build {name} with {features}");
    let linked =
        link.iter().filter_map(|argument| Path::new(argument).file_stem()).map(|stem| format!("-{}", stem.display()));
    let kept = folder.join(format!("{name}-{}{}", features.replace(['/', ','], "-"), linked.collect::<String>()));
    if kept.exists() {
        fs::remove_file(&kept).with_context(|| format!("remove {}", kept.display()))?;
    }
    // The next build of the same name makes a new file and leaves this one alone.
    fs::hard_link(folder.join("release").join(name), &kept).with_context(|| format!("keep {}", kept.display()))?;
    Ok(kept)
}

/// Builds the agent that is preloaded.
pub(super) fn preload() -> Result<PathBuf> {
    let folder = folder()?;
    let mut command = Command::new("cargo");
    command
        .args(["build", "--quiet", "--release", "--locked", "-p", "procprof-preload"])
        .env("CARGO_TARGET_DIR", &folder);
    let status = command.status().context("run cargo build")?;
    ensure!(status.success(), "build procprof-preload");
    Ok(folder.join("release/libprocprof_preload.so"))
}

/// The folder of the built programs.
pub(super) fn folder() -> Result<PathBuf> {
    let folder = product::target()?.join("bench-agent");
    fs::create_dir_all(&folder).with_context(|| format!("make {}", folder.display()))?;
    Ok(folder)
}

/// The package that the programs are of.
pub(super) fn package() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("peers/profilers")
}
