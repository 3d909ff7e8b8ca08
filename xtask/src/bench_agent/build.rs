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
}

/// Ours first.
pub(super) const PROFILERS: &[Profiler] = &[
    Profiler { name: "procprof-agent", features: "ours" },
    Profiler { name: "pprof-rs 0.15", features: "pprof-rs" },
    Profiler { name: "pprof-rs 0.15, frame-pointer", features: "pprof-rs,pprof/frame-pointer" },
    Profiler { name: "pprof-rs 0.15, framehop-unwinder", features: "pprof-rs,pprof/framehop-unwinder" },
    Profiler { name: "gperftools", features: "gperftools" },
];

impl Profiler {
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
    let kept = folder.join(format!("{name}-{}-{}", features.replace(['/', ','], "-"), link.len()));
    fs::copy(folder.join("release").join(name), &kept).with_context(|| format!("keep {}", kept.display()))?;
    Ok(kept)
}

/// Where the programs are built and kept.
pub(super) fn folder() -> Result<PathBuf> {
    let folder = product::target()?.join("bench-agent");
    fs::create_dir_all(&folder).with_context(|| format!("make {}", folder.display()))?;
    Ok(folder)
}

fn package() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("peers/profilers")
}
