//! `procprof symbols`: sends symbols to a server, so that profiles of stripped files get their names; lists and removes
//! them.
//!
//! What is sent is an index by address of everything that is known of a file (functions, inlined calls, files, lines),
//! made here: a small part of the debug information's size.

mod files;
mod packed;
mod push;
mod table;

use std::process::ExitCode;

use anyhow::{Context, Result, bail};
use clap::{Args, Subcommand, ValueHint};
use reqwest::Method;
use serde_json::Value;

use crate::remote::{Remote, RemoteArgs};

pub(crate) use push::index_of;

/// What to do with symbols.
#[derive(Debug, Subcommand)]
pub(crate) enum SymbolsCommand {
    /// Upload the symbols of files, so that stored profiles of them have names
    Push(PushArgs),
    /// List the symbols that a server has, and the files whose symbols it lacks
    List(ListArgs),
    /// Remove symbols from a server; profiles named by them keep their names
    Remove(RemoveArgs),
}

/// Options of `symbols push`.
#[derive(Debug, Args)]
pub(crate) struct PushArgs {
    #[command(flatten)]
    remote: RemoteArgs,
    /// Binaries, shared libraries, .debug or .debuginfo files, plain or compressed (.gz, .xz, .zst), or folders with
    /// such. The separate debug file of a stripped binary is found by its build id or its debug link
    #[arg(value_name = "FILE", required = true, value_hint = ValueHint::AnyPath)]
    files: Vec<std::path::PathBuf>,
}

/// Options of `symbols list`.
#[derive(Debug, Args)]
pub(crate) struct ListArgs {
    #[command(flatten)]
    remote: RemoteArgs,
}

/// Options of `symbols remove`.
#[derive(Debug, Args)]
pub(crate) struct RemoveArgs {
    #[command(flatten)]
    remote: RemoteArgs,
    /// Keys as `symbols list` prints them, or unique prefixes of them
    #[arg(value_name = "KEY", required = true)]
    keys: Vec<String>,
}

/// Runs one of them. A push exits with 1 when any file that was named could not be sent.
pub(crate) fn run(command: SymbolsCommand) -> Result<ExitCode> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().context("start the runtime")?;
    runtime.block_on(async {
        match command {
            SymbolsCommand::Push(arguments) => {
                push::run(&Remote::from_arguments(&arguments.remote)?, &arguments.files).await
            }
            SymbolsCommand::List(arguments) => {
                let listed = listed(&Remote::from_arguments(&arguments.remote)?).await?;
                crate::output::print(table::rendered(&listed)).map(|()| ExitCode::SUCCESS)
            }
            SymbolsCommand::Remove(arguments) => {
                remove(&Remote::from_arguments(&arguments.remote)?, &arguments.keys).await
            }
        }
    })
}

async fn listed(remote: &Remote) -> Result<Value> {
    let listed = remote.ask(remote.request(Method::GET, "/api/symbols")).await?;
    if listed["symbols"].is_array() {
        Ok(listed)
    } else {
        bail!("{}: this server knows nothing of symbols", remote.base())
    }
}

async fn remove(remote: &Remote, wanted: &[String]) -> Result<ExitCode> {
    let listed = listed(remote).await?;
    let keys: Vec<&str> =
        listed["symbols"].as_array().into_iter().flatten().filter_map(|row| row["key"].as_str()).collect();
    let whole: Vec<&str> = wanted.iter().map(|wanted| unabbreviated(&keys, wanted)).collect::<Result<_>>()?;
    for key in whole {
        remote.ask(remote.request(Method::DELETE, &format!("/api/symbols/{key}"))).await?;
        println!("{key}: removed");
    }
    Ok(ExitCode::SUCCESS)
}

/// The key that is meant: itself, or the only one that begins so.
fn unabbreviated<'a>(keys: &[&'a str], wanted: &str) -> Result<&'a str> {
    let matching: Vec<&str> = keys.iter().copied().filter(|key| key.starts_with(wanted)).collect();
    match matching.as_slice() {
        [only] => Ok(only),
        [] => bail!("{wanted}: no symbols have that key; `procprof symbols list` prints them"),
        several => several
            .iter()
            .copied()
            .find(|key| *key == wanted)
            .with_context(|| format!("{wanted}: {} keys begin so", several.len())),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_may_be_abbreviated_as_long_as_it_is_the_only_one() {
        let keys = ["00ff", "00ff12", "ab"];
        assert_eq!(unabbreviated(&keys, "a").unwrap(), "ab");
        assert_eq!(unabbreviated(&keys, "00ff").unwrap(), "00ff");
        assert!(unabbreviated(&keys, "00").unwrap_err().to_string().contains("2 keys"));
        assert!(unabbreviated(&keys, "x").is_err());
    }
}
