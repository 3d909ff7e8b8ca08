//! The documentation of all libraries, without a warning.
//!
//! `cargo doc` would check all dependencies first, though the build of the tests has compiled them. `cargo test --doc`
//! hands the compiled ones to rustdoc, whose place this program takes: it writes pages where rustdoc would run examples.

use std::ffi::OsString;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result};

use crate::cargo::{self, Step};

/// Tells this program that it stands for rustdoc; where the pages go.
const PAGES: &str = "PROCPROF_XTASK_DOCS";

/// Options of examples, each with a value, which rustdoc has no use for when it writes pages.
const OF_EXAMPLES: [&str; 3] = ["--test-run-directory", "--test-args", "--test-runtool"];

/// Makes all pages.
///
/// # Errors
/// There is a warning.
pub(crate) fn check() -> Result<()> {
    // The build of the workspace may have put another file in this program's place.
    let own = format!("/proc/{}/exe", std::process::id());
    let pages = std::path::absolute("target/doc")?;
    Step::of(cargo::everything("test", &["--doc"])?).env("RUSTDOC", own).env(PAGES, pages).run()
}

/// Whether this process stands for rustdoc.
pub(crate) fn stands_for_rustdoc() -> bool {
    std::env::var_os(PAGES).is_some()
}

/// Writes the pages of the library whose examples rustdoc was to run.
///
/// # Errors
/// rustdoc cannot be started.
pub(crate) fn rustdoc() -> Result<()> {
    let pages = std::env::var_os(PAGES).context("the folder of the pages")?;
    let error = Command::new("rustdoc")
        .args(without_examples(std::env::args_os().skip(1)))
        .args(["-D", "warnings", "--out-dir"])
        .arg(Path::new(&pages))
        .env_remove(PAGES)
        .exec();
    Err(error).context("run rustdoc")
}

/// rustdoc's arguments without those of examples.
fn without_examples(arguments: impl Iterator<Item = OsString>) -> Vec<OsString> {
    let mut kept = Vec::new();
    let mut arguments = arguments;
    while let Some(argument) = arguments.next() {
        if OF_EXAMPLES.iter().any(|option| argument == *option) {
            arguments.next();
        } else if argument != "--test" {
            kept.push(argument);
        }
    }
    kept
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn options_of_examples_are_left_out() {
        let words = |text: &str| text.split(' ').map(OsString::from).collect::<Vec<_>>();
        let arguments = words("--edition=2024 --test src/lib.rs --test-run-directory /w --extern a=b --test-args x");
        assert_eq!(without_examples(arguments.into_iter()), words("--edition=2024 src/lib.rs --extern a=b"));
    }
}
