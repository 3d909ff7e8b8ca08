//! `cargo xtask check`: all checks that do not run the product.

use anyhow::{Context, Result, ensure};

use crate::cargo::{self, Step};
use crate::{arrows, browser, docs, markup, modules, places, ports, tools};

/// Runs all checks in turn, those that take seconds first; stops at the first that fails.
pub(crate) fn run() -> Result<()> {
    Step::new(&["fmt", "--all", "--check"]).run()?;
    arrows::check().context("compare the crates with the arrows of ARCHITECTURE.md")?;
    modules::check()?;
    places::check()?;
    markup::check()?;
    browser::check_types()?;
    tools::ensure_cargo_subcommand("cargo-deny")?;
    Step::new(&["deny", "--log-level", "error", "check", "licenses", "bans", "sources"]).run()?;
    advisories()?;
    let everything = cargo::build_everything()?;
    // Without SELECT, `sql::absent` takes the place of the engine; and no other package adds features.
    let mut alone = cargo::linted("check")?;
    alone.args(["--locked", "--package", "procprof", "--no-default-features", "--message-format=json"]);
    let warnings = everything.warnings + cargo::build(alone)?.warnings;
    ensure!(warnings == 0, "{warnings} warnings");
    ports::check()?;
    docs::check()?;
    eprintln!("xtask: all checks pass");
    Ok(())
}

/// Checks the dependencies against the RustSec advisories. If their database cannot be fetched, this is reported, and
/// is a failure only with `PROCPROF_ADVISORIES=required`, since otherwise nothing could be checked on a machine without
/// a network.
fn advisories() -> Result<()> {
    if let Err(error) = Step::new(&["deny", "--log-level", "error", "fetch", "db"]).run() {
        let is_required = std::env::var_os("PROCPROF_ADVISORIES").is_some_and(|value| value == "required");
        if is_required {
            return Err(error);
        }
        eprintln!(
            "xtask: ADVISORIES NOT CHECKED: their database cannot be fetched here ({error}); \
             PROCPROF_ADVISORIES=required fails instead"
        );
        return Ok(());
    }
    Step::new(&["deny", "--log-level", "error", "check", "--disable-fetch", "advisories"]).run()
}
