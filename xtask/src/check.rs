//! `cargo xtask check`: everything that can be told without running the product.

use std::process::Command;

use anyhow::{Context, Result, bail};

use crate::{arrows, ports, tools};

/// Runs every check in turn; stops at the first that fails.
pub(crate) fn run() -> Result<()> {
    cargo(&["fmt", "--all", "--check"])?;
    arrows::check().context("compare the crates with the table of arrows")?;
    cargo(&["clippy", "--workspace", "--all-targets", "--all-features", "--locked", "--", "-D", "warnings"])?;
    ports::check()?;
    documentation()?;
    cargo(&["build", "--manifest-path", "fuzz/Cargo.toml", "--locked"])?;
    tools::ensure_cargo_subcommand("cargo-deny")?;
    cargo(&["deny", "--log-level", "error", "check", "licenses", "bans", "sources"])?;
    eprintln!("xtask: all checks pass");
    Ok(())
}

fn documentation() -> Result<()> {
    let mut command = Command::new("cargo");
    command.args(["doc", "--workspace", "--no-deps", "--all-features", "--locked"]);
    command.env("RUSTDOCFLAGS", "-D warnings");
    finish(command, "doc")
}

fn cargo(arguments: &[&str]) -> Result<()> {
    eprintln!("xtask: cargo {}", arguments.join(" "));
    let mut command = Command::new("cargo");
    command.args(arguments);
    finish(command, arguments[0])
}

fn finish(mut command: Command, what: &str) -> Result<()> {
    let status = command.status().with_context(|| format!("run cargo {what}"))?;
    if !status.success() {
        bail!("cargo {what} failed");
    }
    Ok(())
}
