//! `procprof store import`.

use std::process::ExitCode;

use anyhow::{Context, Result};
use procprof_server::{Config, import_folder, wanted_files};
use procprof_store::{NOT_A_NAME, Store, StoreOptions};

use crate::cli::ImportArgs;

/// Ends of files that the user will have taken for profiles, whatever their names.
const PROFILE_ENDS: [&str; 9] = [".gz", ".tgz", ".zst", ".html", ".svg", ".pb", ".pprof", ".prof", ".heap"];

/// Most files that are listed as missing symbols.
const WANTED_MAX: usize = 8;

/// Imports a folder and prints the result for every file; a rejected profile makes the status 1, a log beside them does
/// not.
pub(crate) fn import(arguments: &ImportArgs) -> Result<ExitCode> {
    let data = arguments.data.clone().unwrap_or_else(|| Config::defaults().data);
    // Before anything is made in the folder of the data.
    std::fs::read_dir(&arguments.dir).with_context(|| format!("import {}", arguments.dir.display()))?;
    let store = Store::open(data.clone(), StoreOptions::default())?;
    let report = import_folder(&data, &store, &arguments.dir, &arguments.node, arguments.tz.as_deref())
        .with_context(|| format!("import {}", arguments.dir.display()))?;
    for (name, reason) in &report.refused {
        let reason = reason.strip_prefix(name.as_str()).and_then(|rest| rest.strip_prefix(": ")).unwrap_or(reason);
        eprintln!("refused {name}: {reason}");
    }
    println!(
        "{} added, {} already there, {} refused",
        report.added.len(),
        report.already_there.len(),
        report.refused.len()
    );
    let wanted = wanted_files(&store, report.added.iter().map(|(_, id)| *id))?;
    for (file, count) in wanted.iter().take(WANTED_MAX) {
        eprintln!("wanted: {file}, by {count} of them, for names; once the server runs: procprof symbols push {file}");
    }
    if wanted.len() > WANTED_MAX {
        eprintln!("wanted: {} more files; `procprof symbols list` names them", wanted.len() - WANTED_MAX);
    }
    let is_missed =
        |(name, reason): &(String, String)| reason != NOT_A_NAME || PROFILE_ENDS.iter().any(|end| name.ends_with(end));
    Ok(if report.refused.iter().any(is_missed) { ExitCode::FAILURE } else { ExitCode::SUCCESS })
}
