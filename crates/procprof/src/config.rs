//! `procprof config check`.

use anyhow::Result;
use procprof_server::Server;

use crate::cli::ConfigCheckArgs;
use crate::serve;

/// Reads a configuration with the files it names, and reports what `serve` would refuse or warn of.
pub(crate) fn check(arguments: &ConfigCheckArgs) -> Result<()> {
    let config = serve::configuration(arguments.config.as_deref(), &arguments.more)?;
    for warning in &config.warnings {
        eprintln!("warning: {warning}");
    }
    let checked =
        Server::check(&config, serve::http_address(&config)?, serve::mysql_address(&config)?, arguments.insecure)?;
    println!("{checked}");
    Ok(())
}
