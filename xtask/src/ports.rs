//! Other platforms: the agent is compiled for them, and the unwinder runs under an emulator.

use std::process::Command;

use anyhow::{Result, bail};

use crate::cargo::{self, Built, Step};
use crate::tools;

/// A target, and its purpose.
const PORTS: &[&str] =
    &["aarch64-unknown-linux-gnu", "x86_64-unknown-linux-musl", "x86_64-apple-darwin", "aarch64-apple-darwin"];

/// Every feature of the agent.
const FEATURES: &str = "axum,contention,heap,symbolize";

const AARCH64: &str = "aarch64-unknown-linux-gnu";

/// What builds and runs code for aarch64, by the Debian packages that have it.
const EMULATED: &[(&str, &str)] = &[
    ("aarch64-linux-gnu-gcc", "gcc-aarch64-linux-gnu"),
    ("/usr/aarch64-linux-gnu/lib/libc.so", "libc6-dev-arm64-cross"),
    ("qemu-aarch64", "qemu-user"),
];

/// Compilers for the C code of dependencies, and their headers, by the Debian packages that have them.
const COMPILERS: &[(&str, &str)] = &[
    ("aarch64-linux-gnu-gcc", "gcc-aarch64-linux-gnu"),
    ("/usr/aarch64-linux-gnu/include/stdio.h", "libc6-dev-arm64-cross"),
    ("musl-gcc", "musl-tools"),
];

/// The agent, with all features and with none, compiles without a warning for every port.
pub(crate) fn check() -> Result<()> {
    tools::ensure_present(COMPILERS)?;
    ensure_targets(PORTS)?;
    for features in ["", FEATURES] {
        let mut arguments = vec!["check", "--locked", "--package", "procprof-agent", "--features", features];
        arguments.extend(PORTS.iter().flat_map(|port| ["--target", port]));
        Step::new(&arguments).env("RUSTFLAGS", "-D warnings").run()?;
    }
    Ok(())
}

/// What runs code for aarch64 here.
pub(crate) const EMULATOR: &[&str] = &["qemu-aarch64", "-L", "/usr/aarch64-linux-gnu"];

/// Builds the tests of the unwinder for aarch64.
///
/// # Errors
/// They cannot be built, or what builds and runs them is missing.
pub(crate) fn build_tests() -> Result<Built> {
    tools::require(EMULATED)?;
    ensure_targets(&[AARCH64])?;
    let mut command = Command::new("cargo");
    command
        .args(["test", "--locked", "--no-run", "--message-format=json"])
        .args(["--package", "procprof-unwind", "--target", AARCH64])
        .env("CARGO_TARGET_AARCH64_UNKNOWN_LINUX_GNU_LINKER", "aarch64-linux-gnu-gcc");
    cargo::build(command)
}

/// Installs the standard library of targets by rustup, or names what is missing.
fn ensure_targets(targets: &[&str]) -> Result<()> {
    let output = Command::new("rustup").args(["target", "list", "--installed"]).output();
    let installed = output.map(|output| String::from_utf8_lossy(&output.stdout).into_owned()).unwrap_or_default();
    let missing: Vec<&str> =
        targets.iter().copied().filter(|target| !installed.lines().any(|line| line == *target)).collect();
    if missing.is_empty() {
        return Ok(());
    }
    eprintln!("xtask: rustup target add {}", missing.join(" "));
    let added =
        Command::new("rustup").args(["target", "add"]).args(&missing).status().is_ok_and(|status| status.success());
    if !added {
        bail!("missing: the Rust targets {}; rustup target add {}", missing.join(", "), missing.join(" "));
    }
    Ok(())
}
