//! `cargo xtask test`: every test of the workspace, after seeing that the programs they compare with are there.

use std::process::Command;

use anyhow::{Context, Result, bail};

use crate::{clients, ports, tools};

/// Runs all tests, and those of the unwinder on aarch64, too; more arguments go to `cargo test`, and leave the latter out.
pub(crate) fn run(more: &[String]) -> Result<()> {
    tools::ensure()?;
    clients::ensure()?;
    let status = Command::new("cargo")
        .args(["test", "--workspace", "--all-features", "--locked", "--no-fail-fast"])
        .args(more)
        .status()
        .context("run cargo test")?;
    if !status.success() {
        bail!("tests failed");
    }
    if more.is_empty() { ports::test() } else { Ok(()) }
}
