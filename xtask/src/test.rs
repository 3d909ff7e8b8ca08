//! `cargo xtask test`: every test of the workspace, after seeing that the programs they compare with are there.

use std::process::Command;

use anyhow::{Context, Result, bail};

use crate::tools;

/// Runs all tests; more arguments go to `cargo test`.
pub(crate) fn run(more: &[String]) -> Result<()> {
    tools::ensure()?;
    let status = Command::new("cargo")
        .args(["test", "--workspace", "--all-features", "--locked", "--no-fail-fast"])
        .args(more)
        .status()
        .context("run cargo test")?;
    if !status.success() {
        bail!("tests failed");
    }
    Ok(())
}
