//! `procprof completions` and `procprof man`: made from the declaration of the command line.

use std::path::Path;

use anyhow::{Context, Result};
use clap::CommandFactory;
use clap_complete::Shell;

use crate::cli::Cli;
use crate::output::print;

const NAME: &str = "procprof";

/// Prints what a shell needs to complete commands and options.
pub(crate) fn completions(shell: Shell) -> Result<()> {
    let mut script = Vec::new();
    clap_complete::generate(shell, &mut Cli::command(), NAME, &mut script);
    print(&script)
}

/// Prints the manual page, or writes one for each command to a folder.
pub(crate) fn man(folder: Option<&Path>) -> Result<()> {
    if let Some(folder) = folder {
        std::fs::create_dir_all(folder).with_context(|| format!("make {}", folder.display()))?;
        return clap_mangen::generate_to(Cli::command(), folder)
            .with_context(|| format!("write to {}", folder.display()));
    }
    let mut page = Vec::new();
    clap_mangen::Man::new(Cli::command()).render(&mut page).context("make the page")?;
    print(&page)
}
