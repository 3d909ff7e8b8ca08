//! `procprof store import`.

use anyhow::{Context, Result};
use procprof_server::{Config, import_folder};
use procprof_store::{Store, StoreOptions};

use crate::cli::ImportArgs;

/// Imports a folder and says what became of every file.
pub(crate) fn import(arguments: &ImportArgs) -> Result<()> {
    let data = arguments.data.clone().unwrap_or_else(|| Config::defaults().data);
    let store = Store::open(data.clone(), StoreOptions::default())?;
    let report = import_folder(&data, &store, &arguments.dir, &arguments.node, arguments.tz.as_deref())
        .with_context(|| format!("import {}", arguments.dir.display()))?;
    for (name, reason) in &report.refused {
        eprintln!("refused {name}: {reason}");
    }
    println!("{} added, {} already there, {} refused", report.added.len(), report.already_there.len(), report.refused.len());
    Ok(())
}
