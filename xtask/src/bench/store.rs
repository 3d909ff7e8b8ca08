//! The store by itself; its own benchmark does the work.

use std::process::Command;

use anyhow::{Context, Result, ensure};

pub(super) fn run() -> Result<()> {
    println!("\n## Store\n");
    let status = Command::new("cargo")
        .args(["bench", "--quiet", "--locked", "-p", "procprof-store", "--bench", "store"])
        .status();
    ensure!(status.context("run cargo bench")?.success(), "cargo bench -p procprof-store failed");
    Ok(())
}
