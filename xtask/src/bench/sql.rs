//! Statements over a large catalog; the server's own benchmark does the work.

use std::process::Command;

use anyhow::{Context, Result, ensure};

use crate::{clients, tools};

pub(super) fn run() -> Result<()> {
    println!("\n## SQL\n");
    tools::ensure_present(&[("mariadbd", "mariadb-server-core")])?;
    clients::ensure_engines()?;
    let status = Command::new("cargo")
        .args(["bench", "--quiet", "--locked", "-p", "procprof-server", "-p", "procprof", "--bench", "sql"])
        .status();
    ensure!(status.context("run cargo bench")?.success(), "cargo bench -p procprof-server failed");
    Ok(())
}
